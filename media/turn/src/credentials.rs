//! Credentials that expire: the user name is the Unix time of expiry and a name, the password an HMAC of it under a secret
//! (draft-uberti-behave-turn-rest-00). coturn checks them with `use-auth-secret`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conclave_model::{Secret, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

/// Returns the user name of a participant, which is valid until `expires`.
pub fn username(name: &str, expires: Timestamp) -> String {
    format!("{}:{name}", expires.millis() / 1_000)
}

/// Returns the password that belongs to a user name: its HMAC-SHA1 in base64.
pub fn password(secret: &Secret, username: &str) -> Secret {
    Secret::new(STANDARD.encode(hmac_sha1(secret.reveal().as_bytes(), username.as_bytes())))
}

/// Returns the name in a user name that is still valid.
pub(crate) fn valid_name(username: &str, now: Timestamp) -> Option<&str> {
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
}
