//! Layer choice per participant: the best that fits the subscriber's settings, its role and bandwidth allow, and the
//! publisher sends. Recorders get their layers in the same way, without a bandwidth limit.

use std::time::Instant;

use conclave_model::participant::TrackSource;
use conclave_model::{EgressId, TrackSid};
use str0m::bwe::BweKind;

use super::Worker;
use super::layer::PublishedLayer;
use super::tracks::PublishedTrack;
use crate::allocate::{LayerRate, VideoDemand, allocate};
use crate::codec::TrackMedium;
use crate::command::{NewRecorder, TrackSettings};
use crate::event::PeerEvent;
use crate::measure::RateMeter;
use crate::transport::{PeerKey, TrackKey, TransportKey};

/// Bitrates for layers that were neither measured nor announced, lowest first, in bit/s: about the
/// presets in LiveKit's JavaScript client for 180p, 360p and 720p.
const USUAL_BITRATES: [u64; 3] = [150_000, 500_000, 1_700_000];

/// Bitrate for an audio track that was not measured, in bit/s.
const USUAL_AUDIO: u64 = 40_000;

/// Priority of a screen share. The lowest number comes first; clients' own priorities start at 1.
const SCREEN_PRIORITY: u32 = 0;

/// Priority of a video if the client set none.
const NO_PRIORITY: u32 = u32::MAX;

impl Worker {
    /// Handles an estimate of the bandwidth to a client. A client that sends no feedback is not limited.
    pub(super) fn handle_estimate(&mut self, key: TransportKey, estimate: &BweKind) {
        let Some(transport) = self.connections.get_mut(key) else {
            return;
        };
        let bitrate = match estimate {
            BweKind::Twcc {
                estimate,
                // Without transport-wide feedback, str0m repeats its last estimate once. It means nothing then.
                can_probe,
            } => can_probe.then_some(*estimate),
            BweKind::Remb { estimate, .. } => Some(*estimate),
            _ => return,
        };
        let (counts, peer) = (
            transport.record_estimate(bitrate, self.now),
            transport.peer(),
        );
        // The publisher's connection has estimates, too, but carries no media to the client.
        if counts
            && self
                .roster
                .get(peer)
                .is_some_and(|peer| peer.subscriber == key)
        {
            self.allocate(peer);
        }
    }

    /// Chooses a participant's layers, and requests the key frames with which they start.
    pub(super) fn allocate(&mut self, key: PeerKey) {
        let Some(peer) = self.roster.get(key).filter(|peer| !peer.has_failed) else {
            return;
        };
        let (may_pause, is_reduced) = (peer.info.allows_pause, self.is_reduced(key));
        let (mut tracks, mut videos, mut audio_bitrate, mut sent) = (Vec::new(), Vec::new(), 0, 0);
        let mut is_video_wanted = false;
        for section in peer.sections.iter() {
            let Some(track_key) = section.carried() else {
                continue;
            };
            let Some(track) = self.tracks.get_mut(track_key) else {
                continue;
            };
            // It waits for a codec, so nothing is sent.
            if section.sent().is_none() && track.is_awaited_by(key) {
                continue;
            }
            let settings = peer.wanted.get(&track.sid).copied().unwrap_or_default();
            if track.medium() == TrackMedium::Video {
                let (steps, video) = demand(track, key, settings, is_reduced, self.now);
                sent += video.current.map_or(0, |step| {
                    steps
                        .get(step)
                        .map_or(0, |step| step_rate(track, *step).mean)
                });
                videos.push(video);
                is_video_wanted |= !track.is_muted && !settings.is_disabled;
                tracks.push((track_key, steps));
            // Audio is never paused or reduced: its share is subtracted from the budget first.
            } else {
                audio_bitrate += audio_rate(track);
                if let Some(subscription) = track.subscription_of(key) {
                    subscription
                        .choice
                        .set_target((!settings.is_disabled).then_some(0));
                }
            }
        }
        self.rest(key, !videos.is_empty() && !is_video_wanted);
        let budget = self
            .budget(key, sent + audio_bitrate)
            .map(|budget| budget.saturating_sub(audio_bitrate));
        let allocation = allocate(&videos, budget, may_pause);
        let with_audio = |bitrate: u64| {
            if bitrate > 0 {
                bitrate + audio_bitrate
            } else {
                0
            }
        };
        // With the audio, since the estimation covers the whole connection.
        self.set_bitrates(
            key,
            with_audio(allocation.next_bitrate),
            with_audio(allocation.best_bitrate),
        );
        // Otherwise the estimate would return only slowly to a bitrate that the network has carried before.
        self.make_room(key, allocation.bitrate + audio_bitrate);
        for ((track, steps), chosen) in tracks.into_iter().zip(allocation.layers) {
            let is_paused = chosen.is_none() && !steps.is_empty();
            self.set_layer(
                key,
                track,
                chosen.and_then(|step| steps.get(step).copied()),
                is_paused,
            );
        }
        self.request_key_frames_of(key);
    }

