//! Layers of a published track: their measurements and their order.

use std::time::{Duration, Instant};

use str0m::media::Rid;

use crate::adapt::MediaPacket;
use crate::allocate::KeyFrameRequests;
use crate::measure::{FrameMeter, RateMeter};
use crate::track::Quality;

/// Layer of a published track.
pub struct PublishedLayer {
    /// RID in the section; `None` without simulcast.
    pub rid: Option<Rid>,
    /// Incoming bitrate.
    pub rate: RateMeter,
    /// Incoming bitrate per temporal layer, lowest first; empty if packets name no temporal layer.
    pub temporal_rates: Vec<RateMeter>,
    /// Video frames.
    pub frames: FrameMeter,
    /// Arrival of the last packet.
    pub last_packet: Option<Instant>,
    /// Arrival of the last key frame.
    pub last_key_frame: Option<Instant>,
    /// Key frame requests.
    pub key_frames: KeyFrameRequests,
}

/// Temporal layers that are measured separately. Higher ones count as the highest.
const TEMPORAL_LAYERS: usize = 4;

/// Time after its last packet for which a layer counts as live.
pub const LIVE: Duration = Duration::from_secs(1);

impl PublishedLayer {
    pub fn new(rid: Option<Rid>, index: usize, now: Instant) -> Self {
        // LiveKit throttles requests with the same intervals. The lowest layer's key frames are small.
        let interval = if index == 0 {
            Duration::from_millis(500)
        } else {
            Duration::from_secs(1)
        };
        Self {
            rid,
            rate: RateMeter::new(now),
            temporal_rates: Vec::new(),
            frames: FrameMeter::default(),
            last_packet: None,
            last_key_frame: None,
            key_frames: KeyFrameRequests::new(interval),
        }
    }

    /// Returns whether the layer has sent recently.
    pub fn is_live(&self, now: Instant) -> bool {
        self.last_packet
            .is_some_and(|last| now.saturating_duration_since(last) < LIVE)
    }

    /// Counts a packet. Returns whether the layer was not live before.
    pub fn record(&mut self, packet: &MediaPacket, now: Instant) -> bool {
        let was_live = self.is_live(now);
        let bytes = packet.payload.len();
        self.rate.add(bytes);
        if !packet.is_audio {
            // Publishers mute, and stop layers without receivers, so a longer gap is no sign of a bad connection.
            if !was_live {
                self.frames.pause();
            }
            self.frames.observe(packet.timestamp, now);
        }
        if let Some(layer) = packet.layer {
            let temporal = usize::from(layer.temporal).min(TEMPORAL_LAYERS - 1);
            // Layers may appear in any order.
            while self.temporal_rates.len() <= temporal {
                self.temporal_rates.push(RateMeter::new(now));
            }
            self.temporal_rates[temporal].add(bytes);
        }
        self.last_packet = Some(now);
        !was_live
    }

    /// Returns the number of temporal layers if all are measured; 0 otherwise.
    pub fn measured_temporal_layers(&self) -> usize {
        // A temporal layer that has just started would seem to cost nothing.
        let are_measured = self
            .temporal_rates
            .iter()
            .all(|rate| rate.mean_bits_per_second > 0);
        if are_measured {
            self.temporal_rates.len()
        } else {
            0
        }
    }

    /// Returns the measurements for the temporal layers up to this one.
    pub fn up_to(&self, temporal: u8) -> &[RateMeter] {
        let end = (usize::from(temporal) + 1).min(self.temporal_rates.len());
        &self.temporal_rates[..end]
    }

    /// Ends a measurement period.
    pub fn roll(&mut self, now: Instant) {
        self.rate.roll(now);
        self.temporal_rates
            .iter_mut()
            .for_each(|rate| rate.roll(now));
    }

    /// Records the start of a key frame.
    pub fn record_key_frame(&mut self, now: Instant) {
        self.last_key_frame = Some(now);
        self.key_frames.satisfy();
    }
}

/// RIDs, lowest layer first: LiveKit's, those in examples for the browser API, and OBS Studio's.
const KNOWN_RIDS: [[&str; 3]; 3] = [["q", "h", "f"], ["l", "m", "h"], ["2", "1", "0"]];

/// Returns simulcast RIDs, lowest layer first. Unknown RIDs keep the order of the offer.
pub fn order_rids(rids: &[String]) -> Vec<Rid> {
    // LiveKit has names for three qualities.
    let mut ordered: Vec<_> = rids.iter().take(Quality::ALL.len()).collect();
    // All RIDs must be from one set: `h` is the middle layer in the first set, and the highest in the second.
    let is_of = |names: &&[&str; 3]| ordered.iter().all(|rid| names.contains(&rid.as_str()));
    if let Some(names) = KNOWN_RIDS.iter().find(is_of) {
        ordered.sort_by_key(|rid| names.iter().position(|name| name == rid));
    }
    ordered
        .into_iter()
        .map(|rid| Rid::from(rid.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_ordered_by_the_names_that_clients_and_encoders_use() {
        for (offered, expected) in [
            (["f", "q", "h"], ["q", "h", "f"]),
            (["h", "m", "l"], ["l", "m", "h"]),
            (["0", "1", "2"], ["2", "1", "0"]),
            (["b", "a", "c"], ["b", "a", "c"]),
        ] {
            let ordered: Vec<_> = order_rids(&offered.map(str::to_owned))
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(ordered, expected);
        }
    }
}
