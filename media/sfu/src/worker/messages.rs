//! Data messages and data track packets between participants.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_model::participant::DataKind;
use conclave_model::{NamespacedRoom, ParticipantSid, TrackSid};
use str0m::channel::ChannelId;

use super::roster::{Peer, Room};
use super::shared_room::{BufferedCommand, Neighbour, SharedRoom};
use super::{Worker, data_tracks};
use crate::command::{PeerCommand, ServerMessage};
use crate::data::{self, BYTES_TO_WAIT_FOR, DATA_TRACK, Message, Routed, Sender};
use crate::dropped::DropReason;
use crate::event::{FailureReason, PeerEvent};
use crate::mirror::WorkerId;
use crate::notice::Notice;
use crate::transport::{ChannelUse, PeerKey, RoomKey, TransportKey};

/// Sender of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageSource {
    /// The control side.
    Server,
    /// A client on this worker, by its connection.
    Client(TransportKey),
    /// A client on another worker.
    Neighbour,
}

impl Worker {
    /// Handles a data channel opened by a client.
    pub(super) fn open_channel(&mut self, key: TransportKey, id: ChannelId, label: String) {
        let Some(transport) = self.connections.get_mut(key) else {
            return;
        };
        if !transport.open_channel(id, label) {
            let peer = transport.peer();
            return self.refuse_client(peer, FailureReason::Channels);
        }
        // Reliable messages may have waited for this channel.
        self.connections.send_backlog(key, self.now);
    }

    /// Handles a client's message.
    pub(super) fn handle_message(
        &mut self,
        from: TransportKey,
        channel: ChannelId,
        bytes: Vec<u8>,
    ) {
        let Some(transport) = self.connections.get(from) else {
            return;
        };
        let key = transport.peer();
        let labelled = match transport.use_of_channel(channel) {
            Some(ChannelUse::DataTracks) => return self.forward_data_packet(key, bytes),
            Some(ChannelUse::Packets(kind)) => Some(kind),
            Some(ChannelUse::Plain) => None,
            None => return,
        };
        let kind = labelled.unwrap_or(DataKind::Reliable);
        let member = self.roster.with_room(key);
        let may_publish =
            |(peer, _): &(&mut Peer, &mut Room)| peer.info.permissions.can_publish_data;
        let Some((peer, room)) = member.filter(may_publish) else {
            return;
        };
        let info = &peer.info;
        let is_hidden = info.permissions.is_hidden;
        // Looked up on demand: only transcriptions need it.
        let is_track_of_other = |sid: &str| {
            let sid = sid.parse::<TrackSid>().ok();
            let track = sid.and_then(|sid| room.tracks.get(&sid));
            track.is_some_and(|track| !peer.published.contains(track))
        };
        let sender = Sender {
            sid: info.sid.as_str(),
            identity: info.identity.as_str(),
            is_hidden,
            transcribes_others: info.permissions.can_transcribe_others,
            is_track_of_other: &is_track_of_other,
        };
        let routed = match labelled {
            Some(kind) => data::route(&bytes, kind, sender),
            None => Some(data::route_plain(bytes, sender)),
        };
        let Some(routed) = routed else { return };
        // After a resume, a client repeats messages, even if they have arrived. Sequence numbers only rise.
        if kind == DataKind::Reliable && routed.sequence > 0 {
            if routed.sequence <= peer.last_message_seq {
                return;
            }
            peer.last_message_seq = routed.sequence;
        }
        let (room, reports_messages) = (peer.room, room.reports_messages);
        let sid = peer.info.sid.to_string();
        let receivers = self.roster.members(room);
        // A sender does not receive its own messages, as with LiveKit.
        self.deliver(
            receivers.into_iter().filter(|receiver| *receiver != key),
            kind,
            &routed,
            MessageSource::Client(from),
        );
        self.forward_to_neighbours(room, (key, from), kind, &routed);
        if reports_messages && let Some(sent) = data::sent_message(kind, &routed) {
            self.emit(key, PeerEvent::MessageSent(sent));
        }
        // Last, since it takes ownership: receivers and events only borrow the message.
        if let Some(room) = self
            .roster
            .room_mut(room)
            .filter(|_| kind == DataKind::Reliable && routed.sequence > 0)
        {
            room.recent.push(sid, routed, self.now);
        }
    }

