//! The arithmetic of forwarding: what a receiver sees of several sources is one unbroken stream.
//!
//! Everything here is a value without I/O. A [`Rewriter`] belongs to a source (SSRC) that the server sends: SRTP's replay
//! protection discards packets whose numbers restart.

mod allocation;
mod capacity;
mod codec_choice;
mod counter;
mod dependency;
mod frame_numbers;
mod h264;
mod h265;
mod key_frame;
mod layer_reader;
mod layers;
mod overload;
mod packet;
mod picture_ids;
mod quality;
mod quality_use;
mod rate;
mod rewriter;
mod sequence;
mod speakers;
mod stagnation;
mod timestamp;
mod vp8;
mod vp9;

#[cfg(test)]
mod properties;
#[cfg(test)]
pub use dependency::tests::{descriptor_of, independent_descriptor_of};

pub use allocation::{LayerRate, VideoDemand, allocate};
pub use capacity::Capacity;
pub use codec_choice::{CodecChoice, OfferedCodec, choose_codec};
pub use dependency::{DependencyDescriptor, MAX_DESCRIPTOR};
pub use key_frame::KeyFrameRequests;
pub use layer_reader::LayerReader;
pub use layers::{FrameLayer, LayerFilter, LayerLimit, LayeredPacket, SpatialLayers};
pub use overload::{GROUPS, Overload};
pub use packet::MediaPacket;
pub use quality::LinkQuality;
pub use quality_use::QualityUse;
pub use rate::{RateMeter, kilobits};
pub use rewriter::{Rewriter, Rewritten};
pub use sequence::SequenceNumbers;
pub use speakers::{SpeechDetector, WINDOW_MILLISECONDS};
pub use stagnation::Stagnation;
pub use vp9::Vp9Descriptor;
