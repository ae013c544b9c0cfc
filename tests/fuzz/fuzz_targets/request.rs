//! Paths and queries: a method, a space, and the target of the request.
//!
//! Every request gets a response, never a 5xx, every error is listed in the description, and an accepted path
//! and query fit the schemas of their parameters. A page has the requested `limit` and `offset`, and events
//! follow the requested position.

#![no_main]

use std::cell::RefCell;

use conclave_fuzz::api::{Api, Response};
use conclave_fuzz::seeds;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "X"];

thread_local! {
    static API: RefCell<Api> = RefCell::new(Api::new());
}

fuzz_target!(init: API.with_borrow_mut(write_seeds), |data: &[u8]| -> Corpus { API.with_borrow_mut(|api| run(api, data)) });

fn run(api: &mut Api, data: &[u8]) -> Corpus {
    let Some(at) = data.iter().position(|byte| *byte == b' ') else {
        return Corpus::Reject;
    };
    let (method, target) = (
        String::from_utf8_lossy(&data[..at]).into_owned(),
        &data[at + 1..],
    );
    let splits = |byte: &u8| matches!(byte, b' ' | b'\r' | b'\n' | b'\t');
    // A line break would split the target into two requests, and 8 KiB exceed the limit of the head.
    if !METHODS.contains(&&*method)
        || target.is_empty()
        || target.iter().any(splits)
        || target.len() > 4_096
    {
        return Corpus::Reject;
    }
    let response = api.send(&method, target, b"");
    if method == "GET" && response.status == 200 && response.is_json {
        check_page(target, &response);
    }
    Corpus::Keep
}

fn check_page(target: &[u8], response: &Response) {
    let text = String::from_utf8_lossy(target);
    let page = response.json();
    if page.get("has_more").is_none() {
        return;
    }
    let query = text
        .split('#')
        .next()
        .unwrap()
        .split_once('?')
        .map_or("", |(_, query)| query);
    let given = |name: &str| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.parse::<u64>().expect("a number was accepted"))
    };
    assert_eq!(page["limit"], given("limit").unwrap_or(50), "{text}");
    assert_eq!(page["offset"], given("offset").unwrap_or(0), "{text}");
    if let Some(cursor) = page.get("cursor").and_then(Value::as_u64) {
        check_positions(&page, given("after"), cursor);
    }
}

/// Fails unless a page's events follow the requested position in the order of their ids, and the cursor passes them.
fn check_positions(page: &Value, after: Option<u64>, cursor: u64) {
    let events = page["events"]
        .as_array()
        .expect("the only list with a cursor");
    let ids: Vec<u64> = events
        .iter()
        .map(|event| event["id"].as_u64().expect("an id"))
        .collect();
    assert!(ids.is_sorted_by(|id, next| id < next), "{page}");
    assert!(ids.last().is_none_or(|last| *last <= cursor), "{page}");
    let after = after.unwrap_or(0);
    assert!(ids.first().is_none_or(|first| *first > after), "{page}");
    // A position after the newest event is one of a newer copy of the database.
    assert!(cursor >= after || page["gap"] == true, "{page}");
}

fn write_seeds(api: &mut Api) {
    let operations: Vec<_> = api
        .operations
        .iter()
        .map(|operation| {
            let queries: Vec<_> = operation.queries().collect();
            (operation.id.clone(), operation.method.clone(), queries)
        })
        .collect();
    // Each operation without a query, with each of its parameters, and with all of them.
    let paths = operations.iter().flat_map(|(id, method, queries)| {
        let path = api.path(id);
        let all = (queries.len() > 1).then(|| queries.join("&"));
        let with_queries = queries
            .iter()
            .cloned()
            .chain(all)
            .map(|query| format!("{method} {path}?{query}"));
        let alone = format!("{method} {path}");
        std::iter::once(alone)
            .chain(with_queries)
            .collect::<Vec<_>>()
    });
    let more = [
        "GET /v1/rooms?limit=5&offset=1",
        "GET /v1/rooms?status=open&name_prefix=stand&limit=200",
        "GET /v1/sessions?room=standup&identity=alice&active=true",
        "GET /ext/v1/events?after=0&room=standup&type=participant.joined",
        "GET /ext/v1/events?after=9223372036854775807",
        "DELETE /v1/rooms/standup/participants/nobody?revoke=false",
        "PUT /ext/v1/rooms/standup/bans/bob",
        "DELETE /ext/v1/rooms/standup/bans/bob",
        "GET /v1/usage?from=2026-02-01&to=2026-03-01",
        "GET /v1/webhook-deliveries?status=failed&event_type=room.started",
        "GET /v1/rooms/%73tandup",
        "OPTIONS /v1/rooms",
        "GET /openapi.json",
        "GET /ext/openapi.json",
        "DELETE /ext/v1/rooms/standup/codes/abcd-efgh-jkmn",
        "GET /health",
        "GET http://localhost/v1/rooms",
        "OPTIONS *",
    ];
    let all: Vec<String> = paths.chain(more.map(str::to_owned)).collect();
    seeds::write("request", all);
}
