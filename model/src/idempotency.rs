//! Idempotent calls: what a key is, and how an answer is kept in the transaction of the change it reports.
//!
//! A key is scoped to project and operation and lives 24 hours (decisions, section 4). What a participant is refused is kept
//! beside that, for this participant: the refusal may be about who asked, and is no answer to anybody else. An operation
//! that writes hands a [`ResponseRecorder`] down with its write, and the store renders and keeps the answer beside the change, so
//! that no crash can leave the one without the other.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Identity, ProjectId, RoomName};

/// How long an answer is kept.
pub const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The text of an `Idempotency-Key` header.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Box<str>);

/// A header that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 255 printable ASCII characters")]
pub struct ParseIdempotencyKeyError;

impl IdempotencyKey {
    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = ParseIdempotencyKeyError;

    fn from_str(text: &str) -> Result<Self, ParseIdempotencyKeyError> {
        let printable = text.bytes().all(|b| (0x20..0x7f).contains(&b));
        if (1..=255).contains(&text.len()) && printable { Ok(Self(text.into())) } else { Err(ParseIdempotencyKeyError) }
    }
}

/// A participant that calls with a room token, as kept answers name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParticipantCaller(Box<str>);

impl ParticipantCaller {
    /// The participant by that identity in that room. A newer token of it is the same caller.
    #[must_use]
    pub fn new(room: &RoomName, identity: &Identity) -> Self {
        // Neither holds the slash between them.
        Self(format!("{room}/{identity}").into())
    }

    /// The caller as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which call a kept answer belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencySlot {
    /// Whose key it is.
    pub project_id: ProjectId,
    /// The operation's id.
    pub operation: &'static str,
    /// What the caller sent.
    pub key: IdempotencyKey,
    /// The participant whose refusal this is; `None` for the answer that belongs to the key.
    pub refused: Option<ParticipantCaller>,
}

/// An answer, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The request to keep an answer: where, for which body, and whether it holds a secret.
#[derive(Debug, Clone)]
pub struct IdempotencyRecord {
    /// Which call.
    pub slot: IdempotencySlot,
    /// BLAKE3 over the path and the raw body.
    pub fingerprint: [u8; 32],
    /// The participant that made the call; `None` when a server did, with its key.
    pub made_by: Option<ParticipantCaller>,
    /// The answer holds a secret and is encrypted at rest.
    pub secret: bool,
    stored: Arc<AtomicBool>,
}

impl IdempotencyRecord {
    /// A request that nobody has met yet.
    #[must_use]
    pub fn new(slot: IdempotencySlot, fingerprint: [u8; 32], secret: bool) -> Self {
        Self { slot, fingerprint, made_by: None, secret, stored: Arc::default() }
    }

    /// The same, of a call that a participant made.
    #[must_use]
    pub fn made_by(self, participant: Option<ParticipantCaller>) -> Self {
        Self { made_by: participant, ..self }
    }

    /// Notes that the answer is durable, for every clone of this request.
    pub fn mark_stored(&self) {
        self.stored.store(true, Ordering::Release);
    }

    /// Whether the answer is durable already.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.stored.load(Ordering::Acquire)
    }
}

/// A [`IdempotencyRecord`] that knows how the answer to a successful change of `T` reads.
#[derive(Debug, Clone)]
pub struct ResponseRecorder<T> {
    /// Where it is kept.
    pub record: IdempotencyRecord,
    /// Renders the answer from the change's result.
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
        record.clone().mark_stored();
        assert!(record.is_stored());
    }

    proptest! {
        #[test]
        fn a_key_is_one_to_255_printable_characters(text in any::<String>()) {
            let fits = (1..=255).contains(&text.len()) && text.chars().all(|c| (' '..='~').contains(&c));
            prop_assert_eq!(text.parse::<IdempotencyKey>().is_ok(), fits);
        }
    }
}
