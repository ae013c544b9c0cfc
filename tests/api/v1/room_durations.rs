//! The maximum duration of a room: `max_duration_seconds` of `POST /v1/rooms` and of a template's settings.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

fn create(app: &TestApp, body: Value) -> Value {
    app.post("/v1/rooms").json(body).send().expect(201)
}

/// Creates the room `standup`, which stays open for an hour without participants.
fn limited(app: &TestApp, seconds: u32) -> Value {
    let body = json!({
        "name": "standup", "max_duration_seconds": seconds, "empty_timeout_seconds": 3_600
    });
    create(app, body)
}

fn status(app: &TestApp) -> Value {
    app.get("/v1/rooms/standup").send().expect(200)["status"].clone()
}

/// Returns the seconds left in the notices that a participant has had.
fn notices(app: &TestApp, sid: &str) -> Vec<u64> {
    let view = app.view(sid);
    let seconds = |message: &Value| {
        assert_eq!(message["topic"], "conclave.room-ending");
        let data = STANDARD.decode(message["data"].as_str().unwrap()).unwrap();
        let data: Value = serde_json::from_slice(&data).unwrap();
        data["seconds_left"].as_u64().unwrap()
    };
    let inbox = view["inbox"].as_array().unwrap();
    inbox.iter().map(seconds).collect()
}

#[test]
fn a_room_ends_after_a_notice_as_by_delete_counted_from_its_first_join() {
    let (app, receiver) = TestApp::start_with_receiver();
    assert_eq!(limited(&app, 600)["max_duration_seconds"], 600);
    // The time before the first join does not count.
    app.advance(Duration::from_secs(1_000));
    let alice = app.join("standup", "alice", "host");
    app.advance(Duration::from_millis(539_999));
    let bob = app.join("standup", "bob", "");
    assert_eq!(notices(&app, &alice), Vec::<u64>::new());
    app.advance(Duration::from_millis(1));
    eventually(|| notices(&app, &alice) == [60] && notices(&app, &bob) == [60]);
    let ends_at = app.clock.now().after(Duration::from_secs(60)).to_string();
    let message = app.view(&alice)["inbox"][0]["data"].clone();
    let data = STANDARD.decode(message.as_str().unwrap()).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&data).unwrap(),
        json!({"ends_at": ends_at, "seconds_left": 60})
    );
    app.advance(Duration::from_millis(59_999));
    assert_eq!(status(&app), "open");
    app.advance(Duration::from_millis(1));
    eventually(|| status(&app) == "ended");
    let ended = app.get("/v1/rooms/standup").send().expect(200);
    assert_eq!(
        (&ended["ended_at"], &ended["max_duration_seconds"]),
        (&json!(app.now()), &json!(600))
    );
    let types = app.event_types(&receiver);
    assert_eq!(
        types,
        [
            "room.started",
            "participant.joined",
            "participant.joined",
            "participant.left",
            "participant.left",
            "room.finished"
        ]
    );
}

#[test]
fn a_participant_that_joins_in_the_last_minute_has_a_notice_of_its_own() {
    let app = TestApp::start();
    limited(&app, 600);
    let alice = app.join("standup", "alice", "");
    app.advance(Duration::from_secs(540));
    eventually(|| notices(&app, &alice) == [60]);
    app.advance(Duration::from_secs(30));
    let bob = app.join("standup", "bob", "");
    app.advance(Duration::from_secs(1));
    eventually(|| notices(&app, &bob) == [29]);
    assert_eq!(notices(&app, &alice), [60]);
}

#[test]
fn a_duration_of_less_than_a_minute_has_its_notice_after_the_join() {
    let app = TestApp::start();
    limited(&app, 20);
    let alice = app.join("standup", "alice", "");
    app.advance(Duration::from_secs(1));
    eventually(|| notices(&app, &alice) == [19]);
    app.advance(Duration::from_secs(19));
    eventually(|| status(&app) == "ended");
}

#[test]
fn the_seconds_of_a_notice_are_rounded_up() {
    let app = TestApp::start();
    limited(&app, 600);
    let alice = app.join("standup", "alice", "");
    // A timer of the system's clock fires a little late, too.
    app.advance(Duration::from_millis(540_003));
    eventually(|| notices(&app, &alice) == [60]);
}

#[test]
fn a_restart_does_not_prolong_a_room() {
    let app = TestApp::start();
    limited(&app, 600);
    app.join("standup", "alice", "");
    app.advance(Duration::from_secs(100));
    let app = app.restart_after(Duration::from_secs(100));
    let alice = app.join("standup", "alice", "");
    app.advance(Duration::from_secs(340));
    eventually(|| notices(&app, &alice) == [60]);
    app.advance(Duration::from_millis(59_999));
    assert_eq!(status(&app), "open");
    app.advance(Duration::from_millis(1));
    eventually(|| status(&app) == "ended");
}

