//! A media worker: rooms, participants and the forwarding of packets, as a state machine without I/O.
//!
//! The driver passes in commands, datagrams and the time, calls [`Worker::flush`] after each batch, sends the packets in
//! [`Worker::outbox`], and forwards [`Worker::take_events`] to the control side.
//!
//! # Dramatis personae
//!
//! Each part owns its state, which is private, and has its own tests. The worker calls them in order.
//!
//! - [`Roster`]: rooms and participants. A participant owns its [`Sections`](sections::Sections), on which the server
//!   sends, and its [`DataTracks`](data_tracks::DataTracks).
//! - [`Connections`]: transports (str0m), their deadlines, and the [`Demux`](demux::Demux) from addresses to transports.
//! - [`Tracks`]: published tracks with their layers, recorders and [`Subscription`](subscription::Subscription)s.
//! - [`Negotiations`]: participants with changes that may need signalling.
//! - [`SharedRoom`](shared_room::SharedRoom): the other workers of a room, and the participants there.
//! - [`Outputs`]: packets, events, messages to other workers, counters, warnings.
//!
//! # A packet from socket to subscriber
//!
//! ```text
//!  socket ─▶ receive.rs   Demux ─▶ Transport: SRTP ─▶ layer of a track ─▶ MediaPacket, parsed once (adapt)
//!                │
//!                ├─▶ recorders.rs   queue of an egress
//!                ├─▶ mirrors.rs     ring ─▶ another worker, which continues at send.rs
//!                ▼
//!            send.rs      per subscription: layer choice ─▶ Rewriter (adapt) ─▶ Transport of the receiver
//!                │
//!  socket ◀─ flush        each touched transport encrypts and sends once
//! ```
//!
//! 1. `Demux` finds the transport by source address. A new address must first send a STUN request signed with the
//!    transport's ICE password; anything else is dropped without keeping state.
//! 2. str0m decrypts the packet. Its SSRC leads to a section, and so to a track and a layer; the transport caches this.
//! 3. `MediaPacket` holds everything that forwarding needs, so a payload is parsed once, not once per receiver.
//! 4. Each subscription decides whether it gets the packet. The decision was prepared: `allocate.rs` sets the target
//!    layer when demand or bandwidth changes. A switch waits for a key frame, which `demand.rs` requests.
//! 5. The `Rewriter` renumbers the packet, so that all layers together look like one RTP stream to the receiver.
//! 6. `flush` drives each changed transport once per batch, not once per packet.
//!
//! # Mirrors
//!
//! A participant lives on one worker. On the room's other workers it has a mirror: its tracks without a connection. The
//! publisher's worker puts each packet once into a ring per mirror. The other worker distributes it to its own
//! subscribers as if it had arrived there. Key frame requests and used layers travel back as notices (`sharing.rs`).
//!
//! # Drops
//!
//! Media never waits for a slow receiver: late packets are useless, and allocation lowers its layers instead. Each drop is
//! counted with its [`DropReason`](crate::DropReason), for the metrics and per transport.
//!
//! - *On arrival:* unknown addresses; payloads too large to forward; SSRCs without an admitted track; other codecs than
//!   the negotiated one; muted tracks.
//! - *Per receiver:* not connected, or silent for ten seconds; codec not negotiated; other layers; everything before a
//!   key frame; padding; packets older than the receiver's first.
//! - *Full queues:* a mirror's ring, and a recorder's queue. A full audio ring loses its oldest packet. Video skips to
//!   the next key frame, which is requested, since nothing after a gap can be decoded.
//!
//! Reliable data messages are the exception: their senders wait (see [`Connections`]).
//!
//! # Why not simpler
//!
//! - *Without I/O*, so that tests and fuzzing control every packet and the clock.
//! - *One thread per worker*, not tasks with locks: a packet for 500 receivers takes no lock.
//! - *Rings*, not one large worker: a room may need more than one core. Sharing a room's state instead would put a lock
//!   on each packet's path.
//! - *Layers are chosen ahead of time*, because choosing compares all videos of a receiver, and packets are too frequent
//!   for that.
//!
//! All else is control: `lifecycle.rs` (joins and leaves), `publishing.rs` (offers of clients), `subscribing.rs` and
//! `negotiation.rs` (what the server sends, and its signalling), `messages.rs`, `ticks.rs`, `reports.rs` and `quality.rs`.

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
mod quality;
mod receive;
mod recorders;
mod reports;
mod roster;
mod sections;
mod send;
mod session_meter;
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
use shared_room::BufferedCommand;
use ticks::Ticks;
use tracks::Tracks;

/// Packets in the outbox before it must be emptied: as many as one `sendmmsg` call sends.
pub const OUTBOX: usize = 64;

/// State machine of a media worker.
pub struct Worker {
    limits: Limits,
    /// Time of the current input. It never goes back.
    now: Instant,
    roster: Roster,
    connections: Connections,
    tracks: Tracks,
    negotiations: Negotiations,
    ticks: Ticks,
    overload: Overload,
    outputs: Outputs,
    /// Rooms in which senders on other workers wait for receivers on this one.
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

