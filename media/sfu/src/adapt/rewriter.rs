//! A stream's numbers, as one receiver gets them.

use std::time::Instant;

use str0m::rtp::Vp8Patch;

use super::MediaPacket;
use super::numbers::{FrameNumbers, SequenceNumbers, Timestamps};
use super::vp8::{PictureIds, picture_id_mask};

/// Rewrites packets from changing sources into one stream.
#[derive(Debug, Clone)]
pub struct Rewriter {
    sequence: SequenceNumbers,
    timestamps: Timestamps,
    pictures: PictureIds,
    frames: FrameNumbers,
}

/// A packet's numbers in the stream to one receiver.
#[derive(Debug)]
pub struct Rewritten {
    /// Extended sequence number.
    pub sequence: u64,
    /// RTP timestamp.
    pub timestamp: u32,
    /// Change in the VP8 payload descriptor, if any.
    pub vp8_patch: Option<Vp8Patch>,
    /// Frame number for the dependency descriptor, if the packet has one.
    pub frame_number: Option<u16>,
}

impl Rewriter {
    /// Starts a stream at random numbers. The first sequence number is low, so that a receiver that misses the first
    /// packets still counts rollovers correctly.
    pub fn new() -> Self {
        Self {
            // Random, against known-plaintext attacks on the encryption (RFC 3550, section 5.1).
            sequence: SequenceNumbers::new(fastrand::u16(1..1 << 14)),
            timestamps: Timestamps::new(fastrand::u32(..)),
            pictures: PictureIds::default(),
            frames: FrameNumbers::default(),
        }
    }

    /// Continues the stream at this packet with another source, or with the same one after a pause.
    pub fn switch(&mut self, packet: &MediaPacket) {
        self.sequence.switch(packet.sequence);
        self.timestamps
            .switch(packet.timestamp, packet.arrived, packet.clock_rate);
        if let Some(descriptor) = &packet.vp8 {
            self.pictures.switch(descriptor);
        }
        if let Some(number) = packet.frame_number {
            self.frames.switch(number);
        }
    }

    /// Numbers a packet without a source that is sent now.
    pub fn insert(&mut self, now: Instant, clock_rate: u32) -> Rewritten {
        Rewritten {
            sequence: self.sequence.insert(),
            timestamp: self.timestamps.insert(now, clock_rate),
            vp8_patch: None,
            frame_number: None,
        }
    }

    /// Skips a source's packet, without a gap for the receiver. Returns numbers if a gap exists already, because the
    /// packet is late: the receiver must get an empty packet with them, so that it does not wait for this one.
    pub fn skip(&mut self, packet: &MediaPacket) -> Option<Rewritten> {
        if let Some(descriptor) = &packet.vp8 {
            self.pictures
                .skip(descriptor, picture_id_mask(&packet.payload));
        }
        // Firefox and LiveKit's library show no AV1 after a gap until the next key frame.
        let sequence = self.sequence.skip(packet.sequence)?;
        let timestamp = self.timestamps.rewrite(packet.timestamp, packet.arrived);
        Some(Rewritten {
            sequence,
            timestamp,
            vp8_patch: None,
            frame_number: None,
        })
    }

