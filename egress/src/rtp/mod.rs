//! From RTP packets to frames on the time line of an egress.

mod clock;
mod h264;
mod opus;
mod picture_size;
mod reorder;
mod track;
mod vp8;

pub use clock::PublisherClock;
pub use h264::decoder_configuration;
pub use opus::{SILENCE, duration as opus_duration};
pub use picture_size::{Announced, MAX_PIXELS, of_units};
pub use track::{Frame, TrackReader};
