//! A project's rooms: how they are created, sent to, loaded, rebuilt and removed.
//!
//! Every open room is a child, with an actor or hibernating. Rooms being written count against the plan's limit before they are children.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::{NewRoom, RoomSnapshot, StoreError};
use conclave_media::{MediaEvent, ReportError};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::permits::ProjectPermit;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{ErrorCode, NamespacedRoom, Problem, RoomName, Timestamp};

use super::context::ProjectContext;
use super::hibernation::Hibernation;
use super::message::{ChildKey, ProjectMsg, RoomReply};
use crate::children::{Child, ChildSet, RestartCause, SendOutcome};
use crate::error::TreeError;
use crate::info::ActorKind;
use crate::mailbox::{BarrierWait, ReportPath, Timer, barrier};
use crate::recording::EgressStarter;
use crate::registry::ActorStatus;
use crate::report_queue::QueuedReport;
use crate::room::{HibernatingRoom, LiveRoom, RoomActor, RoomMsg, RoomStart};

/// Delay before a room that could not be ended is woken again.
const RETRY_END: Duration = Duration::from_secs(1);

/// A project's rooms.
pub(super) struct Rooms {
    children: ChildSet<RoomName, RoomMsg>,
    /// Rooms being written, which count against the plan's limit.
    pending: usize,
    /// Whether a damaged file keeps rooms from being loaded, so that a room that is not a child may be open.
    lacks_rooms: bool,
    hibernation: Hibernation,
}

impl Rooms {
    pub fn new(project: &ProjectContext) -> Self {
        Self {
            children: project.children(ActorKind::Room, "room"),
            pending: 0,
            lacks_rooms: false,
            hibernation: Hibernation::default(),
        }
    }

    /// Counts the open rooms.
    pub fn open(&self) -> usize {
        self.children.len()
    }

    /// Counts the open rooms that hibernate.
    pub fn hibernating(&self) -> usize {
        self.hibernation.len()
    }

    /// Counts the rooms being written.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Returns the timer for the earliest deadline of a hibernating room.
    pub fn timer(&self) -> Option<&Timer> {
        self.hibernation.timer()
    }

    /// Returns whether a room is open.
    pub fn contains(&self, name: &RoomName) -> bool {
        self.children.contains(name)
    }

    /// Hibernates the rooms of the records, or spawns their actors. `lacks_rooms` is whether there may be others that cannot be read.
    pub async fn populate(
        &mut self,
        project: &mut ProjectContext,
        rooms: Vec<RoomSnapshot>,
        lacks_rooms: bool,
    ) {
        self.lacks_rooms = lacks_rooms;
        for snapshot in rooms {
            // An empty room hibernates. If its deadline has passed, that wakes it at once.
            let hibernates =
                snapshot.participants.is_empty() && self.hibernate(project, &snapshot.room, None);
            if !hibernates {
                self.spawn(project, snapshot).await;
            }
        }
    }

    /// Counts the room against the plan's limit, and writes it. The writer sends the result, so rooms created at once share an fsync.
    pub fn create(
        &mut self,
        project: &ProjectContext,
        new: NewRoom,
        limit: Option<u32>,
        recorder: Option<ResponseRecorder<Room>>,
        reply: RoomReply,
    ) {
        // The actor handles one request at a time, so this check needs no lock.
        let open = self.children.len() + self.pending;
        if let Some(limit) = limit.filter(|limit| open >= *limit as usize) {
            let message = format!("the plan allows at most {limit} open rooms");
            let problem = Problem::new(ErrorCode::RoomLimitReached, message);
            let _ = reply.send(Err(problem.into()));
            return;
        }
        self.pending += 1;
        let (me, path) = (project.me.clone(), project.path.clone());
        project
            .shared
            .store
            .rooms()
            .create(new, recorder, move |result| {
                // The project may have failed meanwhile. The client must have its reply, and the room an actor.
                if let Err(Some(message)) = me.cast(ProjectMsg::RoomCreated {
                    result: Box::new(result),
                    reply,
                }) {
                    reply_without_project(message, &path);
                }
            });
    }

