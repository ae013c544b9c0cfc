//! Pictures and sounds of several participants in one, without I/O.

mod layout;
mod mixer;
mod picture;
mod shown;
mod speaker;
mod text;

#[cfg(test)]
pub use layout::fit;
pub use layout::{Rect, grid, speaker_and_others};
pub use mixer::{CHUNK, CHUNK_SAMPLES, Limiter, SampleQueue};
pub use picture::Picture;
pub use shown::Shown;
pub use speaker::ActiveSpeaker;
pub use text::{draw_initials, draw_tag, initials, initials_size, tag_size};
