//! The clients' target: the API of a server or a cluster, and the media plane in which participants join.

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
    /// Absent if the connection broke, or the response timed out.
    pub answer: Option<Answer>,
    /// Node number, from 0; 0 for a single server.
    pub node: usize,
    pub sent: Instant,
    /// Time at the response, or at the timeout.
    pub ended: Instant,
}

/// A client's target.
pub trait Service: Send {
    /// Waits until there is a server. Returns whether all earlier participants are gone.
    fn connect(&mut self) -> bool;

    /// Sends a request, to further nodes if it may be repeated. Returns all attempts; the last one determines the client's behaviour.
    fn call(&mut self, call: Call<'_>) -> Vec<Attempt>;

    /// Joins a participant with a room token. The response contains its `sid`.
    fn join(&mut self, token: &str) -> Attempt;

    /// Disconnects a participant, by a leave or by a lost connection.
    fn leave(&mut self, sid: &str, clean: bool) -> Attempt;

    /// Publishes a participant's track.
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

    /// Returns whether a client may repeat the request without knowing whether it was performed.
    pub fn is_repeatable(&self) -> bool {
        self.method == "GET" || self.key.is_some()
    }
}