    /// Hibernates a new room, since it is empty, and replies to its creator.
    pub fn created(
        &mut self,
        project: &ProjectContext,
        result: Result<Room, StoreError>,
        reply: RoomReply,
    ) {
        self.pending -= 1;
        if let Ok(room) = &result {
            // A new room has a deadline and no messages, so it always hibernates.
            let _ = self.hibernate(project, room, None);
        }
        let _ = reply.send(result.map_err(TreeError::from));
    }

    /// Spawns a room's actor, for the first time or again.
    async fn spawn(&mut self, project: &mut ProjectContext, start: impl Into<RoomStart>) {
        let start = start.into();
        let name = start.snapshot.room.name.clone();
        let info = self.children.info(&name);
        let to = name.clone();
        let path = project.path.narrow(move |msg| ProjectMsg::Room {
            name: to.clone(),
            msg,
        });
        let me = project.me.clone();
        let starter = EgressStarter::new(move |plan, reply| {
            // If the project has stopped, the dropped reply port shows it.
            let _ = me.cast(ProjectMsg::StartEgress {
                plan,
                recorder: None,
                reply,
            });
        });
        let actor = RoomActor {
            context: Arc::clone(&project.shared),
            info: Arc::clone(&info),
            path,
            starter,
        };
        project
            .spawn(&mut self.children, name, info, actor, start)
            .await;
    }

    /// Forwards a message to a room. Every open room is a child, so any other room has ended or has no record, unless rooms of the project
    /// cannot be read.
    pub fn forward(&mut self, project: &ProjectContext, name: &RoomName, message: RoomMsg) {
        if self.children.contains(name) {
            self.send(project, name, message);
        } else if self.lacks_rooms {
            message.reply_as_unreadable();
        } else {
            message.reply_as_ended();
        }
    }

    /// Sends to a child room, and wakes it if it hibernates.
    fn send(&mut self, project: &ProjectContext, name: &RoomName, message: RoomMsg) {
        let Some(room) = self.children.get_mut(name) else {
            return;
        };
        // The message is buffered in the child until the records are loaded.
        if let SendOutcome::Wake(due) = room.send(message) {
            self.hibernation.remove(due, name.clone());
            load(project, name.clone());
        }
    }

    /// Puts a barrier behind the messages sent to a room before. A hibernating room has handled them all.
    pub fn barrier(&mut self, project: &ProjectContext, name: &RoomName) -> Option<BarrierWait> {
        self.children
            .get(name)
            .filter(|room| !room.is_hibernating())?;
        let (barrier, wait) = barrier();
        self.send(project, name, RoomMsg::Barrier(barrier));
        Some(wait)
    }

    /// Makes a room handle its queued reports. Reports for a room that is not a child are refused.
    pub fn reports_waiting(&mut self, project: &ProjectContext, name: &RoomName) {
        if self.children.contains(name) {
            return self.send(project, name, RoomMsg::Reports);
        }
        for waiting in take_reports(project, name) {
            match waiting.report.event {
                // A client is waiting, and gets the reason: the room has ended, or never existed.
                MediaEvent::JoinRequested { .. }
                | MediaEvent::ParticipantJoined(_)
                | MediaEvent::InvalidIdentity => {
                    refuse_join(project, name.clone(), waiting);
                }
                _ if self.lacks_rooms => waiting.replies.send(Err(ReportError::Unavailable)),
                _ => waiting.replies.send(Err(ReportError::RoomEnded)),
            }
        }
    }

    /// Makes every running room compare its records with the media plane.
    pub fn reconcile(&self) {
        // An actor that stops at this moment is rebuilt from its records, and polls then.
        self.children
            .running()
            .for_each(|room| drop(room.cast(RoomMsg::Reconcile)));
    }

    /// Wakes a hibernating room that has participants on the media plane.
    pub fn wake_missed(&mut self, project: &ProjectContext, name: &RoomName) {
        // A running room reconciles by itself.
        let has_no_process = self
            .children
            .get(name)
            .is_some_and(|child| child.mailbox().is_none());
        if has_no_process {
            self.send(project, name, RoomMsg::Reconcile);
        }
    }

