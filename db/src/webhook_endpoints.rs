//! Webhook endpoints. Their signing secrets are sealed at rest when the deployment has an encryption key.

use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::webhook::WebhookEndpoint;
use conclave_model::{EndpointId, ErrorCode, Problem, ProjectId, Secret};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::query_builder::QueryBuilder;
use crate::vault::{Sealed, Vault};
use crate::{Store, StoreError};

/// What sealed secrets are sealed for.
pub(crate) const PURPOSE: &str = "webhook endpoint secret";
const SELECT: &str = "SELECT id, project_id, url, active, created_at, secret, secret_key_id FROM webhook_endpoints";

/// An endpoint as it lies in the file, its secret perhaps sealed.
struct Stored {
    endpoint: WebhookEndpoint,
    secret: Vec<u8>,
    key_id: Option<String>,
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let endpoint = WebhookEndpoint {
        id: EndpointId(row.get(0)?),
        project_id: row.parsed(1)?,
        url: row.get(2)?,
        secret: Secret::new(""),
        active: row.get(3)?,
        created_at: row.time(4)?,
    };
    Ok(Stored { endpoint, secret: row.get(5)?, key_id: row.get(6)? })
}

impl Stored {
    /// The endpoint with its secret readable.
    fn unseal(self, vault: &Vault) -> Result<WebhookEndpoint, StoreError> {
        let plain = match self.key_id {
            None => self.secret,
            Some(key_id) => vault
                .open_sealed(&Sealed { key_id, bytes: self.secret }, PURPOSE)
                .map_err(|error| StoreError::Fault(format!("the secret of {}: {error}", self.endpoint.id)))?,
        };
        let plain = String::from_utf8(plain).map_err(|_| StoreError::Fault("a secret is not text".into()))?;
        Ok(WebhookEndpoint { secret: Secret::new(plain), ..self.endpoint })
    }
}

/// 404 `endpoint_not_found`.
fn not_found() -> Problem {
    Problem::new(ErrorCode::EndpointNotFound, "no webhook endpoint by that id in this project")
}

fn one(sql: &Connection, id: EndpointId) -> Result<Option<Stored>, StoreError> {
    sql.prepare_cached(&format!("{SELECT} WHERE id = ?1"))
        .and_then(|mut s| s.query_row([id.0], stored).optional())
        .or_store_error()
}

impl Store {
    /// Registers a receiver.
    ///
    /// # Errors
    /// The store's own.
    pub async fn create_webhook_endpoint(
        &self,
        project: ProjectId,
        url: String,
        secret: Secret,
        keep: Option<ResponseRecorder<WebhookEndpoint>>,
    ) -> Result<WebhookEndpoint, StoreError> {
        self.write(move |tx| {
            let id = EndpointId::new();
            let sealed = tx.vault.seal(secret.reveal().as_bytes(), PURPOSE);
            let sealed = sealed.map_err(|error| StoreError::unsealed(&error))?;
            let (key_id, bytes) = match sealed {
                Some(sealed) => (Some(sealed.key_id), sealed.bytes),
                None => (None, secret.reveal().as_bytes().to_vec()),
            };
            tx.sql
                .execute(
                    "INSERT INTO webhook_endpoints (id, project_id, url, secret, secret_key_id, active, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)",
                    params![id.0, project.as_str(), url, bytes, key_id, tx.now.millis()],
                )
                .or_store_error()?;
            let endpoint = WebhookEndpoint { id, project_id: project, url, secret, active: true, created_at: tx.now };
            tx.store_response(keep.as_ref(), &endpoint)?;
            Ok(endpoint)
        })
        .await
    }

    /// A project's receivers, newest first. Their secrets are blank.
    ///
    /// # Errors
    /// The store's own.
    pub async fn webhook_endpoints(
        &self,
        project: ProjectId,
        page: PageRequest,
    ) -> Result<Page<WebhookEndpoint>, StoreError> {
        self.read(move |sql| {
            let wanted = QueryBuilder::of_project("project_id", &project);
            let page = wanted.page(sql, SELECT, "created_at DESC, id DESC", page, stored)?;
            Ok(page.map(|stored| stored.endpoint))
        })
        .await
    }

    /// A receiver with its secret, if it is there and active.
    ///
    /// # Errors
    /// The store's own.
    pub async fn active_webhook_endpoint(&self, id: EndpointId) -> Result<Option<WebhookEndpoint>, StoreError> {
        let vault = std::sync::Arc::clone(self.vault());
        self.read(move |sql| {
            one(sql, id)?.filter(|stored| stored.endpoint.active).map(|stored| stored.unseal(&vault)).transpose()
        })
        .await
    }

    /// The ids of a project's active receivers.
    ///
    /// # Errors
    /// The store's own.
    pub async fn active_webhook_endpoint_ids(&self, project: ProjectId) -> Result<Vec<EndpointId>, StoreError> {
        self.read(move |sql| {
            sql.prepare_cached("SELECT id FROM webhook_endpoints WHERE project_id = ?1 AND active = 1")
                .and_then(|mut s| s.query_map([project.as_str()], |row| Ok(EndpointId(row.get(0)?)))?.collect())
                .or_store_error()
        })
        .await
    }

    /// Removes a receiver and what was on its way to it. What was delivered or given up stays in the log.
    ///
    /// # Errors
    /// Refused when the project has no such receiver.
    pub async fn delete_webhook_endpoint(&self, project: ProjectId, id: EndpointId) -> Result<(), StoreError> {
        self.write(move |tx| {
            let deleted = tx
                .sql
                .execute(
                    "DELETE FROM webhook_endpoints WHERE id = ?1 AND project_id = ?2",
                    params![id.0, project.as_str()],
                )
                .or_store_error()?;
            if deleted == 0 {
                return StoreError::refuse(not_found());
            }
            tx.sql
                .execute("DELETE FROM webhook_deliveries WHERE endpoint_id = ?1 AND status = 'pending'", [id.0])
                .or_store_error()?;
            Ok(())
        })
        .await
    }
}
