//! The arithmetic of forwarding: what a receiver sees of several sources is one unbroken stream.
//!
//! Everything here is a value without I/O. A [`Rewriter`] belongs to a source (SSRC) that the server sends: SRTP's replay
//! protection discards packets whose numbers restart.

mod dependency;
mod h26x;
mod layers;
mod numbers;
mod packet;
mod rewriter;
mod vp8;
mod vp9;

#[cfg(test)]
pub use dependency::tests::{descriptor_of, independent_descriptor_of};

pub use dependency::{DependencyDescriptor, MAX_DESCRIPTOR};
pub use layers::{FrameLayer, LayerFilter, LayerLimit, LayeredPacket, SpatialLayers};
pub use numbers::SequenceNumbers;
pub use packet::{LayerReader, MediaPacket};
pub use rewriter::{Rewriter, Rewritten};
pub use vp9::Vp9Descriptor;
