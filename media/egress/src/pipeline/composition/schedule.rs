//! Due times for a composition's frames and audio chunks.

use std::time::Duration;

use crate::composite::CHUNK;
use crate::output::Media;

/// Next item to compose, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Video frame, due at its time.
    VideoFrame(u64),
    /// Audio chunk, due at its end, when its packets have arrived.
    AudioChunk(u64),
}

/// Frames and chunks still to be composed.
#[derive(Debug)]
pub struct Schedule {
    media: Media,
    /// Frames per second.
    frame_rate: u32,
    next_frame: u64,
    next_chunk: u64,
}

impl Schedule {
    /// Starts with frame 0 and chunk 0.
    pub const fn new(media: Media, frame_rate: u32) -> Self {
        Self {
            media,
            frame_rate,
            next_frame: 0,
            next_chunk: 0,
        }
    }

    /// Returns the next item due up to `until`, since the start.
    pub fn next(&self, until: Duration) -> Option<Due> {
        let Media {
            has_video,
            has_audio,
        } = self.media;
        let (frame_at, chunk_end) = (self.next_frame_time(), self.next_chunk_end());
        // The encoder interleaves by time, so the earlier item has to be written first.
        if has_audio && chunk_end <= until && (!has_video || chunk_end <= frame_at) {
            Some(Due::AudioChunk(self.next_chunk))
        } else if has_video && frame_at <= until {
            Some(Due::VideoFrame(self.next_frame))
        } else {
            None
        }
    }

    /// Advances past an item that was composed or dropped.
    pub const fn advance(&mut self, due: Due) {
        match due {
            Due::VideoFrame(number) => self.next_frame = number + 1,
            Due::AudioChunk(number) => self.next_chunk = number + 1,
        }
    }

    pub fn frame_time(&self, number: u64) -> Duration {
        // Multiplied first: a rounded frame duration would drift from the audio by seconds per day.
        Duration::from_micros(number * 1_000_000 / u64::from(self.frame_rate))
    }

    pub fn next_frame_time(&self) -> Duration {
        self.frame_time(self.next_frame)
    }

    pub fn next_chunk_end(&self) -> Duration {
        chunk_time(self.next_chunk + 1)
    }

    /// Returns the time up to which everything has been composed.
    pub fn done(&self) -> Duration {
        if self.media.has_video {
            self.next_frame_time()
        } else {
            chunk_time(self.next_chunk)
        }
    }
}

/// Returns when a chunk starts, since the egress's start.
pub fn chunk_time(number: u64) -> Duration {
    CHUNK * u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all items due up to a moment.
    fn due(schedule: &mut Schedule, until: Duration) -> Vec<Due> {
        std::iter::from_fn(|| {
            let due = schedule.next(until)?;
            schedule.advance(due);
            Some(due)
        })
        .collect()
    }

    fn schedule(has_video: bool, has_audio: bool) -> Schedule {
        let media = Media {
            has_video,
            has_audio,
        };
        Schedule::new(media, 25)
    }

    #[test]
    fn frames_and_chunks_are_due_once_in_the_order_of_their_times() {
        use Due::{AudioChunk, VideoFrame};

        let mut both = schedule(true, true);
        let expected = [
            VideoFrame(0),
            AudioChunk(0),
            AudioChunk(1),
            VideoFrame(1),
            AudioChunk(2),
        ];
        assert_eq!(due(&mut both, Duration::from_millis(79)), expected);
        assert_eq!(due(&mut both, Duration::from_millis(79)), []);
        assert_eq!(
            due(&mut both, Duration::from_millis(80)),
            [AudioChunk(3), VideoFrame(2)]
        );
        assert_eq!(both.done(), Duration::from_millis(120));
    }

    #[test]
    fn a_composition_without_video_or_audio_has_only_the_other() {
        let (mut video, mut audio) = (schedule(true, false), schedule(false, true));
        let moment = Duration::from_millis(50);
        assert_eq!(
            due(&mut video, moment),
            [Due::VideoFrame(0), Due::VideoFrame(1)]
        );
        assert_eq!(
            due(&mut audio, moment),
            [Due::AudioChunk(0), Due::AudioChunk(1)]
        );
        assert_eq!(
            (video.done(), audio.done()),
            (Duration::from_millis(80), Duration::from_millis(40))
        );
    }
}
