//! The calls to the media plane that a room actor has started and that have not returned.
//!
//! A call runs in a spawned task, so a slow media plane does not block the room's mailbox; its outcome comes back as
//! [`RoomMsg::MediaCallEnded`](super::RoomMsg::MediaCallEnded). Two rules keep the order that callers and receivers of events see:
//!
//! - Calls about one participant run one after another, in the order in which they were requested.
//! - While a participant's role is being changed, reports about that participant are held until the change is written. So
//!   `participant.role_changed` comes before what the change causes, and that is written with the new role.

use conclave_media::MediaEvent;
use conclave_model::Identity;
use tokio::sync::oneshot;

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

/// The calls of one room that have not returned.
#[derive(Debug, Default)]
pub(super) struct MediaCalls {
    next: CallId,
    running: Vec<RunningCall>,
}

#[derive(Debug)]
struct RunningCall {
    id: CallId,
    target: Target,
    /// Resolves when the call has returned; taken by the next call about the same participant.
    returned: Option<oneshot::Receiver<()>>,
}

/// A call that may start.
#[derive(Debug)]
pub(super) struct BegunCall {
    pub id: CallId,
    /// To be waited for first, if there is one.
    pub previous: Option<oneshot::Receiver<()>>,
    /// To be dropped when the call has returned.
    pub done: oneshot::Sender<()>,
}

impl MediaCalls {
    /// Whether no call is running.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Adds a call.
    pub fn begin(&mut self, target: Target) -> BegunCall {
        let (done, returned) = oneshot::channel();
        let same = |call: &&mut RunningCall| {
            target.identity().is_some() && call.target.identity() == target.identity()
        };
        let previous = self
            .running
            .iter_mut()
            .rev()
            .find(same)
            .and_then(|call| call.returned.take());
        self.next += 1;
        self.running.push(RunningCall {
            id: self.next,
            target,
            returned: Some(returned),
        });
        BegunCall {
            id: self.next,
            previous,
            done,
        }
    }

    /// Removes a call that has returned.
    pub fn end(&mut self, id: CallId) {
        self.running.retain(|call| call.id != id);
    }

    /// Whether a report has to wait: the role of the participant that it is about is being changed.
    pub fn holds_report(&self, event: &MediaEvent) -> bool {
        self.changing_role()
            .any(|identity| Some(identity) == event.identity())
    }

    /// Whether a role is being changed.
    pub fn is_changing_role(&self) -> bool {
        self.changing_role().next().is_some()
    }

    fn changing_role(&self) -> impl Iterator<Item = &Identity> {
        self.running.iter().filter_map(|call| match &call.target {
            Target::RoleOf(identity) => Some(identity),
            Target::Room | Target::Participant(_) => None,
        })
    }
}
