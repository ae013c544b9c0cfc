//! `conclave recording …`: recording files.

use std::path::Path;
use std::time::Duration;

use clap::Subcommand;
use conclave_model::{Clock, EgressId, Timestamp};
use serde::Serialize;

use super::output::{OutputFormat, print, print_json};
use super::store::with_store;
use crate::config::{Config, MediaCredentials};
use crate::error::CliError;
use crate::http::derived_keys::DerivedKeys;
use crate::http::files::link;
use crate::server::ServerAddresses;

/// Commands for recordings.
#[derive(Debug, Subcommand)]
pub enum RecordingCommand {
    /// Print a link to a recording's file, which needs no API key and expires.
    Link {
        /// The recording's egress id.
        egress_id: EgressId,
        /// Validity of the link, at most 7 days.
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_life)]
        expires: Duration,
        /// Output format.
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// JSON output for a download link.
#[derive(Serialize)]
struct LinkView<'a> {
    url: &'a str,
    expires_at: Timestamp,
}

/// Runs a command.
///
/// # Errors
/// If there is no such recording, or no server uses the data directory.
pub(super) fn run(command: RecordingCommand, config: &Config, data: &Path) -> Result<(), CliError> {
    let RecordingCommand::Link {
        egress_id,
        expires,
        format,
    } = command;
    let server = ServerAddresses::read(data)
        .map_err(|error| CliError::data_dir(data, format!("server.json: {error}")))?;
    let server = server.ok_or_else(|| {
        CliError::data_dir(data, "no server uses it, so the link's address is unknown")
    })?;
    let id = egress_id.clone();
    // The link is signed for the project, too, which the command need not be given.
    let project = with_store(config, data, async |store| {
        store.local_files().project_of(id).await
    })?;
    let project = project.ok_or_else(|| CliError::failed(format!("no recording {egress_id}")))?;
    // Links are signed by a key that is derived from the API secret.
    let credentials = MediaCredentials::load(config, data)?
        .ok_or_else(|| CliError::data_dir(data, "no media.key"))?;
    let keys = DerivedKeys::new(&credentials.api_secret);
    let (path, expires_at) =
        link::make(&keys, &project, &egress_id, Clock::system().now(), expires);
    let url = format!("{}{path}", server.api);
    if format.json {
        print_json(&LinkView {
            url: &url,
            expires_at,
        })
    } else {
        print(&format!("{url}\n"))
    }
}

fn parse_life(text: &str) -> Result<Duration, String> {
    let life = humantime::parse_duration(text)
        .map_err(|_| "must be a time such as 10m, 1h or 7d".to_owned())?;
    link::checked_life(life).map_err(str::to_owned)
}
