//! The calls to the media plane that a room actor has started and that have not returned.
//!
//! A call runs in a spawned task, so a slow media plane does not block the room's mailbox; its outcome comes back as
//! [`RoomMsg::MediaCallEnded`]. Two rules keep the order that callers and receivers of events see:
//!
//! - Calls about one participant run one after another, in the order in which they were requested.
//! - While a participant's role is being changed, reports about that participant are held until the change is written. So
//!   `participant.role_changed` comes before what the change causes, and that is written with the new role.

use conclave_media::MediaEvent;
use conclave_model::Identity;
use tokio::sync::oneshot;

use super::message::RoomMsg;
use super::outcome::CallId;

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
    pub fn begin(&mut self, target: Target) -> (CallId, Option<oneshot::Receiver<()>>, oneshot::Sender<()>) {
        let (done, returned) = oneshot::channel();
        let same = |call: &&mut RunningCall| target.identity().is_some() && call.target.identity() == target.identity();
        let previous = self.running.iter_mut().rev().find(same).and_then(|call| call.returned.take());
        self.next += 1;
        self.running.push(RunningCall { id: self.next, target, returned: Some(returned) });
        (self.next, previous, done)
    }

    /// Removes a call that has returned.
    pub fn end(&mut self, id: CallId) {
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
        MediaEvent::JoinRequested { participant, .. } | MediaEvent::ParticipantJoined(participant) => {
            Some(&participant.identity)
        }
        MediaEvent::ParticipantLeft { participant, .. }
        | MediaEvent::JoinAborted { participant }
        | MediaEvent::TrackPublished { participant, .. }
        | MediaEvent::TrackUnpublished { participant, .. }
        | MediaEvent::TrackMuted { participant, .. }
        | MediaEvent::PublishLimit { participant, .. } => Some(&participant.identity),
        MediaEvent::InvalidIdentity | MediaEvent::Egress(_) | MediaEvent::Ingress(_) => None,
    }
}
