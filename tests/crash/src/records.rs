//! The server's records, as the API returns them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::Api;

/// All of the project's records.
pub struct Records {
    pub rooms: Vec<Value>,
    pub templates: Vec<Value>,
    /// By room name.
    pub codes: BTreeMap<String, Vec<Value>>,
    /// By room name.
    pub bans: BTreeMap<String, Vec<Value>>,
    pub sessions: Vec<Value>,
    pub endpoints: Vec<Value>,
    /// Oldest first.
    pub deliveries: Vec<Value>,
    /// The event history, oldest first.
    pub events: Vec<Value>,
}

impl Records {
    pub fn read(api: &Api) -> Self {
        let rooms = list(api, "/v1/rooms", "rooms");
        let by_room = |path: &str, collection: &str| -> BTreeMap<String, Vec<Value>> {
            let names = rooms.iter().map(|room| text(room, "name"));
            let read = |name: &str| {
                let rows = list(api, &path.replace("{name}", name), collection);
                (name.to_owned(), rows)
            };
            names.map(read).collect()
        };
        let mut deliveries = list(api, "/v1/webhook-deliveries", "webhook_deliveries");
        deliveries.reverse();
        Self {
            codes: by_room("/v1/rooms/{name}/codes", "codes"),
            bans: by_room("/ext/v1/rooms/{name}/bans", "bans"),
            templates: list(api, "/v1/templates", "templates"),
            sessions: list(api, "/v1/sessions", "sessions"),
            endpoints: list(api, "/v1/webhook-endpoints", "webhook_endpoints"),
            deliveries,
            events: history(api),
            rooms,
        }
    }
}

/// Returns a text field; empty when it is absent.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns the open rooms' names.
pub fn open_rooms(api: &Api) -> Vec<String> {
    let rooms = list(api, "/v1/rooms", "rooms");
    let open = rooms.iter().filter(|room| text(room, "status") == "open");
    open.map(|room| text(room, "name").to_owned()).collect()
}

/// Returns the number of pending deliveries; if there are many, only some are counted.
pub fn pending_deliveries(api: &Api) -> usize {
    let page = api.get("/v1/webhook-deliveries?status=pending&limit=200");
    page["webhook_deliveries"].as_array().map_or(0, Vec::len)
}

/// Returns all rows in a paged list.
fn list(api: &Api, path: &str, collection: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    loop {
        let page = api.get(&format!("{path}?limit=200&offset={}", rows.len()));
        rows.extend(page[collection].as_array().into_iter().flatten().cloned());
        if page["has_more"] != true {
            return rows;
        }
    }
}

/// Returns the event history, read by its cursor.
fn history(api: &Api) -> Vec<Value> {
    let (mut events, mut after) = (Vec::new(), 0);
    loop {
        let page = api.get(&format!("/ext/v1/events?limit=200&after={after}"));
        events.extend(page["events"].as_array().into_iter().flatten().cloned());
        if page["has_more"] != true {
            return events;
        }
        after = page["cursor"].as_i64().expect("a position");
    }
}
