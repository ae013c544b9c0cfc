//! Projects.

use conclave_model::page::{Page, PageRequest};
use conclave_model::project::{Environment, Project, ProjectStatus};
use conclave_model::{ErrorCode, Problem, ProjectId, TemplateId};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::records::templates;
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, env, plan, status, default_template_id, balance_ugx, created_at FROM projects ",
            $rest
        )
    };
}

/// Project and the number of its open rooms.
#[derive(Debug, Clone)]
pub struct ProjectSummary {
    /// Project record.
    pub project: Project,
    /// Open room count.
    pub open_rooms: u32,
}

/// Totals over all projects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Project count, including suspended ones.
    pub projects: u32,
    /// Open room count.
    pub open_rooms: u32,
    /// Open session count.
    pub participants: u32,
    /// Recordings and broadcasts that are not final.
    pub running_egresses: u32,
}

pub(crate) const SELECT_NEWEST: &str =
    "SELECT id, name, env, plan, status, default_template_id, balance_ugx, created_at, open_rooms
     FROM projects ORDER BY created_at DESC, id DESC LIMIT ?1 OFFSET ?2";
const COUNT_PROJECTS: &str = "SELECT count(*) AS projects, CAST(coalesce(sum(open_rooms), 0) AS BIGINT) AS open_rooms FROM projects";
pub(crate) const COUNT_PARTICIPANTS: &str = "SELECT count(*) FROM sessions WHERE left_at IS NULL";
pub(crate) const COUNT_EGRESSES: &str = "SELECT count(*) FROM egresses WHERE ended_at IS NULL";
const SELECT_ONE: &str = select!("WHERE id = ?1");
const SELECT_ALL: &str = select!("ORDER BY created_at, id");
const INSERT: &str = "INSERT INTO projects (id, name, env, plan, status, created_at) VALUES (?1, ?2, ?3, ?4, 'active', ?5)";
const SET_STATUS: &str =
    "UPDATE projects SET status = ?2 WHERE id = ?1 AND status IN ('active', 'suspended')";
const SET_PLAN: &str = "UPDATE projects SET plan = ?2 WHERE id = ?1";
const ADD_BALANCE: &str = "UPDATE projects SET balance_ugx = balance_ugx + ?2 WHERE id = ?1";
const SET_DEFAULT_TEMPLATE: &str = "UPDATE projects SET default_template_id = ?2 WHERE id = ?1";

fn project(row: &Row<'_>) -> Result<Project, StoreError> {
    Ok(Project {
        id: row.get("id")?,
        name: row.get("name")?,
        env: row.get("env")?,
        plan: row.get("plan")?,
        status: row.get("status")?,
        default_template_id: row.get("default_template_id")?,
        balance_ugx: row.get("balance_ugx")?,
        created_at: row.get("created_at")?,
    })
}

pub(crate) fn find(sql: Sql<'_>, id: &ProjectId) -> Result<Option<Project>, StoreError> {
    sql.one(SELECT_ONE, args![id], project)
}

fn existing(sql: Sql<'_>, id: &ProjectId) -> Result<Project, StoreError> {
    find(sql, id)?.ok_or_else(|| no_such_project(id))
}

/// Returns the refusal of an unknown project. Only commands show it.
pub(crate) fn no_such_project(id: &ProjectId) -> StoreError {
    StoreError::Refused(Problem::new(
        ErrorCode::NotFound,
        format!("no project {id}"),
    ))
}

/// Project records.
#[derive(Debug, Clone)]
pub struct Projects(pub(crate) Database);

impl Projects {
    /// Creates an active project.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn create(
        &self,
        name: String,
        env: Environment,
        plan: String,
    ) -> Result<Project, StoreError> {
        self.0
            .write(Queue::SERVER, move |tx| {
                // Random, so a collision fails on the primary key and is not retried.
                let id = ProjectId::new();
                tx.sql.put(INSERT, args![&id, &name, env, &plan, tx.now])?;
                existing(tx.sql, &id)
            })
            .await
    }

    /// Lists all projects, oldest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn list(&self) -> Result<Vec<Project>, StoreError> {
        self.0
            .bulk_read(|sql| sql.many(SELECT_ALL, args![], project))
            .await
    }

    /// Lists projects with their numbers of open rooms, newest first.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn summaries(&self, page: PageRequest) -> Result<Page<ProjectSummary>, StoreError> {
        let read = |row: &Row<'_>| {
            Ok(ProjectSummary {
                project: project(row)?,
                open_rooms: row.get("open_rooms")?,
            })
        };
        // A bulk read and not a list: lists have limits per project, and this read is for the operator.
        // One more than the page, to know whether another one follows.
        let rows = self
            .0
            .bulk_read(move |sql| {
                sql.many(
                    SELECT_NEWEST,
                    args![page.limit + 1, page.offset.cast_signed()],
                    read,
                )
            })
            .await?;
        Ok(Page::from_fetched(rows, page))
    }

    /// Counts projects, open rooms, connected participants and running egresses.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        self.0
            .bulk_read(|sql| {
                // The sum of the stored counts, which is much faster than counting rooms.
                let counts = sql.one(COUNT_PROJECTS, args![], |row| {
                    Ok((row.get("projects")?, row.get("open_rooms")?))
                })?;
                let (projects, open_rooms) = counts.unwrap_or_default();
                Ok(Totals {
                    projects,
                    open_rooms,
                    participants: sql.value(COUNT_PARTICIPANTS, args![])?,
                    running_egresses: sql.value(COUNT_EGRESSES, args![])?,
                })
            })
            .await
    }

    /// Reads a project; `None` if there is none with this id.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn get(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.0.read(move |sql| find(sql, &id)).await
    }

    /// Suspends or resumes a project.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn set_status(
        &self,
        id: ProjectId,
        status: ProjectStatus,
    ) -> Result<Project, StoreError> {
        self.change(id, move |tx, id| tx.sql.put(SET_STATUS, args![id, status]))
            .await
    }

    /// Moves a project to another plan. The caller ensures that the plan exists.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn set_plan(&self, id: ProjectId, plan: String) -> Result<Project, StoreError> {
        self.change(id, move |tx, id| tx.sql.put(SET_PLAN, args![id, &plan]))
            .await
    }

    /// Adds to a project's balance.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn credit(&self, id: ProjectId, ugx: i64) -> Result<Project, StoreError> {
        self.change(id, move |tx, id| tx.sql.put(ADD_BALANCE, args![id, ugx]))
            .await
    }

    /// Sets the template for rooms that name none.
    ///
    /// # Errors
    /// Refused when there is no such project, or no such template in it.
    pub async fn set_default_template(
        &self,
        id: ProjectId,
        template: TemplateId,
    ) -> Result<Project, StoreError> {
        self.change(id, move |tx, id| {
            // An unknown project must be refused as such, and not for its template.
            existing(tx.sql, id)?;
            templates::refuse_unknown_template(tx.sql, id, &template)?;
            tx.sql.put(SET_DEFAULT_TEMPLATE, args![id, &template])
        })
        .await
    }

    async fn change(
        &self,
        id: ProjectId,
        change: impl FnOnce(&Tx<'_>, &ProjectId) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Project, StoreError> {
        self.0
            .write(Queue::for_project(&id), move |tx| {
                // An unknown id changes no row, and is refused by the read.
                // The changes are plain updates by id, which do nothing for an unknown project.
                change(tx, &id)?;
                existing(tx.sql, &id)
            })
            .await
    }
}
