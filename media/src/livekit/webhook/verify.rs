//! Verification of webhooks: an access token signed with the API secret, which contains the hash of the body.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;

use crate::token::{TokenError, TokenSigner};

/// Accepted difference between LiveKit's clock and this server's.
const LEEWAY: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct WebhookClaims {
    #[serde(default)]
    iss: String,
    exp: i64,
    #[serde(default)]
    nbf: i64,
    /// SHA-256 of the body, in base64.
    #[serde(default)]
    sha256: String,
}

/// Why a webhook is not accepted as LiveKit's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum VerifyWebhookError {
    /// The token is missing, expired, or signed with another key.
    #[error("{0}; is webhook.api_key in LiveKit's configuration the key in media.api_key?")]
    Token(TokenError),
    /// The body does not have the hash that was signed.
    #[error("the body is not what was signed; does a proxy change it?")]
    Body,
}

/// A verified token of a webhook. Holds the hash that its body must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSignature {
    sha256: Vec<u8>,
}

impl WebhookSignature {
    /// Verifies that a body is the one that was signed.
    pub(super) fn verify_body(&self, body: &[u8]) -> Result<(), VerifyWebhookError> {
        let matches: bool = Sha256::digest(body).as_slice().ct_eq(&self.sha256).into();
        if matches {
            Ok(())
        } else {
            Err(VerifyWebhookError::Body)
        }
    }
}

/// Verifies the token in the `Authorization` header. LiveKit sends the token alone; a `Bearer` prefix is accepted too.
pub(super) fn verify_token(
    signer: &TokenSigner,
    authorization: &str,
    now: Timestamp,
) -> Result<WebhookSignature, VerifyWebhookError> {
    let token = authorization.trim();
    let token = token.strip_prefix("Bearer ").unwrap_or(token).trim();
    let claims: WebhookClaims = signer.decode(token).map_err(VerifyWebhookError::Token)?;
    check_claims(&claims, signer, now).map_err(VerifyWebhookError::Token)?;
    let sha256 = STANDARD
        .decode(&claims.sha256)
        .map_err(|_| VerifyWebhookError::Body)?;
    Ok(WebhookSignature { sha256 })
}

fn check_claims(
    claims: &WebhookClaims,
    signer: &TokenSigner,
    now: Timestamp,
) -> Result<(), TokenError> {
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

#[cfg(test)]
mod tests {
    use conclave_model::Secret;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_accepted_from_a_minute_before_it_is_valid_until_a_minute_after_it_has_expired() {
        let signer = TokenSigner::new("APIkey", &Secret::new("secret"));
        let claims = json!({"iss": "APIkey", "nbf": 1_000, "exp": 1_300, "sha256": ""});
        let token = signer.encode(&claims).unwrap();
        let at = |millis| {
            verify_token(&signer, token.reveal(), Timestamp::from_millis(millis)).map(|_| ())
        };
        assert_eq!(
            at(939_999),
            Err(VerifyWebhookError::Token(TokenError::NotYetValid))
        );
        assert_eq!((at(940_000), at(1_359_999)), (Ok(()), Ok(())));
        assert_eq!(
            at(1_360_000),
            Err(VerifyWebhookError::Token(TokenError::Expired))
        );
    }
}
