//! A webhook receiver on a free port: it responds with the test's status and passes each request to the test.

use std::ops::Deref;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, mpsc};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use test_http_server::{Request, Response, serve};

use super::WAIT_LIMIT;

/// A webhook receiver.
pub struct Receiver {
    pub url: String,
    status: Arc<AtomicU16>,
    received: mpsc::Receiver<Received>,
}

/// A request received by a test server.
#[derive(Debug)]
pub struct Received(pub Request);

impl Receiver {
    /// Starts a receiver that answers 204.
    pub fn start() -> Self {
        let status = Arc::new(AtomicU16::new(204));
        let (sender, received) = mpsc::channel();
        let status_now = Arc::clone(&status);
        let address = serve(move |request, mut stream| {
            // A status that the test sets once it has the request applies to the next one.
            let status = status_now.load(Ordering::SeqCst);
            // The test gets the request before the sender gets the response: a delivery that is recorded as delivered has been received.
            if sender.send(Received(request)).is_ok() {
                let _ = Response::new(status).send(&mut stream);
            }
        });
        Self {
            url: format!("http://{address}/hook"),
            status,
            received,
        }
    }

    /// Sets the response status from now on.
    pub fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// Waits for the next request.
    #[track_caller]
    pub fn next(&self) -> Received {
        self.received.recv_timeout(WAIT_LIMIT).expect("a delivery")
    }

    /// Waits for `count` events and returns their types.
    #[track_caller]
    pub fn types(&self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| self.next().json()["type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns the requests received since the last call, without waiting.
    pub fn drain(&self) -> Vec<Received> {
        self.received.try_iter().collect()
    }
}

impl Deref for Received {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.0
    }
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns whether the contract's signature matches this secret.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        self.header("x-svc-signature") == self.svc_signature(secret)
    }

    /// Returns whether the signature by the secret after a rotation matches this secret.
    pub fn is_next_signed_with(&self, secret: &str) -> bool {
        self.header("x-svc-signature-next") == self.svc_signature(secret)
    }

    fn svc_signature(&self, secret: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(&self.body);
        let hex = hex::encode(mac.finalize().into_bytes());
        format!("sha256={hex}")
    }

    /// Returns the Standard Webhooks signature, computed from that standard.
    pub fn standard_signature(&self, secret: &str) -> String {
        let key = STANDARD
            .decode(secret.trim_start_matches("whsec_"))
            .unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(
            format!(
                "{}.{}.",
                self.header("webhook-id"),
                self.header("webhook-timestamp")
            )
            .as_bytes(),
        );
        mac.update(&self.body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}
