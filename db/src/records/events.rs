//! A project's events in commit order, for programs that follow them.
//!
//! A program stores the id of the last event that it received, its *position*, and requests the events after it. So it misses no event and
//! receives none twice, even if the server restarts. Events older than `webhooks.retention` are deleted with their deliveries; a
//! page reports the gap if that affects it.

use conclave_model::event::{EndpointDisabledEvent, TestEvent};
use conclave_model::{ErrorCode, Problem, ProjectId};

use crate::database::Database;
use crate::error::StoreError;
use crate::sql::values::args;
use crate::sql::{Row, Sql};

/// Event as webhook endpoints receive it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Larger than the id of every earlier event of the project.
    pub id: i64,
    /// Event name, such as `room.started`.
    pub event_type: String,
    /// Room name.
    pub room: String,
    /// Exact JSON body.
    pub payload: String,
}

/// Reason why events may be missing before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventGap {
    /// Events after the position were deleted because of their age.
    Deleted,
    /// The position is after the newest event: the database is an older copy.
    Restored,
}

/// Events after a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// Events in commit order.
    pub events: Vec<StoredEvent>,
    /// Position from which to continue.
    pub position: i64,
    /// Reason why events may be missing between the requested position and this page.
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

/// Returns the ids of the last deleted event and of the newest event, which may itself be deleted.
fn bounds(sql: Sql<'_>, project: &ProjectId) -> Result<(i64, i64), StoreError> {
    let not_found = || Problem::new(ErrorCode::NotFound, "no project by that id");
    let deleted: i64 = sql
        .one(DELETED, args![project], |row| row.read(0))?
        .ok_or_else(not_found)?;
    let newest: Option<i64> = sql.value(NEWEST, args![project])?;
    // All events may be deleted, and new ids never reuse theirs.
    Ok((deleted, newest.unwrap_or_default().max(deleted)))
}

/// Event records.
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

    /// Reads up to `limit` events of a project after a position, without the events for a single webhook endpoint.
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
                // Before the filter: the position must pass test events, too, or they would be read again and again.
                let last = events.last().map_or(newest, |event| event.id);
                let of_one_endpoint = [TestEvent::NAME, EndpointDisabledEvent::NAME];
                events.retain(|event| !of_one_endpoint.contains(&event.event_type.as_str()));
                Ok(EventPage {
                    events,
                    position: last,
                    gap: (position < deleted).then_some(EventGap::Deleted),
                })
            })
            .await
    }
}
