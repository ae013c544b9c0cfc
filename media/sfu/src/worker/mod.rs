//! A media worker as a state machine without I/O.
//!
//! The driver hands in commands, datagrams and the time, calls [`Worker::flush`] after each batch of them, sends what is in
//! [`Worker::outbox`], and reports what is in [`Worker::take_events`]. A packet of a publisher is written to all its
//! receivers' connections at once; `flush` drives each touched connection once.
//!
//! # Parts
//!
//! Each part owns its state, which is private, and has its own tests. The worker sequences them.
//!
//! - [`Roster`]: rooms and participants. A participant has [`Sections`](sections::Sections), on which the server sends
//!   to it, and [`DataTracks`](data_tracks::DataTracks).
//! - [`Connections`]: the transports, the [`Demux`](demux::Demux) that finds the one of a datagram, their
//!   deadlines, and the senders that wait for slower receivers.
//! - [`Tracks`]: published tracks with their layers, subscriptions ([`Subscription`](subscription::Subscription)) and
//!   recorders.
//! - [`Negotiations`]: whose sections are to be compared with what was signalled, and when.
//! - [`SharedRoom`](shared_room::SharedRoom), of a room that is on several workers: the others, and the participants that live on them.
//! - [`Outputs`]: packets to send, events, what goes to other workers, counters, warnings.
//!
//! # The path of a packet
//!
//! ```text
//!  driver ──datagram──▶ receive.rs   Demux → Transport (str0m: SRTP) → Tracks: layer, MediaPacket (adapt)
//!                          │
//!                          ▼
//!                       send.rs      for each Subscription: does it get this layer? → Rewriter (adapt) → Transport of the receiver
//!                          │
//!                          ▼         recorders.rs: the same for recorders; mirrors.rs: for other workers, from which it comes here as well
//!  driver ◀──outbox──── flush        each touched Transport is driven once
//! ```
//!
//! Which layer a subscription gets is decided beforehand: `allocate.rs` compares what is wanted with the bandwidth, whenever one of them
//! changes. `demand.rs` asks publishers for key frames, qualities and backup codecs. All else is control: `lifecycle.rs` (participants
//! come and go), `publishing.rs` (offers of clients), `subscribing.rs` and `negotiation.rs` (what the server sends, and telling the
//! client so), `sharing.rs` (what workers of a room tell each other), `messages.rs`, `ticks.rs` and `reports.rs`.

mod allocate;
mod codecs;
mod connections;
mod data_tracks;
mod demand;
mod demux;
mod layer;
mod lifecycle;
mod messages;
mod mirrors;
mod negotiation;
mod outputs;
mod publishing;
mod receive;
mod recorders;
mod reports;
mod roster;
mod sections;
mod send;
mod shared_room;
mod sharing;
mod subscribing;
mod subscription;
mod ticks;
mod tracks;

#[cfg(test)]
pub(crate) mod tests;

use std::time::{Duration, Instant};

use conclave_model::{NamespacedRoom, ParticipantSid};
use str0m::Candidate;
use str0m::net::Transmit;

use crate::allocate::{GROUPS, Overload};
use crate::command::{Command, PeerCommand};
use crate::config::{Config, Limits};
use crate::event::{Event, PeerEvent};
use crate::notice::Instruction;
use crate::transport::{PeerKey, RoomKey};
pub use connections::Datagram;
pub use outputs::{Counters, Crossings};

use connections::Connections;
use negotiation::Negotiations;
use outputs::Outputs;
use reports::Inspection;
use roster::{Peer, Roster};
use shared_room::HeldCommand;
use ticks::Ticks;
use tracks::Tracks;

/// How many packets are put into the outbox before it has to be emptied: as many as one call to the system sends.
pub const OUTBOX: usize = 64;

/// A media worker: rooms, their participants, the participants' connections and tracks. Each part owns its state; the worker knows in
/// which order they act.
pub struct Worker {
    limits: Limits,
    /// The time of the input that is being handled.
    now: Instant,
    roster: Roster,
    connections: Connections,
    tracks: Tracks,
    negotiations: Negotiations,
    ticks: Ticks,
    overload: Overload,
    outputs: Outputs,
    /// The rooms in which senders on other workers wait for receivers on this one.
    slow_rooms: Vec<RoomKey>,
}

