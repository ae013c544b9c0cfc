//! The state of participants, for inspection.

use conclave_model::{NamespacedRoom, ParticipantSid};
use str0m::net::Protocol;

use super::Worker;
use super::roster::Peer;
use super::tracks::{PublishedLayer, PublishedTrack};
use crate::measure::kilobits;
use crate::snapshot::{
    CandidatePair, LayerSnapshot, PeerSnapshot, PublishedSnapshot, SubscribedSnapshot,
    TransportSnapshot,
};
use crate::track::Quality;
use crate::transport::{PeerKey, Transport, TransportRole};

impl Worker {
    /// Returns the state of those participants that are in a room.
    pub(super) fn snapshots(
        &self,
        room: &NamespacedRoom,
        sids: &[ParticipantSid],
    ) -> Vec<PeerSnapshot> {
        let Some(room) = self.room_by_name.get(room) else {
            return Vec::new();
        };
        let keys = sids
            .iter()
            .filter_map(|sid| self.peer_by_sid.get(sid).copied());
        let peers = keys
            .filter_map(|key| Some((key, self.peers.get(key).filter(|peer| peer.room == *room)?)));
        peers
            .map(|(key, peer)| self.peer_snapshot(key, peer))
            .collect()
    }

    /// Counts the mean losses of the connections.
    pub(super) fn measure_losses(&mut self) {
        let stats = || {
            self.transports
                .values()
                .filter_map(|transport| transport.stats.as_ref())
        };
        let received = mean_in_millionths(stats().filter_map(|stats| stats.ingress_loss_fraction));
        let sent = mean_in_millionths(stats().filter_map(|stats| stats.egress_loss_fraction));
        (self.counters.received_loss, self.counters.sent_loss) = (received, sent);
    }

    fn peer_snapshot(&self, key: PeerKey, peer: &Peer) -> PeerSnapshot {
        let transports = peer.transports().filter_map(|key| self.transports.get(key));
        let published = peer
            .published
            .iter()
            .filter_map(|track| self.tracks.get(*track));
        PeerSnapshot {
            sid: peer.info.sid.clone(),
            transports: transports
                .map(|transport| self.transport_snapshot(transport))
                .collect(),
            published: published
                .map(|track| self.published_snapshot(track))
                .collect(),
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
            silent_for: transport
                .last_packet
                .map(|last| self.now.saturating_duration_since(last)),
            round_trip: transport.quality.round_trip,
            egress_loss: stats.and_then(|stats| stats.egress_loss_fraction),
            ingress_loss: stats.and_then(|stats| stats.ingress_loss_fraction),
            estimate_kbps: transport
                .estimate
                .map(|estimate| kilobits(estimate.as_u64())),
            wanted_kbps: Some(kilobits(transport.bitrates.0)).filter(|wanted| *wanted > 0),
            media_sections: transport.media_sections,
            dropped: transport.dropped,
        }
    }

    fn published_snapshot(&self, track: &PublishedTrack) -> PublishedSnapshot {
        let seen = track
            .layers
            .iter()
            .zip(Quality::ALL)
            .filter(|(layer, _)| layer.last_packet.is_some());
        PublishedSnapshot {
            sid: track.sid.clone(),
            codec: Some(track.codec),
            is_muted: track.is_muted,
            layers: seen
                .map(|(layer, quality)| self.layer_snapshot(layer, quality))
                .collect(),
            subscribers: track.subscriptions.len(),
        }
    }

    fn layer_snapshot(&self, layer: &PublishedLayer, quality: Quality) -> LayerSnapshot {
        LayerSnapshot {
            quality,
            is_live: layer.is_live(self.now),
            kbps: layer.rate.kbps(),
            packets: layer.rate.packets,
            key_frame_requests: layer.key_frames.count,
            last_key_frame: layer
                .last_key_frame
                .map(|at| self.now.saturating_duration_since(at)),
        }
    }

    fn subscribed(&self, key: PeerKey, peer: &Peer) -> Vec<SubscribedSnapshot> {
        let carried = peer.sections.iter().filter_map(|section| {
            Some((section, self.tracks.get(section.sent.or(section.track)?)?))
        });
        let quality = |layer: usize| Quality::ALL.get(layer).copied();
        let snapshots = carried.map(|(section, track)| {
            let subscription = track
                .subscriptions
                .iter()
                .find(|subscription| subscription.peer == key);
            SubscribedSnapshot {
                sid: track.sid.clone(),
                codec: section.sent.map(|_| track.codec),
                mid: section.mid.map(|mid| mid.to_string()),
                current: subscription
                    .and_then(|subscription| quality(subscription.choice.current?)),
                target: subscription.and_then(|subscription| quality(subscription.choice.target?)),
                kbps: subscription.map_or(0, |subscription| subscription.rate.kbps()),
                packets: subscription.map_or(0, |subscription| subscription.rate.packets),
            }
        });
        snapshots.collect()
    }
}

/// Returns the mean of fractions in millionths; 0 if there are none.
fn mean_in_millionths(fractions: impl Iterator<Item = f32>) -> usize {
    let millionths = |fraction: f32| (f64::from(fraction.clamp(0., 1.)) * 1e6).round() as usize;
    let (sum, count) = fractions.fold((0, 0), |(sum, count), fraction| {
        (sum + millionths(fraction), count + 1)
    });
    sum.checked_div(count).unwrap_or_default()
}
