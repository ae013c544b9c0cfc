//! Calls to the media plane that a room actor has started and that have not returned.
//!
//! A call runs in a spawned task, so a slow media plane does not block the room's mailbox; its outcome comes back as
//! [`RoomMsg::MediaCallEnded`]. Two rules keep the order that callers and receivers of events see:
//!
//! - Calls about one participant run one after another, in the order in which they were requested.
//! - While a participant's role is being changed, reports about that participant are held until the change is written. So
//!   `participant.role_changed` comes before what the change causes, and that is written with the new role.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use conclave_media::{MediaError, MediaEvent, MuteOutcome, ServerData};
use conclave_model::Identity;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::participant::Participant;
use conclave_model::role_change::RoleChanged;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::RoomActor;
use super::message::{
    ChangeRoleRequest, MuteReply, MuteTrackRequest, RemoveReply, RoleReply, RoomMsg, SendDataReply,
    participant_not_found,
};
use super::state::RoomState;
use crate::error::TreeError;
use crate::mailbox::Mailbox;

/// The number of a call, unique within one run of a room's actor.
pub type CallId = u64;

/// The result of a call, with the reply that waits for it.
#[derive(Debug)]
pub enum CallOutcome {
    /// A participant was disconnected, or was not there.
    Removed(RemoveReply, Result<bool, MediaError>),
    /// A track was muted or unmuted, or was not there.
    Muted(MuteReply, Result<MuteOutcome, MediaError>),
    /// Data was sent.
    DataSent(SendDataReply, Result<(), MediaError>),
    /// A participant was given another role, which is not written yet.
    RoleSet(Box<AcceptedRole>, Result<Participant, TreeError>),
}

/// A role change that is written once the media plane has accepted it.
#[derive(Debug)]
pub struct AcceptedRole {
    /// The participant and the role.
    pub(super) request: ChangeRoleRequest,
    /// The response to store with the change.
    pub(super) keep: Option<ResponseRecorder<RoleChanged>>,
    /// Answered once the change is durable.
    pub(super) reply: RoleReply,
}

impl CallOutcome {
    /// Gives the caller the media plane's answer. A role change that cannot be written any more is answered as one of a room
    /// that has ended.
    pub(super) fn answer_as_ended(self) {
        match self {
            Self::Removed(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::Muted(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::DataSent(reply, result) => drop(reply.send(result.map_err(TreeError::from))),
            Self::RoleSet(accepted, result) => {
                let error = result.map_or_else(|error| error, |_| participant_not_found());
                let _ = accepted.reply.send(Err(error));
            }
        }
    }
}

/// The participant a call is about, if it is about one.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// Every participant; such calls run side by side.
    Room,
    /// One participant, whose reports go on meanwhile.
    Participant(Identity),
    /// One participant, whose reports are held meanwhile.
    RoleOf(Identity),
}

impl Target {
    fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Room => None,
            Self::Participant(identity) | Self::RoleOf(identity) => Some(identity),
        }
    }
}

/// The calls of one room that have not returned, and the messages held for them.
#[derive(Debug, Default)]
pub(super) struct MediaCalls {
    next: CallId,
    running: Vec<RunningCall>,
    held: Vec<RoomMsg>,
}

#[derive(Debug)]
struct RunningCall {
    id: CallId,
    target: Target,
    /// Resolves when the call has returned; taken by the next call about the same participant.
    returned: Option<oneshot::Receiver<()>>,
}

impl MediaCalls {
    /// Whether no call is running.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Adds a call. Returns its number, what to wait for before it starts, and what to drop when it has returned.
    fn begin(&mut self, target: Target) -> (CallId, Option<oneshot::Receiver<()>>, oneshot::Sender<()>) {
        let (done, returned) = oneshot::channel();
        let same = |call: &&mut RunningCall| target.identity().is_some() && call.target.identity() == target.identity();
        let previous = self.running.iter_mut().rev().find(same).and_then(|call| call.returned.take());
        self.next += 1;
        self.running.push(RunningCall { id: self.next, target, returned: Some(returned) });
        (self.next, previous, done)
    }

    /// Removes a call that has returned.
    fn end(&mut self, id: CallId) {
        self.running.retain(|call| call.id != id);
    }

    /// Holds a message that must wait for a role change, or gives it back.
    pub fn hold(&mut self, message: RoomMsg) -> Option<RoomMsg> {
        if !self.must_wait(&message) {
            return Some(message);
        }
        self.held.push(message);
        None
    }

