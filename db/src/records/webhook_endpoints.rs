//! Webhook endpoints. Their signing secrets are sealed if the deployment has an encryption key.

use std::sync::Arc;

use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::webhook::WebhookEndpoint;
use conclave_model::{EndpointId, ErrorCode, Problem, ProjectId, Secret};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::vault::{Sealed, Vault};

/// Purpose that signing secrets are sealed for. It is in every sealed secret, so it never changes.
pub(crate) const PURPOSE: &str = "webhook endpoint secret";

const SELECT: &str =
    "SELECT id, project_id, url, active, created_at, secret, secret_key_id FROM webhook_endpoints";
const SELECT_ACTIVE_IDS: &str =
    "SELECT id FROM webhook_endpoints WHERE project_id = ?1 AND active = 1";
const INSERT: &str =
    "INSERT INTO webhook_endpoints (id, project_id, url, secret, secret_key_id, active, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)";
/// A deleted endpoint is inactive, and has no secret. Its row remains until its pending deliveries are purged.
const DELETE: &str = "UPDATE webhook_endpoints SET active = 0, secret = ?3, secret_key_id = NULL
     WHERE id = ?1 AND project_id = ?2 AND active = 1";
const SELECT_DELETED: &str =
    "SELECT id, project_id FROM webhook_endpoints WHERE active = 0 LIMIT 1";
/// Active endpoints with a failed delivery that will be attempted again, or whose last final delivery failed.
pub(crate) const SELECT_FAILING: &str = "SELECT id, project_id, url FROM webhook_endpoints
     WHERE active = 1
       AND (EXISTS (SELECT 1 FROM webhook_deliveries
                    WHERE endpoint_id = webhook_endpoints.id AND status = 'pending' AND attempts > 0
                      AND next_attempt_at > 0)
            OR coalesce((SELECT max(seq) FROM webhook_deliveries
                         WHERE endpoint_id = webhook_endpoints.id AND status = 'failed'), 0)
             > coalesce((SELECT max(seq) FROM webhook_deliveries
                         WHERE endpoint_id = webhook_endpoints.id AND status = 'delivered'), 0))
     LIMIT ?1";
const IS_ACTIVE: &str = "SELECT EXISTS (SELECT 1 FROM webhook_endpoints WHERE id = ?1 AND project_id = ?2 AND active = 1)";
/// The newest first, since lists would have to skip them.
const PURGE_DELIVERIES: &str = "DELETE FROM webhook_deliveries WHERE seq IN
     (SELECT seq FROM webhook_deliveries WHERE endpoint_id = ?1 AND project_id = ?2 AND status = 'pending'
      ORDER BY seq DESC LIMIT ?3)";
const PURGE: &str =
    "DELETE FROM webhook_endpoints WHERE id = ?1 AND project_id = ?2 AND active = 0";
/// Maximum deliveries deleted by one write, so that no other write waits long.
const STEP: u32 = 500;

/// Webhook endpoint that does not accept deliveries.
#[derive(Debug, Clone)]
pub struct FailingEndpoint {
    /// Endpoint id.
    pub id: EndpointId,
    /// Project that owns the endpoint.
    pub project_id: ProjectId,
    /// URL that deliveries are posted to.
    pub url: String,
}

/// Stored endpoint. Without an encryption key, its secret is not sealed.
struct Stored {
    endpoint: WebhookEndpoint,
    secret: Vec<u8>,
    key_id: Option<String>,
}

fn stored(row: &Row<'_>) -> Result<Stored, StoreError> {
    let endpoint = WebhookEndpoint {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        url: row.get("url")?,
        // Filled in by `unseal` where it is needed. Lists never decrypt.
        secret: Secret::new(""),
        active: row.get("active")?,
        created_at: row.get("created_at")?,
    };
    Ok(Stored {
        endpoint,
        secret: row.get("secret")?,
        key_id: row.get("secret_key_id")?,
    })
}

impl Stored {
    /// Returns the endpoint with its decrypted secret.
    fn unseal(self, vault: &Vault) -> Result<WebhookEndpoint, StoreError> {
        let plain = match self.key_id {
            // Stored without a key of the deployment.
            None => self.secret,
            Some(key_id) => vault
                .open_sealed(
                    &Sealed {
                        key_id,
                        bytes: self.secret,
                    },
                    PURPOSE,
                )
                .map_err(|error| {
                    StoreError::Fault(format!("the secret of {}: {error}", self.endpoint.id))
                })?,
        };
        let plain = String::from_utf8(plain)
            .map_err(|_| StoreError::Fault("a secret is not text".into()))?;
        Ok(WebhookEndpoint {
            secret: Secret::new(plain),
            ..self.endpoint
        })
    }
}

fn not_found() -> Problem {
    Problem::new(
        ErrorCode::EndpointNotFound,
        "no webhook endpoint by that id in this project",
    )
}

/// Returns the query that lists a project's active webhook endpoints, newest first.
pub(crate) fn list_query(project: &ProjectId) -> QueryBuilder<'_> {
    QueryBuilder::new(SELECT, "project_id", project, "created_at DESC, id DESC")
        .and("active =", Some(true))
}

/// Reads a project's active endpoint ids.
pub(crate) fn active_ids(sql: Sql<'_>, project: &ProjectId) -> Result<Vec<EndpointId>, StoreError> {
    sql.many(SELECT_ACTIVE_IDS, args![project], |row| row.get("id"))
}

