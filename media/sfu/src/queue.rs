//! The commands that wait for a worker.
//!
//! Commands of one room keep their order, and rooms take turns. What clients cause is bounded: a change of the same thing replaces
//! the one that waits (the newest offer of a participant, say), and a participant with too many others fails. Commands of the server
//! are never lost.

mod slot;

use std::collections::HashMap;

use conclave_model::{Counts, NamespacedRoom, ParticipantSid, RoundRobin};
use parking_lot::Mutex;

use crate::command::{Command, PeerCommand};
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
    commands: RoundRobin<NamespacedRoom, Command>,
    /// Where the commands are that a newer one replaces.
    slots: HashMap<Slot, u64>,
    /// How many of the others there are of each participant.
    counts: Counts<ParticipantSid>,
    /// The participants that fail because they had too many, with their rooms.
    refused: HashMap<ParticipantSid, NamespacedRoom>,
    /// The bytes of session descriptions of each room.
    sdp_bytes: Counts<NamespacedRoom>,
    is_closed: bool,
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
        self.0.lock().push(room, command)
    }

    /// Takes the next command: of the room whose turn it is.
    pub fn pop(&self) -> Option<RoomCommand> {
        self.0.lock().pop()
    }

    /// Drops all commands, and those to come.
    pub fn close(&self) {
        *self.0.lock() = Waiting {
            is_closed: true,
            ..Waiting::default()
        };
    }
}

impl Waiting {
    fn push(&mut self, room: &NamespacedRoom, command: Command) -> Pushed {
        if self.is_closed {
            return Pushed::Closed;
        }
        match &command {
            Command::Peer {
                peer,
                command: PeerCommand::Remove,
            } => drop(self.refused.remove(peer)),
            Command::CloseRoom => self.refused.retain(|_, other| other != room),
            _ => {}
        }
        let (client, slot) = (client_of(&command), slot_of(&command));
        let replaced = slot.as_ref().and_then(|slot| self.slots.get(slot)).copied();
        if let Some(client) = client {
            if self.refused.contains_key(client) {
                return Pushed::Refused;
            }
            if (slot.is_none() && self.counts.get(client) >= WAITING_OF_PEER)
                || !self.fits(room, &command, replaced)
            {
                return self.refuse(room, client.clone(), &command);
            }
            if slot.is_none() {
                self.counts.add(client.clone());
            }
        }
        self.sdp_bytes.add_many(room.clone(), sdp_bytes(&command));
        let number = self.commands.push(room, command);
        if let Some(slot) = slot {
            self.slots.insert(slot, number);
        }
        if let Some(replaced) = replaced.and_then(|number| self.commands.remove(room, number)) {
            self.sdp_bytes.subtract_many(room, sdp_bytes(&replaced));
        }
        Pushed::Waits
    }

    /// Returns whether the session description of a command, in place of that of the one which it replaces, leaves the total or the
    /// room within its bound.
    fn fits(&self, room: &NamespacedRoom, command: &Command, replaced: Option<u64>) -> bool {
        let replaced = replaced
            .and_then(|number| self.commands.get(room, number))
            .map_or(0, sdp_bytes);
        let added = sdp_bytes(command).saturating_sub(replaced);
        let rooms = self.commands.keys() + usize::from(!self.commands.has(room));
        added == 0
            || self.sdp_bytes.total() + added <= WAITING_SDP_BYTES
            || self.sdp_bytes.get(room) + added <= WAITING_SDP_BYTES / rooms
    }

    /// Drops a command of a client that has caused too many, and lets the client fail. Packets are lost as in a network.
    fn refuse(&mut self, room: &NamespacedRoom, peer: ParticipantSid, command: &Command) -> Pushed {
        if !matches!(
            command,
            Command::Peer {
                command: PeerCommand::Packets { .. },
                ..
            }
        ) {
            self.refused.insert(peer.clone(), room.clone());
            self.commands.push(
                room,
                PeerCommand::Fail(FailureReason::TooManyCommands).for_peer(peer),
            );
        }
        Pushed::Refused
    }

    fn pop(&mut self) -> Option<RoomCommand> {
        let (room, command) = self.commands.pop()?;
        self.sdp_bytes.subtract_many(&room, sdp_bytes(&command));
        if let Some(slot) = slot_of(&command) {
            self.slots.remove(&slot);
        } else if let Some(client) = client_of(&command) {
            self.counts.subtract(client);
        }
        Some(RoomCommand { room, command })
    }
}

#[cfg(test)]
mod tests;
