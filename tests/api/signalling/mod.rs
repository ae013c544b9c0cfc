//! `/rtc`: WebRTC clients are admitted or turned away before their websocket is opened. Their media is tested elsewhere.

mod admission;
pub mod client;
mod limits;
