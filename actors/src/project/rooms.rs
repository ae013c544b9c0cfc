//! What a project actor does about rooms: makes, ends, passes on, counts.

use std::sync::Arc;

use conclave_db::{NewRoom, StoreError};
use conclave_media::{MediaEvent, Report, ReportError};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::room::Room;
use conclave_model::{ErrorCode, Problem, RoomName};
use ractor::RpcReplyPort;
use tokio::sync::oneshot;

use super::{ProjectActor, ProjectMsg, ProjectState, RoomReply};
use crate::mailbox::Mailbox;
use crate::room::RoomMsg;

impl ProjectActor {
    /// Counts the room against the plan's ceiling and starts writing it. The write runs beside the actor, so that rooms
    /// made at once share an fsync.
    pub(super) fn create_room(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        new: NewRoom,
        (limit, keep): (Option<u32>, Option<ResponseRecorder<Room>>),
        reply: RoomReply,
    ) {
        let taken = state.rooms.len() + state.pending_rooms;
        if let Some(limit) = limit.filter(|limit| taken >= *limit as usize) {
            let message = format!("the plan lets {limit} rooms be open at once, and they are");
            let problem = Problem::new(ErrorCode::RoomLimitReached, message);
            let _ = reply.send(Err(StoreError::Refused(problem)));
            return;
        }
        state.pending_rooms += 1;
        let (context, me) = (Arc::clone(&self.context), me.clone());
        tokio::spawn(async move {
            let result = Box::new(context.store.create_room(new, keep).await);
            // A project that stops now finds the room in the database when it starts again.
            let _ = me.cast(ProjectMsg::RoomCreated { result, reply });
        });
    }

    /// Lays a new room to rest, since nobody is in it yet, and gives its maker the answer.
    pub(super) fn room_created(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        result: Result<Room, StoreError>,
        reply: RoomReply,
    ) {
        state.pending_rooms -= 1;
        if let Ok(room) = &result {
            // A new room has a deadline and no messages, so it rests.
            let _ = self.hibernate(me, state, room, None);
        }
        let _ = reply.send(result);
    }

    /// Passes a message on to its room. One that is no child has ended since its sender looked, since every open room is
    /// among the children, or was never made here.
    pub(super) fn pass_to_room(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
        message: RoomMsg,
    ) {
        if state.rooms.contains(name) {
            self.send_to_room(me, state, name, message);
        } else {
            message.answer_as_ended();
        }
    }

    /// Lets somebody have a turn with a room's actor. A room at rest has handled everything, and need not be woken.
    pub(super) fn pass_barrier(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
        reply: RpcReplyPort<()>,
    ) {
        let turn = RoomMsg::Barrier(reply);
        match state.rooms.get(name) {
            Some(room) if !room.is_hibernating() => self.send_to_room(me, state, name, turn),
            _ => turn.answer_as_ended(),
        }
    }

    /// Passes a report on to whom it is about.
    pub(super) fn pass_report(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        report: Report,
        answer: oneshot::Sender<Result<(), ReportError>>,
    ) {
        match report.event {
            MediaEvent::Egress(said) => self.job_reported(state, said, report.at, answer),
            MediaEvent::Ingress(said) => self.ingress_reported(state, said, report.at, answer),
            _ => {
                let (_, name) = report.room.split();
                self.pass_to_room(me, state, &name, RoomMsg::Report { report, answer });
            }
        }
    }
}
