//! Changes of a webhook endpoint, and of its secret, by one client.

use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;

use super::requests::Requests;
use crate::journal::Action;
use crate::receivers::Receiver;
use crate::service::Call;

/// Time for which the endpoint is not changed after a request without an outcome: such a request may still be performed.
const PAUSE: Duration = Duration::from_secs(20);
/// Overlaps of two secrets, in seconds.
const OVERLAPS: [u32; 3] = [0, 1, 3_600];

/// A client's webhook endpoint.
pub struct EndpointOwner {
    id: String,
    /// The receiver's URL, which accepts every query.
    url: String,
    paused: Option<Instant>,
}

impl EndpointOwner {
    pub fn new(receiver: &Receiver) -> Self {
        Self {
            id: receiver.endpoint.id.clone(),
            url: receiver.url.clone(),
            paused: None,
        }
    }

    /// Performs a random action.
    pub fn act(&mut self, random: &mut Rng, requests: &mut Requests) {
        if random.bool() {
            self.change(requests);
        } else {
            self.rotate_secret(random, requests);
        }
    }

    fn change(&mut self, requests: &mut Requests) {
        if self.paused.is_some_and(|since| since.elapsed() < PAUSE) {
            return;
        }
        let change = requests.next_name("change");
        let body = json!({"url": changed_url(&self.url, &change), "description": change});
        let path = format!("/ext/v1/webhook-endpoints/{}", self.id);
        let action = Action::ChangeEndpoint {
            id: self.id.clone(),
            change,
        };
        let answer = requests.call(&action, Call::new("PATCH", &path).body(&body));
        let has_outcome = answer.is_some_and(|answer| answer.status < 500);
        self.paused = (!has_outcome).then(Instant::now);
    }

    fn rotate_secret(&self, random: &mut Rng, requests: &mut Requests) {
        let overlap = OVERLAPS[random.usize(..OVERLAPS.len())];
        let path = format!("/ext/v1/webhook-endpoints/{}/rotate-secret", self.id);
        let action = Action::RotateSecret {
            id: self.id.clone(),
        };
        requests.create(action, path, json!({"overlap_seconds": overlap}));
    }
}

/// Returns the receiver's URL after a change with this description.
pub fn changed_url(url: &str, description: &str) -> String {
    format!("{url}?{description}")
}
