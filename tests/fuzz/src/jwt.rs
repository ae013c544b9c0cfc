//! JWTs that are signed here, so that inputs pass the signature check.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// API key of the media plane.
pub const KEY: &str = "APIfuzz";
/// API secret of the media plane.
pub const SECRET: &str = "a secret of at least thirty-two characters";

/// Returns a token with this header and payload, signed with HS256 regardless of the header.
#[must_use]
pub fn sign(header: &[u8], payload: &[u8]) -> String {
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(payload)
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(signed.as_bytes());
    format!(
        "{signed}.{}",
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    )
}

/// Returns a token with the usual header.
#[must_use]
pub fn sign_hs256(payload: &[u8]) -> String {
    sign(br#"{"typ":"JWT","alg":"HS256"}"#, payload)
}
