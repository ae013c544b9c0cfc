//! What the clients asked for, and what they were told.

use parking_lot::Mutex;
use serde_json::Value;

/// What a request asked for. The texts are the names by which the checks find the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    CreateRoom { name: String },
    EndRoom { name: String },
    CreateTemplate { name: String },
    CreateCode { room: String },
    ExchangeCode { code: String },
    Join { room: String, identity: String },
    Leave { sid: String },
    Publish { sid: String },
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
    /// The lifetime of the server that sent it.
    pub lifetime: u32,
}

/// A request and its response; without one, the server may have done what was asked, or not.
#[derive(Debug, Clone)]
pub struct Entry {
    pub action: Action,
    /// The request's `Idempotency-Key`.
    pub key: Option<String>,
    pub answer: Option<Answer>,
}

/// The requests of all clients.
#[derive(Debug, Default)]
pub struct Journal(Mutex<Vec<Entry>>);

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Entry {
    /// The response, if it acknowledged the request.
    pub fn acknowledged(&self) -> Option<&Answer> {
        self.answer.as_ref().filter(|answer| answer.is_success())
    }
}

impl Journal {
    pub fn add(&self, entry: Entry) {
        self.0.lock().push(entry);
    }

    /// The number of requests that were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        let entries = self.0.lock();
        entries.iter().filter(|entry| entry.acknowledged().is_some()).count()
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.0.lock().clone()
    }
}
