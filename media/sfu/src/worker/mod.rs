//! A media worker as a state machine without I/O.
//!
//! The driver hands in commands, datagrams and the time, calls [`Worker::flush`] after each batch of them, sends what is in
//! [`Worker::outbox`], and reports what is in [`Worker::events`]. A packet of a publisher is written to all its
//! receivers' connections at once; `flush` drives each touched connection once.

mod allocate;
mod backpressure;
mod backups;
mod codec_choice;
mod codecs;
mod connections;
mod data_tracks;
mod demand;
mod inspection;
mod lifecycle;
mod messages;
mod muted;
mod negotiation;
mod packet;
mod publishing;
mod receive;
mod recorders;
mod reports;
mod room;
mod roster;
mod send;
mod source;
mod subscribing;
mod subscription;
mod ticks;
mod timers;
mod tracks;
mod warnings;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::mem;
use std::time::{Duration, Instant};

use conclave_model::{NamespacedRoom, ParticipantSid};
use slotmap::SlotMap;
use str0m::Candidate;
use str0m::net::Transmit;

use crate::allocate::{GROUPS, Overload};
use crate::command::{Command, PeerCommand};
use crate::config::{Config, Limits};
use crate::dropped::Drops;
use crate::event::{Event, PeerEvent};
use crate::transport::{PeerKey, RoomKey, TrackKey, Transport, TransportKey, TransportSettings};
pub use receive::Datagram;

use connections::Demux;
use room::Room;
use roster::Peer;
use ticks::Ticks;
use timers::Timers;
use tracks::PublishedTrack;
use warnings::Warnings;

/// How many packets are put into the outbox before it has to be emptied: as many as one call to the system sends.
pub const OUTBOX: usize = 64;

/// A media worker: rooms, their participants, the participants' connections and tracks.
pub struct Worker {
    settings: TransportSettings,
    limits: Limits,
    /// The time of the input that is being handled.
    now: Instant,
    rooms: SlotMap<RoomKey, Room>,
    room_by_name: HashMap<NamespacedRoom, RoomKey>,
    peers: SlotMap<PeerKey, Peer>,
    peer_by_sid: HashMap<ParticipantSid, PeerKey>,
    transports: SlotMap<TransportKey, Box<Transport>>,
    tracks: SlotMap<TrackKey, PublishedTrack>,
    demux: Demux,
    timers: Timers,
    ticks: Ticks,
    overload: Overload,
    /// The connections that were changed and not driven since.
    touched: VecDeque<TransportKey>,
    /// The participants whose sections may differ from what was signalled to them, and when that is to be compared.
    renegotiate: BTreeSet<(Instant, PeerKey)>,
    /// The tracks of which a layer has begun to send.
    revived: Vec<TrackKey>,
    /// The connections of which packets are held.
    held: Vec<TransportKey>,
    /// Whether a receiver for which senders waited may have caught up.
    has_backlog_shrunk: bool,
    counters: Counters,
    warnings: Warnings,
    outbox: Vec<Transmit>,
    events: Vec<Event>,
}

/// What a worker has forwarded since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Media packets that publishers sent, of admitted tracks.
    pub published_packets: usize,
    /// Media packets that were sent on, counted for each receiver.
    pub forwarded_packets: usize,
    /// Packets that were not sent on; those that a receiver did not get are counted for each receiver.
    pub dropped: Drops,
    /// Key frames that were requested from publishers.
    pub key_frame_requests: usize,
    /// Clients that failed because they sent more than they may.
    pub refused_clients: usize,
    /// Mean share of the packets from clients that were lost on the way in the last second, in millionths.
    pub received_loss: usize,
    /// Mean share of the packets to clients that were lost on the way in the last second, in millionths.
    pub sent_loss: usize,
}

