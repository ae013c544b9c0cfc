//! Changes of a server's keys.
//!
//! - `conclave key-rotate`: replaces the encryption key, even while a server is using it.
//! - `conclave media-key-change`: makes this machine's media key the required key for a server's takeover.

use std::path::Path;

use conclave_db::lease::{Node, require_media_key};
use conclave_db::{Location, Rotation, RotationStep, SharedRotation};
use serde::Serialize;

use super::output::{self, OutputFormat, print, print_json};
use super::store::with_store;
use crate::config::{Config, MediaCredentials};
use crate::data_dir::{database_path, location, lock_for_key_rotation};
use crate::error::CliError;

/// JSON output for a rotation.
#[derive(Serialize)]
struct RotationView<'a> {
    old_key_id: &'a str,
    new_key_id: &'a str,
    resealed: usize,
    unopenable: usize,
}

/// JSON output for a rotation step.
#[derive(Serialize)]
struct StepView<'a> {
    step: u8,
    of: u8,
    old_key_id: &'a str,
    new_key_id: &'a str,
    resealed: usize,
    unopenable: usize,
    next: &'a str,
}

/// Number of steps for servers that share a database.
const STEPS: u8 = 3;

/// Creates a new encryption key and re-encrypts every record with it.
///
/// # Errors
/// If there is no encryption key or no database, another rotation is running, or this one failed and can be repeated.
pub(super) fn rotate_encryption_key(
    config: &Config,
    data: &Path,
    format: OutputFormat,
) -> Result<(), CliError> {
    let Some(key) = config.encryption.key_path(data) else {
        let message = "this deployment has no encryption key (encryption.key_file is empty): there is nothing to rotate";
        return Err(CliError::failed(message));
    };
    // Opening the store would create missing files, and the rotation would hide the loss.
    for (path, what) in [
        (database_path(data), "database"),
        (key.clone(), "encryption key"),
    ] {
        // With PostgreSQL, there is no database file to be missing.
        let is_elsewhere = what == "database" && config.database.is_postgres();
        if !is_elsewhere && !path.exists() {
            return Err(CliError::failed(format!("no {what} at {}", path.display())));
        }
    }
    // Held until the command exits: a concurrent rotation would replace the key that this one has just added.
    let _lock = lock_for_key_rotation(data)?;
    // Each server has its own key file, so the key has to reach all of them before records use it.
    if config.database.is_postgres() {
        let done = with_store(config, data, async |store| {
            store.encryption_key().rotate_shared().await
        })?;
        return show_step(&done, &key, format);
    }
    show_rotation(
        &with_store(config, data, async |store| {
            store.encryption_key().rotate().await
        })?,
        format,
    )
}

/// Shows the completed step, and the operator's task before the next one.
fn show_step(done: &SharedRotation, key: &Path, format: OutputFormat) -> Result<(), CliError> {
    let SharedRotation {
        step,
        old_key_id,
        new_key_id,
        resealed,
        unopenable,
    } = done;
    warn_of_unopenable(*unopenable);
    let file = key.display();
    let (number, next) = match step {
        // No record uses the new key yet, so servers without it can still read everything.
        RotationStep::Added => (
            1,
            format!(
                "copy {file} to every other server (no restart needed), then run this command again"
            ),
        ),
        // Every record uses the new key now.
        RotationStep::Sealed => (
            2,
            format!("run this command again to delete the old key from {file}"),
        ),
        // The old key is only needed for older backups now.
        RotationStep::Dropped => (
            3,
            format!("copy {file} to every other server, and keep a copy with your backups"),
        ),
    };
    if format.json {
        let (resealed, unopenable, next) = (*resealed, *unopenable, next.as_str());
        let step = StepView {
            step: number,
            of: STEPS,
            old_key_id,
            new_key_id,
            resealed,
            unopenable,
            next,
        };
        return print_json(&step);
    }
    print(&output::fields(&[
        ("step", format!("{number} of {STEPS}")),
        ("old_key_id", old_key_id.clone()),
        ("new_key_id", new_key_id.clone()),
        ("resealed", resealed.to_string()),
        ("unopenable", unopenable.to_string()),
        ("next", next),
    ]))
}

fn warn_of_unopenable(count: usize) {
    if count > 0 {
        log::warn!("{count} records are damaged or need another key; they are unchanged");
    }
}

fn show_rotation(rotation: &Rotation, format: OutputFormat) -> Result<(), CliError> {
    let Rotation {
        old_key_id,
        new_key_id,
        resealed,
        unopenable,
    } = rotation;
    warn_of_unopenable(*unopenable);
    if format.json {
        let (resealed, unopenable) = (*resealed, *unopenable);
        return print_json(&RotationView {
            old_key_id,
            new_key_id,
            resealed,
            unopenable,
        });
    }
    print(&output::fields(&[
        ("old_key_id", old_key_id.clone()),
        ("new_key_id", new_key_id.clone()),
        ("resealed", resealed.to_string()),
        ("unopenable", unopenable.to_string()),
    ]))
}

/// JSON output for a server.
#[derive(Serialize)]
struct NodeView<'a> {
    url: &'a str,
    role: &'static str,
    has_key: bool,
}

/// JSON output for a change of the media key.
#[derive(Serialize)]
struct ChangeView<'a> {
    media_key_id: &'a str,
    servers: Vec<NodeView<'a>>,
}

/// Sets this machine's media key as the required one.
///
/// # Errors
/// If the records are in a file, this machine has no media key, or the database cannot be written.
pub(super) fn change_media_key(
    config: &Config,
    data: &Path,
    format: OutputFormat,
) -> Result<(), CliError> {
    let Location::Server(options) = location(config, data, None)? else {
        let message = "the records are in a file, and its only server accepts any media key: restart that server";
        return Err(CliError::failed(message));
    };
    let credentials = MediaCredentials::load(config, data)?;
    let id = credentials
        .ok_or_else(|| CliError::failed("this machine has no media key"))?
        .id();
    let state = require_media_key(&options.server, &id)?;
    show_change(
        &id,
        state.as_ref().map_or(&[], |state| &state.nodes),
        format,
    )
}

fn show_change(id: &str, nodes: &[Node], format: OutputFormat) -> Result<(), CliError> {
    let servers = nodes.iter().map(
        |Node {
             info, role, keys, ..
         }| NodeView {
            url: &info.url,
            role: role.as_str(),
            // Each server reports its keys' ids with its lease entry.
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
    print(&output::fields(&[("media_key_id", id.to_owned())]))?;
    print(&output::rows(&servers.iter().map(row).collect::<Vec<_>>()))
}
