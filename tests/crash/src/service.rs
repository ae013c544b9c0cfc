//! What clients work with: the API of a server or of a cluster, and the media plane in which participants join.

use std::time::Instant;

use serde_json::Value;

use crate::journal::Answer;

/// A request to the API.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub body: Option<&'a Value>,
    /// The `Idempotency-Key`.
    pub key: Option<&'a str>,
}

/// A request that was sent to a node once.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Absent when the connection broke, or when the client no longer waited.
    pub answer: Option<Answer>,
    /// The number of the node, from 0; 0 for a server alone.
    pub node: usize,
    pub sent: Instant,
    /// When the answer came, or the client gave up.
    pub ended: Instant,
}

/// What a client works with.
pub trait Service: Send {
    /// Waits until there is a server. Returns whether all participants of before are gone.
    fn connect(&mut self) -> bool;

    /// Sends a request, to further nodes if it may be repeated. Returns all attempts; the last one is what the client goes by.
    fn call(&mut self, call: Call<'_>) -> Vec<Attempt>;

    /// Lets a participant join with a room token. The answer contains its `sid`.
    fn join(&mut self, token: &str) -> Attempt;

    /// Lets a participant leave, or lose its connection.
    fn leave(&mut self, sid: &str, clean: bool) -> Attempt;

    /// Lets a participant publish a track.
    fn publish(&mut self, sid: &str) -> Attempt;
}

impl<'a> Call<'a> {
    pub const fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            method,
            path,
            body: None,
            key: None,
        }
    }

    pub const fn body(self, body: &'a Value) -> Self {
        Self {
            body: Some(body),
            ..self
        }
    }

    pub const fn key(self, key: &'a str) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    /// Whether a client may send the request again without knowing whether it was performed.
    pub fn is_repeatable(&self) -> bool {
        self.method == "GET" || self.key.is_some()
    }
}
