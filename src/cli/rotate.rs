//! `conclave key-rotate`: a new encryption key, also while a server is using the old one.

use std::path::Path;

use conclave_db::{Rotation, RotationStep, SharedRotation};
use serde::Serialize;

use super::output::{OutputFormat, print, print_json};
use super::store::with_store;
use super::table;
use crate::config::Config;
use crate::data_dir::{database_path, lock_for_key_rotation};
use crate::error::CliError;

/// The result of a rotation with `--json`.
#[derive(Serialize)]
struct RotationView<'a> {
    old_key_id: &'a str,
    new_key_id: &'a str,
    resealed: usize,
    unopenable: usize,
}

/// A step of a rotation with `--json`.
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

/// The number of steps of servers that share a database.
const STEPS: u8 = 3;

/// Creates a new encryption key and reseals every record with it.
///
/// # Errors
/// There is no encryption key or no database, another rotation is running, or this one failed and can be run again.
pub(super) fn run(config: &Config, data: &Path, format: OutputFormat) -> Result<(), CliError> {
    let Some(key) = config.encryption.key_path(data) else {
        let message = "this deployment has no encryption key (encryption.key_file is empty): there is nothing to rotate";
        return Err(CliError::failed(message));
    };
    // Opening the store would create what is missing, and the rotation would hide the loss.
    for (path, what) in [
        (database_path(data), "database"),
        (key.clone(), "encryption key"),
    ] {
        let is_elsewhere = what == "database" && config.database.is_postgres();
        if !is_elsewhere && !path.exists() {
            return Err(CliError::failed(format!("no {what} at {}", path.display())));
        }
    }
    let _lock = lock_for_key_rotation(data)?;
    if config.database.is_postgres() {
        let done = with_store(config, data, async |store| {
            store.encryption_key().rotate_shared().await
        })?;
        return show_step(&done, &key, format);
    }
    show(
        &with_store(config, data, async |store| {
            store.encryption_key().rotate().await
        })?,
        format,
    )
}

/// Says which step was taken, and what to do before the next one.
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
        RotationStep::Added => (
            1,
            format!(
                "copy {file} to every other server, which reads it without a restart; then run this command again"
            ),
        ),
        RotationStep::Sealed => (
            2,
            format!("run this command again: it deletes the old key from {file}"),
        ),
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
    print(&table::fields(&[
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

fn show(rotation: &Rotation, format: OutputFormat) -> Result<(), CliError> {
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
    print(&table::fields(&[
        ("old_key_id", old_key_id.clone()),
        ("new_key_id", new_key_id.clone()),
        ("resealed", resealed.to_string()),
        ("unopenable", unopenable.to_string()),
    ]))
}
