//! A project's rooms: how they are created, sent to, loaded and forgotten.

use std::sync::Arc;

use conclave_db::{NewRoom, RoomSnapshot, RunningEgress, StoreError};
use conclave_media::{MediaEvent, Report, ReportError};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::ingress::Ingress;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{ErrorCode, NamespacedRoom, Problem, RoomName};
use tokio::sync::oneshot;

use super::ProjectActor;
use super::message::{ChildKey, ProjectMsg, RoomReply};
use super::state::ProjectState;
use crate::children::{Child, RestartCause};
use crate::egress::EgressMsg;
use crate::error::TreeError;
use crate::mailbox::{BarrierWait, Mailbox, ReportPath, barrier};
use crate::report_queue::WaitingReport;
use crate::room::{RoomActor, RoomMsg, RoomStart};

/// Answers the creator of a room whose project has failed meanwhile. The one that is rebuilt may have read its rooms before this
/// one was written.
fn answer_without_project(created: ProjectMsg, path: &ReportPath<ProjectMsg>) {
    let ProjectMsg::RoomCreated { result, reply } = created else {
        return;
    };
    if let Ok(room) = &*result {
        path.send(ProjectMsg::Restore(ChildKey::Room(room.name.clone())));
    }
    let _ = reply.send(result.map_err(TreeError::from));
}

impl ProjectActor {
    /// Counts the room against the plan's limit and writes it. The writer sends the result, so that rooms created at once share an
    /// fsync.
    pub(super) fn create_room(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        new: NewRoom,
        limit: Option<u32>,
        recorder: Option<ResponseRecorder<Room>>,
        reply: RoomReply,
    ) {
        let open = state.rooms.len() + state.pending_rooms;
        if let Some(limit) = limit.filter(|limit| open >= *limit as usize) {
            let message = format!("the plan lets {limit} rooms be open at once, and they are");
            let problem = Problem::new(ErrorCode::RoomLimitReached, message);
            let _ = reply.send(Err(problem.into()));
            return;
        }
        state.pending_rooms += 1;
        let (me, path) = (me.clone(), self.path.clone());
        self.context
            .store
            .rooms()
            .create(new, recorder, move |result| {
                if let Err(Some(message)) = me.cast(ProjectMsg::RoomCreated {
                    result: Box::new(result),
                    reply,
                }) {
                    answer_without_project(message, &path);
                }
            });
    }

    /// Lets a new room hibernate, since it is empty, and answers its creator.
    pub(super) fn room_created(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        result: Result<Room, StoreError>,
        reply: RoomReply,
    ) {
        state.pending_rooms -= 1;
        if let Ok(room) = &result {
            // A new room has a deadline and no messages, so it does hibernate.
            let _ = self.hibernate(me, state, room, None);
        }
        let _ = reply.send(result.map_err(TreeError::from));
    }

    /// Spawns a room's actor, for the first time or again.
    pub(super) async fn spawn_room(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        start: impl Into<RoomStart>,
    ) {
        let start = start.into();
        let name = start.snapshot.room.name.clone();
        let info = state.rooms.info(&name);
        let to = name.clone();
        let path = self.path.narrow(move |msg| ProjectMsg::Room {
            name: to.clone(),
            msg,
        });
        let room = start.snapshot.room.namespaced_name();
        let actor = RoomActor {
            context: Arc::clone(&self.context),
            room,
            info: Arc::clone(&info),
            path,
        };
        let key = ChildKey::Room(name.clone());
        if let Some(mailbox) = self.spawn(me, state, key, info, actor, start).await {
            state.rooms.spawned(&self.context, name, mailbox);
        }
    }

    /// Forwards a message to a room. Every open room is a child, so a room that is none has ended, or has no record; unless rooms of the
    /// project cannot be read.
    pub(super) fn forward_to_room(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
        message: RoomMsg,
    ) {
        if state.rooms.contains(name) {
            self.send_to_room(me, state, name, message);
        } else if state.lacks_rooms {
            message.answer_as_unreadable();
        } else {
            message.answer_as_ended();
        }
    }

    /// Puts a barrier behind the messages that a room was sent before. A hibernating room has handled them all.
    pub(super) fn room_barrier(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
    ) -> Option<BarrierWait> {
        state
            .rooms
            .get(name)
            .filter(|room| !room.is_hibernating())?;
        let (barrier, wait) = barrier();
        self.send_to_room(me, state, name, RoomMsg::Barrier(barrier));
        Some(wait)
    }

    /// Passes a report to the actor of what it is about.
    pub(super) fn pass_report(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        report: Report,
        answer: oneshot::Sender<Result<(), ReportError>>,
    ) {
        let (_, room) = report.room.split();
        match report.event {
            MediaEvent::Egress(egress) => {
                let id = egress.egress_id.clone();
                let message = EgressMsg::Report {
                    state: egress,
                    at: report.at,
                    answer,
                };
                self.deliver_report::<RunningEgress>(state, id, message);
            }
            MediaEvent::Ingress(ingress) => {
                self.ingress_reported(me, state, &room, ingress, report.at, answer);
            }
            // All others wait in the queue of their room.
            _ => drop(answer.send(Err(ReportError::Unavailable))),
        }
    }

