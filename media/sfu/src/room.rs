//! The control side's handle to a room.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use conclave_model::NamespacedRoom;
use parking_lot::Mutex;

use crate::command::Command;
use crate::driver::WorkerMetrics;
use crate::mirror::WorkerId;
use crate::placement::{Placement, WorkerLoad, choose_worker};
use crate::queue::WorkerSender;

/// A worker, as seen by rooms.
pub(crate) struct WorkerHandle {
    /// Queue for commands.
    pub sender: WorkerSender,
    /// Counters and load.
    pub metrics: Arc<WorkerMetrics>,
    /// Maximum number of participants.
    pub most_peers: usize,
}

impl WorkerHandle {
    fn load(&self) -> WorkerLoad {
        // From another thread: a slightly old value only makes the choice less exact.
        let peers = self.metrics.peers.load(Ordering::Relaxed);
        WorkerLoad {
            has_ended: self.sender.has_ended(),
            is_full: peers >= self.most_peers as u64,
            busy: self.metrics.busy_thousandths.load(Ordering::Relaxed),
            peers,
        }
    }
}

/// Handle to a room's workers. The room is opened on a worker with its first participant there, and closed when this is
/// dropped ([`Command::CloseRoom`]).
pub struct RoomHandle {
    room: NamespacedRoom,
    workers: Arc<[WorkerHandle]>,
    /// Worker for the first participant, unless it is busy. The room counts among this worker's rooms while the handle
    /// exists.
    preferred: (WorkerId, WorkerSender),
    placement: Mutex<Placement>,
}

impl RoomHandle {
    pub(crate) fn new(
        room: NamespacedRoom,
        workers: Arc<[WorkerHandle]>,
        preferred: (WorkerId, WorkerSender),
    ) -> Self {
        Self {
            room,
            workers,
            preferred,
            placement: Mutex::default(),
        }
    }

    /// Sends a command without blocking. It is lost if the workers have stopped, or if a client has caused too many.
    pub fn send(&self, command: Command) {
        let choose = |placement: &Placement| {
            // With participants, their first worker is preferred: a room on one worker needs no mirrors.
            let preferred = placement.preferred().unwrap_or(self.preferred.0);
            choose_worker(preferred, self.workers.iter().map(WorkerHandle::load))
        };
        // The lock is held while sending: commands for several workers must reach each of them in the same order.
        let mut placement = self.placement.lock();
        if matches!(command, Command::AddPeer(_)) {
            placement.record_ended(|worker| {
                let worker = self.workers.get(worker.0);
                worker.is_some_and(|worker| worker.sender.has_ended())
            });
        }
        placement.route(command, choose, |worker, instruction| {
            if let Some(worker) = self.workers.get(worker.0) {
                worker.sender.send(&self.room, instruction);
            }
        });
    }

    /// Returns the room's name.
    pub fn room(&self) -> &NamespacedRoom {
        &self.room
    }
}

impl Drop for RoomHandle {
    fn drop(&mut self) {
        self.send(Command::CloseRoom);
    }
}

impl fmt::Debug for RoomHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoomHandle")
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}
