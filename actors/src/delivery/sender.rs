//! One attempt at one delivery: a signed POST and what became of it (contract "Delivery request").
//!
//! Every limit here stands against a receiver that is slow, endless or hostile. The whole attempt, from the look-up of
//! the name to the last byte read, has one deadline; headers and body are read up to a bound; redirects are not
//! followed, since the place they lead to was never registered. Connections are not kept: a kept one would skip the
//! resolver's address check, and a stale one would fail deliveries for no fault of the receiver.
//!
//! TLS trusts the root certificates built into the binary, so an image without any still delivers.

use std::io::{self, Read as _};
use std::time::Duration;

use conclave_model::address::AddressFilter;
use conclave_model::{DeliveryId, Secret, Timestamp};
use ureq::Agent;
use ureq::unversioned::transport::DefaultConnector;

use super::resolver::{AddressBlocked, FilteredResolver, parse_url};
use super::signature::{standard_signature, svc_signature};

/// Bytes of status line and headers a receiver may answer with.
const MAX_RESPONSE_HEAD: usize = 16 * 1024;
/// Bytes of the response body read, so that a receiver that answers with one is not cut off while writing it.
const MAX_RESPONSE_BODY: u64 = 16 * 1024;
/// Bytes of each of a connection's two buffers; the larger of a request's and a response's head must fit.
const BUFFER: usize = 32 * 1024;
/// Characters of an error that are kept: some of them quote what the receiver sent.
const MAX_ERROR: usize = 200;

/// What to post, and where.
#[derive(Debug, Clone)]
pub struct DeliveryRequest {
    /// The receiver.
    pub url: String,
    /// What both signatures are keyed with.
    pub secret: Secret,
    /// The delivery, the same on each of its attempts.
    pub delivery_id: DeliveryId,
    /// The event's name.
    pub event_type: String,
    /// The exact body.
    pub payload: Box<str>,
    /// When this attempt is made.
    pub at: Timestamp,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// What the receiver answered; `None` when the request never completed.
    pub response_status: Option<u16>,
    /// Why it is a failure, in a few words that hold neither secret nor payload; `None` when it was delivered.
    pub error: Option<String>,
}

impl AttemptOutcome {
    /// Whether the receiver took it: any 2xx.
    #[must_use]
    pub const fn delivered(&self) -> bool {
        matches!(self.response_status, Some(200..=299))
    }

    fn answered(status: u16) -> Self {
        let mut outcome = Self { response_status: Some(status), error: None };
        outcome.error = (!outcome.delivered()).then(|| format!("the receiver answered {status}"));
        outcome
    }

    fn failed(error: String) -> Self {
        Self { response_status: None, error: Some(error.chars().take(MAX_ERROR).collect()) }
    }
}

/// Makes attempts. Cheap to clone; one serves all receivers, from as many threads as there are attempts under way.
#[derive(Debug, Clone)]
pub struct Sender {
    agent: Agent,
    timeout: Duration,
}

impl Sender {
    /// A sender that dials only what `filter` permits and gives each attempt `timeout` as a whole.
    #[must_use]
    pub fn new(filter: AddressFilter, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .max_redirects(0)
            .http_status_as_error(false)
            // A proxy would resolve the name itself, past the filter.
            .proxy(None)
            .user_agent(concat!("Conclave/", env!("CARGO_PKG_VERSION")))
            .max_response_header_size(MAX_RESPONSE_HEAD)
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            .max_idle_connections(0)
            .build();
        let agent = Agent::with_parts(config, DefaultConnector::default(), FilteredResolver::new(filter));
        Self { agent, timeout }
    }

    /// Posts once and says what became of it. Blocks, for the timeout at most, so it belongs on a blocking thread.
    #[must_use]
    pub fn post(&self, request: &DeliveryRequest) -> AttemptOutcome {
        // The same parser as at registration, so that both read the same host in a url.
        let url = match parse_url(&request.url) {
            Ok(url) => url,
            Err(refusal) => return AttemptOutcome::failed(format!("the url is not usable: {refusal}")),
        };
        match self.send(url.as_str(), request) {
            Ok(status) => AttemptOutcome::answered(status),
            Err(error) => AttemptOutcome::failed(self.describe(&error)),
        }
    }

    fn send(&self, url: &str, request: &DeliveryRequest) -> Result<u16, ureq::Error> {
        let body = request.payload.as_bytes();
        let id = request.delivery_id.to_string();
        let seconds = request.at.millis().div_euclid(1_000);
        let mut response = self
            .agent
            .post(url)
            .header("Content-Type", "application/json")
            .header("Connection", "close")
            .header("X-Svc-Event", &request.event_type)
            .header("X-Svc-Signature", svc_signature(&request.secret, body))
            .header("webhook-id", &id)
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", standard_signature(&request.secret, &id, seconds, body))
            .send(body)?;
        // The status is the answer; a body that drips past the deadline or breaks off takes nothing from it.
        let _ = io::copy(&mut response.body_mut().as_reader().take(MAX_RESPONSE_BODY), &mut io::sink());
        Ok(response.status().as_u16())
    }

    fn describe(&self, error: &ureq::Error) -> String {
        match error {
            ureq::Error::Timeout(_) => self.timed_out(),
            ureq::Error::HostNotFound => "name not resolved".to_owned(),
            ureq::Error::Io(error) => self.describe_io(error),
            ureq::Error::Rustls(error) => format!("TLS failed: {error}"),
            ureq::Error::Tls(_) | ureq::Error::TlsRequired => "TLS failed".to_owned(),
            ureq::Error::Protocol(_) => "the answer is not valid HTTP".to_owned(),
            ureq::Error::LargeResponseHeader(..) => "the answer's headers are too large".to_owned(),
            ureq::Error::Other(error) if error.is::<AddressBlocked>() => "address blocked".to_owned(),
            _ => "the request could not be made".to_owned(),
        }
    }

    fn describe_io(&self, error: &io::Error) -> String {
        use io::ErrorKind as Kind;
        let words = match error.kind() {
            Kind::TimedOut | Kind::WouldBlock => return self.timed_out(),
            // What rustls finds wrong with a certificate or a record comes wrapped this way.
            Kind::InvalidData => return format!("TLS failed: {error}"),
            Kind::ConnectionRefused => "connection refused",
            Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe | Kind::UnexpectedEof => {
                "connection closed before an answer"
            }
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable => "address not reachable",
            _ => "connection failed",
        };
        words.to_owned()
    }

    fn timed_out(&self) -> String {
        format!("timed out after {:?}", self.timeout)
    }
}

#[cfg(test)]
mod tests;
