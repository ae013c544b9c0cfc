//! Commands to the media plane: removing a participant, muting a track, sending data, changing a participant's role.
//!
//! A call runs in a spawned task, so a slow media plane does not block the room's mailbox; its outcome comes back as
//! [`RoomMsg::MediaCallEnded`]. The effects of a command are reported by the media plane, like everything else that happens in the room.
//! Two rules keep the order that callers and receivers of events see:
//!
//! - Calls about one participant run one after another, in the order of the requests.
//! - While a participant's role is being changed, reports about that participant are buffered until the change is written. So
//!   `participant.role_changed` precedes the effects of the change, and these are written with the new role.
//!
//! Only a role change leaves a record. The media plane goes first: a change that it refuses is not written.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use conclave_media::{MediaEvent, RoleGrant, ServerData};
use conclave_model::participant::Participant;
use conclave_model::role::{Role, RoleSubscribe};
use conclave_model::{
    ErrorCode, Identity, NamespacedRoom, ParticipantSid, Problem, RoleName, TemplateId,
};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::message::{
    AcceptedRole, CallId, CallOutcome, ChangeRoleRequest, MuteReply, MuteTrackRequest, RemoveReply,
    RoomMsg, SendDataReply, participant_not_found,
};
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::mailbox::{Mailbox, ReportPath};

/// Call target.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// The room. Such calls run concurrently.
    Room,
    /// One participant, whose reports are handled meanwhile.
    Participant(Identity),
    /// One participant, whose reports are buffered meanwhile.
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

/// One room's calls that have not returned.
#[derive(Debug, Default)]
pub(super) struct MediaCalls {
    next: CallId,
    running: Vec<RunningCall>,
}

#[derive(Debug)]
struct RunningCall {
    id: CallId,
    target: Target,
    /// Resolves when the call has returned. Taken by the next call about the same participant.
    returned: Option<oneshot::Receiver<()>>,
}

/// Registered call.
#[derive(Debug)]
struct StartedCall {
    id: CallId,
    /// Previous call about the same participant, if one is running.
    previous: Option<oneshot::Receiver<()>>,
    /// Dropped when the call has returned.
    done: oneshot::Sender<()>,
}

impl MediaCalls {
    /// Returns whether no call is running.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Runs a call in a spawned task. Its outcome comes back as a message: to the actor `me`, or along the report path to its
    /// successor.
    pub fn run(
        &mut self,
        me: &Mailbox<RoomMsg>,
        path: &ReportPath<RoomMsg>,
        target: Target,
        call: impl Future<Output = CallOutcome> + Send + 'static,
    ) {
        let StartedCall { id, previous, done } = self.register(target);
        let (me, path) = (me.clone(), path.clone());
        tokio::spawn(async move {
            if let Some(previous) = previous {
                // An error means that the previous call has returned, too.
                let _ = previous.await;
            }
            // A call that panics must not keep the room awake. Its reply port is dropped, so its caller sees a failed call.
            let outcome = AssertUnwindSafe(call)
                .catch_unwind()
                .await
                .ok()
                .map(Box::new);
            // The actor may have been rebuilt, and its successor has to reply to the caller.
            if let Err(Some(message)) = me.cast(RoomMsg::MediaCallEnded { call: id, outcome }) {
                path.send(message);
            }
            // After the message, so that the next call's outcome follows this one's.
            drop(done);
        });
    }

    fn register(&mut self, target: Target) -> StartedCall {
        let (done, returned) = oneshot::channel();
        let same = |call: &&mut RunningCall| {
            // Calls about the room have no identity, and never wait for each other.
            target.identity().is_some() && call.target.identity() == target.identity()
        };
        // The last one: each call waits only for its predecessor, which has waited for its own.
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
        StartedCall {
            id: self.next,
            previous,
            done,
        }
    }

    /// Removes a call that has returned.
    pub fn end(&mut self, id: CallId) {
        self.running.retain(|call| call.id != id);
    }

    /// Returns whether a report has to wait, because its participant's role is being changed.
    pub fn defers_report(&self, event: &MediaEvent) -> bool {
        self.changing_role()
            .any(|identity| Some(identity) == event.identity())
    }

