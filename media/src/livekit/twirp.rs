//! The client of LiveKit's server API: protobuf over HTTP POST, as Twirp specifies it.
//!
//! A call blocks its thread, so it runs on tokio's blocking pool. [`MAX_CONCURRENT_CALLS`] limits how many run at once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Clock, LeaseCheck};
use conclave_outbound::http::Request;
use conclave_outbound::http::header::CONTENT_TYPE;
use conclave_outbound::{Client, Error, config};
use prost::Message;
use tokio::sync::Semaphore;

use super::access_token::api_token;
use super::call_error::CallError;
use super::calls::{Call, CallTimeout};
use super::transport::{describe_http, http_url};
use crate::token::TokenSigner;

/// Calls that may run at once. Moderation is rare and LiveKit is near, so more than these mean an outage that has not been
/// detected yet.
const MAX_CONCURRENT_CALLS: usize = 64;
/// Least timeout of a call with [`CallTimeout::Extended`].
const EXTENDED_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a response body. The largest response lists all participants of a room, with their metadata.
const MAX_RESPONSE_BYTES: u64 = 64 * 1024 * 1024;
/// How long an idle connection is kept. Shorter than the idle timeout of common proxies, so that no connection is used
/// after the proxy has closed it.
const MAX_IDLE: Duration = Duration::from_secs(10);
const PROTOBUF: &str = "application/protobuf";

/// A client of one LiveKit server.
pub(super) struct TwirpClient {
    client: Client,
    /// The url to which the path of a call is appended.
    base_url: String,
    timeout: Duration,
    signer: Arc<TokenSigner>,
    clock: Clock,
    permits: Arc<Semaphore>,
    lease: LeaseCheck,
}

impl fmt::Debug for TwirpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The url may contain a password.
        f.write_str("TwirpClient")
    }
}

impl TwirpClient {
    /// Creates a client of the server at `url`, which may be the websocket url that participants use.
    pub fn new(
        url: &str,
        timeout: Duration,
        signer: Arc<TokenSigner>,
        clock: Clock,
        lease: LeaseCheck,
    ) -> Self {
        let config = config().max_idle_age(MAX_IDLE).build();
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
        Self {
            client: Client::new(config, MAX_RESPONSE_BYTES),
            base_url: format!("{}/twirp/livekit.", http_url(url)),
            timeout,
            signer,
            clock,
            permits,
            lease,
        }
    }

    /// Makes a call and decodes its response.
    pub async fn call<R: Message + Default>(&self, call: Call<R>) -> Result<R, CallError> {
        let timeout = match call.timeout {
            CallTimeout::Configured => self.timeout,
            CallTimeout::Extended => self.timeout.max(EXTENDED_TIMEOUT),
        };
        let token = api_token(&self.signer, &call.grant, self.clock.now());
        let token = token.map_err(|error| CallError::Unavailable(error.to_string()))?;
        let request = Request::post(format!("{}{}", self.base_url, call.path))
            .header("Authorization", format!("Bearer {}", token.reveal()))
            .header("Content-Type", PROTOBUF)
            .header("X-Twirp-Timeout-Ms", timeout.as_millis().to_string())
            .body(call.body);
        let request = request.map_err(|error| unavailable(&error.into(), timeout))?;
        let body = self.post(request, timeout).await?;
        R::decode(body.as_slice()).map_err(|_| {
            CallError::Unavailable("LiveKit's answer does not read: check its version".into())
        })
    }

    async fn post(
        &self,
        request: Request<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let permit = tokio::time::timeout(timeout, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(CallError::Unavailable(format!(
                "{MAX_CONCURRENT_CALLS} calls to LiveKit are under way and none ends"
            )));
        };
        let (client, lease) = (self.client.clone(), self.lease.clone());
        let response = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // Right before the call: another server may be the active one, and what it does must not be undone.
            if !lease.is_valid() {
                return Err(CallError::Unavailable(
                    "LiveKit is not called: the lease of this server is not confirmed".into(),
                ));
            }
            send(&client, request, timeout)
        });
        response
            .await
            .unwrap_or_else(|_| Err(CallError::Unavailable("the call was cancelled".into())))
    }
}

/// Sends a request and returns the body of its response.
fn send(
    client: &Client,
    request: Request<Vec<u8>>,
    timeout: Duration,
) -> Result<Vec<u8>, CallError> {
    let response = client
        .send_within(timeout, request)
        .map_err(|error| unavailable(&error, timeout))?;
    let content_type = response.headers().get(CONTENT_TYPE);
    let is_protobuf =
        content_type.is_some_and(|value| value.as_bytes().starts_with(PROTOBUF.as_bytes()));
    let (parts, body) = response.into_parts();
    match parts.status.as_u16() {
        200 if is_protobuf => Ok(body),
        200 => Err(CallError::Unavailable(
            "what answers at media.url is not LiveKit's API".into(),
        )),
        status => Err(CallError::from_response(status, &body)),
    }
}

fn unavailable(error: &Error, timeout: Duration) -> CallError {
    CallError::Unavailable(describe_http(error, timeout))
}
