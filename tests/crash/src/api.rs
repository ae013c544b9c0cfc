//! Requests to the server.

use std::time::Duration;

use serde_json::{Value, json};

use crate::journal::Answer;
use crate::server::{Address, Running};

/// How long a client waits for a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A client's connections to one server.
pub struct Api {
    agent: ureq::Agent,
    pub address: Address,
}

impl Api {
    pub fn new(address: Address) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT)).build();
        Self { agent: config.into(), address }
    }

    /// Sends a request to the API; `None` when no response came.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>, key: Option<&str>) -> Option<Answer> {
        let authorization = format!("Bearer {}", self.address.key);
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.address.api));
        request = request.header("authorization", authorization);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        self.send(request, body)
    }

    /// Sends a request to the sandbox; `None` when no response came.
    pub fn sandbox(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
        let uri = format!("{}/sandbox{path}", self.address.admin);
        self.send(ureq::http::Request::builder().method(method).uri(uri), body)
    }

    fn send(&self, request: ureq::http::request::Builder, body: Option<&Value>) -> Option<Answer> {
        let mut response = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body.to_string());
                self.agent.run(request.expect("a request that can be sent")).ok()?
            }
            None => self.agent.run(request.body(()).expect("a request that can be sent")).ok()?,
        };
        let body = response.body_mut().read_to_string().ok()?;
        Some(Answer { status: response.status().as_u16(), body, lifetime: self.address.lifetime })
    }

    /// Reads JSON that must be there.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.call("GET", path, None, None).expect("a response");
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.body);
        answer.json()
    }
}

pub fn create_endpoint(running: &Running, url: &str) {
    let api = Api::new(running.address.clone());
    let created = api.call("POST", "/v1/webhook-endpoints", Some(&json!({"url": url})), None).expect("a response");
    assert_eq!(created.status, 201, "{}", created.body);
}

pub fn end_room(running: &Running, name: &str) {
    let api = Api::new(running.address.clone());
    let ended = api.call("DELETE", &format!("/v1/rooms/{name}"), None, None).expect("a response");
    // It may have ended by itself meanwhile.
    assert!([204, 404, 409].contains(&ended.status), "{}", ended.body);
}
