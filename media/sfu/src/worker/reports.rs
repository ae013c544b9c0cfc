//! Reports about rooms and participants: speakers, connection qualities and bitrates periodically, their state on
//! request.

use std::time::Instant;

use conclave_model::participant::TrackSource;
use conclave_model::{NamespacedRoom, ParticipantSid};
use str0m::net::Protocol;

use super::connections::Connections;
use super::layer::PublishedLayer;
use super::outputs::Outputs;
use super::roster::{Peer, Roster, Silence};
use super::tracks::{PublishedTrack, Tracks};
use crate::event::{ConnectionQuality, PeerQuality, PublishRate, RoomEvent, Speaker};
use crate::measure::{LinkQuality, kilobits};
use crate::mirror::Tap;
use crate::snapshot::{
    CandidatePair, LayerSnapshot, PeerSnapshot, PublishedSnapshot, SubscribedSnapshot,
    TransportSnapshot,
};
use crate::track::Quality;
use crate::transport::{PeerKey, Transport, TransportRole};

/// Periodic reports, with the state that they read and the values last reported.
pub struct Reports<'a> {
    pub now: Instant,
    pub roster: &'a mut Roster,
    pub tracks: &'a mut Tracks,
    pub connections: &'a Connections,
    pub outputs: &'a mut Outputs,
}

/// Read access to a worker's state for inspection.
pub struct Inspection<'a> {
    pub now: Instant,
    pub roster: &'a Roster,
    pub tracks: &'a Tracks,
    pub connections: &'a Connections,
}

impl Reports<'_> {
    /// Reports participants that have started or stopped speaking, or changed their level.
    pub fn report_speakers(&mut self) {
        self.report_each(Self::speaking, RoomEvent::SpeakersChanged);
    }

    /// Returns a participant's audio level if it has changed.
    fn speaking(&mut self, key: PeerKey) -> Option<Speaker> {
        let peer = self.roster.get_mut(key)?;
        let mut level: f32 = 0.0;
        for track in &peer.published {
            let Some(track) = self.tracks.get_mut(*track) else {
                continue;
            };
            // Read for muted tracks, too: reading the level after a silence resets the detector.
            let heard = track.speech.level(self.now);
            // Shared audio, such as a video's, is not speech.
            if track.source != TrackSource::ScreenShareAudio && !track.is_muted {
                level = level.max(heard);
            }
        }
        // Levels have few steps, so that small changes are not reported.
        if (peer.speaking_level - level).abs() < f32::EPSILON {
            return None;
        }
        peer.speaking_level = level;
        Some(Speaker {
            peer: peer.info.sid.clone(),
            level,
            is_active: level > 0.0,
        })
    }

    /// Reports connection qualities that have changed.
    pub fn report_qualities(&mut self) {
        self.report_each(Self::connection_quality, RoomEvent::ConnectionQuality);
    }

    fn connection_quality(&mut self, key: PeerKey) -> Option<PeerQuality> {
        let peer = self.roster.get_mut(key).filter(|peer| peer.is_active)?;
        let connected = peer
            .transports()
            .filter_map(|key| self.connections.get(key))
            .filter(|transport| transport.is_connected());
        // The worse connection determines the quality.
        let score = connected
            .map(|transport| transport.quality().score())
            .min_by(f32::total_cmp)?;
        // Only missing packets count, never a low score: LiveKit's JavaScript client reconnects after 10 s of LOST.
        let is_lost = peer.silence != Silence::None || peer.has_failed;
        let quality = if is_lost {
            ConnectionQuality::Lost
        } else {
            LinkQuality::class(score)
        };
        if peer.reported_quality.replace(quality) == Some(quality) {
            return None;
        }
        Some(PeerQuality {
            peer: peer.info.sid.clone(),
            quality,
            score,
        })
    }

    /// Reports the bitrates of the participants' publications.
    pub fn report_rates(&mut self) {
        self.report_each(Self::publish_rate, RoomEvent::PublishRates);
    }

    fn publish_rate(&mut self, key: PeerKey) -> Option<PublishRate> {
        let peer = self.roster.get_mut(key)?;
        let tracks = peer
            .published
            .iter()
            .filter_map(|track| self.tracks.get(*track));
        let bits: u64 = tracks
            .flat_map(|track| &track.layers)
            .map(|layer| layer.rate.bits_per_second)
            .sum();
        let kbps = kilobits(bits);
        // One 0 is reported after the last packets, then nothing.
        let before = std::mem::replace(&mut peer.reported_kbps, kbps);
        (before > 0 || kbps > 0).then(|| PublishRate {
            peer: peer.info.sid.clone(),
            kbps,
        })
    }

    /// Measures the connections' mean losses.
    pub fn measure_losses(&mut self) {
        let stats = || self.connections.values().filter_map(Transport::stats);
        let received = mean_in_millionths(stats().filter_map(|stats| stats.ingress_loss_fraction));
        let sent = mean_in_millionths(stats().filter_map(|stats| stats.egress_loss_fraction));
        self.outputs.set_losses(received, sent);
    }

    /// Evaluates `ask` for each participant, and reports the results per room.
    fn report_each<T>(
        &mut self,
        mut ask: impl FnMut(&mut Self, PeerKey) -> Option<T>,
        event: impl Fn(Vec<T>) -> RoomEvent,
    ) {
        for (room, peers) in self.roster.rooms() {
            let answers: Vec<_> = peers
                .into_iter()
                .filter_map(|peer| ask(self, peer))
                .collect();
            if !answers.is_empty() {
                self.outputs.report_room(room, event(answers));
            }
        }
    }
}

