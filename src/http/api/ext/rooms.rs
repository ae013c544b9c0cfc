//! Live rooms: those in which a participant is connected.

use conclave_db::LiveRoomRecord;
use conclave_model::page::Page;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::Listed;
use crate::http::api::spec::Method;
use crate::http::api::v1::rooms::{RoomJson, example as room_example};

/// A room in which a participant is connected.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveRoom)]
pub struct LiveRoomJson {
    #[serde(flatten)]
    pub room: RoomJson,
    /// Connected participants, including hidden ones.
    pub participant_count: u32,
    /// Connected participants that publish a track.
    pub publisher_count: u32,
    /// Whether a recording runs.
    pub recording: bool,
    /// Whether a broadcast runs.
    pub broadcasting: bool,
}

impl From<LiveRoomRecord> for LiveRoomJson {
    fn from(live: LiveRoomRecord) -> Self {
        Self {
            room: live.room.into(),
            participant_count: live.participants,
            publisher_count: live.publishers,
            recording: live.recording,
            broadcasting: live.broadcasting,
        }
    }
}

impl Listed for LiveRoomJson {
    const COLLECTION: &'static str = "rooms";
}

fn example() -> serde_json::Value {
    let mut example = room_example();
    example["started_at"] = json!("2026-01-31T12:00:05.120Z");
    example["participant_count"] = json!(3);
    example["publisher_count"] = json!(2);
    example["recording"] = json!(true);
    example["broadcasting"] = json!(false);
    example
}

/// Returns the operations on live rooms.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Get, "/ext/v1/rooms/live", "list_live_rooms", live)
            .about(
                "rooms",
                "List rooms in which a participant is connected, latest first join first",
            )
            .responds(example())
            .build(),
    ]
}

pub async fn live(
    context: RequestContext,
    input: Input<NoParams, Paged<NoParams>, NoBody>,
) -> Result<Page<LiveRoomJson>> {
    // From the records: a participant is visible only once its session is written, so they are as current as the room actors.
    let rooms = context
        .state
        .store
        .rooms()
        .list_live(context.project(), input.query.page)
        .await?;
    Ok(rooms.map(LiveRoomJson::from))
}
