//! The empty timer, and rooms after a restart of the embedded media plane.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestApp, eventually, with_microphone};

fn room(app: &TestApp, name: &str, empty_timeout_seconds: u32) {
    let body = json!({"name": name, "empty_timeout_seconds": empty_timeout_seconds});
    app.post("/v1/rooms").json(body).send().expect(201);
}

fn status(app: &TestApp, name: &str) -> Value {
    app.get(&format!("/v1/rooms/{name}")).send().expect(200)["status"].clone()
}

/// Returns the deadline of the room's own timer, if it is armed.
fn timer(app: &TestApp, name: &str) -> Option<String> {
    let actor = app.actors(&format!("/{}/room/{name}", app.project));
    let timer = actor["timers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|timer| timer["name"] == "empty_timeout");
    timer.map(|timer| timer["fires_at"].as_str().unwrap().to_owned())
}

#[test]
fn a_timeout_of_zero_ends_a_room_as_soon_as_its_last_participant_leaves() {
    let (app, receiver) = TestApp::start_with_receiver();
    room(&app, "brief", 0);
    app.advance(Duration::from_secs(299));
    assert_eq!(status(&app, "brief"), "open");
    let alice = app.join("brief", "alice", "host");
    app.advance(Duration::from_secs(400));
    assert_eq!(status(&app, "brief"), "open");
    app.leave(&alice, true);
    eventually(|| status(&app, "brief") == "ended");
    let ended = app.get("/v1/rooms/brief").send().expect(200);
    assert_eq!(ended["ended_at"], json!(app.now()));
    let types = app.event_types(&receiver);
    assert_eq!(
        types,
        [
            "room.started",
            "participant.joined",
            "participant.left",
            "room.finished"
        ]
    );
}

#[test]
fn a_timeout_of_zero_gives_a_room_without_a_join_the_default_300_seconds() {
    let app = TestApp::start();
    room(&app, "unjoined", 0);
    app.advance(Duration::from_millis(299_999));
    assert_eq!(status(&app, "unjoined"), "open");
    app.advance(Duration::from_millis(1));
    eventually(|| status(&app, "unjoined") == "ended");
    assert!(
        app.get("/v1/rooms/unjoined")
            .send()
            .expect(200)
            .get("started_at")
            .is_none()
    );
}

#[test]
fn a_join_stops_the_timer_and_the_last_leave_restarts_it() {
    let app = TestApp::start();
    room(&app, "standup", 60);
    assert_eq!(
        timer(&app, "standup").as_deref(),
        Some("2026-03-01T12:01:00.000Z")
    );
    app.advance(Duration::from_secs(59));
    let (alice, bob) = (
        app.join("standup", "alice", "host"),
        app.join("standup", "bob", ""),
    );
    assert_eq!(timer(&app, "standup"), None);
    app.advance(Duration::from_secs(1_000));
    app.leave(&alice, true);
    assert_eq!(timer(&app, "standup"), None);
    app.leave(&bob, false);
    let deadline = app.clock.now().after(Duration::from_secs(60)).to_string();
    eventually(|| timer(&app, "standup").as_ref() == Some(&deadline));
    app.advance(Duration::from_millis(59_999));
    assert_eq!(status(&app, "standup"), "open");
    app.advance(Duration::from_millis(1));
    eventually(|| status(&app, "standup") == "ended");
}

#[test]
fn a_room_that_ends_after_its_timeout_reports_only_its_end() {
    let (app, receiver) = TestApp::start_with_receiver();
    room(&app, "standup", 10);
    let alice = app.join("standup", "alice", "");
    app.leave(&alice, true);
    app.events(&receiver);
    app.advance(Duration::from_secs(10));
    app.wait_for_event("room.finished", 1);
    let expected = app.event("room.finished", "standup", &json!({}));
    assert_eq!(app.events(&receiver), [expected]);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(app.events(&receiver), Vec::<Value>::new());
}

#[test]
fn a_timeout_of_zero_does_not_end_a_room_whose_only_participant_is_replaced() {
    let app = TestApp::start();
    room(&app, "brief", 0);
    let mut sid = String::new();
    for _ in 0..50 {
        sid = app.join("brief", "alice", "host");
    }
    assert_eq!(status(&app, "brief"), "open");
    app.leave(&sid, true);
    eventually(|| status(&app, "brief") == "ended");
}

#[test]
fn a_restart_keeps_the_deadline() {
    let app = TestApp::start();
    room(&app, "standup", 60);
    app.advance(Duration::from_secs(40));
    let app = app.restart();
    assert_eq!(
        timer(&app, "standup").as_deref(),
        Some("2026-03-01T12:01:00.000Z")
    );
    app.advance(Duration::from_secs(20));
    eventually(|| status(&app, "standup") == "ended");
}

#[test]
fn a_deadline_that_passed_while_the_server_was_stopped_ends_the_room_at_start() {
    let (app, receiver) = TestApp::start_with_receiver();
    room(&app, "standup", 60);
    let app = app.restart_after(Duration::from_secs(3_600));
    eventually(|| status(&app, "standup") == "ended");
    assert_eq!(app.event_types(&receiver), ["room.finished"]);
}

#[test]
fn a_restart_of_the_embedded_plane_disconnects_all_participants_and_starts_the_timer() {
    let (app, receiver) = TestApp::start_with_receiver();
    room(&app, "standup", 60);
    let sid = app.join("standup", "alice", "host");
    let track = app.publish(&sid, "audio", "microphone");
    let token = app.token("standup", "alice", "host");
    app.advance(Duration::from_secs(4));
    app.events(&receiver);
    let stopped = app.now();
    let app = app.restart_after(Duration::from_secs(30));
    app.wait_for_event("participant.connection_aborted", 1);
    let who = json!({"participant_identity": "alice", "participant_sid": sid, "role": "host"});
    let of_track = with_microphone(&who, &track);
    let expected = [
        app.event("track.unpublished", "standup", &of_track),
        app.event("participant.connection_aborted", "standup", &who),
    ];
    let expected = expected.map(|mut event| {
        event["occurred_at"] = json!(stopped);
        event
    });
    let sessions = app.get("/v1/sessions").send().expect(200);
    assert_eq!(sessions["sessions"][0]["left_at"], json!(stopped));
    assert_eq!(app.events(&receiver), expected);
    eventually(|| timer(&app, "standup").is_some());
    // A participant with a valid token may join again; the room had started already.
    app.join_with(&token).expect(201);
    assert_eq!(timer(&app, "standup"), None);
    assert_eq!(app.event_types(&receiver), ["participant.joined"]);
}

#[test]
fn a_restart_with_an_empty_room_reports_nothing() {
    let (app, receiver) = TestApp::start_with_receiver();
    room(&app, "standup", 600);
    let alice = app.join("standup", "alice", "");
    app.leave(&alice, true);
    app.events(&receiver);
    let app = app.restart();
    let actor = app.actors(&format!("/{}/room/standup", app.project));
    assert_eq!(actor["status"], "hibernating");
    assert_eq!(app.events(&receiver), Vec::<Value>::new());
}

#[test]
fn a_room_with_a_timeout_of_zero_ends_when_a_restart_empties_it() {
    let (app, receiver) = TestApp::start_with_receiver();
    room(&app, "brief", 0);
    app.join("brief", "alice", "host");
    app.events(&receiver);
    let app = app.restart();
    eventually(|| status(&app, "brief") == "ended");
    assert_eq!(
        app.event_types(&receiver),
        ["participant.connection_aborted", "room.finished"]
    );
}

#[test]
fn a_refused_join_neither_starts_a_room_nor_stops_its_timer() {
    let app = TestApp::start();
    let roles = json!({"speaker": {"max_peer_count": 1}});
    let stage = app.room_with_roles("stage", &roles);
    let token = app.token("stage", "alice", "speaker");
    let path = format!(
        "/v1/templates/{}/roles/speaker",
        stage["template_id"].as_str().unwrap()
    );
    app.put(&path)
        .json(json!({"max_peer_count": -1}))
        .send()
        .expect(200);
    app.join_with(&token)
        .expect_error(409, "role_capacity_reached", None);
    assert!(
        app.get("/v1/rooms/stage")
            .send()
            .expect(200)
            .get("started_at")
            .is_none()
    );
    eventually(|| timer(&app, "stage").as_deref() == Some("2026-03-01T12:05:00.000Z"));
}
