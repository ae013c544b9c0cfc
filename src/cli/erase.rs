//! `conclave erase PROJECT IDENTITY`: erases a person from a project's records.
//!
//! A running server does it, since only the server can remove a connected participant. Without a server in the data directory, the command
//! changes the records itself, and keeps a server from starting meanwhile.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use conclave_model::{Identity, ProjectId};
use conclave_outbound::http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::admin_client::{AdminClient, ServerArgs};
use super::output::{OutputFormat, fields, print, print_json, table};
use super::projects::{existing_project, parse_project_id};
use super::store::with_store;
use crate::config::Config;
use crate::data_dir;
use crate::error::CliError;
use crate::http::api::ext::identities::ErasedIdentity;
use crate::http::erasure::erase_records;
use crate::server::ServerAddresses;

/// Time limit of the request: the rows of a person in many sessions take minutes.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Person to erase, and the server.
#[derive(Debug, Args)]
pub struct EraseArgs {
    /// Project id, `prj_…`.
    project: String,
    /// Identity of the participant.
    identity: Identity,
    /// URL of the admin listener; its token is `admin.token` [default: the server that uses the data directory].
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Output format.
    #[command(flatten)]
    format: OutputFormat,
}

/// Runs the command.
///
/// # Errors
/// If there is no such project, the participant does not leave, or the records cannot be changed. A repeated command continues.
pub(super) fn run(args: EraseArgs, config: &Config, data: &Path) -> Result<(), CliError> {
    let EraseArgs {
        project,
        identity,
        server,
        format,
    } = args;
    let project = parse_project_id(&project)?;
    let is_remote = server.is_some();
    let running = ServerAddresses::read(data)
        .map_err(|error| CliError::data_dir(data, format!("server.json: {error}")))?;
    let erased = if is_remote || running.is_some() {
        let server = ServerArgs {
            server,
            project: Some(project.to_string()),
        };
        let client = AdminClient::new(&server, config, data)?.with_timeout(TIMEOUT);
        let identity = utf8_percent_encode(identity.as_str(), NON_ALPHANUMERIC);
        let path = format!("/debug/projects/{project}/identities/{identity}");
        client.call(Method::DELETE, &path, None)?
    } else {
        erase_offline(config, data, project, identity)?
    };
    show(&erased, format)
}

fn erase_offline(
    config: &Config,
    data: &Path,
    project: ProjectId,
    identity: Identity,
) -> Result<Value, CliError> {
    // The active server may be on another machine.
    if config.database.is_postgres() {
        return Err(CliError::failed(
            "no server uses the data directory: name the active server's admin listener with --server",
        ));
    }
    if let Some(problem) = super::store::missing(config, data) {
        return Err(CliError::data_dir(data, problem));
    }
    let recordings = config.recordings.path(data);
    let erased = with_store(config, data, async |store| {
        let _lock = data_dir::lock_for_server(data)?;
        existing_project(store, &project).await?;
        let erasure = store.erasures().begin(project, identity).await?;
        let erased = erase_records(store, &recordings, &erasure).await?;
        let waits = "the participant was connected when the server stopped, or a recording of it is not complete or uploaded: start the server, which continues the erasure";
        erased.ok_or_else(|| CliError::failed(waits))
    })?;
    let erased =
        ErasedIdentity::try_from(erased).map_err(|error| CliError::failed(error.to_string()))?;
    Ok(serde_json::to_value(erased)?)
}

fn show(erased: &Value, format: OutputFormat) -> Result<(), CliError> {
    if format.json {
        return print_json(erased);
    }
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut rows = vec![("replacement", text(&erased["replacement"]))];
    let changed = erased["changed"].as_object();
    rows.extend(
        changed
            .into_iter()
            .flatten()
            .map(|(kind, count)| (kind.as_str(), text(count))),
    );
    rows.push(("deleted_files", text(&erased["deleted_files"])));
    print(&fields(&rows))?;
    let remaining = erased["remaining_recordings"].as_array();
    let remaining: Vec<_> = remaining
        .into_iter()
        .flatten()
        .map(|recording| {
            let columns = ["egress_id", "room", "type", "filepath", "started_at"];
            columns.map(|column| text(&recording[column])).to_vec()
        })
        .collect();
    if remaining.is_empty() {
        return Ok(());
    }
    print("\nrecordings that remain, in which the person may be seen or heard:\n")?;
    print(&table(
        &["egress_id", "room", "type", "filepath", "started_at"],
        &remaining,
    ))?;
    if erased["has_more"] == true {
        print("there are more of them\n")?;
    }
    Ok(())
}
