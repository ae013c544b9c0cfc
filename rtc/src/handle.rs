//! The control side's end of the channel to a worker.

use std::fmt;
use std::sync::Arc;

use conclave_model::NamespacedRoom;
use mio::Waker;

use crate::command::Command;
use crate::queue::{CommandQueue, Pushed};

/// The sending end of a worker's commands.
#[derive(Clone)]
pub(crate) struct WorkerSender {
    commands: Arc<CommandQueue>,
    waker: Arc<Waker>,
}

impl WorkerSender {
    pub fn new(commands: Arc<CommandQueue>, waker: Arc<Waker>) -> Self {
        Self { commands, waker }
    }

    /// Wakes the worker without a command.
    pub fn wake(&self) {
        // The worker may have ended; there is nothing left to wake then.
        let _ = self.waker.wake();
    }
}

/// Sends commands to the worker of one room. Cheap to clone.
#[derive(Clone)]
pub struct RoomHandle {
    room: NamespacedRoom,
    worker: WorkerSender,
    /// Exists as long as a handle of the room does.
    _alive: Arc<()>,
}

impl RoomHandle {
    pub(crate) fn new(room: NamespacedRoom, worker: WorkerSender, alive: Arc<()>) -> Self {
        Self { room, worker, _alive: alive }
    }

    /// Sends a command. Never blocks. The command is lost if the workers have been stopped, or if a client has caused too many.
    pub fn send(&self, command: Command) {
        if self.worker.commands.push(&self.room, command) != Pushed::Closed {
            self.worker.wake();
        }
    }

    /// Returns the name of the room.
    #[must_use]
    pub fn room(&self) -> &NamespacedRoom {
        &self.room
    }
}

impl fmt::Debug for RoomHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoomHandle").field("room", &self.room).finish_non_exhaustive()
    }
}
