//! Rooms: the record, its two statuses, and the rules of its empty timer.

use std::time::Duration;

use crate::bounded::MaxDuration;
use crate::schema::word_enum;
use crate::template::AutoRecord;
use crate::{NamespacedRoom, ProjectId, RoomId, RoomName, TemplateId, Timestamp};

/// Default of `empty_timeout_seconds`: time for which a room without participants stays open.
// The contract's default.
pub const DEFAULT_EMPTY_TIMEOUT_SECONDS: u32 = 300;

/// Longest lifetime of a room token. A request for a longer one is clamped.
// The contract's ("Token lifetime").
pub const LONGEST_TOKEN_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Time before the end of a room with a maximum duration at which its participants are notified.
pub const NOTICE_BEFORE_END: Duration = Duration::from_secs(60);

/// Record of a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Record id.
    pub id: RoomId,
    /// Owning project.
    pub project_id: ProjectId,
    /// Name, which a project can use only once.
    pub name: RoomName,
    /// Maximum number of participants as requested; 0 is the plan's maximum.
    pub max_participants: u32,
    /// Time for which the room stays open without participants.
    pub empty_timeout_seconds: u32,
    /// Time from the first join after which the room ends; `None` is unlimited.
    pub max_duration_seconds: Option<u32>,
    /// JSON text from the request, unchanged.
    pub metadata: Option<Box<str>>,
    /// Whether the room is open.
    pub status: RoomStatus,
    /// Template that defines its roles.
    pub template_id: Option<TemplateId>,
    /// Recording that starts by itself: the template's when the room was created. `None` also once a composite has been started, so that
    /// the room has one at most.
    pub auto_record: Option<Box<AutoRecord>>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the first join; absent before.
    pub started_at: Option<Timestamp>,
    /// Time of its end; absent while it is open.
    pub ended_at: Option<Timestamp>,
    /// Time at which it ends unless a participant joins; stored, so that a restart keeps it. `None` while a participant that keeps it open
    /// is connected, and after its end.
    pub empty_deadline: Option<Timestamp>,
}

impl Room {
    /// Returns the room's name on the media plane.
    pub fn namespaced_name(&self) -> NamespacedRoom {
        NamespacedRoom::new(&self.project_id, &self.name)
    }
}

word_enum! {
    /// The status of a room. The only transition is from open to ended.
    RoomStatus {
        /// Participants can join.
        Open = "open",
        /// Final: no participant can join.
        Ended = "ended",
    }
}

/// Returns a room's deadline before its first join. A timeout of 0 applies after a leave only, so
/// before the first join it means the default.
pub fn unjoined_deadline(created_at: Timestamp, empty_timeout_seconds: u32) -> Timestamp {
    // Otherwise such a room would end before its first participant can join.
    let seconds = if empty_timeout_seconds == 0 {
        DEFAULT_EMPTY_TIMEOUT_SECONDS
    } else {
        empty_timeout_seconds
    };
    created_at.after(Duration::from_secs(seconds.into()))
}

/// Returns the seconds of a maximum duration as a record has them; `None` for an unlimited one.
pub fn duration_limit(given: MaxDuration) -> Option<u32> {
    u32::try_from(given.get())
        .ok()
        .filter(|seconds| *seconds > 0)
}

impl Room {
    /// Returns whether the time is over for which the room stays open, without participants or at all. A deadline further away than that
    /// time was set by a clock that was ahead; the caller asks only when the timer has fired.
    pub fn is_past_deadline(&self, now: Timestamp) -> bool {
        // The latest deadline that a correct clock could have set.
        let latest = unjoined_deadline(now, self.empty_timeout_seconds);
        self.empty_deadline
            .is_some_and(|deadline| deadline <= now || deadline > latest)
            || self.duration_end(now).is_some_and(|end| end <= now)
    }

    /// Returns the time at which the room reaches its maximum duration; `None` before its first join, and without a maximum. No later than
    /// the maximum from `now`, since a clock that was ahead may have set the time of the first join.
    pub fn duration_end(&self, now: Timestamp) -> Option<Timestamp> {
        let limit = Duration::from_secs(self.max_duration_seconds?.into());
        Some(self.started_at?.min(now).after(limit))
    }

    /// Returns the time at which the room ends if it stays empty; `None` while a participant keeps it open.
    pub fn deadline_when_empty(&self, now: Timestamp) -> Option<Timestamp> {
        let empty = self
            .empty_deadline?
            // A deadline further away than the timeout was set by a clock that was ahead.
            .min(unjoined_deadline(now, self.empty_timeout_seconds));
        Some(self.duration_end(now).map_or(empty, |end| end.min(empty)))
    }
}

/// Returns a room's deadline after its last participant left at `left_at`.
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

    #[test]
    fn a_deadline_is_past_when_it_is_reached_or_further_away_than_the_timeout() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let room = |empty_deadline| Room {
            id: RoomId::new(),
            project_id: ProjectId::new(),
            name: "standup".parse().unwrap(),
            max_participants: 0,
            empty_timeout_seconds: 60,
            max_duration_seconds: None,
            metadata: None,
            status: RoomStatus::Open,
            template_id: None,
            auto_record: None,
            created_at: at(0),
            started_at: None,
            ended_at: None,
            empty_deadline,
        };
        let is_past = |deadline| room(Some(at(deadline))).is_past_deadline(at(100));
        assert!(is_past(99) && is_past(100) && !is_past(101));
        assert!(
            !is_past(160) && is_past(161),
            "a clock that was ahead set it"
        );
        assert!(!room(None).is_past_deadline(at(100)));
    }

    #[test]
    fn the_maximum_duration_counts_from_the_first_join_and_ends_an_empty_room_earlier() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let room = |started_at, empty_deadline| Room {
            id: RoomId::new(),
            project_id: ProjectId::new(),
            name: "standup".parse().unwrap(),
            max_participants: 0,
            empty_timeout_seconds: 60,
            max_duration_seconds: Some(600),
            auto_record: None,
            metadata: None,
            status: RoomStatus::Open,
            template_id: None,
            created_at: at(0),
            started_at,
            ended_at: None,
            empty_deadline,
        };
        assert_eq!(room(None, Some(at(60))).duration_end(at(50)), None);
        assert_eq!(room(Some(at(10)), None).duration_end(at(50)), Some(at(610)));
        // Started by a clock that was ahead.
        assert_eq!(room(Some(at(99)), None).duration_end(at(50)), Some(at(650)));
        assert!(!room(Some(at(10)), None).is_past_deadline(at(609)));
        assert!(room(Some(at(10)), None).is_past_deadline(at(610)));
        let empty = room(Some(at(10)), Some(at(640)));
        assert_eq!(empty.deadline_when_empty(at(590)), Some(at(610)));
        assert_eq!(
            room(Some(at(10)), Some(at(100))).deadline_when_empty(at(50)),
            Some(at(100))
        );
        assert_eq!(room(Some(at(10)), None).deadline_when_empty(at(50)), None);
    }

    #[test]
    fn a_maximum_duration_of_zero_is_none() {
        assert_eq!(duration_limit(MaxDuration::known(0)), None);
        assert_eq!(duration_limit(MaxDuration::known(90)), Some(90));
    }
}
