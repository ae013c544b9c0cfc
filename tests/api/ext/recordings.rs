//! `POST /ext/v1/recordings/{egress_id}/pause`, `…/resume`, and `POST /ext/v1/rooms/{name}/recordings/participants`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::livekit::livekit;
use crate::support::{Receiver, Response, TestApp, eventually};
use crate::tools::{fields, other_project};

fn start(app: &TestApp) -> String {
    let started = app
        .post("/v1/rooms/standup/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
    started["egress_id"].as_str().unwrap().to_owned()
}

fn active(app: &TestApp) -> String {
    let id = start(app);
    app.advance(Duration::from_secs(1));
    eventually(|| get(app, &id)["status"] == "active");
    id
}

fn get(app: &TestApp, id: &str) -> Value {
    app.get(&format!("/v1/recordings/{id}")).send().expect(200)
}

fn pause(app: &TestApp, id: &str) -> Response {
    app.post(&format!("/ext/v1/recordings/{id}/pause")).send()
}

fn resume(app: &TestApp, id: &str) -> Response {
    app.post(&format!("/ext/v1/recordings/{id}/resume")).send()
}

fn record_participants(app: &TestApp, room: &str) -> Response {
    app.post(&format!("/ext/v1/rooms/{room}/recordings/participants"))
        .send()
}

#[test]
fn a_paused_recording_shows_it_and_a_recording_that_was_never_paused_has_no_such_field() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    app.room("standup");
    app.endpoint(&receiver.url);
    let (id, other) = (active(&app), active(&app));
    let before = get(&app, &id);
    assert!(!fields(&before).contains(&"paused"));
    app.events(&receiver);
    let paused = pause(&app, &id).expect(200);
    let mut expected = before.clone();
    expected["paused"] = json!(true);
    assert_eq!(paused, expected);
    assert_eq!(get(&app, &id), expected);
    assert_eq!(pause(&app, &id).expect(200), expected, "again");
    let listed = app.get("/v1/recordings").send().expect(200);
    let shown = listed["recordings"].as_array().unwrap();
    assert!(shown.contains(&expected) && shown.contains(&get(&app, &other)));
    assert!(!fields(&get(&app, &other)).contains(&"paused"));
    expected["paused"] = json!(false);
    assert_eq!(resume(&app, &id).expect(200), expected);
    assert_eq!(resume(&app, &id).expect(200), expected, "again");
    assert_eq!(app.events(&receiver), Vec::<Value>::new(), "no event");
}

#[test]
fn a_resume_without_a_pause_is_harmless_and_a_pause_can_precede_the_first_packet() {
    let app = TestApp::start();
    app.room("standup");
    let id = start(&app);
    assert_eq!(resume(&app, &id).expect(200)["paused"], false);
    assert_eq!(pause(&app, &id).expect(200)["status"], "starting");
    app.advance(Duration::from_secs(1));
    eventually(|| get(&app, &id)["status"] == "active");
    assert_eq!(get(&app, &id)["paused"], true);
}

#[test]
fn a_recording_that_is_ending_or_has_ended_cannot_be_paused_and_is_not_shown_as_paused() {
    let app = TestApp::start();
    app.room("standup");
    let id = active(&app);
    pause(&app, &id).expect(200);
    let stopped = app
        .post(&format!("/v1/recordings/{id}/stop"))
        .send()
        .expect(200);
    assert_eq!(
        (&stopped["status"], &stopped["paused"]),
        (&json!("ending"), &json!(false))
    );
    for _ in 0..2 {
        pause(&app, &id).expect_error(409, "recording_ended", None);
        resume(&app, &id).expect_error(409, "recording_ended", None);
        app.advance(Duration::from_secs(1));
        eventually(|| get(&app, &id)["status"] == "complete");
    }
    assert_eq!(get(&app, &id)["paused"], false);
}

#[test]
fn an_outage_of_the_media_plane_refuses_a_pause_which_can_be_repeated() {
    let app = TestApp::start();
    app.room("standup");
    let id = active(&app);
    app.admin("POST", "/sandbox/outage")
        .json(json!({"seconds": 60}))
        .send()
        .expect(200);
    pause(&app, &id).expect_error(503, "media_unavailable", None);
    app.admin("POST", "/sandbox/outage")
        .json(json!({"seconds": 0}))
        .send()
        .expect(200);
    assert!(!fields(&get(&app, &id)).contains(&"paused"));
    pause(&app, &id).expect(200);
}

#[test]
fn another_project_and_another_resource_do_not_find_the_recording() {
    let app = TestApp::start();
    app.room("standup");
    let id = active(&app);
    let other = other_project(&app, "self_hosted");
    for path in ["pause", "resume"] {
        app.post(&format!("/ext/v1/recordings/{id}/{path}"))
            .bearer(&other.key)
            .send()
            .expect_error(404, "recording_not_found", None);
    }
    let broadcast = app
        .post("/v1/rooms/standup/broadcasts")
        .json(json!({"urls": ["rtmp://8.8.8.8/live/key"]}))
        .send()
        .expect(201);
    let broadcast = broadcast["egress_id"].as_str().unwrap();
    pause(&app, broadcast).expect_error(404, "recording_not_found", None);
    assert!(!fields(&get(&app, &id)).contains(&"paused"));
}

