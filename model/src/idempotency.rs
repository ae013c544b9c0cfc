//! Idempotent calls: keys, and responses stored in their change's transaction.
//!
//! A key is scoped to project and operation and lives for 24 hours. A refusal is stored per
//! participant beside it, because it may concern the caller and is no response for others. An
//! operation that writes passes a [`ResponseRecorder`] with its write. The store renders and stores
//! the response together with the change, so that a crash leaves both or neither.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Identity, ProjectId, RoomName};

/// Time for which a response is stored: 24 hours.
// The contract's time, after which a key may be used anew.
pub const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// `Idempotency-Key` header value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Box<str>);

/// The header value is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 255 printable ASCII characters")]
pub struct ParseIdempotencyKeyError;

impl IdempotencyKey {
    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = ParseIdempotencyKeyError;

    fn from_str(text: &str) -> Result<Self, ParseIdempotencyKeyError> {
        let printable = text.bytes().all(|b| (0x20..0x7f).contains(&b));
        // The contract's limit.
        if (1..=255).contains(&text.len()) && printable {
            Ok(Self(text.into()))
        } else {
            Err(ParseIdempotencyKeyError)
        }
    }
}

/// Participant that calls with a room token, as part of a stored response's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParticipantCaller(Box<str>);

impl ParticipantCaller {
    /// Returns the caller with this identity in this room. A newer token does not make another
    /// caller.
    pub fn new(room: &RoomName, identity: &Identity) -> Self {
        // Neither contains a slash.
        Self(format!("{room}/{identity}").into())
    }

    /// Adds the exchange that the token came from: another exchange with the same identity is
    /// another caller.
    #[must_use]
    pub fn with_exchange(self, exchange: Option<&str>) -> Self {
        match exchange {
            // Guests choose their identity, so the same identity may be another guest after a new exchange.
            Some(exchange) => Self(format!("{}/{exchange}", self.0).into()),
            None => self,
        }
    }

    /// Returns the caller as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Request that a stored response belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencySlot {
    /// Project that the key belongs to.
    pub project_id: ProjectId,
    /// Operation id.
    pub operation: &'static str,
    /// Key in the request's header.
    pub key: IdempotencyKey,
    /// Participant that was refused; `None` for the key's own response.
    pub refused: Option<ParticipantCaller>,
}

/// Stored response, byte for byte. Only its maker can interpret it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Outcome; the status in the HTTP API.
    pub code: u16,
    /// Content; may be empty.
    pub body: Vec<u8>,
}

/// Response to store: its request, and whether it contains a secret.
#[derive(Debug, Clone)]
pub struct IdempotencyRecord {
    /// Request that the response belongs to.
    pub slot: IdempotencySlot,
    /// BLAKE3 hash over the path and the raw body.
    pub fingerprint: [u8; 32],
    /// Participant that made the request; `None` for a server with an API key.
    pub made_by: Option<ParticipantCaller>,
    /// Whether the response contains a secret and is stored encrypted.
    pub secret: bool,
    // Shared by all clones: the handler's recorder sets it, and the frame reads it.
    stored: Arc<AtomicBool>,
}

impl IdempotencyRecord {
    /// Creates a record for a request whose response is not stored yet.
    pub fn new(slot: IdempotencySlot, fingerprint: [u8; 32], secret: bool) -> Self {
        Self {
            slot,
            fingerprint,
            made_by: None,
            secret,
            stored: Arc::default(),
        }
    }

    /// Sets the participant that made the request.
    #[must_use]
    pub fn made_by(self, participant: Option<ParticipantCaller>) -> Self {
        Self {
            made_by: participant,
            ..self
        }
    }

    /// Marks the response as durable, in all clones.
    pub fn mark_stored(&self) {
        // Pairs with the load: a caller that sees the mark also sees the committed response.
        self.stored.store(true, Ordering::Release);
    }

    /// Returns whether the response is durable.
    pub fn is_stored(&self) -> bool {
        self.stored.load(Ordering::Acquire)
    }
}

/// [`IdempotencyRecord`] that renders the response to a successful change.
#[derive(Debug, Clone)]
pub struct ResponseRecorder<T> {
    /// Request and settings for the stored response.
    pub record: IdempotencyRecord,
    /// Renders the response from the change's result.
    // A pointer rather than a closure, so that it can go to the store's thread.
    pub render: fn(&T) -> Response,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mark_is_seen_by_every_clone() {
        let slot = IdempotencySlot {
            project_id: ProjectId::new(),
            operation: "create_room",
            key: "k".parse().unwrap(),
            refused: None,
        };
        let record = IdempotencyRecord::new(slot, [0; 32], false);
        assert!(!record.is_stored());
        record.clone().mark_stored();
        assert!(record.is_stored());
        let caller = ParticipantCaller::new(&"standup".parse().unwrap(), &"alice".parse().unwrap());
        assert_eq!(record.made_by(Some(caller.clone())).made_by, Some(caller));
    }

    #[test]
    fn a_key_and_a_caller_read_as_text_and_a_response_is_stored_for_a_day() {
        assert_eq!("k 1".parse::<IdempotencyKey>().unwrap().as_str(), "k 1");
        let caller = ParticipantCaller::new(&"standup".parse().unwrap(), &"alice".parse().unwrap());
        assert_eq!(caller.as_str(), "standup/alice");
        assert_eq!(caller.clone().with_exchange(None), caller);
        assert_eq!(
            caller.with_exchange(Some("x1")).as_str(),
            "standup/alice/x1"
        );
        assert_eq!(RETENTION.as_secs(), 86_400);
    }

    proptest! {
        #[test]
        fn a_key_is_one_to_255_printable_characters(text in any::<String>()) {
            let fits = (1..=255).contains(&text.len()) && text.chars().all(|c| (' '..='~').contains(&c));
            prop_assert_eq!(text.parse::<IdempotencyKey>().is_ok(), fits);
        }
    }
}
