//! Webhooks: signed, and either kept for the test to forward in any order, or sent.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{EncodingKey, Header};
use livekit_protocol as proto;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::methods::nanos;
use crate::webhook_workers::Workers;
use crate::{Double, State};

/// Maximum number of attempts per event.
const ATTEMPTS: u32 = 5;
/// Delay before the second attempt; doubled for each further attempt. LiveKit waits 1 s.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Response timeout.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A signed webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The event's name, such as `room_started`.
    pub event: String,
    /// The `Authorization` header: the bare token.
    pub authorization: String,
    /// The body, as JSON.
    pub body: Vec<u8>,
}

/// Destination of webhooks: kept, or sent to a URL.
#[derive(Default)]
pub(crate) struct Queue {
    kept: Vec<Webhook>,
    sent: Option<Destination>,
}

/// The sender of webhooks.
enum Destination {
    /// A thread that sends to one URL.
    Thread(Sender<Webhook>),
    Workers(Workers),
}

impl Double {
    /// Signs a body as LiveKit would.
    #[must_use]
    pub fn sign(&self, body: &[u8]) -> Webhook {
        let seconds = nanos() / 1_000_000_000;
        let claims = json!({
            "iss": self.api_key, "nbf": seconds, "exp": seconds + 300, "sha256": STANDARD.encode(Sha256::digest(body)),
        });
        self.sign_with(&claims, body)
    }

    /// Signs a body with any claims.
    #[must_use]
    pub fn sign_with(&self, claims: &serde_json::Value, body: &[u8]) -> Webhook {
        let key = EncodingKey::from_secret(self.api_secret.as_bytes());
        let authorization =
            jsonwebtoken::encode(&Header::default(), claims, &key).expect("claims are signed");
        let event = serde_json::from_slice(body).unwrap_or(serde_json::Value::Null);
        Webhook {
            event: event["event"].as_str().unwrap_or_default().to_owned(),
            authorization,
            body: body.to_vec(),
        }
    }

    /// Removes and returns the webhooks kept since the last call, in order. Empty while webhooks are sent.
    #[must_use]
    pub fn webhooks(&self) -> Vec<Webhook> {
        std::mem::take(&mut self.lock().webhooks.kept)
    }

    /// Sends webhooks to a URL from now on, one after another. Retries a webhook after 429, 5xx or no response.
    pub fn send_to(&self, url: &str) {
        let (sender, events) = channel::<Webhook>();
        let url = url.to_owned();
        thread::spawn(move || events.into_iter().for_each(|webhook| send(&url, &webhook)));
        self.lock().webhooks.sent = Some(Destination::Thread(sender));
    }

    /// Sends one webhook.
    pub fn send(&self, webhook: Webhook) {
        self.lock().webhooks.put(webhook);
    }

    /// Drops webhooks from now on, until [`Double::send_to`] is called.
    pub fn drop_webhooks(&self) {
        self.lock().webhooks.sent = Some(Destination::Thread(channel().0));
    }
}

impl Queue {
    pub(crate) fn send_by(&mut self, workers: Workers) {
        self.sent = Some(Destination::Workers(workers));
    }

    pub(crate) const fn workers(&self) -> Option<&Workers> {
        match &self.sent {
            Some(Destination::Workers(workers)) => Some(workers),
            _ => None,
        }
    }

    fn put(&mut self, webhook: Webhook) {
        match &self.sent {
            // The sending thread has ended: the webhook is dropped.
            Some(Destination::Thread(sender)) => drop(sender.send(webhook)),
            Some(Destination::Workers(workers)) => workers.put(webhook),
            None => self.kept.push(webhook),
        }
    }
}

impl State {
    pub(crate) fn queue(&mut self, mut event: proto::WebhookEvent, double: &Double) {
        event.id = self.id("EV_");
        event.created_at = nanos() / 1_000_000_000;
        let body = serde_json::to_vec(&event).expect("an event is JSON");
        self.webhooks.put(double.sign(&body));
    }
}

fn send(url: &str, webhook: &Webhook) {
    let mut wait = FIRST_WAIT;
    for _ in 0..ATTEMPTS {
        if post(url, webhook).is_some_and(|status| !is_repeated(status)) {
            return;
        }
        thread::sleep(wait);
        wait *= 2;
    }
}

/// Posts a webhook once. Returns the response's status, if there is a response.
pub(crate) fn post(url: &str, webhook: &Webhook) -> Option<u16> {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(TIMEOUT));
    let agent: ureq::Agent = config.build().into();
    let answer = agent
        .post(url)
        .header("Content-Type", "application/webhook+json")
        .header("User-Agent", "LiveKit")
        .header("Authorization", &webhook.authorization)
        .send(webhook.body.as_slice());
    answer.ok().map(|answer| answer.status().as_u16())
}

/// Returns whether LiveKit repeats a webhook after this status. 4xx and 501 count as delivered.
pub(crate) const fn is_repeated(status: u16) -> bool {
    matches!(status, 429 | 500 | 502..)
}
