//! The nonces of authentication. Nothing is kept of those that were given: a nonce holds its expiry and a code that only this server
//! can make, for one address.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conclave_model::secret::random_bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// How long a nonce is valid.
const LIFE: Duration = Duration::from_secs(3_600);

/// The bytes of the code in a nonce. Few, so that what a stranger is sent is hardly longer than what it has sent.
const CODE_BYTES: usize = 8;

/// Makes nonces and recognises them.
pub struct Nonces {
    key: [u8; 32],
}

impl Nonces {
    /// Takes a random key: nonces of another run are not recognised, and clients get a new one.
    pub fn new() -> Self {
        Self {
            key: random_bytes(),
        }
    }

    /// Returns a nonce for a client at this time since the start of the clock.
    pub fn make(&self, client: SocketAddr, now: Duration) -> String {
        let expires = u32::try_from((now + LIFE).as_secs())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        let code = self.code(client, expires);
        URL_SAFE_NO_PAD.encode([&expires[..], &code[..]].concat())
    }

    /// Returns whether this is a nonce of this client that has not expired.
    pub fn is_valid(&self, nonce: &str, client: SocketAddr, now: Duration) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(nonce) else {
            return false;
        };
        let Some((expires, code)) = bytes.split_first_chunk::<4>() else {
            return false;
        };
        let is_own = bool::from(self.code(client, *expires).ct_eq(code));
        is_own && now.as_secs() < u64::from(u32::from_be_bytes(*expires))
    }

    #[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
    fn code(&self, client: SocketAddr, expires: [u8; 4]) -> [u8; CODE_BYTES] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        mac.update(&expires);
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
    fn a_nonce_is_of_one_client_for_an_hour() {
        let (nonces, now) = (Nonces::new(), Duration::from_secs(100));
        let [client, other] =
            ["192.0.2.1:5000", "192.0.2.1:5001"].map(|address| address.parse().unwrap());
        let nonce = nonces.make(client, now);
        assert!(nonces.is_valid(&nonce, client, now + LIFE - Duration::from_secs(1)));
        assert!(!nonces.is_valid(&nonce, client, now + LIFE));
        assert!(!nonces.is_valid(&nonce, other, now));
        assert!(!Nonces::new().is_valid(&nonce, client, now));
        for text in ["", "A", "AAAA", "AAAAAAAAAAAAAAAA", "ä", &nonce[1..]] {
            assert!(!nonces.is_valid(text, client, now), "{text}");
        }
    }
}
