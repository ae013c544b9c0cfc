//! Encoders that publish by WHIP (RFC 9725): WebRTC with the session descriptions in HTTP requests.
//!
//! - [`driver`]: admission, a task per WHIP session, and the HTTP requests, which find the task through [`WhipSessions`].
//! - [`session`]: the state machine of one encoder's WHIP session.
//! - [`offer`]: its offer, parsed and rewritten. [`ice`]: its ICE parameters, which PATCH requests change.
//!
//! An encoder is a media worker's client that only publishes, in one peer connection that it offers. Its join has the same two phases
//! as every other.
//!
//! If the endpoint transcodes, the encoder connects to a private room of a media worker, as a peer that no other participant sees.
//! The session's task receives its packets ([`transcoded`]), forwards the audio, and sends the video through ffmpeg
//! ([`media`]). The visible participant has no connection: it publishes the result in the same way as an RTMP encoder. The offer
//! may then contain codec profiles that receivers do not support.

pub(in crate::embedded) mod driver;
mod ice;
mod media;
mod offer;
mod session;
mod transcoded;

use std::collections::HashMap;
use std::fmt;

use conclave_model::ingress::StreamKeyHash;
use conclave_model::{ParticipantSid, Secret};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use crate::embedded::turn::TurnCredentials;
pub use ice::{WhipPatch, WhipPatchError};

/// Parsers for descriptions and fragments, for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use super::ice::{IceCredentials, ice_fragment, read_credentials, with_credentials};
    pub use super::offer::announced_tracks;
}

/// Maximum number of pending requests per WHIP session.
const WAITING_REQUESTS: usize = 16;

/// Response to an admitted encoder.
#[derive(Debug)]
pub struct WhipAnswer {
    /// The WHIP session's id in its URL. A secret: it replaces the stream key.
    pub session: Secret,
    /// Entity tag for the session's ICE credentials.
    pub etag: String,
    /// The SDP answer.
    pub sdp: String,
    /// TURN servers for the encoder.
    pub turn: Vec<TurnCredentials>,
}

/// An encoder's request about its WHIP session.
#[derive(Debug)]
enum WhipRequest {
    /// Change the ICE parameters. If ICE restarts, the reply has the new entity tag and fragment.
    Patch(
        WhipPatch,
        oneshot::Sender<Result<Option<WhipRestart>, WhipPatchError>>,
    ),
    /// End the session.
    Delete(oneshot::Sender<()>),
}

/// The server's ICE credentials after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhipRestart {
    /// The session's entity tag.
    pub etag: String,
    /// Credentials and addresses, as an SDP fragment.
    pub fragment: String,
}

/// Identifier of a WHIP session in a request.
#[derive(Clone, Copy)]
pub enum WhipSessionName<'a> {
    /// The id in the session's URL.
    Id(&'a str),
    /// The stream key with which the session was opened.
    Key(&'a StreamKeyHash),
}

impl fmt::Debug for WhipSessionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither an id nor a key's hash belongs in a log.
        f.write_str(match self {
            Self::Id(_) => "Id",
            Self::Key(_) => "Key",
        })
    }
}

/// SHA-256 of a session's id. The duration of a look-up by hash reveals nothing about valid ids.
type SessionIdHash = [u8; 32];

/// Channels to all WHIP sessions. The lock is held for one look-up or change.
#[derive(Debug, Default)]
pub(in crate::embedded) struct WhipSessions(Mutex<Channels>);

#[derive(Debug, Default)]
struct Channels {
    by_id: HashMap<SessionIdHash, ParticipantSid>,
    requests: HashMap<ParticipantSid, mpsc::Sender<WhipRequest>>,
}

fn hash(id: &str) -> SessionIdHash {
    Sha256::digest(id.as_bytes()).into()
}

impl WhipSessions {
    /// Adds a session. Returns the receiver of its requests.
    fn add(&self, id: &str, sid: &ParticipantSid) -> mpsc::Receiver<WhipRequest> {
        let (channel, requests) = mpsc::channel(WAITING_REQUESTS);
        let mut channels = self.0.lock();
        // Under one lock, so that no request finds half a session.
        channels.by_id.insert(hash(id), sid.clone());
        channels.requests.insert(sid.clone(), channel);
        requests
    }

    /// Removes an ended session.
    fn remove(&self, sid: &ParticipantSid) {
        let mut channels = self.0.lock();
        channels.requests.remove(sid);
        // A search: sessions end rarely, and their ids are not stored in clear.
        channels.by_id.retain(|_, participant| participant != sid);
    }

    /// Returns the participant in the session with this id.
    fn by_id(&self, id: &str) -> Option<ParticipantSid> {
        self.0.lock().by_id.get(&hash(id)).cloned()
    }

    /// Returns the channel to a participant's session.
    fn channel(&self, sid: &ParticipantSid) -> Option<mpsc::Sender<WhipRequest>> {
        self.0.lock().requests.get(sid).cloned()
    }
}
