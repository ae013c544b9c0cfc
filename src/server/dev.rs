//! Project of `conclave dev`: a test project with a default template, and an API key that survives restarts.
//!
//! The key is in the data directory's `dev.key`. The database has only its hash, so a key whose file is lost cannot be shown again: it is
//! revoked and replaced.

use std::io::ErrorKind;
use std::path::Path;

use conclave_db::{ApiKeys, Store, StoreError, private_file};
use conclave_model::key::ApiKey;
use conclave_model::project::{Environment, Project};
use conclave_model::{ProjectId, Timestamp};

use crate::config::{DEFAULT_PLAN, Mode};
use crate::data_dir::DEV_KEY_FILE;
use crate::error::CliError;
use crate::starter_template;

/// Project name and key label.
const DEV: &str = "dev";

/// A development server's credentials.
pub struct DevAccess {
    /// The test project.
    pub project_id: ProjectId,
    /// API key. It stays the same until it is revoked or its file is lost.
    pub api_key: ApiKey,
}

/// Finds or creates the project, its template and its key in `dev` mode.
///
/// # Errors
/// If the database cannot be used, or the key cannot be written.
pub(super) async fn prepare(
    mode: Mode,
    data: &Path,
    store: &Store,
) -> Result<Option<DevAccess>, CliError> {
    if mode == Mode::Serve {
        return Ok(None);
    }
    let project = find_or_create_project(store).await?;
    let path = data.join(DEV_KEY_FILE);
    let now = store.clock().now();
    let api_key = match valid_key(&path, &project.id, store.api_keys(), now).await? {
        Some(key) => key,
        None => replace_key(&path, &project.id, store.api_keys()).await?,
    };
    Ok(Some(DevAccess {
        project_id: project.id,
        api_key,
    }))
}

/// Reads the key from an earlier start. `None` if the file has no key that is valid for the project: its key may be revoked, or
/// belong to another database.
async fn valid_key(
    path: &Path,
    project: &ProjectId,
    api_keys: &ApiKeys,
    now: Timestamp,
) -> Result<Option<ApiKey>, CliError> {
    // Already logged, if there was a file.
    let Some(key) = read_key(path) else {
        return Ok(None);
    };
    // As a request would, so the printed key works.
    let credential = api_keys.authenticate(key.lookup()).await?;
    let is_valid =
        credential.is_some_and(|found| found.project_id == *project && found.is_valid(now));
    if !is_valid {
        log::warn!(
            "{} has a key that is revoked, expired or from another database; it is replaced",
            path.display()
        );
    }
    Ok(is_valid.then_some(key))
}

fn read_key(path: &Path) -> Option<ApiKey> {
    let problem = match private_file::read(path) {
        Ok(text) => match text.trim().parse() {
            Ok(key) => return Some(key),
            Err(error) => format!("{error}"),
        },
        // The first start.
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => error.to_string(),
    };
    log::warn!("{} is replaced: {problem}", path.display());
    None
}

/// Creates a key and writes its file. First revokes the keys from earlier starts, which are lost.
async fn replace_key(
    path: &Path,
    project: &ProjectId,
    api_keys: &ApiKeys,
) -> Result<ApiKey, CliError> {
    for key in api_keys.list(project.clone()).await? {
        // Only keys with this label: a developer may have created others in the console.
        if key.label == DEV && key.revoked_at.is_none() {
            api_keys.revoke(key.prefix).await?;
        }
    }
    let key = api_keys.create(project.clone(), DEV.into()).await?.key;
    // If this fails, the start fails, and the next one revokes the unknown key.
    let written = private_file::write(path, &format!("{}\n", key.reveal()));
    written.map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
    Ok(key)
}

async fn find_or_create_project(store: &Store) -> Result<Project, StoreError> {
    let known = store
        .projects()
        .list()
        .await?
        // Only a test project: a live one may have the same name.
        .into_iter()
        .find(|p| p.name == DEV && p.env == Environment::Test);
    let project = match known {
        Some(project) => project,
        None => {
            store
                .projects()
                .create(DEV.into(), Environment::Test, DEFAULT_PLAN.into())
                .await?
        }
    };
    starter_template::ensure(store, project).await
}