    /// Returns whether any role is being changed.
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

/// Room on the media plane, for a call in a spawned task.
pub(super) struct RoomOnPlane {
    pub context: Arc<ActorContext>,
    pub room: NamespacedRoom,
}

impl RoomOnPlane {
    /// Disconnects a participant.
    pub async fn remove_participant(self, identity: Identity, reply: RemoveReply) -> CallOutcome {
        // The media plane removes joins, not identities, so the current join is looked up first.
        let (media, room) = (&self.context.media, &self.room);
        let result = match media.participant(room, &identity).await {
            Ok(Some(participant)) => media.remove_participant(room, &participant.sid).await,
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        CallOutcome::Removed(reply, result)
    }

    /// Mutes or unmutes a track.
    pub async fn mute_track(self, request: MuteTrackRequest, reply: MuteReply) -> CallOutcome {
        let MuteTrackRequest {
            identity,
            track,
            muted,
        } = request;
        let media = &self.context.media;
        CallOutcome::Muted(
            reply,
            media.mute_track(&self.room, &identity, &track, muted).await,
        )
    }

    /// Sends data to participants.
    pub async fn send_data(self, data: ServerData, reply: SendDataReply) -> CallOutcome {
        CallOutcome::DataSent(reply, self.context.media.send_data(&self.room, data).await)
    }

    /// Sends joins the notice that the room ends.
    pub async fn notify_end(self, notice: ServerData, joins: Vec<ParticipantSid>) -> CallOutcome {
        CallOutcome::Notified(
            joins,
            self.context.media.send_data(&self.room, notice).await,
        )
    }

    /// Changes a participant's role to another one in the room's template.
    pub async fn set_role(
        self,
        template: Option<TemplateId>,
        accepted: Box<AcceptedRole>,
    ) -> CallOutcome {
        let result = self.try_set_role(template, &accepted.request).await;
        CallOutcome::RoleSet(accepted, result)
    }

    /// Changes the role on the media plane. Returns the participant with its new role.
    async fn try_set_role(
        &self,
        template: Option<TemplateId>,
        request: &ChangeRoleRequest,
    ) -> Result<Participant, TreeError> {
        let Self { context, room } = self;
        let (project, _) = room.split();
        let roles = context
            .store
            .rooms()
            .roles(project, template.clone())
            // Read for each change: the template may have changed since the last one.
            .await?;
        let role = find_role(template.as_ref(), &roles, &request.role)?;
        // The template may have changed since the last join, which sent its rules. Sent even without rules, since they may have been removed.
        context
            .media
            .set_subscription_rules(room, subscription_rules(&roles))
            .await?;
        let changed = context
            .media
            .set_role(room, &request.identity, RoleGrant::from(role))
            .await?;
        changed.ok_or_else(participant_not_found)
    }
}

/// Returns the subscription rule of each role that does not receive everything.
pub(super) fn subscription_rules(
    roles: &BTreeMap<RoleName, Role>,
) -> BTreeMap<RoleName, RoleSubscribe> {
    let limited = roles
        .iter()
        .filter(|(_, role)| role.subscribe != RoleSubscribe::default());
    limited
        .map(|(name, role)| (name.clone(), role.subscribe.clone()))
        .collect()
}

/// Finds a role by its name among the template's roles.
fn find_role<'a>(
    template: Option<&TemplateId>,
    roles: &'a BTreeMap<RoleName, Role>,
    name: &RoleName,
) -> Result<&'a Role, TreeError> {
    if template.is_none() {
        let message = "the room resolves to no template, so it has no roles";
        return Err(Problem::new(ErrorCode::TemplateNotFound, message).into());
    }
    roles
        .get(name)
        .ok_or_else(|| Problem::role_not_found(roles.keys()).at("role").into())
}

#[cfg(test)]
pub(super) mod tests {
    use conclave_model::event::{Departure, ParticipantRef};

    use super::*;

    fn id(identity: &str) -> Identity {
        identity.parse().unwrap()
    }

    pub fn left(name: &str) -> MediaEvent {
        let participant = ParticipantRef {
            identity: id(name),
            sid: format!("PA_{name}").parse().unwrap(),
            role: None,
        };
        MediaEvent::ParticipantLeft {
            participant,
            departure: Departure::Left,
        }
    }

    /// Registers a call that never returns. Returns its number.
    pub fn begin(calls: &mut MediaCalls, target: Target) -> CallId {
        calls.register(target).id
    }

    #[test]
    fn reports_about_a_participant_are_held_while_its_role_is_changed() {
        let mut calls = MediaCalls::default();
        let removal = begin(&mut calls, Target::Participant(id("bob")));
        let change = begin(&mut calls, Target::RoleOf(id("alice")));
        assert!(calls.defers_report(&left("alice")) && !calls.defers_report(&left("bob")));
        assert!(!calls.defers_report(&MediaEvent::InvalidIdentity) && calls.is_changing_role());
        calls.end(change);
        assert!(!calls.defers_report(&left("alice")) && !calls.is_changing_role());
        calls.end(removal);
        assert!(calls.is_empty());
    }

    #[test]
    fn a_call_waits_for_the_one_before_it_about_the_same_participant() {
        let mut calls = MediaCalls::default();
        let first = calls.register(Target::Participant(id("alice")));
        let other = calls.register(Target::Participant(id("bob")));
        let mut second = calls.register(Target::RoleOf(id("alice")));
        assert!(first.previous.is_none() && other.previous.is_none());
        let previous = second.previous.as_mut().unwrap();
        assert!(previous.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        drop(first.done);
        assert!(previous.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        calls.register(Target::Room);
        assert!(calls.register(Target::Room).previous.is_none());
    }
}
