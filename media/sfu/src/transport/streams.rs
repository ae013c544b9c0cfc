//! The media of a connection: its sources in both directions, and the bandwidth to the client.

use std::time::{Duration, Instant};

use str0m::bwe::Bitrate;
use str0m::media::{KeyframeRequestKind, Mid, Pt, Rid};
use str0m::rtp::{RtpWrite, Ssrc};

use super::{LayerKey, TrackKey, Transport};
use crate::adapt::Rewritten;
use crate::allocate::{Estimation, Observation};

/// How many packets are kept for retransmission, for each video that is sent: 700 ms of a layer of 1.7 Mbit/s, so several round
/// trips. The payloads are shared by all receivers, but 200 took a tenth more memory for each of 500.
const RETRANSMISSION_PACKETS: usize = 128;

/// How long they are kept: until a packet that was lost twice in a congested network, with a round trip of half a second, has
/// been repeated. Layers of up to 500 kbit/s have fewer packets in this time.
const RETRANSMISSION_TIME: Duration = Duration::from_secs(2);

/// Retransmissions that are waiting are dropped when they exceed this share of what is sent: as much as new packets. str0m's
/// 0.15 is a few packets a second of a low layer, so that a burst of losses froze the picture until the next key frame.
const RETRANSMISSION_SHARE: f32 = 0.5;

impl Transport {
    /// Returns the layer of a source that has been seen: `Some(None)` for one that no track claims.
    pub fn known_layer(&self, ssrc: Ssrc) -> Option<Option<LayerKey>> {
        self.layers.get(&ssrc).copied()
    }

    /// Keeps the layer of a source.
    pub fn remember_layer(&mut self, ssrc: Ssrc, layer: Option<LayerKey>) {
        self.layers.insert(ssrc, layer);
    }

    /// Returns the track that arrives on a section.
    pub fn track_on(&self, mid: Mid) -> Option<TrackKey> {
        self.published.get(&mid).copied()
    }

    /// Lets a track arrive on a section. Packets that came before were remembered as claimed by no track.
    pub fn add_track(&mut self, mid: Mid, track: TrackKey) {
        self.published.insert(mid, track);
        self.layers.clear();
    }

    /// Lets no track arrive on a section any more.
    pub fn remove_track(&mut self, mid: Mid) {
        self.published.remove(&mid);
        self.layers.clear();
    }

    /// Sets where the retransmissions of the client come from, as its offer says: for each source that of its retransmissions.
    pub fn set_retransmissions(&mut self, named: impl Iterator<Item = (u32, u32)>) {
        self.retransmissions = named
            .map(|(source, other)| (Ssrc::from(source), Ssrc::from(other)))
            .collect();
    }

    /// Takes the sources from a section on which nothing is sent, since str0m pads with those that have retransmissions. Returns
    /// whether it had any, and they retransmissions. The next track on the section gets new ones in any case: libwebrtc does not
    /// connect the receiver of a section to a source that it has heard before the section was inactive, so clients would receive and
    /// not show it.
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

    /// Gives a section sources unless it has some, for a track that is going to be sent on it.
    pub fn add_sources(&mut self, mid: Mid, has_retransmissions: bool) {
        if self.rtc.media(mid).is_none() {
            return;
        }
        self.change_or_fail(|rtc| {
            let mut direct = rtc.direct_api();
            if direct.stream_tx_by_mid(mid, None).is_none() {
                let ssrc = direct.new_ssrc();
                let retransmissions =
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

    /// Sets how the packets of a video are sent on a section: at once, and how many are kept for retransmission. The publisher
    /// has paced them. Paced again by the estimate, most of a key frame would wait, and all that comes while a probe is sent.
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

    /// Returns the section of a source of the client, and the layer in it.
    pub fn section_of(&mut self, ssrc: Ssrc) -> Option<(Mid, Option<Rid>)> {
        // This looks it up only, and changes nothing.
        let mut direct = self.rtc.direct_api();
        direct
            .stream_rx(&ssrc)
            .map(|stream| (stream.mid(), stream.rid()))
    }

    /// Requests the lost packets of a video's source. They come as retransmissions from where the client's offer says, unless those name the
    /// layer themselves: Pion names layers in the first packets of each source, and not in retransmissions, and str0m reads sources only from
    /// descriptions without simulcast. Or they come again as they were (RFC 4585): LiveKit's library offers no retransmissions over two
    /// connections, and str0m requests nothing then.
    pub fn expect_repairs(&mut self, ssrc: Ssrc) {
        let named = self.retransmissions.get(&ssrc).copied();
        self.change_or_fail(|rtc| {
            let mut direct = rtc.direct_api();
            let Some(stream) = direct.stream_rx(&ssrc) else {
                return;
            };
            stream.suppress_nack(false);
            let (mid, rid, known) = (stream.mid(), stream.rid(), stream.rtx());
            if known.is_none() && named.is_some() {
                direct.expect_stream_rx(ssrc, named, mid, rid);
            }
        });
    }

    /// Requests a key frame of a layer. Returns whether that has sent yet.
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

    /// Puts a packet into the queue of a section's source; it is sent when the connection is driven. Returns whether there is one.
    pub fn write_rtp(&mut self, mid: Mid, packet: RtpWrite) -> bool {
        let mut direct = self.rtc.direct_api();
        let Some(stream) = direct.stream_tx_by_mid(mid, None) else {
            return false;
        };
        stream.write_rtp(packet);
        true
    }

    /// Writes a packet without a payload for a section, which is sent again on request or not. Returns whether there is a source for it.
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

    /// Lets the estimation of the bandwidth rest while no video is to be sent, and go on from where it was. Returns whether something
    /// has changed.
    pub fn rest(&mut self, is_resting: bool, now: Instant) -> bool {
        let anew = self.estimation.rest(is_resting, now);
        self.estimate_anew(anew);
        anew.is_some()
    }

    /// Takes an estimate of the bandwidth, `None` if there is none any more. Returns whether it counts: at rest it is about sound and
    /// padding.
    pub fn note_estimate(&mut self, estimate: Option<Bitrate>, now: Instant) -> bool {
        let observation = self.estimation.observe(estimate, now);
        if observation == Observation::AtRest {
            self.estimate_anew(Some(Bitrate::ZERO));
        }
        observation == Observation::Counts
    }

    /// Returns what the network to the client carries while so much is sent, in bits per second; `None` without an estimate.
    pub fn update_capacity(&mut self, sent: u64, now: Instant) -> Option<u64> {
        self.estimation.update_capacity(sent, now)
    }

    /// Tells the estimation which bitrates are to be tried: the next step and the best, in bits per second. Returns whether they are
    /// others than before.
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

    /// Tries no more bandwidth until a new source of video has settled.
    pub fn settle(&mut self, now: Instant) {
        self.estimation.settle(now);
    }

    /// Lets the estimation allow what is going to be sent, if the network has carried as much.
    pub fn make_room(&mut self, bits_per_second: u64) {
        let anew = self.estimation.make_room(bits_per_second);
        self.estimate_anew(anew);
    }

    /// Lets the estimation start anew if it has not changed for some time although more is wanted.
    pub fn leave_stagnation(&mut self, wanted: u64, now: Instant) {
        let anew = self.estimation.leave_stagnation(wanted, now);
        self.estimate_anew(anew);
    }

    /// Returns the estimation of the bandwidth to the client.
    pub const fn estimation(&self) -> &Estimation {
        &self.estimation
    }

    fn estimate_anew(&mut self, at: Option<Bitrate>) {
        if let Some(at) = at {
            self.change_or_fail(|rtc| rtc.bwe().reset(at));
        }
    }
}
