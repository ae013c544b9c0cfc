//! Authentication: participants' credentials, and nonces.
//!
//! Credentials expire. The user name is the Unix time at expiry and a name, the password its HMAC
//! under a secret (draft-uberti-behave-turn-rest-00). coturn checks the same scheme with
//! `use-auth-secret`.
//!
//! Nonces need no state: a nonce holds its expiry, and a code that only this server can compute for
//! the client's address.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use conclave_model::secret::random_bytes;
use conclave_model::{Secret, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

const NONCE_LIFE: Duration = Duration::from_secs(3_600);

/// Length of a nonce's code. It is short, so that a challenge is hardly longer than the request:
/// otherwise, forged requests would be amplified.
const CODE_BYTES: usize = 8;

/// Returns a user name that is valid until `expires`.
pub fn username(name: &str, expires: Timestamp) -> String {
    format!("{}:{name}", expires.millis() / 1_000)
}

/// Returns a user name's password: its HMAC-SHA1 in base64.
pub fn password(secret: &Secret, username: &str) -> Secret {
    Secret::new(STANDARD.encode(hmac_sha1(secret.reveal().as_bytes(), username.as_bytes())))
}

/// Returns the name in a user name, unless the user name has expired.
pub(crate) fn valid_name(username: &str, now: Timestamp) -> Option<&str> {
    // At the first colon, since times have none.
    let (expires, name) = username.split_once(':')?;
    let expires: i64 = expires.parse().ok()?;
    (now.millis() / 1_000 < expires).then_some(name)
}

#[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
fn hmac_sha1(key: &[u8], message: &[u8]) -> [u8; 20] {
    let mut mac = Hmac::<Sha1>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// Issues and checks nonces.
pub(crate) struct Nonces {
    key: [u8; 32],
}

impl Nonces {
    /// Creates an issuer with a random key. Nonces from an earlier run are stale, so clients get a
    /// new one.
    pub fn new() -> Self {
        Self {
            key: random_bytes(),
        }
    }

    /// Returns a nonce for a client. `now` is the clock's monotonic time.
    pub fn make(&self, client: SocketAddr, now: Duration) -> String {
        // Four bytes suffice for seconds since the process started.
        let expires = u32::try_from((now + NONCE_LIFE).as_secs())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        let code = self.code(client, expires);
        URL_SAFE_NO_PAD.encode([&expires[..], &code[..]].concat())
    }

    /// Returns whether a nonce was issued for this client and has not expired.
    pub fn is_valid(&self, nonce: &str, client: SocketAddr, now: Duration) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(nonce) else {
            return false;
        };
        let Some((expires, code)) = bytes.split_first_chunk::<4>() else {
            return false;
        };
        // In constant time, so that the code cannot be guessed byte by byte.
        let is_own = bool::from(self.code(client, *expires).ct_eq(code));
        is_own && now.as_secs() < u64::from(u32::from_be_bytes(*expires))
    }

    #[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
    fn code(&self, client: SocketAddr, expires: [u8; 4]) -> [u8; CODE_BYTES] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        mac.update(&expires);
        // Bound to the address: a nonce seen on one path is useless on another.
        mac.update(client.to_string().as_bytes());
        let code = mac.finalize().into_bytes();
        let mut first = [0; CODE_BYTES];
        first.copy_from_slice(&code[..CODE_BYTES]);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_that_of_rfc_2202() {
        let mac = hmac_sha1(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(mac[..4], [0xef, 0xfc, 0xdf, 0x6a]);
    }

    #[test]
    fn a_user_name_is_valid_until_the_second_in_it() {
        let at = Timestamp::from_millis;
        let name = username("PA_alice", at(60_500));
        assert_eq!(name, "60:PA_alice");
        assert_eq!(valid_name(&name, at(59_999)), Some("PA_alice"));
        for invalid in [name.as_str(), "", "PA_alice", ":PA_alice", "x:PA_alice"] {
            assert_eq!(valid_name(invalid, at(60_000)), None, "{invalid}");
        }
    }

    #[test]
    fn a_password_depends_on_the_secret_and_on_the_name() {
        let made = |secret: &str, name: &str| password(&Secret::new(secret), name);
        assert_eq!(
            made("a", "1:b").reveal(),
            STANDARD.encode(hmac_sha1(b"a", b"1:b"))
        );
        assert_ne!(made("a", "1:b"), made("b", "1:b"));
        assert_ne!(made("a", "1:b"), made("a", "2:b"));
    }

    #[test]
    fn a_nonce_is_of_one_client_for_an_hour() {
        let (nonces, now) = (Nonces::new(), Duration::from_secs(100));
        let [client, other] =
            ["192.0.2.1:5000", "192.0.2.1:5001"].map(|address| address.parse().unwrap());
        let nonce = nonces.make(client, now);
        assert!(nonces.is_valid(&nonce, client, now + NONCE_LIFE - Duration::from_secs(1)));
        assert!(!nonces.is_valid(&nonce, client, now + NONCE_LIFE));
        assert!(!nonces.is_valid(&nonce, other, now));
        assert!(!Nonces::new().is_valid(&nonce, client, now));
        for text in ["", "A", "AAAA", "AAAAAAAAAAAAAAAA", "ä", &nonce[1..]] {
            assert!(!nonces.is_valid(text, client, now), "{text}");
        }
    }
}
