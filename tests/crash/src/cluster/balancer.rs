//! A load balancer for clients: each request goes to a random node. If a node refuses the request, or its connection breaks and the request
//! may be repeated, it goes to another node.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use livekit_double::Double;
use livekit_protocol::{DisconnectReason, TrackSource, TrackType};
use serde_json::json;

use super::node::Node;
use crate::api::{Api, Unanswered};
use crate::journal::Answer;
use crate::service::{Attempt, Call, Service};

/// Timeout for a node's response: longer than a node buffers a request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Time for which nodes are tried.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);
/// Interval between a client's requests.
const PACE: Duration = Duration::from_millis(40);

/// A client's connections to the nodes and to LiveKit.
pub struct Balancer {
    nodes: Arc<[Node]>,
    livekit: Double,
    key: String,
    random: fastrand::Rng,
    connections: HashMap<String, Api>,
}

impl Balancer {
    pub fn new(nodes: &Arc<[Node]>, livekit: &Double, key: &str, seed: u64) -> Self {
        Self {
            nodes: Arc::clone(nodes),
            livekit: livekit.clone(),
            key: key.to_owned(),
            random: fastrand::Rng::with_seed(seed),
            connections: HashMap::new(),
        }
    }

    /// Chooses a running node, if possible not the failed one.
    fn choose(&mut self, failed: Option<usize>) -> Option<(usize, String)> {
        choose(&self.nodes, &mut self.random, failed)
    }
}

/// Chooses a running node, if possible not the failed one. Returns its number and its URL.
pub fn choose(
    nodes: &[Node],
    random: &mut fastrand::Rng,
    failed: Option<usize>,
) -> Option<(usize, String)> {
    let running: Vec<_> = nodes
        .iter()
        .filter_map(|node| node.url_for_clients().map(|url| (node.number, url)))
        .collect();
    let others: Vec<_> = running
        .iter()
        .filter(|(number, _)| Some(*number) != failed)
        .cloned()
        .collect();
    random.choice(others).or_else(|| running.first().cloned())
}

fn attempt(answer: Answer) -> Attempt {
    let now = Instant::now();
    Attempt {
        answer: Some(answer),
        node: 0,
        sent: now,
        ended: now,
    }
}

impl Service for Balancer {
    fn connect(&mut self) -> bool {
        thread::sleep(PACE);
        false
    }

    fn call(&mut self, call: Call<'_>) -> Vec<Attempt> {
        let began = Instant::now();
        let mut attempts = Vec::new();
        let mut failed = None;
        while began.elapsed() < PATIENCE {
            let Some((node, url)) = self.choose(failed) else {
                thread::sleep(PAUSE);
                continue;
            };
            let key = &self.key;
            let api = self
                .connections
                .entry(url)
                .or_insert_with_key(|url| Api::without_keep_alive(url, key, TIMEOUT));
            let (attempt, failure) = api.attempt(node, call);
            if failure != Some(Unanswered::Refused) {
                attempts.push(attempt);
                if failure.is_none() || !call.is_repeatable() {
                    return attempts;
                }
            }
            failed = Some(node);
            thread::sleep(PAUSE);
        }
        if attempts.is_empty() {
            attempts.push(Attempt {
                answer: None,
                node: usize::MAX,
                sent: began,
                ended: Instant::now(),
            });
        }
        attempts
    }

    fn join(&mut self, token: &str) -> Attempt {
        attempt(match self.livekit.connect(token) {
            Ok(sid) => Answer {
                status: 200,
                body: json!({"sid": sid}).to_string(),
            },
            Err(refused) => Answer {
                status: 403,
                body: format!("{refused:?}"),
            },
        })
    }

    fn leave(&mut self, sid: &str, clean: bool) -> Attempt {
        let reason = if clean {
            DisconnectReason::ClientInitiated
        } else {
            DisconnectReason::SignalClose
        };
        let status = if self.livekit.leave_by_sid(sid, reason) {
            204
        } else {
            404
        };
        attempt(Answer {
            status,
            body: String::new(),
        })
    }

    fn publish(&mut self, sid: &str) -> Attempt {
        let track = self
            .livekit
            .publish_by_sid(sid, TrackType::Audio, TrackSource::Microphone);
        attempt(Answer {
            status: if track.is_some() { 200 } else { 404 },
            body: String::new(),
        })
    }
}
