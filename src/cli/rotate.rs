//! `conclave key-rotate`: a new encryption key, while a server may be using the old one.

use std::fs::{File, TryLockError};
use std::path::Path;

use conclave_db::{Rotation, Store};
use serde::Serialize;

use super::open::{database_path, with_store};
use super::output::{json, print};
use super::projects::Format;
use super::{CliError, table};
use crate::config::Config;

/// What was done, as `--json` shows it.
#[derive(Serialize)]
struct RotationView<'a> {
    old_key_id: &'a str,
    new_key_id: &'a str,
    resealed: usize,
    unopenable: usize,
}

/// Gives the deployment a new key.
///
/// # Errors
/// A deployment without a key or a database, another rotation that is on, or what stopped this one: it can be run again.
pub fn run(config: &Config, data: &Path, format: Format) -> Result<(), CliError> {
    // Opening would make what is missing, and rotating what was just made would hide that it is.
    let Some(key) = config.encryption.key_path(data) else {
        let message =
            "this deployment has no encryption key (encryption.key_file is empty): there is nothing to rotate";
        return Err(CliError::failed(message));
    };
    for (path, what) in [(database_path(data), "database"), (key, "encryption key")] {
        if !path.exists() {
            return Err(CliError::failed(format!("no {what} at {}", path.display())));
        }
    }
    let _lock = lock(data)?;
    let rotate = async |store: &Store| store.rotate_key().await.map_err(|error| CliError::failed(error.to_string()));
    show(&with_store(config, data, rotate)?, format)
}

/// Two at once would drop each other's key.
fn lock(data: &Path) -> Result<File, CliError> {
    let refuse = |why: String| CliError::failed(format!("--data {}: {why}", data.display()));
    let path = data.join("key-rotate.lock");
    let file = File::options().create(true).append(true).open(path).map_err(|error| refuse(error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refuse("another conclave key-rotate is at work".into())),
        Err(TryLockError::Error(error)) => Err(refuse(format!("cannot be locked: {error}"))),
    }
}

fn show(rotation: &Rotation, format: Format) -> Result<(), CliError> {
    let Rotation { old_key_id, new_key_id, resealed, unopenable } = rotation;
    if *unopenable > 0 {
        log::warn!("{unopenable} records need another key or are damaged; they are as they were");
    }
    if format.json {
        let (resealed, unopenable) = (*resealed, *unopenable);
        return json(&RotationView { old_key_id, new_key_id, resealed, unopenable });
    }
    print(&table::fields(&[
        ("old_key_id", old_key_id.clone()),
        ("new_key_id", new_key_id.clone()),
        ("resealed", resealed.to_string()),
        ("unopenable", unopenable.to_string()),
    ]))
}
