//! Data tracks: packets on a channel of their own, which go to those that are subscribed. What does not fit is lost, as media is.

use conclave_model::{ParticipantSid, TrackSid};

use super::Worker;
use crate::data::{DATA_TRACK, track_packet};
use crate::transport::{PeerKey, TransportKey};

/// A data track of a participant.
#[derive(Debug)]
pub struct DataTrack {
    /// The sid of the track.
    pub sid: TrackSid,
    /// How its publisher names it in packets.
    pub handle: u16,
    /// Whether nothing of it is forwarded.
    pub is_muted: bool,
    /// Who receives it, each by a handle of its own.
    subscribers: Vec<(PeerKey, u16)>,
}

impl Worker {
    /// Admits a data track of a participant.
    pub(super) fn publish_data_track(&mut self, key: PeerKey, sid: TrackSid, handle: u16) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.data_tracks.push(DataTrack {
                sid,
                handle,
                is_muted: false,
                subscribers: Vec::new(),
            });
        }
    }

    /// Ends a data track of a participant.
    pub(super) fn unpublish_data_track(&mut self, key: PeerKey, sid: &TrackSid) {
        if let Some(peer) = self.peers.get_mut(key) {
            peer.data_tracks.retain(|track| track.sid != *sid);
        }
    }

    /// Forwards a data track to a participant, by this handle.
    pub(super) fn subscribe_data_track(
        &mut self,
        key: PeerKey,
        of: &ParticipantSid,
        sid: &TrackSid,
        handle: u16,
    ) {
        if let Some(track) = self.data_track_of(key, of, sid) {
            track
                .subscribers
                .retain(|(subscriber, _)| *subscriber != key);
            track.subscribers.push((key, handle));
        }
    }

    /// Ends the forwarding of a data track to a participant.
    pub(super) fn unsubscribe_data_track(
        &mut self,
        key: PeerKey,
        of: &ParticipantSid,
        sid: &TrackSid,
    ) {
        if let Some(track) = self.data_track_of(key, of, sid) {
            track
                .subscribers
                .retain(|(subscriber, _)| *subscriber != key);
        }
    }

    /// Returns a data track of another participant in the room of one.
    fn data_track_of(
        &mut self,
        key: PeerKey,
        of: &ParticipantSid,
        sid: &TrackSid,
    ) -> Option<&mut DataTrack> {
        let room = self.peers.get(key)?.room;
        let publisher = self
            .peers
            .get_mut(*self.peer_by_sid.get(of)?)
            .filter(|publisher| publisher.room == room)?;
        publisher
            .data_tracks
            .iter_mut()
            .find(|track| track.sid == *sid)
    }

    /// Forwards a packet of a participant to the subscribers of the track that it names.
    pub(super) fn forward_data_packet(&mut self, from: TransportKey, mut packet: Vec<u8>) {
        let Some(handle) = track_packet::handle(&packet) else {
            return;
        };
        let Some(publisher) = self.transports.get(from).map(|transport| transport.peer) else {
            return;
        };
        let permitted = self
            .peers
            .get_mut(publisher)
            .filter(|peer| peer.info.permissions.can_publish_data);
        let track = permitted.and_then(|peer| {
            peer.data_tracks
                .iter_mut()
                .find(|track| track.handle == handle)
        });
        let Some(track) = track.filter(|track| !track.is_muted) else {
            return;
        };
        // They are put back below, without those that are gone.
        let mut subscribers = std::mem::take(&mut track.subscribers);
        let sid = track.sid.clone();
        subscribers.retain(|(subscriber, handle)| {
            track_packet::set_handle(&mut packet, *handle);
            self.send_data_packet(*subscriber, &packet)
        });
        let tracks = self
            .peers
            .get_mut(publisher)
            .map(|peer| &mut peer.data_tracks);
        if let Some(track) =
            tracks.and_then(|tracks| tracks.iter_mut().find(|track| track.sid == sid))
        {
            track.subscribers = subscribers;
        }
    }

    /// Sends a packet to a subscriber, if it can take it now. Returns whether there is one.
    fn send_data_packet(&mut self, key: PeerKey, packet: &[u8]) -> bool {
        let Some(peer) = self.peers.get(key) else {
            return false;
        };
        if peer.info.permissions.can_subscribe && !peer.has_failed {
            let subscriber = peer.subscriber;
            if let Some(transport) = self.transports.get_mut(subscriber) {
                transport.write_message(DATA_TRACK, packet);
                self.touch(subscriber);
            }
        }
        true
    }
}
