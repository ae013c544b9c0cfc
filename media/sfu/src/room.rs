//! The control side's end of a room.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use conclave_model::NamespacedRoom;
use parking_lot::Mutex;

use crate::command::Command;
use crate::driver::WorkerMetrics;
use crate::mirror::WorkerId;
use crate::placement::{Load, Placement, choose};
use crate::queue::WorkerSender;

/// A worker as rooms know it.
pub(crate) struct WorkerEnd {
    /// Sends commands to the worker.
    pub sender: WorkerSender,
    /// What it has done, and how busy it is.
    pub metrics: Arc<WorkerMetrics>,
    /// The most participants that it takes.
    pub most_peers: usize,
}

impl WorkerEnd {
    fn load(&self) -> Load {
        let peers = self.metrics.peers.load(Ordering::Relaxed);
        Load {
            is_full: peers >= self.most_peers as u64,
            busy: self.metrics.busy_thousandths.load(Ordering::Relaxed),
            peers,
        }
    }
}

/// The way to the workers of a room, which is opened on them as its participants come. Dropping it closes the room
/// ([`Command::CloseRoom`]).
pub struct RoomHandle {
    room: NamespacedRoom,
    workers: Arc<[WorkerEnd]>,
    /// The worker that its first participant comes to, unless that is busy; counted among the rooms of that worker.
    preferred: (WorkerId, WorkerSender),
    placement: Mutex<Placement>,
}

impl RoomHandle {
    pub(crate) fn new(
        room: NamespacedRoom,
        workers: Arc<[WorkerEnd]>,
        preferred: (WorkerId, WorkerSender),
    ) -> Self {
        Self {
            room,
            workers,
            preferred,
            placement: Mutex::default(),
        }
    }

    /// Sends a command. Never blocks. The command is lost if the workers have been stopped, or if a client has caused too many.
    pub fn send(&self, command: Command) {
        let choose = |placement: &Placement| {
            let preferred = placement.first().unwrap_or(self.preferred.0);
            choose(preferred, self.workers.iter().map(WorkerEnd::load))
        };
        // Commands that concern several workers reach each of them in the same order.
        self.placement
            .lock()
            .route(command, choose, |worker, instruction| {
                if let Some(worker) = self.workers.get(worker.0) {
                    worker.sender.send(&self.room, instruction);
                }
            });
    }

    /// Returns the name of the room.
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