    /// Sets whether user messages in a room are reported.
    pub(super) fn report_messages(&mut self, room: &NamespacedRoom, enabled: bool) {
        let room = self.roster.room_named(room);
        if let Some(room) = room.and_then(|room| self.roster.room_mut(room)) {
            room.reports_messages = enabled;
        }
    }

    /// Sends a message from the server.
    pub(super) fn send_server_message(&mut self, room: &NamespacedRoom, message: ServerMessage) {
        let kind = message.kind;
        let routed = data::server_packet(message);
        let room = self.roster.room_named(room);
        let receivers = room.map_or_else(Vec::new, |room| self.roster.members(room));
        self.deliver(receivers.into_iter(), kind, &routed, MessageSource::Server);
    }

    /// Sends a message to its receivers among these participants, if they may receive it. A client on this worker has
    /// to wait for slow receivers. For a client on another worker, slow receivers are returned.
    fn deliver(
        &mut self,
        receivers: impl Iterator<Item = PeerKey>,
        kind: DataKind,
        routed: &Routed,
        from: MessageSource,
    ) -> Vec<TransportKey> {
        let mut slow = Vec::new();
        for key in receivers {
            let Some(peer) = self
                .roster
                .get(key)
                .filter(|peer| peer.info.permissions.can_subscribe)
            else {
                continue;
            };
            if routed
                .to
                .include(peer.info.identity.as_str(), peer.info.sid.as_str())
            {
                let subscriber = peer.subscriber;
                self.send_message(key, kind, &routed.message);
                match from {
                    MessageSource::Client(from) => {
                        self.connections.await_receiver(from, subscriber);
                    }
                    MessageSource::Neighbour if self.connections.is_awaited(subscriber) => {
                        slow.push(subscriber);
                    }
                    MessageSource::Neighbour | MessageSource::Server => {}
                }
            }
        }
        slow
    }

    /// Sends a message to the room's other workers, once to each with receivers. The sending client has to wait if too
    /// much is on its way there.
    fn forward_to_neighbours(
        &mut self,
        room: RoomKey,
        (sender, from): (PeerKey, TransportKey),
        kind: DataKind,
        routed: &Routed,
    ) {
        let Some(shared) = self.roster.shared(room) else {
            return;
        };
        let Some(sid) = self.roster.get(sender).map(|peer| &peer.info.sid) else {
            return;
        };
        let is_for = |peer: &Peer| {
            let (identity, sid) = (peer.info.identity.as_str(), peer.info.sid.as_str());
            routed.to.include(identity, sid)
        };
        // Reliable messages are lost only beyond the limit that applies to a slow receiver as well.
        let (most, reason) = match kind {
            DataKind::Reliable => (self.limits.data_backlog_bytes, DropReason::DataBacklog),
            DataKind::Lossy => (BYTES_TO_WAIT_FOR, DropReason::MirrorFull),
        };
        let notice = Notice::Message {
            sender: sid.clone(),
            kind,
            routed: Arc::new(routed.clone()),
        };
        let (mut reached, mut lost) = (Vec::new(), 0);
        for neighbour in shared.neighbours() {
            if !self.may_reach(shared, neighbour, is_for) {
                continue;
            }
            if neighbour.outgoing().add(routed.message.len(), most) {
                reached.push(neighbour.worker());
            } else {
                lost += 1;
            }
            // Even if the message was lost: further ones should wait.
            self.connections.await_neighbour(from, neighbour.outgoing());
        }
        // Counted without a receiver: the message is lost for all of them on that worker.
        (0..lost).for_each(|_| self.record_drop(None, reason));
        for worker in reached {
            self.notify(room, worker, notice.clone());
        }
    }