impl Worker {
    /// Creates a worker whose connections advertise these addresses.
    pub fn new(candidates: Vec<Candidate>, config: &Config, now: Instant) -> Self {
        Self {
            limits: config.limits.clone(),
            now,
            roster: Roster::default(),
            connections: Connections::new(candidates, config),
            tracks: Tracks::default(),
            negotiations: Negotiations::default(),
            ticks: Ticks::new(now),
            overload: Overload::new(now),
            outputs: Outputs::default(),
            slow_rooms: Vec::new(),
        }
    }

    /// Handles what the control side, or another worker, has put into the queue for a room.
    pub fn handle_instruction(
        &mut self,
        room: &NamespacedRoom,
        instruction: Instruction,
        now: Instant,
    ) {
        self.advance_clock(now);
        match instruction {
            Instruction::Command(command) => self.handle_command(room, command, now),
            Instruction::Share(share) => self.share_room(room, share),
            Instruction::AddMirror { peer, home } => self.add_mirror(room, peer, home),
            Instruction::Notice {
                from,
                sharing,
                notice,
            } => self.handle_notice(room, (from, sharing), notice),
        }
    }

    /// Handles a command for a room.
    pub fn handle_command(&mut self, room: &NamespacedRoom, command: Command, now: Instant) {
        self.advance_clock(now);
        match command {
            Command::Peer { peer, command } => match self.roster.by_sid(&peer) {
                Some(key) => self.handle_peer_command(key, command),
                None => self.hold_peer_command(room, peer, command),
            },
            Command::AddPeer(info) => self.add_peer(room, info),
            Command::CloseRoom => self.close_room(room),
            Command::ReportMessages { enabled } => self.report_messages(room, enabled),
            Command::SendData(message) => self.send_server_message(room, message),
            Command::Snapshot { peers, reply } => {
                reply.send(self.inspection().snapshots(room, &peers));
            }
        }
    }

    /// Handles a command for a participant that is not known: it may be about to be.
    fn hold_peer_command(
        &mut self,
        room: &NamespacedRoom,
        peer: ParticipantSid,
        command: PeerCommand,
    ) {
        if let Some(room) = self.roster.room_named(room) {
            let awaited = peer.clone();
            self.hold_command(
                room,
                HeldCommand {
                    awaited,
                    peer,
                    command,
                },
            );
        }
    }

    pub(super) fn handle_peer_command(&mut self, key: PeerKey, command: PeerCommand) {
        match command {
            PeerCommand::Remove => self.remove_peer(key),
            PeerCommand::Fail(reason) => {
                self.warn(
                    key,
                    "a client sends more than it may",
                    &format_args!("{reason:?}"),
                );
                self.refuse_client(key, reason);
            }
            PeerCommand::Offer { offer_id, sdp } => self.handle_offer(key, offer_id, &sdp),
            PeerCommand::Answer { offer_id, sdp } => self.handle_answer(key, offer_id, &sdp),
            PeerCommand::Resume => self.resume_peer(key),
            PeerCommand::ReplayData { received } => self.replay_messages(key, &received),
            PeerCommand::PublishTrack(track) => self.announce_track(key, track),
            PeerCommand::UnpublishTrack(track) => self.unpublish_track(key, &track),
            PeerCommand::UnpublishBackup { track, codec } => {
                self.unpublish_backup(key, &track, codec);
            }
            PeerCommand::SetMuted { track, muted } => self.set_muted(key, &track, muted),
            PeerCommand::Subscribe(track) => self.subscribe(key, track),
            PeerCommand::Unsubscribe(track) => self.unsubscribe(key, &track),
            PeerCommand::SetTrackSettings { track, settings } => {
                self.set_track_settings(key, &track, settings);
            }
            PeerCommand::Packets { track, packets } => self.forward_source(key, &track, packets),
            PeerCommand::AttachRecorder { track, recorder } => {
                self.attach_recorder(key, &track, recorder);
            }
            PeerCommand::DetachRecorder { track, egress } => {
                self.detach_recorder(key, &track, &egress);
            }
            PeerCommand::RequestKeyFrame { track, egress } => {
                self.request_recorded_key_frame(key, &track, &egress);
            }
            PeerCommand::SetPermissions(permissions) => self.set_permissions(key, permissions),
            PeerCommand::PublishDataTrack { track, handle } => {
                if let Some(peer) = self.roster.get_mut(key) {
                    peer.data_tracks.publish(track, handle);
                }
            }
            PeerCommand::UnpublishDataTrack(track) => {
                if let Some(peer) = self.roster.get_mut(key) {
                    peer.data_tracks.unpublish(&track);
                }
            }
            PeerCommand::SubscribeDataTrack {
                publisher,
                track,
                handle,
            } => self.forward_data_track(key, &publisher, &track, Some(handle)),
            PeerCommand::UnsubscribeDataTrack { publisher, track } => {
                self.forward_data_track(key, &publisher, &track, None);
            }
        }
    }

