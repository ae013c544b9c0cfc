//! Rooms at rest: open, with nobody inside, and no process of their own.
//!
//! Most open rooms are empty most of the time: made ahead, or left a minute ago. Such a room is a info and a deadline, and
//! the project keeps one timer for the earliest of them. Whatever comes for the room wakes it: its actor is rebuilt from
//! the records, as after a failure, and handles what waited.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::room::Room;
use conclave_model::{RoomName, Timestamp};
use ractor::actor::messages::BoxedState;

use super::{ProjectActor, ProjectMsg, ProjectState};
use crate::child::{Child, Sent};
use crate::mailbox::Mailbox;
use crate::registry::ActorStatus;
use crate::room::{HibernatingRoom, RoomMsg, RoomState};
use crate::timer::Timer;

/// How soon a room that could not be ended is woken again.
const AGAIN: Duration = Duration::from_secs(1);

impl ProjectActor {
    /// Lets a room rest until its deadline; one that has passed wakes it at once, but not before `not_before`. Says
    /// whether it rests: one without a deadline has somebody inside, and one that something waits for is wanted.
    pub(super) fn hibernate(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        room: &Room,
        not_before: Option<Timestamp>,
    ) -> bool {
        let Some(deadline) = room.empty_deadline else { return false };
        let due = not_before.map_or(deadline, |at| at.max(deadline));
        let info = state.rooms.info(self, &room.name);
        match state.rooms.get_mut(&room.name) {
            Some(child) => {
                if !child.rest(due) {
                    return false;
                }
            }
            None => {
                info.record_start(self.context.clock.now());
                state.rooms.insert(room.name.clone(), Child::hibernating(Arc::clone(&info), due));
            }
        }
        self.context.registry.register(&info, ActorStatus::Hibernating(Arc::new(HibernatingRoom { deadline })));
        state.hibernating.insert((due, room.name.clone()));
        self.arm_rest(me, state);
        true
    }

    /// Makes the one timer agree with the earliest deadline.
    fn arm_rest(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState) {
        let wanted = state.hibernating.first().map(|(deadline, _)| *deadline);
        if state.rest.as_ref().map(|timer| timer.view().fires_at) != wanted {
            let arm = |at| Timer::arm(&self.context.clock, "rest", at, me, ProjectMsg::HibernationDeadline);
            state.rest = wanted.map(arm);
        }
    }

    /// Wakes the rooms whose deadline has come; each sees for itself whether it ends.
    pub(super) fn hibernation_deadline(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState) {
        let now = self.context.clock.now();
        let due: Vec<_> = state.hibernating.iter().take_while(|(deadline, _)| *deadline <= now).cloned().collect();
        state.rest = None;
        for entry in due {
            self.send_to_room(me, state, &entry.1, RoomMsg::EmptyTimeout);
        }
        self.arm_rest(me, state);
    }

    /// Sends to a room that is a child, waking it if it rests.
    pub(super) fn send_to_room(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
        message: RoomMsg,
    ) {
        let Some(room) = state.rooms.get_mut(name) else { return };
        if let Sent::Wake(due) = room.send(message) {
            state.hibernating.remove(&(due, name.clone()));
            self.take_up_again(me, name.clone());
        }
    }

    /// A room's actor has stopped. An open room rests, unless something came for it while it was stopping.
    pub(super) async fn room_stopped(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: RoomName,
        last_state: Option<BoxedState>,
    ) {
        let last = last_state.and_then(|mut last| last.take::<RoomState>().ok());
        let open = last.filter(RoomState::is_open);
        let Some(last) = open else { return self.forget_room(state, &name) };
        let again = last.end_failed().then(|| self.context.clock.now().after(AGAIN));
        let (idle, snapshot) = (last.is_idle(), last.into_snapshot());
        if !(idle && self.hibernate(me, state, &snapshot.room, again)) {
            self.spawn_room(me, state, snapshot).await;
        }
    }
}
