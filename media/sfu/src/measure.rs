//! Bitrates measured from packets.

use std::time::{Duration, Instant};

/// Measures the bitrate of a stream over periods of about a second.
#[derive(Debug, Clone)]
pub struct RateMeter {
    since: Instant,
    bytes: u64,
    /// The bitrate of the last full period, in bits per second.
    pub bits_per_second: u64,
    /// The mean bitrate, in which each period counts a third and all before it the rest: a key frame alone, which can double a
    /// period, hardly changes it. After a pause it begins anew.
    pub mean_bits_per_second: u64,
    /// The highest bitrate of the last periods: each one after it takes an eighth of the difference off. After a pause it begins anew.
    pub peak_bits_per_second: u64,
    /// Packets since the start.
    pub packets: u64,
}

impl RateMeter {
    /// Starts to measure now.
    pub const fn new(now: Instant) -> Self {
        Self {
            since: now,
            bytes: 0,
            bits_per_second: 0,
            mean_bits_per_second: 0,
            peak_bits_per_second: 0,
            packets: 0,
        }
    }

    /// Counts a packet.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.packets += 1;
    }

    /// Returns the bitrate of the last full period in kilobits a second.
    pub fn kbps(&self) -> u32 {
        kilobits(self.bits_per_second)
    }

    /// Ends the period now and starts the next one. Does nothing in the first tenth of a second of a period.
    pub fn roll(&mut self, now: Instant) {
        const SHORTEST: Duration = Duration::from_millis(100);
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < SHORTEST {
            return;
        }
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let was_paused = self.bits_per_second == 0;
        self.bits_per_second = self.bytes.saturating_mul(8000) / milliseconds;
        let mean = (self
            .mean_bits_per_second
            .saturating_mul(2)
            .saturating_add(self.bits_per_second))
            / 3;
        self.mean_bits_per_second = if was_paused {
            self.bits_per_second
        } else {
            mean
        };
        let faded = self.peak_bits_per_second
            - self
                .peak_bits_per_second
                .saturating_sub(self.bits_per_second)
                / 8;
        self.peak_bits_per_second = if was_paused {
            self.bits_per_second
        } else {
            faded.max(self.bits_per_second)
        };
        self.bytes = 0;
        self.since = now;
    }
}

/// Returns a bitrate in kilobits a second.
pub fn kilobits(bits_per_second: u64) -> u32 {
    u32::try_from(bits_per_second / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_period() {
        let start = Instant::now();
        let mut meter = RateMeter::new(start);
        for _ in 0..100 {
            meter.add(1250);
        }
        meter.roll(start + Duration::from_secs(1));
        assert_eq!(meter.bits_per_second, 1_000_000);
        meter.roll(start + Duration::from_secs(2));
        assert_eq!((meter.bits_per_second, meter.packets), (0, 100));
    }

    #[test]
    fn the_mean_follows_slowly_and_begins_anew_after_a_pause() {
        let (start, mut meter) = (Instant::now(), RateMeter::new(Instant::now()));
        let means = [300_000, 300_000, 900_000, 300_000, 0, 600_000]
            .into_iter()
            .zip(1..)
            .map(|(bits, second)| {
                meter.add(bits / 8);
                meter.roll(start + Duration::from_secs(second));
                meter.mean_bits_per_second / 1000
            });
        assert_eq!(means.collect::<Vec<_>>(), [300, 300, 500, 433, 288, 600]);
    }

    #[test]
    fn a_peak_fades_and_begins_anew_after_a_pause() {
        let (start, mut meter) = (Instant::now(), RateMeter::new(Instant::now()));
        let peaks = [300_000, 900_000, 100_000, 100_000, 900_000, 0, 200_000]
            .into_iter()
            .zip(1..)
            .map(|(bits, second)| {
                meter.add(bits / 8);
                meter.roll(start + Duration::from_secs(second));
                meter.peak_bits_per_second / 1000
            });
        assert_eq!(
            peaks.collect::<Vec<_>>(),
            [300, 900, 800, 712, 900, 787, 200]
        );
    }
}
