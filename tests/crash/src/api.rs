//! Requests to the API.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::journal::Answer;
use crate::service::{Attempt, Call};

/// Connections to one server.
pub struct Api {
    agent: ureq::Agent,
    /// API listener URL.
    url: String,
    key: String,
}

/// A registered webhook endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub id: String,
    /// Its first signing secret.
    pub secret: String,
    pub created: Instant,
}

/// Reason for a request without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// No listener: the request was not sent.
    Refused,
    /// The connection broke, or the response timed out.
    Broken,
}

impl Api {
    /// Creates a client. `timeout` is the response timeout.
    pub fn new(url: &str, key: &str, timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(timeout));
        Self {
            agent: config.build().into(),
            url: url.to_owned(),
            key: key.to_owned(),
        }
    }

    /// Sends each request on a new connection, so that a connection closed by the server does not count as broken.
    pub fn without_keep_alive(url: &str, key: &str, timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(timeout));
        let agent = config
            .max_idle_connections(0)
            .max_idle_connections_per_host(0)
            .build()
            .into();
        Self {
            agent,
            url: url.to_owned(),
            key: key.to_owned(),
        }
    }

    /// Sends a request.
    pub fn send(&self, call: Call<'_>) -> Result<Answer, Unanswered> {
        let request = ureq::http::Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.url, call.path));
        let mut request = request.header("authorization", format!("Bearer {}", self.key));
        if let Some(key) = call.key {
            request = request.header("idempotency-key", key);
        }
        send(&self.agent, request, call.body)
    }

    /// Sends a request and records its times.
    pub fn attempt(&self, node: usize, call: Call<'_>) -> (Attempt, Option<Unanswered>) {
        let sent = Instant::now();
        let result = self.send(call);
        let ended = Instant::now();
        (
            Attempt {
                answer: result.as_ref().ok().cloned(),
                node,
                sent,
                ended,
            },
            result.err(),
        )
    }

    /// Reads JSON, which must exist.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.send(Call::new("GET", path)).expect("a response");
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.body);
        answer.json()
    }

    pub fn create_endpoint(&self, url: &str) -> Endpoint {
        let body = json!({"url": url});
        let sent = Instant::now();
        let created = self
            .send(Call::new("POST", "/v1/webhook-endpoints").body(&body))
            .expect("a response");
        assert_eq!(created.status, 201, "{}", created.body);
        let created = created.json();
        let text = |field: &str| created[field].as_str().expect("a text").to_owned();
        Endpoint {
            id: text("id"),
            secret: text("secret"),
            created: sent,
        }
    }

    pub fn end_room(&self, name: &str) {
        let ended = self
            .send(Call::new("DELETE", &format!("/v1/rooms/{name}")))
            .expect("a response");
        // The room may have ended on its own meanwhile.
        assert!([204, 404, 409].contains(&ended.status), "{}", ended.body);
    }
}

/// Sends a request with a JSON body, or without.
pub fn send(
    agent: &ureq::Agent,
    request: ureq::http::request::Builder,
    body: Option<&Value>,
) -> Result<Answer, Unanswered> {
    let sent = match body {
        Some(body) => {
            let request = request
                .header("content-type", "application/json")
                .body(body.to_string());
            agent.run(request.expect("a request that can be sent"))
        }
        None => agent.run(request.body(()).expect("a request that can be sent")),
    };
    let mut response = sent.map_err(|error| match error {
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Unanswered::Refused
        }
        _ => Unanswered::Broken,
    })?;
    let body = response
        .body_mut()
        .read_to_string()
        .map_err(|_| Unanswered::Broken)?;
    Ok(Answer {
        status: response.status().as_u16(),
        body,
    })
}
