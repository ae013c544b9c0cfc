//! Ingress: encoders that publish into rooms, by RTMP or WHIP.
//!
//! An encoder has no room token. Its stream key selects an ingress endpoint, and the encoder joins the endpoint's room as an ordinary
//! participant, in the two phases of every [`join`](super::join). The room state decides; this module brings the media to it.
//!
//! # Dramatis personae
//!
//! - [`endpoints`]: a room's ingress endpoints, and the publish URLs for encoders.
//! - [`admission`]: the decision on a stream key, including when an encoder loses its seat to another. [`stream_keys`]: rate limits for
//!   attempts. [`refusal`]: the reasons for a refusal.
//! - [`encoder`]: the participant of an encoder whose packets come from this process instead of a WebRTC connection.
//! - [`rtmp`] and [`whip`]: the protocols.
//! - [`transcoding`]: ffmpeg processes for media that receivers cannot play.
//!
//! ```text
//! RTMP ──▶ rtmp ─── H.264 without B-frames ─────────────────▶ EncoderPublisher ──▶ media worker
//!            └───── AAC, other video ─▶ transcoding ─▶ ffmpeg ──────▲
//! WHIP ──▶ media worker, as a client that only publishes            │
//!            └───── if the endpoint transcodes: packets ─▶ whip ────┘
//! ```
//!
//! # A stream
//!
//! 1. The encoder connects with a stream key. The key's hash is looked up, at a limited rate, and names endpoint and room.
//! 2. The join is requested, as for any client: the control plane refuses it if the room is full or has ended.
//! 3. The endpoint is buffering while the media connects, and publishing once a track is published.
//! 4. Video that receivers can play is forwarded unchanged. Everything else passes through ffmpeg, one
//!    process per medium, whose input is FLV from RTMP or Matroska from WHIP.
//! 5. When the encoder stops, the endpoint is inactive again. If its stream could not be published, the endpoint shows the error.
//!
//! # Failures
//!
//! - *ffmpeg fails.* It is restarted. After too many failures, an RTMP stream continues without its audio; a stream whose video needs
//!   ffmpeg ends, and the endpoint shows the reason.
//! - *The encoder's network fails.* Its connection may take long to time out. An encoder that reconnects with the same key replaces the
//!   old one if it has been silent for [`stream_keys::SILENT`].
//! - *The process restarts.* Endpoints are restored from the control plane's records, without an encoder. Encoders reconnect by
//!   themselves.
//!
//! # Why not simpler
//!
//! ffmpeg could transcode everything, or receive RTMP itself. Forwarding H.264 unchanged saves the CPU time and the latency of
//! that, and an RTMP server in this process can refuse a stream key before any media is read.

pub mod admission;
pub mod encoder;
pub mod endpoints;
pub(super) mod refusal;
pub mod rtmp;
pub(super) mod stream_keys;
pub mod transcoding;
pub mod whip;
