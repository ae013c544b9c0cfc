//! The clients' requests and responses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;

use crate::service::Attempt;

/// A request's purpose. The texts are the names by which the checks find the records. [`Action::Revoke`] is a removal that also revokes the
/// identity's tokens, and [`Action::JoinRevoked`] a join with a token whose revocation was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    CreateRoom { name: String },
    EndRoom { name: String },
    CreateTemplate { name: String },
    CreateCode { room: String },
    ExchangeCode { code: String },
    DisableCode { code: String },
    ReadRoom { name: String },
    ReadEvents { room: String },
    ReadSessions { identity: String },
    CreateToken { room: String, identity: String },
    Join { room: String, identity: String },
    JoinRevoked { room: String, identity: String },
    Leave { sid: String },
    Publish { sid: String },
    PutBan { room: String, identity: String },
    LiftBan { room: String, identity: String },
    Revoke { room: String, identity: String },
    Erase { identity: String },
    ChangeEndpoint { id: String, change: String },
    RotateSecret { id: String },
}

impl Action {
    /// Returns whether the action is a request to the API, not to the media plane.
    pub const fn is_request(&self) -> bool {
        !matches!(
            self,
            Self::Join { .. }
                | Self::JoinRevoked { .. }
                | Self::Leave { .. }
                | Self::Publish { .. }
        )
    }

    /// Returns whether the request changes nothing.
    pub const fn is_read(&self) -> bool {
        matches!(
            self,
            Self::ReadRoom { .. } | Self::ReadEvents { .. } | Self::ReadSessions { .. }
        )
    }

    /// Returns the identity whose participant or records the request removes.
    pub fn moderated(&self) -> Option<&str> {
        match self {
            Self::PutBan { identity, .. }
            | Self::Revoke { identity, .. }
            | Self::Erase { identity } => Some(identity),
            _ => None,
        }
    }

    /// Returns the action's name, such as `CreateRoom`.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        text.split(' ').next().unwrap_or_default().to_owned()
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// A request and its response; without one, the request may or may not have been performed.
#[derive(Debug, Clone)]
pub struct Entry {
    pub action: Action,
    /// The request's `Idempotency-Key`.
    pub key: Option<String>,
    pub answer: Option<Answer>,
    /// Node number, from 0; 0 for a single server.
    pub node: usize,
    pub sent: Instant,
    /// Time at the response, or at the timeout.
    pub ended: Instant,
}

/// All clients' requests.
#[derive(Debug, Default)]
pub struct Journal(Mutex<Vec<Entry>>);

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns whether the response leaves open if the request was performed.
    pub fn is_node_lost(&self) -> bool {
        self.status == 503 && self.has_code("node_lost")
    }

    /// Returns whether the response is an error with this code.
    pub fn has_code(&self, code: &str) -> bool {
        self.json()["error"]["code"] == code
    }
}

impl Entry {
    pub fn new(action: Action, key: Option<&str>, attempt: Attempt) -> Self {
        let Attempt {
            answer,
            node,
            sent,
            ended,
        } = attempt;
        Self {
            action,
            key: key.map(str::to_owned),
            answer,
            node,
            sent,
            ended,
        }
    }

    /// Returns whether the request could be repeated without knowing whether it was performed.
    pub fn is_repeatable(&self) -> bool {
        self.key.is_some() || self.action.is_read()
    }

    /// Returns whether the request failed: without a response, or by a server error.
    pub fn has_failed(&self) -> bool {
        self.answer
            .as_ref()
            .is_none_or(|answer| answer.status >= 500)
    }

    /// Returns whether the request changed records and was acknowledged.
    pub fn is_acknowledged_change(&self) -> bool {
        let is_change = self.action.is_request()
            && !self.action.is_read()
            && !matches!(self.action, Action::CreateToken { .. });
        is_change && self.acknowledged().is_some()
    }

    /// Returns whether a read did not find its room.
    pub fn is_read_that_missed(&self) -> bool {
        matches!(self.action, Action::ReadRoom { .. })
            && self
                .answer
                .as_ref()
                .is_some_and(|answer| answer.status == 404)
    }

    /// Returns whether it is unknown if the request was performed.
    pub fn is_unknown(&self) -> bool {
        self.answer.as_ref().is_none_or(Answer::is_node_lost)
    }

    /// Returns whether the response is an error with this code.
    pub fn was_refused_with(&self, code: &str) -> bool {
        self.answer
            .as_ref()
            .is_some_and(|answer| answer.has_code(code))
    }

    /// Returns the response, if it acknowledged the request.
    pub fn acknowledged(&self) -> Option<&Answer> {
        self.answer.as_ref().filter(|answer| answer.is_success())
    }
}

impl Journal {
    pub fn add(&self, entry: Entry) {
        self.0.lock().push(entry);
    }

    /// Returns the number of requests so far.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns the requests after the first `first` ones.
    pub fn since(&self, first: usize) -> Vec<Entry> {
        self.0.lock()[first..].to_vec()
    }

    /// Returns the number of acknowledged requests so far.
    pub fn acknowledged(&self) -> usize {
        let entries = self.0.lock();
        entries
            .iter()
            .filter(|entry| entry.acknowledged().is_some())
            .count()
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.0.lock().clone()
    }
}

/// Returns how many requests of each action were acknowledged.
pub fn acknowledged_by_action(entries: &[Entry]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries
        .iter()
        .filter(|entry| entry.acknowledged().is_some())
    {
        *counts.entry(entry.action.name()).or_default() += 1;
    }
    counts
}

/// Returns the identities that were banned, removed or erased, whether acknowledged or not.
pub fn moderated_identities(entries: &[Entry]) -> BTreeSet<&str> {
    entries
        .iter()
        .filter_map(|entry| entry.action.moderated())
        .collect()
}
