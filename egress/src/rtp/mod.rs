//! From RTP packets to frames on the time line of an egress.

mod clock;
mod h264;
mod opus;
mod reorder;
mod track;
mod vp8;

pub use clock::PublisherClock;
pub use h264::{decoder_configuration, units};
pub use opus::{SILENCE, duration as opus_duration};
pub use track::{Frame, TrackReader};
pub use vp8::dimensions as vp8_dimensions;
