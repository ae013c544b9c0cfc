//! Client of LiveKit's server API: protobuf over HTTP POST, as specified by Twirp.
//!
//! Each call that Conclave makes has a function, such as [`create_room`], which returns a [`Call`] with its path, grant
//! and timeout. [`TwirpClient::call`] sends it. A [`CallError`] displays as advice for the operator, and distinguishes
//! cases for which LiveKit uses the same code. [`describe_http`] describes network errors, also for the
//! configuration check's WebSocket.
//!
//! A call blocks its thread, so it runs on tokio's blocking pool. [`MAX_CONCURRENT_CALLS`] limits their number.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Clock, LeaseCheck};
use conclave_outbound::http::Request;
use conclave_outbound::http::header::CONTENT_TYPE;
use conclave_outbound::{Client, Error, RequestFailure, config};
use livekit_protocol as proto;
use prost::Message;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::access_token::{ApiGrant, api_token};
use crate::port::MediaError;
use crate::redact::redact_urls;
use crate::token::TokenSigner;

/// Maximum number of concurrent calls. Moderation is rare and LiveKit responds quickly, so this many pending calls mean
/// an outage that has not been detected yet.
const MAX_CONCURRENT_CALLS: usize = 64;
/// Minimum timeout for a call with [`CallTimeout::Extended`].
const EXTENDED_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response body, in bytes. The largest response lists all participants in a room, with their
/// metadata.
const MAX_RESPONSE_BYTES: u64 = 64 * 1024 * 1024;
/// Idle time after which a connection is closed. Shorter than common proxies' idle timeouts, so that no connection is
/// used after a proxy has closed it.
const MAX_IDLE: Duration = Duration::from_secs(10);
const PROTOBUF: &str = "application/protobuf";

/// Client of one LiveKit server.
pub(super) struct TwirpClient {
    client: Client,
    /// URL to which a call's path is appended.
    base_url: String,
    timeout: Duration,
    signer: Arc<TokenSigner>,
    clock: Clock,
    permits: Arc<Semaphore>,
    lease: LeaseCheck,
}

impl fmt::Debug for TwirpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        f.write_str("TwirpClient")
    }
}

impl TwirpClient {
    /// Creates a client for the server at `url`, which may be the participants' WebSocket URL.
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
            // The path of a call, such as `RoomService/CreateRoom`, completes the package name.
            base_url: format!("{}/twirp/livekit.", http_url(url)),
            timeout,
            signer,
            clock,
            permits,
            lease,
        }
    }

    /// Sends a call and decodes its response.
    pub async fn call<R: Message + Default>(&self, call: Call<R>) -> Result<R, CallError> {
        let timeout = match call.timeout {
            CallTimeout::Configured => self.timeout,
            CallTimeout::Extended => self.timeout.max(EXTENDED_TIMEOUT),
        };
        // Signed for each call: a token grants this call only, and is valid for minutes.
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
            CallError::Unavailable("LiveKit's response is unreadable: check its version".into())
        })
    }

    async fn post(
        &self,
        request: Request<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Vec<u8>, CallError> {
        // Waiting for a permit has its own timeout, so a call takes at most twice the timeout.
        let permit = tokio::time::timeout(timeout, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(CallError::Unavailable(format!(
                "{MAX_CONCURRENT_CALLS} calls to LiveKit are in progress, and none completed within {timeout:?}"
            )));
        };
        let (client, lease) = (self.client.clone(), self.lease.clone());
        let response = tokio::task::spawn_blocking(move || {
            // Held by the blocking task, which continues even if the caller gives up.
            let _permit = permit;
            // Checked right before the call: another server may be active by now, and its changes must not be undone.
            if !lease.is_valid() {
                return Err(CallError::Unavailable(
                    "LiveKit was not called: this server's lease is not confirmed".into(),
                ));
            }
            send(&client, request, timeout)
        });
        response
            .await
            .unwrap_or_else(|_| Err(CallError::Unavailable("the call was cancelled".into())))
    }
}

