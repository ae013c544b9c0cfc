//! TURN servers, which relay the media of clients whose network lets nothing else through. They are external: clients get
//! their urls with credentials that expire, as coturn checks them with `use-auth-secret`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::{Identity, Secret, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use livekit_protocol::IceServer;
use sha1::Sha1;

/// TURN servers that share a secret with this server. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct TurnServers {
    /// Their urls, such as `turn:turn.example.com:3478?transport=udp`.
    pub urls: Vec<String>,
    /// The shared secret (coturn's `static-auth-secret`).
    pub secret: Secret,
    /// How long credentials are valid.
    pub ttl: Duration,
}

/// TURN servers with credentials for one participant. `Debug` shows no credential.
#[derive(Debug, Clone)]
pub struct TurnCredentials {
    /// The urls of the servers, `turn:` or `turns:`.
    pub urls: Vec<String>,
    /// The user name.
    pub username: String,
    /// The password: an HMAC of the user name under the shared secret.
    pub credential: Secret,
}

impl From<TurnCredentials> for IceServer {
    fn from(server: TurnCredentials) -> Self {
        let TurnCredentials { urls, username, credential } = server;
        Self { urls, username, credential: credential.reveal().to_owned() }
    }
}

impl TurnServers {
    /// Returns the servers with credentials for a participant: the user name is the Unix time of expiry and the identity, the
    /// password its HMAC-SHA1 in base64 (draft-uberti-behave-turn-rest-00).
    pub(super) fn for_participant(&self, identity: &Identity, now: Timestamp) -> TurnCredentials {
        let username = format!("{}:{identity}", now.after(self.ttl).millis() / 1_000);
        let credential = STANDARD.encode(hmac_sha1(self.secret.reveal().as_bytes(), username.as_bytes()));
        TurnCredentials { urls: self.urls.clone(), username, credential: Secret::new(credential) }
    }
}

#[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
fn hmac_sha1(key: &[u8], message: &[u8]) -> [u8; 20] {
    let mut mac = Hmac::<Sha1>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(secret: &str) -> TurnServers {
        TurnServers { urls: vec!["turn:a".into()], secret: Secret::new(secret), ttl: Duration::from_secs(60) }
    }

    #[test]
    fn hmac_is_that_of_rfc_2202() {
        let mac = hmac_sha1(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(mac[..4], [0xef, 0xfc, 0xdf, 0x6a]);
    }

    #[test]
    fn credentials_name_their_expiry_and_the_identity_and_depend_on_the_secret() {
        let now = Timestamp::from_millis(1_000_500);
        let given = servers("a").for_participant(&"alice".parse().unwrap(), now);
        assert_eq!((given.urls.as_slice(), given.username.as_str()), (["turn:a".to_owned()].as_slice(), "1060:alice"));
        let other = servers("b").for_participant(&"alice".parse().unwrap(), now);
        assert_eq!(given.credential.reveal(), STANDARD.encode(hmac_sha1(b"a", b"1060:alice")));
        assert_ne!(given.credential.reveal(), other.credential.reveal());
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert!(!format!("{:?}", servers("hush")).contains("hush"));
    }
}
