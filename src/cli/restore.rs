//! `conclave restore FILE`: puts a copy of a database into a data directory that has none, and says what is in it.

use std::fs;
use std::path::Path;

use conclave_db::{Contents, Vault, restore};
use conclave_model::{Secret, Timestamp};
use serde::Serialize;

use super::output::{OutputFormat, print, print_json};
use super::table;
use crate::config::{Config, MediaCredentials};
use crate::data_dir::{self, DEV_KEY_FILE, database_path};
use crate::error::CliError;

/// What a data directory may have before its database is restored: keys, certificates, recordings, and the files of locks.
const KEPT: [&str; 7] = [
    "encryption.key",
    "media.key",
    DEV_KEY_FILE,
    "tls",
    "recordings",
    "server.lock",
    "key-rotate.lock",
];

/// The result with `--json`.
#[derive(Serialize)]
struct RestoreView<'a> {
    database: String,
    schema: i64,
    bytes: u64,
    projects: u64,
    rooms: u64,
    open_rooms: u64,
    last_change: Option<Timestamp>,
    secrets: usize,
    unopenable_secrets: usize,
    missing_keys: &'a [String],
}

/// Checks a file and copies it into the data directory. A server that starts there migrates it and continues.
///
/// # Errors
/// The records are in PostgreSQL, a server uses the data directory or it is not empty, or the file is damaged or none of Conclave.
pub(super) fn run(
    file: &Path,
    config: &Config,
    data: &Path,
    format: OutputFormat,
) -> Result<(), CliError> {
    if config.database.is_postgres() {
        return Err(CliError::failed(
            "the records are in PostgreSQL: restore them with pg_restore, or copy the file there with conclave import",
        ));
    }
    if !file.is_file() {
        return Err(CliError::failed(format!("no file at {}", file.display())));
    }
    let _lock = data_dir::lock_for_server(data)?;
    require_empty(data)?;
    let media = MediaCredentials::load(config, data)?;
    let has_media_credentials = media.is_some();
    let contents = restore(file, &database_path(data), &vault(config, data, media)?)?;
    show(&contents, data, format)?;
    warn_of_keys(&contents, config, data, has_media_credentials);
    Ok(())
}

/// Refuses a data directory with a database, or with files that are none of Conclave's.
fn require_empty(data: &Path) -> Result<(), CliError> {
    let unreadable = |error: std::io::Error| CliError::data_dir(data, error.to_string());
    for entry in fs::read_dir(data).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if !KEPT.iter().any(|kept| name == *kept) {
            let problem = format!(
                "has {}: restore into an empty one, which may have the keys",
                name.display()
            );
            return Err(CliError::data_dir(data, problem));
        }
    }
    Ok(())
}

/// Opens the keys at hand. Creates none: a new one would open nothing, and would take the place of the one that is missing.
fn vault(config: &Config, data: &Path, media: Option<MediaCredentials>) -> Result<Vault, CliError> {
    let key = config
        .encryption
        .key_path(data)
        .filter(|path| path.exists());
    let secret = media.map_or_else(|| Secret::new(""), |credentials| credentials.api_secret);
    Ok(Vault::open(key.as_deref(), &secret)?)
}

fn show(contents: &Contents, data: &Path, format: OutputFormat) -> Result<(), CliError> {
    let Contents {
        schema,
        bytes,
        projects,
        rooms,
        open_rooms,
        last_change,
        secrets,
    } = contents;
    let database = database_path(data).display().to_string();
    if format.json {
        return print_json(&RestoreView {
            database,
            schema: *schema,
            bytes: *bytes,
            projects: *projects,
            rooms: *rooms,
            open_rooms: *open_rooms,
            last_change: *last_change,
            secrets: secrets.total,
            unopenable_secrets: secrets.unopenable,
            missing_keys: &secrets.missing_keys,
        });
    }
    print(&table::fields(&[
        (
            "database",
            format!("{database}, {bytes} bytes, not damaged"),
        ),
        ("schema", schema.to_string()),
        ("projects", projects.to_string()),
        ("rooms", format!("{rooms}, {open_rooms} of them open")),
        (
            "last change",
            last_change.map_or_else(|| "none".to_owned(), |at| at.to_string()),
        ),
        (
            "secrets",
            format!(
                "{}, {} of them cannot be decrypted",
                secrets.total, secrets.unopenable
            ),
        ),
    ]))
}

fn warn_of_keys(contents: &Contents, config: &Config, data: &Path, has_media_credentials: bool) {
    let secrets = &contents.secrets;
    if secrets.unopenable > 0 {
        let place = config
            .encryption
            .key_path(data)
            .map_or_else(String::new, |path| format!(" in {}", path.display()));
        log::warn!(
            "{} secrets need the encryption key {}{place}: put it there before the server starts",
            secrets.unopenable,
            secrets.missing_keys.join(", ")
        );
    }
    if !has_media_credentials {
        log::warn!(
            "media.key is missing: the next start creates another, and room tokens that were issued are invalid"
        );
    }
}
