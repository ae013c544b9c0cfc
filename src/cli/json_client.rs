//! Requests of commands to a running server, with JSON bodies.

use std::fmt;
use std::time::Duration;

use conclave_model::Secret;
use conclave_model::visible::Visible;
use conclave_outbound::http::{Method, Request};
use conclave_outbound::{Client, Failure, config};
use serde_json::Value;

use crate::error::CliError;

/// The usual deadline of a request, longer than a request for events waits.
pub(super) const TIMEOUT: Duration = Duration::from_secs(40);
/// Bytes of a response: a page of events with the longest names.
const MAX_BODY: u64 = 4 * 1_024 * 1_024;

/// A request that gave no result.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server cannot be reached, or cannot answer now.
    Unavailable(String),
    /// The server refused the request, and would again.
    Refused {
        /// The status of the response.
        status: u16,
        /// The message of the error.
        message: String,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => f.write_str(reason),
            Self::Refused { status, message } => write!(f, "{message} ({status})"),
        }
    }
}

impl From<CallError> for CliError {
    fn from(error: CallError) -> Self {
        Self::failed(error.to_string())
    }
}

/// Sends requests with and without a body, and parses the JSON of the answers.
#[derive(Debug, Clone)]
pub(super) struct JsonClient(Client);

impl JsonClient {
    /// `timeout` is the deadline of each request.
    pub(super) fn new(timeout: Duration) -> Self {
        Self(Client::new(
            config().timeout_global(Some(timeout)).build(),
            MAX_BODY,
        ))
    }

    /// Sends a request, with a bearer token if there is one, and returns the JSON of the response; null for an empty one.
    pub(super) fn call(
        &self,
        method: Method,
        url: &str,
        token: Option<&Secret>,
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header("Content-Type", "application/json");
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {}", token.reveal()));
        }
        let unavailable =
            |reason: &dyn fmt::Display| CallError::Unavailable(format!("{url}: {reason}"));
        let request = request.body(body.map(Value::to_string).unwrap_or_default());
        let request = request.map_err(|error| unavailable(&error))?;
        let response = self
            .0
            .send(request)
            .map_err(|error| unavailable(&Failure::from(&error)))?;
        let status = response.status().as_u16();
        let body = response.into_body();
        match status {
            200..=299 if body.is_empty() => Ok(Value::Null),
            200..=299 => {
                serde_json::from_slice(&body).map_err(|_| unavailable(&"the response is not JSON"))
            }
            429 | 500..=599 => Err(unavailable(&format_args!("{} ({status})", message(&body)))),
            _ => Err(CallError::Refused {
                status,
                message: message(&body),
            }),
        }
    }
}

/// The message of an error of the API, the reason of a refused step-down, or a general message for what another program has answered.
fn message(body: &[u8]) -> String {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = parsed["error"]["message"]
        .as_str()
        .or_else(|| parsed["reason"].as_str());
    Visible(message.unwrap_or("the server refused the request")).to_string()
}
