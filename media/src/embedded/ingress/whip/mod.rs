//! Encoders that publish by WHIP (RFC 9725): WebRTC with the descriptions in HTTP requests.
//!
//! - [`fragment`]: the ICE parameters in the body of a PATCH request.
//! - [`session`]: the state machine of one encoder's session.
//! - [`driver`]: admission, a task for each session, and the calls of the HTTP requests.
//!
//! An encoder is a client of a media worker that only publishes, in one peer connection that it offers. Its join has the two
//! phases of every client's.
//!
//! If the endpoint transcodes, the encoder connects to a private room of a media worker ([`intake`]), as a peer that no other
//! participant sees. The session's task ([`transcoded`]) receives its packets, forwards the audio, and sends the video through ffmpeg
//! ([`pictures`]). The visible participant has no connection: it publishes the result in the same way as an RTMP encoder.
//! [`profiles`] rewrites offers, since transcoded video may have codec profiles that receivers do not support.

mod driver;
mod fragment;
mod intake;
mod pictures;
mod profiles;
mod registry;
mod session;
mod transcoded;

pub(in crate::embedded) use registry::WhipSessions;
pub use registry::{Restarted as WhipRestart, WhipSessionName};
pub use session::{WhipPatch, WhipPatchError};

/// What reads descriptions and fragments: for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use super::fragment::{IceCredentials, ice_fragment, read_credentials, with_credentials};
    pub use super::session::announced_tracks;
}

use conclave_model::Secret;

use crate::embedded::turn::TurnCredentials;

/// The answer to an encoder that was admitted.
#[derive(Debug)]
pub struct WhipAnswer {
    /// The id by which the encoder finds its session again. A secret: it replaces the stream key.
    pub session: Secret,
    /// The entity tag of the session's ICE credentials.
    pub etag: String,
    /// The SDP answer.
    pub sdp: String,
    /// The TURN servers that the encoder may use.
    pub turn: Vec<TurnCredentials>,
}
