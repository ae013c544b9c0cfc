//! Webhook endpoints. Their signing secrets are sealed if the deployment has an encryption key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::event::EventType;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::page::{Page, PageRequest};
use conclave_model::webhook::{
    DisabledEndpoint, PreviousSecret, WebhookEndpoint, WebhookEndpointChange,
};
use conclave_model::{EndpointId, ErrorCode, Problem, ProjectId, Secret, Throttle, Timestamp};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::query_builder::QueryBuilder;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::vault::{Sealed, Vault};

/// Purpose that signing secrets are sealed for. It is in every sealed secret, so it never changes.
pub(crate) const PURPOSE: &str = "webhook endpoint secret";

// In the table, `active` is 0 for a deleted endpoint, and `enabled` is 0 for an endpoint that receives no events.
const SELECT: &str =
    "SELECT id, project_id, url, enabled, created_at, events, description, failing_since, disabled_at, disabled_reason,
            secret, secret_key_id, previous_secret, previous_secret_key_id, previous_secret_until
     FROM webhook_endpoints";
const SELECT_IDS: &str = "SELECT id FROM webhook_endpoints WHERE project_id = ?1 AND active = 1";
const INSERT: &str =
    "INSERT INTO webhook_endpoints (id, project_id, url, secret, secret_key_id, active, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)";
/// A deleted endpoint is inactive, and has no secret. Its row remains until its pending deliveries are purged.
const DELETE: &str = "UPDATE webhook_endpoints SET active = 0, secret = ?3, secret_key_id = NULL,
            previous_secret = NULL, previous_secret_key_id = NULL, previous_secret_until = NULL
     WHERE id = ?1 AND project_id = ?2 AND active = 1";
const SELECT_DELETED: &str =
    "SELECT id, project_id FROM webhook_endpoints WHERE active = 0 LIMIT 1";
const UPDATE: &str = "UPDATE webhook_endpoints
     SET url = ?3, events = ?4, description = ?5, enabled = ?6, failing_since = ?7, disabled_at = ?8, disabled_reason = ?9
     WHERE id = ?1 AND project_id = ?2 AND active = 1";
/// The previous secret is the current one, sealed as it is.
const ROTATE: &str = "UPDATE webhook_endpoints
     SET previous_secret = secret, previous_secret_key_id = secret_key_id, previous_secret_until = ?5, secret = ?3, secret_key_id = ?4
     WHERE id = ?1 AND project_id = ?2 AND active = 1";
const FORGET_PREVIOUS: &str = "UPDATE webhook_endpoints
     SET previous_secret = NULL, previous_secret_key_id = NULL, previous_secret_until = NULL
     WHERE id = ?1 AND project_id = ?2 AND previous_secret_until <= ?3";
const PREVIOUS_UNTIL: &str =
    "SELECT previous_secret_until FROM webhook_endpoints WHERE id = ?1 AND project_id = ?2";
const DISABLE: &str =
    "UPDATE webhook_endpoints SET enabled = 0, disabled_at = ?3, disabled_reason = ?4
     WHERE id = ?1 AND project_id = ?2 AND active = 1 AND enabled = 1 AND failing_since <= ?5";
/// Endpoints that the server has disabled, and active ones with a failed delivery that will be attempted again, or whose last final
/// delivery failed.
pub(crate) const SELECT_FAILING: &str =
    "SELECT id, project_id, url, disabled_at FROM webhook_endpoints
     WHERE active = 1
       AND (disabled_at IS NOT NULL
            OR EXISTS (SELECT 1 FROM webhook_deliveries
                    WHERE endpoint_id = webhook_endpoints.id AND status = 'pending' AND attempts > 0
                      AND next_attempt_at > 0)
            OR coalesce((SELECT max(seq) FROM webhook_deliveries
                         WHERE endpoint_id = webhook_endpoints.id AND status = 'failed'), 0)
             > coalesce((SELECT max(seq) FROM webhook_deliveries
                         WHERE endpoint_id = webhook_endpoints.id AND status = 'delivered'), 0))
     LIMIT ?1";
const IS_ACTIVE: &str = "SELECT EXISTS (SELECT 1 FROM webhook_endpoints WHERE id = ?1 AND project_id = ?2 AND active = 1 AND enabled = 1)";
/// The newest first, since lists would have to skip them.
const PURGE_DELIVERIES: &str = "DELETE FROM webhook_deliveries WHERE seq IN
     (SELECT seq FROM webhook_deliveries WHERE endpoint_id = ?1 AND project_id = ?2 AND status = 'pending'
      ORDER BY seq DESC LIMIT ?3)";
