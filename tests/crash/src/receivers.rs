//! Webhook receivers that record their requests.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use test_http_server::{Response, serve};

/// A received webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The delivery id.
    pub id: String,
    pub event: Value,
    /// Whether the receiver accepted it.
    pub accepted: bool,
    /// The server's lifetime at its arrival; `None` if no server ran.
    pub lifetime: Option<u32>,
}

/// A receiver on a free port.
pub struct Receiver {
    pub url: String,
    /// Whether it accepts everything.
    pub accepts_all: bool,
    received: Arc<Mutex<Vec<Webhook>>>,
}

impl Receiver {
    /// Starts a receiver that refuses this fraction of all requests. `lifetime` returns the running server's lifetime.
    pub fn start(
        refuses: f64,
        seed: u64,
        lifetime: impl Fn() -> Option<u32> + Clone + Send + 'static,
    ) -> Self {
        let received: Arc<Mutex<Vec<Webhook>>> = Arc::default();
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        let log = Arc::clone(&received);
        let address = serve(move |request, mut stream| {
            let accepted = random.lock().f64() >= refuses;
            let webhook = Webhook {
                id: request.header("webhook-id").to_owned(),
                event: serde_json::from_slice(&request.body).unwrap_or_default(),
                accepted,
                lifetime: lifetime(),
            };
            // Recorded before the response: a delivery that the server has recorded as delivered is in the log.
            log.lock().push(webhook);
            let _ = Response::new(if accepted { 204 } else { 503 }).send(&mut stream);
        });
        Self {
            url: format!("http://{address}/hook"),
            accepts_all: refuses == 0.0,
            received,
        }
    }

    /// Returns the received webhooks, in order.
    pub fn received(&self) -> Vec<Webhook> {
        self.received.lock().clone()
    }
}