    fn inspection(&self) -> Inspection<'_> {
        Inspection {
            now: self.now,
            roster: &self.roster,
            tracks: &self.tracks,
            connections: &self.connections,
        }
    }

    /// Lets time pass: drives the connections whose deadline was reached.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance_clock(now);
        // A connection that is due again at once has its turn at the next call.
        for key in self.connections.take_due(self.now) {
            if self.connections.fire(key, self.now) {
                self.drive(key);
            }
        }
        self.run_ticks();
    }

    /// Completes what the inputs since the last call have caused, but for what does not fit into the outbox. Nothing is sent before.
    /// Returns whether there is more: then it has to be called again with an empty outbox. So packets are sent while they are in
    /// the processor's caches, and the first of a large room does not wait for the last.
    #[must_use]
    pub fn flush(&mut self, now: Instant) -> bool {
        self.advance_clock(now);
        while self.outputs.waiting() < OUTBOX {
            for track in self.tracks.take_revived() {
                self.allocate_receivers(track);
            }
            self.run_negotiations();
            match self.connections.next_touched() {
                Some(key) => self.drive(key),
                None if self.release_packets() => {}
                None if !self.tracks.has_revived() && !self.run_negotiations() => return false,
                None => {}
            }
        }
        true
    }

    /// Returns when [`Worker::handle_timeout`] has to be called next, if ever.
    pub fn next_timeout(&self) -> Option<Instant> {
        let tick = (!self.roster.is_empty()).then(|| self.ticks.next());
        [
            self.connections.next_deadline(),
            tick,
            self.negotiations.next(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns what has been forwarded.
    pub fn counters(&self) -> Counters {
        self.outputs.counters()
    }

    /// Notes processor time of the worker's thread, and for how long it had nothing to do.
    pub fn note_work(&mut self, worked: Duration, waited: Duration) {
        self.overload.record_work(worked, waited);
    }

    /// Returns how many percent of the participants get the lowest layers, because the thread has too much to do.
    pub fn reduced_percent(&self) -> usize {
        usize::try_from(self.overload.reduced() * 100 / GROUPS).unwrap_or_default()
    }

    /// Returns the number of participants.
    pub fn peers(&self) -> usize {
        self.roster.len()
    }

    /// Returns whether nothing is kept of any room.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.roster.has_nothing() && self.connections.is_empty() && self.tracks.is_empty()
    }

    /// Removes and returns what goes to other workers; `None` if nothing does.
    pub fn take_crossings(&mut self) -> Option<Crossings> {
        self.outputs.take_crossings()
    }

    /// Returns the packets to send, in order. The caller empties the list.
    pub fn outbox(&mut self) -> &mut Vec<Transmit> {
        self.outputs.outbox()
    }

    /// Removes and returns the events, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.outputs.take_events()
    }

    fn advance_clock(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Reports something of a participant that lives on this worker; of others, their own workers do.
    fn emit(&mut self, peer: PeerKey, event: PeerEvent) {
        if self.roster.get(peer).is_some_and(Peer::is_here) {
            self.report(peer, event);
        }
    }

    /// Reports something of a participant.
    fn report(&mut self, peer: PeerKey, event: PeerEvent) {
        if let Some((room, peer)) = self.roster.named(peer) {
            self.outputs
                .report(room.clone(), peer.info.sid.clone(), event);
        }
    }

    /// Logs what a participant's client does wrong.
    fn warn(&self, key: PeerKey, what: &str, details: &dyn std::fmt::Display) {
        if let Some((room, peer)) = self.roster.named(key) {
            let named = (room, &peer.info.identity, &peer.info.sid);
            self.outputs.warn(named, what, details, self.now);
        }
    }
}
