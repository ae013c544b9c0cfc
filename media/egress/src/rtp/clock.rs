//! Capture times: from RTP timestamps to the egress's time line.

use std::time::{Duration, SystemTime};

use conclave_sfu::{RecordedPacket, SenderReport};

// Clocks drift apart by microseconds per second, so an old minimum becomes wrong.
const WINDOW_MICROS: i64 = 10_000_000;

/// Offset between a publisher's clock and the server's, from the least delayed packets. A
/// participant's tracks share it, which keeps them synchronous however differently they are
/// delayed.
#[derive(Debug, Clone, Default)]
pub struct PublisherClock {
    /// Current window's start and smallest offset, in microseconds.
    current: Option<(i64, i64)>,
    /// Previous window's smallest offset.
    previous: Option<i64>,
}

impl PublisherClock {
    /// Records a packet's arrival and its capture time on the publisher's clock, in microseconds.
    fn observe(&mut self, arrived: i64, captured: i64) {
        let difference = arrived - captured;
        match &mut self.current {
            Some((since, smallest)) if arrived - *since < WINDOW_MICROS => {
                *smallest = difference.min(*smallest);
            }
            Some((_, smallest)) => {
                self.previous = Some(*smallest);
                self.current = Some((arrived, difference));
            }
            None => self.current = Some((arrived, difference)),
        }
    }

    /// Returns the offset to add to the publisher's clock.
    fn difference(&self) -> Option<i64> {
        self.current
            .map(|(_, smallest)| smallest)
            .into_iter()
            // Two windows: right after a change, the current one has too few packets for a good
            // minimum.
            .chain(self.previous)
            .min()
    }
}

/// Clock for a track's layer.
#[derive(Debug, Clone)]
pub struct TrackClock {
    /// RTP clock rate in Hz.
    rate: i64,
    layer: usize,
    /// RTP timestamp and its time in microseconds.
    anchor: Option<(u32, i64)>,
}

impl TrackClock {
    pub const fn new(rate: i64) -> Self {
        Self {
            rate,
            layer: 0,
            anchor: None,
        }
    }

    /// Returns a packet's capture time in microseconds, on the same time line as `arrived`. Before
    /// the first sender report, the first packet counts as not delayed.
    pub fn time(
        &mut self,
        packet: &RecordedPacket,
        arrived: i64,
        publisher: &mut PublisherClock,
    ) -> i64 {
        if self.layer != packet.layer {
            // Layers are separate RTP streams with unrelated timestamps.
            (self.layer, self.anchor) = (packet.layer, None);
        }
        let reported = packet
            .report
            .map(|report| self.captured(packet.timestamp, report));
        if let Some(captured) = reported {
            publisher.observe(arrived, captured);
        }
        let time = match (reported, publisher.difference(), self.anchor) {
            (Some(captured), Some(difference), _) => captured + difference,
            (_, _, Some((timestamp, at))) => at + self.micros(packet.timestamp, timestamp),
            _ => arrived,
        };
        self.anchor = Some((packet.timestamp, time));
        time
    }

    /// Returns the publisher's time for an RTP timestamp, in microseconds.
    fn captured(&self, timestamp: u32, report: SenderReport) -> i64 {
        let since_epoch = report
            .at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        i64::try_from(since_epoch.as_micros()).unwrap_or_default()
            + self.micros(timestamp, report.timestamp)
    }

    /// Returns the microseconds between two timestamps, which must be at most hours apart.
    fn micros(&self, timestamp: u32, since: u32) -> i64 {
        i64::from(timestamp.wrapping_sub(since).cast_signed()) * 1_000_000 / self.rate
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use conclave_sfu::Codec;

    use super::*;

    fn packet(timestamp: u32, report: Option<(u32, u64)>) -> RecordedPacket {
        RecordedPacket {
            track: "TR_1".parse().unwrap(),
            layer: 0,
            codec: Codec::Vp8,
            sequence: 0,
            timestamp,
            is_marked: true,
            is_entry_point: true,
            payload: Arc::default(),
            arrived: Instant::now(),
            report: report.map(|(timestamp, millis)| SenderReport {
                timestamp,
                at: SystemTime::UNIX_EPOCH + Duration::from_millis(millis),
            }),
        }
    }

    #[test]
    fn without_reports_the_first_packet_counts_as_not_delayed() {
        let (mut track, mut publisher) = (TrackClock::new(90_000), PublisherClock::default());
        assert_eq!(
            track.time(&packet(u32::MAX - 899, None), 5_000, &mut publisher),
            5_000
        );
        assert_eq!(
            track.time(&packet(0, None), 90_000, &mut publisher),
            15_000,
            "across the end of the numbers"
        );
    }

    #[test]
    fn tracks_with_reports_are_together_however_they_are_delayed() {
        let mut publisher = PublisherClock::default();
        let (mut audio, mut video) = (TrackClock::new(48_000), TrackClock::new(90_000));
        // Both capture the same moment. The audio arrives 10 ms later, the video 200 ms.
        let heard = audio.time(&packet(48_000, Some((0, 1_000))), 2_010_000, &mut publisher);
        let seen = video.time(
            &packet(900_000, Some((810_000, 1_000))),
            2_200_000,
            &mut publisher,
        );
        assert_eq!((heard, seen), (2_010_000, 2_010_000));
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let (mut track, mut publisher) = (TrackClock::new(90_000), PublisherClock::default());
        let mut late = 0;
        for second in 0..3_600_u32 {
            // The publisher's clock is slow by one ten thousandth.
            let (captured, arrived) = (
                i64::from(second) * 1_000_000,
                i64::from(second) * 1_000_100 + 20_000,
            );
            let report = Some((second * 90_000, u64::try_from(captured / 1_000).unwrap()));
            let time = track.time(&packet(second * 90_000, report), arrived, &mut publisher);
            late = (arrived - time).max(late);
        }
        assert!(late < 5_000, "{late} microseconds");
    }
}
