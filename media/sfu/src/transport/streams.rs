//! A connection's media: its RTP streams in both directions, and the bandwidth to the client.

use std::time::{Duration, Instant};

use str0m::bwe::Bitrate;
use str0m::media::{KeyframeRequestKind, Mid, Pt, Rid};
use str0m::rtp::{RtpWrite, Ssrc};

use super::{LayerKey, TrackKey, Transport};
use crate::adapt::Rewritten;
use crate::allocate::{EstimateUse, Estimation};

/// Packets per sent video that are kept for retransmission: 700 ms of a layer with 1.7 Mbit/s, which is several round
/// trips. Receivers share the payloads; with 200, each of 500 receivers took 10 % more memory.
const RETRANSMISSION_PACKETS: usize = 128;

/// Time for which they are kept: enough to repeat a packet that was lost twice in a congested network with a round trip
/// of half a second. Layers of up to 500 kbit/s have fewer packets in this time.
const RETRANSMISSION_TIME: Duration = Duration::from_secs(2);

/// Maximum share of retransmissions in the sent bitrate; waiting ones beyond it are dropped. 0.5 allows as many
/// retransmissions as new packets. str0m's default of 0.15 allows a low layer a few packets per second, so a burst of
/// losses froze the video until the next key frame.
const RETRANSMISSION_SHARE: f32 = 0.5;

impl Transport {
    /// Returns the layer of an SSRC that was seen before: `Some(None)` if no track claims it.
    pub fn known_layer(&self, ssrc: Ssrc) -> Option<Option<LayerKey>> {
        self.layers.get(&ssrc).copied()
    }

    /// Stores the layer of an SSRC.
    pub fn remember_layer(&mut self, ssrc: Ssrc, layer: Option<LayerKey>) {
        self.layers.insert(ssrc, layer);
    }

    /// Returns the track that arrives on a media section.
    pub fn track_on(&self, mid: Mid) -> Option<TrackKey> {
        self.published.get(&mid).copied()
    }

    /// Adds a track that arrives on a media section.
    pub fn add_track(&mut self, mid: Mid, track: TrackKey) {
        self.published.insert(mid, track);
        // Packets that arrived earlier were remembered as claimed by no track.
        self.layers.clear();
    }

    /// Removes the track from a media section.
    pub fn remove_track(&mut self, mid: Mid) {
        // Layers are cached per SSRC, so each change of a track invalidates them.
        self.published.remove(&mid);
        self.layers.clear();
    }

    /// Sets the SSRCs of the client's retransmissions from its offer, as pairs of original and retransmission.
    pub fn set_retransmissions(&mut self, named: impl Iterator<Item = (u32, u32)>) {
        self.retransmissions = named
            .map(|(source, other)| (Ssrc::from(source), Ssrc::from(other)))
            .collect();
    }

    /// Removes the SSRCs from a section on which nothing is sent, because str0m pads with every SSRC that has
    /// retransmissions. Returns whether they had retransmissions; `None` if there were no SSRCs.
    ///
    /// The next track on the section gets new SSRCs in any case: libwebrtc does not connect a section's receiver to an
    /// SSRC that it heard before the section was inactive, so clients would receive the track but not show it.
    pub fn remove_sources(&mut self, mid: Mid) -> Option<bool> {
        let removed = self.change(|rtc| {
            let mut direct = rtc.direct_api();
            let Some(stream) = direct.stream_tx_by_mid(mid, None) else {
                return Ok(None);
            };
            let (ssrc, has_retransmissions) = (stream.ssrc(), stream.rtx().is_some());
            direct.remove_stream_tx(ssrc);
            Ok(Some(has_retransmissions))
        });
        removed.ok().flatten()
    }

    /// Adds SSRCs to a section that has none, for a track that is about to be sent on it.
    pub fn add_sources(&mut self, mid: Mid, has_retransmissions: bool) {
        if self.rtc.media(mid).is_none() {
            return;
        }
        self.change_or_fail(|rtc| {
            let mut direct = rtc.direct_api();
            if direct.stream_tx_by_mid(mid, None).is_none() {
                let ssrc = direct.new_ssrc();
                let retransmissions =
                    // Random SSRCs can collide, however unlikely that is.
                    std::iter::repeat_with(|| direct.new_ssrc()).find(|other| *other != ssrc);
                direct.declare_stream_tx(
                    ssrc,
                    retransmissions.filter(|_| has_retransmissions),
                    mid,
                    None,
                );
            }
        });
    }

    /// Sets how a section's video packets are sent (immediately), and how many are kept for retransmission. The
    /// publisher has paced them already. If they were paced again by the estimate, most of a key frame would wait, as
    /// would everything while str0m probes.
    pub fn prepare_video(&mut self, mid: Mid) {
        self.change_or_fail(|rtc| {
            if let Some(stream) = rtc.direct_api().stream_tx_by_mid(mid, None) {
                stream.set_unpaced(true);
                stream.set_rtx_cache(
                    RETRANSMISSION_PACKETS,
                    RETRANSMISSION_TIME,
                    Some(RETRANSMISSION_SHARE),
                );
            }
        });
    }

    /// Ends str0m's measurement of the retransmitted share of a section's audio, which is never retransmitted. For each
    /// track, the measurement keeps and sums up the packets of the last second.
    pub fn prepare_audio(&mut self, mid: Mid) {
        self.change_or_fail(|rtc| {
            if let Some(stream) = rtc.direct_api().stream_tx_by_mid(mid, None) {
                stream.set_rtx_cache(0, Duration::ZERO, None);
            }
        });
    }

