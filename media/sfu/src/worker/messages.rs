//! Data messages from participant to participant.

use std::collections::HashMap;

use conclave_model::participant::DataKind;
use conclave_model::{NamespacedRoom, ParticipantSid, TrackSid};
use str0m::channel::ChannelId;

use super::Worker;
use crate::command::ServerMessage;
use crate::data::{self, Message, Routed, Sender};
use crate::dropped::DropReason;
use crate::event::PeerEvent;
use crate::transport::{PeerKey, TransportKey};

impl Worker {
    /// Handles a message of a client.
    pub(super) fn handle_message(
        &mut self,
        from: TransportKey,
        channel: ChannelId,
        bytes: Vec<u8>,
    ) {
        let Some(transport) = self.transports.get(from) else {
            return;
        };
        let key = transport.peer;
        let label = transport.channel_label(channel);
        if label == Some(data::DATA_TRACK) {
            return self.forward_data_packet(from, bytes);
        }
        let labelled = label.and_then(data::kind_of_channel);
        if labelled.is_none() && !transport.plain_channels.contains(&channel) {
            return;
        }
        let kind = labelled.unwrap_or(DataKind::Reliable);
        let Some(peer) = self
            .peers
            .get_mut(key)
            .filter(|peer| peer.info.permissions.can_publish_data)
        else {
            return;
        };
        let info = &peer.info;
        let is_hidden = info.permissions.is_hidden;
        let tracks = self.rooms.get(peer.room).map(|room| &room.tracks);
        let is_track_of_other = |sid: &str| {
            let track = sid
                .parse::<TrackSid>()
                .ok()
                .zip(tracks)
                .and_then(|(sid, tracks)| tracks.get(&sid));
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
        if kind == DataKind::Reliable && routed.sequence > 0 {
            if routed.sequence <= peer.last_message_seq {
                return;
            }
            peer.last_message_seq = routed.sequence;
        }
        let room = peer.room;
        let sid = peer.info.sid.to_string();
        let receivers = self
            .rooms
            .get(room)
            .map(|room| room.peers.clone())
            .unwrap_or_default();
        self.deliver(
            receivers.into_iter().filter(|receiver| *receiver != key),
            kind,
            &routed,
            Some(from),
        );
        if self
            .rooms
            .get(room)
            .is_some_and(|room| room.reports_messages)
            && let Some(sent) = data::sent_message(kind, &routed)
        {
            self.emit(key, PeerEvent::MessageSent(sent));
        }
        if let Some(room) = self
            .rooms
            .get_mut(room)
            .filter(|_| kind == DataKind::Reliable && routed.sequence > 0)
        {
            room.recent.push(sid, routed, self.now);
        }
    }

    /// Sets whether user messages in a room are reported.
    pub(super) fn report_messages(&mut self, room: &NamespacedRoom, enabled: bool) {
        let room = self
            .room_by_name
            .get(room)
            .and_then(|key| self.rooms.get_mut(*key));
        if let Some(room) = room {
            room.reports_messages = enabled;
        }
    }

    /// Sends a message of the server.
    pub(super) fn send_server_message(&mut self, room: &NamespacedRoom, message: ServerMessage) {
        let kind = message.kind;
        let routed = data::server_packet(message);
        let room = self
            .room_by_name
            .get(room)
            .and_then(|key| self.rooms.get(*key));
        let receivers = room.map(|room| room.peers.clone()).unwrap_or_default();
        self.deliver(receivers.into_iter(), kind, &routed, None);
    }

    /// Sends a message to those of the participants that it is for and that may receive it. The client that sent it has to wait for
    /// those that do not keep up.
    fn deliver(
        &mut self,
        receivers: impl Iterator<Item = PeerKey>,
        kind: DataKind,
        routed: &Routed,
        from: Option<TransportKey>,
    ) {
        for key in receivers {
            let Some(peer) = self
                .peers
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
                if let Some(from) = from {
                    self.await_receiver(from, subscriber);
                }
            }
        }
    }

    fn send_message(&mut self, key: PeerKey, kind: DataKind, message: &Message) {
        let Some(peer) = self.peers.get_mut(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        let subscriber = peer.subscriber;
        let Some(transport) = self.transports.get_mut(subscriber) else {
            return;
        };
        if kind == DataKind::Lossy {
            // What does not fit is lost.
            transport.write_message(data::channel_of_kind(kind), message);
        } else {
            if !transport
                .backlog
                .push(message.clone(), self.limits.data_backlog_bytes, self.now)
            {
                return self.note_drop(Some(subscriber), DropReason::DataBacklog);
            }
            self.send_backlog(subscriber);
        }
        self.touch(subscriber);
    }

    /// Sends as many of the waiting reliable messages as the channel takes.
    pub(super) fn send_backlog(&mut self, key: TransportKey) {
        let Some(transport) = self
            .transports
            .get_mut(key)
            .filter(|transport| !transport.backlog.is_empty())
        else {
            return;
        };
        let channel = data::channel_of_kind(DataKind::Reliable);
        if !transport.channels.contains_key(channel) {
            return transport.backlog.limit_before_channel(self.now);
        }
        let mut has_written = false;
        while let Some(message) = transport.backlog.front().cloned() {
            if !transport.write_message(channel, &message) {
                break;
            }
            transport.backlog.pop();
            has_written = true;
        }
        if has_written {
            self.has_backlog_shrunk = true;
            self.touch(key);
        }
    }

    /// Sends a resumed participant the reliable messages that it has missed. However often it names a sender, each message is looked at
    /// once, so that the work is bounded by what the room keeps.
    pub(super) fn replay_messages(&mut self, key: PeerKey, received: &[(ParticipantSid, u32)]) {
        let Some(peer) = self
            .peers
            .get(key)
            .filter(|peer| peer.info.permissions.can_subscribe)
        else {
            return;
        };
        let Some(room) = self.rooms.get(peer.room) else {
            return;
        };
        let (identity, sid) = (peer.info.identity.as_str(), peer.info.sid.as_str());
        let mut last_by_sender = HashMap::new();
        for (sender, last) in received.iter().filter(|(sender, _)| sender.as_str() != sid) {
            let known = last_by_sender.entry(sender.as_str()).or_insert(*last);
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
}
