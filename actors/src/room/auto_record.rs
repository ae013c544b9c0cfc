//! Recordings that start by themselves, by the setting that the room has from its template ([`AutoRecord`]).
//!
//! A join starts what is missing: the room's composite, or a recording of the participant that joined. The start runs in a spawned task,
//! on the project's actor, like a start by the API. The records decide whether one is missing, in the transaction that writes the new
//! recording: a room's setting is removed with its composite, and a participant has one running recording. So neither a restart nor a
//! rebuilt actor starts one twice.
//!
//! # Failures
//!
//! - A start is refused, for example by the plan, or because ffmpeg is missing: no client would get the error, so a failed recording is
//!   written, with its event. It counts as the room's composite.
//! - The records are unavailable, or the server is stopping: nothing is written. The next join or reconciliation tries again.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use conclave_db::{ConnectedParticipant, StoreError};
use conclave_media::MediaError;
use conclave_model::egress::{EgressPlan, EgressSource};
use conclave_model::plan::Feature;
use conclave_model::project::ProjectStatus;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::template::{AutoRecord, AutoRecordType};
use conclave_model::usage::QuotaDecision;
use conclave_model::{EgressId, ErrorCode, ParticipantSid, Problem};
use tokio::sync::oneshot;

use super::{LiveRoom, RoomMsg};
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::recording::{EgressStarter, FileChooser};

/// Starts that this actor has made.
#[derive(Debug, Default)]
pub(super) struct AutoRecordings {
    /// Whether the room's composite was requested.
    composite: bool,
    /// Connected participants whose recording was requested.
    participants: HashSet<ParticipantSid>,
    /// Number of starts that are not over.
    running: usize,
}

impl AutoRecordings {
    /// Returns the number of starts that are not over.
    pub const fn running(&self) -> usize {
        self.running
    }
}

impl LiveRoom {
    /// Starts the recordings that the room's setting requires for its connected participants, and that were not requested yet.
    pub(super) fn auto_record(&mut self) {
        // Most rooms record nothing by themselves.
        let Some(setting) = self.roster.room().auto_record.clone() else {
            return;
        };
        let present: Vec<_> = self.roster.keeping_room().cloned().collect();
        let known = &mut self.auto_recordings.participants;
        known.retain(|sid| present.iter().any(|participant| participant.sid == *sid));
        for participant in present {
            let is_new = match setting.recording_type {
                AutoRecordType::RoomComposite => {
                    !std::mem::replace(&mut self.auto_recordings.composite, true)
                }
                AutoRecordType::Participant => self
                    .auto_recordings
                    .participants
                    .insert(participant.sid.clone()),
            };
            if is_new {
                self.start_recording(AutoRecord::clone(&setting), participant);
            }
        }
    }

    fn start_recording(&mut self, setting: AutoRecord, participant: ConnectedParticipant) {
        self.auto_recordings.running += 1;
        let (me, sid) = (self.me.clone(), participant.sid.clone());
        let start = AutoStart {
            context: Arc::clone(&self.context),
            starter: self.starter.clone(),
            known: self.roster.room().clone(),
            setting,
            participant,
        };
        tokio::spawn(async move {
            let result = start.run().await;
            if let Err(error) = &result {
                log::warn!(
                    room = start.known.namespaced_name().as_str();
                    "an automatic recording was not started, which is tried again: {error}"
                );
            }
            // If the actor has stopped, the records show its successor what is missing.
            let _ = me.cast(RoomMsg::AutoRecorded {
                sid,
                is_settled: result.is_ok(),
            });
        });
    }

    /// Handles the outcome of a start. If it failed because the database was unavailable, the next join or reconciliation repeats it.
    pub(super) fn auto_recorded(&mut self, sid: &ParticipantSid, is_settled: bool) {
        self.auto_recordings.running -= 1;
        let composite = self.auto_recordings.composite;
        match (composite, is_settled) {
            (true, true) => self.roster.remove_auto_record(),
            (true, false) => self.auto_recordings.composite = false,
            (false, true) => {}
            (false, false) => drop(self.auto_recordings.participants.remove(sid)),
        }
    }
}

/// Start of one recording.
struct AutoStart {
    context: Arc<ActorContext>,
    starter: EgressStarter,
    /// Room as the actor knows it.
    known: Room,
    setting: AutoRecord,
    /// Participant that has joined.
    participant: ConnectedParticipant,
}

