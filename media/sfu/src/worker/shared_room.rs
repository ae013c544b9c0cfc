//! Worker-local state of a room that is on other workers, too.

use std::sync::Arc;

use conclave_model::ParticipantSid;

use crate::command::PeerCommand;
use crate::data::DataLink;
use crate::mirror::WorkerId;
use crate::notice::{NewNeighbour, SharingId};
use crate::transport::{PeerKey, TransportKey};

/// The other workers of a room, and the participants there.
pub struct SharedRoom {
    sharing: SharingId,
    /// Index of this worker.
    worker: WorkerId,
    neighbours: Vec<Neighbour>,
    /// Participants on other workers.
    mirrors: Vec<PeerKey>,
    /// Commands for participants that other workers have not announced yet, in order.
    buffered: Vec<BufferedCommand>,
}

/// Command that waits until another worker announces a participant.
pub struct BufferedCommand {
    /// Unknown participant.
    pub awaited: ParticipantSid,
    /// The command's participant, which differs for subscriptions.
    pub peer: ParticipantSid,
    pub command: PeerCommand,
}

/// Another worker of a room.
pub struct Neighbour {
    worker: WorkerId,
    /// Messages on their way there.
    outgoing: Arc<DataLink>,
    /// Messages on their way from there.
    incoming: Arc<DataLink>,
    /// Whether all of its participants have been announced.
    is_known: bool,
    /// Receivers on this worker for which senders there wait.
    slow: Vec<TransportKey>,
}

impl Drop for Neighbour {
    /// Closes the link from there: the room is closed here, or this worker's thread has ended.
    fn drop(&mut self) {
        self.incoming.close();
    }
}

impl Neighbour {
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Returns whether all of its participants from before the room was shared are known.
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the counter for messages on their way there.
    pub const fn outgoing(&self) -> &Arc<DataLink> {
        &self.outgoing
    }
}

impl SharedRoom {
    /// Creates a room without other workers.
    pub const fn new(sharing: SharingId, worker: WorkerId) -> Self {
        Self {
            sharing,
            worker,
            neighbours: Vec::new(),
            mirrors: Vec::new(),
            buffered: Vec::new(),
        }
    }

    /// Returns the room's opening.
    pub const fn sharing(&self) -> SharingId {
        self.sharing
    }

    /// Returns the index of this worker.
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Returns the other workers of the room.
    pub fn neighbours(&self) -> impl Iterator<Item = &Neighbour> {
        self.neighbours.iter()
    }

    /// Adds another worker. `is_known` is false if it has yet to announce its participants.
    pub fn add_neighbour(&mut self, new: NewNeighbour, is_known: bool) {
        self.neighbours.push(Neighbour {
            worker: new.worker,
            outgoing: new.outgoing,
            incoming: new.incoming,
            is_known,
            slow: Vec::new(),
        });
    }

    /// Returns the participants on other workers.
    pub fn mirrors(&self) -> impl Iterator<Item = PeerKey> {
        self.mirrors.iter().copied()
    }

    pub fn add_mirror(&mut self, peer: PeerKey) {
        self.mirrors.push(peer);
    }

    pub fn remove_mirror(&mut self, peer: PeerKey) {
        self.mirrors.retain(|other| *other != peer);
    }

    /// Queues a command if its awaited participant may still be announced.
    pub fn buffer(&mut self, command: BufferedCommand) {
        // Otherwise the participant has left, or never existed.
        if self.neighbours.iter().any(|neighbour| !neighbour.is_known) {
            self.buffered.push(command);
        }
    }

    /// Removes and returns the commands that wait for a participant.
    pub fn take_buffered(&mut self, sid: &ParticipantSid) -> Vec<BufferedCommand> {
        let commands = self
            .buffered
            .extract_if(.., |command| command.awaited == *sid);
        // In the order in which they were queued.
        commands.collect()
    }

    /// Records that another worker has announced all its participants.
    pub fn mark_known(&mut self, worker: WorkerId) {
        if let Some(neighbour) = self.neighbour(worker) {
            neighbour.is_known = true;
        }
        if self.neighbours.iter().all(|neighbour| neighbour.is_known) {
            // The rest are for participants that left before the room was shared.
            self.buffered = Vec::new();
        }
    }

    /// Counts a message that has arrived from another worker. Returns whether its senders wait, and must be notified.
    pub fn record_arrival(&mut self, from: WorkerId, bytes: usize) -> bool {
        self.neighbour(from).is_some_and(|neighbour| {
            neighbour.incoming.subtract(bytes);
            neighbour.incoming.release()
        })
    }

    /// Makes senders on another worker wait for these receivers.
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

    /// Stops waiting for receivers that have caught up. Returns the workers whose senders wait, and must be notified.
    pub fn release(&mut self, is_awaited: impl Fn(TransportKey) -> bool) -> Vec<WorkerId> {
        let mut released = Vec::new();
        for neighbour in &mut self.neighbours {
            // Receivers that have left are not awaited either.
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
