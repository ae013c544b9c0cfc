//! Start of egresses, events from their threads to the room state, and their end when the server stops.

use std::sync::{Arc, Weak};
use std::time::Duration;

use conclave_egress::{EgressEvent, EgressHost, StartEgressError};
use conclave_model::egress::{EgressPlan, EgressSource, StartedEgress};
use conclave_model::{EgressId, NamespacedRoom, ParticipantSid, TrackSid};
use conclave_sfu::{Command, PeerCommand, TrackSettings};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::embedded::plane::core::PlaneCore;
use crate::embedded::room_state::RoomState;
use crate::port::MediaError;
use crate::redact::redact_urls;

/// Retry hint for an egress that was refused because too many are running.
const BUSY_WAIT: Duration = Duration::from_secs(30);
/// Time limit for egresses' last reports, in addition to the time for their files.
const REPORTING: Duration = Duration::from_secs(5);

/// An egress's connection to its room, used on the egress's thread.
struct JobHost {
    plane: Weak<PlaneCore>,
    room: NamespacedRoom,
    /// The actors' runtime, which handles reports.
    runtime: Handle,
}

/// Returns whether a new egress in a room runs with ffmpeg instead of being simulated: the room has a participant with
/// a real client, or this server simulates nothing.
fn uses_ffmpeg(plane: &Arc<PlaneCore>, room: &NamespacedRoom) -> Result<bool, MediaError> {
    let has_participants =
        plane.call_by_port(room, |room_state, _| !room_state.clients().is_empty())?;
    Ok(plane.jobs.is_some() && (has_participants || !plane.common.has_sandbox()))
}

/// Starts an egress with ffmpeg, or a simulated one.
pub(in crate::embedded) async fn start(
    plane: &Arc<PlaneCore>,
    plan: Arc<EgressPlan>,
) -> Result<StartedEgress, MediaError> {
    if uses_ffmpeg(plane, &plan.room)? {
        return start_job(plane, plan).await;
    }
    Ok(plane
        .call_by_port(&plan.room, RoomState::start_egress)?
        .into())
}

/// Starts an egress with ffmpeg: first its file, which may be refused, then its thread.
async fn start_job(
    plane: &Arc<PlaneCore>,
    plan: Arc<EgressPlan>,
) -> Result<StartedEgress, MediaError> {
    let Some(jobs) = &plane.jobs else {
        return Err(MediaError::Refused("nothing can be recorded".into()));
    };
    let room = &plan.room;
    // The room's lock is released while the file is created: a slow disk must not block the room.
    let (id, codec) = plane.call_by_port(room, |room_state, _| {
        let codec = match &plan.source {
            EgressSource::Track(track) => room_state.codec_of(track),
            EgressSource::Participant(_) | EgressSource::RoomComposite { .. } => None,
        };
        room_state
            .check_encryption(&plan.source)
            .map(|()| (room_state.unused_egress_id(), codec))
    })??;
    let (engine, to_prepare) = (Arc::clone(jobs.engine()), Arc::clone(&plan));
    // Creating files and running ffmpeg block.
    let prepared = tokio::task::spawn_blocking(move || engine.prepare(&to_prepare, codec)).await;
    let prepared = prepared.map_err(|error| MediaError::Refused(error.to_string()))??;
    let filepath = prepared.filepath.clone();
    let host = JobHost {
        plane: Arc::downgrade(plane),
        room: room.clone(),
        runtime: Handle::current(),
    };
    jobs.start(&id, room.clone(), prepared, Arc::new(host))
        .map_err(|error| MediaError::Refused(format!("the egress cannot be started: {error}")))?;
    // The thread is running and waits. Only now does the room know the egress, so its first event finds it there.
    let begun = plane.call_by_port(room, |room_state, now| {
        room_state.add_job(id.clone(), plan.source.clone(), now)
    });
    // The call fails during a simulated outage. Dropping the job's handle ends the thread without an event.
    if begun.is_err() {
        jobs.remove(&id);
    } else if jobs.is_closed() {
        // `end_all` may have run in between, when the room did not know this egress yet.
        plane.call(room, |room_state, now| room_state.stop_egress(&id, now));
    }
    let is_uploaded_by_server = filepath.is_some() && plan.destination.is_some();
    Ok(StartedEgress {
        state: begun?,
        filepath,
        is_uploaded_by_server,
    })
}