    /// Removes a room that has ended, and replies to its buffered messages.
    pub fn forget(&mut self, project: &ProjectContext, name: &RoomName) {
        let refusal = ReportError::RoomEnded;
        self.remove(project, name, RoomMsg::reply_as_ended, refusal);
    }

    /// Removes a room whose records cannot be read, since the file is damaged. It counts neither as open nor as ended.
    fn give_up(&mut self, project: &ProjectContext, name: &RoomName) {
        self.lacks_rooms = true;
        let refusal = ReportError::Unavailable;
        self.remove(project, name, RoomMsg::reply_as_unreadable, refusal);
    }

    /// Removes a room, and replies to its buffered messages and reports.
    fn remove(
        &mut self,
        project: &ProjectContext,
        name: &RoomName,
        answer: fn(RoomMsg),
        refusal: ReportError,
    ) {
        let Some(child) = self.children.remove(&project.shared, name) else {
            return;
        };
        child.into_waiting().into_iter().for_each(answer);
        for waiting in take_reports(project, name) {
            waiting.replies.send(Err(refusal));
        }
    }

    /// Rebuilds a failed or woken room from its records.
    pub async fn loaded(
        &mut self,
        project: &mut ProjectContext,
        name: &RoomName,
        snapshot: Result<RoomSnapshot, StoreError>,
    ) {
        match snapshot {
            // It was loaded twice, such as for a message and by a restart.
            Ok(_) if self.is_ready(name) => {}
            Ok(snapshot) => {
                self.spawn(project, snapshot).await;
                // Reports may have been lost with the failed actor, and so may the ticket for queued ones.
                if self.children.get(name).is_some_and(Child::has_failed) {
                    let room = NamespacedRoom::new(&project.id, name);
                    if project.shared.reports.renew_ticket(&room) {
                        self.send(project, name, RoomMsg::Reports);
                    }
                    self.send(project, name, RoomMsg::Reconcile);
                }
            }
            Err(error @ StoreError::Damaged(_)) => {
                log::error!(project = project.id.as_str(), room = name.as_str(); "a room's records are damaged: {error}");
                self.give_up(project, name);
            }
            Err(error) => {
                log::error!(project = project.id.as_str(), room = name.as_str(); "reading a room's records failed and is repeated: {error}");
                project.restore_later(&mut self.children, name, RestartCause::Store(&error));
            }
        }
    }

    /// Handles the stopped actor of an open room. The room hibernates, unless a message arrived while its actor was stopping.
    pub async fn stopped(&mut self, project: &mut ProjectContext, last: LiveRoom) {
        let not_before = last
            .end_failed()
            .then(|| project.shared.clock.now().after(RETRY_END));
        let (idle, start) = (last.is_idle(), last.into_start());
        // Started from the last state: after a clean stop, memory and records are the same.
        if !(idle && self.hibernate(project, &start.snapshot.room, not_before)) {
            self.spawn(project, start).await;
        }
    }

    /// Schedules a failed room to be rebuilt.
    pub fn failed(&mut self, project: &ProjectContext, name: &RoomName, reason: &str) {
        project.restore_later(&mut self.children, name, RestartCause::Actor(reason));
    }

    /// Reads the records of a room without an actor, to rebuild it.
    pub fn restore(&self, project: &ProjectContext, name: RoomName) {
        if !self.is_ready(&name) {
            load(project, name);
        }
    }

    fn is_ready(&self, name: &RoomName) -> bool {
        self.children.get(name).is_some_and(Child::is_ready)
    }

    /// Hibernates a room until its deadline, or until `not_before` if that is later. Returns false for a room without a deadline, which is
    /// not empty, and for a room with buffered messages.
    fn hibernate(
        &mut self,
        project: &ProjectContext,
        room: &Room,
        not_before: Option<Timestamp>,
    ) -> bool {
        let now = project.shared.clock.now();
        let Some(deadline) = room.deadline_when_empty(now) else {
            return false;
        };
        // After a failed end, the deadline has passed: without this, the room would be woken without a pause.
        let due = not_before.map_or(deadline, |at| at.max(deadline));
        // A room that hibernates again keeps its counters.
        let info = self.children.info(&room.name);
        match self.children.get_mut(&room.name) {
            Some(child) => {
                if !child.hibernate(due) {
                    return false;
                }
            }
            None => {
                info.record_start(now);
                let child = Child::hibernating(Arc::clone(&info), due);
                self.children.insert(room.name.clone(), child);
            }
        }
        // So that the debug endpoint shows the room although it has no process.
        project.shared.registry.register(
            &info,
            ActorStatus::Hibernating(Arc::new(HibernatingRoom { deadline })),
        );
        self.hibernation.insert(due, room.name.clone());
        self.hibernation.arm(&project.shared.clock, &project.me);
        true
    }

