//! A project's events in commit order: its history, and the source for programs that follow them.
//!
//! Every event is written with its change ([`Tx::emit`](crate::tx::Tx::emit)), even if the project has no webhook endpoint. A program stores
//! the id of the last event that it received, its *position*, and requests the events after it. So it misses no event and receives none
//! twice, even if the server restarts.
//!
//! This requires that no event appears behind a position that was already read. One writer commits all jobs of a project, one after
//! another: SQLite's only writer, or the project's session of PostgreSQL. So its ids grow in commit order, although another project's
//! transaction may commit between them. After a takeover, the next server writes only when the old server's transactions have ended.
//!
//! Events older than `events.retention` are deleted, the oldest first; a page reports the gap if that affects it.

use conclave_model::event::{EndpointDisabledEvent, EventType, TestEvent};
use conclave_model::page::{Page, PageRequest};
use conclave_model::{ErrorCode, Identity, Problem, ProjectId, RoomName, Timestamp};

use crate::database::Database;
use crate::error::StoreError;
use crate::sql::query_builder::QueryBuilder;
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
    /// Time of the change's transaction.
    pub created_at: Timestamp,
}

/// Event list filters; `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only events after this position.
    pub after: Option<i64>,
    /// Only events from the first one on that was written at this time or later.
    pub since: Option<Timestamp>,
    /// Only events of this room.
    pub room: Option<RoomName>,
    /// Only events with this name.
    pub event_type: Option<EventType>,
    /// Only events about this participant.
    pub identity: Option<Identity>,
}

/// Page of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventList {
    /// Events in commit order.
    pub page: Page<StoredEvent>,
    /// Position from which to continue. It passes events that the filter leaves out, so that they are not read again.
    pub cursor: i64,
    /// Reason why events may be missing between the requested position and this page.
    pub gap: Option<EventGap>,
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
pub(crate) const SELECT_AFTER: &str = "SELECT id, type, room, payload, created_at FROM events WHERE project_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const SELECT: &str = "SELECT id, type, room, payload, created_at FROM events";
pub(crate) const SELECT_NEXT: &str =
    "SELECT id, created_at FROM events WHERE project_id = ?1 AND id > ?2 ORDER BY id LIMIT 1";
/// Leaves out the events for a single webhook endpoint: [`TestEvent`] and [`EndpointDisabledEvent`].
const FOR_ALL: &str = "type NOT IN ('webhook.test', 'webhook.endpoint_disabled')";

fn event(row: &Row<'_>) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        id: row.get("id")?,
        event_type: row.get("type")?,
        room: row.get("room")?,
        payload: row.get("payload")?,
        created_at: row.get("created_at")?,
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

/// Returns the position before a project's first event that was written at `since` or later.
fn position_at(
    sql: Sql<'_>,
    project: &ProjectId,
    since: Timestamp,
    (deleted, newest): (i64, i64),
) -> Result<i64, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get("id")?, row.get("created_at")?));
    // A binary search, because an index of the project's times would cost each write more than it saves here. After a clock that was set
    // back, the result is one of several positions around that time.
    let (mut low, mut high) = (deleted, newest);
    while low < high {
        let middle = low + (high - low) / 2;
        let next: Option<(i64, Timestamp)> = sql.one(SELECT_NEXT, args![project, middle], read)?;
        match next {
            Some((id, at)) if at < since => low = id,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Returns the query that lists a project's events after a position, oldest first.
pub(crate) fn list_query<'a>(
    project: &'a ProjectId,
    filter: &'a EventFilter,
    after: i64,
) -> QueryBuilder<'a> {
    QueryBuilder::new(SELECT, "project_id", project, "id")
        .and("id >", Some(after))
        .and("room =", filter.room.as_ref())
        .and("type =", filter.event_type.map(EventType::as_str))
        .and("identity =", filter.identity.as_ref())
        // No filter by type can name one of them.
        .and_condition(filter.event_type.is_none().then_some(FOR_ALL))
}

/// Reads a page of the history.
fn list(
    sql: Sql<'_>,
    project: &ProjectId,
    filter: &EventFilter,
    page: PageRequest,
) -> Result<EventList, StoreError> {
    // Read before the rows: an event that is committed in between is in the page, or after the cursor.
    let (deleted, newest) = bounds(sql, project)?;
    if filter.after.is_some_and(|after| after > newest) {
        return Ok(EventList {
            page: Page::from_fetched(Vec::new(), page),
            cursor: newest,
            gap: Some(EventGap::Restored),
        });
    }
    let since = filter
        .since
        .map(|since| position_at(sql, project, since, (deleted, newest)))
        .transpose()?;
    // From `deleted` on, the history is complete. An older event may still exist because a delivery refers to it.
    let after = filter.after.max(since).unwrap_or_default().max(deleted);
    let page = list_query(project, filter, after).page(sql, page, event)?;
    let last = page.items.last().map_or(newest, |event| event.id);
    Ok(EventList {
        cursor: if page.has_more {
            last
        } else {
            last.max(newest)
        },
        page,
        // Position 0 stands for the oldest event that is kept.
        gap: filter
            .after
            .is_some_and(|after| after > 0 && after < deleted)
            .then_some(EventGap::Deleted),
    })
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

    /// Reads the position before a project's first event that was written at `since` or later.
    ///
    /// # Errors
    /// Refused when there is no such project.
    pub async fn position_at(
        &self,
        project: ProjectId,
        since: Timestamp,
    ) -> Result<i64, StoreError> {
        self.0
            .read(move |sql| position_at(sql, &project, since, bounds(sql, &project)?))
            .await
    }

    /// Lists a project's events, oldest first, without the events for a single webhook endpoint.
    ///
    /// # Errors
    /// Refused when there is no such project; fails when the database cannot be read, or takes too long.
    pub async fn list(
        &self,
        project: ProjectId,
        filter: EventFilter,
        page: PageRequest,
    ) -> Result<EventList, StoreError> {
        self.0
            .list(project, move |sql, project| {
                list(sql, project, &filter, page)
            })
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
