//! HTTP endpoints of the media plane, and the addresses that it uses. None of them pass through the API's frame.
//!
//! - [`signalling`], [`whip`]: WebRTC clients and encoders of the embedded media plane.
//! - [`livekit_webhook`]: LiveKit's reports.
//! - [`media_url`]: the WebSocket URL in tokens.
//! - [`egress_address`]: hosts that the media plane may send to.

pub mod egress_address;
pub mod livekit_webhook;
pub mod media_url;
pub mod signalling;
pub mod whip;