    /// Chooses the layers of a track's receivers after its layers have changed.
    pub(super) fn allocate_receivers(&mut self, track: TrackKey) {
        self.choose_recorded_layers(track);
        let receivers: Vec<_> = self
            .tracks
            .get(track)
            .into_iter()
            .flat_map(|track| &track.subscriptions)
            .map(|subscription| subscription.peer)
            .collect();
        for receiver in receivers {
            self.allocate(receiver);
        }
    }

    /// Adds a recorder, or changes its settings.
    pub(super) fn attach_recorder(&mut self, key: PeerKey, sid: &TrackSid, new: NewRecorder) {
        let Some(track_key) = self.track_of(key, sid) else {
            return;
        };
        if let Some(track) = self.tracks.get_mut(track_key) {
            track.attach_recorder(new);
        }
        self.choose_recorded_layers(track_key);
        self.report_quality_use(track_key);
    }

    /// Removes a recorder.
    pub(super) fn detach_recorder(&mut self, key: PeerKey, sid: &TrackSid, egress: &EgressId) {
        let Some(track_key) = self.track_of(key, sid) else {
            return;
        };
        if let Some(track) = self.tracks.get_mut(track_key) {
            track.detach_recorder(egress);
        }
        self.report_quality_use(track_key);
    }

    /// Handles a recorder's key frame request.
    pub(super) fn request_recorded_key_frame(
        &mut self,
        key: PeerKey,
        sid: &TrackSid,
        egress: &EgressId,
    ) {
        let Some(track_key) = self.track_of(key, sid) else {
            return;
        };
        let track = self.tracks.get_mut(track_key);
        if track.is_some_and(|track| track.want_recorded_key_frame(egress)) {
            self.request_key_frames(track_key);
        }
    }

    /// Chooses the layers of a track's recorders, and requests the key frames with which they start.
    pub(super) fn choose_recorded_layers(&mut self, key: TrackKey) {
        let now = self.now;
        let track = self.tracks.get_mut(key);
        if track.is_some_and(|track| track.choose_recorded_layers(now)) {
            self.request_key_frames(key);
        }
    }

    /// Returns the bitrate limit for a participant in bit/s, given the bitrate being sent; `None` without limit.
    fn budget(&mut self, key: PeerKey, sent: u64) -> Option<u64> {
        let peer = self.roster.get(key)?;
        let transport = self.connections.get_mut(peer.subscriber);
        let capacity = transport.and_then(|transport| transport.update_capacity(sent, self.now));
        let limit = peer
            .info
            .permissions
            .subscribe_max_kbps
            .map(|kbps| u64::from(kbps) * 1000);
        [capacity, limit].into_iter().flatten().min()
    }

