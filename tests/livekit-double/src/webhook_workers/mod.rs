//! Webhooks as LiveKit sends them: by workers, a room always by the same worker, with its delays between attempts.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::Double;
use crate::webhooks::{self, Webhook};

/// Number of concurrent webhooks.
const WORKERS: usize = 10;
/// Delay before the second attempt; doubled for each further attempt.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of attempts per webhook: the last one comes 15 s after the first.
const ATTEMPTS: u32 = 5;

/// The workers, each with its queue.
pub(crate) struct Workers {
    queues: Vec<Sender<Webhook>>,
    outcomes: Arc<Mutex<WebhookOutcomes>>,
}

/// Outcome of the webhooks so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookOutcomes {
    /// Waiting or in flight.
    pub pending: usize,
    /// Accepted with 2xx.
    pub accepted: usize,
    /// Accepted after more than one attempt.
    pub repeated: usize,
    /// Refused, or unanswered in all attempts.
    pub lost: Vec<LostWebhook>,
}

/// A webhook that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostWebhook {
    /// The event's name.
    pub event: String,
    /// Status of the last response; `None` without a response.
    pub status: Option<u16>,
}

impl Double {
    /// Sends webhooks from now on as LiveKit does. `url` chooses the destination of each attempt, as a load balancer would; `None` means
    /// that no destination is available.
    pub fn send_by_workers(&self, url: impl Fn() -> Option<String> + Clone + Send + 'static) {
        let outcomes: Arc<Mutex<WebhookOutcomes>> = Arc::default();
        let queues = (0..WORKERS).map(|_| {
            let (sender, queue) = channel();
            let (url, outcomes) = (url.clone(), Arc::clone(&outcomes));
            thread::spawn(move || work(&queue, &url, &outcomes));
            sender
        });
        let workers = Workers {
            queues: queues.collect(),
            outcomes,
        };
        self.lock().webhooks.send_by(workers);
    }

    /// Returns the outcome of the webhooks since [`Double::send_by_workers`].
    #[must_use]
    pub fn webhook_outcomes(&self) -> WebhookOutcomes {
        self.lock()
            .webhooks
            .workers()
            .map(|workers| workers.outcomes.lock().clone())
            .unwrap_or_default()
    }
}

impl Workers {
    pub(crate) fn put(&self, webhook: Webhook) {
        let body: Value = serde_json::from_slice(&webhook.body).unwrap_or_default();
        let room = body["room"]["name"].as_str().unwrap_or_default();
        let worker = room.bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        self.outcomes.lock().pending += 1;
        // A worker runs as long as the process.
        let _ = self.queues[worker % WORKERS].send(webhook);
    }
}

fn work(
    queue: &Receiver<Webhook>,
    url: &impl Fn() -> Option<String>,
    outcomes: &Mutex<WebhookOutcomes>,
) {
    for webhook in queue {
        let (status, attempts) = deliver(&webhook, url);
        let mut outcomes = outcomes.lock();
        outcomes.pending -= 1;
        if status.is_some_and(|status| (200..300).contains(&status)) {
            outcomes.accepted += 1;
            outcomes.repeated += usize::from(attempts > 1);
        } else {
            outcomes.lost.push(LostWebhook {
                event: webhook.event,
                status,
            });
        }
    }
}

/// Returns the last response's status and the number of attempts.
fn deliver(webhook: &Webhook, url: &impl Fn() -> Option<String>) -> (Option<u16>, u32) {
    let mut wait = FIRST_WAIT;
    let mut status = None;
    for attempt in 1..=ATTEMPTS {
        status = url().and_then(|url| webhooks::post(&url, webhook));
        if status.is_some_and(|status| !webhooks::is_repeated(status)) {
            return (status, attempt);
        }
        if attempt < ATTEMPTS {
            thread::sleep(wait);
            wait *= 2;
        }
    }
    (status, ATTEMPTS)
}

#[cfg(test)]
mod tests;