    /// Returns the media section of a client's SSRC, and its layer.
    pub fn section_of(&mut self, ssrc: Ssrc) -> Option<(Mid, Option<Rid>)> {
        // The direct API needs a mutable reference, but this call changes nothing.
        let mut direct = self.rtc.direct_api();
        direct
            .stream_rx(&ssrc)
            .map(|stream| (stream.mid(), stream.rid()))
    }

    /// Requests repairs of a video's lost packets, in the form that the client offers:
    ///
    /// - As retransmissions (RFC 4588) from the SSRC in the client's offer, unless their packets name the layer
    ///   themselves. Pion names layers in the first packets of each SSRC, but not in retransmissions, and str0m reads
    ///   SSRCs only from descriptions without simulcast.
    /// - As the original packets (RFC 4585). LiveKit's library offers no retransmissions over two connections, and
    ///   str0m would request nothing then.
    pub fn expect_repairs(&mut self, ssrc: Ssrc) {
        let named = self.retransmissions.get(&ssrc).copied();
        self.change_or_fail(|rtc| {
            let mut direct = rtc.direct_api();
            let Some(stream) = direct.stream_rx(&ssrc) else {
                return;
            };
            // str0m requests lost packets only if retransmissions were negotiated.
            stream.suppress_nack(false);
            let (mid, rid, known) = (stream.mid(), stream.rid(), stream.rtx());
            if known.is_none() && named.is_some() {
                direct.expect_stream_rx(ssrc, named, mid, rid);
            }
        });
    }

    /// Requests a layer's key frame. Returns whether the layer has sent yet.
    pub fn request_key_frame(&mut self, mid: Mid, rid: Option<Rid>) -> bool {
        let requested = self.change(|rtc| {
            let mut direct = rtc.direct_api();
            let Some(stream) = direct.stream_rx_by_mid(mid, rid) else {
                return Ok(false);
            };
            stream.request_keyframe(KeyframeRequestKind::Pli);
            Ok(true)
        });
        requested.unwrap_or_default()
    }

    /// Queues a packet on a section's SSRC; it is sent when the connection is driven. Returns whether the section has
    /// an SSRC.
    pub fn write_rtp(&mut self, mid: Mid, packet: RtpWrite) -> bool {
        // Without `change`: a write produces no output before time passes.
        let mut direct = self.rtc.direct_api();
        let Some(stream) = direct.stream_tx_by_mid(mid, None) else {
            return false;
        };
        stream.write_rtp(packet);
        self.meter.sent_packets = self.meter.sent_packets.saturating_add(1);
        true
    }

    /// Queues a packet without payload on a section. `is_nackable`: whether it can be retransmitted. Returns whether
    /// the section has an SSRC.
    pub fn write_empty(
        &mut self,
        mid: Mid,
        payload_type: Pt,
        numbers: &Rewritten,
        now: Instant,
        is_nackable: bool,
    ) -> bool {
        let empty: &[u8] = &[];
        let write = RtpWrite::new(
            payload_type,
            numbers.sequence.into(),
            numbers.timestamp,
            now,
            empty,
        );
        self.write_rtp(mid, write.nackable(is_nackable))
    }

    /// Starts or ends a rest of the bandwidth estimation, during which no video is sent. Returns whether anything
    /// changed.
    pub fn rest(&mut self, is_resting: bool, now: Instant) -> bool {
        let anew = self.estimation.rest(is_resting, now);
        self.estimate_anew(anew);
        anew.is_some()
    }

    /// Processes a bandwidth estimate; `None` if there no longer is one. Returns whether it is used: estimates during a
    /// rest measure audio and padding.
    pub fn record_estimate(&mut self, estimate: Option<Bitrate>, now: Instant) -> bool {
        let observation = self.estimation.observe(estimate, now);
        // Otherwise str0m would raise its padding up to this estimate.
        if observation == EstimateUse::AtRest {
            self.estimate_anew(Some(Bitrate::ZERO));
        }
        observation == EstimateUse::Counts
    }

    /// Returns the capacity of the client's network in bits per second, given the bitrate that is sent now; `None`
    /// without an estimate.
    pub fn update_capacity(&mut self, sent: u64, now: Instant) -> Option<u64> {
        self.estimation.update_capacity(sent, now)
    }

    /// Sets the bitrates to probe for: the next step and the best, in bits per second. Returns whether they changed.
    pub fn set_bitrates(&mut self, next: u64, best: u64, now: Instant) -> bool {
        let changed = self.estimation.set_bitrates(next, best, now);
        if let Some((next, best)) = changed {
            self.change_or_fail(|rtc| {
                rtc.bwe()
                    .set_bitrate(Bitrate::from(next), Bitrate::from(best));
            });
        }
        changed.is_some()
    }

    /// Stops probing until a new video source has settled.
    pub fn settle(&mut self, now: Instant) {
        self.estimation.settle(now);
    }

    /// Raises the estimate to the capacity, if more is about to be sent than the estimate allows.
    pub fn make_room(&mut self, bits_per_second: u64) {
        let anew = self.estimation.make_room(bits_per_second);
        self.estimate_anew(anew);
    }

    /// Resets the estimation if it has not changed for some time although more bandwidth is wanted.
    pub fn leave_stagnation(&mut self, wanted: u64, now: Instant) {
        let anew = self.estimation.leave_stagnation(wanted, now);
        self.estimate_anew(anew);
    }

    /// Returns the bandwidth estimation for the client.
    pub const fn estimation(&self) -> &Estimation {
        &self.estimation
    }

    fn estimate_anew(&mut self, at: Option<Bitrate>) {
        if let Some(at) = at {
            self.change_or_fail(|rtc| rtc.bwe().reset(at));
        }
    }
}