    /// Delivers a message from a participant on another worker.
    pub(super) fn deliver_from_neighbour(
        &mut self,
        room: RoomKey,
        from: WorkerId,
        (sender, kind): (&ParticipantSid, DataKind),
        routed: &Arc<Routed>,
    ) {
        // Checked again: the permission may have been revoked while the message was on its way.
        let sender_key = self.mirror_of(from, sender);
        let may_publish = sender_key
            .and_then(|sender| self.roster.get(sender))
            .is_some_and(|peer| peer.info.permissions.can_publish_data);
        if may_publish {
            let receivers = self.roster.members(room);
            let slow = self.deliver(
                receivers.into_iter(),
                kind,
                routed,
                MessageSource::Neighbour,
            );
            if !slow.is_empty() {
                self.await_slow(room, from, slow);
            }
            let is_kept = kind == DataKind::Reliable && routed.sequence > 0;
            if let Some(room) = self.roster.room_mut(room).filter(|_| is_kept) {
                let routed = Routed::clone(routed);
                room.recent.push(sender.to_string(), routed, self.now);
            }
        }
        // In any case: the other worker counts the message until it has arrived.
        self.record_arrival(room, from, routed.message.len());
    }

    fn send_message(&mut self, key: PeerKey, kind: DataKind, message: &Message) {
        let Some(peer) = self.roster.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        let subscriber = peer.subscriber;
        let Some(transport) = self.connections.get_mut(subscriber) else {
            return;
        };
        if kind == DataKind::Lossy {
            // Lossy messages are not queued: a message that does not fit is lost.
            transport.write_message(data::channel_of_kind(kind), message);
        } else {
            let most = self.limits.data_backlog_bytes;
            if !transport.queue_message(message.clone(), most, self.now) {
                return self.record_drop(Some(subscriber), DropReason::DataBacklog);
            }
            self.connections.send_backlog(subscriber, self.now);
        }
        self.connections.touch(subscriber);
    }

    /// Sends a resumed participant the reliable messages that it has missed. Each stored message is considered once,
    /// even if the client names a sender repeatedly, so the work is bounded.
    pub(super) fn replay_messages(&mut self, key: PeerKey, received: &[(ParticipantSid, u32)]) {
        let Some(peer) = self
            .roster
            .get(key)
            .filter(|peer| peer.info.permissions.can_subscribe)
        else {
            return;
        };
        let Some(room) = self.roster.room(peer.room) else {
            return;
        };
        let (identity, sid) = (peer.info.identity.as_str(), peer.info.sid.as_str());
        let mut last_by_sender = HashMap::new();
        for (sender, last) in received.iter().filter(|(sender, _)| sender.as_str() != sid) {
            let known = last_by_sender.entry(sender.as_str()).or_insert(*last);
            // The highest number counts if a sender is named twice.
            *known = (*known).max(*last);
        }
        let missed = room
            .recent
            .missed(&last_by_sender, peer.joined_at, self.now);
        let missed: Vec<_> = missed
            .filter(|routed| routed.to.include(identity, sid))
            .map(|routed| routed.message.clone())
            .collect();
        for message in missed {
            self.send_message(key, DataKind::Reliable, &message);
        }
    }

    /// Starts forwarding a data track to a participant under this handle, or stops it.
    pub(super) fn forward_data_track(
        &mut self,
        key: PeerKey,
        of: &ParticipantSid,
        sid: &TrackSid,
        handle: Option<u16>,
    ) {
        let Some(subscriber) = self.roster.get(key) else {
            return;
        };
        let (room, peer) = (subscriber.room, subscriber.info.sid.clone());
        // The publisher may be on another worker that has not introduced it yet.
        let Some(publisher) = self.roster.by_sid(of) else {
            let (publisher, track) = (of.clone(), sid.clone());
            let command = match handle {
                Some(handle) => PeerCommand::SubscribeDataTrack {
                    publisher,
                    track,
                    handle,
                },
                None => PeerCommand::UnsubscribeDataTrack { publisher, track },
            };
            let awaited = of.clone();
            return self.buffer_command(
                room,
                BufferedCommand {
                    awaited,
                    peer,
                    command,
                },
            );
        };
        let publisher = self.roster.get_mut(publisher);
        if let Some(publisher) = publisher.filter(|publisher| publisher.room == room) {
            match handle {
                Some(handle) => publisher.data_tracks.subscribe(sid, key, handle),
                None => publisher.data_tracks.unsubscribe(sid, key),
            }
        }
    }

