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

    /// Returns how many such ends there are: one for each room, and always as many more.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.waker)
    }

    /// Wakes the worker without a command.
    pub fn wake(&self) {
        // The worker may have ended; there is nothing left to wake then.
        let _ = self.waker.wake();
    }
}

/// The way to the worker of a room, which is opened on it. Dropping it closes the room there ([`Command::CloseRoom`]).
pub struct RoomHandle {
    room: NamespacedRoom,
    worker: WorkerSender,
}

impl RoomHandle {
    pub(crate) fn new(room: NamespacedRoom, worker: WorkerSender) -> Self {
        Self { room, worker }
    }

    /// Sends a command. Never blocks. The command is lost if the workers have been stopped, or if a client has caused too many.
    pub fn send(&self, command: Command) {
        if self.worker.commands.push(&self.room, command) != Pushed::Closed {
            self.worker.wake();
        }
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