const PURGE: &str =
    "DELETE FROM webhook_endpoints WHERE id = ?1 AND project_id = ?2 AND active = 0";
/// Maximum deliveries deleted by one write, so that no other write waits long.
const STEP: u32 = 500;
/// Shortest time between two log lines about an endpoint's previous secret, and the maximum number of lines in that time.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
const MAX_WARNINGS: usize = 10;

/// Webhook endpoint that does not accept deliveries.
#[derive(Debug, Clone)]
pub struct FailingEndpoint {
    /// Endpoint id.
    pub id: EndpointId,
    /// Project that owns the endpoint.
    pub project_id: ProjectId,
    /// URL that deliveries are posted to.
    pub url: String,
    /// Time at which the server disabled it; `None` if it is active.
    pub disabled_at: Option<Timestamp>,
}

/// Stored endpoint. Without an encryption key, its secret is not sealed.
struct Stored {
    endpoint: WebhookEndpoint,
    secret: StoredSecret,
    previous: Option<(StoredSecret, Timestamp)>,
}

/// Stored secret, sealed if there is a key id.
struct StoredSecret {
    bytes: Vec<u8>,
    key_id: Option<String>,
}

fn stored(row: &Row<'_>) -> Result<Stored, StoreError> {
    let until: Option<Timestamp> = row.get("previous_secret_until")?;
    let endpoint = WebhookEndpoint {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        url: row.get("url")?,
        events: stored_events(row)?,
        description: row.get("description")?,
        // Filled in by `unseal` where it is needed. Lists never decrypt.
        secret: Secret::new(""),
        previous_secret: until.map(|until| PreviousSecret {
            secret: Secret::new(""),
            until,
        }),
        active: row.get("enabled")?,
        failing_since: row.get("failing_since")?,
        disabled: disabled(row)?,
        created_at: row.get("created_at")?,
    };
    let previous: Option<Vec<u8>> = row.get("previous_secret")?;
    let previous_key_id = row.get("previous_secret_key_id")?;
    Ok(Stored {
        endpoint,
        secret: StoredSecret {
            bytes: row.get("secret")?,
            key_id: row.get("secret_key_id")?,
        },
        previous: previous.zip(until).map(|(bytes, until)| {
            let secret = StoredSecret {
                bytes,
                key_id: previous_key_id,
            };
            (secret, until)
        }),
    })
}

/// Reads the event types; all if there is no list.
fn stored_events(row: &Row<'_>) -> Result<Vec<EventType>, StoreError> {
    let events: Option<String> = row.get("events")?;
    let parse = |events: String| serde_json::from_str(&events).map_err(StoreError::from);
    events.map_or_else(|| Ok(Vec::new()), parse)
}

fn disabled(row: &Row<'_>) -> Result<Option<DisabledEndpoint>, StoreError> {
    let at: Option<Timestamp> = row.get("disabled_at")?;
    let reason: Option<String> = row.get("disabled_reason")?;
    Ok(at.map(|at| DisabledEndpoint {
        at,
        reason: reason.unwrap_or_default(),
    }))
}

impl Stored {
    /// Returns the endpoint with its decrypted secrets. A previous secret that cannot be decrypted is left out, since a receiver that has
    /// the current one can verify deliveries without it.
    fn unseal(
        self,
        vault: &Vault,
        warnings: &Throttle<EndpointId>,
    ) -> Result<WebhookEndpoint, StoreError> {
        let id = self.endpoint.id;
        let secret = self.secret.unseal(vault, id)?;
        let mut previous_secret = None;
        if let Some((previous, until)) = self.previous {
            match previous.unseal(vault, id) {
                Ok(secret) => previous_secret = Some(PreviousSecret { secret, until }),
                Err(error) if warnings.allow_key(id, Instant::now()) => {
                    log::warn!(endpoint = id.to_string().as_str(); "deliveries are signed with the current secret only, because the previous one is unusable: {error}");
                }
                Err(_) => {}
            }
        }
        Ok(WebhookEndpoint {
            secret,
            previous_secret,
            ..self.endpoint
        })
    }
}

impl StoredSecret {
    fn unseal(self, vault: &Vault, endpoint: EndpointId) -> Result<Secret, StoreError> {
        let plain = match self.key_id {
            // Stored without a key of the deployment.
            None => self.bytes,
            Some(key_id) => vault
                .open_sealed(
                    &Sealed {
                        key_id,
                        bytes: self.bytes,
                    },
                    PURPOSE,
                )
                .map_err(|error| StoreError::Fault(format!("the secret of {endpoint}: {error}")))?,
        };
        let plain = String::from_utf8(plain)
            .map_err(|_| StoreError::Fault("a secret is not text".into()))?;
        Ok(Secret::new(plain))
    }
}

