//! Commands for the database as a whole.
//!
//! - `conclave backup FILE`: makes a consistent copy of the database, also while a server is using it.
//! - `conclave restore FILE`: puts a copy of a database into a data directory without one, and shows its contents.
//! - `conclave import FILE`: copies a file's records to an empty PostgreSQL database.
//! - `conclave migrate`: builds the indexes of this version's schema while servers of the older version use the database.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use conclave_db::{
    Contents, ImportProgress, Imported, Location, UpcomingIndex, Vault, build_indexes, import_file,
    restore,
};
use conclave_model::{Secret, Timestamp};
use serde::Serialize;

use super::output::{self, OutputFormat, print, print_json};
use super::store::with_store_as_it_is;
use crate::config::{Config, MediaCredentials};
use crate::data_dir::{self, DATABASE_FILE, DEV_KEY_FILE, database_path, location};
use crate::error::CliError;

/// Entries that a data directory may have before its database is restored: keys, certificates, recordings, and lock files.
const ALLOWED_ENTRIES: [&str; 7] = [
    "encryption.key",
    "media.key",
    DEV_KEY_FILE,
    "tls",
    "recordings",
    "server.lock",
    "key-rotate.lock",
];

/// JSON output for a restore.
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

/// Checks a file and copies it into the data directory. A server that starts there migrates it.
///
/// # Errors
/// If the records are in PostgreSQL, a server uses the data directory or it is not empty, or the file is damaged or not a Conclave
/// database.
pub(super) fn restore_file(
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
    // Before the check: a server that starts meanwhile would create a database.
    let _lock = data_dir::lock_for_server(data)?;
    require_empty(data)?;
    // Loaded rather than created: the copy's secrets need the original key.
    let media = MediaCredentials::load(config, data)?;
    let has_media_credentials = media.is_some();
    let contents = restore(file, &database_path(data), &vault(config, data, media)?)?;
    show_restored(&contents, data, format)?;
    warn_of_keys(&contents, config, data, has_media_credentials);
    Ok(())
}

/// Refuses a data directory with a database or with unknown files.
fn require_empty(data: &Path) -> Result<(), CliError> {
    let unreadable = |error: std::io::Error| CliError::data_dir(data, error.to_string());
    for entry in fs::read_dir(data).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if !ALLOWED_ENTRIES.iter().any(|allowed| name == *allowed) {
            let problem = format!(
                "has {}: restore into a directory that is empty except for keys",
                name.display()
            );
            return Err(CliError::data_dir(data, problem));
        }
    }
    Ok(())
}

/// Opens the available keys. Creates none: a new key would open nothing, and would take the place of the missing one.
fn vault(config: &Config, data: &Path, media: Option<MediaCredentials>) -> Result<Vault, CliError> {
    let key = config
        .encryption
        .key_path(data)
        .filter(|path| path.exists());
    let secret = media.map_or_else(|| Secret::new(""), |credentials| credentials.api_secret);
    Ok(Vault::open(key.as_deref(), &secret)?)
}