/// Sends a request and returns the response's body.
fn send(
    client: &Client,
    request: Request<Vec<u8>>,
    timeout: Duration,
) -> Result<Vec<u8>, CallError> {
    let response = client
        .send_within(timeout, request)
        .map_err(|error| unavailable(&error, timeout))?;
    // A web server at the wrong URL may respond with 200 and a page.
    let content_type = response.headers().get(CONTENT_TYPE);
    let is_protobuf =
        content_type.is_some_and(|value| value.as_bytes().starts_with(PROTOBUF.as_bytes()));
    let (parts, body) = response.into_parts();
    match parts.status.as_u16() {
        200 if is_protobuf => Ok(body),
        200 => Err(CallError::Unavailable(
            "the server at media.url is not LiveKit's API".into(),
        )),
        status => Err(CallError::from_response(status, &body)),
    }
}

fn unavailable(error: &Error, timeout: Duration) -> CallError {
    CallError::Unavailable(describe_http(error, timeout))
}

/// Timeout for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallTimeout {
    /// The setting `media.timeout`.
    Configured,
    /// At least 30 seconds: LiveKit offers an egress to one worker after another.
    Extended,
}

/// An API call with the response type `R`.
pub(super) struct Call<R> {
    /// Service and method, as in `RoomService/CreateRoom`.
    pub path: &'static str,
    /// Grant of the call's access token.
    pub grant: ApiGrant,
    /// The request, encoded as protobuf.
    pub body: Vec<u8>,
    pub timeout: CallTimeout,
    response: PhantomData<fn() -> R>,
}

/// Declares a group of calls with a common service, grant and timeout: each with its name, request, response and
/// method.
macro_rules! calls {
    ($service:literal, $grant:expr, $timeout:ident:
     $($name:ident($request:ident) -> $response:ident = $method:literal;)+) => {$(
        pub(super) fn $name(request: &proto::$request) -> Call<proto::$response> {
            let grant: fn(&proto::$request) -> ApiGrant = $grant;
            Call {
                path: concat!($service, "/", $method),
                grant: grant(request),
                body: request.encode_to_vec(),
                timeout: CallTimeout::$timeout,
                response: PhantomData,
            }
        }
    )+};
}

calls! { "RoomService", |_| ApiGrant::room_create(), Configured:
    create_room(CreateRoomRequest) -> Room = "CreateRoom";
    delete_room(DeleteRoomRequest) -> DeleteRoomResponse = "DeleteRoom";
}

calls! { "RoomService", |_| ApiGrant::room_list(), Configured:
    list_rooms(ListRoomsRequest) -> ListRoomsResponse = "ListRooms";
}

calls! { "RoomService", |request| ApiGrant::room_admin(&request.room), Configured:
    list_participants(ListParticipantsRequest) -> ListParticipantsResponse = "ListParticipants";
    get_participant(RoomParticipantIdentity) -> ParticipantInfo = "GetParticipant";
    remove_participant(RoomParticipantIdentity) -> RemoveParticipantResponse = "RemoveParticipant";
    mute_track(MuteRoomTrackRequest) -> MuteRoomTrackResponse = "MutePublishedTrack";
    update_participant(UpdateParticipantRequest) -> ParticipantInfo = "UpdateParticipant";
    update_subscriptions(UpdateSubscriptionsRequest) -> UpdateSubscriptionsResponse = "UpdateSubscriptions";
    send_data(SendDataRequest) -> SendDataResponse = "SendData";
}

calls! { "Egress", |_| ApiGrant::room_record(), Extended:
    start_room_composite(RoomCompositeEgressRequest) -> EgressInfo = "StartRoomCompositeEgress";
    start_participant(ParticipantEgressRequest) -> EgressInfo = "StartParticipantEgress";
    start_track(TrackEgressRequest) -> EgressInfo = "StartTrackEgress";
}

