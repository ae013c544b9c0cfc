//! Rooms: the record, its two statuses, and the rules of its empty timer (contract "Room", decisions section 4).

use std::time::Duration;

use crate::schema::word_enum;
use crate::{NamespacedRoom, ProjectId, RoomId, RoomName, TemplateId, Timestamp};

/// How long a room stays open with nobody in it, in seconds, when its creator does not say.
pub const DEFAULT_EMPTY_TIMEOUT_SECONDS: u32 = 300;

/// A room's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// The row.
    pub id: RoomId,
    /// Whose it is.
    pub project_id: ProjectId,
    /// Its name, used once per project.
    pub name: RoomName,
    /// Cap asked for at creation; 0 leaves it to the plan.
    pub max_participants: u32,
    /// How long it stays open with nobody in it.
    pub empty_timeout_seconds: u32,
    /// The very JSON text that was sent.
    pub metadata: Option<Box<str>>,
    /// Open or ended.
    pub status: RoomStatus,
    /// The template it resolves its roles in.
    pub template_id: Option<TemplateId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the first participant joined.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it ends unless somebody joins; persisted, so that a restart changes nothing. `None` while somebody who
    /// keeps it alive is inside, and once it has ended.
    pub empty_deadline: Option<Timestamp>,
}

impl Room {
    /// The media plane's name for it.
    #[must_use]
    pub fn namespaced_name(&self) -> NamespacedRoom {
        NamespacedRoom::new(&self.project_id, &self.name)
    }
}

word_enum! {
    /// Whether a room lives. The one transition is from open to ended.
    RoomStatus {
        /// Takes joins.
        Open = "open",
        /// Final.
        Ended = "ended",
    }
}

/// The deadline of a room that nobody has joined yet. A timeout of 0 speaks of a room that was left, so an unjoined one
/// stays for the default.
#[must_use]
pub fn unjoined_deadline(created_at: Timestamp, empty_timeout_seconds: u32) -> Timestamp {
    let seconds = if empty_timeout_seconds == 0 { DEFAULT_EMPTY_TIMEOUT_SECONDS } else { empty_timeout_seconds };
    created_at.after(Duration::from_secs(seconds.into()))
}

/// The deadline of a room that its last participant left at `left_at`.
#[must_use]
pub fn left_deadline(left_at: Timestamp, empty_timeout_seconds: u32) -> Timestamp {
    left_at.after(Duration::from_secs(empty_timeout_seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_zero_ends_a_room_that_was_left_at_once_and_an_unjoined_one_after_the_default() {
        let at = Timestamp::from_millis(1_000_000);
        assert_eq!(left_deadline(at, 0), at);
        assert_eq!(unjoined_deadline(at, 0), at.after(Duration::from_secs(300)));
        assert_eq!(unjoined_deadline(at, 7), at.after(Duration::from_secs(7)));
    }
}
