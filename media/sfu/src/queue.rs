//! Queue of instructions to a worker: commands from the control side, and notices from a room's other workers.
//!
//! A room's instructions keep their order; rooms are served round-robin. The work that clients can cause is limited: a
//! command replaces a queued command for the same thing (such as a participant's offer), and a participant with too
//! many other commands fails. The server's own commands are never lost.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use conclave_model::{Counts, NamespacedRoom, ParticipantSid, RoundRobin, TrackSid};
use mio::Waker;
use parking_lot::Mutex;

use crate::command::{Command, PeerCommand};
use crate::event::FailureReason;
use crate::notice::Instruction;
use crate::transport::TrackKey;

/// Maximum queued commands per participant. Commands that replace each other do not count.
const MAX_PEER_COMMANDS: usize = 1024;

/// Total bytes of queued session descriptions, beyond which each room is limited to its fair share.
const MAX_SDP_BYTES: usize = 32 * 1024 * 1024;

/// Instruction, with the room that it is for.
pub struct RoomInstruction {
    pub room: NamespacedRoom,
    pub instruction: Instruction,
}

/// A worker's queue.
#[derive(Default)]
pub struct WorkerQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    instructions: RoundRobin<NamespacedRoom, Instruction>,
    /// Mirrors for which packets from other workers wait.
    ready: Vec<TrackKey>,
    /// Positions of commands that a newer one would replace.
    slots: HashMap<CommandSlot, u64>,
    /// Number of other commands per participant.
    counts: Counts<ParticipantSid>,
    /// Participants that fail because they had too many commands, with their rooms.
    refused: HashMap<ParticipantSid, NamespacedRoom>,
    /// Bytes of session descriptions per room.
    sdp_bytes: Counts<NamespacedRoom>,
    is_closed: bool,
}

/// Outcome of adding a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushOutcome {
    /// The command is queued.
    Queued,
    /// The instruction is dropped, because its participant has caused too many.
    Refused,
    /// The instruction is dropped, because the worker has ended.
    Closed,
}

impl WorkerQueue {
    /// Adds an instruction.
    pub fn push(&self, room: &NamespacedRoom, instruction: impl Into<Instruction>) -> PushOutcome {
        self.0.lock().push(room, instruction.into())
    }

    /// Adds notices from another worker, in order, and the mirrors for which it has packets.
    pub fn extend(
        &self,
        told: impl Iterator<Item = RoomInstruction>,
        ready: impl Iterator<Item = TrackKey>,
    ) {
        let mut waiting = self.0.lock();
        for RoomInstruction { room, instruction } in told {
            // If the worker has ended, notices are dropped silently: the room's other workers continue.
            waiting.push(&room, instruction);
        }
        if !waiting.is_closed {
            waiting.ready.extend(ready);
        }
    }

    /// Removes and returns the next instruction, from the room that is next in round-robin order.
    pub fn pop(&self) -> Option<RoomInstruction> {
        // The lock is held only to take the instruction, so senders never wait while it is handled.
        self.0.lock().pop()
    }

    /// Moves the mirrors for which packets have arrived to `ready`.
    pub fn take_ready(&self, ready: &mut VecDeque<TrackKey>) {
        ready.extend(self.0.lock().ready.drain(..));
    }

    /// Returns whether the worker has ended, so that instructions are lost.
    pub fn is_closed(&self) -> bool {
        self.0.lock().is_closed
    }

    /// Drops everything queued, and all later instructions.
    pub fn close(&self) {
        // Replacing the state also frees its memory.
        *self.0.lock() = QueueState {
            is_closed: true,
            ..QueueState::default()
        };
    }
}

impl QueueState {
    fn push(&mut self, room: &NamespacedRoom, instruction: Instruction) -> PushOutcome {
        if self.is_closed {
            return PushOutcome::Closed;
        }
        match instruction {
            Instruction::Command(command) => self.push_command(room, command),
            told => {
                self.instructions.push(room, told);
                PushOutcome::Queued
            }
        }
    }

