//! Ingress endpoints: where an encoder publishes into a room as an ordinary participant (contract "Ingress").

use std::fmt;

use sha2::{Digest, Sha256};

use crate::schema::word_enum;
use crate::{Identity, IngressId, IngressRowId, NamespacedRoom, ProjectId, RoomName, Timestamp};

word_enum! {
    /// The protocol by which an encoder publishes.
    InputType {
        /// RTMP, as streaming software speaks it.
        Rtmp = "rtmp",
        /// WHIP: WebRTC over HTTP.
        Whip = "whip",
    }
}

word_enum! {
    /// The status of an ingress endpoint.
    IngressStatus {
        /// Waits for an encoder.
        Inactive = "inactive",
        /// An encoder has connected and does not publish yet.
        Buffering = "buffering",
        /// An encoder publishes into the room.
        Publishing = "publishing",
        /// The last stream failed; the record says why. Another may come.
        Error = "error",
        /// Final: its room has ended, so nothing can be published any more.
        Complete = "complete",
        /// Final: deleted by its owner.
        Deleted = "deleted",
    }
}

impl IngressStatus {
    /// Whether nothing comes after it, but for `deleted`, which its owner may still make of `complete`.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Complete | Self::Deleted)
    }

    /// The status that the event of a move to `next` carries: one event when an encoder begins to publish, one when it
    /// does no more, and none for other moves. Events know no `deleted` (contract "Payload").
    #[must_use]
    pub const fn event_status(self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Publishing, Self::Publishing) => None,
            (_, Self::Publishing) => Some(Self::Publishing),
            (Self::Publishing, Self::Deleted) => Some(Self::Inactive),
            (Self::Publishing, next) => Some(next),
            _ => None,
        }
    }
}

/// SHA-256 of a stream key. The key itself is shown once and kept nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKeyHash(pub [u8; 32]);

impl StreamKeyHash {
    /// The hash of a key.
    #[must_use]
    pub fn from_key(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }
}

impl fmt::Debug for StreamKeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamKeyHash")
    }
}

/// What the media plane says of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressState {
    /// Which.
    pub ingress_id: IngressId,
    /// How it stands; never `deleted`, which is a word of the records.
    pub status: IngressStatus,
    /// What went wrong.
    pub error: Option<String>,
}

/// An endpoint's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// The row.
    pub id: IngressRowId,
    /// Whose it is.
    pub project_id: ProjectId,
    /// The room it publishes into.
    pub room: RoomName,
    /// The handle for every later call.
    pub ingress_id: IngressId,
    /// How an encoder speaks to it.
    pub input_type: InputType,
    /// The identity that the stream joins as.
    pub participant_identity: Identity,
    /// The display name that it joins with.
    pub participant_name: Option<String>,
    /// Where an encoder publishes, with the stream key redacted.
    pub url: String,
    /// What is kept of the stream key.
    pub key_hash: StreamKeyHash,
    /// How it stands.
    pub status: IngressStatus,
    /// What went wrong last.
    pub error: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
}

impl Ingress {
    /// The media plane's name for its room.
    #[must_use]
    pub fn namespaced_room(&self) -> NamespacedRoom {
        NamespacedRoom::new(&self.project_id, &self.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_parses_from_its_word_and_its_word_is_in_the_list_of_words() {
        let words: Vec<_> = IngressStatus::WORDS.split(", ").collect();
        assert_eq!(words, IngressStatus::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>());
        assert!(IngressStatus::ALL.iter().all(|status| status.as_str().parse() == Ok(*status)));
    }

    #[test]
    fn beginning_to_publish_and_ceasing_to_are_told_and_nothing_else_is() {
        use IngressStatus as S;
        for from in S::ALL.iter().copied() {
            for to in S::ALL.iter().copied() {
                let told = from.event_status(to);
                assert_eq!(told.is_some(), (from == S::Publishing) != (to == S::Publishing), "{from:?} to {to:?}");
                assert_ne!(told, Some(S::Deleted));
            }
        }
        assert_eq!(S::Publishing.event_status(S::Deleted), Some(S::Inactive));
        assert_eq!(S::Publishing.event_status(S::Error), Some(S::Error));
    }

    #[test]
    fn a_hash_shows_nothing() {
        assert_eq!(format!("{:?}", StreamKeyHash::from_key("key")), "StreamKeyHash");
    }
}
