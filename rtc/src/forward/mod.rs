//! The arithmetic of forwarding: what a receiver sees of several sources is one unbroken stream.
//!
//! Everything here is a value without I/O. A [`Rewriter`] belongs to a source (SSRC) that the server sends: SRTP's replay
//! protection discards packets whose numbers restart.

mod allocation;
mod capacity;
mod h264;
mod key_frame;
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

#[cfg(test)]
mod properties;

pub use allocation::{LayerRate, VideoDemand, allocate};
pub use capacity::Capacity;
pub use key_frame::KeyFrameRequests;
pub use overload::{GROUPS, Overload};
pub use packet::MediaPacket;
pub use quality::LinkQuality;
pub use quality_use::QualityUse;
pub use rate::{RateMeter, kilobits};
pub use rewriter::{Rewriter, Rewritten};
pub use speakers::{SpeechDetector, WINDOW_MILLISECONDS};
pub use stagnation::Stagnation;