    fn push_command(&mut self, room: &NamespacedRoom, command: Command) -> PushOutcome {
        // A participant that is removed, or whose room is closed, can no longer send commands.
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
                return PushOutcome::Refused;
            }
            if (slot.is_none() && self.counts.get(client) >= MAX_PEER_COMMANDS)
                || !self.fits(room, &command, replaced)
            {
                return self.refuse(room, client.clone(), &command);
            }
            // Replaceable commands need no limit: there is at most one per slot.
            if slot.is_none() {
                self.counts.add(client.clone());
            }
        }
        // Added before the replaced command is removed: the room then never leaves the round, and keeps its position.
        self.sdp_bytes.add_many(room.clone(), sdp_bytes(&command));
        let number = self.instructions.push(room, command.into());
        if let Some(slot) = slot {
            self.slots.insert(slot, number);
        }
        if let Some(Instruction::Command(replaced)) =
            replaced.and_then(|number| self.instructions.remove(room, number))
        {
            self.sdp_bytes.subtract_many(room, sdp_bytes(&replaced));
        }
        PushOutcome::Queued
    }

    /// Returns whether a command's session description, after `replaced` is removed, keeps the total or the room within
    /// its limit.
    fn fits(&self, room: &NamespacedRoom, command: &Command, replaced: Option<u64>) -> bool {
        let replaced = replaced
            .and_then(|number| self.instructions.get(room, number))
            .map_or(0, |replaced| match replaced {
                Instruction::Command(replaced) => sdp_bytes(replaced),
                _ => 0,
            });
        let added = sdp_bytes(command).saturating_sub(replaced);
        // The limit for a room shrinks with the number of waiting rooms, so a flooding room cannot take it from the
        // others.
        let rooms = self.instructions.keys() + usize::from(!self.instructions.has(room));
        // A description that is not larger than the replaced one is always accepted.
        added == 0
            || self.sdp_bytes.total() + added <= MAX_SDP_BYTES
            || self.sdp_bytes.get(room) + added <= MAX_SDP_BYTES / rooms
    }

    /// Drops a command whose client has caused too many, and fails the client. Media packets are dropped as in a
    /// network.
    fn refuse(
        &mut self,
        room: &NamespacedRoom,
        peer: ParticipantSid,
        command: &Command,
    ) -> PushOutcome {
        if !matches!(
            command,
            Command::Peer {
                command: PeerCommand::Packets { .. },
                ..
            }
        ) {
            // Remembered, so that the many commands that follow cause one failure only.
            self.refused.insert(peer.clone(), room.clone());
            let failed = PeerCommand::Fail(FailureReason::TooManyCommands).for_peer(peer);
            self.instructions.push(room, failed.into());
        }
        PushOutcome::Refused
    }

    fn pop(&mut self) -> Option<RoomInstruction> {
        let (room, instruction) = self.instructions.pop()?;
        if let Instruction::Command(command) = &instruction {
            self.sdp_bytes.subtract_many(&room, sdp_bytes(command));
            if let Some(slot) = slot_of(command) {
                // The next such command is queued anew, behind the others.
                self.slots.remove(&slot);
            } else if let Some(client) = client_of(command) {
                self.counts.subtract(client);
            }
        }
        Some(RoomInstruction { room, instruction })
    }
}

/// Setting that a command replaces as a whole, so that only the newest command counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommandSlot {
    peer: ParticipantSid,
    subject: SlotSubject,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SlotSubject {
    Offer,
    Answer,
    Permissions,
    Muted(TrackSid),
    Subscription(TrackSid),
    Settings(TrackSid),
}

