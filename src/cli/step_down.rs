//! `conclave step-down`: asks the active server to hand over to another one, and waits until one has taken over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use conclave_outbound::http::{Method, Request, Response};
use conclave_outbound::{Client, Error, config};
use serde::Serialize;
use serde_json::Value;

use super::output::{OutputFormat, print, print_json};
use super::table;
use crate::config::Config;
use crate::error::CliError;

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time until another server is active: requests in flight have ten seconds, and deliveries as long as `webhooks.timeout`.
const HANDOVER_TIME: Duration = Duration::from_secs(60);
/// Interval at which the server is asked who is active.
const INTERVAL: Duration = Duration::from_millis(200);
/// Limit in bytes for a response.
const MAX_RESPONSE_BYTES: u64 = 1024 * 1024;

/// The result with `--json`.
#[derive(Serialize)]
struct HandoverView<'a> {
    active: &'a str,
    epoch: i64,
}

/// Asks the server whose admin listener is at `admin`, or where the settings say, to step down.
///
/// # Errors
/// The server does not answer, is not the active one, or has no other that could take over.
pub(super) fn run(config: &Config, admin: Option<SocketAddr>, format: OutputFormat) -> Result<(), CliError> {
    let server = Server::new(config, admin.unwrap_or(config.admin.listen));
    let before = server.lease()?;
    let answer = server.send(Method::POST, "/step-down").map_err(|error| server.unreachable(&error))?;
    match answer.status().as_u16() {
        202 => {}
        409 => return Err(CliError::failed(reason(&answer))),
        404 => {
            return Err(CliError::failed(
                "the server shares its database with no other: there is nothing to hand over",
            ));
        }
        status => {
            return Err(CliError::failed(format!("the server answered with status {status}: {}", reason(&answer))));
        }
    }
    let begun = Instant::now();
    while begun.elapsed() < HANDOVER_TIME {
        thread::sleep(INTERVAL);
        // It does not answer while it stops.
        let Ok(lease) = server.lease() else { continue };
        if let Some((active, epoch)) = successor(&lease, &before) {
            return show(&HandoverView { active, epoch }, format);
        }
    }
    Err(CliError::failed("no other server has taken over within a minute; see the logs of all"))
}

/// Returns the active server and its epoch, if that is another one.
fn successor<'a>(lease: &'a Value, before: &Value) -> Option<(&'a str, i64)> {
    let nodes = lease["nodes"].as_array()?;
    let active = nodes.iter().find(|node| node["role"] == "active")?;
    let epoch = lease["epoch"].as_i64().filter(|epoch| Some(*epoch) > before["epoch"].as_i64())?;
    Some((active["url"].as_str()?, epoch))
}

fn show(handover: &HandoverView<'_>, format: OutputFormat) -> Result<(), CliError> {
    if format.json {
        return print_json(handover);
    }
    print(&table::fields(&[("active", handover.active.to_owned()), ("epoch", handover.epoch.to_string())]))
}

/// What a server says about a refusal.
fn reason(answer: &Response<Vec<u8>>) -> String {
    let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let message = body["reason"].as_str().or_else(|| body["error"]["message"].as_str());
    message.unwrap_or("no reason was given").to_owned()
}

/// The admin listener of a server.
struct Server {
    address: SocketAddr,
    token: Option<String>,
    client: Client,
}

impl Server {
    fn new(config_of_server: &Config, mut address: SocketAddr) -> Self {
        if address.ip().is_unspecified() {
            let loopback = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { Ipv6Addr::LOCALHOST.into() };
            address.set_ip(loopback);
        }
        let token = config_of_server.admin.token.as_ref().map(|token| format!("Bearer {}", token.reveal()));
        let client = config().timeout_global(Some(TIMEOUT)).max_idle_connections(0).build();
        Self { address, token, client: Client::new(client, MAX_RESPONSE_BYTES) }
    }

    fn send(&self, method: Method, path: &str) -> Result<Response<Vec<u8>>, Error> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        request = request.header("Connection", "close");
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        self.client.send(request.body("").map_err(Error::from)?)
    }

    fn lease(&self) -> Result<Value, CliError> {
        let answer = self.send(Method::GET, "/debug/lease").map_err(|error| self.unreachable(&error))?;
        Ok(serde_json::from_slice(answer.body()).unwrap_or_default())
    }

    fn unreachable(&self, error: &Error) -> CliError {
        CliError::failed(format!("the admin listener at {} does not answer: {error}", self.address))
    }
}
