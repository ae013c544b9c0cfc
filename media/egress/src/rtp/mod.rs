//! From RTP packets to frames on the time line of an egress.

mod assembly;
mod av1;
mod clock;
mod h264;
mod h265;
mod nal_units;
mod opus;
mod picture_size;
mod reorder;
mod track;
mod vp8;
mod vp9;

pub use clock::PublisherClock;
pub use opus::{SILENCE, duration as opus_duration};
pub use picture_size::{Announced, MAX_PIXELS, of_units};
pub use track::{Frame, TrackReader};

use conclave_sfu::Codec;

/// Returns the configuration that a container needs of the decoder of a video which begins with this frame, empty if the codec needs none;
/// `None` if the frame does not say it.
pub fn configuration(codec: Codec, frame: &[u8]) -> Option<Vec<u8>> {
    match codec {
        Codec::Opus | Codec::Vp8 | Codec::Vp9 => Some(Vec::new()),
        Codec::Av1 => av1::decoder_configuration(frame),
        Codec::H264 => h264::decoder_configuration(frame),
        Codec::H265 => h265::decoder_configuration(frame),
    }
}
