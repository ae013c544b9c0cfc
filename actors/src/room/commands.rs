//! The calls to the media plane that a room actor has started and that have not returned.
//!
//! A call runs in a spawned task, so a slow media plane does not block the room's mailbox; its outcome comes back as
//! [`RoomMsg::MediaCallEnded`](super::RoomMsg::MediaCallEnded). Two rules keep the order that callers and receivers of events see:
//!
//! - Calls about one participant run one after another, in the order in which they were requested.
//! - While a participant's role is being changed, reports about that participant are held until the change is written. So
//!   `participant.role_changed` comes before what the change causes, and that is written with the new role.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use conclave_media::{MediaEvent, ServerData};
use conclave_model::Identity;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::RoomActor;
use super::message::{
    CallId, CallOutcome, MuteReply, MuteTrackRequest, RemoveReply, RoomMsg, SendDataReply,
};
use super::roster::RoomState;
use crate::mailbox::Mailbox;

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
        let BegunCall { id, previous, done } = state.calls.begin(target);
        let (me, path) = (me.clone(), self.path.clone());
        tokio::spawn(async move {
            if let Some(previous) = previous {
                // An error means that the previous call has returned as well.
                let _ = previous.await;
            }
            // A call that panics must not keep the room awake: its reply is dropped, which the caller reads as no answer.
            let outcome = AssertUnwindSafe(call)
                .catch_unwind()
                .await
                .ok()
                .map(Box::new);
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
        let (media, room) = (
            Arc::clone(&self.context.media),
            state.room.namespaced_name(),
        );
        self.call_media(
            me,
            state,
            Target::Participant(identity.clone()),
            async move {
                let result = match media.participant(&room, &identity).await {
                    Ok(Some(participant)) => {
                        media.remove_participant(&room, &participant.sid).await
                    }
                    Ok(None) => Ok(false),
                    Err(error) => Err(error),
                };
                CallOutcome::Removed(reply, result)
            },
        );
    }

    /// Mutes or unmutes a track on the media plane.
    pub(super) fn mute_track(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        request: MuteTrackRequest,
        reply: MuteReply,
    ) {
        let (media, room) = (
            Arc::clone(&self.context.media),
            state.room.namespaced_name(),
        );
        self.call_media(
            me,
            state,
            Target::Participant(request.identity.clone()),
            async move {
                let MuteTrackRequest {
                    identity,
                    track,
                    muted,
                } = request;
                CallOutcome::Muted(
                    reply,
                    media.mute_track(&room, &identity, &track, muted).await,
                )
            },
        );
    }

    /// Sends data through the media plane.
    pub(super) fn send_data(
        &self,
        me: &Mailbox<RoomMsg>,
        state: &mut RoomState,
        data: ServerData,
        reply: SendDataReply,
    ) {
        let (media, room) = (
            Arc::clone(&self.context.media),
            state.room.namespaced_name(),
        );
        self.call_media(me, state, Target::Room, async move {
            CallOutcome::DataSent(reply, media.send_data(&room, data).await)
        });
    }

    /// Handles the outcome of a call.
    pub(super) async fn media_call_ended(
        &self,
        state: &mut RoomState,
        call: CallId,
        outcome: Option<CallOutcome>,
    ) {
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
