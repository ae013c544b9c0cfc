//! The arithmetic of forwarding: what a receiver sees of several sources is one unbroken stream.
//!
//! Everything here is a value without I/O. A [`Rewriter`] belongs to a media section that the server sends on, for as long as
//! that section exists: SRTP's replay protection discards packets whose numbers restart.

mod h264;
mod key_frame;
mod packet;
mod picture_ids;
mod rate;
mod rewriter;
mod sequence;
mod timestamp;

#[cfg(test)]
mod properties;

pub use key_frame::KeyFrameRequests;
pub use packet::MediaPacket;
pub use rate::RateMeter;
pub use rewriter::{Rewriter, Rewritten};
