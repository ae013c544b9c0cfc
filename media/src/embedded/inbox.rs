//! What a participant's client has received, as the sandbox API shows it.

use std::collections::VecDeque;
use std::sync::Arc;

use conclave_model::participant::DataKind;
use conclave_model::{Identity, RoleName, Timestamp, TrackSid};
use serde::Serialize;

use super::effect::DisconnectCause;

/// Number of entries that are kept for one participant; the oldest is dropped first.
const CAPACITY: usize = 1_000;
/// Bytes of messages that are kept for one participant; the oldest entry is dropped first.
const MAX_BYTES: usize = 1024 * 1024;

/// An entry of an inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InboxEntry {
    /// When the client received it.
    pub at: Timestamp,
    /// The notice that the client received.
    #[serde(flatten)]
    pub notice: Notice,
}

/// A notice to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// A data message. Its texts are shared by all receivers.
    Data {
        /// The payload, in base64.
        data: Arc<str>,
        /// The topic, by which clients tell messages apart.
        #[serde(skip_serializing_if = "Option::is_none")]
        topic: Option<Arc<str>>,
        /// Whether the delivery is reliable.
        kind: DataKind,
        /// The sender; absent if it is hidden or the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        from_identity: Option<Identity>,
    },
    /// The server muted a track of this participant.
    Muted {
        /// The id of the participant's track.
        track_sid: TrackSid,
    },
    /// The server unmuted a track of this participant.
    Unmuted {
        /// The id of the participant's track.
        track_sid: TrackSid,
    },
    /// The server changed this participant's role.
    RoleChanged {
        /// The new role.
        role: RoleName,
    },
    /// The server removed this participant.
    Removed,
    /// The room was closed.
    RoomEnded,
}

impl Notice {
    /// Returns how many bytes its texts take.
    fn bytes(&self) -> usize {
        match self {
            Self::Data { data, topic, .. } => {
                data.len() + topic.as_ref().map_or(0, |topic| topic.len())
            }
            Self::Muted { .. }
            | Self::Unmuted { .. }
            | Self::RoleChanged { .. }
            | Self::Removed
            | Self::RoomEnded => 0,
        }
    }

    /// Returns the last notice to a participant that was disconnected, if its client learns the cause.
    pub(super) fn last(cause: DisconnectCause) -> Option<Self> {
        match cause {
            DisconnectCause::Removed => Some(Self::Removed),
            DisconnectCause::RoomEnded => Some(Self::RoomEnded),
            DisconnectCause::Replaced
            | DisconnectCause::JoinRefused
            | DisconnectCause::JoinTimeout
            | DisconnectCause::ServerStopped
            | DisconnectCause::Left => None,
        }
    }
}

/// The last entries of a participant, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Inbox {
    entries: VecDeque<InboxEntry>,
    bytes: usize,
}

impl Inbox {
    /// Adds an entry, and drops the oldest beyond the bounds.
    pub fn push(&mut self, at: Timestamp, notice: Notice) {
        self.bytes += notice.bytes();
        self.entries.push_back(InboxEntry { at, notice });
        while self.entries.len() > CAPACITY || self.bytes > MAX_BYTES {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.notice.bytes();
        }
    }

    pub fn entries(&self) -> Vec<InboxEntry> {
        self.entries.iter().cloned().collect()
    }

    /// Returns how much memory the entries take, about.
    pub fn bytes(&self) -> usize {
        self.bytes + self.entries.len() * size_of::<InboxEntry>()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_entry_is_dropped_at_capacity() {
        let mut inbox = Inbox::default();
        for millis in 0..=1_000 {
            inbox.push(Timestamp::from_millis(millis), Notice::Removed);
        }
        let entries = inbox.entries();
        assert_eq!((entries.len(), entries[0].at.millis()), (CAPACITY, 1));
    }

    #[test]
    fn messages_are_kept_within_a_bound_of_bytes() {
        let mut inbox = Inbox::default();
        let data: Arc<str> = "a".repeat(64 * 1024).into();
        for _ in 0..40 {
            let notice = Notice::Data {
                data: Arc::clone(&data),
                topic: None,
                kind: DataKind::Reliable,
                from_identity: None,
            };
            inbox.push(Timestamp::from_millis(0), notice);
        }
        assert_eq!(inbox.entries().len(), MAX_BYTES / data.len());
    }

    #[test]
    fn an_entry_is_serialized_as_one_flat_object() {
        let data = Notice::Data {
            data: "aGk=".into(),
            topic: None,
            kind: DataKind::Reliable,
            from_identity: Some("alice".parse().unwrap()),
        };
        let entry = InboxEntry {
            at: Timestamp::from_millis(0),
            notice: data,
        };
        assert_eq!(
            serde_json::to_value(entry).unwrap(),
            json!({"at": "1970-01-01T00:00:00.000Z", "type": "data", "data": "aGk=", "kind": "reliable",
                   "from_identity": "alice"})
        );
        let entry = InboxEntry {
            at: Timestamp::from_millis(0),
            notice: Notice::RoomEnded,
        };
        assert_eq!(serde_json::to_value(entry).unwrap()["type"], "room_ended");
    }
}
