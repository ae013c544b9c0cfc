//! Ingress endpoints: where an encoder publishes into a room as an ordinary participant.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::schema::word_enum;
use crate::{Identity, IngressId, IngressRowId, NamespacedRoom, ProjectId, RoomName, Timestamp};

word_enum! {
    /// The protocol by which an encoder publishes.
    InputType {
        /// RTMP, the usual protocol of streaming software.
        Rtmp = "rtmp",
        /// WHIP: WebRTC over HTTP.
        Whip = "whip",
    }
}

word_enum! {
    /// The status of an ingress endpoint.
    IngressStatus {
        /// No encoder is connected.
        Inactive = "inactive",
        /// An encoder is connected and does not publish yet.
        Buffering = "buffering",
        /// An encoder publishes into the room.
        Publishing = "publishing",
        /// The last stream failed; the record has the error. An encoder may connect again.
        Error = "error",
        /// Final: the room has ended.
        Complete = "complete",
        /// Final: deleted by the project.
        Deleted = "deleted",
    }
}

impl IngressStatus {
    /// Returns whether no other status can follow. A project can still delete a `complete`
    /// endpoint.
    pub const fn is_final(self) -> bool {
        // After an error, an encoder may connect again.
        matches!(self, Self::Complete | Self::Deleted)
    }

    /// Returns the event's status for a move to `next`: there is one event when an encoder starts
    /// to publish, one when it stops, and none for other moves. It is never `deleted`.
    pub const fn event_status(self, next: Self) -> Option<Self> {
        match (self, next) {
            // A repeated report is no change.
            (Self::Publishing, Self::Publishing) => None,
            (_, Self::Publishing) => Some(Self::Publishing),
            // `deleted` is a status of records only; for receivers of webhooks, the encoder has just stopped.
            (Self::Publishing, Self::Deleted) => Some(Self::Inactive),
            (Self::Publishing, next) => Some(next),
            _ => None,
        }
    }
}

/// A stream key's SHA-256. The key itself is shown once and not stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKeyHash(pub [u8; 32]);

impl StreamKeyHash {
    /// Returns a stream key's hash.
    pub fn from_key(key: &str) -> Self {
        // Without a salt, since endpoints are found by it.
        Self(Sha256::digest(key.as_bytes()).into())
    }
}

impl fmt::Debug for StreamKeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamKeyHash")
    }
}

/// Endpoint as the media plane reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressState {
    /// Id on the media plane.
    pub ingress_id: IngressId,
    /// Status; never `deleted`, which only records have.
    pub status: IngressStatus,
    /// Failure reason, for status `error`.
    pub error: Option<String>,
}

/// Ingress endpoint record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// Record id.
    pub id: IngressRowId,
    /// Owning project.
    pub project_id: ProjectId,
    /// Room it publishes into.
    pub room: RoomName,
    /// Id on the media plane, which clients use.
    pub ingress_id: IngressId,
    /// The encoder's protocol.
    pub input_type: InputType,
    /// The publishing participant's identity.
    pub participant_identity: Identity,
    /// That participant's display name.
    pub participant_name: Option<String>,
    /// The encoder's URL with a redacted stream key.
    pub url: String,
    /// Stream key hash.
    pub key_hash: StreamKeyHash,
    /// Last reported status.
    pub status: IngressStatus,
    /// Last failure reason.
    pub error: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
    /// Deletion time; absent before.
    pub deleted_at: Option<Timestamp>,
}

impl Ingress {
    /// Returns the room's name on the media plane.
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
        assert_eq!(
            words,
            IngressStatus::ALL
                .iter()
                .map(|status| status.as_str())
                .collect::<Vec<_>>()
        );
        assert!(
            IngressStatus::ALL
                .iter()
                .all(|status| status.as_str().parse() == Ok(*status))
        );
    }

    #[test]
    fn only_the_begin_and_the_end_of_publishing_have_an_event() {
        use IngressStatus as S;
        for from in S::ALL.iter().copied() {
            for to in S::ALL.iter().copied() {
                let status = from.event_status(to);
                assert_eq!(
                    status.is_some(),
                    (from == S::Publishing) != (to == S::Publishing),
                    "{from:?} to {to:?}"
                );
                assert_ne!(status, Some(S::Deleted));
            }
        }
        assert_eq!(S::Publishing.event_status(S::Deleted), Some(S::Inactive));
        assert_eq!(S::Publishing.event_status(S::Error), Some(S::Error));
    }

    #[test]
    fn an_endpoint_is_final_when_its_room_has_ended_or_it_was_deleted() {
        let is_final = |status: &IngressStatus| status.is_final();
        let last: Vec<_> = IngressStatus::ALL
            .iter()
            .copied()
            .filter(is_final)
            .collect();
        assert_eq!(last, [IngressStatus::Complete, IngressStatus::Deleted]);
    }

    #[test]
    fn a_hash_shows_nothing() {
        assert_eq!(
            format!("{:?}", StreamKeyHash::from_key("key")),
            "StreamKeyHash"
        );
    }
}