    /// Returns the held messages that nothing holds any more, in their order.
    pub fn release(&mut self) -> Vec<RoomMsg> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held);
        held.into_iter().filter_map(|message| self.hold(message)).collect()
    }

    /// Returns all held messages.
    pub fn release_all(&mut self) -> Vec<RoomMsg> {
        std::mem::take(&mut self.held)
    }

    fn must_wait(&self, message: &RoomMsg) -> bool {
        let mut changing = self.running.iter().filter_map(|call| match &call.target {
            Target::RoleOf(identity) => Some(identity),
            Target::Room | Target::Participant(_) => None,
        });
        match message {
            RoomMsg::Report { report, .. } => {
                subject(&report.event).is_some_and(|subject| changing.any(|identity| identity == subject))
            }
            // What it says of a participant's tracks may be what the change caused.
            RoomMsg::Observed(_) => changing.next().is_some(),
            RoomMsg::Barrier(_) => !self.held.is_empty(),
            _ => false,
        }
    }
}

/// Returns the participant that an event is about.
fn subject(event: &MediaEvent) -> Option<&Identity> {
    match event {
        MediaEvent::ParticipantJoined(participant) => Some(&participant.identity),
        MediaEvent::ParticipantLeft { participant, .. }
        | MediaEvent::JoinAborted { participant }
        | MediaEvent::TrackPublished { participant, .. }
        | MediaEvent::TrackUnpublished { participant, .. }
        | MediaEvent::TrackMuted { participant, .. }
        | MediaEvent::PublishLimit { participant, .. } => Some(&participant.identity),
        MediaEvent::Egress(_) | MediaEvent::Ingress(_) => None,
    }
}

impl RoomActor {
    /// Runs a call in a spawned task. Its outcome comes back as a message: to this actor, or along the path of reports to
    /// the one that was rebuilt in its place.
    pub(super) fn call_media(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        target: Target,
        call: impl Future<Output = CallOutcome> + Send + 'static,
    ) {
        let (id, previous, done) = state.calls.begin(target);
        let (me, path) = (me.clone(), self.path.clone());
        tokio::spawn(async move {
            if let Some(previous) = previous {
                // An error means that the previous call has returned as well.
                let _ = previous.await;
            }
            // A call that panics must not keep the room awake: its reply is dropped, which the caller reads as no answer.
            let outcome = AssertUnwindSafe(call).catch_unwind().await.ok().map(Box::new);
            if let Err(Some(message)) = me.cast(RoomMsg::MediaCallEnded { call: id, outcome }) {
                path.send(message);
            }
            drop(done);
        });
    }

    /// Disconnects a participant on the media plane.
    pub(super) fn remove_participant(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        identity: Identity,
        reply: RemoveReply,
    ) {
        let (media, room) = (Arc::clone(&self.context.media), state.room.namespaced_name());
        self.call_media(me, state, Target::Participant(identity.clone()), async move {
            let result = match media.participant(&room, &identity).await {
                Ok(Some(participant)) => media.remove_participant(&room, &participant.sid).await,
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            CallOutcome::Removed(reply, result)
        });
    }

    /// Mutes or unmutes a track on the media plane.
    pub(super) fn mute_track(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        request: MuteTrackRequest,
        reply: MuteReply,
    ) {
        let (media, room) = (Arc::clone(&self.context.media), state.room.namespaced_name());
        self.call_media(me, state, Target::Participant(request.identity.clone()), async move {
            let MuteTrackRequest { identity, track, muted } = request;
            CallOutcome::Muted(reply, media.mute_track(&room, &identity, &track, muted).await)
        });
    }

    /// Sends data through the media plane.
    pub(super) fn send_data(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        data: ServerData,
        reply: SendDataReply,
    ) {
        let (media, room) = (Arc::clone(&self.context.media), state.room.namespaced_name());
        self.call_media(me, state, Target::Room, async move {
            CallOutcome::DataSent(reply, media.send_data(&room, data).await)
        });
    }

    /// Handles the outcome of a call.
    pub(super) async fn media_call_ended(&self, state: &mut RoomState, call: CallId, outcome: Option<CallOutcome>) {
        match outcome {
            Some(CallOutcome::RoleSet(accepted, Ok(participant))) => {
                self.write_role_change(state, *accepted, participant).await;
            }
            Some(outcome) => outcome.answer_as_ended(),
            None => log::error!(actor = &*self.info.id; "a call to the media plane panicked"),
        }
        state.calls.end(call);
    }
}
