//! `conclave backup FILE`: a consistent copy of the database, while a server may be using it.

use std::path::{Path, PathBuf};

use super::open::{database_path, with_store};
use super::output::print;
use super::{CliError, table};
use crate::config::Config;

/// Copies the database of a data directory into a new file.
///
/// # Errors
/// A database that is not there, a file that exists or cannot be written.
pub fn run(file: PathBuf, config: &Config, data: &Path) -> Result<(), CliError> {
    let database = database_path(data);
    // Opening would make an empty one, and its copy would look like a backup.
    if !database.exists() {
        return Err(CliError::failed(format!("no database at {}", database.display())));
    }
    let shown = file.display().to_string();
    with_store(config, data, async |store| store.backup(file).await.map_err(|e| CliError::of_store(&e)))?;
    if let Some(key) = config.encryption.key_path(data) {
        log::info!(
            "the encryption key is not in the backup, which needs the one of now; keep a copy of {} too",
            key.display()
        );
    }
    print(&table::fields(&[("database", database.display().to_string()), ("backup", shown)]))
}
