//! The room actor: the participants connected to one room, by role, and the room's empty timer.
//!
//! # Parts
//!
//! A [`LiveRoom`] receives the messages ([`message`]) and sequences its parts, which own their state:
//!
//! - [`roster`]: the record and the connected participants, as last written.
//! - [`report_order`]: the order of reports, and the messages that wait behind reports.
//! - [`join`]: whether a participant may join, reserved seats, and the record of a join.
//! - [`auto_record`]: recordings that start by themselves at a join.
//! - [`commands`]: commands that call the media plane, in spawned tasks.
//! - [`duration`]: the maximum duration, and the notice before it.
//! - [`reconcile`]: repairs after lost reports.
//!
//! # A room's life
//!
//! 1. `POST /v1/rooms` writes the record. The room is empty, so it starts in hibernation: a deadline in its project's `hibernation.rs`, and
//!    no actor.
//! 2. The first message wakes it, usually a join. The project loads the room's records and starts this actor with a snapshot. The message
//!    is buffered in the project's list of children.
//! 3. Reports arrive: joins, leaves, tracks. [`LiveRoom::handle_report`] writes each with its events, then updates the roster and replies.
//!    The media plane makes a participant visible only after that reply.
//! 4. Commands arrive between reports. A removal, a mute or data calls the media plane in a task, in order per participant. A role change
//!    calls the media plane first and is written afterwards, so that a refused change is never recorded; reports about that participant
//!    wait meanwhile.
//! 5. After the last leave, the record has a deadline, and the empty timer is armed. The actor stops once it is idle: empty, without a
//!    running call, a reserved seat or a queued report. The room hibernates again.
//! 6. The deadline passes: the project wakes the room with a permit, and [`LiveRoom::end_if_empty`] ends it, unless a join was faster. Or
//!    `DELETE` ends it at any time, without waiting for reports. The actor writes the end and the leaves, closes the room on the media
//!    plane, and refuses everything that is still queued with `room_ended`. A room with a maximum duration ends in the same way, whether
//!    it is empty or not.
//!
//! # Failures
//!
//! - The store refuses a write: the report's result is unavailable, and the media plane refuses the join, or the room is reconciled later.
//! - The actor fails: the project rebuilds it from the records. Reserved seats are lost, so the second phase of a join decides again. The
//!   queue of reports outlives the actor; [`reconcile`] repairs the effects of a report that was lost with it.
//! - The media plane is unavailable: a join that needs subscription rules is refused, and commands fail with `media_unavailable`.
//! - A wrong clock: deadlines are times in the record. If the clock is set back, timers still fire after the delay they were armed with.
//!
//! # Why not simpler
//!
//! A join waits for the media plane if the template has subscription rules or the role differs from the token's, and messages behind it
//! wait, too. In a task, a leave could overtake its join. Everything else that is slow runs in tasks. Idle rooms have no actor because most
//! open rooms are empty most of the time: a hibernating room costs a deadline instead of a task and a mailbox.

mod auto_record;
mod commands;
mod duration;
mod join;
mod message;
mod reconcile;
mod report_order;
mod roster;

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_db::{NewRoleChange, RoomSnapshot, StoreError};
use conclave_media::{MediaEvent, Report, ReportError};
use conclave_model::event::TrackChange;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::participant::Participant;
use conclave_model::role_change::RoleChanged;
use conclave_model::{ErrorCode, NamespacedRoom, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde_json::json;

use crate::context::ActorContext;
use crate::error::TreeError;
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, ReportPath, Timer, TimerView};
use crate::recording::EgressStarter;
use crate::registry::{Inspect, Inspection};
use auto_record::AutoRecordings;
use commands::{MediaCalls, RoomOnPlane, Target};
use duration::DurationTimers;
use join::{JoinSource, Reservations};
use message::participant_not_found;
pub use message::{
    AcceptedRole, CallId, CallOutcome, ChangeRoleRequest, MuteReply, MuteTrackRequest, RemoveReply,
    RoleReply, RoomMsg, RoomObservation, SendDataReply,
};
use reconcile::Absences;
use report_order::{NextItem, ReportOrder};
use roster::Roster;

