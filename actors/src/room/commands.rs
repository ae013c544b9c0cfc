//! Commands that call the media plane and leave no record: removing a participant, muting a track, sending data.
//!
//! What a command causes is reported by the media plane, like everything else that happens in the room.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use conclave_media::ServerData;
use conclave_model::Identity;
use futures_util::FutureExt;

use super::RoomActor;
use super::media_calls::{BegunCall, Target};
use super::message::RoomMsg;
use super::outcome::{CallId, CallOutcome};
use super::requests::{MuteReply, MuteTrackRequest, RemoveReply, SendDataReply};
use super::state::RoomState;
use crate::mailbox::Mailbox;

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