    /// Requests a permit if a room's deadline has passed, and arms the timer for the next deadline otherwise.
    pub fn deadline_came(&mut self, project: &ProjectContext) {
        let clock = &project.shared.clock;
        let set_back = self.hibernation.take_timer(clock);
        self.move_deadlines_back(set_back);
        if self.hibernation.claim_permit(clock.now()) {
            let permits = project.shared.room_ends.clone();
            let (id, me) = (project.id.clone(), project.me.clone());
            tokio::spawn(async move {
                let permit = permits.wait(&id).await;
                // A project that has failed requests another permit when it is rebuilt.
                let _ = me.cast(ProjectMsg::EndDueRoom(permit));
            });
        }
        self.hibernation.arm(clock, &project.me);
    }

    /// Moves the deadlines with a clock that was set back, so that no room waits until the clock has caught up.
    fn move_deadlines_back(&mut self, step: Duration) {
        if step.is_zero() {
            return;
        }
        for (due, name) in self.hibernation.take_all() {
            let due = due.before(step);
            if let Some(room) = self.children.get_mut(&name)
                && room.is_hibernating()
                && room.hibernate(due)
            {
                self.hibernation.insert(due, name);
            }
        }
    }

    /// Wakes the room whose deadline passed first, and then requests a permit for the next. The room decides whether it ends.
    pub fn end_due(&mut self, project: &ProjectContext, permit: ProjectPermit) {
        if let Some(name) = self.hibernation.take_due(project.shared.clock.now()) {
            self.send(project, &name, RoomMsg::EmptyTimeout(Some(permit)));
        }
        self.deadline_came(project);
    }
}

/// Replies to a room's creator after its project has failed. The rebuilt project may have read its rooms before this one was written.
fn reply_without_project(created: ProjectMsg, path: &ReportPath<ProjectMsg>) {
    let ProjectMsg::RoomCreated { result, reply } = created else {
        return;
    };
    if let Ok(room) = &*result {
        path.send(ProjectMsg::Restore(ChildKey::Room(room.name.clone())));
    }
    let _ = reply.send(result.map_err(TreeError::from));
}

/// Removes and returns the reports queued for a room.
fn take_reports(project: &ProjectContext, name: &RoomName) -> Vec<QueuedReport> {
    let room = NamespacedRoom::new(&project.id, name);
    project.shared.reports.take_all(&room)
}

/// Refuses a join to a room that is not a child, in a spawned task, since the reason is in the room's record.
fn refuse_join(project: &ProjectContext, room: RoomName, join: QueuedReport) {
    let (store, project) = (project.shared.store.clone(), project.id.clone());
    tokio::spawn(async move {
        let error = match store.rooms().get(project, room).await {
            Ok(room) if room.status == RoomStatus::Ended => ReportError::RoomEnded,
            Err(StoreError::Refused(_)) => ReportError::UnknownRoom,
            // It has just been created, or cannot be read. The client may try again.
            Ok(_) | Err(_) => ReportError::Unavailable,
        };
        join.replies.send(Err(error));
    });
}

/// Reads a room's records in a spawned task, to rebuild its actor.
fn load(project: &ProjectContext, name: RoomName) {
    let store = project.shared.store.clone();
    let (id, me) = (project.id.clone(), project.me.clone());
    tokio::spawn(async move {
        let snapshot = Box::new(store.rooms().find_open(id, name.clone()).await);
        let _ = me.cast(ProjectMsg::RoomLoaded { name, snapshot });
    });
}
