//! One attempt at one delivery: a signed POST and its outcome.
//!
//! The limits protect against a receiver that is slow, endless or hostile. The whole attempt, from the look-up of
//! the name to the last byte read, has one deadline; headers and body are read up to a bound; redirects are not
//! followed, since the place they lead to was never registered.
//!
//! Connections are kept for a second, for the next delivery of a run. The resolver checks the addresses of each attempt all
//! the same, before a kept connection is taken. One that the receiver has closed meanwhile is replaced by a new one.

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
use super::status::{self, NoteStatus};
use crate::client::config_trusting;
use crate::failure::Failure;
use crate::resolver::{FilteredResolver, parse_url};
use crate::roots::TrustedRoots;

/// Bytes of status line and headers a receiver may answer with.
const MAX_RESPONSE_HEAD: usize = 32 * 1024;
/// Bytes of the response body read, so that a receiver that answers with one is not cut off while writing it.
const MAX_RESPONSE_BODY: u64 = 16 * 1024;
/// Time in which it is read.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of each of a connection's two buffers; the larger of a request's and a response's head must fit.
const BUFFER: usize = 48 * 1024;
/// Characters of an error that are kept: some of them quote what the receiver sent.
const MAX_ERROR: usize = 200;
/// How long an idle connection is kept. Common servers close theirs after two seconds or more.
const MAX_IDLE: Duration = Duration::from_secs(1);
/// Idle connections that are kept.
const IDLE_CONNECTIONS: IdleConnections = IdleConnections {
    in_all: 64,
    to_host: 4,
};
/// Those of a client that makes a new connection for each request.
const NO_IDLE_CONNECTIONS: IdleConnections = IdleConnections {
    in_all: 0,
    to_host: 0,
};

thread_local! {
    /// Whether the current request of this thread opened a connection; otherwise it used a kept one.
    static DIALLED: Cell<bool> = const { Cell::new(false) };
}

/// A delivery to post.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The webhook endpoint, with the key of both signatures.
    pub endpoint: Arc<WebhookEndpoint>,
    /// The delivery's id, which is the same on each attempt.
    pub id: DeliveryId,
    /// The event's name.
    pub event_type: String,
    /// The exact body.
    pub payload: Box<str>,
    /// The instant of this attempt.
    pub at: Timestamp,
}

/// Returns the outcome of a post that was answered with a status: any 2xx accepts the delivery.
fn answered(status: u16) -> AttemptOutcome {
    let error = (!(200..=299).contains(&status)).then(|| format!("the receiver answered {status}"));
    AttemptOutcome {
        response_status: Some(status),
        error,
        timed_out: false,
    }
}

/// Returns the outcome of a post without a response.
pub(super) fn failed(error: &str) -> AttemptOutcome {
    AttemptOutcome {
        response_status: None,
        error: Some(error.chars().take(MAX_ERROR).collect()),
        timed_out: false,
    }
}

/// Posts deliveries: one sender to all endpoints, from any number of threads.
#[derive(Debug)]
pub struct Sender {
    /// The HTTP client, which keeps connections open between attempts.
    agent: Agent,
    /// Keeps none, for the request that a kept connection has failed.
    fresh: Agent,
    timeout: Duration,
}

/// Notes that a connection is opened. It opens none itself; the next connector in the chain does.
#[derive(Debug)]
struct NoteDial;

impl Connector for NoteDial {
    type Out = ();

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<()>, Error> {
        DIALLED.set(true);
        Ok(None)
    }
}

impl Sender {
    /// Returns a sender that dials only addresses that `filter` permits, and trusts the certificates of `roots`. `timeout` covers a
    /// whole attempt.
    #[must_use]
    pub fn new(filter: AddressFilter, timeout: Duration, roots: &TrustedRoots) -> Self {
        Self::with_resolver(|| FilteredResolver::new(filter.clone()), timeout, roots)
    }

