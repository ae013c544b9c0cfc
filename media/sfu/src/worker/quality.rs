//! Quality of each session: a sample every ten seconds, and the sum of the samples.
//!
//! A packet's path only counts: packets per connection ([`LinkMeter`]), frames per layer and per subscription
//! ([`FrameMeter`](crate::measure::FrameMeter)). Loss, round trips and jitter are str0m's, once a second. A sample reads and
//! resets these counters when the participant's group is checked anyway, so that samples are spread over time.
//!
//! Counters are lost with their track or connection: the last frames of a track that ends are not counted, nor is a
//! connection's last second. The sum of the samples lives with the participant, so that its last report has all of them.

use std::net::IpAddr;
use std::time::Duration;

use conclave_model::participant::TrackSource;
use conclave_model::quality::{
    DirectionSample, MediaConnection, QualitySample, ReconnectReason, SAMPLE_INTERVAL,
};
use str0m::net::Protocol;

use super::Worker;
use super::tracks::PublishedTrack;
use crate::codec::TrackMedium;
use crate::event::QualityReport;
use crate::measure::{FrameCounts, LinkMeter, MeanShare, kilobits};
use crate::transport::{PeerKey, Transport, TransportKey};

/// Video in one direction: the largest one's size and frames, and all cameras' freezes.
#[derive(Debug, Default)]
struct VideoMeter {
    size: (u32, u32),
    frames: u32,
    freezes: u32,
    frozen_ms: u32,
    switches: u32,
}

impl VideoMeter {
    fn add(&mut self, source: TrackSource, size: (u32, u32), counts: FrameCounts) {
        let pixels = |(width, height): (u32, u32)| u64::from(width) * u64::from(height);
        if pixels(size) > pixels(self.size) || (self.size == (0, 0) && counts.frames > self.frames)
        {
            (self.size, self.frames) = (size, counts.frames);
        }
        // A shared screen sends frames when it changes, so its gaps are no freezes.
        if source != TrackSource::ScreenShare {
            let millis = u32::try_from(counts.frozen.as_millis()).unwrap_or(u32::MAX);
            self.freezes = self.freezes.saturating_add(counts.freezes);
            self.frozen_ms = self.frozen_ms.saturating_add(millis);
        }
    }
}

impl Worker {
    /// Reports a participant's quality if its interval is over.
    pub(super) fn report_due_quality(&mut self, key: PeerKey) {
        let since = self.roster.get(key).and_then(|peer| peer.meter.since());
        if since.is_some_and(|since| self.now >= since + SAMPLE_INTERVAL) {
            self.report_quality(key, false);
        }
    }

    /// Reports a participant's quality for the last time, before its connections are closed.
    pub(super) fn report_last_quality(&mut self, key: PeerKey) {
        self.report_quality(key, true);
        if let Some(peer) = self.roster.get_mut(key) {
            peer.meter.stop();
        }
    }

    /// Records the reason that a resuming client states.
    pub(super) fn record_reconnect(&mut self, key: PeerKey, reason: ReconnectReason) {
        if let Some(peer) = self.roster.get_mut(key) {
            peer.meter.record_reconnect(reason);
        }
    }