fn show_restored(contents: &Contents, data: &Path, format: OutputFormat) -> Result<(), CliError> {
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
    print(&output::fields(&[
        (
            "database",
            format!("{database}, {bytes} bytes, not damaged"),
        ),
        ("schema", schema.to_string()),
        ("projects", projects.to_string()),
        ("rooms", format!("{rooms}, {open_rooms} open")),
        (
            "last change",
            last_change.map_or_else(|| "none".to_owned(), |at| at.to_string()),
        ),
        (
            "secrets",
            format!(
                "{}, {} cannot be decrypted",
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
            "media.key is missing: the next start creates another one, and existing room tokens become invalid"
        );
    }
}

/// Interval between progress updates.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// JSON output for an imported table.
#[derive(Serialize)]
struct TableView {
    table: &'static str,
    rows: u64,
}

/// JSON output for an import.
#[derive(Serialize)]
struct ImportView {
    tables: Vec<TableView>,
    shortened_texts: u64,
}

/// Imports a file. Its server must be stopped, since later writes would be lost.
///
/// # Errors
/// If no PostgreSQL database is configured or it is not empty, a server uses the file, or the copy failed.
pub(super) fn import(file: &Path, config: &Config, format: OutputFormat) -> Result<(), CliError> {
    let Some(options) = config.database.postgres(None)? else {
        return Err(CliError::failed(
            "database.url is not set: it must name the target database",
        ));
    };
    if !file.is_file() {
        return Err(CliError::failed(format!("no file at {}", file.display())));
    }
    // A server uses only a file with this name. Others are copies.
    let may_be_in_use = file.file_name().is_some_and(|name| name == DATABASE_FILE);
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let _lock = may_be_in_use
        .then(|| data_dir::lock_for_server(folder))
        .transpose()?;
    // The location without the password.
    let mut progress = Progress::new(&options.server.location());
    let imported = import_file(file, &options.server, |at| progress.show(at));
    // Before an error is printed, which needs a line of its own.
    progress.end();
    show_imported(
        &imported.map_err(|error| CliError::failed(error.to_string()))?,
        format,
    )
}

fn show_imported(imported: &Imported, format: OutputFormat) -> Result<(), CliError> {
    let Imported {
        tables,
        shortened_texts,
    } = imported;
    // SQLite stores U+0000 in texts, PostgreSQL does not.
    if *shortened_texts > 0 {
        log::warn!("{shortened_texts} texts lost characters U+0000, which PostgreSQL cannot store");
    }
    if format.json {
        let tables = tables
            .iter()
            .map(|(table, rows)| TableView { table, rows: *rows })
            .collect();
        return print_json(&ImportView {
            tables,
            shortened_texts: *shortened_texts,
        });
    }
    let rows: Vec<_> = tables
        .iter()
        .map(|(table, rows)| vec![(*table).to_owned(), rows.to_string()])
        .collect();
    print(&output::table(&["table", "rows"], &rows))?;
    print("all rows were compared: the database has what the file has\n")
}

/// Progress display on stderr: one changing line on a terminal, separate lines elsewhere.
struct Progress {
    is_terminal: bool,
    last: Instant,
    shown: bool,
}

impl Progress {
    fn new(target: &str) -> Self {
        let _ = writeln!(io::stderr(), "importing into {target}");
        Self {
            is_terminal: io::stderr().is_terminal(),
            last: Instant::now(),
            shown: false,
        }
    }

    fn show(&mut self, ImportProgress { table, rows, total }: ImportProgress) {
        // The last row is always shown, so that each table ends with its total.
        if self.last.elapsed() < PROGRESS_EVERY && rows < total {
            return;
        }
        self.last = Instant::now();
        self.shown = true;
        let line = format!("{table}: {rows} of {total} rows");
        // An error means that stderr is closed.
        let _ = if self.is_terminal {
            // Back to the start of the line, and clear it.
            write!(io::stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(io::stderr(), "{line}")
        };
    }

    fn end(&self) {
        if self.shown && self.is_terminal {
            let _ = writeln!(io::stderr());
        }
    }
}

/// JSON output for an index.
#[derive(Serialize)]
struct IndexView<'a> {
    index: &'a str,
    state: &'static str,
}

/// Builds the indexes that the database lacks, and shows the result for each.
///
/// # Errors
/// If the records are in a file, or the database cannot be used.
pub(super) fn migrate(config: &Config, data: &Path, format: OutputFormat) -> Result<(), CliError> {
    let Location::Server(options) = location(config, data, None)? else {
        let message = "the records are in a file, which the server migrates at its next start: there is nothing to prepare";
        return Err(CliError::failed(message));
    };
    show_indexes(&build_indexes(&options.server)?, format)
}

fn show_indexes(indexes: &[UpcomingIndex], format: OutputFormat) -> Result<(), CliError> {
    if format.json {
        let views = indexes
            .iter()
            .map(|UpcomingIndex { name, state }| IndexView {
                index: name,
                state: state.as_str(),
            });
        return print_json(&views.collect::<Vec<_>>());
    }
    if indexes.is_empty() {
        return print("no index has to be built before the next start of a server\n");
    }
    let row = |index: &UpcomingIndex| vec![index.name.clone(), index.state.as_str().to_owned()];
    print(&output::table(
        &["index", "state"],
        &indexes.iter().map(row).collect::<Vec<_>>(),
    ))
}

/// Copies a data directory's database to a new file.
///
/// # Errors
/// If there is no database file, or if the copy exists, cannot be written or is damaged.
pub(super) fn backup(file: PathBuf, config: &Config, data: &Path) -> Result<(), CliError> {
    if config.database.is_postgres() {
        return Err(CliError::failed(
            "the records are in PostgreSQL: use pg_dump to copy them",
        ));
    }
    let database = database_path(data);
    // Opening the store would create an empty database, and its copy would look like a backup.
    if !database.exists() {
        return Err(CliError::failed(format!(
            "no database at {}",
            database.display()
        )));
    }
    let shown = file.display().to_string();
    // Unlike `exists`, this finds a dangling symbolic link, which would be followed.
    if file.symlink_metadata().is_ok() {
        return Err(CliError::failed(format!(
            "{shown} exists already: choose a new file, since a backup never replaces one"
        )));
    }
    // A backup must not migrate the database, which a server of an older version may be using.
    let contents = with_store_as_it_is(config, data, async |store| {
        store.backups().create(file).await
    })?;
    if let Some(key) = config.encryption.key_path(data) {
        log::info!(
            "the backup does not contain its encryption key; also keep a copy of {}",
            key.display()
        );
    }
    let Contents {
        bytes,
        projects,
        rooms,
        secrets,
        ..
    } = contents;
    print(&output::fields(&[
        ("database", database.display().to_string()),
        ("backup", format!("{shown}, {bytes} bytes, not damaged")),
        ("contents", format!("projects: {projects}, rooms: {rooms}")),
        (
            "secrets",
            format!(
                "{}, {} cannot be decrypted",
                secrets.total, secrets.unopenable
            ),
        ),
    ]))
}