/// Reads a webhook endpoint that was not deleted.
fn existing(sql: Sql<'_>, project: &ProjectId, id: EndpointId) -> Result<Stored, StoreError> {
    let query = format!("{SELECT} WHERE id = ?1 AND project_id = ?2 AND active = 1");
    Ok(sql
        .one(&query, args![id, project], stored)?
        .ok_or_else(not_found)?)
}

fn apply(endpoint: &mut WebhookEndpoint, change: WebhookEndpointChange) {
    if let Some(url) = change.url {
        if url != endpoint.url {
            // The failures were another receiver's.
            endpoint.failing_since = None;
        }
        endpoint.url = url;
    }
    if let Some(events) = change.events {
        endpoint.events = events;
    }
    if let Some(description) = change.description {
        endpoint.description = description;
    }
    if let Some(active) = change.active {
        // The receiver gets the whole time again. An active endpoint's failures go on.
        if active && !endpoint.active {
            endpoint.failing_since = None;
            endpoint.disabled = None;
        }
        endpoint.active = active;
    }
}

fn not_found() -> Problem {
    Problem::new(
        ErrorCode::EndpointNotFound,
        "no webhook endpoint by that id in this project",
    )
}

/// Returns the query that lists a project's webhook endpoints, newest first.
pub(crate) fn list_query(project: &ProjectId) -> QueryBuilder<'_> {
    QueryBuilder::new(SELECT, "project_id", project, "created_at DESC, id DESC")
        .and("active =", Some(true))
}

/// Reads a project's endpoint ids.
pub(crate) fn ids(sql: Sql<'_>, project: &ProjectId) -> Result<Vec<EndpointId>, StoreError> {
    sql.many(SELECT_IDS, args![project], |row| row.get("id"))
}

/// Webhook endpoint records.
#[derive(Debug, Clone)]
pub struct WebhookEndpoints {
    database: Database,
    /// Limits log lines about previous secrets that cannot be decrypted, since each batch of deliveries reads the secrets.
    warnings: Arc<Throttle<EndpointId>>,
}