    fn report_quality(&mut self, key: PeerKey, is_last: bool) {
        let Some(peer) = self.roster.get(key).filter(|peer| peer.is_here()) else {
            return;
        };
        let Some(since) = peer.meter.since() else {
            return;
        };
        let (publisher, subscriber) = (peer.publisher, peer.subscriber);
        let (sid, room) = (peer.info.sid.clone(), peer.room);
        let elapsed = self.now.saturating_duration_since(since);
        let millis = u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX);
        let per_second = |frames: u32| {
            let millis = u64::from(millis.max(1));
            let rate = (u64::from(frames) * 1_000 + millis / 2) / millis;
            u32::try_from(rate).unwrap_or(u32::MAX)
        };
        let (sent, sent_bits) = self.measure_published(key);
        let received = self.measure_received(key);
        let up = self.take_link(publisher);
        // In single mode, one connection has both directions.
        let down = if publisher == subscriber {
            up
        } else {
            self.take_link(subscriber)
        };
        let direction = |video: &VideoMeter| DirectionSample {
            width: video.size.0,
            height: video.size.1,
            frame_rate: per_second(video.frames),
            freezes: video.freezes,
            frozen_ms: video.frozen_ms,
            switches: video.switches,
            ..DirectionSample::default()
        };
        let sent = DirectionSample {
            packets: up.received_packets,
            lost: lost_on_arrival(up.received_packets, up.ingress_loss),
            jitter_ms: up.ingress_jitter.map(whole_millis),
            // Without a connection, as for RTMP encoders, only the tracks are measured.
            kbps: bitrate(up.received_bytes, &up).unwrap_or_else(|| kilobits(sent_bits)),
            ..direction(&sent)
        };
        let received = DirectionSample {
            packets: down.sent_packets,
            lost: share(down.sent_packets, down.egress_loss.mean()),
            jitter_ms: down.egress_jitter.map(whole_millis),
            kbps: bitrate(down.sent_bytes, &down).unwrap_or_default(),
            ..direction(&received)
        };
        let (connection, client_address) = self.candidate_pair(publisher, subscriber);
        let estimate = self
            .connections
            .get(subscriber)
            .and_then(|transport| transport.estimation().estimate());
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        let measured = QualitySample {
            millis,
            // The worse connection determines the quality.
            score: [up, down].iter().filter_map(mean_score).min(),
            round_trip_ms: [up, down].iter().filter_map(mean_round_trip).max(),
            estimate_kbps: estimate.map(|estimate| kilobits(estimate.as_u64())),
            connection,
            sent,
            received,
            ..QualitySample::default()
        };
        let (sample, summary) = peer.meter.add(measured, is_last, self.now);
        let Some(room) = self.roster.room(room) else {
            return;
        };
        self.outputs.report_quality(QualityReport {
            room: room.name().clone(),
            peer: sid,
            client_address,
            sample,
            summary,
            is_last,
        });
    }

    /// Returns the videos that a participant publishes, and its bits per second.
    fn measure_published(&mut self, key: PeerKey) -> (VideoMeter, u64) {
        let (mut video, mut bits) = (VideoMeter::default(), 0);
        let Some(peer) = self.roster.get(key) else {
            return (video, bits);
        };
        for track in &peer.published {
            let Some(track) = self.tracks.get_mut(*track) else {
                continue;
            };
            bits += track
                .layers
                .iter()
                .map(|layer| layer.rate.bits_per_second)
                .sum::<u64>();
            let best = track
                .layers
                .iter()
                .rposition(|layer| layer.is_live(self.now));
            // All are reset, and the best one counts: it has the resolution that receivers could get.
            let counts: Vec<_> = track
                .layers
                .iter_mut()
                .map(|layer| layer.frames.take())
                .collect();
            if let Some(best) = best.filter(|_| track.medium() == TrackMedium::Video) {
                video.add(track.source, track.layer_size(best), counts[best]);
            }
        }
        (video, bits)
    }

    /// Returns the videos that a participant receives.
    fn measure_received(&mut self, key: PeerKey) -> VideoMeter {
        let mut video = VideoMeter::default();
        let Some(peer) = self.roster.get(key) else {
            return video;
        };
        for track in peer.sections.sent() {
            let Some(track) = self.tracks.get_mut(track) else {
                continue;
            };
            let Some((layer, counts, switches)) = take_frames(track, key) else {
                continue;
            };
            video.switches = video.switches.saturating_add(switches);
            if track.medium() == TrackMedium::Video {
                let size = layer.map_or((0, 0), |layer| track.layer_size(layer));
                video.add(track.source, size, counts);
            }
        }
        video
    }

    /// Returns a connection's measurements since the last sample.
    fn take_link(&mut self, key: TransportKey) -> LinkMeter {
        // Encoders without a connection, and dual mode before the first offer, have none.
        self.connections
            .get_mut(key)
            .map(Transport::take_meter)
            .unwrap_or_default()
    }

    /// Returns the way of a participant's packets and the client's address, from the connection that is established.
    fn candidate_pair(
        &self,
        publisher: TransportKey,
        subscriber: TransportKey,
    ) -> (Option<MediaConnection>, Option<IpAddr>) {
        let pair = [subscriber, publisher].into_iter().find_map(|key| {
            let stats = self.connections.get(key)?.stats()?;
            stats.selected_candidate_pair.as_ref()
        });
        let connection = pair.map(|pair| match pair.protocol {
            Protocol::Udp => MediaConnection::Udp,
            _ => MediaConnection::Tcp,
        });
        (connection, pair.map(|pair| pair.remote.addr.ip()))
    }
}

/// Returns the layer that a receiver gets, with its frames and layer changes since the last sample.
fn take_frames(
    track: &mut PublishedTrack,
    key: PeerKey,
) -> Option<(Option<usize>, FrameCounts, u32)> {
    let subscription = track.subscription_of(key)?;
    Some((
        subscription.choice.current,
        subscription.frames.take(),
        std::mem::take(&mut subscription.switches),
    ))
}

fn share(packets: u32, share: f32) -> u32 {
    // A float keeps 24 bits, which is enough for an estimate.
    (packets as f32 * share).round() as u32
}

/// Returns the number of lost packets, given the number of arrived packets.
fn lost_on_arrival(arrived: u32, loss: MeanShare) -> u32 {
    // The share `loss` of a total is lost, and the rest arrives. The limit keeps the quotient finite.
    let loss = loss.mean().min(0.99);
    share(arrived, loss / (1.0 - loss))
}

/// Returns a mean bitrate in kbit/s; `None` if nothing was measured.
fn bitrate(bytes: u64, link: &LinkMeter) -> Option<u32> {
    let millis = u64::try_from(link.time.as_millis()).unwrap_or(u64::MAX);
    // Bits per millisecond are kilobits per second.
    let kbps = bytes.saturating_mul(8).checked_div(millis)?;
    Some(u32::try_from(kbps).unwrap_or(u32::MAX))
}

/// Returns the mean score in hundredths.
fn mean_score(link: &LinkMeter) -> Option<u32> {
    let (sum, count) = link.scores;
    (count > 0).then(|| (sum / f32::from(count) * 100.0).round() as u32)
}

/// Returns the mean round-trip time in milliseconds.
fn mean_round_trip(link: &LinkMeter) -> Option<u32> {
    let (sum, count) = link.round_trips;
    (count > 0).then(|| whole_millis(sum / count))
}

fn whole_millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
