//! A client's requests: recorded in the journal, and repeated as long as they have no outcome.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::journal::{Action, Answer, Entry, Journal};
use crate::service::{Attempt, Call, Service};

/// A request that got no response or a 503. It can be repeated, because it has an idempotency key.
struct Unanswered {
    action: Action,
    method: &'static str,
    path: String,
    body: Option<Value>,
    key: String,
}

impl Unanswered {
    fn call(&self) -> Call<'_> {
        let call = Call::new(self.method, &self.path).key(&self.key);
        Call {
            body: self.body.as_ref(),
            ..call
        }
    }
}

/// Returns whether a client must repeat a request with this response.
fn is_unanswered(answer: Option<&Answer>) -> bool {
    answer.is_none_or(|answer| answer.status == 503)
}

/// A client's connection, its names, and the requests that it must repeat.
pub struct Requests {
    number: u32,
    sequence: u32,
    service: Box<dyn Service>,
    journal: Arc<Journal>,
    unanswered: Vec<Unanswered>,
}

impl Requests {
    /// Creates the requests of the client with this number.
    pub fn new(number: u32, service: impl Service + 'static, journal: &Arc<Journal>) -> Self {
        Self {
            number,
            sequence: 0,
            service: Box::new(service),
            journal: Arc::clone(journal),
            unanswered: Vec::new(),
        }
    }

    /// Waits for a server. Returns whether all earlier participants are gone.
    pub fn connect(&mut self) -> bool {
        self.service.connect()
    }

    /// Returns a name that no other request uses.
    pub fn next_name(&mut self, kind: &str) -> String {
        self.sequence += 1;
        format!("{kind}-{}-{}", self.number, self.sequence)
    }

    /// Sends a request and records all its attempts. Returns the last response.
    pub fn call(&mut self, action: &Action, call: Call<'_>) -> Option<Answer> {
        let attempts = self.service.call(call);
        let answer = attempts.last().and_then(|attempt| attempt.answer.clone());
        attempts.into_iter().for_each(|attempt| {
            self.journal
                .add(Entry::new(action.clone(), call.key, attempt));
        });
        answer
    }

    /// Sends a request with an idempotency key, and keeps it for a repetition if it gets no response or a 503.
    pub fn call_once(
        &mut self,
        action: Action,
        method: &'static str,
        path: String,
        body: Option<Value>,
    ) -> Option<Answer> {
        let request = Unanswered {
            action,
            method,
            path,
            body,
            key: self.next_name("key"),
        };
        let answer = self.call(&request.action, request.call());
        if is_unanswered(answer.as_ref()) {
            self.unanswered.push(request);
        }
        answer.filter(Answer::is_success)
    }

    /// Creates a resource.
    pub fn create(&mut self, action: Action, path: String, body: Value) -> Option<Answer> {
        self.call_once(action, "POST", path, Some(body))
    }

    /// Repeats the unanswered requests. Requests that stay unanswered are kept.
    pub fn repeat_all(&mut self) {
        for request in std::mem::take(&mut self.unanswered) {
            let answer = self.call(&request.action, request.call());
            if is_unanswered(answer.as_ref()) {
                self.unanswered.push(request);
            }
        }
    }

    /// Mints a room token. Returns it, unless the request was refused.
    pub fn create_token(&mut self, room: &str, identity: &str) -> Option<String> {
        let body = json!({"room": room, "identity": identity, "role": "host"});
        let action = Action::CreateToken {
            room: room.to_owned(),
            identity: identity.to_owned(),
        };
        let answer = self.call(&action, Call::new("POST", "/v1/tokens").body(&body));
        let token = answer.filter(Answer::is_success)?.json();
        Some(token["token"].as_str().expect("a token").to_owned())
    }

    /// Joins with a room token. Returns the participant's `sid`, if the media plane admitted it.
    pub fn join(&mut self, action: Action, token: &str) -> Option<String> {
        let attempt = self.service.join(token);
        let joined = attempt.answer.as_ref().filter(|answer| answer.is_success());
        let sid = joined.and_then(|answer| answer.json()["sid"].as_str().map(str::to_owned));
        self.record(action, attempt);
        sid
    }

    /// Disconnects a participant, by a leave or by a lost connection.
    pub fn leave(&mut self, sid: String, clean: bool) {
        let attempt = self.service.leave(&sid, clean);
        self.record(Action::Leave { sid }, attempt);
    }

    /// Publishes a participant's track.
    pub fn publish(&mut self, sid: String) {
        let attempt = self.service.publish(&sid);
        self.record(Action::Publish { sid }, attempt);
    }

    fn record(&self, action: Action, attempt: Attempt) {
        self.journal.add(Entry::new(action, None, attempt));
    }
}
