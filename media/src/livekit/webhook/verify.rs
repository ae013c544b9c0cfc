//! Whether a webhook is LiveKit's: a token signed with the secret that both know, with the hash of the body in it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::token::{TokenError, TokenSigner};

/// How far two clocks may be apart.
const LEEWAY: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    iss: String,
    exp: i64,
    #[serde(default)]
    nbf: i64,
    #[serde(default)]
    sha256: String,
}

/// Why a webhook is not taken for LiveKit's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unverified {
    /// The token is not ours.
    #[error("{0}; is webhook.api_key in LiveKit's configuration the key in media.api_key?")]
    Token(TokenError),
    /// The body is not the one that was signed.
    #[error("the body is not what was signed; does a proxy change it?")]
    Body,
}

/// Checks the token and the body against each other. LiveKit sends the bare token; `Bearer` in front of it is taken too.
pub(super) fn check(signer: &TokenSigner, authorization: &str, raw: &[u8], now: Timestamp) -> Result<(), Unverified> {
    let token = authorization.trim();
    let token = token.strip_prefix("Bearer ").unwrap_or(token).trim();
    let claims: Claims = signer.open(token).map_err(Unverified::Token)?;
    in_time(&claims, signer, now).map_err(Unverified::Token)?;
    let signed = STANDARD.decode(&claims.sha256).map_err(|_| Unverified::Body)?;
    if bool::from(Sha256::digest(raw).as_slice().ct_eq(&signed)) { Ok(()) } else { Err(Unverified::Body) }
}

fn in_time(claims: &Claims, signer: &TokenSigner, now: Timestamp) -> Result<(), TokenError> {
    let instant = |seconds: i64| Timestamp::from_millis(seconds.saturating_mul(1_000));
    if claims.iss != signer.api_key() {
        Err(TokenError::Issuer)
    } else if now >= instant(claims.exp).after(LEEWAY) {
        Err(TokenError::Expired)
    } else if now < instant(claims.nbf).before(LEEWAY) {
        Err(TokenError::NotYetValid)
    } else {
        Ok(())
    }
}
