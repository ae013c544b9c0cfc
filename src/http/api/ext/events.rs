//! The history of a project's events, which exists even without a webhook endpoint.
//!
//! A client that polls sends the `cursor` of its last page as `after`, and gets each event once (`db/src/records/events.rs`).

use conclave_db::{EventFilter, StoredEvent};
use conclave_model::event::EventType;
use conclave_model::{Identity, RoomName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{CursorPage, Listed};
use crate::http::api::spec::Method;

/// Filters for a project's events.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct EventQuery {
    /// Only after this position: the `cursor` of a page, or the `id` of an event
    #[param(value_type = Option<u64>, maximum = 9_223_372_036_854_775_807_i64)]
    after: Option<Position>,
    /// Only from the first event on that was recorded at or after this instant
    #[param(inline)]
    since: Option<Timestamp>,
    /// Only in this room
    #[param(inline)]
    room: Option<RoomName>,
    /// Only with this event type
    #[serde(rename = "type")]
    #[param(inline)]
    event_type: Option<EventType>,
    /// Only about this participant
    #[param(inline)]
    identity: Option<Identity>,
}

/// A position in the history: 0 is before the first event, otherwise the id of an event.
#[derive(Deserialize)]
#[serde(try_from = "u64")]
struct Position(i64);

impl TryFrom<u64> for Position {
    type Error = String;

    fn try_from(position: u64) -> std::result::Result<Self, String> {
        let id = i64::try_from(position).map_err(|_| format!("must be at most {}", i64::MAX))?;
        Ok(Self(id))
    }
}

impl From<EventQuery> for EventFilter {
    fn from(query: EventQuery) -> Self {
        let EventQuery {
            after,
            since,
            room,
            event_type,
            identity,
        } = query;
        Self {
            after: after.map(|after| after.0),
            since,
            room,
            event_type,
            identity,
        }
    }
}

/// An event of the project.
#[derive(Serialize, ToSchema)]
pub struct EventRecord {
    /// Larger than the id of every earlier event of the project.
    #[schema(minimum = 1)]
    pub id: i64,
    #[serde(rename = "type")]
    pub event_type: String,
    pub room: String,
    /// When the event was recorded; `occurred_at` in the payload is when it happened.
    pub created_at: Timestamp,
    /// The event as webhook endpoints receive it.
    #[schema(value_type = Object)]
    pub payload: Option<Box<RawValue>>,
}

impl From<StoredEvent> for EventRecord {
    fn from(event: StoredEvent) -> Self {
        Self {
            id: event.id,
            event_type: event.event_type,
            room: event.room,
            created_at: event.created_at,
            // The payload was written as JSON.
            payload: RawValue::from_string(event.payload).ok(),
        }
    }
}

impl Listed for EventRecord {
    const COLLECTION: &'static str = "events";
}

fn example() -> serde_json::Value {
    json!({
        "id": 42, "type": "room.started", "room": "standup", "created_at": "2026-01-31T12:00:05.121Z",
        "payload": {"type": "room.started", "project_id": "prj_5f2a9c01be34", "room": "standup",
                    "occurred_at": "2026-01-31T12:00:05.120Z"}
    })
}

/// Returns the operation on events.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Get, "/ext/v1/events", "list_events", list)
            .about(
                "events",
                "List events, oldest first, from a position or an instant on",
            )
            .responds(example())
            .build(),
    ]
}

pub async fn list(
    context: RequestContext,
    input: Input<NoParams, Paged<EventQuery>, NoBody>,
) -> Result<CursorPage<EventRecord>> {
    let Paged { page, filter } = input.query;
    let listed = context
        .state
        .store
        .events()
        .list(context.project(), filter.into(), page)
        .await?;
    Ok(CursorPage {
        page: listed.page.map(EventRecord::from),
        cursor: listed.cursor,
        gap: listed.gap.is_some(),
    })
}
