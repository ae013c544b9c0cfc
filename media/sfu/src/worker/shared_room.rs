//! What a worker knows of a room that is on other workers as well.

use std::sync::Arc;

use conclave_model::ParticipantSid;

use crate::command::PeerCommand;
use crate::data::DataLink;
use crate::mirror::WorkerId;
use crate::notice::{NewNeighbour, SharingId};
use crate::transport::{PeerKey, TransportKey};

/// The other workers of a room, and the participants that live on them.
pub struct SharedRoom {
    sharing: SharingId,
    /// The position of this worker.
    worker: WorkerId,
    neighbours: Vec<Neighbour>,
    /// The participants that live on the others.
    mirrors: Vec<PeerKey>,
    /// Commands that concern participants which other workers have not told of yet, in order.
    held: Vec<HeldCommand>,
}

/// A command that waits until another worker has told of a participant.
pub struct HeldCommand {
    /// The participant that is not known.
    pub awaited: ParticipantSid,
    /// The participant that the command is for.
    pub peer: ParticipantSid,
    /// The command.
    pub command: PeerCommand,
}

/// Another worker of a room.
pub struct Neighbour {
    worker: WorkerId,
    /// Counts the messages that go there.
    outgoing: Arc<DataLink>,
    /// Counts the messages that come from there.
    incoming: Arc<DataLink>,
    /// Whether it has told of all its participants.
    is_known: bool,
    /// The receivers on this worker for which its senders wait.
    slow: Vec<TransportKey>,
}

impl Neighbour {
    /// Returns its position.
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Returns what counts the messages that go there.
    pub const fn outgoing(&self) -> &Arc<DataLink> {
        &self.outgoing
    }
}

impl SharedRoom {
    /// Creates a room that this worker shares with no other yet.
    pub const fn new(sharing: SharingId, worker: WorkerId) -> Self {
        Self {
            sharing,
            worker,
            neighbours: Vec::new(),
            mirrors: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Returns which opening of the room it is.
    pub const fn sharing(&self) -> SharingId {
        self.sharing
    }

    /// Returns the position of this worker.
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Returns the other workers of the room.
    pub fn neighbours(&self) -> impl Iterator<Item = &Neighbour> {
        self.neighbours.iter()
    }

    /// Adds another worker, whose participants are known or are going to be told of.
    pub fn add_neighbour(&mut self, new: NewNeighbour, is_known: bool) {
        self.neighbours.push(Neighbour {
            worker: new.worker,
            outgoing: new.outgoing,
            incoming: new.incoming,
            is_known,
            slow: Vec::new(),
        });
    }

    /// Returns the participants that live on other workers.
    pub fn mirrors(&self) -> impl Iterator<Item = PeerKey> {
        self.mirrors.iter().copied()
    }

    /// Adds a participant that lives on another worker.
    pub fn add_mirror(&mut self, peer: PeerKey) {
        self.mirrors.push(peer);
    }

    /// Removes a participant that lives on another worker.
    pub fn remove_mirror(&mut self, peer: PeerKey) {
        self.mirrors.retain(|other| *other != peer);
    }

    /// Keeps a command, if the participant that it waits for may still be told of.
    pub fn hold(&mut self, command: HeldCommand) {
        if self.neighbours.iter().any(|neighbour| !neighbour.is_known) {
            self.held.push(command);
        }
    }

    /// Takes the commands that wait for a participant.
    pub fn take_held(&mut self, sid: &ParticipantSid) -> Vec<HeldCommand> {
        let held = self.held.extract_if(.., |held| held.awaited == *sid);
        held.collect()
    }

    /// Notes that another worker has told of all its participants.
    pub fn note_known(&mut self, worker: WorkerId) {
        if let Some(neighbour) = self.neighbour(worker) {
            neighbour.is_known = true;
        }
        if self.neighbours.iter().all(|neighbour| neighbour.is_known) {
            // They are for participants that were removed before the room was shared.
            self.held = Vec::new();
        }
    }

    /// Counts a message that has arrived from another worker. Returns whether that has to be told, since a sender has waited for it.
    pub fn note_arrived(&mut self, from: WorkerId, bytes: usize) -> bool {
        self.neighbour(from).is_some_and(|neighbour| {
            neighbour.incoming.subtract(bytes);
            neighbour.incoming.release()
        })
    }

    /// Lets senders on another worker wait for receivers on this one.
    pub fn await_receivers(&mut self, from: WorkerId, slow: Vec<TransportKey>) {
        let Some(neighbour) = self.neighbour(from) else {
            return;
        };
        for receiver in slow {
            if !neighbour.slow.contains(&receiver) {
                neighbour.slow.push(receiver);
            }
        }
        neighbour.incoming.set_slow(true);
    }

    /// Waits no more for receivers that have caught up. Returns the workers that have to be told, since a sender has waited there.
    pub fn release(&mut self, is_awaited: impl Fn(TransportKey) -> bool) -> Vec<WorkerId> {
        let mut released = Vec::new();
        for neighbour in &mut self.neighbours {
            neighbour.slow.retain(|receiver| is_awaited(*receiver));
            if !neighbour.slow.is_empty() {
                continue;
            }
            neighbour.incoming.set_slow(false);
            if neighbour.incoming.release() {
                released.push(neighbour.worker);
            }
        }
        released
    }

    /// Returns whether senders on other workers wait for receivers on this one.
    pub fn has_slow_receivers(&self) -> bool {
        self.neighbours
            .iter()
            .any(|neighbour| !neighbour.slow.is_empty())
    }

    fn neighbour(&mut self, worker: WorkerId) -> Option<&mut Neighbour> {
        let mut neighbours = self.neighbours.iter_mut();
        neighbours.find(|neighbour| neighbour.worker == worker)
    }
}
