//! Which layers a participant receives: what it asks for, what its role allows, what its network carries, what is live. Recorders get
//! layers in the same way, without a network.

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

/// Bitrates of layers that nothing is known of, worst first, in bits per second.
const USUAL_BITRATES: [u64; 3] = [150_000, 500_000, 1_700_000];

/// Bitrate of an audio track that nothing is known of, in bits per second.
const USUAL_AUDIO: u64 = 40_000;

/// The priority of a screen share. The lowest is first; clients' own priorities begin at 1.
const SCREEN_PRIORITY: u32 = 0;

/// The priority of a video for which the client set none.
const NO_PRIORITY: u32 = u32::MAX;

impl Worker {
    /// Takes an estimate of the bandwidth to a client. One that does not say how it receives is not limited.
    pub(super) fn handle_estimate(&mut self, key: TransportKey, estimate: &BweKind) {
        let Some(transport) = self.connections.get_mut(key) else {
            return;
        };
        let bitrate = match estimate {
            BweKind::Twcc {
                estimate,
                can_probe,
            } => can_probe.then_some(*estimate),
            BweKind::Remb { estimate, .. } => Some(*estimate),
            _ => return,
        };
        let (counts, peer) = (
            transport.record_estimate(bitrate, self.now),
            transport.peer(),
        );
        if counts
            && self
                .roster
                .get(peer)
                .is_some_and(|peer| peer.subscriber == key)
        {
            self.allocate(peer);
        }
    }

    /// Chooses the layers that a participant receives, and requests the key frames with which they begin.
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
        self.set_bitrates(
            key,
            with_audio(allocation.next_bitrate),
            with_audio(allocation.best_bitrate),
        );
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

    /// Chooses anew what the receivers of a track get, after its layers have changed.
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

    /// Gives a track a recorder, or changes the layer that its recorder wants.
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

    /// Takes a recorder from a track.
    pub(super) fn detach_recorder(&mut self, key: PeerKey, sid: &TrackSid, egress: &EgressId) {
        let Some(track_key) = self.track_of(key, sid) else {
            return;
        };
        if let Some(track) = self.tracks.get_mut(track_key) {
            track.detach_recorder(egress);
        }
        self.report_quality_use(track_key);
    }

    /// Handles a recorder's need for a key frame.
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

    /// Chooses the layers that the recorders of a track get, and requests the key frames with which they begin.
    pub(super) fn choose_recorded_layers(&mut self, key: TrackKey) {
        let now = self.now;
        let track = self.tracks.get_mut(key);
        if track.is_some_and(|track| track.choose_recorded_layers(now)) {
            self.request_key_frames(key);
        }
    }

    /// Returns what may be sent to a participant, to which so much is sent now, in bits per second.
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

    /// Lets the bandwidth estimation rest while no video is to be sent on the sections for it.
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

    /// Tells the bandwidth estimation what is to be tried.
    fn set_bitrates(&mut self, key: PeerKey, next: u64, best: u64) {
        let Some(peer) = self.roster.get(key) else {
            return;
        };
        let limit = peer
            .info
            .permissions
            .subscribe_max_kbps
            .map_or(u64::MAX, |kbps| u64::from(kbps) * 1000);
        // Padding makes room for what the network has not shown to carry, never for what the role forbids.
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

    /// Lets the bandwidth estimation allow what is going to be sent.
    fn make_room(&mut self, key: PeerKey, bitrate: u64) {
        let subscriber = self.roster.get(key).map(|peer| peer.subscriber);
        if let Some(transport) = subscriber.and_then(|key| self.connections.get_mut(key)) {
            transport.make_room(bitrate);
        }
    }

    fn set_layer(&mut self, key: PeerKey, track: TrackKey, step: Option<Step>, is_paused: bool) {
        let Some(track) = self.tracks.get_mut(track) else {
            return;
        };
        let (publisher, sid) = (track.peer, track.sid.clone());
        let Some(subscription) = track.subscription_of(key) else {
            return;
        };
        subscription.choice.set_target(step.map(|step| step.layer));
        subscription.choice.temporal = step.and_then(|step| step.temporal);
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

/// What can be sent of a video. With each step, more is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    layer: usize,
    /// The best temporal layer; `None` for all.
    temporal: Option<u8>,
}

/// Returns what a participant wants of a video, as steps from the least on; one that is reduced can get the lowest layer only.
fn demand(
    track: &mut PublishedTrack,
    key: PeerKey,
    settings: TrackSettings,
    is_reduced: bool,
    now: Instant,
) -> (Vec<Step>, VideoDemand) {
    let wanted = track
        .wanted_layer(settings)
        .map(|wanted| if is_reduced { 0 } else { wanted });
    let best = wanted.and_then(|wanted| track.best_live_layer(wanted, now));
    let layers = best.map_or(0, |best| best + 1);
    let steps = steps(track, layers, now);
    let rate = |step: &Step| {
        track
            .is_live(step.layer, now)
            .then(|| step_rate(track, *step))
    };
    let rates = steps.iter().map(rate).collect();
    let priority = priority(track, settings);
    let sent = track
        .subscription_of(key)
        .map(|subscription| subscription.choice);
    let is_sent = |step: &Step| {
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

/// Returns the steps of so many layers: the temporal ones of the lowest that is live, and then one layer after another.
fn steps(track: &PublishedTrack, layers: usize, now: Instant) -> Vec<Step> {
    let lowest = (0..layers).find(|layer| track.is_live(*layer, now));
    let mut steps = Vec::new();
    for layer in 0..layers {
        if Some(layer) == lowest && !track.is_muted {
            let measured = track
                .layers
                .get(layer)
                .map_or(0, PublishedLayer::measured_temporal_layers);
            let lower =
                (0..measured.saturating_sub(1)).filter_map(|temporal| u8::try_from(temporal).ok());
            steps.extend(lower.map(|temporal| Step {
                layer,
                temporal: Some(temporal),
            }));
        }
        steps.push(Step {
            layer,
            temporal: None,
        });
    }
    steps
}

fn priority(track: &PublishedTrack, settings: TrackSettings) -> u32 {
    match settings.priority {
        0 if track.source == TrackSource::ScreenShare => SCREEN_PRIORITY,
        0 => NO_PRIORITY,
        priority => priority,
    }
}

/// Returns what a step takes.
fn step_rate(track: &PublishedTrack, step: Step) -> LayerRate {
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
    let of_part = |bits: u64| bits.saturating_mul(part) / all.max(1);
    LayerRate {
        mean: of_part(rate.mean),
        peak: of_part(rate.peak),
    }
}

/// Returns what a layer takes: nothing of a muted track, else as measured, else as announced, else as usual. Of a stream with layers,
/// those below it are sent as well where they are needed.
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

/// Returns what the packets of a layer take.
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