/// Arguments for a room's actor, set once by the project.
pub struct RoomActor {
    /// Services and settings shared by all actors.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// Report path to this actor.
    pub path: ReportPath<RoomMsg>,
    /// Start of recordings, on the project's actor.
    pub starter: EgressStarter,
}

/// Initial state for a room's actor.
pub struct RoomStart {
    pub(crate) snapshot: RoomSnapshot,
    /// Seats that an earlier actor had reserved when it stopped. They are in no record.
    reservations: Reservations,
}

impl From<RoomSnapshot> for RoomStart {
    fn from(snapshot: RoomSnapshot) -> Self {
        Self {
            snapshot,
            reservations: Reservations::default(),
        }
    }
}

/// Room with an actor.
pub struct LiveRoom {
    context: Arc<ActorContext>,
    me: Mailbox<RoomMsg>,
    path: ReportPath<RoomMsg>,
    starter: EgressStarter,
    auto_recordings: AutoRecordings,
    /// The room's name on the media plane.
    name: NamespacedRoom,
    roster: Roster,
    order: ReportOrder,
    calls: MediaCalls,
    reservations: Reservations,
    reservation_timer: Option<Timer>,
    absences: Absences,
    /// Timer for the next query about absent participants.
    absence_timer: Option<Timer>,
    empty_timer: Option<Timer>,
    duration: DurationTimers,
}

impl LiveRoom {
    fn new(actor: &RoomActor, me: ActorRef<RoomMsg>, start: RoomStart) -> Self {
        let (context, name) = (
            Arc::clone(&actor.context),
            start.snapshot.room.namespaced_name(),
        );
        Self {
            order: ReportOrder::new(context.reports.clone(), name.clone()),
            context,
            me: Mailbox::new(me, Arc::clone(&actor.info)),
            path: actor.path.clone(),
            starter: actor.starter.clone(),
            auto_recordings: AutoRecordings::default(),
            name,
            roster: Roster::new(start.snapshot),
            calls: MediaCalls::default(),
            reservations: start.reservations,
            reservation_timer: None,
            absences: Absences::default(),
            absence_timer: None,
            empty_timer: None,
            duration: DurationTimers::default(),
        }
    }

