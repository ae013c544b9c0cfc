//! Drawing and mixing for compositions, without I/O.
//!
//! - `layout`: tile positions.
//! - `video_frame`: raw frames, and a video's frame in its tile.
//! - `text`: names and initials on frames. `names` draws the letters.
//! - `audio`: sample queues, mixing, and the active speaker.

mod audio;
mod layout;
mod text;
mod video_frame;

pub use audio::{ActiveSpeaker, CHUNK, CHUNK_SAMPLES, Limiter, SampleQueue};
#[cfg(test)]
pub use layout::fit;
pub use layout::{Rect, grid, speaker_and_others};
pub use text::{draw_initials, draw_tag, initials, initials_size, tag_size};
pub use video_frame::{TileFrame, VideoFrame};
