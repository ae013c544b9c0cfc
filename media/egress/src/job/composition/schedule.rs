//! When the pictures and the chunks of sound of a composition are due, in the order of their times.

use std::time::Duration;

use crate::composite::CHUNK;
use crate::output::Media;

/// What is due, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A picture, at its time.
    Picture(u64),
    /// A chunk of sound, at its end: until then, packets of it arrive.
    Chunk(u64),
}

/// The pictures and chunks that are still to be made.
#[derive(Debug)]
pub struct Schedule {
    media: Media,
    /// Pictures per second.
    frame_rate: u32,
    next_picture: u64,
    next_chunk: u64,
}

impl Schedule {
    /// Starts with the first picture and the first chunk.
    pub const fn new(media: Media, frame_rate: u32) -> Self {
        Self {
            media,
            frame_rate,
            next_picture: 0,
            next_chunk: 0,
        }
    }

    /// Returns what is due next up to a moment since the start.
    pub fn next(&self, until: Duration) -> Option<Due> {
        let Media {
            has_video,
            has_audio,
        } = self.media;
        let (picture_at, chunk_end) = (self.next_picture_time(), self.next_chunk_end());
        if has_audio && chunk_end <= until && (!has_video || chunk_end <= picture_at) {
            Some(Due::Chunk(self.next_chunk))
        } else if has_video && picture_at <= until {
            Some(Due::Picture(self.next_picture))
        } else {
            None
        }
    }

    /// Goes on behind what has been made or left out.
    pub const fn pass(&mut self, due: Due) {
        match due {
            Due::Picture(number) => self.next_picture = number + 1,
            Due::Chunk(number) => self.next_chunk = number + 1,
        }
    }

    /// Returns the number of the last picture that was due; `None` if none was.
    pub fn last_picture(&self) -> Option<u64> {
        self.next_picture.checked_sub(1)
    }

    /// Returns when a picture is shown, since the start.
    pub fn picture_time(&self, number: u64) -> Duration {
        Duration::from_micros(number * 1_000_000 / u64::from(self.frame_rate))
    }

    /// Returns when the next picture is shown.
    pub fn next_picture_time(&self) -> Duration {
        self.picture_time(self.next_picture)
    }

    /// Returns when the next chunk is complete.
    pub fn next_chunk_end(&self) -> Duration {
        chunk_time(self.next_chunk + 1)
    }

    /// Returns up to when everything has been made.
    pub fn done(&self) -> Duration {
        if self.media.has_video {
            self.next_picture_time()
        } else {
            chunk_time(self.next_chunk)
        }
    }
}

/// Returns when a chunk is heard, since the start.
pub fn chunk_time(number: u64) -> Duration {
    CHUNK * u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is due up to a moment.
    fn due(schedule: &mut Schedule, until: Duration) -> Vec<Due> {
        std::iter::from_fn(|| {
            let due = schedule.next(until)?;
            schedule.pass(due);
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
    fn pictures_and_chunks_are_due_in_the_order_of_their_times_and_once() {
        use Due::{Chunk, Picture};

        let mut both = schedule(true, true);
        assert_eq!(both.last_picture(), None);
        let expected = [Picture(0), Chunk(0), Chunk(1), Picture(1), Chunk(2)];
        assert_eq!(due(&mut both, Duration::from_millis(79)), expected);
        assert_eq!(due(&mut both, Duration::from_millis(79)), []);
        assert_eq!(
            due(&mut both, Duration::from_millis(80)),
            [Chunk(3), Picture(2)]
        );
        assert_eq!(
            (both.last_picture(), both.done()),
            (Some(2), Duration::from_millis(120))
        );
    }

    #[test]
    fn a_composition_without_video_or_audio_has_only_the_other() {
        let (mut video, mut audio) = (schedule(true, false), schedule(false, true));
        let moment = Duration::from_millis(50);
        assert_eq!(due(&mut video, moment), [Due::Picture(0), Due::Picture(1)]);
        assert_eq!(due(&mut audio, moment), [Due::Chunk(0), Due::Chunk(1)]);
        assert_eq!(
            (video.done(), audio.done()),
            (Duration::from_millis(80), Duration::from_millis(40))
        );
        assert_eq!(audio.last_picture(), None);
    }
}
