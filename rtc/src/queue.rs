//! The commands that wait for a worker.
//!
//! Commands of one room keep their order, and rooms take turns. What clients cause is bounded: a change of the same thing replaces
//! the one that waits (the newest offer of a participant, say), and a participant with too many others fails. Commands of the server
//! are never lost.

mod slot;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use conclave_model::{Counts, NamespacedRoom, ParticipantSid};

use crate::command::Command;
use crate::event::FailureReason;
use slot::{Slot, client_of, sdp_bytes, slot_of};

/// How many commands wait that one participant has caused, beside those that replace each other.
const WAITING_OF_PEER: usize = 1024;

/// How many bytes of session descriptions wait. Beyond it no room has more than its share.
const WAITING_SDP_BYTES: usize = 32 * 1024 * 1024;

/// A command and the room that it is for.
pub struct RoomCommand {
    pub room: NamespacedRoom,
    pub command: Command,
}

/// The commands that wait for a worker.
#[derive(Default)]
pub struct CommandQueue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    rooms: HashMap<NamespacedRoom, RoomQueue>,
    /// The rooms with commands, in the order of their turns.
    turns: VecDeque<NamespacedRoom>,
    sdp_bytes: usize,
    next: u64,
    is_closed: bool,
}

#[derive(Default)]
struct RoomQueue {
    /// The commands in their order.
    commands: BTreeMap<u64, Command>,
    /// Where the commands are that a newer one replaces.
    slots: HashMap<Slot, u64>,
    /// How many of the others there are of each participant.
    counts: Counts<ParticipantSid>,
    /// The participants that fail because they had too many.
    refused: HashSet<ParticipantSid>,
    sdp_bytes: usize,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The command waits in the queue.
    Waits,
    /// It is dropped, as its participant has caused too many.
    Refused,
    /// It is dropped, as there is no worker any more.
    Closed,
}

impl CommandQueue {
    /// Adds a command.
    pub fn push(&self, room: &NamespacedRoom, command: Command) -> Pushed {
        self.lock().push(room, command)
    }

    /// Takes the next command: of the room whose turn it is.
    pub fn pop(&self) -> Option<RoomCommand> {
        self.lock().pop()
    }

    /// Drops all commands, and those to come.
    pub fn close(&self) {
        *self.lock() = Waiting { is_closed: true, ..Waiting::default() };
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn push(&mut self, name: &NamespacedRoom, command: Command) -> Pushed {
        if self.is_closed {
            return Pushed::Closed;
        }
        if !self.rooms.contains_key(name) {
            self.rooms.insert(name.clone(), RoomQueue::default());
        }
        let rooms = self.rooms.len();
        let Some(room) = self.rooms.get_mut(name) else { return Pushed::Closed };
        let (had_commands, bytes) = (!room.commands.is_empty(), room.sdp_bytes);
        let may_grow =
            |added: usize| self.sdp_bytes + added <= WAITING_SDP_BYTES || bytes + added <= WAITING_SDP_BYTES / rooms;
        let pushed = room.push(self.next, command, may_grow);
        self.next += 1;
        self.sdp_bytes = self.sdp_bytes - bytes + room.sdp_bytes;
        match (had_commands, room.commands.is_empty()) {
            (false, false) => self.turns.push_back(name.clone()),
            (false, true) if room.refused.is_empty() => {
                self.rooms.remove(name);
            }
            _ => {}
        }
        pushed
    }

    fn pop(&mut self) -> Option<RoomCommand> {
        let name = self.turns.pop_front()?;
        let room = self.rooms.get_mut(&name)?;
        let bytes = room.sdp_bytes;
        let command = room.pop()?;
        self.sdp_bytes = self.sdp_bytes - bytes + room.sdp_bytes;
        if !room.commands.is_empty() {
            self.turns.push_back(name.clone());
        } else if room.refused.is_empty() {
            self.rooms.remove(&name);
        }
        Some(RoomCommand { room: name, command })
    }
}

impl RoomQueue {
    fn push(&mut self, number: u64, command: Command, may_grow: impl FnOnce(usize) -> bool) -> Pushed {
        match &command {
            Command::RemovePeer { peer } => {
                self.refused.remove(peer);
            }
            Command::CloseRoom => self.refused.clear(),
            _ => {}
        }
        let client = client_of(&command).cloned();
        if client.as_ref().is_some_and(|client| self.refused.contains(client)) {
            return Pushed::Refused;
        }
        let slot = slot_of(&command);
        if let Some(before) = slot.as_ref().and_then(|slot| self.slots.remove(slot)) {
            self.take(before);
        }
        if let Some(client) = client.filter(|client| self.is_over(client, slot.is_some(), &command, may_grow)) {
            return self.refuse(number, client, &command);
        }
        self.sdp_bytes += sdp_bytes(&command);
        match (slot, client_of(&command)) {
            (Some(slot), _) => {
                self.slots.insert(slot, number);
            }
            (None, Some(client)) => self.counts.add(client.clone()),
            (None, None) => {}
        }
        self.commands.insert(number, command);
        Pushed::Waits
    }

    fn is_over(
        &self,
        client: &ParticipantSid,
        has_slot: bool,
        command: &Command,
        may_grow: impl FnOnce(usize) -> bool,
    ) -> bool {
        let count = self.counts.get(client);
        let bytes = sdp_bytes(command);
        (!has_slot && count >= WAITING_OF_PEER) || (bytes > 0 && !may_grow(bytes))
    }

    /// Drops a command of a client that has caused too many, and lets the client fail. Packets are lost as in a network.
    fn refuse(&mut self, number: u64, peer: ParticipantSid, command: &Command) -> Pushed {
        if !matches!(command, Command::Packets { .. }) {
            self.refused.insert(peer.clone());
            self.commands.insert(number, Command::FailPeer { peer, reason: FailureReason::TooManyCommands });
        }
        Pushed::Refused
    }

    fn pop(&mut self) -> Option<Command> {
        let (number, _) = self.commands.first_key_value()?;
        let command = self.take(*number)?;
        if let Some(slot) = slot_of(&command) {
            self.slots.remove(&slot);
        } else if let Some(client) = client_of(&command) {
            self.counts.subtract(client);
        }
        Some(command)
    }

    fn take(&mut self, number: u64) -> Option<Command> {
        let command = self.commands.remove(&number)?;
        self.sdp_bytes -= sdp_bytes(&command);
        Some(command)
    }
}

#[cfg(test)]
mod tests;
