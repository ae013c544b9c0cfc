//! `conclave media-key-change`: lets servers with the media key of this machine take over, instead of those with the key before.

use std::path::Path;

use conclave_db::Location;
use conclave_db::lease::{Node, require_media_key};
use serde::Serialize;

use super::output::{OutputFormat, print, print_json};
use super::table;
use crate::config::{Config, MediaCredentials};
use crate::data_dir::location;
use crate::error::CliError;

/// A server with `--json`.
#[derive(Serialize)]
struct NodeView<'a> {
    url: &'a str,
    role: &'static str,
    has_key: bool,
}

/// The result with `--json`.
#[derive(Serialize)]
struct ChangeView<'a> {
    media_key_id: &'a str,
    servers: Vec<NodeView<'a>>,
}

/// Names the media key of this machine as the one that a server needs.
///
/// # Errors
/// The records are in a file, this machine has no media key, or the database cannot be written.
pub(super) fn run(config: &Config, data: &Path, format: OutputFormat) -> Result<(), CliError> {
    let Location::Server(options) = location(config, data, None)? else {
        let message =
            "the records are in a file, whose only server takes any media key: restart it";
        return Err(CliError::failed(message));
    };
    let credentials = MediaCredentials::load(config, data)?;
    let id = credentials
        .ok_or_else(|| CliError::failed("this machine has no media key"))?
        .id();
    let state = require_media_key(&options.server, &id)?;
    show(
        &id,
        state.as_ref().map_or(&[], |state| &state.nodes),
        format,
    )
}

fn show(id: &str, nodes: &[Node], format: OutputFormat) -> Result<(), CliError> {
    let servers = nodes.iter().map(
        |Node {
             info, role, keys, ..
         }| NodeView {
            url: &info.url,
            role: role.as_str(),
            has_key: keys.media == id,
        },
    );
    let servers: Vec<NodeView<'_>> = servers.collect();
    if format.json {
        return print_json(&ChangeView {
            media_key_id: id,
            servers,
        });
    }
    let row = |server: &NodeView<'_>| {
        let next = if server.has_key {
            "has the key"
        } else {
            "needs the key and a restart"
        };
        vec![
            server.url.to_owned(),
            server.role.to_owned(),
            next.to_owned(),
        ]
    };
    print(&table::fields(&[("media_key_id", id.to_owned())]))?;
    print(&table::rows(&servers.iter().map(row).collect::<Vec<_>>()))
}