    /// Returns whether the room has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.roster.is_open()
    }

    /// Returns whether nothing happens until a message or the deadline.
    pub(crate) fn is_idle(&self) -> bool {
        is_idle(&self.roster, &self.calls, &self.reservations)
    }

    /// Returns whether the room should have ended, but the store was unavailable.
    pub(crate) fn end_failed(&self) -> bool {
        self.roster.end_failed()
    }

    /// Returns the initial state for the next actor of this room.
    pub(crate) fn into_start(self) -> RoomStart {
        RoomStart {
            snapshot: self.roster.into_snapshot(),
            reservations: self.reservations,
        }
    }

    async fn handle(&mut self, message: RoomMsg) {
        // Boxed, so that the future of an idle room does not reserve space for the longest of these.
        match message {
            RoomMsg::Inspect(reply) => drop(reply.send(self.inspect())),
            // The actor drains its mailbox after the end, so these were sent before callers could know.
            message if !self.is_open() => {
                self.order.reply_as_ended();
                message.reply_as_ended();
            }
            RoomMsg::Reports => Box::pin(self.handle_next_report()).await,
            message @ (RoomMsg::Observed(_) | RoomMsg::Barrier(_) | RoomMsg::EmptyTimeout(_)) => {
                if let Some(message) = self.order.wait_behind_reports(message, &self.calls) {
                    Box::pin(self.handle_in_order(message)).await;
                }
            }
            // Without regard to queued reports: an end must not wait behind a flood of them.
            RoomMsg::End(reply) => {
                drop(reply.send(Box::pin(self.end()).await.map_err(TreeError::from)));
            }
            message @ RoomMsg::ChangeRole { .. } => {
                if let Some(message) = self.wait_for_join(message) {
                    Box::pin(self.handle_in_order(message)).await;
                }
            }
            RoomMsg::RemoveParticipant { identity, reply } => {
                let target = Target::Participant(identity.clone());
                let call = self.on_plane().remove_participant(identity, reply);
                self.calls.run(&self.me, &self.path, target, call);
            }
            RoomMsg::MuteTrack { request, reply } => {
                let target = Target::Participant(request.identity.clone());
                let call = self.on_plane().mute_track(*request, reply);
                self.calls.run(&self.me, &self.path, target, call);
            }
            RoomMsg::SendData { data, reply } => {
                let call = self.on_plane().send_data(*data, reply);
                self.calls.run(&self.me, &self.path, Target::Room, call);
            }
            RoomMsg::MediaCallEnded { call, outcome } => {
                Box::pin(self.media_call_ended(call, outcome.map(|outcome| *outcome))).await;
                // Reports about the participant may have been kept back while its role was being changed.
                if self.order.claim_ticket() {
                    self.send_ticket();
                }
            }
            RoomMsg::DurationNotice => self.notify_of_end(),
            // Like a request to end the room: it must not wait behind a flood of reports.
            RoomMsg::DurationEnd => Box::pin(self.end_at_duration()).await,
            RoomMsg::ReservationExpired => self.drop_expired_reservations(),
            RoomMsg::Reconcile => self.observe(),
            RoomMsg::AutoRecorded { sid, is_settled } => self.auto_recorded(&sid, is_settled),
        }
    }

    /// Handles a message that no earlier report precedes.
    async fn handle_in_order(&mut self, message: RoomMsg) {
        match message {
            RoomMsg::Observed(observation) => {
                self.repair(*observation).await;
                // Starts recordings that an earlier actor, or an earlier server process, has left unstarted.
                self.auto_record();
            }
            RoomMsg::Barrier(barrier) => barrier.pass(),
            RoomMsg::EmptyTimeout(_permit) => self.end_if_empty().await,
            RoomMsg::ChangeRole {
                request,
                recorder,
                reply,
            } => self.change_role(*request, recorder, reply),
            // No other message waits for reports.
            message => message.reply_as_ended(),
        }
    }

    /// Handles the first report or marked message that may be handled, and sends the ticket again if there are more.
    async fn handle_next_report(&mut self) {
        let Some((next, goes_on)) = self.order.take(&self.calls) else {
            return;
        };
        match next {
            NextItem::Report(waiting) => {
                let result = self.handle_report(waiting.report).await;
                waiting.replies.send(result);
            }
            NextItem::Message(Some(message)) => self.handle_in_order(message).await,
            // The mark of an earlier actor, whose message was lost with it.
            NextItem::Message(None) => {}
        }
        if goes_on {
            self.send_ticket();
        }
    }

    fn send_ticket(&self) {
        // If the actor is about to stop, its successor handles the rest.
        if self.me.cast(RoomMsg::Reports).is_err() {
            self.path.send(RoomMsg::Reports);
        }
    }

    /// Stores a role change if the participant is not connected and its join may be among the reports; returns it otherwise.
    fn wait_for_join(&mut self, message: RoomMsg) -> Option<RoomMsg> {
        match &message {
            RoomMsg::ChangeRole { request, .. } if self.roster.is_connected(&request.identity) => {
                Some(message)
            }
            _ => self.order.wait_behind_reports(message, &self.calls),
        }
    }

    /// Writes a reported event, which is durable when this returns `Ok`.
    async fn handle_report(&mut self, report: Report) -> Result<(), ReportError> {
        let room = self.roster.room();
        let (project, id) = (room.project_id.clone(), room.id);
        let (store, at) = (&self.context.store, report.at);
        let (sessions, tracks) = (store.sessions(), store.tracks());
        let written = match report.event {
            MediaEvent::JoinRequested {
                participant,
                reserves_seat,
            } => return self.request_join(*participant, reserves_seat).await,
            MediaEvent::ParticipantJoined(participant) => {
                return self
                    .record_join(*participant, JoinSource::Reported { at })
                    .await;
            }
            MediaEvent::InvalidIdentity => return Err(ReportError::InvalidIdentity),
            MediaEvent::ParticipantLeft {
                participant,
                departure,
            } => {
                // A leave may arrive while its join still counts as recent.
                self.roster.forget_join(&participant.sid);
                let sid = participant.sid;
                // Participants that the stop disconnects get the whole empty timeout to reconnect.
                let left = if self.context.is_stopping.load(Ordering::Relaxed) {
                    sessions
                        .record_leave_at_stop(project, id, sid, at, departure)
                        .await
                } else {
                    sessions.record_leave(project, id, sid, at, departure).await
                };
                left.map(|left| self.apply_leave(left))
            }
            MediaEvent::JoinAborted { participant } => {
                self.reservations.release(&participant.sid);
                sessions
                    .record_join_aborted(project, id, participant, at)
                    .await
            }
            MediaEvent::TrackPublished { participant, track } => {
                let change = TrackChange::Published;
                tracks
                    .record(project, id, participant, track, change, at)
                    .await
            }
            MediaEvent::TrackUnpublished { participant, track } => {
                let change = TrackChange::Unpublished;
                tracks
                    .record(project, id, participant, track, change, at)
                    .await
            }
            MediaEvent::TrackMuted { participant, track } => {
                tracks
                    .record_muted(project, id, participant.sid, track)
                    .await
            }
            // A signed webhook can name any participant, so only connected ones count.
            MediaEvent::PublishLimit { participant, .. }
                if !self.roster.is_present(&participant) =>
            {
                Ok(())
            }
            MediaEvent::PublishLimit { participant, limit } => {
                tracks
                    .record_publish_limit(project, id, participant, limit, at)
                    .await
            }
            // The project delivers these to the egress and ingress actors.
            MediaEvent::Egress(_) | MediaEvent::Ingress(_) => Ok(()),
        };
        written.map_err(|error| self.report_error(&error))
    }

    fn report_error(&self, error: &StoreError) -> ReportError {
        match error {
            // The room ended in the records before this actor noticed.
            StoreError::Refused(problem) if problem.code == ErrorCode::RoomEnded => {
                ReportError::RoomEnded
            }
            error => {
                log::error!(actor = &*self.me.info().id; "a report could not be written: {error}");
                ReportError::Unavailable
            }
        }
    }

    /// Applies a written leave: the participants have changed, and perhaps the deadline.
    fn apply_leave(&mut self, left: RoomSnapshot) {
        self.roster.refresh(left);
        self.arm_empty_timer();
    }

    fn on_plane(&self) -> RoomOnPlane {
        RoomOnPlane {
            context: Arc::clone(&self.context),
            room: self.name.clone(),
        }
    }

    /// Starts a role change. The media plane goes first: a change that it refuses is not written.
    fn change_role(
        &mut self,
        request: ChangeRoleRequest,
        recorder: Option<ResponseRecorder<RoleChanged>>,
        reply: RoleReply,
    ) {
        if !self.roster.is_connected(&request.identity) {
            // Checked again here: the participant may have left while the request waited for reports.
            let _ = reply.send(Err(participant_not_found()));
            return;
        }
        let template = self.roster.room().template_id.clone();
        let target = Target::RoleOf(request.identity.clone());
        let accepted = Box::new(AcceptedRole {
            request,
            recorder,
            reply,
        });
        let call = self.on_plane().set_role(template, accepted);
        self.calls.run(&self.me, &self.path, target, call);
    }

    /// Handles a call's outcome.
    async fn media_call_ended(&mut self, call: CallId, outcome: Option<CallOutcome>) {
        match outcome {
            Some(CallOutcome::RoleSet(accepted, Ok(participant))) => {
                self.write_role_change(*accepted, participant).await;
            }
            Some(CallOutcome::Notified(joins, result)) => self.notified(&joins, result),
            // Only a role change needs a write. All other outcomes are replied to as they are, in any room.
            Some(outcome) => outcome.reply_as_ended(),
            None => {
                log::error!(actor = &*self.me.info().id; "a call to the media plane panicked");
            }
        }
        // Last, so that reports about the participant are kept back until the change is written.
        self.calls.end(call);
    }

    /// Writes a role change that the media plane has accepted. If that fails, the caller gets the store's error, and repeating the request
    /// brings both sides together.
    async fn write_role_change(&mut self, accepted: AcceptedRole, participant: Participant) {
        let AcceptedRole {
            request,
            recorder,
            reply,
        } = accepted;
        let room = self.roster.room();
        let new = NewRoleChange {
            project_id: room.project_id.clone(),
            room: room.id,
            role: request.role,
            participant,
            by: request.by,
        };
        let written = self
            .context
            .store
            .role_changes()
            .record(new, recorder)
            .await;
        // The roster changes only with the records.
        if let Ok(RoleChanged { change, .. }) = &written {
            self.roster.set_role(&change.participant_sid, &change.role);
        }
        let _ = reply.send(written.map_err(TreeError::from));
    }

    /// Arms the empty timer for the record's deadline, or disarms it if there is none.
    fn arm_empty_timer(&mut self) {
        let (clock, me) = (&self.context.clock, &self.me);
        let deadline = self.roster.room().empty_deadline;
        Timer::rearm(&mut self.empty_timer, deadline, |at| {
            Timer::arm(clock, "empty_timeout", at, me, RoomMsg::EmptyTimeout(None))
        });
    }

    /// Ends the room if its deadline has passed. If the store is unavailable, the room hibernates, and its project wakes it again a little
    /// later.
    async fn end_if_empty(&mut self) {
        let now = self.context.clock.now();
        // A join may have been handled since the timer fired.
        if !self.roster.room().is_past_deadline(now) {
            return;
        }
        if let Err(error) = self.end().await {
            log::error!(room = self.name.as_str(); "an empty room could not be ended: {error}");
            self.roster.record_failed_end();
        }
    }

    /// Ends the record, then the room on the media plane, then the actor. The record does not wait for the media plane, which may be
    /// unavailable; reconciliation closes the room later.
    async fn end(&mut self) -> Result<(), StoreError> {
        let room = self.roster.room();
        let ended = self
            .context
            .store
            .rooms()
            .end(room.project_id.clone(), room.id)
            .await?;
        self.roster.refresh(RoomSnapshot {
            room: ended,
            participants: Vec::new(),
        });
        self.order.reply_as_ended();
        self.empty_timer = None;
        self.duration = DurationTimers::default();
        let (media, room) = (Arc::clone(&self.context.media), self.name.clone());
        tokio::spawn(async move {
            if let Err(error) = media.close_room(&room).await {
                log::warn!(room = room.as_str(); "an ended room was not closed on the media plane: {error}");
            }
        });
        // Messages sent by now get the reply that the room has ended. A stop would drop them.
        if self.me.actor().drain().is_err() {
            self.me.actor().stop(Some("ended".into()));
        }
        Ok(())
    }

    /// Returns the snapshot for the debug endpoint.
    fn inspect(&self) -> Inspection {
        let (room, participants) = (self.roster.room(), self.roster.identities_by_role());
        let holders: BTreeMap<_, _> = participants
            .iter()
            .map(|(role, held)| (*role, held.len()))
            .collect();
        let mut state = json!({
            "status": room.status.as_str(),
            "participants": participants,
            "holders": holders,
            "reserved": self.reservations.identities(),
            "empty_deadline": room.empty_deadline,
            "template_id": room.template_id,
        });
        let starts = self.auto_recordings.running();
        if starts > 0 {
            state["recording_starts"] = json!(starts);
        }
        let timers = self
            .empty_timer
            .iter()
            .chain(&self.reservation_timer)
            .chain(&self.absence_timer)
            .chain(self.duration.timers());
        Inspection {
            timers: timers.map(Timer::view).collect(),
            state,
        }
    }
}

