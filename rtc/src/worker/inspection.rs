//! The state of a room, for inspection.

use conclave_model::NamespacedRoom;
use str0m::net::Protocol;

use super::Worker;
use super::peer::Peer;
use super::track::{UpLayer, UpTrack};
use crate::snapshot::{
    CandidatePair, LayerSnapshot, PeerSnapshot, PublishedSnapshot, RoomSnapshot, SubscribedSnapshot, TransportSnapshot,
};
use crate::track::Quality;
use crate::transport::{PeerKey, Transport, TransportRole};

impl Worker {
    /// Returns the state of a room; of one that is not known, an empty one.
    pub(super) fn room_snapshot(&self, room: &NamespacedRoom) -> RoomSnapshot {
        let room = self.room_by_name.get(room).and_then(|key| self.rooms.get(*key));
        let peers = room.into_iter().flat_map(|room| &room.peers);
        RoomSnapshot { peers: peers.filter_map(|key| Some(self.peer_snapshot(*key, self.peers.get(*key)?))).collect() }
    }

    fn peer_snapshot(&self, key: PeerKey, peer: &Peer) -> PeerSnapshot {
        let transports = peer.transports().filter_map(|key| self.transports.get(key));
        let published = peer.published.iter().filter_map(|track| self.tracks.get(*track));
        PeerSnapshot {
            sid: peer.info.sid.clone(),
            transports: transports.map(|transport| self.transport_snapshot(transport)).collect(),
            published: published.map(|track| self.published_snapshot(track)).collect(),
            subscribed: self.subscribed(key, peer),
        }
    }

    fn transport_snapshot(&self, transport: &Transport) -> TransportSnapshot {
        let stats = transport.stats.as_ref();
        let pair = stats.and_then(|stats| stats.selected_candidate_pair.as_ref());
        TransportSnapshot {
            role: match transport.role {
                TransportRole::Publisher => "publisher",
                TransportRole::Subscriber => "subscriber",
                TransportRole::Single => "single",
            },
            is_connected: transport.is_connected,
            candidate_pair: pair.map(|pair| CandidatePair {
                is_tcp: pair.protocol != Protocol::Udp,
                local: pair.local.addr,
                remote: pair.remote.addr,
            }),
            silent_for: transport.last_packet.map(|last| self.now.saturating_duration_since(last)),
            round_trip: transport.quality.round_trip,
            egress_loss: stats.and_then(|stats| stats.egress_loss_fraction),
            ingress_loss: stats.and_then(|stats| stats.ingress_loss_fraction),
            estimate_kbps: transport.estimate.and_then(|rate| u32::try_from(rate.as_u64() / 1000).ok()),
            media_sections: transport.media_sections,
        }
    }

    fn published_snapshot(&self, track: &UpTrack) -> PublishedSnapshot {
        let seen = track.layers.iter().zip(Quality::ALL).filter(|(layer, _)| layer.last_packet.is_some());
        PublishedSnapshot {
            sid: track.sid.clone(),
            codec: Some(track.codec),
            is_muted: track.is_muted,
            layers: seen.map(|(layer, quality)| self.layer_snapshot(layer, quality)).collect(),
            subscribers: track.downs.len(),
        }
    }

    fn layer_snapshot(&self, layer: &UpLayer, quality: Quality) -> LayerSnapshot {
        LayerSnapshot {
            quality,
            is_live: layer.is_live(self.now),
            kbps: u32::try_from(layer.rate.bits_per_second / 1000).unwrap_or(u32::MAX),
            packets: layer.rate.packets,
            key_frame_requests: layer.key_frames.count,
            last_key_frame: layer.last_key_frame.map(|at| self.now.saturating_duration_since(at)),
        }
    }

    fn subscribed(&self, key: PeerKey, peer: &Peer) -> Vec<SubscribedSnapshot> {
        let carried = peer.sections.iter().filter_map(|section| Some((section, self.tracks.get(section.track?)?)));
        let quality = |layer: usize| Quality::ALL.get(layer).copied();
        let snapshots = carried.map(|(section, track)| {
            let down = track.downs.iter().find(|down| down.peer == key);
            SubscribedSnapshot {
                sid: track.sid.clone(),
                mid: section.mid.map(|mid| mid.to_string()),
                current: down.and_then(|down| quality(down.current?)),
                target: down.and_then(|down| quality(down.target?)),
                packets: down.map_or(0, |down| down.packets),
            }
        });
        snapshots.collect()
    }
}