    /// Forwards a packet to the subscribers of its data track. Like media, packets that do not fit are lost.
    pub(super) fn forward_data_packet(&mut self, publisher: PeerKey, mut packet: Vec<u8>) {
        let Some(handle) = data_tracks::handle(&packet) else {
            return;
        };
        let permitted = self
            .roster
            .get_mut(publisher)
            .filter(|peer| peer.info.permissions.can_publish_data);
        let subscribers = permitted.and_then(|peer| peer.data_tracks.take_subscribers(handle));
        let Some(mut subscribers) = subscribers else {
            return;
        };
        self.forward_data_to_neighbours(publisher, &packet);
        // One buffer for all: only the handle differs. Subscribers that have left are removed here.
        subscribers.retain(|(subscriber, handle)| {
            data_tracks::set_handle(&mut packet, *handle);
            self.send_data_packet(*subscriber, &packet)
        });
        if let Some(peer) = self.roster.get_mut(publisher) {
            peer.data_tracks.put_back(handle, subscribers);
        }
    }

    /// Returns whether another worker may have participants for which `is_for` returns true: it has one, or its participants
    /// are not all known yet. Most messages are for everyone, so the first mirror found there ends the search.
    fn may_reach(
        &self,
        shared: &SharedRoom,
        neighbour: &Neighbour,
        is_for: impl Fn(&Peer) -> bool,
    ) -> bool {
        let mirrors = shared.mirrors().filter_map(|key| self.roster.get(key));
        let mut there = mirrors.filter(|peer| peer.home() == Some(neighbour.worker()));
        !neighbour.is_known() || there.any(is_for)
    }

    /// Sends a packet to the room's other workers, once to each, if its publisher is on this worker.
    fn forward_data_to_neighbours(&mut self, publisher: PeerKey, packet: &[u8]) {
        let Some(peer) = self.roster.get(publisher).filter(|peer| peer.is_here()) else {
            return;
        };
        let room = peer.room;
        let Some(shared) = self.roster.shared(room) else {
            return;
        };
        let notice = Notice::DataPacket {
            publisher: peer.info.sid.clone(),
            packet: packet.into(),
        };
        let has_room =
            |neighbour: &&Neighbour| neighbour.outgoing().add(packet.len(), BYTES_TO_WAIT_FOR);
        let has_members = |neighbour: &&Neighbour| self.may_reach(shared, neighbour, |_| true);
        let neighbours = shared.neighbours().filter(has_members);
        let (reached, lost): (Vec<_>, Vec<_>) = neighbours.partition(has_room);
        let reached: Vec<_> = reached.into_iter().map(Neighbour::worker).collect();
        (0..lost.len()).for_each(|_| self.outputs.count_drop(DropReason::MirrorFull));
        for worker in reached {
            self.notify(room, worker, notice.clone());
        }
    }

    /// Sends a packet to a subscriber, if it fits now. Returns whether the subscriber still exists.
    fn send_data_packet(&mut self, key: PeerKey, packet: &[u8]) -> bool {
        let Some(peer) = self.roster.get(key) else {
            return false;
        };
        if peer.info.permissions.can_subscribe && !peer.has_failed {
            let subscriber = peer.subscriber;
            if let Some(transport) = self.connections.get_mut(subscriber) {
                transport.write_message(DATA_TRACK, packet);
                self.connections.touch(subscriber);
            }
        }
        true
    }

    /// Checks whether a participant accepts its messages fast enough to be waited for.
    pub(super) fn judge_backlog(&mut self, key: PeerKey) {
        let Some(subscriber) = self.roster.get(key).map(|peer| peer.subscriber) else {
            return;
        };
        if self.connections.judge_backlog(subscriber, self.now) {
            self.warn(
                key,
                "a client takes its reliable messages too slowly",
                &"it loses some",
            );
        }
    }
}