    /// Numbers a packet from the source; `None` for a late packet from before the last switch.
    pub fn rewrite(&mut self, packet: &MediaPacket) -> Option<Rewritten> {
        Some(Rewritten {
            sequence: self.sequence.rewrite(packet.sequence)?,
            timestamp: self.timestamps.rewrite(packet.timestamp, packet.arrived),
            vp8_patch: packet.vp8.as_ref().and_then(|descriptor| {
                self.pictures
                    .rewrite(descriptor, picture_id_mask(&packet.payload))
                    .patch(descriptor)
            }),
            frame_number: packet
                .frame_number
                .map(|number| self.frames.rewrite(number)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use str0m::rtp::Vp8Descriptor;

    use super::super::vp8::{LONG_IDS, SHORT_IDS};
    use super::*;

    /// A source: initial counters, and the order in which its packets arrive.
    #[derive(Debug, Clone)]
    struct Source {
        sequence: u64,
        timestamp: u32,
        picture_id: u16,
        tl0: u8,
        key_idx: u8,
        /// Positions of the packets that arrive; the first is the entry point.
        arrivals: Vec<u64>,
        /// Time between the source's packets.
        interval: Duration,
    }

    fn source() -> impl Strategy<Value = Source> {
        let start = (
            0..1_000_000_u64,
            any::<u32>(),
            0..0x8000_u16,
            any::<u8>(),
            0..32_u8,
        );
        let arrivals = prop::collection::vec(0..4_u64, 1..60).prop_map(|steps| {
            // Steps of 0 to 3 with a swap now and then: losses, duplicates and reordering.
            let mut at = 0;
            let mut arrivals = vec![0];
            for step in steps {
                at += step;
                arrivals.push(if step == 3 { at - 1 } else { at });
            }
            arrivals
        });
        (start, arrivals, 1..50_u64).prop_map(
            |((sequence, timestamp, picture_id, tl0, key_idx), arrivals, interval)| Source {
                sequence,
                timestamp,
                picture_id,
                tl0,
                key_idx,
                arrivals,
                interval: Duration::from_millis(interval),
            },
        )
    }

    impl Source {
        /// The packet at this position: one VP8 frame with all counters.
        fn packet(&self, position: u64, arrived: Instant) -> MediaPacket {
            let step = u16::try_from(position).unwrap();
            let picture_id = self.picture_id.wrapping_add(step) & 0x7fff;
            let [high, low] = (picture_id | 0x8000).to_be_bytes();
            let tl0 = self.tl0.wrapping_add(step.to_le_bytes()[0]);
            let payload = [0x90, 0xf0, high, low, tl0, self.key_idx & 0x1f, 0, 1, 2];
            let ticks = u32::try_from(self.interval.as_millis()).unwrap() * 90 * u32::from(step);
            MediaPacket {
                sequence: self.sequence + position,
                timestamp: self.timestamp.wrapping_add(ticks),
                payload: payload[..].into(),
                primary: None,
                arrived,
                is_audio: false,
                clock_rate: 90_000,
                vp8: Some(Vp8Descriptor::parse(&payload).unwrap()),
                vp9: None,
                layer: None,
                frame_number: None,
                is_entry_point: position == 0,
            }
        }
    }

    /// Returns how far `to` is ahead of `from` in a counter with this number of bits; negative if it is behind.
    fn ahead(from: u64, to: u64, bits: u32) -> i64 {
        let size = 1_i64 << bits;
        let distance = i64::try_from(to.wrapping_sub(from) & ((1 << bits) - 1)).unwrap();
        if distance >= size / 2 {
            distance - size
        } else {
            distance
        }
    }

    proptest! {
        #[test]
        fn sequence_numbers_and_timestamps_go_on_across_switches(
            sources in prop::collection::vec(source(), 1..8), pauses in prop::collection::vec(0..5000_u64, 8),
        ) {
            let mut rewriter = Rewriter::new();
            let mut now = Instant::now();
            let mut newest: Option<(u64, u32)> = None;
            for (source, pause) in sources.iter().zip(pauses) {
                now += Duration::from_millis(pause);
                rewriter.switch(&source.packet(0, now));
                let mut first = None;
                for position in &source.arrivals {
                    let packet = source.packet(*position, now);
                    let sent = rewriter.rewrite(&packet).expect("no packet is older than the entry point");
                    let (sequence, timestamp) = *first.get_or_insert((sent.sequence, sent.timestamp));
                    prop_assert_eq!(sent.sequence - sequence, *position, "the source's gaps remain");
                    let ticks = u32::try_from(source.interval.as_millis() as u64 * 90 * position).unwrap();
                    prop_assert_eq!(sent.timestamp.wrapping_sub(timestamp), ticks, "the source's pace remains");
                    now += source.interval;
                }
                let (sequence, timestamp) = first.unwrap();
                if let Some((last_sequence, last_timestamp)) = newest {
                    prop_assert_eq!(sequence, last_sequence + 1, "a switch leaves no gap and repeats no number");
                    prop_assert!(ahead(last_timestamp.into(), timestamp.into(), 32) > 0, "timestamps increase");
                }
                let last = source.arrivals.iter().max().unwrap();
                let ticks = u32::try_from(source.interval.as_millis() as u64 * 90 * last).unwrap();
                newest = Some((sequence + last, timestamp.wrapping_add(ticks)));
            }
        }

        #[test]
        fn late_packets_from_before_a_switch_are_dropped(old in source(), new in source(), late in 1..100_u64) {
            let now = Instant::now();
            let mut rewriter = Rewriter::new();
            rewriter.switch(&old.packet(0, now));
            rewriter.rewrite(&old.packet(0, now));
            let entry = new.packet(0, now);
            rewriter.switch(&entry);
            let from_before = MediaPacket { sequence: entry.sequence.saturating_sub(late), ..entry.clone() };
            prop_assert_eq!(rewriter.rewrite(&from_before).is_some(), from_before.sequence == entry.sequence);
        }

        #[test]
        fn picture_ids_go_on_across_switches(sources in prop::collection::vec(source(), 1..8)) {
            let mut pictures = PictureIds::default();
            let mut newest: Option<[u64; 3]> = None;
            for source in &sources {
                let entry = source.packet(0, Instant::now());
                pictures.switch(entry.vp8.as_ref().unwrap());
                let mut first = None;
                for position in &source.arrivals {
                    let packet = source.packet(*position, Instant::now());
                    let counters = rewritten(&mut pictures, &packet);
                    let [picture_id, tl0, key_idx] = *first.get_or_insert(counters);
                    prop_assert_eq!(counters[0], (picture_id + position) & 0x7fff);
                    prop_assert_eq!(counters[1], (tl0 + position) & 0xff);
                    prop_assert_eq!(counters[2], key_idx);
                }
                let [picture_id, tl0, key_idx] = first.unwrap();
                if let Some(last) = newest {
                    prop_assert_eq!(ahead(last[0], picture_id, 15), 1);
                    prop_assert_eq!(ahead(last[1], tl0, 8), 1);
                    prop_assert_eq!(ahead(last[2], key_idx, 5), 1);
                }
                let last = source.arrivals.iter().max().unwrap();
                newest = Some([(picture_id + last) & 0x7fff, (tl0 + last) & 0xff, key_idx]);
            }
        }
    }

    /// The counters of a packet as the receiver sees them.
    fn rewritten(pictures: &mut PictureIds, packet: &MediaPacket) -> [u64; 3] {
        let descriptor = packet.vp8.as_ref().unwrap();
        let counters = pictures.rewrite(descriptor, LONG_IDS);
        assert!(
            counters.patch(descriptor).is_some(),
            "the descriptor has room for {counters:?}"
        );
        [
            counters.picture_id.unwrap().into(),
            counters.tl0_pic_idx.unwrap().into(),
            counters.key_idx.unwrap().into(),
        ]
    }

    #[test]
    fn a_picture_id_of_seven_bits_stays_one_of_seven_bits() {
        let mut pictures = PictureIds::default();
        let descriptor = Vp8Descriptor::parse(&[0x90, 0x80, 0x05, 0]).unwrap();
        // The source before had 15-bit ids.
        pictures.switch(&Vp8Descriptor::parse(&[0x90, 0x80, 0x81, 0x02, 0]).unwrap());
        assert!(
            pictures
                .rewrite(&descriptor, SHORT_IDS)
                .patch(&descriptor)
                .is_some()
        );
    }

    proptest! {
        /// Skipped frames leave no gap, whatever the width of the ids; TL0PICIDX and KEYIDX keep the source's values.
        #[test]
        fn skipped_pictures_leave_no_gap_in_picture_ids(
            first in 0..0x8000_u16, is_long in any::<bool>(), is_skipped in prop::collection::vec(any::<bool>(), 1..300),
        ) {
            let mask = if is_long { LONG_IDS } else { SHORT_IDS };
            let descriptor = |id: u16| {
                let [high, low] = (id & mask | if is_long { 0x8000 } else { 0 }).to_be_bytes();
                let id = if is_long { vec![high, low] } else { vec![low] };
                let payload = [&[0x90, 0x80][..], &id, &[0, 1]].concat();
                assert_eq!(picture_id_mask(&payload), mask);
                Vp8Descriptor::parse(&payload).unwrap()
            };
            let mut pictures = PictureIds::default();
            pictures.switch(&descriptor(first));
            let mut last = pictures.rewrite(&descriptor(first), mask).picture_id.unwrap();
            for (id, is_skipped) in (1..).map(|step| first.wrapping_add(step)).zip(is_skipped) {
                if is_skipped {
                    pictures.skip(&descriptor(id), mask);
                    continue;
                }
                // All packets of a frame have one id.
                for _ in 0..2 {
                    let sent = pictures.rewrite(&descriptor(id), mask).picture_id.unwrap();
                    prop_assert_eq!(sent & mask, (last + 1) & mask);
                }
                last = (last + 1) & LONG_IDS;
            }
        }
    }
}
