//! Placement of rooms and participants on workers, and routing of commands to them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use conclave_model::ParticipantSid;
use parking_lot::Mutex;

use crate::command::{Command, NewPeer, PeerCommand, Reply};
use crate::data::DataLink;
use crate::mirror::WorkerId;
use crate::notice::{Instruction, NewNeighbour, Share, SharingId};
use crate::snapshot::PeerSnapshot;

/// Load from which a worker counts as half busy, in thousandths of its time.
const HALF: u64 = 500;

/// Load of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerLoad {
    /// Whether the worker has ended, so that commands to it are lost.
    pub has_ended: bool,
    /// Whether the worker accepts no further participants.
    pub is_full: bool,
    /// Busy share of its time, in thousandths.
    pub busy: u64,
    /// Number of participants.
    pub peers: u64,
}

/// Returns the worker for a new participant: the preferred one until it is half busy, then the least busy one.
pub fn choose_worker(
    preferred: WorkerId,
    loads: impl Iterator<Item = WorkerLoad> + Clone,
) -> WorkerId {
    let is_idle = |load: WorkerLoad| !load.has_ended && !load.is_full && load.busy < HALF;
    if loads.clone().nth(preferred.0).is_some_and(is_idle) {
        return preferred;
    }
    // `WorkerLoad`'s field order is the order of preference. Full workers come after all others: if all are full, one
    // rejects the participant itself.
    let least = loads.enumerate().min_by_key(|(_, load)| *load);
    least.map_or(preferred, |(worker, _)| WorkerId(worker))
}

/// Workers of a room, and the placement of its participants.
#[derive(Debug)]
pub struct Placement {
    sharing: SharingId,
    /// Workers, in the order in which the room was opened on them.
    workers: Vec<WorkerId>,
    /// Participants that are not on the first worker.
    elsewhere: HashMap<ParticipantSid, WorkerId>,
    /// Workers of the room that have ended.
    ended: Vec<WorkerId>,
    reports_messages: bool,
}

impl Default for Placement {
    /// Creates a placement without workers.
    fn default() -> Self {
        // Unique in the process, to distinguish rooms that had the same name.
        static OPENED: AtomicU64 = AtomicU64::new(0);
        Self {
            sharing: SharingId(OPENED.fetch_add(1, Ordering::Relaxed)),
            workers: Vec::new(),
            elsewhere: HashMap::new(),
            ended: Vec::new(),
            reports_messages: false,
        }
    }
}

impl Placement {
    /// Returns the first worker; `None` before the first participant.
    pub fn first(&self) -> Option<WorkerId> {
        self.workers.first().copied()
    }

    /// Returns the first worker that has not ended, if there is one.
    pub fn preferred(&self) -> Option<WorkerId> {
        let mut workers = self.workers.iter().copied();
        workers.find(|worker| !self.ended.contains(worker))
    }

    /// Records which of the room's workers have ended. They stay its workers, since their participants are members of
    /// the room until they are removed.
    pub fn record_ended(&mut self, has_ended: impl Fn(WorkerId) -> bool) {
        let workers = self.workers.iter().copied();
        self.ended = workers.filter(|worker| has_ended(*worker)).collect();
    }

    /// Puts a command into the queues of the workers concerned, mirrors first: see [`notice`](crate::notice). `choose`
    /// returns the worker for a new participant.
    pub fn route(
        &mut self,
        command: Command,
        choose: impl FnOnce(&Self) -> WorkerId,
        mut put: impl FnMut(WorkerId, Instruction),
    ) {
        match command {
            Command::AddPeer(info) => {
                let worker = choose(self);
                self.add_peer(worker, info, put);
            }
            Command::Peer { peer, command } => self.route_to_peer(peer, command, put),
            Command::CloseRoom => {
                // A new opening, with a new id: late notices for the old one are recognized and dropped.
                for worker in std::mem::take(self).workers {
                    put(worker, Command::CloseRoom.into());
                }
            }
            Command::ReportMessages { enabled } => {
                // Without workers, the room does not exist: a worker would ignore this command, too.
                self.reports_messages = enabled && !self.workers.is_empty();
                for worker in &self.workers {
                    put(*worker, Command::ReportMessages { enabled }.into());
                }
            }
            Command::SendData(message) => {
                for worker in self.workers.iter().skip(1) {
                    put(*worker, Command::SendData(message.clone()).into());
                }
                if let Some(first) = self.first() {
                    put(first, Command::SendData(message).into());
                }
            }
            Command::Snapshot { peers, reply } => self.request_snapshots(peers, reply, put),
        }
    }

