//! Clients of the media plane.

pub mod egress_address;
pub mod livekit_webhook;
pub mod media_url;
pub mod signalling;
pub mod whip;
