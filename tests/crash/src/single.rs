//! A single server with sandbox participants.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{self, Api};
use crate::server::Deployment;
use crate::service::{Attempt, Call, Service};

/// Response timeout.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// A client's connections to the running server.
pub struct SingleServer {
    deployment: Deployment,
    connected: Option<Connected>,
}

struct Connected {
    lifetime: u32,
    api: Api,
    sandbox: ureq::Agent,
    admin: String,
}

impl SingleServer {
    pub const fn new(deployment: Deployment) -> Self {
        Self {
            deployment,
            connected: None,
        }
    }

    fn connected(&self) -> &Connected {
        self.connected
            .as_ref()
            .expect("a client that has connected")
    }

    fn sandbox(&self, path: &str, body: &Value) -> Attempt {
        let Connected { sandbox, admin, .. } = self.connected();
        let request = ureq::http::Request::builder()
            .method("POST")
            .uri(format!("{admin}/sandbox{path}"));
        let sent = Instant::now();
        let answer = api::send(sandbox, request, Some(body)).ok();
        Attempt {
            answer,
            node: 0,
            sent,
            ended: Instant::now(),
        }
    }
}

impl Service for SingleServer {
    fn connect(&mut self) -> bool {
        let address = loop {
            match self.deployment.address() {
                Some(address) => break address,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        if self
            .connected
            .as_ref()
            .is_some_and(|connected| connected.lifetime == address.lifetime)
        {
            return false;
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .build();
        self.connected = Some(Connected {
            lifetime: address.lifetime,
            api: address.api(),
            sandbox: config.into(),
            admin: address.admin,
        });
        true
    }

    fn call(&mut self, call: Call<'_>) -> Vec<Attempt> {
        vec![self.connected().api.attempt(0, call).0]
    }

    fn join(&mut self, token: &str) -> Attempt {
        self.sandbox("/join", &json!({"token": token}))
    }

    fn leave(&mut self, sid: &str, clean: bool) -> Attempt {
        self.sandbox(
            &format!("/participants/{sid}/leave"),
            &json!({"clean": clean}),
        )
    }

    fn publish(&mut self, sid: &str) -> Attempt {
        self.sandbox(
            &format!("/participants/{sid}/tracks"),
            &json!({"kind": "audio", "source": "microphone"}),
        )
    }
}