calls! { "Egress", |_| ApiGrant::room_record(), Configured:
    list_egress(ListEgressRequest) -> ListEgressResponse = "ListEgress";
    stop_egress(StopEgressRequest) -> EgressInfo = "StopEgress";
    update_stream(UpdateStreamRequest) -> EgressInfo = "UpdateStream";
}

calls! { "Ingress", |_| ApiGrant::ingress_admin(), Configured:
    create_ingress(CreateIngressRequest) -> IngressInfo = "CreateIngress";
    list_ingress(ListIngressRequest) -> ListIngressResponse = "ListIngress";
    delete_ingress(DeleteIngressRequest) -> IngressInfo = "DeleteIngress";
}

/// Maximum number of characters quoted from LiveKit's texts.
const MAX_QUOTED_CHARS: usize = 200;

/// Reason why a call to LiveKit failed. Its `Display` is the text for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// LiveKit responded with a Twirp error.
    #[error("{}", .0.advice())]
    Refused(TwirpError),
    /// There was no response, or it did not come from LiveKit's API.
    #[error("{0}")]
    Unavailable(String),
}

/// Body of a Twirp error response.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct TwirpError {
    /// Twirp error code, such as `not_found`.
    code: String,
    #[serde(default)]
    msg: String,
}

impl CallError {
    /// Reads an unsuccessful call's response.
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        // A Twirp error is a JSON object with a code. A proxy may respond with any body, including other JSON.
        if let Ok(error) = serde_json::from_slice::<TwirpError>(body) {
            return Self::Refused(error);
        }
        Self::Unavailable(match status {
            401 => "the server answered 401: check media.api_key and media.api_secret".to_owned(),
            404 => "the server answered 404 to LiveKit's API: check media.url".to_owned(),
            413 => {
                "the server answered 413: a proxy in front of LiveKit limits the size of requests"
                    .to_owned()
            }
            // Without the body: a proxy's error page adds nothing to its status.
            _ => {
                format!(
                    "the server answered {status} without a LiveKit error: check media.url and the proxy in front of it"
                )
            }
        })
    }

    /// Returns whether the room, participant, egress or ingress endpoint does not exist.
    pub fn is_not_found(&self) -> bool {
        self.has_code("not_found")
    }

    /// Returns whether LiveKit's state or configuration forbids the call.
    pub fn is_failed_precondition(&self) -> bool {
        self.has_code("failed_precondition")
    }

    /// Returns whether no LiveKit node responded for the room or participant: it does not exist, or its node is stuck.
    pub fn is_no_response(&self) -> bool {
        self.has_code("unavailable")
    }

    /// Returns whether another process that LiveKit contacted, such as an egress worker, did not respond in time.
    pub fn is_deadline_exceeded(&self) -> bool {
        self.has_code("deadline_exceeded")
    }

    /// Returns whether the room is assigned to a node that no longer exists.
    pub fn is_node_missing(&self) -> bool {
        // LiveKit has no code for this, only a text.
        matches!(self, Self::Refused(error) if error.msg.contains("could not find object"))
    }

    /// Returns whether LiveKit runs without Redis, which egress and ingress need.
    pub fn is_redis_missing(&self) -> bool {
        matches!(self, Self::Refused(error) if error.is_redis_missing())
    }

    fn has_code(&self, code: &str) -> bool {
        matches!(self, Self::Refused(error) if error.code == code)
    }
}