#[test]
fn a_room_whose_time_has_passed_while_the_server_was_stopped_ends_at_its_start() {
    let app = TestApp::start();
    limited(&app, 600);
    app.join("standup", "alice", "");
    let app = app.restart_after(Duration::from_secs(600));
    eventually(|| status(&app) == "ended");
}

#[test]
fn an_empty_room_ends_at_the_earlier_of_both_times() {
    let app = TestApp::start();
    limited(&app, 600);
    let alice = app.join("standup", "alice", "");
    app.leave(&alice, true);
    let path = format!("/{}/room/standup", app.project);
    eventually(|| app.actors(&path)["status"] == "hibernating");
    app.advance(Duration::from_millis(599_999));
    assert_eq!(status(&app), "open");
    app.advance(Duration::from_millis(1));
    eventually(|| status(&app) == "ended");
}

#[test]
fn a_templates_duration_is_the_default_of_its_new_rooms() {
    let app = TestApp::start();
    let settings = json!({"max_duration_seconds": 3_600});
    let template = app
        .post("/v1/templates")
        .json(json!({"name": "trial", "settings": settings}))
        .send()
        .expect(201);
    let expected = json!({"region": "auto", "max_duration_seconds": 3_600});
    assert_eq!(template["settings"], expected);
    let id = template["id"].as_str().unwrap();
    let settings = format!("/v1/templates/{id}/settings");
    let read = || app.get(&settings).send().expect(200);
    assert_eq!(read()["max_duration_seconds"], 3_600);
    let limit = |name: &str, own: Option<u32>| {
        let mut body = json!({"name": name, "template_id": id});
        if let Some(own) = own {
            body["max_duration_seconds"] = json!(own);
        }
        let created = create(&app, body);
        let read = app.get(&format!("/v1/rooms/{name}")).send().expect(200);
        assert_eq!(created, read);
        read.get("max_duration_seconds").cloned()
    };
    assert_eq!(limit("a", None), Some(json!(3_600)));
    assert_eq!(limit("b", Some(90)), Some(json!(90)));
    assert_eq!(limit("c", Some(0)), None);
    // An update without it leaves it unchanged, by either operation.
    let patch = |path: &str, body: Value| app.patch(path).json(body).send().expect(200);
    patch(&settings, json!({"region": "eu-west"}));
    patch(&format!("/v1/templates/{id}"), json!({"name": "trials"}));
    assert_eq!(limit("d", None), Some(json!(3_600)));
    let changed = patch(
        &settings,
        json!({"region": "eu-west", "max_duration_seconds": 60}),
    );
    assert_eq!(changed["max_duration_seconds"], 60);
    assert_eq!(limit("e", None), Some(json!(60)));
    let none = json!({"settings": {"max_duration_seconds": 0}});
    let changed = patch(&format!("/v1/templates/{id}"), none);
    assert_eq!(changed["settings"], json!({"region": "eu-west"}));
    assert_eq!(read().get("max_duration_seconds"), None);
    assert_eq!(limit("f", None), None);
    let first = app.get("/v1/rooms/a").send().expect(200);
    assert_eq!(first["max_duration_seconds"], 3_600, "a copy, which stays");
}

#[test]
fn the_projects_default_template_gives_its_duration_too() {
    let app = TestApp::start();
    let id = crate::tools::default_template(&app);
    let body = json!({"settings": {"max_duration_seconds": 120}});
    app.patch(&format!("/v1/templates/{id}"))
        .json(body)
        .send()
        .expect(200);
    assert_eq!(app.room("a")["max_duration_seconds"], 120);
}

#[test]
fn a_duration_is_at_most_seven_days() {
    let app = TestApp::start();
    let refused = [
        json!(-1),
        json!(604_801),
        json!(1.5),
        json!("60"),
        Value::Null,
    ];
    for value in refused {
        app.post("/v1/rooms")
            .json(json!({"name": "a", "max_duration_seconds": value}))
            .send()
            .expect_error(400, "invalid_request", Some("max_duration_seconds"));
        app.post("/v1/templates")
            .json(json!({"name": "t", "settings": {"max_duration_seconds": value}}))
            .send()
            .expect_error(
                400,
                "invalid_request",
                Some("settings.max_duration_seconds"),
            );
    }
    let longest = create(&app, json!({"name": "a", "max_duration_seconds": 604_800}));
    assert_eq!(longest["max_duration_seconds"], 604_800);
}

#[test]
fn a_clock_that_is_set_back_does_not_prolong_a_running_call() {
    let app = TestApp::start();
    limited(&app, 600);
    let alice = app.join("standup", "alice", "");
    app.advance(Duration::from_secs(300));
    app.clock.step(-3_600_000);
    app.advance(Duration::from_secs(240));
    eventually(|| notices(&app, &alice) == [60]);
    app.advance(Duration::from_secs(60));
    eventually(|| status(&app) == "ended");
}
