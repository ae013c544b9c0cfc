//! Egresses that run with ffmpeg.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conclave_egress::{
    EgressHandle, EgressHost, EgressProgress, EgressService, Ffmpeg, FfmpegError, InputParticipant,
    LeftOutTracks, PreparedEgress, TargetState,
};
use conclave_model::{EgressId, NamespacedRoom, ParticipantSid, TrackSid};
use conclave_sfu::{Command, NewRecorder, PeerCommand, TrackSettings};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::embedded::effect::JobEffect;
use crate::embedded::room::Room;

/// Egresses that are running.
pub(in crate::embedded) struct Jobs {
    engine: Arc<EgressService>,
    state: Mutex<JobsState>,
    /// Notified when an egress has ended.
    ended: Notify,
}

#[derive(Default)]
struct JobsState {
    running: HashMap<EgressId, RunningJob>,
    /// Whether the server is stopping, so that no egress may start.
    is_closed: bool,
}

struct RunningJob {
    room: NamespacedRoom,
    handle: EgressHandle,
}

impl Jobs {
    pub fn new(engine: EgressService) -> Self {
        Self {
            engine: Arc::new(engine),
            state: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Returns the egress engine.
    pub const fn engine(&self) -> &Arc<EgressService> {
        &self.engine
    }

    /// Returns the ffmpeg that records and broadcasts, or the reason why it is unusable.
    pub async fn ffmpeg(&self) -> Option<Result<Ffmpeg, FfmpegError>> {
        let engine = Arc::clone(&self.engine);
        // Detecting ffmpeg runs it, for up to 20 s. The task can only fail by a panic.
        tokio::task::spawn_blocking(move || engine.ffmpeg())
            .await
            .ok()
    }

    /// Refuses new egresses. Returns the running ones, and the time limit for completing their files.
    pub fn close(&self) -> (Vec<(EgressId, NamespacedRoom)>, Duration) {
        let timeout = self.engine.start_shutdown();
        let mut state = self.state.lock();
        state.is_closed = true;
        (
            state
                .running
                .iter()
                .map(|(id, job)| (id.clone(), job.room.clone()))
                .collect(),
            timeout,
        )
    }

    /// Returns whether new egresses are refused.
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Waits until no egress is running.
    pub async fn all_ended(&self) {
        loop {
            // Created before the check, so that an egress that ends in between is not missed.
            let ended = self.ended.notified();
            if self.state.lock().running.is_empty() {
                return;
            }
            // Any egress may have ended: the list is checked again.
            ended.await;
        }
    }

    /// Starts an egress, whose thread waits for its inputs. Fails if the server is stopping.
    pub fn start(
        &self,
        id: &EgressId,
        room: NamespacedRoom,
        prepared: PreparedEgress,
        host: Arc<dyn EgressHost>,
    ) -> io::Result<()> {
        // Locked during the start, so that `close` either prevents it or lists the egress.
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(io::Error::other("the server stops"));
        }
        let handle = prepared.start(id.clone(), host)?;
        state
            .running
            .insert(id.clone(), RunningJob { room, handle });
        Ok(())
    }

    /// Removes an egress that no longer has a thread. Has no effect if it is unknown.
    pub fn remove(&self, id: &EgressId) {
        self.state.lock().running.remove(id);
        // Harmless for an unknown egress, since `all_ended` checks the list itself.
        self.ended.notify_waiters();
    }

    /// Applies a room's effect to an egress.
    pub fn carry_out(&self, room: &Room, egress: &EgressId, effect: JobEffect) {
        match effect {
            JobEffect::SetInputs {
                inputs,
                is_room_empty,
            } => self.set_inputs(egress, inputs, is_room_empty),
            JobEffect::SetPaused(paused) => self.set_paused(egress, paused),
            JobEffect::Stop => self.stop(egress),
            JobEffect::Attach { peer, track } => {
                let attached = self.attach(egress, (&peer, &track), TrackSettings::default());
                attached
                    .into_iter()
                    // None if the egress has ended in the meantime.
                    .for_each(|command| room.send_command(command));
            }
        }
    }

    /// Sends an egress its inputs.
    fn set_inputs(&self, id: &EgressId, inputs: Vec<InputParticipant>, is_room_empty: bool) {
        if let Some(job) = self.state.lock().running.get(id) {
            job.handle.set_inputs(inputs, is_room_empty);
        }
    }

    /// Pauses or resumes an egress.
    fn set_paused(&self, id: &EgressId, paused: bool) {
        if let Some(job) = self.state.lock().running.get(id) {
            job.handle.set_paused(paused);
        }
    }

    /// Stops an egress.
    fn stop(&self, id: &EgressId) {
        if let Some(job) = self.state.lock().running.get(id) {
            job.handle.stop();
        }
    }

    /// Returns the command that attaches a track, or another layer of it, to an egress.
    pub fn attach(
        &self,
        id: &EgressId,
        (peer, track): (&ParticipantSid, &TrackSid),
        settings: TrackSettings,
    ) -> Option<Command> {
        let state = self.state.lock();
        let job = state.running.get(id)?;
        // Attaching again replaces the recorder, and so its settings.
        let recorder = NewRecorder {
            egress: id.clone(),
            settings,
            sink: job.handle.sink(),
        };
        Some(
            PeerCommand::AttachRecorder {
                track: track.clone(),
                recorder,
            }
            .for_peer(peer.clone()),
        )
    }

    /// Returns an egress's progress for inspection; `None` if it is not running.
    pub fn inspect(&self, id: &EgressId) -> Option<Value> {
        let progress = JobProgress::read(self.state.lock().running.get(id)?.handle.progress());
        let targets = progress.targets.iter().map(|state| match state {
            TargetState::Connected => "connected",
            TargetState::Connecting => "connecting",
            TargetState::Waiting => "waiting",
        });
        Some(json!({
            // Names are part of the API of `/debug/actors`, and independent of the fields'.
            "media_ms": u64::try_from(progress.media.as_millis()).unwrap_or(u64::MAX),
            "bytes": progress.bytes,
            "frames": progress.frames,
            "dropped_frames": progress.dropped_frames,
            "lost_frames": progress.lost_frames,
            "dropped_packets": progress.dropped_packets,
            "buffered_bytes": progress.buffered_bytes,
            "late_ms": progress.late_millis,
            "speed": progress.speed,
            "left_out_tracks": progress.left_out.0,
            "left_out": progress.left_out.1,
            "targets": targets.collect::<Vec<_>>(),
        }))
    }

    /// Returns the running egresses and their progress.
    pub fn running(&self) -> Vec<(EgressId, JobProgress)> {
        let read = |(id, job): (&EgressId, &RunningJob)| {
            (id.clone(), JobProgress::read(job.handle.progress()))
        };
        self.state.lock().running.iter().map(read).collect()
    }
}

/// An egress's progress.
pub(in crate::embedded) struct JobProgress {
    /// Media that was written or sent.
    pub media: Duration,
    pub bytes: u64,
    pub frames: u64,
    pub dropped_frames: u64,
    lost_frames: u64,
    dropped_packets: u64,
    pub buffered_bytes: u64,
    late_millis: u64,
    /// Seconds of media per second of running time.
    pub speed: f64,
    targets: Vec<TargetState>,
    left_out: LeftOutTracks,
}

impl JobProgress {
    fn read(progress: &EgressProgress) -> Self {
        // Independent counters, read for display only: no order between them is needed.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let media = Duration::from_millis(read(&progress.media_millis));
        Self {
            media,
            bytes: read(&progress.bytes),
            frames: read(&progress.frames),
            dropped_frames: read(&progress.dropped_frames),
            lost_frames: read(&progress.lost_frames),
            dropped_packets: read(&progress.dropped_packets),
            buffered_bytes: read(&progress.buffered_bytes),
            late_millis: read(&progress.late_millis),
            // 1 ms: avoids a division by zero just after the start.
            speed: media.as_secs_f64() / progress.runs_for().as_secs_f64().max(0.001),
            targets: progress.targets(),
            left_out: progress.left_out(),
        }
    }

    /// Returns the number of a broadcast's connected destinations.
    pub fn connected_targets(&self) -> usize {
        self.targets
            .iter()
            .filter(|state| **state == TargetState::Connected)
            .count()
    }
}
