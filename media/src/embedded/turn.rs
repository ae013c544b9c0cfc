//! TURN servers, which relay the media of clients whose network lets nothing else through: the one in this process, and external ones.
//! Clients get their urls with credentials that expire, as coturn checks them with `use-auth-secret`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use conclave_model::{Clock, ParticipantSid, Secret, Timestamp};
use conclave_sfu::Workers;
use conclave_turn::credentials::{password, username};
use conclave_turn::{PATIENCE, TurnServer, TurnSettings, UdpRelay};
use livekit_protocol::IceServer;

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

/// The TURN server in this process, and its thread for clients by UDP if it has one. It ends when this is dropped.
pub struct OwnTurn {
    /// What answers clients, over each transport.
    pub server: TurnServer,
    /// The urls that clients are given.
    pub urls: Vec<String>,
    udp: Option<UdpRelay>,
}

impl From<TurnCredentials> for IceServer {
    fn from(server: TurnCredentials) -> Self {
        let TurnCredentials {
            urls,
            username,
            credential,
        } = server;
        Self {
            urls,
            username,
            credential: credential.reveal().to_owned(),
        }
    }
}

impl TurnServers {
    /// Returns the servers with credentials for a participant.
    pub(super) fn for_participant(&self, sid: &ParticipantSid, now: Timestamp) -> TurnCredentials {
        let username = username(sid.as_str(), now.after(self.ttl));
        let credential = password(&self.secret, &username);
        TurnCredentials {
            urls: self.urls.clone(),
            username,
            credential,
        }
    }
}

impl OwnTurn {
    /// A server that relays to these media workers. It has no clients yet.
    pub(super) fn new(
        secret: Secret,
        workers: &Workers,
        clock: Clock,
        max_allocations: usize,
    ) -> Self {
        let peers = workers.udp_addresses();
        let settings = TurnSettings {
            secret,
            peers: &peers,
            clock,
            patience: PATIENCE,
            max_allocations,
        };
        Self {
            server: TurnServer::new(settings),
            urls: Vec::new(),
            udp: None,
        }
    }

    /// Serves clients by UDP at this port of the addresses that the media workers listen on; at a free one for 0. Returns the port.
    ///
    /// # Errors
    /// It cannot be bound, or the thread cannot be started.
    pub fn serve_udp(&mut self, addresses: &[IpAddr], port: u16) -> io::Result<u16> {
        let relay = self.server.serve_udp(addresses, port)?;
        let port = relay.addresses().first().map_or(port, SocketAddr::port);
        self.udp = Some(relay);
        Ok(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(secret: &str) -> TurnServers {
        TurnServers {
            urls: vec!["turn:a".into()],
            secret: Secret::new(secret),
            ttl: Duration::from_secs(60),
        }
    }

    #[test]
    fn credentials_name_their_expiry_and_the_participant_and_depend_on_the_secret() {
        let now = Timestamp::from_millis(1_000_500);
        let given = servers("a").for_participant(&"PA_alice".parse().unwrap(), now);
        assert_eq!(
            (given.urls.as_slice(), given.username.as_str()),
            (["turn:a".to_owned()].as_slice(), "1060:PA_alice")
        );
        let other = servers("b").for_participant(&"PA_alice".parse().unwrap(), now);
        assert_eq!(
            given.credential,
            password(&Secret::new("a"), "1060:PA_alice")
        );
        assert_ne!(given.credential.reveal(), other.credential.reveal());
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert!(!format!("{:?}", servers("hush")).contains("hush"));
    }
}
