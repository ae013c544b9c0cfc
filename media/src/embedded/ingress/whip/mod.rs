//! Encoders that publish by WHIP (RFC 9725): WebRTC with the descriptions in HTTP requests.
//!
//! - [`driver`]: admission, a task for each session, and the calls of the HTTP requests, which find the task by [`WhipSessions`].
//! - [`session`]: the state machine of one encoder's session.
//! - [`offer`]: what is read of its offer, and rewritten in it. [`ice`]: its ICE parameters, which PATCH requests change.
//!
//! An encoder is a client of a media worker that only publishes, in one peer connection that it offers. Its join has the two
//! phases of every client's.
//!
//! If the endpoint transcodes, the encoder connects to a private room of a media worker, as a peer that no other participant sees.
//! The session's task receives its packets ([`transcoded`]), forwards the audio, and sends the video through ffmpeg
//! ([`pictures`]). The visible participant has no connection: it publishes the result in the same way as an RTMP encoder. Its offer
//! may have codec profiles that receivers do not support.

pub(in crate::embedded) mod driver;
mod ice;
mod offer;
mod pictures;
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

/// What reads descriptions and fragments: for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod machine {
    pub use super::ice::{IceCredentials, ice_fragment, read_credentials, with_credentials};
    pub use super::offer::announced_tracks;
}

/// Number of requests that wait for a session.
const WAITING_REQUESTS: usize = 16;

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

/// What an encoder asks of its session.
#[derive(Debug)]
enum Request {
    /// Change the ICE parameters. Replied with the new entity tag and fragment if ICE restarts.
    Patch(
        WhipPatch,
        oneshot::Sender<Result<Option<WhipRestart>, WhipPatchError>>,
    ),
    /// End the session.
    Delete(oneshot::Sender<()>),
}

/// ICE credentials of the server after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhipRestart {
    /// The entity tag of the session.
    pub etag: String,
    /// The credentials and addresses, as an SDP fragment.
    pub fragment: String,
}

/// How a request names a session.
#[derive(Clone, Copy)]
pub enum WhipSessionName<'a> {
    /// By the id in its url.
    Id(&'a str),
    /// By the stream key with which it was opened.
    Key(&'a StreamKeyHash),
}

impl fmt::Debug for WhipSessionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Id(_) => "Id",
            Self::Key(_) => "Key",
        })
    }
}

/// SHA-256 of a session's id, so that a look-up takes no time that depends on a known id.
type SessionIdHash = [u8; 32];

/// The channels to all sessions. Its lock is held for a look-up.
#[derive(Debug, Default)]
pub(in crate::embedded) struct WhipSessions(Mutex<Channels>);

#[derive(Debug, Default)]
struct Channels {
    by_id: HashMap<SessionIdHash, ParticipantSid>,
    requests: HashMap<ParticipantSid, mpsc::Sender<Request>>,
}

fn hash(id: &str) -> SessionIdHash {
    Sha256::digest(id.as_bytes()).into()
}

impl WhipSessions {
    /// Adds a session and returns its requests.
    fn add(&self, id: &str, sid: &ParticipantSid) -> mpsc::Receiver<Request> {
        let (channel, requests) = mpsc::channel(WAITING_REQUESTS);
        let mut channels = self.0.lock();
        channels.by_id.insert(hash(id), sid.clone());
        channels.requests.insert(sid.clone(), channel);
        requests
    }

    /// Removes a session that is over.
    fn remove(&self, sid: &ParticipantSid) {
        let mut channels = self.0.lock();
        channels.requests.remove(sid);
        channels.by_id.retain(|_, of| of != sid);
    }

    /// Returns the participant of the session with this id.
    fn by_id(&self, id: &str) -> Option<ParticipantSid> {
        self.0.lock().by_id.get(&hash(id)).cloned()
    }

    /// Returns the channel to the session of a participant.
    fn channel(&self, sid: &ParticipantSid) -> Option<mpsc::Sender<Request>> {
        self.0.lock().requests.get(sid).cloned()
    }
}
