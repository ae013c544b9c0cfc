//! Hibernating rooms: open, empty, and without a process.
//!
//! Most open rooms are empty most of the time. Such a room takes an [`ActorInfo`](crate::info::ActorInfo) and a deadline, and
//! the project keeps one timer for the earliest deadline. Any message to the room wakes it: its actor is rebuilt from the
//! records, as after a failure, and handles what waited.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::permits::ProjectPermit;
use conclave_model::room::{Room, unjoined_deadline};
use conclave_model::{RoomName, Timestamp};
use ractor::actor::messages::BoxedState;

use super::ProjectActor;
use super::message::ProjectMsg;
use super::state::ProjectState;
use crate::children::{Child, Sent};
use crate::mailbox::{Mailbox, Timer};
use crate::registry::ActorStatus;
use crate::room::{HibernatingRoom, RoomMsg, RoomState};

/// Delay after which a room that could not be ended is woken again.
const RETRY_END: Duration = Duration::from_secs(1);

impl ProjectActor {
    /// Lets a room hibernate until its deadline, or until `not_before` if that is later. Returns whether it hibernates: a room
    /// without a deadline is not empty, and a room that messages wait for is needed.
    pub(super) fn hibernate(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        room: &Room,
        not_before: Option<Timestamp>,
    ) -> bool {
        let Some(deadline) = room.empty_deadline else {
            return false;
        };
        // A deadline further away than the timeout was set by a clock that was ahead.
        let due = deadline.min(unjoined_deadline(
            self.context.clock.now(),
            room.empty_timeout_seconds,
        ));
        let due = not_before.map_or(due, |at| at.max(due));
        let info = state.rooms.info(&room.name);
        match state.rooms.get_mut(&room.name) {
            Some(child) => {
                if !child.hibernate(due) {
                    return false;
                }
            }
            None => {
                info.record_start(self.context.clock.now());
                state.rooms.insert(
                    room.name.clone(),
                    Child::hibernating(Arc::clone(&info), due),
                );
            }
        }
        self.context.registry.register(
            &info,
            ActorStatus::Hibernating(Arc::new(HibernatingRoom { deadline })),
        );
        state.hibernating.insert((due, room.name.clone()));
        self.arm_deadline(me, state);
        true
    }

    /// Arms the timer for the earliest deadline. A project that waits for a permit needs none.
    fn arm_deadline(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState) {
        let earliest = state.hibernating.first().map(|(deadline, _)| *deadline);
        let wanted = earliest.filter(|_| !state.awaits_permit);
        if state.deadline.as_ref().map(|timer| timer.view().fires_at) != wanted {
            let arm = |at| {
                Timer::arm(
                    &self.context.clock,
                    "hibernation",
                    at,
                    me,
                    ProjectMsg::HibernationDeadline,
                )
            };
            state.deadline = wanted.map(arm);
        }
    }

    /// Asks for a permit to end one if a room's deadline has come, and arms the timer for the next deadline otherwise.
    pub(super) fn hibernation_deadline(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState) {
        if let Some(timer) = state.deadline.take() {
            Self::move_deadlines_back(state, timer.set_back(&self.context.clock));
        }
        if !state.awaits_permit && self.due_room(state).is_some() {
            state.awaits_permit = true;
            let (permits, project, me) =
                (self.context.room_ends.clone(), self.id.clone(), me.clone());
            tokio::spawn(async move {
                let permit = permits.wait(&project).await;
                // A project that failed asks again when it is rebuilt.
                let _ = me.cast(ProjectMsg::EndDueRoom(permit));
            });
        }
        self.arm_deadline(me, state);
    }

    /// Moves the deadlines with a clock that was set back, so that no room waits until it has caught up.
    fn move_deadlines_back(state: &mut ProjectState, step: Duration) {
        if step.is_zero() {
            return;
        }
        for (due, name) in std::mem::take(&mut state.hibernating) {
            let due = due.before(step);
            if let Some(room) = state.rooms.get_mut(&name)
                && room.is_hibernating()
                && room.hibernate(due)
            {
                state.hibernating.insert((due, name));
            }
        }
    }

    fn due_room(&self, state: &ProjectState) -> Option<RoomName> {
        let now = self.context.clock.now();
        state
            .hibernating
            .first()
            .filter(|(deadline, _)| *deadline <= now)
            .map(|(_, name)| name.clone())
    }

    /// Wakes the room whose deadline came first; it decides whether it ends. Then asks for the next.
    pub(super) fn end_due_room(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        permit: ProjectPermit,
    ) {
        state.awaits_permit = false;
        if let Some(name) = self.due_room(state) {
            state.hibernating.pop_first();
            self.send_to_room(me, state, &name, RoomMsg::EmptyTimeout(Some(permit)));
        }
        self.hibernation_deadline(me, state);
    }

    /// Sends to a room that is a child, and wakes it if it hibernates.
    pub(super) fn send_to_room(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
        message: RoomMsg,
    ) {
        let Some(room) = state.rooms.get_mut(name) else {
            return;
        };
        if let Sent::Wake(due) = room.send(message) {
            state.hibernating.remove(&(due, name.clone()));
            self.load_room(me, name.clone());
        }
    }

    /// Handles a room's actor that has stopped. An open room hibernates, unless a message came while its actor was stopping.
    pub(super) async fn room_stopped(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: RoomName,
        last_state: Option<BoxedState>,
    ) {
        let last = last_state.and_then(|mut last| last.take::<RoomState>().ok());
        let open = last.filter(RoomState::is_open);
        let Some(last) = open else {
            return self.forget_room(state, &name);
        };
        let not_before = last
            .end_failed()
            .then(|| self.context.clock.now().after(RETRY_END));
        let (idle, start) = (last.is_idle(), last.into_start());
        if !(idle && self.hibernate(me, state, &start.snapshot.room, not_before)) {
            self.spawn_room(me, state, start).await;
        }
    }
}
