//! `conclave step-down`: asks the active server to hand over to another one, and waits until one has taken over.

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

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time until another server is active: requests in flight have ten seconds, and deliveries as long as `webhooks.timeout`.
const HANDOVER_TIME: Duration = Duration::from_secs(60);
/// Interval at which the server is asked who is active.
const INTERVAL: Duration = Duration::from_millis(200);

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
pub(super) fn run(
    config: &Config,
    admin: Option<SocketAddr>,
    format: OutputFormat,
) -> Result<(), CliError> {
    let server = AdminClient::at(admin.unwrap_or(config.admin.listen), config, TIMEOUT);
    let lease = || server.call(Method::GET, "/debug/lease", None);
    let before = lease().map_err(explained)?;
    server
        .call(Method::POST, "/step-down", None)
        .map_err(explained)?;
    let begun = Instant::now();
    while begun.elapsed() < HANDOVER_TIME {
        thread::sleep(INTERVAL);
        // It does not answer while it stops.
        let Ok(lease) = lease() else { continue };
        if let Some((active, epoch)) = successor(&lease, &before) {
            return show(&HandoverView { active, epoch }, format);
        }
    }
    Err(CliError::failed(
        "no other server has taken over within a minute; see the logs of all",
    ))
}

/// A server that shares its database with none has neither path.
fn explained(error: CallError) -> CliError {
    match error {
        CallError::Refused { status: 404, .. } => CliError::failed(
            "the server shares its database with no other: there is nothing to hand over",
        ),
        error => error.into(),
    }
}

/// Returns the active server and its epoch, if that is another one.
fn successor<'a>(lease: &'a Value, before: &Value) -> Option<(&'a str, i64)> {
    let nodes = lease["nodes"].as_array()?;
    let active = nodes.iter().find(|node| node["role"] == "active")?;
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
