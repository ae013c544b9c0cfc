//! `conclave step-down`: makes the active server hand over, and waits until another one has taken over.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use conclave_outbound::http::Method;
use serde::Serialize;
use serde_json::Value;

use super::admin_client::{AdminClient, CallError};
use super::output::{self, OutputFormat, print, print_json};
use crate::config::Config;
use crate::error::CliError;

/// Time limit for a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit until another server is active: requests in flight have ten seconds, and deliveries as long as `webhooks.timeout`.
const HANDOVER_TIME: Duration = Duration::from_secs(60);
/// Interval between queries for the active server.
const INTERVAL: Duration = Duration::from_millis(200);

/// JSON output for a handover.
#[derive(Serialize)]
struct HandoverView<'a> {
    active: &'a str,
    epoch: i64,
}

/// Makes the server step down whose admin listener is at `admin`, or at the configured address.
///
/// # Errors
/// If the server does not respond, is not the active one, or if no other server could take over.
pub(super) fn run(
    config: &Config,
    admin: Option<SocketAddr>,
    format: OutputFormat,
) -> Result<(), CliError> {
    // By address rather than by data directory: the active server is often on another machine.
    let server = AdminClient::at(admin.unwrap_or(config.admin.listen), config, TIMEOUT);
    let lease = || server.call(Method::GET, "/debug/lease", None);
    // The epoch before the hand-over, to recognize the next one.
    let before = lease().map_err(explained)?;
    server
        .call(Method::POST, "/step-down", None)
        .map_err(explained)?;
    let started = Instant::now();
    while started.elapsed() < HANDOVER_TIME {
        thread::sleep(INTERVAL);
        // The server does not respond while it stops.
        let Ok(lease) = lease() else { continue };
        if let Some((active, epoch)) = successor(&lease, &before) {
            return show(&HandoverView { active, epoch }, format);
        }
    }
    Err(CliError::failed(
        "no other server has taken over within a minute; see the logs of all servers",
    ))
}

/// Explains a 404: only a server that shares its database has these paths.
fn explained(error: CallError) -> CliError {
    match error {
        CallError::Refused { status: 404, .. } => CliError::failed(
            "the server does not share its database: there is nothing to hand over",
        ),
        error => error.into(),
    }
}

/// Returns the active server and its epoch, if it has changed.
fn successor<'a>(lease: &'a Value, before: &Value) -> Option<(&'a str, i64)> {
    let nodes = lease["nodes"].as_array()?;
    let active = nodes.iter().find(|node| node["role"] == "active")?;
    // By the epoch: the server that stepped down may itself have taken over again.
    let epoch = lease["epoch"]
        .as_i64()
        .filter(|epoch| Some(*epoch) > before["epoch"].as_i64())?;
    Some((active["url"].as_str()?, epoch))
}

fn show(handover: &HandoverView<'_>, format: OutputFormat) -> Result<(), CliError> {
    if format.json {
        return print_json(handover);
    }
    print(&output::fields(&[
        ("active", handover.active.to_owned()),
        ("epoch", handover.epoch.to_string()),
    ]))
}