    /// Suspends bandwidth estimation while there is no video to send.
    fn rest(&mut self, key: PeerKey, is_resting: bool) {
        let Some(subscriber) = self.roster.get(key).map(|peer| peer.subscriber) else {
            return;
        };
        let now = self.now;
        if self
            .connections
            .get_mut(subscriber)
            .is_some_and(|transport| transport.rest(is_resting, now))
        {
            self.connections.touch(subscriber);
        }
    }

    /// Sets the bitrates up to which the bandwidth estimation probes.
    fn set_bitrates(&mut self, key: PeerKey, next: u64, best: u64) {
        let Some(peer) = self.roster.get(key) else {
            return;
        };
        let limit = peer
            .info
            .permissions
            .subscribe_max_kbps
            .map_or(u64::MAX, |kbps| u64::from(kbps) * 1000);
        // Probing measures the network's capacity. There is no point in exceeding the role's limit.
        let wanted = (if next > limit { 0 } else { next }, best.min(limit));
        let Some(transport) = self.connections.get_mut(peer.subscriber) else {
            return;
        };
        transport.leave_stagnation(wanted.0, self.now);
        if transport.set_bitrates(wanted.0, wanted.1, self.now) {
            let subscriber = peer.subscriber;
            self.connections.touch(subscriber);
        }
    }

    /// Raises the estimate, if necessary, to the bitrate that will be sent.
    fn make_room(&mut self, key: PeerKey, bitrate: u64) {
        let subscriber = self.roster.get(key).map(|peer| peer.subscriber);
        if let Some(transport) = subscriber.and_then(|key| self.connections.get_mut(key)) {
            transport.make_room(bitrate);
        }
    }

    fn set_layer(
        &mut self,
        key: PeerKey,
        track: TrackKey,
        step: Option<LayerStep>,
        is_paused: bool,
    ) {
        let Some(track) = self.tracks.get_mut(track) else {
            return;
        };
        let (publisher, sid) = (track.peer, track.sid.clone());
        let Some(subscription) = track.subscription_of(key) else {
            return;
        };
        subscription.choice.set_target(step.map(|step| step.layer));
        subscription.choice.temporal = step.and_then(|step| step.temporal);
        // Reported once per change, although `allocate` runs every second.
        if std::mem::replace(&mut subscription.is_paused, is_paused) == is_paused {
            return;
        }
        let Some(publisher) = self.roster.get(publisher).map(|peer| peer.info.sid.clone()) else {
            return;
        };
        self.emit(
            key,
            PeerEvent::StreamStateChanged {
                publisher,
                track: sid,
                is_paused,
            },
        );
    }
}

/// Amount of a video that can be sent. Each step sends more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LayerStep {
    layer: usize,
    /// Highest temporal layer; `None` for all.
    temporal: Option<u8>,
}

/// Returns a participant's demand for a video, and its steps from the lowest. A reduced participant gets the lowest
/// layer only.
fn demand(
    track: &mut PublishedTrack,
    key: PeerKey,
    settings: TrackSettings,
    is_reduced: bool,
    now: Instant,
) -> (Vec<LayerStep>, VideoDemand) {
    let wanted = track
        .wanted_layer(settings)
        // Packets of the lowest layer are fewest, and cost the thread least.
        .map(|wanted| if is_reduced { 0 } else { wanted });
    // A layer that has stopped must not be a target: its receivers would wait forever.
    let best = wanted.and_then(|wanted| track.best_live_layer(wanted, now));
    let layers = best.map_or(0, |best| best + 1);
    let steps = steps(track, layers, now);
    let rate = |step: &LayerStep| {
        track
            .is_live(step.layer, now)
            .then(|| step_rate(track, *step))
    };
    let rates = steps.iter().map(rate).collect();
    let priority = priority(track, settings);
    let sent = track
        .subscription_of(key)
        .map(|subscription| subscription.choice);
    let is_sent = |step: &LayerStep| {
        sent.is_some_and(|sent| {
            sent.current == Some(step.layer)
                && (step.temporal.is_none() || step.temporal == sent.temporal)
        })
    };
    let current = steps.iter().position(is_sent);
    (
        steps,
        VideoDemand {
            layers: rates,
            priority,
            current,
        },
    )
}