impl AutoStart {
    /// Starts the recording if it is missing, or writes that its start has failed.
    ///
    /// # Errors
    /// If the records are unavailable, or the server is stopping, so that a later try makes sense.
    async fn run(&self) -> Result<(), TreeError> {
        // Read again: the actor may have been started with an older record.
        let room = self
            .context
            .store
            .rooms()
            .get(self.known.project_id.clone(), self.known.name.clone())
            .await?;
        if room.status == RoomStatus::Ended || !self.is_missing(&room).await? {
            return Ok(());
        }
        let mut plan = EgressPlan {
            room_id: room.id,
            room: room.namespaced_name(),
            max_participants: None,
            source: self.source(),
            output: self
                .files()
                .automatic_output(&room, &self.source(), None)
                .await?,
            destination: None,
            is_automatic: true,
        };
        let allowed = self.allow(&room, &mut plan).await;
        let plan = Arc::new(plan);
        let started = match allowed {
            Ok(()) => self.start(Arc::clone(&plan)).await,
            Err(refused) => Err(refused),
        };
        match started {
            Ok(()) => Ok(()),
            Err(error) if is_over(&error) => Ok(()),
            Err(error @ (TreeError::Store(_) | TreeError::NoReply)) => Err(error),
            // A failed start would count as the room's composite, and the room goes on with the next server.
            Err(error) if self.context.ends_egresses.load(Ordering::Relaxed) => Err(error),
            Err(error) => self.record_failure(plan, &error).await,
        }
    }

    fn source(&self) -> EgressSource {
        self.setting.source(self.participant.identity.clone())
    }

    fn files(&self) -> FileChooser<'_> {
        FileChooser {
            store: &self.context.store,
            media: &*self.context.media,
            clock: &self.context.clock,
        }
    }

    /// Returns whether the room lacks the recording. Hidden participants are not recorded.
    async fn is_missing(&self, room: &Room) -> Result<bool, StoreError> {
        let (store, project) = (&self.context.store, || room.project_id.clone());
        if self.setting.recording_type == AutoRecordType::RoomComposite {
            return Ok(room.auto_record.is_some());
        }
        let identity = &self.participant.identity;
        let running = store
            .egresses()
            .running_in(project(), room.name.clone())
            .await?;
        // An ending recording, which may be uploaded for minutes, does not contain the new join.
        if running
            .iter()
            .any(|egress| egress.is_running() && egress.identity.as_ref() == Some(identity))
        {
            return Ok(false);
        }
        let roles = store
            .rooms()
            .roles(project(), room.template_id.clone())
            .await?;
        let role = self.participant.role.as_ref();
        let is_hidden = role
            .and_then(|role| roles.get(role))
            .is_some_and(|role| role.hidden);
        Ok(!is_hidden)
    }

    /// Checks project, plan and destination as for a request, and completes the plan of the recording. The participant's token was
    /// minted within the month's minutes, so these are not counted again.
    async fn allow(&self, room: &Room, plan: &mut EgressPlan) -> Result<(), TreeError> {
        let (store, id) = (&self.context.store, || room.project_id.clone());
        let project = store.projects().get(id()).await?;
        let project = project.ok_or_else(Problem::internal)?;
        if project.status == ProjectStatus::Suspended {
            QuotaDecision::Suspended.ensure_can_start_work()?;
        }
        let limits = self.context.plans.get(&project.plan);
        let limits = limits.ok_or_else(Problem::internal)?;
        limits.features.ensure_included(Feature::Recording)?;
        plan.max_participants = limits.effective_cap(room.max_participants);
        if let Some(name) = &self.setting.destination {
            let template = room.template_id.clone();
            let template = template.ok_or_else(Problem::template_not_found)?;
            let used = store
                .destinations()
                .recording(id(), template, name.clone())
                .await?;
            plan.output = self
                .files()
                .automatic_output(room, &plan.source, Some(&used))
                .await?;
            plan.destination = Some(used);
        }
        Ok(())
    }

    /// Starts the recording on the project's actor, like a request.
    async fn start(&self, plan: Arc<EgressPlan>) -> Result<(), TreeError> {
        let (reply, started) = oneshot::channel();
        self.starter.start(plan, reply.into());
        // Without a timeout: the actor always replies, unless it stops, which drops the reply port.
        let egress = started.await.map_err(|_| TreeError::NoReply)??;
        log::info!(
            room = egress.namespaced_room().as_str(), egress_id = egress.egress_id.as_str();
            "an automatic recording was started"
        );
        Ok(())
    }

    async fn record_failure(
        &self,
        plan: Arc<EgressPlan>,
        error: &TreeError,
    ) -> Result<(), TreeError> {
        let reason = reason(error);
        log::error!(
            room = plan.room.as_str();
            "an automatic recording could not be started: {error}"
        );
        let failed = self
            .context
            .store
            .egresses()
            .record_failed_start(plan, EgressId::random(), reason)
            .await;
        match failed.map_err(TreeError::from) {
            Ok(_) => Ok(()),
            Err(error) if is_over(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a start was refused because the room has ended, or has its recording, meanwhile.
fn is_over(error: &TreeError) -> bool {
    let over = [ErrorCode::RoomEnded, ErrorCode::RecordingExists];
    matches!(error, TreeError::Refused(problem) if over.contains(&problem.code))
}

/// Returns the error that the record shows, which has no details of the media plane's connection.
fn reason(error: &TreeError) -> String {
    match error {
        TreeError::Refused(problem) => problem.message.to_string(),
        TreeError::Media(MediaError::Unavailable(_) | MediaError::CircuitOpen { .. }) => {
            "the media plane did not answer".to_owned()
        }
        error => error.to_string(),
    }
}