    /// Handles a queued instruction from the control side or from another worker.
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

    /// Handles a room's command.
    pub fn handle_command(&mut self, room: &NamespacedRoom, command: Command, now: Instant) {
        self.advance_clock(now);
        match command {
            Command::Peer { peer, command } => match self.roster.by_sid(&peer) {
                // Sids are unique in the process, so the room need not be compared.
                Some(key) => self.handle_peer_command(key, command),
                None => self.buffer_peer_command(room, peer, command),
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

    /// Queues a command for an unknown participant, which another worker may be about to announce.
    fn buffer_peer_command(
        &mut self,
        room: &NamespacedRoom,
        peer: ParticipantSid,
        command: PeerCommand,
    ) {
        // Without the room, the participant has left, and the command is late.
        if let Some(room) = self.roster.room_named(room) {
            let awaited = peer.clone();
            self.buffer_command(
                room,
                BufferedCommand {
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
            // From signalling, or from this worker's queue if the client causes too many commands.
            PeerCommand::Fail(reason) => {
                self.warn(
                    key,
                    "a client exceeded a limit",
                    &format_args!("{reason:?}"),
                );
                self.refuse_client(key, reason);
            }
            PeerCommand::Offer { offer_id, sdp } => self.handle_offer(key, offer_id, &sdp),
            PeerCommand::Answer { offer_id, sdp } => self.handle_answer(key, offer_id, &sdp),
            PeerCommand::Resume => self.resume_peer(key),
            PeerCommand::RecordReconnect(reason) => self.record_reconnect(key, reason),
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

    /// Drives the connections whose deadline has passed, and does the periodic work that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance_clock(now);
        // Each connection is driven once: a connection that is due again immediately must not starve the others.
        for key in self.connections.take_due(self.now) {
            if self.connections.fire(key, self.now) {
                self.drive(key);
            }
        }
        self.run_ticks();
    }

    /// Drives changed connections until their output fills the outbox. Nothing is sent before. Returns whether there is
    /// more: then the caller empties the outbox and calls again. Thus packets are sent while they are in the CPU's
    /// caches, and a large room's first receiver does not wait for the last.
    #[must_use]
    pub fn flush(&mut self, now: Instant) -> bool {
        self.advance_clock(now);
        while self.outputs.waiting() < OUTBOX {
            // Handled before the connections: a new layer changes what is sent on them.
            for track in self.tracks.take_revived() {
                self.allocate_receivers(track);
            }
            self.run_negotiations();
            match self.connections.next_touched() {
                Some(key) => self.drive(key),
                // Only when all connections are driven: until then, receivers have not taken what they can, and their
                // senders would wait for longer than necessary.
                None if self.release_packets() => {}
                // Driving the connections may have caused either: then the loop continues.
                None if !self.tracks.has_revived() && !self.run_negotiations() => return false,
                None => {}
            }
        }
        true
    }

    /// Returns the time of the next [`Worker::handle_timeout`]; `None` if there is nothing to wait for.
    pub fn next_timeout(&self) -> Option<Instant> {
        // Without participants there is no periodic work, so an idle worker sleeps.
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

    /// Returns the counters since the worker's start.
    pub fn counters(&self) -> Counters {
        self.outputs.counters()
    }

    /// Records CPU time and idle time of the worker's thread.
    pub fn record_work(&mut self, worked: Duration, waited: Duration) {
        self.overload.record_work(worked, waited);
    }

    /// Returns the percentage of participants that get the lowest layers because the thread is overloaded.
    pub fn reduced_percent(&self) -> usize {
        usize::try_from(self.overload.reduced() * 100 / GROUPS).unwrap_or_default()
    }

    /// Returns the number of participants on this worker, without mirrors.
    pub fn peers(&self) -> usize {
        self.roster.len()
    }

    /// Returns whether no room has left any state.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.roster.has_nothing() && self.connections.is_empty() && self.tracks.is_empty()
    }

    /// Removes and returns the output for other workers, if there is any.
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
        // `drain` may have advanced the clock by a few microseconds.
        self.now = self.now.max(now);
    }

    /// Reports an event for a participant on this worker. For mirrors, their home workers do so.
    fn emit(&mut self, peer: PeerKey, event: PeerEvent) {
        if self.roster.get(peer).is_some_and(Peer::is_here) {
            self.report(peer, event);
        }
    }

    /// Reports an event, even for a mirror.
    fn report(&mut self, peer: PeerKey, event: PeerEvent) {
        if let Some((room, peer)) = self.roster.named(peer) {
            self.outputs
                .report(room.clone(), peer.info.sid.clone(), event);
        }
    }

    /// Logs a client's error, at most once a minute per participant.
    fn warn(&self, key: PeerKey, what: &str, details: &dyn std::fmt::Display) {
        if let Some((room, peer)) = self.roster.named(key) {
            let named = (room, &peer.info.identity, &peer.info.sid);
            self.outputs.warn(named, what, details, self.now);
        }
    }
}
