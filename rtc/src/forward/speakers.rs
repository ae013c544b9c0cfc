//! Who is speaking, by the audio levels that clients send with their packets.

/// How long a window of the detection is, in milliseconds.
pub const WINDOW_MILLISECONDS: u32 = 400;

/// Packets at least this loud count as speech, in dBov.
const ACTIVE_DBOV: i8 = -35;

/// How much of a window must be speech, in percent.
const ACTIVE_PERCENT: u32 = 40;

/// How long the sound in a packet is assumed to be, in milliseconds: that of WebRTC's audio packets.
const PACKET_MILLISECONDS: u32 = 20;

/// The levels that are reported are multiples of one over this.
const LEVEL_STEPS: f32 = 8.0;

/// Detects whether one audio track is speech.
#[derive(Debug, Clone, Default)]
pub struct SpeechDetector {
    loud_milliseconds: u32,
    loudest_dbov: Option<i8>,
    smoothed: f32,
}

impl SpeechDetector {
    /// Adds the level of a packet, in dBov: 0 is the loudest, -127 silence.
    pub fn observe(&mut self, dbov: i8) {
        if dbov >= ACTIVE_DBOV {
            self.loud_milliseconds += PACKET_MILLISECONDS;
            self.loudest_dbov = Some(self.loudest_dbov.map_or(dbov, |loudest| loudest.max(dbov)));
        }
    }

    /// Ends a window. Returns the level from 0 to 1 in steps, 0 if the track is not speech. Windows without packets count
    /// as silence.
    pub fn end_window(&mut self) -> f32 {
        let is_speech = self.loud_milliseconds * 100 >= WINDOW_MILLISECONDS * ACTIVE_PERCENT;
        let level = self.loudest_dbov.filter(|_| is_speech).map_or(0.0, linear);
        // An average over two windows bridges the gaps between words.
        self.smoothed += (level - self.smoothed) * 2.0 / 3.0;
        (self.loud_milliseconds, self.loudest_dbov) = (0, None);
        if self.smoothed < linear(ACTIVE_DBOV) {
            self.smoothed = 0.0;
        }
        (self.smoothed * LEVEL_STEPS).ceil() / LEVEL_STEPS
    }
}

fn linear(dbov: i8) -> f32 {
    10_f32.powf(f32::from(dbov) / 20.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(detector: &mut SpeechDetector, loud: usize, dbov: i8) -> f32 {
        (0..loud).for_each(|_| detector.observe(dbov));
        detector.end_window()
    }

    #[test]
    fn speech_is_loud_for_a_part_of_the_window() {
        let mut detector = SpeechDetector::default();
        assert!(window(&mut detector, 7, -10).abs() < f32::EPSILON, "too short");
        assert!(window(&mut detector, 20, -50).abs() < f32::EPSILON, "too quiet");
        let level = window(&mut detector, 8, -10);
        assert!(level > 0.0 && (level * 8.0).fract().abs() < f32::EPSILON, "{level}");
        let louder = window(&mut detector, 20, -1);
        assert!(louder > level && louder <= 1.0, "{louder}");
    }

    #[test]
    fn speech_ends_soon_after_the_last_packet() {
        let mut detector = SpeechDetector::default();
        window(&mut detector, 20, -10);
        let windows = (0..10).take_while(|_| detector.end_window() > 0.0).count();
        assert!(windows <= 4, "{windows}");
    }
}
