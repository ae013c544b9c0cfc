//! `/v1/rooms`.

use std::time::Duration;

use serde_json::json;

use crate::support::{Receiver, TestApp, eventually};

#[test]
fn a_room_has_exactly_the_fields_of_the_contract() {
    let app = TestApp::start();
    let room = app.post("/v1/rooms").json(json!({"name": "standup"})).send().expect(201);
    let expected = json!({
        "id": room["id"], "project_id": app.project, "name": "standup",
        "namespaced_name": format!("{}.standup", app.project), "max_participants": 0,
        "empty_timeout_seconds": 300, "status": "open", "template_id": room["template_id"],
        "created_at": "2026-03-01T12:00:00.000Z"
    });
    assert_eq!(room, expected);
    assert_eq!(app.get("/v1/rooms/standup").send().expect(200), room);
}

#[test]
fn a_room_that_nobody_joins_ends_at_its_deadline_and_says_so_once() {
    let app = TestApp::start();
    let receiver = Receiver::start();
    let secret = app.endpoint(&receiver.url)["secret"].as_str().unwrap().to_owned();
    app.post("/v1/rooms").json(json!({"name": "short", "empty_timeout_seconds": 30})).send().expect(201);
    app.advance(Duration::from_secs(29));
    assert_eq!(app.get("/v1/rooms/short").send().json()["status"], "open");
    app.advance(Duration::from_secs(1));
    eventually(|| app.get("/v1/rooms/short").send().json()["status"] == "ended");
    app.tick();
    let event = receiver.next();
    assert!(event.is_signed_with(&secret));
    assert_eq!(event.json()["type"], "room.finished");
}
