//! What reaches the media plane over HTTP, and the addresses by which it is reached. None of it passes the API's frame.
//!
//! - [`signalling`], [`whip`]: WebRTC clients and encoders of the embedded media plane.
//! - [`livekit_webhook`]: the reports of LiveKit.
//! - [`media_url`]: the websocket URL that tokens carry.
//! - [`egress_address`]: the hosts that the media plane may be sent to.

pub mod egress_address;
pub mod livekit_webhook;
pub mod media_url;
pub mod signalling;
pub mod whip;
