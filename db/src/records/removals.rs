//! Removal of a project with all of its records, in batches, so that other projects' writes wait for one batch only.
//!
//! A removal starts by suspending the project and deleting its keys, and only if the project has no live records: no actor has work left,
//! so the removal may run beside a server. The project's own row is deleted last, so the next removal continues an interrupted one.

use conclave_model::project::Project;
use conclave_model::{ErrorCode, Problem, ProjectId};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::projects::{self, no_such_project};
use crate::sql::Sql;
use crate::sql::values::args;

/// Rows per transaction.
const STEP: u32 = 500;

/// Statements that delete up to `?2` of a project's rows, each with its table, before the tables to which the rows refer.
pub(crate) const STATEMENTS: [(&str, &str); 22] = [
    (
        "uploads",
        "DELETE FROM uploads WHERE egress_id IN (SELECT egress_id FROM uploads WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "idempotency",
        "DELETE FROM idempotency WHERE (project_id, operation, key, caller) IN
             (SELECT project_id, operation, key, caller FROM idempotency WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "erasures",
        "DELETE FROM erasures WHERE (project_id, identity) IN
             (SELECT project_id, identity FROM erasures WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "ingresses",
        "DELETE FROM ingresses WHERE id IN (SELECT id FROM ingresses WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "egresses",
        "DELETE FROM egresses WHERE id IN (SELECT id FROM egresses WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "destinations",
        "DELETE FROM destinations WHERE id IN
             (SELECT d.id FROM destinations d JOIN templates t ON t.id = d.template_id WHERE t.project_id = ?1 LIMIT ?2)",
    ),
    (
        "usage_days",
        "DELETE FROM usage_days WHERE (project_id, day) IN
             (SELECT project_id, day FROM usage_days WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "codes",
        "DELETE FROM codes WHERE id IN
             (SELECT c.id FROM rooms r JOIN codes c ON c.room_id = r.id WHERE r.project_id = ?1 LIMIT ?2)",
    ),
    (
        "role_changes",
        "DELETE FROM role_changes WHERE id IN (SELECT id FROM role_changes WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "webhook_deliveries",
        "DELETE FROM webhook_deliveries WHERE seq IN (SELECT seq FROM webhook_deliveries WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "events",
        "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "webhook_endpoints",
        "DELETE FROM webhook_endpoints WHERE id IN (SELECT id FROM webhook_endpoints WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "bans",
        "DELETE FROM bans WHERE id IN (SELECT id FROM bans WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "revocations",
        "DELETE FROM revocations WHERE id IN (SELECT id FROM revocations WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "quality_samples",
        "DELETE FROM quality_samples WHERE (session_id, at) IN
             (SELECT q.session_id, q.at FROM sessions s JOIN quality_samples q ON q.session_id = s.id
              WHERE s.project_id = ?1 LIMIT ?2)",
    ),
    (
        "session_quality",
        "DELETE FROM session_quality WHERE session_id IN
             (SELECT session_id FROM session_quality WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "tracks",
        "DELETE FROM tracks WHERE (session_id, track_sid) IN
             (SELECT t.session_id, t.track_sid FROM sessions s JOIN tracks t ON t.session_id = s.id
              WHERE s.project_id = ?1 LIMIT ?2)",
    ),
    (
        "sessions",
        "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "rooms",
        "DELETE FROM rooms WHERE id IN (SELECT id FROM rooms WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "roles",
        "DELETE FROM roles WHERE (template_id, name) IN
             (SELECT r.template_id, r.name FROM roles r JOIN templates t ON t.id = r.template_id
              WHERE t.project_id = ?1 LIMIT ?2)",
    ),
    (
        "templates",
        "DELETE FROM templates WHERE id IN (SELECT id FROM templates WHERE project_id = ?1 LIMIT ?2)",
    ),
    (
        "api_keys",
        "DELETE FROM api_keys WHERE prefix IN (SELECT prefix FROM api_keys WHERE project_id = ?1 LIMIT ?2)",
    ),
];

const SUSPEND: &str = "UPDATE projects SET status = 'suspended', default_template_id = NULL
     WHERE id = ?1 AND status IN ('active', 'suspended')";
const DELETE_KEYS: &str = "DELETE FROM api_keys WHERE project_id = ?1";
const DELETE_PROJECT: &str = "DELETE FROM projects WHERE id = ?1";

/// Counts of live records, which prevent a project's removal, with their names: first the open rooms.
const LIVE: [(&str, &str); 4] = [
    (
        "open rooms",
        "SELECT count(*) FROM rooms WHERE project_id = ?1 AND status = 'open'",
    ),
    (
        "running recordings and broadcasts",
        "SELECT count(*) FROM egresses WHERE project_id = ?1 AND ended_at IS NULL",
    ),
    (
        "pending uploads",
        "SELECT count(*) FROM uploads WHERE project_id = ?1",
    ),
    (
        "ingress endpoints",
        "SELECT count(*) FROM ingresses WHERE project_id = ?1 AND status NOT IN ('complete', 'deleted')",
    ),
];

/// Counts that are shown before a removal, with their names.
const CONTENTS: [(&str, &str); 6] = [
    (
        "api_keys",
        "SELECT count(*) FROM api_keys WHERE project_id = ?1",
    ),
    (
        "templates",
        "SELECT count(*) FROM templates WHERE project_id = ?1",
    ),
    ("rooms", "SELECT count(*) FROM rooms WHERE project_id = ?1"),
    (
        "sessions",
        "SELECT count(*) FROM sessions WHERE project_id = ?1",
    ),
    (
        "recordings",
        "SELECT count(*) FROM egresses WHERE project_id = ?1 AND kind = 'recording'",
    ),
    (
        "webhook_endpoints",
        "SELECT count(*) FROM webhook_endpoints WHERE project_id = ?1 AND active = 1",
    ),
];

/// Refuses a removal while the project has something live.
fn refuse_if_live(sql: Sql<'_>, id: &ProjectId, counts: &[(&str, &str)]) -> Result<(), StoreError> {
    for (name, query) in counts {
        let count: i64 = sql.value(query, args![id])?;
        if count > 0 {
            let message = format!("the project has {count} {name}: end or delete them first");
            return StoreError::refuse(Problem::new(ErrorCode::InvalidRequest, message));
        }
    }
    Ok(())
}

/// A project, and the number of its records by kind.
#[derive(Debug, Clone)]
pub struct ProjectContents {
    /// Project record.
    pub project: Project,
    /// Kinds of records and their numbers.
    pub counts: Vec<(&'static str, i64)>,
}

/// Removals of projects.
#[derive(Debug, Clone)]
pub struct Removals(pub(crate) Database);

impl Removals {
    /// Reads what a removal would delete.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn contents(&self, id: ProjectId) -> Result<ProjectContents, StoreError> {
        self.0
            .bulk_read(move |sql| {
                let project = projects::find(sql, &id)?.ok_or_else(|| no_such_project(&id))?;
                let mut counts = Vec::with_capacity(CONTENTS.len());
                for (name, query) in CONTENTS {
                    counts.push((name, sql.value(query, args![&id])?));
                }
                Ok(ProjectContents { project, counts })
            })
            .await
    }

    /// Suspends a project and deletes its API keys, so that no new work starts.
    ///
    /// # Errors
    /// Refused when there is no such project, or it has live records.
    pub async fn begin(&self, id: ProjectId) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&id), move |tx| {
                projects::find(tx.sql, &id)?.ok_or_else(|| no_such_project(&id))?;
                refuse_if_live(tx.sql, &id, &LIVE)?;
                tx.sql.put(SUSPEND, args![&id])?;
                tx.sql.put(DELETE_KEYS, args![&id])
            })
            .await
    }

    /// Deletes some rows of a project, up to 500 of a table. Returns the table and the number of rows; `None` once the project is deleted.
    ///
    /// # Errors
    /// Refused when a room is open. Fails when the database cannot be written.
    pub async fn delete_some(
        &self,
        id: ProjectId,
    ) -> Result<Option<(&'static str, usize)>, StoreError> {
        self.0
            .write(Queue::for_project(&id), move |tx| {
                // A request that was authenticated before the keys were deleted may have opened one.
                refuse_if_live(tx.sql, &id, &LIVE[..1])?;
                for (table, statement) in STATEMENTS {
                    let deleted = tx.sql.change(statement, args![&id, STEP])?;
                    if deleted > 0 {
                        return Ok(Some((table, deleted)));
                    }
                }
                tx.sql.put(DELETE_PROJECT, args![&id])?;
                Ok(None)
            })
            .await
    }
}