    fn add_peer(
        &mut self,
        worker: WorkerId,
        info: NewPeer,
        mut put: impl FnMut(WorkerId, Instruction),
    ) {
        if !self.workers.contains(&worker) {
            self.share(worker, &mut put);
        }
        if self.first() != Some(worker) {
            // Most rooms are on one worker, so nothing is stored for its participants.
            self.elsewhere.insert(info.sid.clone(), worker);
        }
        // The mirror must exist before the participant's worker can send notices about it.
        for other in self.workers.iter().filter(|other| **other != worker) {
            let (peer, home) = (info.clone(), worker);
            put(*other, Instruction::AddMirror { peer, home });
        }
        put(worker, Command::AddPeer(info).into());
    }

    /// Adds a worker to the room. It receives the others' introduction before they receive its own.
    fn share(&mut self, worker: WorkerId, put: &mut impl FnMut(WorkerId, Instruction)) {
        // A worker that has ended would never send its participants, and the commands for them would be queued forever.
        let others = self.workers.iter().copied();
        let others: Vec<_> = others.filter(|other| !self.ended.contains(other)).collect();
        // Each pair of workers has a counter per direction, which both ends share.
        let links = |_: &WorkerId| [Arc::<DataLink>::default(), Arc::default()];
        let links: Vec<_> = others.iter().map(links).collect();
        let share = |worker, neighbours, is_new| {
            Instruction::Share(Share {
                sharing: self.sharing,
                worker,
                reports_messages: self.reports_messages,
                neighbours,
                is_new,
            })
        };
        let neighbour = |worker, [outgoing, incoming]: [&Arc<DataLink>; 2]| NewNeighbour {
            worker,
            outgoing: Arc::clone(outgoing),
            incoming: Arc::clone(incoming),
        };
        // Also without others that still run: the room's settings come with it.
        if !self.workers.is_empty() {
            let ends = others.iter().zip(&links);
            let neighbours = ends.map(|(other, [to, from])| neighbour(*other, [to, from]));
            put(worker, share(worker, neighbours.collect(), true));
        }
        for (other, [to, from]) in others.iter().zip(&links) {
            put(
                *other,
                share(*other, vec![neighbour(worker, [from, to])], false),
            );
        }
        self.workers.push(worker);
    }

    fn route_to_peer(
        &mut self,
        peer: ParticipantSid,
        command: PeerCommand,
        mut put: impl FnMut(WorkerId, Instruction),
    ) {
        // Without workers, the participant cannot have joined.
        let Some(home) = self.home(&peer) else {
            return;
        };
        for worker in self.workers.iter().filter(|worker| **worker != home) {
            if let Some(copy) = for_mirrors(&command) {
                put(*worker, copy.for_peer(peer.clone()).into());
            }
        }
        // `home` is known by now, so this command still reaches it.
        if matches!(command, PeerCommand::Remove) {
            self.elsewhere.remove(&peer);
        }
        put(home, command.for_peer(peer).into());
    }

    /// Returns a participant's worker. An unknown participant counts as being on the first one, which ignores its
    /// commands.
    fn home(&self, peer: &ParticipantSid) -> Option<WorkerId> {
        self.elsewhere.get(peer).copied().or_else(|| self.first())
    }

