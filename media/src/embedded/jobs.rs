//! The egresses that run with ffmpeg.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_egress::{Attendee, EgressHost, Engine, JobHandle, Prepared};
use conclave_model::{EgressId, NamespacedRoom, ParticipantSid, TrackSid};
use conclave_rtc::{Command, NewRecorder, TrackSettings};

/// The egresses that run.
pub(super) struct Jobs {
    engine: Arc<Engine>,
    running: Mutex<HashMap<EgressId, Job>>,
}

struct Job {
    room: NamespacedRoom,
    handle: JobHandle,
}

impl Jobs {
    pub fn new(engine: Engine) -> Self {
        Self { engine: Arc::new(engine), running: Mutex::default() }
    }

    /// Returns what starts egresses.
    pub const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Starts an egress, which waits until it is told who attends.
    pub fn start(
        &self,
        id: &EgressId,
        room: NamespacedRoom,
        prepared: Prepared,
        host: Arc<dyn EgressHost>,
    ) -> io::Result<()> {
        let handle = prepared.start(id.clone(), host)?;
        self.lock().insert(id.clone(), Job { room, handle });
        Ok(())
    }

    /// Ends an egress that has no thread any more, or that nobody knows.
    pub fn remove(&self, id: &EgressId) {
        self.lock().remove(id);
    }

    /// Lets an egress know who attends.
    pub fn attend(&self, id: &EgressId, attendees: Vec<Attendee>) {
        if let Some(job) = self.lock().get(id) {
            job.handle.set_attendance(attendees);
        }
    }

    /// Lets an egress end.
    pub fn stop(&self, id: &EgressId) {
        if let Some(job) = self.lock().get(id) {
            job.handle.stop();
        }
    }

    /// Returns the command by which an egress gets a track, or another layer of it.
    pub fn attach(
        &self,
        id: &EgressId,
        (peer, track): (&ParticipantSid, &TrackSid),
        settings: TrackSettings,
    ) -> Option<(NamespacedRoom, Command)> {
        let running = self.lock();
        let job = running.get(id)?;
        let recorder = NewRecorder { egress: id.clone(), settings, sink: job.handle.sink() };
        Some((job.room.clone(), Command::AttachRecorder { peer: peer.clone(), track: track.clone(), recorder }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EgressId, Job>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
