//! `conclave import FILE`: copies the records of a file into an empty database of PostgreSQL.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use conclave_db::{ImportProgress, Imported, import_file};
use serde::Serialize;

use super::output::{OutputFormat, print, print_json};
use super::table;
use crate::config::Config;
use crate::data_dir::{self, DATABASE_FILE};
use crate::error::CliError;

/// The time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// A table that was imported, with `--json`.
#[derive(Serialize)]
struct TableView {
    table: &'static str,
    rows: u64,
}

/// The result with `--json`.
#[derive(Serialize)]
struct ImportView {
    tables: Vec<TableView>,
    shortened_texts: u64,
}

/// Imports a file, whose server must be stopped: what it wrote afterwards would be in the file only.
///
/// # Errors
/// The records are not to be in PostgreSQL, the database is not empty, a server uses the file, or it could not be copied.
pub(super) fn run(file: &Path, config: &Config, format: OutputFormat) -> Result<(), CliError> {
    let Some(options) = config.database.postgres(None)? else {
        return Err(CliError::failed(
            "database.url is not set: it names the database that the records are copied into",
        ));
    };
    if !file.is_file() {
        return Err(CliError::failed(format!("no file at {}", file.display())));
    }
    // A server uses a file of this name only. Others are copies.
    let is_of_server = file.file_name().is_some_and(|name| name == DATABASE_FILE);
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let _lock = is_of_server
        .then(|| data_dir::lock_for_server(folder))
        .transpose()?;
    let mut progress = Progress::new(&options.server.location());
    let imported = import_file(file, &options.server, |at| progress.show(at));
    progress.end();
    show(
        &imported.map_err(|error| CliError::failed(error.to_string()))?,
        format,
    )
}

fn show(imported: &Imported, format: OutputFormat) -> Result<(), CliError> {
    let Imported {
        tables,
        shortened_texts,
    } = imported;
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
    print(&table::table(&["table", "rows"], &rows))?;
    print("all rows were compared: the database has what the file has\n")
}

/// Shows on stderr how far the import is: one line that changes on a terminal, and lines elsewhere.
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
        if self.last.elapsed() < PROGRESS_EVERY && rows < total {
            return;
        }
        self.last = Instant::now();
        self.shown = true;
        let line = format!("{table}: {rows} of {total} rows");
        // Without a terminal nobody reads it.
        let _ = if self.is_terminal {
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
