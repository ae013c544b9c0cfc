//! The clients' requests and responses.

use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;

use crate::service::Attempt;

/// A request's purpose. The texts are the names by which the checks find the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    CreateRoom { name: String },
    EndRoom { name: String },
    CreateTemplate { name: String },
    CreateCode { room: String },
    ExchangeCode { code: String },
    ReadRoom { name: String },
    CreateToken { room: String },
    Join { room: String, identity: String },
    Leave { sid: String },
    Publish { sid: String },
}

impl Action {
    /// Returns whether the action is a request to the API, not to the media plane.
    pub const fn is_request(&self) -> bool {
        !matches!(
            self,
            Self::Join { .. } | Self::Leave { .. } | Self::Publish { .. }
        )
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
        self.status == 503 && self.json()["error"]["code"] == "node_lost"
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
        self.key.is_some() || matches!(self.action, Action::ReadRoom { .. })
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
            && !matches!(
                self.action,
                Action::ReadRoom { .. } | Action::CreateToken { .. }
            );
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