    fn with_resolver<R: Resolver>(
        resolver: impl Fn() -> R,
        timeout: Duration,
        roots: &TrustedRoots,
    ) -> Self {
        let [agent, fresh] = [IDLE_CONNECTIONS, NO_IDLE_CONNECTIONS]
            .map(|idle| agent(resolver(), timeout, idle, roots.clone()));
        Self {
            agent,
            fresh,
            timeout,
        }
    }

    /// Makes one attempt. Blocks for the timeout at most, so call it on a blocking thread.
    #[must_use]
    pub fn post(&self, delivery: &Delivery) -> AttemptOutcome {
        // The same parser as at registration, so that both read the same host in a url.
        let url = match parse_url(&delivery.endpoint.url) {
            Ok(url) => url,
            Err(refusal) => return failed(&format!("the url is not usable: {refusal}")),
        };
        let begun = Instant::now();
        let outcome = match self.send(url.as_str(), delivery) {
            Ok(status) => answered(status),
            Err(error) => match Failure::from(&error) {
                Failure::UnknownIssuer => failed(&format!(
                    "{} (webhooks.root_certs, SSL_CERT_FILE)",
                    Failure::UnknownIssuer
                )),
                Failure::TimedOut => failed(&format!("timed out after {:?}", self.timeout)),
                failure => failed(&failure.to_string()),
            },
        };
        AttemptOutcome {
            timed_out: begun.elapsed() >= self.timeout,
            ..outcome
        }
    }

    /// Sends on a kept connection if there is one. If the receiver has closed that without a response, sends on a new one.
    fn send(&self, url: &str, delivery: &Delivery) -> Result<u16, Error> {
        DIALLED.set(false);
        match send_with(&self.agent, url, delivery) {
            Err(error) if Failure::from(&error) == Failure::Closed && !DIALLED.get() => {
                send_with(&self.fresh, url, delivery)
            }
            result => result,
        }
    }
}

/// How many idle connections a client keeps.
#[derive(Clone, Copy)]
struct IdleConnections {
    in_all: usize,
    to_host: usize,
}

fn agent(
    resolver: impl Resolver,
    timeout: Duration,
    idle: IdleConnections,
    roots: TrustedRoots,
) -> Agent {
    let config = config_trusting(roots)
        .timeout_global(Some(timeout))
        .timeout_recv_body(Some(timeout.min(BODY_TIMEOUT)))
        .max_response_header_size(MAX_RESPONSE_HEAD)
        .input_buffer_size(BUFFER)
        .output_buffer_size(BUFFER)
        .max_idle_age(MAX_IDLE)
        .max_idle_connections(idle.in_all)
        .max_idle_connections_per_host(idle.to_host)
        .build();
    let connector = NoteDial
        .chain(DefaultConnector::default())
        .chain(NoteStatus);
    Agent::with_parts(config, connector, resolver)
}

fn send_with(agent: &Agent, url: &str, delivery: &Delivery) -> Result<u16, Error> {
    let (secret, id, body) = (
        &delivery.endpoint.secret,
        delivery.id.to_string(),
        delivery.payload.as_bytes(),
    );
    let seconds = delivery.at.millis().div_euclid(1_000);
    status::forget();
    let sent = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("X-Svc-Event", &delivery.event_type)
        .header("X-Svc-Signature", svc_signature(secret, body))
        .header("webhook-id", &id)
        .header("webhook-timestamp", seconds.to_string())
        .header(
            "webhook-signature",
            standard_signature(secret, &id, seconds, body),
        )
        .send(body);
    let mut response = match sent {
        // The client does not take the headers, but the receiver has answered.
        Err(error @ Error::Protocol(_)) => return status::received().ok_or(error),
        sent => sent?,
    };
    // The status is the answer; a body that drips past the deadline or breaks off takes nothing from it.
    let _ = io::copy(
        &mut response.body_mut().as_reader().take(MAX_RESPONSE_BODY),
        &mut io::sink(),
    );
    Ok(response.status().as_u16())
}

#[cfg(test)]
pub(super) mod tests;
