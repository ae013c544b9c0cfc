//! One attempt at a delivery: a signed POST and its outcome.
//!
//! The limits protect against receivers that are slow, endless or hostile. The whole attempt, from
//! the name lookup to the last byte read, has one timeout. Headers and body are read up to a bound.
//! Redirects are not followed, since their target was never registered.
//!
//! Connections are kept for a second, for the next delivery. The resolver still checks the
//! addresses of each attempt before a kept connection is used. If the receiver has closed a kept
//! connection, a new one replaces it.

use std::cell::Cell;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::address::AddressFilter;
use conclave_model::webhook::{AttemptOutcome, WebhookEndpoint};
use conclave_model::{DeliveryId, Timestamp};
use ureq::unversioned::resolver::Resolver;
use ureq::unversioned::transport::{ConnectionDetails, Connector, DefaultConnector};
use ureq::{Agent, Error};

use super::signature::{standard_signature, svc_signature};
use super::status::{self, StatusRecorder};
use crate::client::config_trusting;
use crate::failure::RequestFailure;
use crate::resolver::{FilteredResolver, parse_url};
use crate::roots::TrustedRoots;

/// Maximum length of status line and headers in bytes.
const MAX_RESPONSE_HEAD: usize = 32 * 1024;
/// Number of body bytes read, so that a receiver that sends a short body is not cut off while
/// writing it.
const MAX_RESPONSE_BODY: u64 = 16 * 1024;
/// Maximum time for reading the body.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Size of each of a connection's two buffers, into which the head of a request or a response must
/// fit.
const BUFFER: usize = 48 * 1024;
/// Maximum length of an error in characters, since some quote the receiver.
const MAX_ERROR: usize = 200;
/// Maximum idle time of a connection. Common servers close theirs after two seconds or more.
const MAX_IDLE: Duration = Duration::from_secs(1);
/// Limits for kept connections.
const IDLE_CONNECTIONS: IdleConnections = IdleConnections {
    total: 64,
    per_host: 4,
};
/// Limits for a client that makes a new connection per request.
const NO_IDLE_CONNECTIONS: IdleConnections = IdleConnections {
    total: 0,
    per_host: 0,
};

thread_local! {
    /// Whether this thread's current request opened a connection rather than using a kept one.
    static DIALLED: Cell<bool> = const { Cell::new(false) };
}

/// Delivery to post.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Webhook endpoint, with the key for both signatures.
    pub endpoint: Arc<WebhookEndpoint>,
    /// Delivery id, the same on each attempt.
    pub id: DeliveryId,
    /// Event name.
    pub event_type: String,
    /// Exact body.
    pub payload: Box<str>,
    /// Time of this attempt.
    pub at: Timestamp,
}

/// Returns the outcome of a post with a response: any 2xx accepts the delivery.
fn outcome_for_status(status: u16) -> AttemptOutcome {
    let error = (!(200..=299).contains(&status)).then(|| format!("the receiver answered {status}"));
    AttemptOutcome {
        response_status: Some(status),
        error,
        timed_out: false,
    }
}

/// Returns the outcome of a post without a response.
pub(super) fn failed_outcome(error: &str) -> AttemptOutcome {
    AttemptOutcome {
        response_status: None,
        error: Some(error.chars().take(MAX_ERROR).collect()),
        timed_out: false,
    }
}

/// Posts deliveries. One sender serves all endpoints and any number of threads.
#[derive(Debug)]
pub struct DeliverySender {
    /// Client that keeps connections between attempts.
    agent: Agent,
    /// Client without kept connections, for requests that failed on one.
    fresh: Agent,
    timeout: Duration,
}

/// Records that a connection is opened. The next connector in the chain opens it.
#[derive(Debug)]
struct DialRecorder;

impl Connector for DialRecorder {
    type Out = ();

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<()>, Error> {
        DIALLED.set(true);
        Ok(None)
    }
}

impl DeliverySender {
    /// Creates a sender that dials only addresses that `filter` permits, and trusts `roots`.
    /// `timeout` covers a whole attempt.
    #[must_use]
    pub fn new(filter: AddressFilter, timeout: Duration, roots: &TrustedRoots) -> Self {
        Self::with_resolver(|| FilteredResolver::new(filter.clone()), timeout, roots)
    }

    fn with_resolver<R: Resolver>(
        resolver: impl Fn() -> R,
        timeout: Duration,
        roots: &TrustedRoots,
    ) -> Self {
        // Two agents, since an agent's pool cannot be bypassed for one request.
        let [agent, fresh] = [IDLE_CONNECTIONS, NO_IDLE_CONNECTIONS]
            .map(|idle| agent(resolver(), timeout, idle, roots.clone()));
        Self {
            agent,
            fresh,
            timeout,
        }
    }

