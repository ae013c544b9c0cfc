//! The channels to the sessions of WHIP encoders.

use std::collections::HashMap;
use std::fmt;

use conclave_model::ParticipantSid;
use conclave_model::ingress::StreamKeyHash;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use super::session::{WhipPatch, WhipPatchError};

/// Number of requests that wait for a session.
const CAPACITY: usize = 16;

/// What an encoder asks of its session.
#[derive(Debug)]
pub(super) enum Request {
    /// Change the ICE parameters. Replied with the new entity tag and fragment if ICE restarts.
    Patch(
        WhipPatch,
        oneshot::Sender<Result<Option<Restarted>, WhipPatchError>>,
    ),
    /// End the session.
    Delete(oneshot::Sender<()>),
}

/// ICE credentials of the server after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restarted {
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
pub struct WhipSessions(Mutex<Channels>);

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
    pub(super) fn add(&self, id: &str, sid: &ParticipantSid) -> mpsc::Receiver<Request> {
        let (channel, requests) = mpsc::channel(CAPACITY);
        let mut channels = self.0.lock();
        channels.by_id.insert(hash(id), sid.clone());
        channels.requests.insert(sid.clone(), channel);
        requests
    }

    /// Removes a session that is over.
    pub(super) fn remove(&self, sid: &ParticipantSid) {
        let mut channels = self.0.lock();
        channels.requests.remove(sid);
        channels.by_id.retain(|_, of| of != sid);
    }

    /// Returns the participant of the session with this id.
    pub(super) fn by_id(&self, id: &str) -> Option<ParticipantSid> {
        self.0.lock().by_id.get(&hash(id)).cloned()
    }

    /// Returns the channel to the session of a participant.
    pub(super) fn channel(&self, sid: &ParticipantSid) -> Option<mpsc::Sender<Request>> {
        self.0.lock().requests.get(sid).cloned()
    }
}