/// Ends all egresses with ffmpeg, and refuses new ones. Returns once their files are final and their records are
/// written.
pub(in crate::embedded) async fn end_all(plane: &Arc<PlaneCore>) {
    let Some(jobs) = &plane.jobs else {
        return;
    };
    // Closing first: no egress can start after the list was made.
    let (running, limit) = jobs.close();
    if running.is_empty() {
        return;
    }
    log::info!(count = running.len(); "stopping the running recordings and broadcasts");
    for (id, room) in running {
        plane.call(&room, |room_state, now| room_state.stop_egress(&id, now));
    }
    if timeout(limit + REPORTING, jobs.all_ended()).await.is_err() {
        log::warn!("some recordings or broadcasts did not stop in time (egress.stop_timeout)");
    }
}

impl EgressHost for JobHost {
    fn handle(&self, egress: &EgressId, event: EgressEvent) {
        let Some(plane) = self.plane.upgrade() else {
            return;
        };
        let event = match event {
            EgressEvent::Ended { status, error } => EgressEvent::Ended {
                status,
                error: error.map(|error| redact_urls(&error)),
            },
            EgressEvent::Active => EgressEvent::Active,
        };
        let has_ended = matches!(event, EgressEvent::Ended { .. });
        // The thread is outside the runtime, and the call may spawn the room's deadline task.
        let runtime = self.runtime.enter();
        let ((), replies) = plane.call(&self.room, |room_state, now| {
            room_state.handle_job_event(egress, event, now);
        });
        drop(runtime);
        if let Some(jobs) = plane.jobs.as_ref().filter(|_| has_ended) {
            // It counts as running until its end is recorded, which a stopping server waits for. A reply is missing
            // only if the control plane has already stopped.
            replies
                .into_iter()
                .for_each(|reply| drop(reply.blocking_recv()));
            jobs.remove(egress);
        }
    }

    fn set_layer(
        &self,
        egress: &EgressId,
        track: (&ParticipantSid, &TrackSid),
        settings: TrackSettings,
    ) {
        // The plane is gone: the process is stopping.
        let Some(plane) = self.plane.upgrade() else {
            return;
        };
        let attached = plane
            .jobs
            .as_ref()
            // `None` if the egress has ended in the meantime.
            .and_then(|jobs| jobs.attach(egress, track, settings));
        attached
            .into_iter()
            .for_each(|command| self.send_command(&plane, command));
    }

    fn request_key_frame(&self, egress: &EgressId, (peer, track): (&ParticipantSid, &TrackSid)) {
        let Some(plane) = self.plane.upgrade() else {
            return;
        };
        let command = PeerCommand::RequestKeyFrame {
            track: track.clone(),
            egress: egress.clone(),
        };
        self.send_command(&plane, command.for_peer(peer.clone()));
    }
}

impl JobHost {
    fn send_command(&self, plane: &PlaneCore, command: Command) {
        if let Some(room) = plane.rooms.get(&self.room) {
            room.send_command(command);
        }
    }
}

impl From<StartEgressError> for MediaError {
    fn from(error: StartEgressError) -> Self {
        match error {
            StartEgressError::NoSuchTrack => Self::NoSuchTrack,
            StartEgressError::Path(problem) => Self::InvalidFilepath(problem),
            StartEgressError::Busy => Self::Busy {
                retry_after: BUSY_WAIT,
            },
            StartEgressError::Ffmpeg(_)
            | StartEgressError::Unsupported(_)
            | StartEgressError::File(_) => Self::Refused(error.to_string()),
        }
    }
}
