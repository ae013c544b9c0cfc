//! Projects.

use conclave_model::project::{Environment, Project, ProjectStatus};
use conclave_model::{ErrorCode, Problem, ProjectId, TemplateId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::{Store, StoreError};

const COLUMNS: &str = "id, name, env, plan, status, default_template_id, balance_ugx, created_at";

fn project(row: &Row<'_>) -> rusqlite::Result<Project> {
    Ok(Project {
        id: row.parsed(0)?,
        name: row.get(1)?,
        env: row.word(2, |word| word.parse().ok())?,
        plan: row.get(3)?,
        status: row.word(4, |word| word.parse().ok())?,
        default_template_id: row.parsed_opt(5)?,
        balance_ugx: row.get(6)?,
        created_at: row.time(7)?,
    })
}

fn one(sql: &Connection, id: &ProjectId) -> Result<Option<Project>, StoreError> {
    sql.prepare_cached(&format!("SELECT {COLUMNS} FROM projects WHERE id = ?1"))
        .and_then(|mut s| s.query_row([id.as_str()], project).optional())
        .or_store_error()
}

/// There is no client to answer: the command line shows the message.
pub(crate) fn no_such_project(id: &ProjectId) -> StoreError {
    StoreError::Refused(Problem::new(ErrorCode::NotFound, format!("no project {id}")))
}

impl Store {
    /// Makes a project.
    ///
    /// # Errors
    /// The store's own.
    pub async fn create_project(&self, name: String, env: Environment, plan: String) -> Result<Project, StoreError> {
        self.write(move |tx| {
            let id = ProjectId::new();
            tx.sql
                .execute(
                    "INSERT INTO projects (id, name, env, plan, status, created_at) VALUES (?1, ?2, ?3, ?4, 'active', ?5)",
                    params![id.as_str(), name, env.as_str(), plan, tx.now.millis()],
                )
                .or_store_error()?;
            one(tx.sql, &id)?.ok_or_else(|| no_such_project(&id))
        })
        .await
    }

    /// Every project, oldest first.
    ///
    /// # Errors
    /// The store's own.
    pub async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        self.read(|sql| {
            let mut statement = sql
                .prepare_cached(&format!("SELECT {COLUMNS} FROM projects ORDER BY created_at, id"))
                .or_store_error()?;
            statement.query_map([], project).and_then(Iterator::collect).or_store_error()
        })
        .await
    }

    /// One project.
    ///
    /// # Errors
    /// The store's own.
    pub async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.read(move |sql| one(sql, &id)).await
    }

    /// Projects that want an actor from the start: those with an open room, an active endpoint, or a job
    /// that is not final. An ingress endpoint that is not final has an open room.
    ///
    /// # Errors
    /// The store's own.
    pub async fn live_projects(&self) -> Result<Vec<ProjectId>, StoreError> {
        self.read(|sql| {
            let mut statement = sql
                .prepare_cached(
                    "SELECT id FROM projects p
                     WHERE EXISTS (SELECT 1 FROM rooms WHERE project_id = p.id AND status = 'open')
                        OR EXISTS (SELECT 1 FROM webhook_endpoints WHERE project_id = p.id AND active = 1)
                        OR EXISTS (SELECT 1 FROM egresses WHERE project_id = p.id AND ended_at IS NULL)",
                )
                .or_store_error()?;
            statement.query_map([], |row| row.parsed(0)).and_then(Iterator::collect).or_store_error()
        })
        .await
    }

    /// Suspends or resumes a project.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn set_project_status(&self, id: ProjectId, status: ProjectStatus) -> Result<Project, StoreError> {
        self.change_project(id, "UPDATE projects SET status = ?2 WHERE id = ?1", status.as_str().to_owned()).await
    }

    /// Moves a project to another plan. Whether the plan exists is the caller's to know.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn set_project_plan(&self, id: ProjectId, plan: String) -> Result<Project, StoreError> {
        self.change_project(id, "UPDATE projects SET plan = ?2 WHERE id = ?1", plan).await
    }

    /// Adds to a project's wallet.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn credit_project(&self, id: ProjectId, ugx: i64) -> Result<Project, StoreError> {
        self.change_project(id, "UPDATE projects SET balance_ugx = balance_ugx + ?2 WHERE id = ?1", ugx).await
    }

    /// Sets the template that rooms without one use.
    ///
    /// # Errors
    /// Refused when there is no such project, or no such template in it.
    pub async fn set_default_template(&self, id: ProjectId, template: TemplateId) -> Result<Project, StoreError> {
        self.write(move |tx| {
            one(tx.sql, &id)?.ok_or_else(|| no_such_project(&id))?;
            let changed = tx
                .sql
                .execute(
                    "UPDATE projects SET default_template_id = ?2
                     WHERE id = ?1 AND EXISTS (SELECT 1 FROM templates WHERE id = ?2 AND project_id = ?1)",
                    params![id.as_str(), template.as_str()],
                )
                .or_store_error()?;
            if changed == 0 {
                return StoreError::refuse(Problem::template_not_found());
            }
            one(tx.sql, &id)?.ok_or_else(|| no_such_project(&id))
        })
        .await
    }

    async fn change_project(
        &self,
        id: ProjectId,
        update: &'static str,
        value: impl rusqlite::ToSql + Send + 'static,
    ) -> Result<Project, StoreError> {
        self.write(move |tx| {
            tx.sql.execute(update, params![id.as_str(), value]).or_store_error()?;
            one(tx.sql, &id)?.ok_or_else(|| no_such_project(&id))
        })
        .await
    }
}