impl Inspection<'_> {
    /// Returns the state of the named participants that are in the room.
    pub fn snapshots(&self, room: &NamespacedRoom, sids: &[ParticipantSid]) -> Vec<PeerSnapshot> {
        // The last participant may have left since the request.
        let Some(room) = self.roster.room_named(room) else {
            return Vec::new();
        };
        let keys = sids.iter().filter_map(|sid| self.roster.by_sid(sid));
        // Sids are unique per worker, but the request may name sids in another room.
        let peers = keys
            .filter_map(|key| Some((key, self.roster.get(key).filter(|peer| peer.room == room)?)));
        peers
            .map(|(key, peer)| self.peer_snapshot(key, peer))
            .collect()
    }

    fn peer_snapshot(&self, key: PeerKey, peer: &Peer) -> PeerSnapshot {
        let transports = peer
            .transports()
            .filter_map(|key| self.connections.get(key));
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
        let stats = transport.stats();
        let pair = stats.and_then(|stats| stats.selected_candidate_pair.as_ref());
        TransportSnapshot {
            role: match transport.role() {
                TransportRole::Publisher => "publisher",
                TransportRole::Subscriber => "subscriber",
                TransportRole::Single => "single",
            },
            is_connected: transport.is_connected(),
            candidate_pair: pair.map(|pair| CandidatePair {
                is_tcp: pair.protocol != Protocol::Udp,
                local: pair.local.addr,
                remote: pair.remote.addr,
            }),
            silent_for: transport
                .last_packet()
                .map(|last| self.now.saturating_duration_since(last)),
            round_trip: transport.quality().round_trip,
            egress_loss: stats.and_then(|stats| stats.egress_loss_fraction),
            ingress_loss: stats.and_then(|stats| stats.ingress_loss_fraction),
            estimate_kbps: transport
                .estimation()
                .estimate()
                .map(|estimate| kilobits(estimate.as_u64())),
            wanted_kbps: Some(kilobits(transport.estimation().next_step()))
                .filter(|wanted| *wanted > 0),
            media_sections: transport.media_sections(),
            dropped: transport.dropped(),
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
            // The receivers of a mirror count for the track. Their own workers list them as subscribers.
            subscribers: track.subscriptions.len()
                + track.taps.iter().map(Tap::receivers).sum::<usize>(),
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
        let carried = peer
            .sections
            .iter()
            .filter_map(|section| Some((section, self.tracks.get(section.carried()?)?)));
        let quality = |layer: usize| Quality::ALL.get(layer).copied();
        let snapshots = carried.map(|(section, track)| {
            let subscription = track
                .subscriptions
                .iter()
                .find(|subscription| subscription.peer == key);
            SubscribedSnapshot {
                sid: track.sid.clone(),
                codec: section.sent().map(|_| track.codec),
                mid: section.mid().map(|mid| mid.to_string()),
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

/// Returns the mean of fractions in millionths; 0 without any.
fn mean_in_millionths(fractions: impl Iterator<Item = f32>) -> usize {
    let millionths = |fraction: f32| (f64::from(fraction.clamp(0., 1.)) * 1e6).round() as usize;
    let (sum, count) = fractions.fold((0, 0), |(sum, count), fraction| {
        (sum + millionths(fraction), count + 1)
    });
    sum.checked_div(count).unwrap_or_default()
}
