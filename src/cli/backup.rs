//! `conclave backup FILE`: a consistent copy of the database, also while a server is using it.

use std::path::{Path, PathBuf};

use conclave_db::Contents;

use super::output::print;
use super::store::with_store_as_it_is;
use super::table;
use crate::config::Config;
use crate::data_dir::database_path;
use crate::error::CliError;

/// Copies the database of a data directory into a new file.
///
/// # Errors
/// There is no database, it is not a file, or the copy exists, cannot be written or is damaged.
pub(super) fn run(file: PathBuf, config: &Config, data: &Path) -> Result<(), CliError> {
    if config.database.is_postgres() {
        return Err(CliError::failed(
            "the records are in PostgreSQL: copy them with pg_dump",
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
    if file.symlink_metadata().is_ok() {
        return Err(CliError::failed(format!(
            "{shown} exists already: name a new file, since a backup replaces none"
        )));
    }
    let contents = with_store_as_it_is(config, data, async |store| {
        store.backups().create(file).await
    })?;
    if let Some(key) = config.encryption.key_path(data) {
        log::info!(
            "the backup does not contain the encryption key that it needs; keep a copy of {} too",
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
    print(&table::fields(&[
        ("database", database.display().to_string()),
        ("backup", format!("{shown}, {bytes} bytes, not damaged")),
        ("contents", format!("projects: {projects}, rooms: {rooms}")),
        (
            "secrets",
            format!(
                "{}, {} of them cannot be decrypted",
                secrets.total, secrets.unopenable
            ),
        ),
    ]))
}
