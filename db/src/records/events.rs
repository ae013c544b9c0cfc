//! The events of a project in the order of their commits, for programs that follow them.
//!
//! A program keeps the id of the last event that it has had, its *position*, and asks for those after it. It then misses none and gets none
//! twice, whether the server has restarted in between or not. Events are deleted with their deliveries when they are older than
//! `webhooks.retention`; a page says so if that concerns it.

use conclave_model::event::TestEvent;
use conclave_model::{ErrorCode, Problem, ProjectId};

use crate::database::Database;
use crate::error::StoreError;
use crate::sql::values::args;
use crate::sql::{Row, Sql};

/// An event as webhook endpoints receive it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Larger than that of every earlier event of the project.
    pub id: i64,
    /// The event's name, for example `room.started`.
    pub event_type: String,
    /// The name of the room.
    pub room: String,
    /// The exact JSON body.
    pub payload: String,
}

/// Why events may be missing before those of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventGap {
    /// Events after the position were deleted because of their age.
    Deleted,
    /// The position is after the newest event: the database is an older copy.
    Restored,
}

/// The events that follow a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// In the order of their commits.
    pub events: Vec<StoredEvent>,
    /// The position from which to go on.
    pub position: i64,
    /// Why events are missing between the position that was asked for and those of this page, if there may be such.
    pub gap: Option<EventGap>,
}

const DELETED: &str = "SELECT events_deleted FROM projects WHERE id = ?1";
const NEWEST: &str = "SELECT max(id) FROM events WHERE project_id = ?1";
pub(crate) const SELECT_AFTER: &str = "SELECT id, type, room, payload FROM events WHERE project_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";

fn event(row: &Row<'_>) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        id: row.get("id")?,
        event_type: row.get("type")?,
        room: row.get("room")?,
        payload: row.get("payload")?,
    })
}

/// Returns the id of the last event that was deleted, and that of the newest one, whether it was deleted or not.
fn bounds(sql: Sql<'_>, project: &ProjectId) -> Result<(i64, i64), StoreError> {
    let not_found = || Problem::new(ErrorCode::NotFound, "no project by that id");
    let deleted: i64 = sql
        .one(DELETED, args![project], |row| row.read(0))?
        .ok_or_else(not_found)?;
    let newest: Option<i64> = sql.value(NEWEST, args![project])?;
    Ok((deleted, newest.unwrap_or_default().max(deleted)))
}

/// The records of events.
#[derive(Debug, Clone)]
pub struct Events(pub(crate) Database);

impl Events {
    /// Reads the position after a project's newest event.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn newest(&self, project: ProjectId) -> Result<i64, StoreError> {
        self.0
            .read(move |sql| bounds(sql, &project).map(|(_, newest)| newest))
            .await
    }

    /// Reads up to `limit` events of a project after a position. The events `webhook.test`, each of which only one webhook endpoint has,
    /// are left out.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn after(
        &self,
        project: ProjectId,
        position: i64,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        self.0
            .read(move |sql| {
                let (deleted, newest) = bounds(sql, &project)?;
                if position > newest {
                    return Ok(EventPage {
                        events: Vec::new(),
                        position: newest,
                        gap: Some(EventGap::Restored),
                    });
                }
                let mut events = sql.many(SELECT_AFTER, args![&project, position, limit], event)?;
                let last = events.last().map_or(newest, |event| event.id);
                events.retain(|event| event.event_type != TestEvent::NAME);
                Ok(EventPage {
                    events,
                    position: last,
                    gap: (position < deleted).then_some(EventGap::Deleted),
                })
            })
            .await
    }
}