    /// Lets a room take the reports that wait for it. Those of a room that is no child are refused.
    pub(super) fn reports_waiting(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
    ) {
        if state.rooms.contains(name) {
            return self.send_to_room(me, state, name, RoomMsg::Reports);
        }
        for waiting in self
            .context
            .reports
            .take_all(&NamespacedRoom::new(&self.id, name))
        {
            match waiting.report.event {
                MediaEvent::JoinRequested { .. }
                | MediaEvent::ParticipantJoined(_)
                | MediaEvent::InvalidIdentity => {
                    self.refuse_join(name.clone(), waiting);
                }
                _ if state.lacks_rooms => waiting.answers.send(Err(ReportError::Unavailable)),
                _ => waiting.answers.send(Err(ReportError::RoomEnded)),
            }
        }
    }

    /// Refuses a join to a room that is no child, in a spawned task: the room's record says whether it has ended.
    fn refuse_join(&self, room: RoomName, join: WaitingReport) {
        let (store, project) = (self.context.store.clone(), self.id.clone());
        tokio::spawn(async move {
            let error = match store.rooms().get(project, room).await {
                Ok(room) if room.status == RoomStatus::Ended => ReportError::RoomEnded,
                Err(StoreError::Refused(_)) => ReportError::UnknownRoom,
                // It has just been created, or cannot be read.
                Ok(_) | Err(_) => ReportError::Unavailable,
            };
            join.answers.send(Err(error));
        });
    }

    /// Forgets a room that has ended, and answers the messages that waited for it.
    pub(super) fn forget_room(&self, state: &mut ProjectState, name: &RoomName) {
        Self::end_followed_of::<RunningEgress>(state, name);
        Self::end_followed_of::<Ingress>(state, name);
        let Some(child) = state.rooms.remove(&self.context, name) else {
            return;
        };
        child
            .into_waiting()
            .into_iter()
            .for_each(RoomMsg::answer_as_ended);
        for waiting in self
            .context
            .reports
            .take_all(&NamespacedRoom::new(&self.id, name))
        {
            waiting.answers.send(Err(ReportError::RoomEnded));
        }
    }

    /// Gives up a room whose records cannot be read, since the file is damaged. Nothing is known of it: it counts neither as open nor as
    /// ended.
    fn give_up_room(&self, state: &mut ProjectState, name: &RoomName) {
        state.lacks_rooms = true;
        let Some(child) = state.rooms.remove(&self.context, name) else {
            return;
        };
        child
            .into_waiting()
            .into_iter()
            .for_each(RoomMsg::answer_as_unreadable);
        for waiting in self
            .context
            .reports
            .take_all(&NamespacedRoom::new(&self.id, name))
        {
            waiting.answers.send(Err(ReportError::Unavailable));
        }
    }

    /// Reads a room's records in a spawned task, to rebuild its actor.
    pub(super) fn load_room(&self, me: &Mailbox<ProjectMsg>, name: RoomName) {
        let (store, project, me) = (self.context.store.clone(), self.id.clone(), me.clone());
        tokio::spawn(async move {
            let snapshot = Box::new(store.rooms().find_open(project, name.clone()).await);
            let _ = me.cast(ProjectMsg::RoomLoaded { name, snapshot });
        });
    }

    /// Rebuilds a room that failed, or was woken, from its records.
    pub(super) async fn room_loaded(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        name: &RoomName,
        snapshot: Result<Option<RoomSnapshot>, StoreError>,
    ) {
        match snapshot {
            // It was loaded twice.
            Ok(Some(_)) if state.rooms.get(name).is_some_and(Child::is_ready) => {}
            Ok(Some(snapshot)) => {
                self.spawn_room(me, state, snapshot).await;
                // Reports may have been lost with the actor that failed, and the ticket of those that wait.
                if state.rooms.get(name).is_some_and(Child::has_failed) {
                    if self
                        .context
                        .reports
                        .renew_ticket(&NamespacedRoom::new(&self.id, name))
                    {
                        self.send_to_room(me, state, name, RoomMsg::Reports);
                    }
                    self.send_to_room(me, state, name, RoomMsg::Reconcile);
                }
            }
            Ok(None) => self.forget_room(state, name),
            Err(error @ StoreError::Damaged(_)) => {
                log::error!(project = self.id.as_str(), room = name.as_str(); "a room's records cannot be read: {error}");
                self.give_up_room(state, name);
            }
            Err(error) => {
                log::error!(project = self.id.as_str(), room = name.as_str(); "a room's records could not be read: {error}");
                self.restore_later(
                    me,
                    state,
                    ChildKey::Room(name.clone()),
                    RestartCause::Store(&error),
                );
            }
        }
    }
}
