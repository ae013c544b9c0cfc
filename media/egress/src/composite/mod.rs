//! Pictures and sounds of several participants in one, without I/O.
//!
//! - `layout`: where the tiles of a picture are.
//! - `picture`: planes of pixels, and the picture of a video in its tile.
//! - `text`: names and initials in pictures; `names` draws their letters.
//! - `sound`: samples on one time line, their sum, and the speaker.

mod layout;
mod picture;
mod sound;
mod text;

#[cfg(test)]
pub use layout::fit;
pub use layout::{Rect, grid, speaker_and_others};
pub use picture::{Picture, Shown};
pub use sound::{ActiveSpeaker, CHUNK, CHUNK_SAMPLES, Limiter, SampleQueue};
pub use text::{draw_initials, draw_tag, initials, initials_size, tag_size};
