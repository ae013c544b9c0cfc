//! What a participant's client received, as the sandbox shows it.

use std::collections::VecDeque;
use std::sync::Arc;

use conclave_model::participant::DataKind;
use conclave_model::{Identity, RoleName, Timestamp, TrackSid};
use serde::Serialize;

/// The most entries that are kept for one participant; the oldest give way.
const CAPACITY: usize = 1_000;

/// One thing received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InboxEntry {
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub notice: Notice,
}

/// What was received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// A data message. Its text is shared by all who received it.
    Data {
        /// In base64, as it was sent.
        data: Arc<str>,
        /// The topic its sender gave it.
        #[serde(skip_serializing_if = "Option::is_none")]
        topic: Option<Arc<str>>,
        /// How it travelled.
        kind: DataKind,
        /// Who sent it; absent for a hidden sender and for the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        from_identity: Option<Identity>,
    },
    /// The server muted a track of this participant.
    Muted {
        /// Which.
        track_sid: TrackSid,
    },
    /// The server unmuted a track of this participant.
    Unmuted {
        /// Which.
        track_sid: TrackSid,
    },
    /// The server gave this participant another role.
    RoleChanged {
        /// Which.
        role: RoleName,
    },
    /// The server disconnected this participant.
    Removed,
    /// The room was closed.
    RoomEnded,
}

/// A bounded list of what was received, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Inbox(VecDeque<InboxEntry>);

impl Inbox {
    /// Files an entry.
    pub fn put(&mut self, at: Timestamp, notice: Notice) {
        if self.0.len() == CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(InboxEntry { at, notice });
    }

    /// Everything still kept, oldest first.
    pub fn entries(&self) -> Vec<InboxEntry> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_entry_gives_way() {
        let mut inbox = Inbox::default();
        for millis in 0..=1_000 {
            inbox.put(Timestamp::from_millis(millis), Notice::Removed);
        }
        let entries = inbox.entries();
        assert_eq!((entries.len(), entries[0].at.millis()), (CAPACITY, 1));
    }

    #[test]
    fn an_entry_reads_flat() {
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