impl From<CallError> for MediaError {
    fn from(error: CallError) -> Self {
        match &error {
            CallError::Refused(refused) if refused.concerns_request() => {
                Self::Refused(error.to_string())
            }
            // Server and credential problems affect every call, so they count as an outage.
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl TwirpError {
    /// Returns whether LiveKit is healthy and refuses this request, as opposed to a server or credential problem that
    /// affects every call.
    fn concerns_request(&self) -> bool {
        let server_faults = [
            "internal",
            "unknown",
            "data_loss",
            "deadline_exceeded",
            "canceled",
        ];
        let client_faults = ["unauthenticated", "permission_denied", "bad_route"];
        self.is_redis_missing()
            || !(server_faults.contains(&&*self.code) || client_faults.contains(&&*self.code))
    }

    fn is_redis_missing(&self) -> bool {
        // "egress not connected (redis required)", and the same for ingress.
        self.msg.contains("not connected")
    }

    fn advice(&self) -> String {
        // Some versions of LiveKit put this prefix before another component's error, others do not.
        let message = sanitized(self.msg.trim_start_matches("twirp error unknown: "));
        match (self.code.as_str(), message.as_str()) {
            ("unauthenticated" | "permission_denied", _) => {
                format!("LiveKit refused the credentials ({message}): check media.api_key and media.api_secret")
            }
            ("failed_precondition", message) if message.contains("remote unmute") => {
                "LiveKit does not permit a server to unmute: set room.enable_remote_unmute to true in its configuration"
                    .into()
            }
            (_, message) if message.contains("not connected") => {
                format!(
                    "LiveKit has no connection to Redis, which egress and ingress need ({message}): set redis in its configuration"
                )
            }
            ("bad_route", _) => "LiveKit does not implement this call: check media.url and LiveKit's version".into(),
            (code, message) => format!("LiveKit answered {code}: {message}"),
        }
    }
}

/// Replaces an error with an empty list if LiveKit runs without Redis: then there are neither egresses nor ingress
/// endpoints.
pub(super) fn empty_without_redis<R: Default>(
    listed: Result<R, CallError>,
) -> Result<R, CallError> {
    match listed {
        Err(error) if error.is_redis_missing() => Ok(R::default()),
        listed => listed,
    }
}

/// Truncates a text from LiveKit, and removes control characters and the paths of URLs, which may contain stream keys.
pub(super) fn sanitized(text: &str) -> String {
    let short: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_QUOTED_CHARS)
        .collect();
    redact_urls(&short)
}

/// Returns the HTTP URL of the server at `url`: `http://host:7880` for `ws://host:7880/`.
pub(super) fn http_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    };
    format!("{scheme}://{}", rest.trim_end_matches('/'))
}

/// Describes a failed HTTP request to LiveKit.
pub(super) fn describe_http(error: &Error, timeout: Duration) -> String {
    // Each text names the setting to check: the operator sees only this line.
    let words = match RequestFailure::from(error) {
        RequestFailure::TimedOut => return format!("LiveKit did not answer within {timeout:?}"),
        RequestFailure::Tls(reason) => return format!("TLS with LiveKit failed: {reason}"),
        RequestFailure::UnknownIssuer => {
            "LiveKit's certificate has an untrusted issuer: name its authority in SSL_CERT_FILE"
        }
        RequestFailure::NameNotResolved => {
            "LiveKit's host name cannot be resolved: check media.url"
        }
        RequestFailure::Refused => {
            "LiveKit refuses connections: is it running, and is media.url right?"
        }
        RequestFailure::Unreachable => "LiveKit's address is not reachable: check media.url",
        RequestFailure::Closed => "the connection to LiveKit was closed before a response",
        RequestFailure::ConnectionFailed => "the connection to LiveKit failed",
        RequestFailure::NotHttp => "the server at media.url does not speak HTTP",
        RequestFailure::LargeBody => "LiveKit's response is too large",
        RequestFailure::AddressBlocked | RequestFailure::LargeHead | RequestFailure::NotSent => {
            "the call to LiveKit could not be made: check media.url"
        }
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_calls_is_derived_from_a_websocket_url() {
        assert_eq!(http_url("ws://127.0.0.1:7880"), "http://127.0.0.1:7880");
        assert_eq!(
            http_url("wss://live.example.org/"),
            "https://live.example.org"
        );
        assert_eq!(
            http_url("https://example.org/lk/"),
            "https://example.org/lk"
        );
    }
}
