//! `/v1/rooms/{name}/broadcasts`, `/v1/broadcasts`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Receiver, Response, TestApp, eventually};
use crate::tools::{default_template, other_project, refuses_bad_pages};

const ROOM: &str = "/v1/rooms/standup/broadcasts";
const URL: &str = "rtmp://8.8.8.8/live/super-secret";

fn app() -> TestApp {
    let app = TestApp::start();
    app.room("standup");
    app
}

fn start(app: &TestApp, body: Value) -> Response {
    app.post(ROOM).json(body).send()
}

fn id(broadcast: &Value) -> &str {
    broadcast["egress_id"].as_str().unwrap()
}

fn get(app: &TestApp, egress: &str) -> Value {
    app.get(&format!("/v1/broadcasts/{egress}"))
        .send()
        .expect(200)
}

#[test]
fn a_broadcast_is_reported_from_start_to_end_and_never_shows_its_stream_keys() {
    let (app, receiver) = (app(), Receiver::start());
    app.endpoint(&receiver.url);
    let urls = json!([URL, "rtmps://8.8.4.4:443/app/another-key?x=1"]);
    let broadcast = start(&app, json!({"urls": urls})).expect(201);
    let expected = json!({
        "id": broadcast["id"], "project_id": app.project, "room": "standup",
        "namespaced_room": format!("{}.standup", app.project), "egress_id": broadcast["egress_id"],
        "urls": ["rtmp://8.8.8.8/live/REDACTED", "rtmps://8.8.4.4:443/app/REDACTED"], "status": "starting",
        "started_at": app.now(), "created_at": app.now()
    });
    assert_eq!(broadcast, expected);
    let egress = id(&broadcast);
    app.advance(Duration::from_secs(1));
    eventually(|| get(&app, egress)["status"] == "active");
    assert_eq!(
        app.post(&format!("/v1/broadcasts/{egress}/stop"))
            .send()
            .expect(200)["status"],
        "ending"
    );
    app.advance(Duration::from_secs(1));
    eventually(|| get(&app, egress)["status"] == "complete");
    let events = app.events(&receiver);
    let received: Vec<_> = events
        .iter()
        .map(|e| {
            (
                e["type"].as_str().unwrap(),
                e["broadcast_status"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("broadcast.started", "starting"),
        ("broadcast.updated", "active"),
        ("broadcast.updated", "ending"),
        ("broadcast.ended", "complete"),
    ];
    assert_eq!(received, expected);
    assert!(
        events
            .iter()
            .all(|event| event["egress_id"] == egress && event.get("recording_status").is_none())
    );
    assert!(!app.holds("super-secret"));
}

#[test]
fn a_receiver_that_refuses_the_stream_fails_the_broadcast() {
    let (app, receiver) = (app(), Receiver::start());
    app.endpoint(&receiver.url);
    let broadcast = start(&app, json!({"urls": [URL]})).expect(201);
    app.drive(
        id(&broadcast),
        json!({"status": "failed", "error": "connection refused"}),
    );
    assert_eq!(get(&app, id(&broadcast))["error"], "connection refused");
    let events = app.events(&receiver);
    assert_eq!(
        (&events[1]["type"], &events[1]["broadcast_status"]),
        (&json!("broadcast.failed"), &json!("failed"))
    );
    assert_eq!(events.len(), 2);
}

#[test]
fn a_broadcast_needs_urls_or_a_destination_and_never_both() {
    let app = app();
    let nine = vec![URL; 9];
    for (body, code, field) in [
        (json!({}), "invalid_request", "urls"),
        (json!({"urls": []}), "invalid_request", "urls"),
        (json!({"urls": nine}), "invalid_request", "urls"),
        (
            json!({"urls": [URL], "destination": "stream"}),
            "invalid_request",
            "destination",
        ),
        (
            json!({"urls": [URL, "http://8.8.8.8/a/b"]}),
            "invalid_url",
            "urls[1]",
        ),
        (json!({"urls": ["no url"]}), "invalid_url", "urls[0]"),
        (
            json!({"urls": ["rtmp://8.8.8.8/live/REDACTED"]}),
            "invalid_url",
            "urls[0]",
        ),
        (
            json!({"urls": [URL, "rtmp://10.0.0.1/a/b"]}),
            "blocked_url",
            "urls[1]",
        ),
        (
            json!({"urls": [URL], "layout": "mosaic"}),
            "invalid_request",
            "layout",
        ),
        (
            json!({"urls": [URL], "audio_only": "yes"}),
            "invalid_request",
            "audio_only",
        ),
        (
            json!({"destination": "a b"}),
            "invalid_request",
            "destination",
        ),
    ] {
        start(&app, body).expect_error(400, code, Some(field));
    }
    // This name does not resolve here; it may resolve on the media plane.
    start(
        &app,
        json!({"urls": ["rtmp://nowhere.invalid/a/b"], "layout": "speaker", "audio_only": true}),
    )
    .expect(201);
    assert_eq!(
        start(&app, json!({"urls": vec![URL; 8]})).expect(201)["urls"]
            .as_array()
            .unwrap()
            .len(),
        8
    );
}

#[test]
fn a_broadcast_uses_the_urls_of_its_destination_and_names_it() {
    let app = app();
    let at = format!("/v1/templates/{}/destinations", default_template(&app));
    let config = json!({"urls": ["rtmp://127.0.0.1/live/one", "rtmp://8.8.8.8/live/two"]});
    let made = app
        .post(&at)
        .json(json!({"name": "stream", "kind": "rtmp", "config": config}))
        .send()
        .expect(201);
    start(&app, json!({"destination": "none"})).expect_error(
        404,
        "destination_not_found",
        Some("destination"),
    );
    let broadcast = start(&app, json!({"destination": "stream"})).expect(201);
    assert_eq!(
        (&broadcast["destination"], &broadcast["destination_id"]),
        (&json!("stream"), &made["id"])
    );
    assert_eq!(broadcast["urls"], made["config"]["urls"]);
    let delete = || app.delete(&format!("{at}/stream")).send();
    delete().expect_error(409, "destination_in_use", None);
    app.drive(id(&broadcast), json!({"status": "aborted"}));
    delete().expect_empty(204);
}

#[test]
fn a_stored_destination_whose_address_is_not_public_any_more_is_refused_at_the_start() {
    let app = TestApp::start_with(|config| {
        config.egress.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    });
    app.room("standup");
    let config = json!({"urls": ["rtmp://8.8.8.8/live/one", "rtmp://127.0.0.1/live/two"]});
    let body = json!({"name": "live", "kind": "rtmp", "config": config});
    app.post(&format!(
        "/v1/templates/{}/destinations",
        default_template(&app)
    ))
    .json(body)
    .send()
    .expect(201);
    start(&app, json!({"destination": "live"})).expect(201);
    let app = app.restart_with(|config| config.egress.allow_networks.clear());
    start(&app, json!({"destination": "live"})).expect_error(
        400,
        "blocked_url",
        Some("destination"),
    );
}

#[test]
fn broadcasts_are_filtered_like_recordings_and_are_not_recordings() {
    let app = app();
    let broadcast = start(&app, json!({"urls": [URL]})).expect(201);
    let count = |query: &str| {
        app.get(&format!("/v1/broadcasts{query}"))
            .send()
            .expect(200)["broadcasts"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (
            count(""),
            count("?room=standup"),
            count("?status=active"),
            count("?status=starting")
        ),
        (1, 1, 0, 1)
    );
    assert_eq!(
        (
            count("?after=2026-03-01T12:00:01Z"),
            count("?before=2026-03-01T12:00:01Z")
        ),
        (0, 1)
    );
    refuses_bad_pages(&app, "/v1/broadcasts");
    app.get(&format!("/v1/recordings/{}", id(&broadcast)))
        .send()
        .expect_error(404, "recording_not_found", None);
    assert_eq!(
        app.get("/v1/recordings").send().expect(200)["recordings"],
        json!([])
    );
    let other = other_project(&app, "self_hosted");
    let path = format!("/v1/broadcasts/{}", id(&broadcast));
    app.get(&path)
        .bearer(&other.key)
        .send()
        .expect_error(404, "broadcast_not_found", None);
}

#[test]
fn a_plan_without_streaming_refuses_a_broadcast() {
    let app = app();
    let starter = other_project(&app, "starter");
    app.post("/v1/rooms")
        .bearer(&starter.key)
        .json(json!({"name": "standup"}))
        .send()
        .expect(201);
    let refused = app
        .post(ROOM)
        .bearer(&starter.key)
        .json(json!({"urls": [URL]}))
        .send();
    refused.expect_error(402, "feature_not_in_plan", Some("streaming"));
    let recorded = app
        .post("/v1/rooms/standup/recordings")
        .bearer(&starter.key);
    recorded
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
}

#[test]
fn a_participant_with_the_permission_broadcasts_its_own_room() {
    let app = app();
    app.room_with_roles(
        "stage",
        &json!({"chair": {"permissions": {"broadcast": true}}, "recorder": {"permissions": {"record": true}}}),
    );
    let call = |path: &str, role: &str| {
        let token = app.token("stage", role, role);
        app.post(path)
            .anonymous()
            .header("x-svc-room-token", &token)
    };
    let path = "/v1/rooms/stage/broadcasts";
    let body = json!({"urls": [URL]});
    call(path, "recorder")
        .json(body.clone())
        .send()
        .expect_error(403, "permission_denied", Some("broadcast"));
    let broadcast = call(path, "chair").json(body).send().expect(201);
    let stop = format!("/v1/broadcasts/{}/stop", id(&broadcast));
    call(&stop, "recorder")
        .send()
        .expect_error(403, "permission_denied", Some("broadcast"));
    assert_eq!(call(&stop, "chair").send().expect(200)["status"], "ending");
}

#[test]
fn the_end_of_a_room_settles_its_broadcasts() {
    let app = app();
    let broadcast = start(&app, json!({"urls": [URL]})).expect(201);
    app.drive(id(&broadcast), json!({"status": "active"}));
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    eventually(|| get(&app, id(&broadcast))["status"] == "complete");
    start(&app, json!({"urls": [URL]})).expect_error(409, "room_ended", None);
}
