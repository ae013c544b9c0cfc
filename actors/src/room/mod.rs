//! The room actor: the participants connected to one room, by role, and the room's empty timer.
//!
//! Everything that happens in a room is decided here, in the order in which it happened: joins and leaves that the media
//! plane reports, and the commands of callers (another role, a removal, a mute, data, the end of the room). Each change is
//! persisted with its events before the actor acts on it, so the actor can be rebuilt from the database at any moment.
//!
//! - [`message`], [`requests`], [`state`]: the messages, the requests of callers, and the state.
//! - [`admission`]: whether a participant may join, and seats for those that are connecting ([`reservations`]).
//! - [`report_order`]: the order of reports, and of what waits for them.
//! - [`reports`]: joins, leaves and tracks as the media plane reports them; the end of the room.
//! - [`last_roles`]: the role that a participant joins with.
//! - [`commands`], [`roles`]: commands that call the media plane, in spawned tasks; [`media_calls`] keeps their order.
//! - [`reconcile`]: repairs what lost reports left behind.
//!
//! Limits: a join waits for the media plane if the room's template has subscription rules, or if it gets another role than its
//! token's, and so do the messages behind it.
//!
//! Supervision: the project actor starts it for a room with participants and for a message to the room, and rebuilds it after
//! a failure. It stops when the room has ended, and when the room is empty, no call is running and no seat is reserved: the
//! room then hibernates, which takes no more memory than a deadline that the project keeps. Reserved seats are not in the
//! database: an actor that is rebuilt after a failure has none, and decides again when a participant has joined.

mod commands;
mod join;
mod message;
mod reconcile;
mod report_order;
mod reports;
mod roles;
mod roster;

use std::sync::Arc;

use conclave_model::NamespacedRoom;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::context::ActorContext;
use crate::error::TreeError;
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, ReportPath};
pub use message::{
    AcceptedRole, CallId, CallOutcome, ChangeRoleRequest, MuteReply, MuteTrackRequest, RemoveReply,
    RoleReply, RoomMsg, RoomObservation, SendDataReply,
};
pub(crate) use roster::{HibernatingRoom, RoomStart, RoomState};

/// The parts of a room actor that do not change.
pub struct RoomActor {
    /// What all actors share.
    pub context: Arc<ActorContext>,
    /// The media plane's name of the room.
    pub room: NamespacedRoom,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// The path to this actor that reports take.
    pub path: ReportPath<RoomMsg>,
}

impl RoomActor {
    async fn dispatch(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState, message: RoomMsg) {
        // Boxed, so that the future of an idle room does not hold space for the longest of these.
        match message {
            RoomMsg::Inspect(reply) => drop(reply.send(state.inspect())),
            message if !state.is_open() => {
                self.answer_waiting_as_ended(state);
                message.answer_as_ended();
            }
            RoomMsg::Reports => Box::pin(self.handle_next_report(me, state)).await,
            message @ (RoomMsg::Observed(_) | RoomMsg::Barrier(_) | RoomMsg::EmptyTimeout(_)) => {
                if let Some(message) = self.wait_behind_reports(state, message) {
                    Box::pin(self.handle_in_order(me, state, message)).await;
                }
            }
            RoomMsg::End(reply) => {
                drop(reply.send(Box::pin(self.end(me, state)).await.map_err(TreeError::from)));
            }
            message @ RoomMsg::ChangeRole { .. } => {
                if let Some(message) = self.wait_for_join(state, message) {
                    Box::pin(self.handle_in_order(me, state, message)).await;
                }
            }
            RoomMsg::RemoveParticipant { identity, reply } => {
                self.remove_participant(me, state, identity, reply);
            }
            RoomMsg::MuteTrack { request, reply } => self.mute_track(me, state, *request, reply),
            RoomMsg::SendData { data, reply } => self.send_data(me, state, *data, reply),
            RoomMsg::MediaCallEnded { call, outcome } => {
                Box::pin(self.media_call_ended(state, call, outcome.map(|outcome| *outcome))).await;
                self.resume_reports(me);
            }
            RoomMsg::ReservationExpired => self.drop_expired_reservations(me, state),
            RoomMsg::Reconcile => self.observe(me, state),
        }
    }

    /// Handles a message for which no report has to be handled first any more.
    async fn handle_in_order(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        message: RoomMsg,
    ) {
        match message {
            RoomMsg::Observed(observation) => self.repair(me, state, *observation).await,
            RoomMsg::Barrier(barrier) => barrier.pass(),
            RoomMsg::EmptyTimeout(_permit) => self.end_if_empty(me, state).await,
            RoomMsg::ChangeRole {
                request,
                recorder,
                reply,
            } => {
                self.change_role(me, state, *request, recorder, reply);
            }
            // No other message waits for reports.
            message => message.answer_as_ended(),
        }
    }
}

impl Actor for RoomActor {
    type Msg = RoomMsg;
    type State = RoomState;
    type Arguments = RoomStart;

    async fn pre_start(
        &self,
        myself: ActorRef<RoomMsg>,
        start: RoomStart,
    ) -> Result<RoomState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        let mut state = RoomState::new(start);
        self.arm_empty_timer(&me, &mut state);
        self.arm_reservation_timer(&me, &mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<RoomMsg>,
        message: RoomMsg,
        state: &mut RoomState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        self.info.record_message(self.context.clock.now(), &message);
        self.dispatch(&me, state, message).await;
        if state.is_idle() && !self.context.reports.is_waiting(&self.room) {
            // Messages sent by now are handled first; later ones find the room hibernating and wake it.
            me.actor().drain()?;
        }
        Ok(())
    }
}
