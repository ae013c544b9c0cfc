//! Webhook receivers that record their requests.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;
use test_http_server::{Response, serve};

use crate::api::Endpoint;

/// A received webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The delivery id.
    pub id: String,
    pub event: Value,
    /// The event's exact bytes.
    pub body: Vec<u8>,
    /// Signatures over the body: by the secret, and during an overlap also by the next one.
    pub signatures: [String; 2],
    pub at: Instant,
    /// Whether the receiver accepted it.
    pub accepted: bool,
    /// The server's lifetime at its arrival; `None` if no server ran.
    pub lifetime: Option<u32>,
}

/// A receiver on a free port.
pub struct Receiver {
    pub url: String,
    /// The webhook endpoint with this URL.
    pub endpoint: Endpoint,
    /// Whether it accepts everything.
    pub accepts_all: bool,
    received: Arc<Mutex<Vec<Webhook>>>,
}

impl Receiver {
    /// Starts a receiver that refuses this fraction of all requests. `lifetime` returns the running server's lifetime, and `register`
    /// creates a webhook endpoint with the receiver's URL.
    pub fn start(
        refuses: f64,
        seed: u64,
        lifetime: impl Fn() -> Option<u32> + Clone + Send + 'static,
        register: impl FnOnce(&str) -> Endpoint,
    ) -> Self {
        let received: Arc<Mutex<Vec<Webhook>>> = Arc::default();
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        let log = Arc::clone(&received);
        let address = serve(move |request, mut stream| {
            let accepted = random.lock().f64() >= refuses;
            let signatures = ["x-svc-signature", "x-svc-signature-next"];
            let webhook = Webhook {
                id: request.header("webhook-id").to_owned(),
                event: serde_json::from_slice(&request.body).unwrap_or_default(),
                signatures: signatures.map(|name| request.header(name).to_owned()),
                at: Instant::now(),
                body: request.body,
                accepted,
                lifetime: lifetime(),
            };
            // Recorded before the response: a delivery that the server has recorded as delivered is in the log.
            log.lock().push(webhook);
            let _ = Response::new(if accepted { 204 } else { 503 }).send(&mut stream);
        });
        let url = format!("http://{address}/hook");
        Self {
            endpoint: register(&url),
            url,
            accepts_all: refuses == 0.0,
            received,
        }
    }

    /// Creates a receiver that has received these webhooks.
    #[cfg(test)]
    pub fn with(endpoint: Endpoint, received: Vec<Webhook>) -> Self {
        Self {
            url: "http://127.0.0.1/hook".into(),
            endpoint,
            accepts_all: true,
            received: Arc::new(Mutex::new(received)),
        }
    }

    /// Returns the received webhooks, in order.
    pub fn received(&self) -> Vec<Webhook> {
        self.received.lock().clone()
    }
}
