//! A room's events from its creation on.

use maud::{Markup, html};
use serde_json::Value;

use super::{RoomPage, payload_fields};
use crate::http::api::error::ApiError;
use crate::http::api::ext::events::{self, EventRecord};
use crate::http::console::parts::{ROWS, empty, history_pager, table, time};

impl RoomPage<'_> {
    pub(super) async fn history(&self) -> Result<Markup, ApiError> {
        let offset = self.visit.offset();
        let call = self
            .visit
            .call(events::list, self.project)
            .query("room", Some(self.name()));
        let listed = call.page(ROWS, offset).send().await?.page;
        let rows: Vec<_> = listed.items.iter().map(row).collect();
        Ok(html! {
            section.card {
                h2 { "Event history" }
                @if rows.is_empty() {
                    (empty("There is no event here.", "Events are kept for the time in events.retention."))
                } @else {
                    (table("Event history", &["Time", "Event", "Details"], &rows))
                }
                (history_pager(self.visit, offset, listed.has_more))
            }
        })
    }
}

fn row(event: &EventRecord) -> Vec<Markup> {
    let payload: Value = event
        .payload
        .as_ref()
        .and_then(|payload| serde_json::from_str(payload.get()).ok())
        .unwrap_or_default();
    vec![
        time(event.created_at),
        html! { strong { (event.event_type) } },
        payload_fields(&payload),
    ]
}
