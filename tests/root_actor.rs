//! The root actor panics in each of its handlers in turn. No supervisor restarts it, so the server ends, and the next start has everything
//! that was acknowledged. This test is a separate program: its faults would reach the root actors in other tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "api/faults/messages.rs"]
mod messages;
mod support;

use std::time::Duration;

use conclave_model::faults::{Fault, arm, left};
use messages::messages_of;
use serde_json::json;

use crate::support::{Receiver, Request, TestApp, eventually};

/// Sends a request to a server that may have ended. Returns whether it was acknowledged.
#[track_caller]
fn is_done(request: Request) -> bool {
    request.try_send().is_some_and(|answer| answer.status < 300)
}

/// Causes every root message until the root has failed. Returns whether the room was acknowledged.
fn provoke(app: &TestApp, receiver: &Receiver) -> bool {
    // The project fails too, so that it is rebuilt.
    arm(&app.project, "project.reconcile", Fault::Panic);
    is_done(
        app.post("/v1/webhook-endpoints")
            .json(json!({"url": receiver.url})),
    );
    let has_room = is_done(
        app.post("/v1/rooms")
            .json(json!({"name": "stage", "empty_timeout_seconds": 86_400})),
    );
    let token = app
        .post("/v1/tokens")
        .json(json!({"room": "stage", "identity": "alice"}))
        .try_send();
    if let Some(token) = token.filter(|token| token.status == 201) {
        is_done(
            app.admin("POST", "/sandbox/join")
                .json(json!({"token": token.json()["token"]})),
        );
    }
    let recording = app
        .post("/v1/rooms/stage/recordings")
        .json(json!({"type": "room_composite"}))
        .try_send();
    if let Some(recording) = recording.filter(|recording| recording.status == 201) {
        let id = recording.json()["egress_id"].as_str().unwrap().to_owned();
        is_done(
            app.admin("POST", &format!("/sandbox/egress/{id}"))
                .json(json!({"status": "complete"})),
        );
    }
    is_done(
        app.admin("POST", "/sandbox/outage")
            .json(json!({"seconds": 30})),
    );
    // The media plane does not respond, which starts an outage.
    is_done(app.get("/v1/rooms/stage/participants"));
    is_done(app.admin("GET", "/debug/actors/system"));
    eventually(|| {
        app.advance(Duration::from_secs(10));
        left("system") == 0
    });
    has_room
}

fn fail_at(message: &str) {
    println!("system.{message}");
    let receiver = Receiver::start();
    arm("system", &format!("system.{message}"), Fault::Panic);
    let app = TestApp::start();
    let has_room = provoke(&app, &receiver);
    app.wait_for_end();
    let app = app.restart();
    let found = app.get("/v1/rooms/stage").send().status;
    assert!(found == 200 || !has_room, "an acknowledged room is missing");
    eventually(|| app.get("/v1/sessions?active=true").send().expect(200)["sessions"] == json!([]));
    app.admin("GET", "/readyz").send().expect(200);
    app.room("another");
    let sid = app.join("another", "bob", "host");
    app.leave(&sid, true);
}

/// Proves F-12.
#[test]
fn a_root_that_panics_in_any_handler_ends_the_server_and_the_next_start_has_what_was_acknowledged()
{
    for message in messages_of("system") {
        fail_at(message);
    }
}