    /// Requests the state of participants from each worker, and merges the replies into one.
    fn request_snapshots(
        &self,
        peers: Vec<ParticipantSid>,
        reply: Reply<Vec<PeerSnapshot>>,
        mut put: impl FnMut(WorkerId, Instruction),
    ) {
        let Some(first) = self.first() else {
            return reply.send(Vec::new());
        };
        let mut asked: Vec<(WorkerId, Vec<ParticipantSid>)> = Vec::new();
        for peer in peers {
            let home = self.home(&peer).unwrap_or(first);
            match asked.iter_mut().find(|(worker, _)| *worker == home) {
                Some((_, peers)) => peers.push(peer),
                None => asked.push((home, vec![peer])),
            }
        }
        // A reply is due even for an empty list, after everything that is queued.
        if asked.is_empty() {
            asked.push((first, Vec::new()));
        }
        let replies = split(reply, asked.len());
        for ((worker, peers), reply) in asked.into_iter().zip(replies) {
            put(worker, Command::Snapshot { peers, reply }.into());
        }
    }
}

/// Returns the part of a command that concerns a participant's mirrors; `None` if they ignore it.
fn for_mirrors(command: &PeerCommand) -> Option<PeerCommand> {
    Some(match command {
        PeerCommand::Remove => PeerCommand::Remove,
        PeerCommand::PublishTrack(track) => PeerCommand::PublishTrack(track.clone()),
        PeerCommand::UnpublishTrack(track) => PeerCommand::UnpublishTrack(track.clone()),
        PeerCommand::UnpublishBackup { track, codec } => PeerCommand::UnpublishBackup {
            track: track.clone(),
            codec: *codec,
        },
        PeerCommand::SetMuted { track, muted } => PeerCommand::SetMuted {
            track: track.clone(),
            muted: *muted,
        },
        PeerCommand::SetPermissions(permissions) => PeerCommand::SetPermissions(*permissions),
        PeerCommand::PublishDataTrack { track, handle } => PeerCommand::PublishDataTrack {
            track: track.clone(),
            handle: *handle,
        },
        PeerCommand::UnpublishDataTrack(track) => PeerCommand::UnpublishDataTrack(track.clone()),
        _ => return None,
    })
}

/// Collected snapshots, the reply for all of them, and the number of missing parts.
type SnapshotParts = (Vec<PeerSnapshot>, Option<Reply<Vec<PeerSnapshot>>>, usize);

/// Splits a reply into parts, which are merged into one.
fn split(reply: Reply<Vec<PeerSnapshot>>, count: usize) -> Vec<Reply<Vec<PeerSnapshot>>> {
    // The usual case needs neither lock nor copy.
    if count == 1 {
        return vec![reply];
    }
    let answers = Arc::new(Mutex::new((Vec::new(), Some(reply), count)));
    let part = |_| {
        let answers = Arc::clone(&answers);
        Reply::new(move |part: Vec<PeerSnapshot>| {
            let complete = add_part(&mut answers.lock(), part);
            if let Some((reply, all)) = complete {
                reply.send(all);
            }
        })
    };
    (0..count).map(part).collect()
}

