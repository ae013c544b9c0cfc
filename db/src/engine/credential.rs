//! Credentials: the API keys with what a request needs of their projects.

use conclave_model::ProjectId;
use conclave_model::key::{ApiKeyHash, ApiKeyPrefix};
use conclave_model::project::ProjectStatus;

use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::values::args;

/// An API key and its project, as a request is authenticated with them.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The project that the key belongs to.
    pub project_id: ProjectId,
    /// The first characters of the key, which name it.
    pub prefix: ApiKeyPrefix,
    /// Whether the key was revoked.
    pub revoked: bool,
    /// Whether the project may start new work.
    pub project_status: ProjectStatus,
    /// The name of the project's plan.
    pub plan: String,
}

/// A key as it is stored.
#[derive(Clone)]
pub(crate) struct StoredKey {
    pub(crate) hash: ApiKeyHash,
    pub(crate) credential: Credential,
}

const SELECT: &str = "SELECT k.hash, k.revoked_at IS NOT NULL AS is_revoked, p.id, p.status, p.plan
     FROM api_keys k JOIN projects p ON p.id = k.project_id WHERE k.prefix = ?1";

/// Finds a key by its prefix.
pub(crate) fn find(sql: Sql<'_>, prefix: &ApiKeyPrefix) -> Result<Option<StoredKey>, StoreError> {
    sql.one(SELECT, args![prefix], |row| {
        let credential = Credential {
            project_id: row.get("id")?,
            prefix: prefix.clone(),
            revoked: row.get("is_revoked")?,
            project_status: row.get("status")?,
            plan: row.get("plan")?,
        };
        Ok(StoredKey {
            hash: row.get("hash")?,
            credential,
        })
    })
}
