//! The two signatures of a delivery, keyed with the same secret.
//!
//! `X-Svc-Signature` is this API's own and covers the body alone. The Standard Webhooks signature
//! also covers the id and the time. Their keys differ: the first uses the secret's text, the second
//! the bytes that its base64 encodes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conclave_model::Secret;
use conclave_model::secret::random_bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Prefix of signing secrets.
const PREFIX: &str = "whsec_";

/// Generates a signing secret: `whsec_` and 32 random bytes in base64.
pub fn generate_secret() -> Secret {
    Secret::new(format!("{PREFIX}{}", STANDARD.encode(random_bytes::<32>())))
}

/// Returns the value for `X-Svc-Signature`: `sha256=` and the HMAC-SHA256 of the raw `body` in
/// lower-case hex, keyed with the whole secret as text.
pub(super) fn svc_signature(secret: &Secret, body: &[u8]) -> String {
    let hex = hex::encode(hmac_sha256(secret.reveal().as_bytes(), &[body]));
    format!("sha256={hex}")
}

/// Returns the value for `webhook-signature`: `v1,` and the HMAC-SHA256 of
/// `{id}.{timestamp}.{body}` in base64, keyed with the bytes after `whsec_`. The timestamp is in
/// Unix seconds and must equal `webhook-timestamp`.
pub(super) fn standard_signature(
    secret: &Secret,
    id: &str,
    timestamp_seconds: i64,
    body: &[u8],
) -> String {
    let head = format!("{id}.{timestamp_seconds}.");
    let mac = hmac_sha256(&standard_key(secret), &[head.as_bytes(), body]);
    format!("v1,{}", STANDARD.encode(mac))
}

/// Returns the bytes after the prefix. For a secret in another format, the key is its text.
fn standard_key(secret: &Secret) -> Vec<u8> {
    let text = secret.reveal();
    // Secrets need not have the usual format.
    let decoded = text
        .strip_prefix(PREFIX)
        .and_then(|base64| STANDARD.decode(base64).ok());
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

#[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    // In parts, so that a large body is not copied.
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes 0 to 31.
    const COUNTING: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const BODY: &str = r#"{"type":"room.started","room":"Küche"}"#;

    #[test]
    fn the_svc_signature_is_keyed_with_the_secret_as_shown() {
        let expected = "sha256=dc708f41802ea3e01b0cee8af1f481b32827f88d4aca6f7164fdd82674a7d558";
        assert_eq!(
            svc_signature(&Secret::new(COUNTING), BODY.as_bytes()),
            expected
        );
    }

    #[test]
    fn the_standard_signature_is_keyed_with_the_bytes_behind_the_prefix() {
        let signed = standard_signature(
            &Secret::new(COUNTING),
            "0192f5a0-0000-7000-8000-000000000001",
            1_700_000_000,
            BODY.as_bytes(),
        );
        assert_eq!(signed, "v1,BcWNxRo73ReRtLZivwN0a9jiLnblR6gUUQNnrlt5Kvs=");
    }

    #[test]
    fn the_example_of_the_standard_comes_out_as_published() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        let signed =
            standard_signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_in_another_format_keys_with_its_text() {
        let signed = standard_signature(&Secret::new("plain"), "a", 1, b"x");
        assert_eq!(signed, "v1,bQYE8Bwu7W8gQ5jiJox+yEi3HQPJ7tszffrpx95TI7c=");
    }

    #[test]
    fn a_generated_secret_is_the_prefix_and_32_bytes_and_never_the_same() {
        let (one, other) = (generate_secret(), generate_secret());
        assert_eq!(
            STANDARD
                .decode(one.reveal().strip_prefix("whsec_").unwrap())
                .unwrap()
                .len(),
            32
        );
        assert_ne!(one, other);
    }
}