impl WebhookEndpoints {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            warnings: Arc::new(Throttle::by_key(WARNING_INTERVAL, MAX_WARNINGS)),
        }
    }

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
        self.database
            .write_recorded(Queue::for_project(&project), record, move |tx| {
                let id = EndpointId::new();
                let plain = secret.reveal().as_bytes();
                // Inside the transaction, under the rotation lock: a rotation must not miss this secret.
                let sealed = tx.seal(plain, PURPOSE)?;
                let bytes = sealed.as_ref().map_or(plain, |sealed| &sealed.bytes);
                let key_id = sealed.as_ref().map(|sealed| &sealed.key_id);
                tx.sql
                    .put(INSERT, args![id, &project, &url, bytes, key_id, tx.now])?;
                Ok(WebhookEndpoint::new(id, project, url, secret, tx.now))
            })
            .await
    }

    /// Reads a webhook endpoint, active or not. Its secrets are blank.
    ///
    /// # Errors
    /// Refused when the project has no such webhook endpoint.
    pub async fn get(
        &self,
        project: ProjectId,
        id: EndpointId,
    ) -> Result<WebhookEndpoint, StoreError> {
        self.database
            .read(move |sql| Ok(existing(sql, &project, id)?.endpoint))
            .await
    }

    /// Changes a webhook endpoint. Enabling it forgets why it was disabled; a new URL forgets earlier failures.
    ///
    /// # Errors
    /// Refused when the project has no such webhook endpoint.
    pub async fn update(
        &self,
        project: ProjectId,
        id: EndpointId,
        change: WebhookEndpointChange,
    ) -> Result<WebhookEndpoint, StoreError> {
        self.database
            .write(Queue::for_project(&project), move |tx| {
                let mut endpoint = existing(tx.sql, &project, id)?.endpoint;
                apply(&mut endpoint, change);
                let events = (!endpoint.events.is_empty())
                    .then(|| serde_json::to_string(&endpoint.events))
                    .transpose()?;
                let disabled = endpoint.disabled.as_ref();
                let row = args![
                    id,
                    &project,
                    &endpoint.url,
                    events.as_deref(),
                    &endpoint.description,
                    endpoint.active,
                    endpoint.failing_since,
                    disabled.map(|disabled| disabled.at),
                    disabled.map(|disabled| disabled.reason.as_str()),
                ];
                tx.sql.put(UPDATE, row)?;
                Ok(endpoint)
            })
            .await
    }

    /// Replaces a webhook endpoint's secret. Until `until`, deliveries are signed with the previous one, too. The returned endpoint has
    /// the new secret.
    ///
    /// # Errors
    /// Refused when the project has no such webhook endpoint. Fails when the secret cannot be sealed.
    pub async fn rotate_secret(
        &self,
        project: ProjectId,
        id: EndpointId,
        secret: Secret,
        until: Timestamp,
        record: Option<ResponseRecorder<WebhookEndpoint>>,
    ) -> Result<WebhookEndpoint, StoreError> {
        self.database
            .write_recorded(Queue::for_project(&project), record, move |tx| {
                let plain = secret.reveal().as_bytes();
                // First, since it takes the rotation lock: both secrets must stay as they are until the end of the transaction.
                let sealed = tx.seal(plain, PURPOSE)?;
                let bytes = sealed.as_ref().map_or(plain, |sealed| &sealed.bytes);
                let key_id = sealed.as_ref().map(|sealed| &sealed.key_id);
                if tx
                    .sql
                    .change(ROTATE, args![id, &project, bytes, key_id, until])?
                    == 0
                {
                    return StoreError::refuse(not_found());
                }
                // Without an overlap, at once.
                tx.sql.put(FORGET_PREVIOUS, args![id, &project, tx.now])?;
                let endpoint = existing(tx.sql, &project, id)?.endpoint;
                Ok(WebhookEndpoint { secret, ..endpoint })
            })
            .await
    }

    /// Erases a webhook endpoint's previous secret if deliveries are no longer signed with it. Otherwise returns the time until which they
    /// are.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn forget_previous_secret(
        &self,
        project: ProjectId,
        id: EndpointId,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.database
            .write(Queue::for_project(&project), move |tx| {
                tx.sql.put(FORGET_PREVIOUS, args![id, &project, tx.now])?;
                let left: Option<Option<Timestamp>> =
                    tx.sql.one(PREVIOUS_UNTIL, args![id, &project], |row| {
                        row.get("previous_secret_until")
                    })?;
                Ok(left.flatten())
            })
            .await
    }

    /// Disables a webhook endpoint that has accepted no delivery since `since` or earlier, and queues the event about it. Returns whether
    /// it was disabled: it may have recovered, or been changed or deleted meanwhile.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn disable_failing(
        &self,
        project: ProjectId,
        id: EndpointId,
        since: Timestamp,
        reason: String,
    ) -> Result<bool, StoreError> {
        self.database
            .write(Queue::for_project(&project), move |tx| {
                let row = args![id, &project, tx.now, &reason, since];
                if tx.sql.change(DISABLE, row)? == 0 {
                    return Ok(false);
                }
                tx.emit_disabled(&project, id, reason)?;
                Ok(true)
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
        self.database
            .list(project, move |sql, project| {
                Ok(list_query(project)
                    .page(sql, page, stored)?
                    .map(|stored| stored.endpoint))
            })
            .await
    }

    /// Reads a webhook endpoint, active or not, with its secrets; `None` if there is none with this id. A previous secret that cannot be
    /// decrypted is absent.
    ///
    /// # Errors
    /// Fails when the database cannot be read or the current secret cannot be decrypted.
    pub async fn with_secrets(
        &self,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        let (vault, warnings) = (
            Arc::clone(self.database.vault()),
            Arc::clone(&self.warnings),
        );
        self.database
            .read(move |sql| {
                let found = sql.one(
                    &format!("{SELECT} WHERE id = ?1 AND active = 1"),
                    args![id],
                    stored,
                )?;
                found
                    .map(|stored| stored.unseal(&vault, &warnings))
                    .transpose()
            })
            .await
    }

    /// Reads at most `limit` webhook endpoints of any project that were disabled, have a failed delivery to be attempted again, or whose
    /// last final delivery failed.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn failing(&self, limit: u32) -> Result<Vec<FailingEndpoint>, StoreError> {
        let read = |row: &Row<'_>| {
            Ok(FailingEndpoint {
                id: row.get("id")?,
                project_id: row.get("project_id")?,
                url: row.get("url")?,
                disabled_at: row.get("disabled_at")?,
            })
        };
        self.database
            .bulk_read(move |sql| sql.many(SELECT_FAILING, args![limit], read))
            .await
    }

    /// Queues a delivery of the event `webhook.test` to one webhook endpoint. The event belongs to no room.
    ///
    /// # Errors
    /// Refused when the project has no such webhook endpoint, or it is not active.
    pub async fn send_test_event(
        &self,
        project: ProjectId,
        id: EndpointId,
    ) -> Result<(), StoreError> {
        self.database
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
        self.database
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
        self.database
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