/// Returns whether nothing happens until a message or the deadline: the room is open and empty, no call is running, and no seat is reserved.
fn is_idle(roster: &Roster, calls: &MediaCalls, reservations: &Reservations) -> bool {
    roster.awaits_deadline() && calls.is_empty() && reservations.is_empty()
}

/// A hibernating room in the debug endpoint: open, without participants, until its deadline.
pub(crate) struct HibernatingRoom {
    /// Time at which the room ends.
    pub deadline: Timestamp,
}

impl Inspect for HibernatingRoom {
    fn inspect(&self, _: Duration) -> BoxFuture<'_, Option<Inspection>> {
        let deadline = self.deadline;
        let state = json!({"status": "open", "participants": {}, "holders": {}, "reserved": [], "empty_deadline": deadline});
        let timers = vec![TimerView {
            name: "empty_timeout",
            fires_at: deadline,
        }];
        ready(Some(Inspection { timers, state })).boxed()
    }
}

impl Actor for RoomActor {
    type Msg = RoomMsg;
    type State = LiveRoom;
    type Arguments = RoomStart;

    async fn pre_start(
        &self,
        myself: ActorRef<RoomMsg>,
        start: RoomStart,
    ) -> Result<LiveRoom, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        // Started from records and seats only, so a start never fails.
        let mut room = LiveRoom::new(self, myself, start);
        // A rebuilt room continues with the timers of its records and seats.
        room.arm_empty_timer();
        room.arm_duration_timers();
        room.arm_reservation_timer();
        Ok(room)
    }

    async fn handle(
        &self,
        _: ActorRef<RoomMsg>,
        message: RoomMsg,
        room: &mut LiveRoom,
    ) -> Result<(), ActorProcessingErr> {
        self.info.record_message(self.context.clock.now(), &message);
        room.handle(message).await;
        if room.is_idle() && !room.order.is_waiting() {
            // Messages sent by now are handled first. Later ones find the room hibernating, and wake it.
            room.me.actor().drain()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::room::RoomStatus;

    use super::commands::tests::begin;
    use super::roster::tests::{roster, snapshot};
    use super::*;

    #[test]
    fn a_room_is_idle_while_it_is_open_and_empty_with_a_deadline_and_without_calls() {
        let (mut calls, mut seats) = (MediaCalls::default(), Reservations::default());
        let idle =
            |roster: &Roster| is_idle(roster, &MediaCalls::default(), &Reservations::default());
        assert!(roster(&[]).is_open() && idle(&roster(&[])));
        assert!(!idle(&roster(&[("alice", "host")])));
        let mut ended = snapshot(&[]);
        ended.room.status = RoomStatus::Ended;
        let ended = Roster::new(ended);
        assert!(!ended.is_open() && !idle(&ended));
        let mut kept_open = snapshot(&[]);
        kept_open.room.empty_deadline = None;
        assert!(!idle(&Roster::new(kept_open)));
        let empty = roster(&[]);
        let call = begin(&mut calls, Target::Room);
        assert!(!is_idle(&empty, &calls, &seats));
        calls.end(call);
        assert!(is_idle(&empty, &calls, &seats));
        let sid: conclave_model::ParticipantSid = "PA_alice".parse().unwrap();
        seats.reserve(sid.clone(), "alice".parse().unwrap(), None, Duration::ZERO);
        assert!(!is_idle(&empty, &calls, &seats));
        seats.release(&sid);
        assert!(is_idle(&empty, &calls, &seats));
    }
}