/// Returns the steps of this many layers: first the temporal layers of the lowest live layer, then one layer after
/// another.
fn steps(track: &PublishedTrack, layers: usize, now: Instant) -> Vec<LayerStep> {
    let lowest = (0..layers).find(|layer| track.is_live(*layer, now));
    let mut steps = Vec::new();
    for layer in 0..layers {
        // Only there: between higher layers, the next lower layer is the better way to save bitrate. Without
        // measurements, nothing is known about temporal layers.
        if Some(layer) == lowest && !track.is_muted {
            let measured = track
                .layers
                .get(layer)
                .map_or(0, PublishedLayer::measured_temporal_layers);
            let lower =
                (0..measured.saturating_sub(1)).filter_map(|temporal| u8::try_from(temporal).ok());
            steps.extend(lower.map(|temporal| LayerStep {
                layer,
                temporal: Some(temporal),
            }));
        }
        steps.push(LayerStep {
            layer,
            temporal: None,
        });
    }
    steps
}

fn priority(track: &PublishedTrack, settings: TrackSettings) -> u32 {
    match settings.priority {
        // 0 is protobuf's default: the client set none.
        0 if track.source == TrackSource::ScreenShare => SCREEN_PRIORITY,
        0 => NO_PRIORITY,
        priority => priority,
    }
}

/// Returns a step's bitrate.
fn step_rate(track: &PublishedTrack, step: LayerStep) -> LayerRate {
    let rate = layer_rate(track, step.layer);
    let Some((temporal, layer)) = step.temporal.zip(track.layers.get(step.layer)) else {
        return rate;
    };
    let share = |rates: &[RateMeter]| {
        rates
            .iter()
            .map(|rate| rate.mean_bits_per_second)
            .sum::<u64>()
    };
    let (part, all) = (share(layer.up_to(temporal)), share(&layer.temporal_rates));
    // Only the share is used, so that it applies to the peak, and to an announced bitrate, too.
    let of_part = |bits: u64| bits.saturating_mul(part) / all.max(1);
    LayerRate {
        mean: of_part(rate.mean),
        peak: of_part(rate.peak),
    }
}

/// Returns a layer's bitrate as measured, or else as announced, or else the usual one; 0 for a muted track. In a stream
/// with layers, the lower ones are included if they are sent along.
fn layer_rate(track: &PublishedTrack, layer: usize) -> LayerRate {
    if track.is_muted {
        return LayerRate { mean: 0, peak: 0 };
    }
    let first = if track.sends_lower_layers() { 0 } else { layer };
    let rates = (first..=layer).map(|layer| own_rate(track, layer));
    rates.fold(LayerRate { mean: 0, peak: 0 }, |sum, rate| LayerRate {
        mean: sum.mean + rate.mean,
        peak: sum.peak + rate.peak,
    })
}

/// Returns the bitrate of a layer's own packets.
fn own_rate(track: &PublishedTrack, layer: usize) -> LayerRate {
    let measured = track
        .layers
        .get(layer)
        .map(|layer| &layer.rate)
        .filter(|rate| rate.mean_bits_per_second > 0);
    if let Some(rate) = measured {
        return LayerRate {
            mean: rate.mean_bits_per_second,
            peak: rate.peak_bits_per_second,
        };
    }
    let announced = track
        .layer_info(layer)
        .map(|info| u64::from(info.bitrate))
        .filter(|rate| *rate > 0);
    let mean = announced
        .or(USUAL_BITRATES.get(layer).copied())
        .unwrap_or_default();
    LayerRate { mean, peak: mean }
}

fn audio_rate(track: &PublishedTrack) -> u64 {
    track
        .layers
        .first()
        .map(|layer| layer.rate.bits_per_second)
        .filter(|rate| *rate > 0)
        .unwrap_or(USUAL_AUDIO)
}
