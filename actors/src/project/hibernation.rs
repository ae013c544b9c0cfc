//! Hibernating rooms: open, empty, and without an actor.
//!
//! Most open rooms are empty most of the time. A hibernating room costs an [`ActorInfo`](crate::info::ActorInfo) and a deadline, and
//! the project keeps one timer for the earliest deadline of all its rooms.
//!
//! # The usual course
//!
//! 1. A room actor without participants, calls, reserved seats and reports drains its mailbox and stops. Its project gets the last state
//!    and calls `hibernate` in `rooms.rs`, which inserts the deadline here. If a message arrived while the actor was stopping, the project
//!    starts the actor again instead.
//! 2. A message for the room finds a hibernating child: the project removes the deadline, buffers the message, loads the records and starts
//!    the actor. To callers this is a delay of one read.
//! 3. The earliest deadline passes. The project requests one permit, takes the room that is due first, and wakes it with `EmptyTimeout`.
//!    The room decides whether it ends; then the next one follows.
//!
//! # Failures
//!
//! - The server was down while deadlines passed: permits limit how many rooms end at once in all projects, so other writes get their share,
//!   and projects alternate.
//! - The end cannot be written: the room hibernates again, and is woken a second later.
//! - The clock is set back: `take_timer` returns by how much, and the deadlines move with it. A deadline further away than the room's
//!   timeout was set by a clock that was ahead, and is shortened.
//! - The room is woken before its permit arrives: the permit is returned, and no other room ends in its place.
//!
//! # Why not simpler
//!
//! One timer per hibernating room would cost more than the room itself. Reading due rooms from the database at intervals would end them
//! late, and would mostly find none.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_model::{Clock, RoomName, Timestamp};

use super::message::ProjectMsg;
use crate::mailbox::{Mailbox, Timer};

/// A project's hibernating rooms by deadline, and the timer for the earliest.
#[derive(Default)]
pub(super) struct Hibernation {
    rooms: BTreeSet<(Timestamp, RoomName)>,
    timer: Option<Timer>,
    /// Whether a permit to end a due room has been requested. Until it arrives, no timer is needed.
    awaits_permit: bool,
}

impl Hibernation {
    /// Returns the number of hibernating rooms.
    pub fn len(&self) -> usize {
        self.rooms.len()
    }

    /// Returns the timer for the earliest deadline.
    pub fn timer(&self) -> Option<&Timer> {
        self.timer.as_ref()
    }

    /// Adds a room that hibernates until `due`. The timer has to be armed afterwards.
    pub fn insert(&mut self, due: Timestamp, room: RoomName) {
        self.rooms.insert((due, room));
    }

    /// Removes a room that is woken before its deadline.
    pub fn remove(&mut self, due: Timestamp, room: RoomName) {
        self.rooms.remove(&(due, room));
    }

    /// Removes and returns all rooms, so that they can be inserted with other deadlines.
    pub fn take_all(&mut self) -> BTreeSet<(Timestamp, RoomName)> {
        std::mem::take(&mut self.rooms)
    }

    /// Disarms the timer, and returns how far the clock was set back since it was armed.
    pub fn take_timer(&mut self, clock: &Clock) -> Duration {
        let timer = self.timer.take();
        timer.map_or(Duration::ZERO, |timer| timer.set_back(clock))
    }

    /// Returns whether the caller has to request a permit, because a deadline has passed and no request is pending.
    pub fn claim_permit(&mut self, now: Timestamp) -> bool {
        // One permit at a time: rooms of a project end one after another.
        let claims = !self.awaits_permit && self.is_due(now);
        self.awaits_permit |= claims;
        claims
    }

    /// Removes and returns the room whose deadline passed first, for the permit that has arrived.
    pub fn take_due(&mut self, now: Timestamp) -> Option<RoomName> {
        // Even if no room is due, the permit is used up.
        self.awaits_permit = false;
        let (_, room) = self.is_due(now).then(|| self.rooms.pop_first()).flatten()?;
        Some(room)
    }

    /// Arms the timer for the earliest deadline.
    pub fn arm(&mut self, clock: &Clock, me: &Mailbox<ProjectMsg>) {
        // One timer for all rooms, moved only if the earliest deadline changes.
        let wanted = self.next_wake();
        Timer::rearm(&mut self.timer, wanted, |at| {
            Timer::arm(
                clock,
                "hibernation",
                at,
                me,
                ProjectMsg::HibernationDeadline,
            )
        });
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.rooms
            .first()
            .is_some_and(|(deadline, _)| *deadline <= now)
    }

    /// Returns the earliest deadline. A project that waits for a permit needs no timer.
    fn next_wake(&self) -> Option<Timestamp> {
        let earliest = self.rooms.first().map(|(deadline, _)| *deadline);
        earliest.filter(|_| !self.awaits_permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn room(name: &str) -> RoomName {
        name.parse().unwrap()
    }

    fn hibernation(rooms: &[(i64, &str)]) -> Hibernation {
        let mut hibernation = Hibernation::default();
        for (due, name) in rooms {
            hibernation.insert(at(*due), room(name));
        }
        hibernation
    }

    #[test]
    fn due_rooms_end_one_after_another_each_with_a_permit_and_the_earliest_first() {
        let mut rooms = hibernation(&[(20, "b"), (10, "a"), (30, "c")]);
        assert!(!rooms.claim_permit(at(9)));
        assert!(rooms.claim_permit(at(20)));
        assert!(
            !rooms.claim_permit(at(20)),
            "one permit is requested at a time"
        );
        assert_eq!(rooms.take_due(at(20)), Some(room("a")));
        assert!(rooms.claim_permit(at(20)));
        assert_eq!(rooms.take_due(at(20)), Some(room("b")));
        assert!(!rooms.claim_permit(at(20)));
        assert_eq!(rooms.len(), 1);
    }

    #[test]
    fn the_timer_is_for_the_earliest_deadline_unless_a_permit_is_awaited() {
        let mut rooms = hibernation(&[(20, "b"), (10, "a")]);
        assert_eq!(rooms.next_wake(), Some(at(10)));
        assert!(rooms.claim_permit(at(10)));
        assert_eq!(rooms.next_wake(), None);
        assert_eq!(rooms.take_due(at(10)), Some(room("a")));
        assert_eq!(rooms.next_wake(), Some(at(20)));
    }

    #[test]
    fn a_permit_that_comes_when_its_room_was_woken_ends_no_other() {
        let mut rooms = hibernation(&[(10, "a"), (20, "b")]);
        assert!(rooms.claim_permit(at(10)));
        rooms.remove(at(10), room("a"));
        assert_eq!(rooms.take_due(at(10)), None);
        assert_eq!(rooms.next_wake(), Some(at(20)));
    }
}
