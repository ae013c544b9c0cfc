//! Errors of calls to LiveKit, with the advice that an operator gets for each.

use serde::Deserialize;
use thiserror::Error;

use crate::port::MediaError;
use crate::redact::redact_urls;

/// Characters of a text from LiveKit that are passed on.
const MAX_QUOTED_CHARS: usize = 200;

/// Why a call to LiveKit failed. Displays as the text for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum CallError {
    /// LiveKit answered with a Twirp error.
    #[error("{}", .0.advice())]
    Refused(TwirpError),
    /// There was no answer, or the answer is not from LiveKit's API.
    #[error("{0}")]
    Unavailable(String),
}

/// The body of a Twirp error response.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct TwirpError {
    /// A Twirp error code, such as `not_found`.
    code: String,
    #[serde(default)]
    msg: String,
}

impl CallError {
    /// Reads the response of a call that did not succeed.
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        // A Twirp error is a JSON object with a code. A proxy may answer with any body, including other JSON.
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
            // The body is left out: an error page of a proxy adds nothing to its status.
            _ => {
                format!(
                    "the server answered {status} and no LiveKit error: check media.url and what is in front of it"
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

    /// Returns whether no LiveKit node answered for the room or participant: it does not exist, or its node is stuck.
    pub fn is_no_response(&self) -> bool {
        self.has_code("unavailable")
    }

    /// Returns whether LiveKit asked another process, such as an egress worker, which did not answer in time.
    pub fn is_deadline_exceeded(&self) -> bool {
        self.has_code("deadline_exceeded")
    }

    /// Returns whether the room is assigned to a node that no longer exists.
    pub fn is_node_missing(&self) -> bool {
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
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl TwirpError {
    /// Returns whether LiveKit is healthy and refuses this request, as opposed to a fault of the server or of the
    /// credentials, with which every call fails.
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
        self.msg.contains("not connected")
    }

    fn advice(&self) -> String {
        // Some versions of LiveKit put this prefix before an error of another component, others do not.
        let message = sanitized(self.msg.trim_start_matches("twirp error unknown: "));
        match (self.code.as_str(), message.as_str()) {
            ("unauthenticated" | "permission_denied", _) => {
                format!("LiveKit refused the credentials ({message}): check media.api_key and media.api_secret")
            }
            ("failed_precondition", message) if message.contains("remote unmute") => {
                "LiveKit does not let a server unmute: set room.enable_remote_unmute to true in its configuration"
                    .into()
            }
            (_, message) if message.contains("not connected") => {
                format!(
                    "LiveKit has no connection to Redis, which egress and ingress need ({message}): set redis in its configuration"
                )
            }
            ("bad_route", _) => "LiveKit does not know this call: check media.url and LiveKit's version".into(),
            (code, message) => format!("LiveKit answered {code}: {message}"),
        }
    }
}

/// Returns a list as empty if it could not be read because LiveKit runs without Redis: it has neither egresses nor
/// ingress endpoints then.
pub(super) fn empty_without_redis<R: Default>(
    listed: Result<R, CallError>,
) -> Result<R, CallError> {
    match listed {
        Err(error) if error.is_redis_missing() => Ok(R::default()),
        listed => listed,
    }
}

/// Shortens a text from LiveKit and removes control characters and the paths of urls, which may hold stream keys.
pub(super) fn sanitized(text: &str) -> String {
    let short: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_QUOTED_CHARS)
        .collect();
    redact_urls(&short)
}