    /// Makes one attempt. Blocks up to the timeout, so it belongs on a blocking thread.
    #[must_use]
    pub fn post(&self, delivery: &Delivery) -> AttemptOutcome {
        // Uses the same parser as the registration, so that both find the same host in a URL.
        let url = match parse_url(&delivery.endpoint.url) {
            Ok(url) => url,
            Err(refusal) => return failed_outcome(&format!("the url is not usable: {refusal}")),
        };
        let start = Instant::now();
        let outcome = match self.send(url.as_str(), delivery) {
            Ok(status) => outcome_for_status(status),
            Err(error) => match RequestFailure::from(&error) {
                RequestFailure::UnknownIssuer => failed_outcome(&format!(
                    "{} (webhooks.root_certs, SSL_CERT_FILE)",
                    RequestFailure::UnknownIssuer
                )),
                RequestFailure::TimedOut => {
                    failed_outcome(&format!("timed out after {:?}", self.timeout))
                }
                failure => failed_outcome(&failure.to_string()),
            },
        };
        AttemptOutcome {
            // By the clock, not the error: a receiver that responds at the last moment is as slow
            // as a silent one.
            timed_out: start.elapsed() >= self.timeout,
            ..outcome
        }
    }

    /// Sends on a kept connection if there is one. If the receiver has closed it without a
    /// response, sends on a new one.
    fn send(&self, url: &str, delivery: &Delivery) -> Result<u16, Error> {
        DIALLED.set(false);
        match send_with(&self.agent, url, delivery) {
            // Only on a kept connection: on a new one, the receiver may have handled the request.
            Err(error)
                if RequestFailure::from(&error) == RequestFailure::Closed && !DIALLED.get() =>
            {
                send_with(&self.fresh, url, delivery)
            }
            result => result,
        }
    }
}

/// Limits for kept connections.
#[derive(Clone, Copy)]
struct IdleConnections {
    total: usize,
    per_host: usize,
}

fn agent(
    resolver: impl Resolver,
    timeout: Duration,
    idle: IdleConnections,
    roots: TrustedRoots,
) -> Agent {
    let config = config_trusting(roots)
        .timeout_global(Some(timeout))
        // The body does not matter, so it gets a second at most.
        .timeout_recv_body(Some(timeout.min(BODY_TIMEOUT)))
        .max_response_header_size(MAX_RESPONSE_HEAD)
        .input_buffer_size(BUFFER)
        .output_buffer_size(BUFFER)
        .max_idle_age(MAX_IDLE)
        .max_idle_connections(idle.total)
        .max_idle_connections_per_host(idle.per_host)
        .build();
    // In this order: record the dial, open the connection, record the status.
    let connector = DialRecorder
        .chain(DefaultConnector::default())
        .chain(StatusRecorder);
    Agent::with_parts(config, connector, resolver)
}

fn send_with(agent: &Agent, url: &str, delivery: &Delivery) -> Result<u16, Error> {
    let (secret, id, body) = (
        &delivery.endpoint.secret,
        delivery.id.to_string(),
        delivery.payload.as_bytes(),
    );
    let previous = delivery.endpoint.previous_secret_at(delivery.at);
    // The attempt's time, so that receivers can reject old messages without rejecting retries.
    let seconds = delivery.at.millis().div_euclid(1_000);
    status::clear();
    let mut standard = standard_signature(secret, &id, seconds, body);
    let mut request = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("X-Svc-Event", &delivery.event_type)
        .header("webhook-id", &id)
        .header("webhook-timestamp", seconds.to_string());
    // The contract's header is compared as a whole, so it has room for one signature: the previous secret's until the receiver has had
    // time to change, since a receiver that reads only this header knows no other secret.
    let svc = svc_signature(previous.unwrap_or(secret), body);
    request = request.header("X-Svc-Signature", svc);
    if let Some(previous) = previous {
        request = request.header("X-Svc-Signature-Next", svc_signature(secret, body));
        standard.push(' ');
        standard += &standard_signature(previous, &id, seconds, body);
    }
    let sent = request.header("webhook-signature", standard).send(body);
    let mut response = match sent {
        // ureq rejects the headers, but the receiver has responded.
        Err(error @ Error::Protocol(_)) => return status::received().ok_or(error),
        sent => sent?,
    };
    // The status decides. A body that stalls or breaks off does not change it.
    let _ = io::copy(
        &mut response.body_mut().as_reader().take(MAX_RESPONSE_BODY),
        &mut io::sink(),
    );
    Ok(response.status().as_u16())
}

#[cfg(test)]
pub(super) mod tests;
