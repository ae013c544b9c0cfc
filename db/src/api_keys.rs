//! API keys: who a credential stands for, in the state of the database at that moment.

use conclave_model::key::{ApiKey, ApiKeyHash, ApiKeyPrefix, ApiKeyRecord};
use conclave_model::project::ProjectStatus;
use conclave_model::{ErrorCode, Problem, ProjectId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::projects::no_such_project;
use crate::{Store, StoreError};

/// What a request learns from its key.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Whose key it is.
    pub project_id: ProjectId,
    /// Which key.
    pub prefix: ApiKeyPrefix,
    /// It has stopped working.
    pub revoked: bool,
    /// Whether the project may start work.
    pub project_status: ProjectStatus,
    /// The project's plan.
    pub plan: String,
}

fn record(row: &Row<'_>) -> rusqlite::Result<ApiKeyRecord> {
    Ok(ApiKeyRecord {
        project_id: row.parsed(0)?,
        prefix: row.parsed(1)?,
        label: row.get(2)?,
        created_at: row.time(3)?,
        revoked_at: row.time_opt(4)?,
    })
}

const COLUMNS: &str = "project_id, prefix, label, created_at, revoked_at";

fn of_prefix(sql: &Connection, prefix: &ApiKeyPrefix) -> Result<Option<ApiKeyRecord>, StoreError> {
    sql.query_row(&format!("SELECT {COLUMNS} FROM api_keys WHERE prefix = ?1"), [prefix.as_str()], record)
        .optional()
        .or_store_error()
}

fn authenticate(sql: &Connection, key: &ApiKey) -> rusqlite::Result<Option<Credential>> {
    let prefix = key.prefix();
    let mut statement = sql.prepare_cached(
        "SELECT k.hash, k.revoked_at IS NOT NULL, p.id, p.status, p.plan
         FROM api_keys k JOIN projects p ON p.id = k.project_id WHERE k.prefix = ?1",
    )?;
    let found = statement
        .query_row([prefix.as_str()], |row| {
            let credential = Credential {
                project_id: row.parsed(2)?,
                prefix: key.prefix(),
                revoked: row.get(1)?,
                project_status: row.word(3, |word| word.parse().ok())?,
                plan: row.get(4)?,
            };
            Ok((ApiKeyHash(row.get(0)?), credential))
        })
        .optional()?;
    // The prefix finds the row, the comparison of the hashes decides, in constant time.
    Ok(found.filter(|(hash, _)| *hash == key.hash()).map(|(_, credential)| credential))
}

impl Store {
    /// Who a key stands for; `None` for an unknown one.
    ///
    /// # Errors
    /// The store's own.
    pub async fn authenticate(&self, key: ApiKey) -> Result<Option<Credential>, StoreError> {
        self.read(move |sql| authenticate(sql, &key).or_store_error()).await
    }

    /// Makes a key and gives it back whole, for the one time it is shown.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn create_api_key(
        &self,
        project: ProjectId,
        label: String,
    ) -> Result<(ApiKeyRecord, ApiKey), StoreError> {
        let Some(owner) = self.project(project.clone()).await? else {
            return Err(no_such_project(&project));
        };
        self.write(move |tx| {
            // Prefixes name keys, so one that is taken is drawn again.
            let mut key = ApiKey::generate(owner.env);
            while of_prefix(tx.sql, &key.prefix())?.is_some() {
                key = ApiKey::generate(owner.env);
            }
            tx.sql
                .execute(
                    "INSERT INTO api_keys (prefix, project_id, hash, label, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![key.prefix().as_str(), project.as_str(), key.hash().0, label, tx.now.millis()],
                )
                .or_store_error()?;
            let record = of_prefix(tx.sql, &key.prefix())?.ok_or_else(|| no_such_key(&key.prefix()))?;
            Ok((record, key))
        })
        .await
    }

    /// A project's keys, oldest first.
    ///
    /// # Errors
    /// The store's own.
    pub async fn api_keys(&self, project: ProjectId) -> Result<Vec<ApiKeyRecord>, StoreError> {
        self.read(move |sql| {
            let query = format!("SELECT {COLUMNS} FROM api_keys WHERE project_id = ?1 ORDER BY created_at, prefix");
            let mut statement = sql.prepare_cached(&query).or_store_error()?;
            statement.query_map([project.as_str()], record).and_then(Iterator::collect).or_store_error()
        })
        .await
    }

    /// Revokes a key, from the next request on. Revoking it again changes nothing.
    ///
    /// # Errors
    /// Refused when there is no such key.
    pub async fn revoke_api_key(&self, prefix: ApiKeyPrefix) -> Result<ApiKeyRecord, StoreError> {
        self.write(move |tx| {
            tx.sql
                .execute(
                    "UPDATE api_keys SET revoked_at = ?2 WHERE prefix = ?1 AND revoked_at IS NULL",
                    params![prefix.as_str(), tx.now.millis()],
                )
                .or_store_error()?;
            of_prefix(tx.sql, &prefix)?.ok_or_else(|| no_such_key(&prefix))
        })
        .await
    }
}

fn no_such_key(prefix: &ApiKeyPrefix) -> StoreError {
    StoreError::Refused(Problem::new(ErrorCode::NotFound, format!("no key with the prefix {prefix}")))
}
