//! What a participant's client has received, as the sandbox API shows it.

use std::collections::VecDeque;
use std::sync::Arc;

use conclave_model::participant::DataKind;
use conclave_model::{Identity, RoleName, Timestamp, TrackSid};
use serde::Serialize;

use super::effect::DisconnectCause;

/// Number of entries that are kept for one participant; the oldest is dropped first.
const CAPACITY: usize = 1_000;

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
    /// Returns the last notice to a participant that was disconnected, if its client learns the cause.
    pub(super) fn last(cause: DisconnectCause) -> Option<Self> {
        match cause {
            DisconnectCause::Removed => Some(Self::Removed),
            DisconnectCause::RoomEnded => Some(Self::RoomEnded),
            DisconnectCause::Replaced
            | DisconnectCause::JoinRefused
            | DisconnectCause::JoinTimeout
            | DisconnectCause::Left => None,
        }
    }
}

/// The last entries of a participant, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Inbox(VecDeque<InboxEntry>);

impl Inbox {
    /// Adds an entry, and drops the oldest at capacity.
    pub fn push(&mut self, at: Timestamp, notice: Notice) {
        if self.0.len() == CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(InboxEntry { at, notice });
    }

    pub fn entries(&self) -> Vec<InboxEntry> {
        self.0.iter().cloned().collect()
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
    fn an_entry_is_serialized_as_one_flat_object() {
        let data = Notice::Data {
            data: "aGk=".into(),
            topic: None,
            kind: DataKind::Reliable,
            from_identity: Some("alice".parse().unwrap()),
        };
        let entry = InboxEntry { at: Timestamp::from_millis(0), notice: data };
        assert_eq!(
            serde_json::to_value(entry).unwrap(),
            json!({"at": "1970-01-01T00:00:00.000Z", "type": "data", "data": "aGk=", "kind": "reliable",
                   "from_identity": "alice"})
        );
        let entry = InboxEntry { at: Timestamp::from_millis(0), notice: Notice::RoomEnded };
        assert_eq!(serde_json::to_value(entry).unwrap()["type"], "room_ended");
    }
}
