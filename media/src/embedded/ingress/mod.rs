//! Ingress: encoders that publish into rooms, by RTMP or WHIP.
//!
//! An encoder has no token. It names an ingress endpoint by its stream key, and joins the room of that endpoint as an ordinary
//! participant, in the two phases of every join. The machine of the room decides; what is here brings the media to it.
//!
//! # Reading order
//!
//! 1. [`endpoints`]: the ingress endpoints of a room, and the URLs that encoders are given.
//! 2. [`admission`]: how often a stream key may be tried, when an encoder gives way to another one, and why one is refused.
//! 3. [`encoder`]: the participant of an encoder without a WebRTC connection of its own.
//! 4. [`rtmp`] and [`whip`]: the protocols.
//! 5. [`transcoding`]: ffmpeg, for media that receivers do not play.
//!
//! ```text
//! RTMP ──▶ rtmp ─── H.264 without B pictures ───────────────▶ EncoderPublisher ──▶ media worker
//!            └───── AAC, other video ─▶ transcoding ─▶ ffmpeg ──────▲
//! WHIP ──▶ media worker, as a client that only publishes            │
//!            └───── if the endpoint transcodes: packets ─▶ whip ────┘
//! ```
//!
//! When ffmpeg fails, it is started again. After too many failures the audio of an RTMP encoder is left out, and a stream whose
//! video needs ffmpeg ends with the reason at its endpoint.

pub mod admission;
pub mod encoder;
pub mod endpoints;
pub(super) mod refusal;
pub mod rtmp;
pub(super) mod stream_keys;
pub mod transcoding;
pub mod whip;
