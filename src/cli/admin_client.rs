//! Requests from commands to a running server, on this machine or elsewhere: to its admin listener ([`AdminClient`]), and with JSON bodies
//! to any of its addresses ([`JsonClient`]).

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use conclave_model::visible::Visible;
use conclave_model::{ProjectId, Secret};
use conclave_outbound::http::{Method, Request};
use conclave_outbound::resolver::parse_url;
use conclave_outbound::{Client, RequestFailure, config};
use serde_json::Value;

use super::projects::parse_project_id;
use crate::config::Config;
use crate::error::CliError;
use crate::server::{ServerAddresses, admin_url};

/// A command's server and project.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// URL of the admin listener; its token is `admin.token` [default: the server that uses the data directory].
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Project id, `prj_…` [default: the project of `conclave dev`].
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,
}

/// Server location.
#[derive(Debug)]
enum ServerLocation {
    Url(String),
    /// The server that uses this data directory. Its address may change with each start.
    DataDir(PathBuf),
}

/// Admin listener client.
#[derive(Debug)]
pub(super) struct AdminClient {
    client: JsonClient,
    location: ServerLocation,
    token: Option<Secret>,
    project: Option<ProjectId>,
}

impl AdminClient {
    pub(super) fn new(args: &ServerArgs, config: &Config, data: &Path) -> Result<Self, CliError> {
        let location = match &args.server {
            Some(url) => ServerLocation::Url(checked_url("--server", url)?),
            None => ServerLocation::DataDir(data.to_owned()),
        };
        // Checked before the first request, so a mistyped id fails without a server.
        let project = args.project.as_deref().map(parse_project_id).transpose()?;
        Ok(Self {
            client: JsonClient::new(TIMEOUT),
            location,
            token: config.admin.token.clone(),
            project,
        })
    }

    /// Creates a client for the listener at an address of this machine. `timeout` limits each request.
    pub(super) fn at(address: SocketAddr, config: &Config, timeout: Duration) -> Self {
        let (client, location) = (
            JsonClient::new(timeout),
            ServerLocation::Url(admin_url(address)),
        );
        Self {
            client,
            location,
            token: config.admin.token.clone(),
            project: None,
        }
    }

    /// Limits each request to `timeout`, for a request that takes longer than others.
    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        Self {
            client: JsonClient::new(timeout),
            ..self
        }
    }

    /// Returns the named project, or else the development server's project.
    pub(super) fn project(&self) -> Result<ProjectId, CallError> {
        let default_project = || match &self.location {
            ServerLocation::Url(_) => Ok(None),
            ServerLocation::DataDir(data) => addresses(data).map(|addresses| addresses.project_id),
        };
        let project = self
            .project
            .clone()
            .map_or_else(default_project, |project| Ok(Some(project)))?;
        // A remote server may have many projects, so there is no default.
        let message = "--project is required: only this data directory's development server has a default; \
                       conclave project list shows the projects";
        project.ok_or_else(|| CallError::Refused {
            status: 400,
            message: message.to_owned(),
        })
    }

    /// Returns the API's URL, if the server uses the data directory.
    pub(super) fn api(&self) -> Result<Option<String>, CallError> {
        match &self.location {
            ServerLocation::Url(_) => Ok(None),
            ServerLocation::DataDir(data) => addresses(data).map(|addresses| Some(addresses.api)),
        }
    }

    /// Returns the admin listener's URL.
    pub(super) fn url(&self) -> Result<String, CallError> {
        match &self.location {
            ServerLocation::Url(url) => Ok(url.clone()),
            ServerLocation::DataDir(data) => addresses(data).map(|addresses| addresses.admin),
        }
    }

    /// Sends a request to a path of the admin listener.
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        let called = self.client.call(
            method,
            &format!("{}{path}", self.url()?),
            self.token.as_ref(),
            body,
        );
        called.map_err(|error| match error {
            CallError::Refused {
                status: 401,
                message,
            } => {
                let message =
                    format!("{message}: set it in CONCLAVE_ADMIN__TOKEN or in the settings file");
                CallError::Refused {
                    status: 401,
                    message,
                }
            }
            error => error,
        })
    }
}

/// Checks an argument's URL. Returns it without a trailing slash.
pub(super) fn checked_url(argument: &'static str, url: &str) -> Result<String, CliError> {
    let invalid = |problem: String| CliError::InvalidArgument {
        argument,
        problem: format!("{url:?} {problem}"),
    };
    parse_url(url).map_err(|error| invalid(error.to_string()))?;
    // Paths that start with a slash are appended.
    Ok(url.trim_end_matches('/').to_owned())
}

fn addresses(data: &Path) -> Result<ServerAddresses, CallError> {
    let found = ServerAddresses::read(data);
    let found = found.map_err(|error| {
        CallError::Unavailable(format!("{}: server.json: {error}", data.display()))
    })?;
    let missing = || {
        CallError::Unavailable(format!(
            "no server uses the data directory {}",
            data.display()
        ))
    };
    found.ok_or_else(missing)
}

/// Default time limit for a request, longer than a request for events waits.
pub(super) const TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum response size in bytes: a page of events with the longest names.
const MAX_BODY: u64 = 4 * 1_024 * 1_024;

/// A request without a result.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server cannot be reached, or cannot respond now.
    Unavailable(String),
    /// The server refused the request, and would again.
    Refused {
        /// Response status.
        status: u16,
        /// Error message.
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

/// Sends requests with and without a body, and parses JSON responses.
#[derive(Debug, Clone)]
pub(super) struct JsonClient(Client);

impl JsonClient {
    /// Creates a client. `timeout` limits each request.
    pub(super) fn new(timeout: Duration) -> Self {
        Self(Client::new(
            config().timeout_global(Some(timeout)).build(),
            MAX_BODY,
        ))
    }

    /// Sends a request, with a bearer token if given, and returns the response's JSON; null for an empty response.
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
            .map_err(|error| unavailable(&RequestFailure::from(&error)))?;
        // Redirects are not followed, so the token is never sent elsewhere.
        let status = response.status().as_u16();
        let body = response.into_body();
        match status {
            // For example 204 after a deletion.
            200..=299 if body.is_empty() => Ok(Value::Null),
            200..=299 => {
                serde_json::from_slice(&body).map_err(|_| unavailable(&"the response is not JSON"))
            }
            // Worth a retry: the server is overloaded, starting or stopping.
            429 | 500..=599 => Err(unavailable(&format_args!("{} ({status})", message(&body)))),
            _ => Err(CallError::Refused {
                status,
                message: message(&body),
            }),
        }
    }
}

/// Returns the API error's message, a refused step-down's reason, or a general message for another program's response.
fn message(body: &[u8]) -> String {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = parsed["error"]["message"]
        .as_str()
        .or_else(|| parsed["reason"].as_str());
    // Escaped, since the message is printed at a terminal.
    Visible(message.unwrap_or("the server refused the request")).to_string()
}
