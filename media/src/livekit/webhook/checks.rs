//! Checks of a webhook: that LiveKit signed it, and that it was not handled before.
//!
//! The signature is an access token, signed with the API secret, which contains the body's hash. Ids of recently
//! handled webhooks are kept, so that a repeated webhook has no effect.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

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

/// Reason why a webhook is not accepted as sent by LiveKit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum VerifyWebhookError {
    /// The token is missing, expired, or signed with another key.
    #[error("{0}; is webhook.api_key in LiveKit's configuration the key in media.api_key?")]
    Token(TokenError),
    /// The body's hash differs from the signed one.
    #[error("the body differs from the signed one; does a proxy change it?")]
    Body,
}

/// A webhook's verified token. Holds the hash that the body must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSignature {
    sha256: Vec<u8>,
}

impl WebhookSignature {
    /// Verifies that a body is the signed one.
    pub(super) fn verify_body(&self, body: &[u8]) -> Result<(), VerifyWebhookError> {
        // In constant time, so that the time reveals nothing about the expected hash.
        let matches: bool = Sha256::digest(body).as_slice().ct_eq(&self.sha256).into();
        if matches {
            Ok(())
        } else {
            Err(VerifyWebhookError::Body)
        }
    }
}

/// Verifies the `Authorization` header's token. LiveKit sends only the token; a `Bearer` prefix is accepted too.
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
    // Not `TokenSigner::verify`: a webhook's token has no grant, and its times need leeway, since LiveKit's clock may
    // differ.
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

/// Maximum number of recorded ids. LiveKit repeats an event within seconds or not at all.
const MAX_RECORDED_IDS: usize = 10_000;

/// Ids of webhooks that are in progress or were recorded recently.
#[derive(Debug, Default)]
pub(super) struct WebhookDedup(Mutex<WebhookIds>);

#[derive(Debug, Default)]
struct WebhookIds {
    in_progress: HashSet<Box<str>>,
    recorded: HashSet<Box<str>>,
    /// Ids in `recorded`, oldest first.
    order: VecDeque<Box<str>>,
}

/// State of a webhook's id.
#[derive(Debug)]
pub(super) enum DedupState<'a> {
    /// Not seen before, or not recorded then. In progress until the ticket is dropped.
    New(DedupTicket<'a>),
    /// Another request with this id is in progress.
    InProgress,
    /// The webhook's contents are durable.
    Recorded,
}

/// Marks an id as in progress. If it is dropped without [`DedupTicket::mark_recorded`], the id counts as new again, so
/// that a repetition is handled.
#[derive(Debug)]
pub(super) struct DedupTicket<'a> {
    dedup: &'a WebhookDedup,
    id: Box<str>,
    is_recorded: bool,
}

impl DedupTicket<'_> {
    /// Ends the progress: the webhook's contents are durable.
    pub fn mark_recorded(mut self) {
        self.is_recorded = true;
    }
}

impl Drop for DedupTicket<'_> {
    fn drop(&mut self) {
        // Runs even if the request is cancelled or panics, so no id stays in progress.
        self.dedup.finish(&self.id, self.is_recorded);
    }
}

impl WebhookDedup {
    /// Looks up an id, and marks it as in progress if it is new.
    pub fn start(&self, id: &str) -> DedupState<'_> {
        let mut ids = self.0.lock();
        if ids.recorded.contains(id) {
            DedupState::Recorded
        // Looked up and marked under one lock: two concurrent repetitions cannot both be new.
        } else if ids.in_progress.insert(id.into()) {
            DedupState::New(DedupTicket {
                dedup: self,
                id: id.into(),
                is_recorded: false,
            })
        } else {
            DedupState::InProgress
        }
    }

    fn finish(&self, id: &str, is_recorded: bool) {
        let mut ids = self.0.lock();
        // A webhook that was not recorded is new again, since LiveKit repeats it.
        ids.in_progress.remove(id);
        if is_recorded && ids.recorded.insert(id.into()) {
            ids.order.push_back(id.into());
            if ids.order.len() > MAX_RECORDED_IDS
                && let Some(oldest) = ids.order.pop_front()
            {
                ids.recorded.remove(&oldest);
            }
        }
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

    fn start<'a>(dedup: &'a WebhookDedup, id: &str) -> DedupTicket<'a> {
        match dedup.start(id) {
            DedupState::New(ticket) => ticket,
            known => panic!("{id} is known: {known:?}"),
        }
    }

    #[test]
    fn a_webhook_that_was_not_recorded_is_new_when_it_is_repeated() {
        let dedup = WebhookDedup::default();
        let ticket = start(&dedup, "EV_1");
        assert!(matches!(dedup.start("EV_1"), DedupState::InProgress));
        drop(ticket);
        start(&dedup, "EV_1").mark_recorded();
        assert!(matches!(dedup.start("EV_1"), DedupState::Recorded));
    }

    #[test]
    fn the_oldest_id_is_dropped_at_capacity() {
        let dedup = WebhookDedup::default();
        for number in 0..=MAX_RECORDED_IDS {
            start(&dedup, &number.to_string()).mark_recorded();
        }
        drop(start(&dedup, "0"));
        assert!(matches!(dedup.start("1"), DedupState::Recorded));
    }
}
