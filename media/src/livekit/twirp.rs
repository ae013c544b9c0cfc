//! The client: protobuf over HTTP POST, as Twirp has it. A call blocks its thread, so it runs on one that may block, and
//! as many at once as there are [`MOST_AT_ONCE`].

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Clock, Secret};
use prost::Message;
use tokio::sync::Semaphore;
use ureq::Agent;
use ureq::http::header::CONTENT_TYPE;

use super::access;
use super::calls::{Call, Patience};
use super::failure::Failure;
use crate::token::TokenSigner;

/// Calls under way at once. Moderation is rare and LiveKit near; more than these are an outage that has not been noticed.
const MOST_AT_ONCE: usize = 64;
/// The least time for calls that make LiveKit look for a worker.
const LONG: Duration = Duration::from_secs(30);
/// Bytes of an answer. The largest is a list of everybody in a room, with metadata.
const MOST_ANSWERED: u64 = 64 * 1024 * 1024;
/// How long a connection is kept for the next call. Shorter than any proxy keeps one, so that none is used that is closed.
const KEPT: Duration = Duration::from_secs(10);
const PROTOBUF: &str = "application/protobuf";

/// Calls one LiveKit server.
pub(super) struct Twirp {
    agent: Agent,
    /// What every method's path is appended to.
    base: String,
    timeout: Duration,
    signer: Arc<TokenSigner>,
    clock: Clock,
    room: Arc<Semaphore>,
}

impl fmt::Debug for Twirp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may carry a password.
        f.write_str("Twirp")
    }
}

/// Where a request goes, and with what.
struct Envelope {
    url: String,
    token: Secret,
    body: Vec<u8>,
    timeout: Duration,
}

impl Twirp {
    /// A client of the server at `url`, which may be given as the websocket address that clients use.
    pub fn new(url: &str, timeout: Duration, signer: Arc<TokenSigner>, clock: Clock) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .proxy(None)
            .user_agent(concat!("Conclave/", env!("CARGO_PKG_VERSION")))
            .max_idle_age(KEPT)
            .build();
        let room = Arc::new(Semaphore::new(MOST_AT_ONCE));
        Self { agent: config.into(), base: base(url), timeout, signer, clock, room }
    }

    /// Makes a call.
    pub async fn call<A: Message + Default>(&self, call: Call<A>) -> Result<A, Failure> {
        let timeout = match call.patience {
            Patience::Configured => self.timeout,
            Patience::Long => self.timeout.max(LONG),
        };
        let token = access::token(&self.signer, &call.grant, self.clock.now());
        let token = token.map_err(|error| Failure::Away(error.to_string()))?;
        let envelope = Envelope { url: format!("{}{}", self.base, call.path), token, body: call.body, timeout };
        let body = self.post(envelope).await?;
        A::decode(body.as_slice())
            .map_err(|_| Failure::Away("LiveKit's answer does not read: check its version".into()))
    }

    async fn post(&self, envelope: Envelope) -> Result<Vec<u8>, Failure> {
        let timeout = envelope.timeout;
        let turn = tokio::time::timeout(timeout, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Failure::Away(format!("{MOST_AT_ONCE} calls to LiveKit are under way and none ends")));
        };
        let agent = self.agent.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            exchange(&agent, &envelope)
        });
        done.await.unwrap_or_else(|_| Err(Failure::Away("the call was given up".into())))
    }
}

/// Posts, and reads the answer.
fn exchange(agent: &Agent, envelope: &Envelope) -> Result<Vec<u8>, Failure> {
    let away = |error: ureq::Error| Failure::Away(describe(&error, envelope.timeout));
    let answer = agent
        .post(&envelope.url)
        .config()
        .timeout_global(Some(envelope.timeout))
        .build()
        .header("Authorization", format!("Bearer {}", envelope.token.reveal()))
        .header("Content-Type", PROTOBUF)
        .header("X-Twirp-Timeout-Ms", envelope.timeout.as_millis().to_string())
        .send(envelope.body.as_slice());
    let mut answer = answer.map_err(away)?;
    let status = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(MOST_ANSWERED).read_to_vec().map_err(away)?;
    let speaks =
        answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(PROTOBUF.as_bytes()));
    match status {
        200 if speaks => Ok(body),
        200 => Err(Failure::Away("what answers at media.url is not LiveKit's API".into())),
        _ => Err(Failure::of(status, &body)),
    }
}

/// `ws://host:7880/` is `http://host:7880/twirp/livekit.`.
fn base(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    };
    format!("{scheme}://{}/twirp/livekit.", rest.trim_end_matches('/'))
}

fn describe(error: &ureq::Error, timeout: Duration) -> String {
    match error {
        ureq::Error::Timeout(_) => timed_out(timeout),
        ureq::Error::HostNotFound => "LiveKit's name is not resolved: check media.url".into(),
        ureq::Error::Io(error) => describe_io(error, timeout),
        ureq::Error::ConnectionFailed => "LiveKit is not reached: check media.url".into(),
        ureq::Error::Rustls(error) => format!("TLS with LiveKit failed: {error}"),
        ureq::Error::Tls(_) | ureq::Error::TlsRequired => "TLS with LiveKit failed".into(),
        ureq::Error::Protocol(_) => "what answers at media.url does not speak HTTP as LiveKit does".into(),
        ureq::Error::BodyExceedsLimit(_) => "LiveKit's answer is too large".into(),
        _ => "the call to LiveKit could not be made: check media.url".into(),
    }
}

/// What is wrong with a connection, in words.
pub(super) fn describe_io(error: &io::Error, timeout: Duration) -> String {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::TimedOut | Kind::WouldBlock => timed_out(timeout),
        Kind::InvalidData => format!("TLS with LiveKit failed: {error}"),
        Kind::ConnectionRefused => "LiveKit refuses connections: is it running, and is media.url right?".into(),
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe | Kind::UnexpectedEof => {
            "the connection to LiveKit was closed before an answer".into()
        }
        Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable => {
            "LiveKit's address is not reachable: check media.url".into()
        }
        _ => "the connection to LiveKit failed".into(),
    }
}

fn timed_out(timeout: Duration) -> String {
    format!("LiveKit did not answer within {timeout:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_websocket_address_leads_to_the_api_beside_it() {
        assert_eq!(base("ws://127.0.0.1:7880"), "http://127.0.0.1:7880/twirp/livekit.");
        assert_eq!(base("wss://live.example.org/"), "https://live.example.org/twirp/livekit.");
        assert_eq!(base("https://example.org/lk/"), "https://example.org/lk/twirp/livekit.");
    }
}