/// Returns the setting that a command replaces; `None` if it must not be dropped for a newer one.
pub fn slot_of(command: &Command) -> Option<CommandSlot> {
    let Command::Peer { peer, command } = command else {
        return None;
    };
    let subject = match command {
        PeerCommand::Offer { .. } => SlotSubject::Offer,
        PeerCommand::Answer { .. } => SlotSubject::Answer,
        PeerCommand::SetPermissions(_) => SlotSubject::Permissions,
        PeerCommand::SetMuted { track, .. } => SlotSubject::Muted(track.clone()),
        PeerCommand::Subscribe(track)
        | PeerCommand::Unsubscribe(track)
        | PeerCommand::SubscribeDataTrack { track, .. }
        // Subscribing and unsubscribing share a slot, so that a client that alternates causes one command only.
        | PeerCommand::UnsubscribeDataTrack { track, .. } => SlotSubject::Subscription(track.clone()),
        PeerCommand::SetTrackSettings { track, .. } => SlotSubject::Settings(track.clone()),
        _ => return None,
    };
    Some(CommandSlot {
        peer: peer.clone(),
        subject,
    })
}

/// Returns the participant whose client can cause any number of such commands.
pub fn client_of(command: &Command) -> Option<&ParticipantSid> {
    let Command::Peer { peer, command } = command else {
        return None;
    };
    let is_of_client = matches!(
        command,
        PeerCommand::Offer { .. }
            | PeerCommand::Answer { .. }
            | PeerCommand::Resume
            | PeerCommand::RecordReconnect(_)
            | PeerCommand::ReplayData { .. }
            | PeerCommand::PublishTrack(_)
            | PeerCommand::UnpublishTrack(_)
            | PeerCommand::UnpublishBackup { .. }
            | PeerCommand::PublishDataTrack { .. }
            | PeerCommand::UnpublishDataTrack(_)
            | PeerCommand::SetTrackSettings { .. }
            | PeerCommand::Packets { .. }
    );
    is_of_client.then_some(peer)
}

/// Returns the length of a command's session description in bytes.
pub fn sdp_bytes(command: &Command) -> usize {
    match command {
        Command::Peer {
            command: PeerCommand::Offer { sdp, .. } | PeerCommand::Answer { sdp, .. },
            ..
        } => sdp.len(),
        _ => 0,
    }
}

/// The sending end of a worker's queue.
#[derive(Clone)]
pub(crate) struct WorkerSender {
    queue: Arc<WorkerQueue>,
    waker: Arc<Waker>,
}

impl WorkerSender {
    pub fn new(queue: Arc<WorkerQueue>, waker: Arc<Waker>) -> Self {
        Self { queue, waker }
    }

    /// Sends an instruction. It is lost if the worker has ended, or if a client has caused too many.
    pub fn send(&self, room: &NamespacedRoom, instruction: Instruction) {
        // Wakes the worker after `Refused`, too: the participant's failure was queued instead.
        if self.queue.push(room, instruction) != PushOutcome::Closed {
            self.wake();
        }
    }

    /// Sends another worker's notices, and the mirrors for which it has packets.
    pub fn send_all(
        &self,
        told: impl Iterator<Item = RoomInstruction>,
        ready: impl Iterator<Item = TrackKey>,
    ) {
        self.queue.extend(told, ready);
        self.wake();
    }

    /// Returns whether the worker has ended.
    pub fn has_ended(&self) -> bool {
        self.queue.is_closed()
    }

