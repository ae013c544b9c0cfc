//! How good a connection is, from loss and delay.

use std::time::Duration;

use crate::event::ConnectionQuality;

/// Loss and delay of a connection, smoothed over some seconds.
#[derive(Debug, Clone, Default)]
pub struct LinkQuality {
    /// The share of lost packets in the worse direction, 0 to 1.
    loss: f32,
    /// The last round-trip time.
    pub round_trip: Option<Duration>,
}

/// How much of the smoothed loss the last second is.
const WEIGHT: f32 = 0.3;

/// The best score of an Opus call: E-model's R of 93.2.
const BEST_R: f32 = 93.2;

impl LinkQuality {
    /// Adds what a second of the connection was like.
    pub fn observe(&mut self, loss: f32, round_trip: Option<Duration>) {
        self.loss += (loss - self.loss) * WEIGHT;
        self.round_trip = round_trip.or(self.round_trip);
    }

    /// Returns the estimated mean opinion score, 1 to 4.5, by a simplified E-model (ITU-T G.107).
    pub fn score(&self) -> f32 {
        let one_way = self.round_trip.unwrap_or_default().as_secs_f32() * 1000.0 / 2.0;
        let late = (one_way - 177.3).max(0.0);
        let r = (BEST_R - 0.024 * one_way - 0.11 * late - 30.0 * (1.0 + 15.0 * self.loss).ln())
            .clamp(0.0, 100.0);
        1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)
    }

    /// Returns the class of a score.
    pub fn class(score: f32) -> ConnectionQuality {
        match score {
            score if score >= 4.2 => ConnectionQuality::Excellent,
            score if score >= 3.6 => ConnectionQuality::Good,
            _ => ConnectionQuality::Poor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(loss: f32, round_trip: u64) -> ConnectionQuality {
        let mut quality = LinkQuality::default();
        (0..30).for_each(|_| quality.observe(loss, Some(Duration::from_millis(round_trip))));
        LinkQuality::class(quality.score())
    }

    #[test]
    fn loss_and_delay_lower_the_class() {
        assert_eq!(class(0.0, 20), ConnectionQuality::Excellent);
        assert_eq!(class(0.01, 100), ConnectionQuality::Excellent);
        assert_eq!(class(0.05, 50), ConnectionQuality::Good);
        assert_eq!(class(0.3, 50), ConnectionQuality::Poor);
        assert_eq!(class(0.0, 1500), ConnectionQuality::Poor);
    }
}