impl Worker {
    /// Creates a worker whose connections advertise these addresses.
    pub fn new(candidates: Vec<Candidate>, config: &Config, now: Instant) -> Self {
        Self {
            settings: TransportSettings::new(candidates, &config.contactable),
            limits: config.limits.clone(),
            now,
            rooms: SlotMap::with_key(),
            room_by_name: HashMap::new(),
            peers: SlotMap::with_key(),
            peer_by_sid: HashMap::new(),
            transports: SlotMap::with_key(),
            tracks: SlotMap::with_key(),
            demux: Demux::default(),
            timers: Timers::default(),
            ticks: Ticks::new(now),
            overload: Overload::new(now),
            touched: VecDeque::new(),
            renegotiate: BTreeSet::new(),
            revived: Vec::new(),
            held: Vec::new(),
            has_backlog_shrunk: false,
            counters: Counters::default(),
            warnings: warnings::new(),
            outbox: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Handles a command for a room.
    pub fn handle_command(&mut self, room: &NamespacedRoom, command: Command, now: Instant) {
        self.advance_clock(now);
        match command {
            Command::Peer { peer, command } => {
                if let Some(key) = self.peer_by_sid.get(&peer).copied() {
                    self.handle_peer_command(key, command);
                }
            }
            Command::AddPeer(info) => self.add_peer(room, info),
            Command::CloseRoom => self.close_room(room),
            Command::ReportMessages { enabled } => self.report_messages(room, enabled),
            Command::SendData(message) => self.send_server_message(room, message),
            Command::Snapshot { peers, reply } => reply.send(self.snapshots(room, &peers)),
        }
    }

    fn handle_peer_command(&mut self, key: PeerKey, command: PeerCommand) {
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
                self.publish_data_track(key, track, handle);
            }
            PeerCommand::UnpublishDataTrack(track) => self.unpublish_data_track(key, &track),
            PeerCommand::SubscribeDataTrack {
                publisher,
                track,
                handle,
            } => {
                self.subscribe_data_track(key, &publisher, &track, handle);
            }
            PeerCommand::UnsubscribeDataTrack { publisher, track } => {
                self.unsubscribe_data_track(key, &publisher, &track);
            }
        }
    }

    /// Lets time pass: drives the connections whose deadline was reached.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance_clock(now);
        // A connection that is due again at once has its turn at the next call.
        for key in self.timers.take_due(self.now) {
            self.handle_deadline(key);
        }
        self.run_ticks();
    }

    /// Completes what the inputs since the last call have caused, but for what does not fit into the outbox. Nothing is sent before.
    /// Returns whether there is more: then it has to be called again with an empty outbox. So packets are sent while they are in
    /// the processor's caches, and the first of a large room does not wait for the last.
    #[must_use]
    pub fn flush(&mut self, now: Instant) -> bool {
        self.advance_clock(now);
        while self.outbox.len() < OUTBOX {
            for track in mem::take(&mut self.revived) {
                self.allocate_receivers(track);
            }
            self.run_negotiations();
            match self.touched.pop_front() {
                Some(key) => self.drive(key),
                None if self.release_packets() => {}
                None if self.revived.is_empty() && !self.run_negotiations() => return false,
                None => {}
            }
        }
        true
    }

    /// Returns when [`Worker::handle_timeout`] has to be called next, if ever.
    pub fn next_timeout(&self) -> Option<Instant> {
        let tick = (!self.peers.is_empty()).then(|| self.ticks.next());
        let negotiation = self.renegotiate.first().map(|(at, _)| *at);
        [self.timers.next(), tick, negotiation]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns what has been forwarded.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Notes processor time of the worker's thread, and for how long it had nothing to do.
    pub fn note_work(&mut self, worked: Duration, waited: Duration) {
        self.overload.note_work(worked, waited);
    }

    /// Returns how many percent of the participants get the lowest layers, because the thread has too much to do.
    pub fn reduced_percent(&self) -> usize {
        usize::try_from(self.overload.reduced() * 100 / GROUPS).unwrap_or_default()
    }

    /// Returns the number of participants.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Returns whether nothing is kept of any room.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let has_objects =
            !self.rooms.is_empty() || !self.transports.is_empty() || !self.tracks.is_empty();
        let has_names =
            !self.room_by_name.is_empty() || !self.peer_by_sid.is_empty() || !self.peers.is_empty();
        !has_objects && !has_names && self.demux.is_empty()
    }

    /// Returns the packets to send, in order. The caller empties the list.
    pub fn outbox(&mut self) -> &mut Vec<Transmit> {
        &mut self.outbox
    }

    /// Removes and returns the events, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    fn advance_clock(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Reports something of a participant.
    fn emit(&mut self, peer: PeerKey, event: PeerEvent) {
        let Some(peer) = self.peers.get(peer) else {
            return;
        };
        let Some(room) = self.rooms.get(peer.room) else {
            return;
        };
        self.events.push(Event::Peer {
            room: room.name.clone(),
            peer: peer.info.sid.clone(),
            event,
        });
    }

    /// Notes that a connection has been changed and must be driven.
    fn touch(&mut self, key: TransportKey) {
        touch(&mut self.transports, &mut self.touched, key);
    }
}

/// Notes that a connection has been changed and must be driven; for callers that have borrowed another part of the worker.
fn touch(
    transports: &mut SlotMap<TransportKey, Box<Transport>>,
    touched: &mut VecDeque<TransportKey>,
    key: TransportKey,
) {
    if let Some(transport) = transports
        .get_mut(key)
        .filter(|transport| !transport.is_touched)
    {
        transport.is_touched = true;
        touched.push_back(key);
    }
}