    /// Returns the number of senders: one per room, plus a constant.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.waker)
    }

    /// Wakes the worker without an instruction.
    pub fn wake(&self) {
        // If the worker has ended, nothing is left to wake.
        let _ = self.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::WorkerId;
    use crate::notice::{Notice, SharingId};

    fn room(name: &str) -> NamespacedRoom {
        format!("prj_0123456789ab.{name}").parse().unwrap()
    }

    fn sid(name: &str) -> ParticipantSid {
        name.parse().unwrap()
    }

    fn offer(peer: &str, offer_id: u32, bytes: usize) -> Command {
        PeerCommand::Offer {
            offer_id,
            sdp: "v".repeat(bytes),
        }
        .for_peer(sid(peer))
    }

    fn remove(peer: &str) -> Command {
        PeerCommand::Remove.for_peer(sid(peer))
    }

    /// The queued instructions in a short form, in order.
    fn drain(queue: &WorkerQueue) -> Vec<String> {
        let instructions = std::iter::from_fn(|| queue.pop());
        let command = |RoomInstruction { room, instruction }| match instruction {
            Instruction::Command(command) => (room, command),
            _ => unreachable!("nothing is told"),
        };
        let text = |(room, command): (NamespacedRoom, Command)| match command {
            Command::Peer {
                peer,
                command: PeerCommand::Offer { offer_id, .. },
            } => format!("offer {offer_id} of {peer}"),
            Command::Peer {
                peer,
                command: PeerCommand::Remove,
            } => format!("remove {peer}"),
            Command::Peer {
                peer,
                command: PeerCommand::Fail(..),
            } => format!("fail {peer}"),
            Command::CloseRoom => format!("close {room}"),
            Command::Peer {
                command: PeerCommand::Resume,
                ..
            } => "resume".to_owned(),
            Command::Peer {
                command: PeerCommand::Subscribe(track),
                ..
            } => format!("subscribe {track}"),
            Command::Peer {
                command: PeerCommand::Unsubscribe(track),
                ..
            } => format!("unsubscribe {track}"),
            other => format!("{other:?}"),
        };
        instructions.map(command).map(text).collect()
    }

    /// Returns whether no room's state is kept.
    fn keeps_nothing(queue: &WorkerQueue) -> bool {
        let QueueState {
            instructions,
            slots,
            counts,
            refused,
            sdp_bytes,
            ..
        } = &*queue.0.lock();
        instructions.is_empty()
            && slots.is_empty()
            && counts.is_empty()
            && refused.is_empty()
            && sdp_bytes.is_empty()
    }

    /// Proves S-38.
    #[test]
    fn the_newest_offer_of_a_participant_replaces_the_one_that_waits() {
        let (queue, room) = (WorkerQueue::default(), room("a"));
        for id in 1..=100_000 {
            assert_eq!(
                queue.push(&room, offer("PA_a", id, 100)),
                PushOutcome::Queued
            );
        }
        queue.push(&room, offer("PA_b", 1, 100));
        // 100 bytes for each participant, however often one of them has sent an offer.
        assert_eq!(queue.0.lock().sdp_bytes.total(), 200);
        assert_eq!(drain(&queue), ["offer 100000 of PA_a", "offer 1 of PA_b"]);
        assert!(keeps_nothing(&queue));
    }

    #[test]
    fn an_offer_comes_behind_what_was_sent_before_it() {
        let (queue, room) = (WorkerQueue::default(), room("a"));
        queue.push(&room, offer("PA_a", 1, 1));
        queue.push(&room, PeerCommand::Resume.for_peer(sid("PA_a")));
        queue.push(&room, offer("PA_a", 2, 1));
        assert_eq!(drain(&queue), ["resume", "offer 2 of PA_a"]);
    }

    #[test]
    fn the_newest_wish_for_a_track_replaces_the_earlier_ones() {
        let (queue, room) = (WorkerQueue::default(), room("a"));
        for track in ["TR_a", "TR_b"] {
            for _ in 0..3 {
                queue.push(
                    &room,
                    PeerCommand::Subscribe(track.parse().unwrap()).for_peer(sid("PA_a")),
                );
                queue.push(
                    &room,
                    PeerCommand::Unsubscribe(track.parse().unwrap()).for_peer(sid("PA_a")),
                );
            }
        }
        assert_eq!(drain(&queue), ["unsubscribe TR_a", "unsubscribe TR_b"]);
    }

    #[test]
    fn rooms_take_turns() {
        let queue = WorkerQueue::default();
        for id in 1..=3 {
            queue.push(&room("flood"), offer(&format!("PA_{id}"), 1, 1));
        }
        queue.push(&room("other"), remove("PA_x"));
        assert_eq!(
            drain(&queue),
            [
                "offer 1 of PA_1",
                "remove PA_x",
                "offer 1 of PA_2",
                "offer 1 of PA_3"
            ]
        );
    }

    /// Proves S-38.
    #[test]
    fn a_participant_with_too_many_commands_fails_and_commands_of_the_server_are_kept() {
        let (queue, room) = (WorkerQueue::default(), room("a"));
        let resume = || PeerCommand::Resume.for_peer(sid("PA_a"));
        for _ in 0..MAX_PEER_COMMANDS {
            assert_eq!(queue.push(&room, resume()), PushOutcome::Queued);
        }
        for _ in 0..3 {
            assert_eq!(queue.push(&room, resume()), PushOutcome::Refused);
            assert_eq!(queue.push(&room, offer("PA_a", 1, 1)), PushOutcome::Refused);
        }
        // Commands from the server pass, although the participant's own are refused.
        assert_eq!(queue.push(&room, remove("PA_a")), PushOutcome::Queued);
        assert_eq!(queue.push(&room, Command::CloseRoom), PushOutcome::Queued);
        let waiting = drain(&queue);
        assert_eq!(
            // The failure is queued once, behind the commands that were accepted.
            waiting[MAX_PEER_COMMANDS..],
            ["fail PA_a", "remove PA_a", "close prj_0123456789ab.a"]
        );
        assert!(keeps_nothing(&queue));
    }

    #[test]
    fn waiting_descriptions_are_bounded_and_each_room_has_its_share() {
        let queue = WorkerQueue::default();
        let large = 512 * 1024;
        let refused: Vec<_> = (0..100)
            .filter(|id| {
                queue.push(&room("flood"), offer(&format!("PA_{id}"), 1, large))
                    == PushOutcome::Refused
            })
            .collect();
        // Alone, the flooding room may use the whole limit.
        assert_eq!(refused, (MAX_SDP_BYTES / large..100).collect::<Vec<_>>());
        assert_eq!(
            queue.push(&room("other"), offer("PA_x", 1, large)),
            PushOutcome::Queued
        );
        drain(&queue);
        assert_eq!(queue.0.lock().sdp_bytes.total(), 0);
        assert_eq!(
            queue.push(&room("flood"), offer("PA_new", 1, large)),
            PushOutcome::Queued
        );
    }

    #[test]
    fn what_workers_tell_comes_in_order_with_the_commands_and_none_replaces_it() {
        let (queue, room) = (WorkerQueue::default(), room("a"));
        let told = |number| RoomInstruction {
            room: room.clone(),
            instruction: Instruction::Notice {
                from: WorkerId(number),
                sharing: SharingId(0),
                notice: Notice::AllPeers,
            },
        };
        queue.push(&room, remove("PA_a"));
        let keys = || [TrackKey::default()].into_iter();
        queue.extend((1..3).map(told), keys());
        queue.push(&room, remove("PA_b"));
        let kinds = std::iter::from_fn(|| queue.pop()).map(|waiting| match waiting.instruction {
            Instruction::Notice { from, .. } => from.0,
            _ => 0,
        });
        assert_eq!(Vec::from_iter(kinds), [0, 1, 2, 0]);
        let mut ready = VecDeque::new();
        queue.take_ready(&mut ready);
        queue.take_ready(&mut ready);
        assert_eq!(ready, Vec::from_iter(keys()));
        assert!(keeps_nothing(&queue));
    }

    #[test]
    fn a_closed_queue_keeps_nothing() {
        let queue = WorkerQueue::default();
        queue.push(&room("a"), remove("PA_a"));
        queue.close();
        assert_eq!(queue.push(&room("a"), remove("PA_a")), PushOutcome::Closed);
        assert!(queue.is_closed() && queue.pop().is_none());
    }
}