/// Adds a part. Returns the reply and all parts once they are complete.
fn add_part(
    (all, reply, missing): &mut SnapshotParts,
    part: Vec<PeerSnapshot>,
) -> Option<(Reply<Vec<PeerSnapshot>>, Vec<PeerSnapshot>)> {
    all.extend(part);
    *missing -= 1;
    // If a worker stops, its part is dropped, and with the last part the reply: the caller then stops waiting.
    let reply = reply.take_if(|_| *missing == 0)?;
    Some((reply, std::mem::take(all)))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::command::ConnectionMode;
    use crate::worker::tests::commands::new_peer;

    /// Returns the routed instructions in a short form, with their worker.
    fn routed(placement: &mut Placement, command: Command, worker: usize) -> Vec<(usize, String)> {
        let mut put = Vec::new();
        placement.route(
            command,
            |_| WorkerId(worker),
            |worker, instruction| {
                let text = match instruction {
                    Instruction::Command(Command::AddPeer(peer)) => format!("add {}", peer.sid),
                    Instruction::Command(Command::Peer { peer, command }) => match command {
                        PeerCommand::Remove => format!("remove {peer}"),
                        PeerCommand::SetMuted { .. } => format!("mute {peer}"),
                        PeerCommand::Resume => format!("resume {peer}"),
                        other => format!("{other:?}"),
                    },
                    Instruction::Command(Command::CloseRoom) => "close".to_owned(),
                    Instruction::Command(other) => format!("{other:?}"),
                    Instruction::Share(share) => {
                        let workers = share.neighbours.iter().map(|neighbour| neighbour.worker.0);
                        format!("share with {:?}", workers.collect::<Vec<_>>())
                    }
                    Instruction::AddMirror { peer, home } => format!("{} at {}", peer.sid, home.0),
                    Instruction::Notice { .. } => unreachable!("workers tell it"),
                };
                put.push((worker.0, text));
            },
        );
        put
    }

    fn add(placement: &mut Placement, peer: &str, worker: usize) -> Vec<(usize, String)> {
        let command = Command::AddPeer(new_peer(peer, ConnectionMode::Single));
        routed(placement, command, worker)
    }

    fn texts(put: &[(usize, String)]) -> Vec<(usize, &str)> {
        put.iter()
            .map(|(worker, text)| (*worker, text.as_str()))
            .collect()
    }

    #[test]
    fn a_room_on_one_worker_is_shared_with_none() {
        let mut placement = Placement::default();
        let close = |placement: &mut Placement| routed(placement, Command::CloseRoom, 9);
        assert!(close(&mut placement).is_empty());
        assert_eq!(texts(&add(&mut placement, "PA_a", 2)), [(2, "add PA_a")]);
        assert_eq!(texts(&add(&mut placement, "PA_b", 2)), [(2, "add PA_b")]);
        assert!(placement.elsewhere.is_empty());
        assert_eq!(texts(&close(&mut placement)), [(2, "close")]);
    }

    #[test]
    fn mirrors_are_told_before_the_participant_and_a_new_worker_before_the_others() {
        let mut placement = Placement::default();
        add(&mut placement, "PA_a", 0);
        assert_eq!(
            texts(&add(&mut placement, "PA_b", 1)),
            [
                (1, "share with [0]"),
                (0, "share with [1]"),
                (0, "PA_b at 1"),
                (1, "add PA_b")
            ]
        );
        assert_eq!(
            texts(&add(&mut placement, "PA_c", 2)),
            [
                (2, "share with [0, 1]"),
                (0, "share with [2]"),
                (1, "share with [2]"),
                (0, "PA_c at 2"),
                (1, "PA_c at 2"),
                (2, "add PA_c")
            ]
        );
        let muted = PeerCommand::SetMuted {
            track: "TR_a".parse().unwrap(),
            muted: true,
        };
        let muted = muted.for_peer("PA_b".parse().unwrap());
        assert_eq!(
            texts(&routed(&mut placement, muted, 9)),
            [(0, "mute PA_b"), (2, "mute PA_b"), (1, "mute PA_b")]
        );
        let resume = PeerCommand::Resume.for_peer("PA_c".parse().unwrap());
        assert_eq!(
            texts(&routed(&mut placement, resume, 9)),
            [(2, "resume PA_c")]
        );
        let remove = |peer: &str| PeerCommand::Remove.for_peer(peer.parse().unwrap());
        assert_eq!(
            texts(&routed(&mut placement, remove("PA_c"), 9)),
            [(0, "remove PA_c"), (1, "remove PA_c"), (2, "remove PA_c")]
        );
        assert_eq!(placement.elsewhere.len(), 1);
        assert_eq!(
            texts(&routed(&mut placement, Command::CloseRoom, 9)),
            [(0, "close"), (1, "close"), (2, "close")]
        );
    }

    #[test]
    fn a_room_is_shared_with_no_worker_that_has_ended() {
        let mut placement = Placement::default();
        add(&mut placement, "PA_a", 0);
        placement.record_ended(|worker| worker == WorkerId(0));
        assert_eq!(placement.preferred(), None);
        let put = add(&mut placement, "PA_b", 1);
        assert_eq!(
            texts(&put),
            [(1, "share with []"), (0, "PA_b at 1"), (1, "add PA_b")]
        );
        assert_eq!(placement.preferred(), Some(WorkerId(1)));
        assert_eq!(
            texts(&add(&mut placement, "PA_c", 2)),
            [
                (2, "share with [1]"),
                (1, "share with [2]"),
                (0, "PA_c at 2"),
                (1, "PA_c at 2"),
                (2, "add PA_c")
            ]
        );
        let remove = PeerCommand::Remove.for_peer("PA_a".parse().unwrap());
        assert_eq!(
            texts(&routed(&mut placement, remove, 9)),
            [(1, "remove PA_a"), (2, "remove PA_a"), (0, "remove PA_a")]
        );
    }

    #[test]
    fn the_answers_of_all_workers_are_one() {
        let mut placement = Placement::default();
        add(&mut placement, "PA_a", 0);
        add(&mut placement, "PA_b", 1);
        let (sender, answers) = mpsc::channel();
        let mut asked = Vec::new();
        let command = Command::Snapshot {
            peers: ["PA_a", "PA_b"].map(|peer| peer.parse().unwrap()).to_vec(),
            reply: Reply::new(move |all| sender.send(all).unwrap()),
        };
        placement.route(
            command,
            |_| WorkerId(9),
            |_, instruction| {
                let Instruction::Command(Command::Snapshot { peers, reply }) = instruction else {
                    panic!("only snapshots");
                };
                asked.push((peers, reply));
            },
        );
        for (peers, reply) in asked {
            assert!(answers.try_recv().is_err(), "some are missing");
            let snapshot = |sid: &ParticipantSid| PeerSnapshot {
                sid: sid.clone(),
                transports: Vec::new(),
                published: Vec::new(),
                subscribed: Vec::new(),
            };
            reply.send(peers.iter().map(snapshot).collect());
        }
        let sids: Vec<_> = answers
            .recv()
            .unwrap()
            .into_iter()
            .map(|peer| peer.sid)
            .collect();
        assert_eq!(sids, ["PA_a", "PA_b"].map(|sid| sid.parse().unwrap()));
    }

    #[test]
    fn participants_come_to_the_preferred_worker_until_it_is_half_busy_and_then_to_the_least_busy()
    {
        let load = |busy, peers| WorkerLoad {
            has_ended: false,
            is_full: false,
            busy,
            peers,
        };
        let full = |busy, peers| WorkerLoad {
            is_full: true,
            ..load(busy, peers)
        };
        let ended = |busy, peers| WorkerLoad {
            has_ended: true,
            ..load(busy, peers)
        };
        let chosen = |loads: &[WorkerLoad]| choose_worker(WorkerId(1), loads.iter().copied()).0;
        assert_eq!(chosen(&[load(0, 0), load(499, 90)]), 1);
        assert_eq!(chosen(&[load(0, 0), load(500, 90)]), 0);
        assert_eq!(chosen(&[load(300, 0), load(500, 9), load(200, 50)]), 2);
        assert_eq!(chosen(&[load(300, 7), load(500, 9), load(300, 5)]), 2);
        assert_eq!(chosen(&[load(800, 0), load(500, 90)]), 1);
        assert_eq!(chosen(&[load(100, 5), full(0, 90)]), 0);
        assert_eq!(chosen(&[full(0, 90), load(900, 90)]), 1);
        assert_eq!(chosen(&[load(900, 5), ended(0, 0)]), 0);
        assert_eq!(chosen(&[full(900, 90), ended(0, 0)]), 0);
    }
}