/// Webhook endpoint records.
#[derive(Debug, Clone)]
pub struct WebhookEndpoints(pub(crate) Database);

impl WebhookEndpoints {
    /// Creates an active webhook endpoint.
    ///
    /// # Errors
    /// Fails when the database cannot be written or the secret cannot be sealed.
    pub async fn create(
        &self,
        project: ProjectId,
        url: String,
        secret: Secret,
        record: Option<ResponseRecorder<WebhookEndpoint>>,
    ) -> Result<WebhookEndpoint, StoreError> {
        self.0
            .write_recorded(Queue::for_project(&project), record, move |tx| {
                let id = EndpointId::new();
                let plain = secret.reveal().as_bytes();
                // Inside the transaction, under the rotation lock: a rotation must not miss this secret.
                let sealed = tx.seal(plain, PURPOSE)?;
                let bytes = sealed.as_ref().map_or(plain, |sealed| &sealed.bytes);
                let key_id = sealed.as_ref().map(|sealed| &sealed.key_id);
                tx.sql
                    .put(INSERT, args![id, &project, &url, bytes, key_id, tx.now])?;
                Ok(WebhookEndpoint {
                    id,
                    project_id: project,
                    url,
                    secret,
                    active: true,
                    created_at: tx.now,
                })
            })
            .await
    }

    /// Lists a project's webhook endpoints, newest first. Their secrets are blank.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn list(
        &self,
        project: ProjectId,
        page: PageRequest,
    ) -> Result<Page<WebhookEndpoint>, StoreError> {
        self.0
            .list(project, move |sql, project| {
                Ok(list_query(project)
                    .page(sql, page, stored)?
                    .map(|stored| stored.endpoint))
            })
            .await
    }

    /// Reads an active webhook endpoint with its secret; `None` if there is none with this id.
    ///
    /// # Errors
    /// Fails when the database cannot be read or the secret cannot be decrypted.
    pub async fn active(&self, id: EndpointId) -> Result<Option<WebhookEndpoint>, StoreError> {
        let vault = Arc::clone(self.0.vault());
        self.0
            .read(move |sql| {
                let found = sql.one(
                    &format!("{SELECT} WHERE id = ?1 AND active = 1"),
                    args![id],
                    stored,
                )?;
                found.map(|stored| stored.unseal(&vault)).transpose()
            })
            .await
    }

    /// Reads at most `limit` active webhook endpoints of any project that have a failed delivery to be attempted again, or whose last final
    /// delivery failed.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn failing(&self, limit: u32) -> Result<Vec<FailingEndpoint>, StoreError> {
        let read = |row: &Row<'_>| {
            Ok(FailingEndpoint {
                id: row.get("id")?,
                project_id: row.get("project_id")?,
                url: row.get("url")?,
            })
        };
        self.0
            .bulk_read(move |sql| sql.many(SELECT_FAILING, args![limit], read))
            .await
    }

    /// Queues a delivery of the event `webhook.test` to one webhook endpoint. The event belongs to no room.
    ///
    /// # Errors
    /// Refused when the project has no such webhook endpoint.
    pub async fn send_test_event(
        &self,
        project: ProjectId,
        id: EndpointId,
    ) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                // In the transaction of the event, so that no delivery for a deleted endpoint remains.
                if !tx.sql.value::<bool>(IS_ACTIVE, args![id, &project])? {
                    return StoreError::refuse(not_found());
                }
                tx.emit_test(&project, id)
            })
            .await
    }

    /// Deletes a webhook endpoint and its pending deliveries. Delivered and failed ones stay in the log. The rows are deleted later by
    /// [`purge_deleted`](Self::purge_deleted), but are no longer visible.
    ///
    /// # Errors
    /// Refused when the project has no such webhook endpoint.
    pub async fn delete(&self, project: ProjectId, id: EndpointId) -> Result<(), StoreError> {
        self.0
            // One row, however many deliveries are pending. Queries hide an inactive endpoint's deliveries.
            .write(Queue::for_project(&project), move |tx| {
                // The secret is erased at once, and not only with the row.
                let no_secret: &[u8] = &[];
                if tx.sql.change(DELETE, args![id, &project, no_secret])? == 0 {
                    return StoreError::refuse(not_found());
                }
                Ok(())
            })
            .await
    }

    /// Deletes at most 500 pending deliveries of a deleted webhook endpoint of any project, or the endpoint if none is left. Returns the
    /// number of deleted rows; 0 if no endpoint is left to purge.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn purge_deleted(&self) -> Result<usize, StoreError> {
        self.0
            .write(Queue::SERVER, |tx| {
                let read = |row: &Row<'_>| Ok((row.get("id")?, row.get("project_id")?));
                let found: Option<(EndpointId, ProjectId)> =
                    tx.sql.one(SELECT_DELETED, &[], read)?;
                // One endpoint at a time. The caller repeats until nothing is left.
                let Some((id, project)) = found else {
                    return Ok(0);
                };
                // The endpoint last: its row shows that there may be deliveries to purge.
                match tx.sql.change(PURGE_DELIVERIES, args![id, &project, STEP])? {
                    0 => tx.sql.change(PURGE, args![id, &project]),
                    deleted => Ok(deleted),
                }
            })
            .await
    }
}
