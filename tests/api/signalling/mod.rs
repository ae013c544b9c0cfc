//! `/rtc`: WebRTC clients are admitted or rejected before their WebSocket opens. Their media is tested elsewhere.

mod admission;
pub mod client;
mod limits;
