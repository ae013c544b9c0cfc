//! Notices that a participant's client has received, for the sandbox API.

use std::collections::VecDeque;
use std::sync::Arc;

use conclave_model::participant::DataKind;
use conclave_model::{Identity, RoleName, Timestamp, TrackSid};
use serde::Serialize;

use super::effect::DisconnectCause;

/// Maximum number of entries per participant. The oldest is dropped first.
const CAPACITY: usize = 1_000;
/// Maximum size of messages per participant, in bytes. The oldest entry is dropped first.
const MAX_BYTES: usize = 1024 * 1024;

/// An inbox entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InboxEntry {
    /// Time of receipt.
    pub at: Timestamp,
    /// The received notice.
    #[serde(flatten)]
    pub notice: Notice,
}

/// A notice to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// A data message. All receivers share its texts.
    Data {
        /// The payload, in base64.
        data: Arc<str>,
        /// The topic, which clients use to distinguish messages.
        #[serde(skip_serializing_if = "Option::is_none")]
        topic: Option<Arc<str>>,
        /// Whether delivery is reliable.
        kind: DataKind,
        /// The sender; absent if it is hidden or the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        from_identity: Option<Identity>,
    },
    /// The server muted one of this participant's tracks.
    Muted {
        /// The track's id.
        track_sid: TrackSid,
    },
    /// The server unmuted one of this participant's tracks.
    Unmuted {
        /// The track's id.
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
    /// Returns the size of its texts in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Data { data, topic, .. } => {
                // Shared by all receivers, yet counted for each: the estimate must not depend on the others.
                data.len() + topic.as_ref().map_or(0, |topic| topic.len())
            }
            Self::Muted { .. }
            | Self::Unmuted { .. }
            | Self::RoleChanged { .. }
            | Self::Removed
            | Self::RoomEnded => 0,
        }
    }

    /// Returns the last notice for a disconnected participant, if its client is sent the cause.
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

/// A participant's last entries, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Inbox {
    entries: VecDeque<InboxEntry>,
    bytes: usize,
}

impl Inbox {
    /// Adds an entry, and drops the oldest beyond the limits.
    pub fn push(&mut self, at: Timestamp, notice: Notice) {
        self.bytes += notice.bytes();
        self.entries.push_back(InboxEntry { at, notice });
        // Two limits: many small notices cost entries, a few large messages cost bytes.
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

    /// Returns the approximate memory size of the entries.
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