#[test]
fn a_repeated_request_with_a_key_gets_the_stored_response() {
    let app = TestApp::start();
    app.room("standup");
    let id = active(&app);
    let request = || {
        app.post(&format!("/ext/v1/recordings/{id}/pause"))
            .idempotency_key("once")
            .send()
    };
    let paused = request().expect(200);
    resume(&app, &id).expect(200);
    let replayed = request();
    assert_eq!(replayed.headers["idempotency-replayed"], "true");
    assert_eq!(replayed.expect(200), paused);
    assert_eq!(get(&app, &id)["paused"], false, "not paused again");
}

#[test]
fn livekit_cannot_pause_a_recording_and_says_so() {
    let (app, double) = livekit();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    double.connect(&token).unwrap();
    let id = start(&app);
    let refused = pause(&app, &id);
    refused.expect_error(503, "media_unavailable", None);
    assert!(
        refused.text().contains("LiveKit cannot pause a recording"),
        "{}",
        refused.text()
    );
    assert!(!fields(&get(&app, &id)).contains(&"paused"));
}

#[test]
fn every_visible_participant_is_recorded_by_one_call_and_nobody_twice() {
    let app = TestApp::start();
    let roles = json!({"host": {}, "observer": {"hidden": true}});
    app.room_with_roles("standup", &roles);
    assert_eq!(
        record_participants(&app, "standup").expect(201),
        json!({"recordings": []}),
        "an empty room"
    );
    app.join("standup", "alice", "host");
    app.join("standup", "eve", "observer");
    let alice = app
        .post("/v1/rooms/standup/recordings")
        .json(json!({"type": "participant", "identity": "alice"}))
        .send()
        .expect(201);
    app.advance(Duration::from_secs(1));
    app.join("standup", "bob", "host");
    let started = record_participants(&app, "standup").expect(201);
    let recordings = started["recordings"].as_array().unwrap();
    let shown: Vec<_> = recordings
        .iter()
        .map(|recording| (&recording["identity"], &recording["type"]))
        .collect();
    assert_eq!(
        shown,
        [
            (&json!("alice"), &json!("participant")),
            (&json!("bob"), &json!("participant"))
        ]
    );
    assert_eq!(recordings[0]["egress_id"], alice["egress_id"]);
    assert!(started.get("refused").is_none());
    let again = record_participants(&app, "standup").expect(201);
    let ids = |answer: &Value| {
        let recordings = answer["recordings"].as_array().unwrap();
        let ids = recordings
            .iter()
            .map(|recording| recording["egress_id"].clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&again), ids(&started));
    let all = app.get("/v1/recordings").send().expect(200);
    assert_eq!(all["recordings"].as_array().unwrap().len(), 2);
}

#[test]
fn recordings_that_start_together_have_files_of_their_own() {
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "host");
    app.join("standup", "bob", "host");
    let started = record_participants(&app, "standup").expect(201);
    let recordings = started["recordings"].as_array().unwrap();
    assert_eq!(recordings.len(), 2, "{started}");
    assert_ne!(recordings[0]["filepath"], recordings[1]["filepath"]);
}

#[test]
fn a_participant_is_recorded_once_by_requests_at_the_same_time_and_again_while_its_recording_ends()
{
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "host");
    let id = |answer: &Value| {
        let recordings = answer["recordings"].as_array().unwrap();
        assert_eq!(recordings.len(), 1, "{answer}");
        recordings[0]["egress_id"].as_str().unwrap().to_owned()
    };
    let ids: Vec<String> = std::thread::scope(|scope| {
        let start = || id(&record_participants(&app, "standup").expect(201));
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|other| *other == ids[0]), "{ids:?}");
    app.post(&format!("/v1/recordings/{}/stop", ids[0]))
        .send()
        .expect(200);
    let again = id(&record_participants(&app, "standup").expect(201));
    assert_ne!(again, ids[0]);
}

#[test]
fn while_the_database_is_locked_the_call_fails_as_a_whole_and_can_be_repeated() {
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "host");
    app.join("standup", "bob", "host");
    let request = || record_participants(&app, "standup");
    let lock = app.records().lock();
    request().expect_error(503, "database_unavailable", None);
    drop(lock);
    let started = request().expect(201);
    assert_eq!(started["recordings"].as_array().unwrap().len(), 2);
    assert!(started.get("refused").is_none(), "{started}");
}

#[test]
fn recording_participants_is_refused_as_a_single_recording_is() {
    let app = TestApp::start();
    app.room("standup");
    record_participants(&app, "nowhere").expect_error(404, "room_not_found", None);
    app.post("/ext/v1/rooms/standup/recordings/participants")
        .json(json!({"destination": "archive"}))
        .send()
        .expect_error(404, "destination_not_found", Some("destination"));
    let other = other_project(&app, "free");
    app.post("/v1/rooms")
        .bearer(&other.key)
        .json(json!({"name": "standup"}))
        .send()
        .expect(201);
    app.post("/ext/v1/rooms/standup/recordings/participants")
        .bearer(&other.key)
        .send()
        .expect_error(402, "feature_not_in_plan", Some("recording"));
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    record_participants(&app, "standup").expect_error(409, "room_ended", None);
}
