//! `/v1/rooms/{name}/recordings`, `/v1/recordings`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Receiver, Response, TestApp, eventually};
use crate::tools::{default_template, fields, other_project, refuses_bad_pages, walk_pages};

const ROOM: &str = "/v1/rooms/standup/recordings";

fn app() -> TestApp {
    let app = TestApp::start();
    app.room("standup");
    app
}

fn start(app: &TestApp, body: Value) -> Response {
    app.post(ROOM).json(body).send()
}

fn composite(app: &TestApp) -> Value {
    start(app, json!({"type": "room_composite"})).expect(201)
}

fn id(recording: &Value) -> &str {
    recording["egress_id"].as_str().unwrap()
}

fn get(app: &TestApp, egress: &str) -> Value {
    app.get(&format!("/v1/recordings/{egress}"))
        .send()
        .expect(200)
}

fn stop(app: &TestApp, egress: &str) -> Response {
    app.post(&format!("/v1/recordings/{egress}/stop")).send()
}

fn wait_for_status(app: &TestApp, egress: &str, status: &str) {
    eventually(|| get(app, egress)["status"] == status);
}

#[test]
fn a_recording_starts_before_its_file_exists_with_the_fields_of_the_contract() {
    let app = app();
    let recording = composite(&app);
    let expected = json!({
        "id": recording["id"], "project_id": app.project, "room": "standup",
        "namespaced_room": format!("{}.standup", app.project), "egress_id": recording["egress_id"],
        "type": "room_composite", "status": "starting", "filepath": "standup-20260301T120000.000Z.mp4",
        "started_at": app.now(), "created_at": app.now()
    });
    assert_eq!(recording, expected);
    assert_eq!(get(&app, id(&recording)), expected);
    assert_eq!(
        app.get("/v1/recordings").send().expect(200)["recordings"],
        json!([expected])
    );
    assert_eq!(
        app.get(ROOM).send().expect(200)["recordings"],
        json!([expected])
    );
    // No participant has joined: the room starts with the first one.
    assert!(
        app.get("/v1/rooms/standup")
            .send()
            .expect(200)
            .get("started_at")
            .is_none()
    );
}

#[test]
fn by_default_a_recording_is_active_after_a_second_and_complete_a_second_after_its_stop() {
    let (app, receiver) = (app(), Receiver::start());
    app.endpoint(&receiver.url);
    let recording = composite(&app);
    let egress = id(&recording);
    app.advance(Duration::from_secs(1));
    wait_for_status(&app, egress, "active");
    let stopped = stop(&app, egress).expect(200);
    assert_eq!(
        (&stopped["status"], stopped.get("ended_at")),
        (&json!("ending"), None)
    );
    app.advance(Duration::from_secs(1));
    wait_for_status(&app, egress, "complete");
    let done = get(&app, egress);
    assert_eq!(
        (&done["ended_at"], done.get("error")),
        (&json!(app.now()), None)
    );

    let at = |event_type: &str, status: &str, second: &str| {
        json!({
            "type": event_type, "project_id": app.project, "room": "standup", "egress_id": egress,
            "recording_status": status, "occurred_at": format!("2026-03-01T12:00:0{second}.000Z")
        })
    };
    let expected = [
        at("recording.started", "starting", "0"),
        at("recording.updated", "active", "1"),
        at("recording.updated", "ending", "1"),
        at("recording.ended", "complete", "2"),
    ];
    assert_eq!(app.events(&receiver), expected);
}

#[test]
fn the_default_file_of_an_audio_track_is_ogg_and_of_a_video_track_mp4() {
    let app = app();
    let alice = app.join("standup", "alice", "host");
    for (kind, source, extension) in [
        ("audio", "microphone", ".ogg"),
        ("audio", "screen_share_audio", ".ogg"),
        ("video", "camera", ".mp4"),
    ] {
        let track = app.publish(&alice, kind, source);
        let recording = start(&app, json!({"type": "track", "track_id": track})).expect(201);
        assert!(
            recording["filepath"].as_str().unwrap().ends_with(extension),
            "{recording}"
        );
    }
}

#[test]
fn each_type_accepts_its_own_options_and_refuses_those_of_another() {
    let app = app();
    for (body, file) in [
        (json!({"type": "room_composite", "layout": "grid"}), "mp4"),
        (
            json!({"type": "room_composite", "layout": "speaker", "video_only": true}),
            "mp4",
        ),
        (json!({"type": "room_composite", "audio_only": true}), "ogg"),
        (
            json!({"type": "room_composite", "audio_only": false, "video_only": false}),
            "mp4",
        ),
        (json!({"type": "track", "track_id": "TR_1"}), "mp4"),
        (json!({"type": "participant", "identity": "alice"}), "mp4"),
    ] {
        let recording = start(&app, body.clone()).expect(201);
        assert_eq!(recording["type"], body["type"]);
        assert!(
            recording["filepath"].as_str().unwrap().ends_with(file),
            "{recording}"
        );
    }
    for (body, field) in [
        (json!({}), "type"),
        (json!({"type": "web"}), "type"),
        (json!({"type": "track"}), "track_id"),
        (json!({"type": "track", "track_id": ""}), "track_id"),
        (
            json!({"type": "track", "track_id": "TR_1", "identity": "alice"}),
            "identity",
        ),
        (
            json!({"type": "track", "track_id": "TR_1", "layout": "grid"}),
            "layout",
        ),
        (
            json!({"type": "track", "track_id": "TR_1", "audio_only": true}),
            "audio_only",
        ),
        (json!({"type": "participant"}), "identity"),
        (
            json!({"type": "participant", "identity": "alice", "track_id": "TR_1"}),
            "track_id",
        ),
        (
            json!({"type": "participant", "identity": "alice", "video_only": true}),
            "video_only",
        ),
        (
            json!({"type": "room_composite", "track_id": "TR_1"}),
            "track_id",
        ),
        (
            json!({"type": "room_composite", "identity": "alice"}),
            "identity",
        ),
        (
            json!({"type": "room_composite", "layout": "mosaic"}),
            "layout",
        ),
        (
            json!({"type": "room_composite", "audio_only": true, "video_only": true}),
            "video_only",
        ),
        (
            json!({"type": "room_composite", "destination": "a b"}),
            "destination",
        ),
    ] {
        start(&app, body).expect_error(400, "invalid_request", Some(field));
    }
    let bad = start(&app, json!({"type": "participant", "identity": "a b"}));
    bad.expect_error(400, "invalid_identity", Some("identity"));
}

#[test]
fn a_filepath_stays_inside_the_recording_directory() {
    let app = app();
    for path in [
        "/etc/passwd",
        "../x.mp4",
        "a/../../x.mp4",
        "a\\b.mp4",
        "a\u{0}b",
        "gpj.\u{202e}4pm",
        "\u{2067}a.mp4",
        "a\u{200f}.mp4",
        "",
        "a/",
        &"x".repeat(513),
        &"x".repeat(256),
    ] {
        let refused = start(&app, json!({"type": "room_composite", "filepath": path}));
        refused.expect_error(400, "invalid_filepath", Some("filepath"));
    }
    let recording = start(
        &app,
        json!({"type": "room_composite", "filepath": "2026/stand-up 1.mp4"}),
    )
    .expect(201);
    assert_eq!(recording["filepath"], "2026/stand-up 1.mp4");
}

#[test]
fn a_status_never_moves_backwards_and_a_repeated_one_is_reported_once() {
    let (app, receiver) = (app(), Receiver::start());
    app.endpoint(&receiver.url);
    let recording = composite(&app);
    let egress = id(&recording);
    for status in [
        "active", "active", "complete", "active", "failed", "complete",
    ] {
        app.drive(egress, json!({"status": status}));
    }
    assert_eq!(get(&app, egress)["status"], "complete");
    assert_eq!(
        app.event_types(&receiver),
        ["recording.started", "recording.updated", "recording.ended"]
    );
}

#[test]
fn only_a_failure_has_an_error() {
    let (app, receiver) = (app(), Receiver::start());
    app.endpoint(&receiver.url);
    for (status, event) in [
        ("failed", "recording.failed"),
        ("aborted", "recording.ended"),
        ("limit_reached", "recording.ended"),
    ] {
        let recording = composite(&app);
        app.drive(
            id(&recording),
            json!({"status": status, "error": "the disk is full"}),
        );
        let ended = get(&app, id(&recording));
        let error = (status == "failed").then(|| json!("the disk is full"));
        assert_eq!(
            (ended["status"].as_str(), ended.get("error")),
            (Some(status), error.as_ref())
        );
        let events = app.events(&receiver);
        assert_eq!(
            (&events[1]["type"], &events[1]["recording_status"]),
            (&json!(event), &json!(status))
        );
    }
}

#[test]
fn stopping_a_final_recording_returns_it_unchanged() {
    let (app, receiver) = (app(), Receiver::start());
    app.endpoint(&receiver.url);
    let recording = composite(&app);
    app.drive(id(&recording), json!({"status": "complete"}));
    let done = get(&app, id(&recording));
    assert_eq!(stop(&app, id(&recording)).expect(200), done);
    assert_eq!(
        app.event_types(&receiver),
        ["recording.started", "recording.ended"]
    );
}

#[test]
fn stopping_twice_before_the_start_is_one_transition() {
    let (app, receiver) = (app(), Receiver::start());
    app.endpoint(&receiver.url);
    let recording = composite(&app);
    assert_eq!(stop(&app, id(&recording)).expect(200)["status"], "ending");
    assert_eq!(stop(&app, id(&recording)).expect(200)["status"], "ending");
    app.advance(Duration::from_secs(1));
    wait_for_status(&app, id(&recording), "complete");
    assert_eq!(
        app.event_types(&receiver),
        ["recording.started", "recording.updated", "recording.ended"]
    );
}

#[test]
fn the_end_of_a_room_settles_its_recordings() {
    let (app, receiver) = (app(), Receiver::start());
    app.endpoint(&receiver.url);
    let (begun, waiting) = (
        composite(&app),
        start(&app, json!({"type": "track", "track_id": "TR_1"})).expect(201),
    );
    app.drive(id(&begun), json!({"status": "active"}));
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    wait_for_status(&app, id(&begun), "complete");
    wait_for_status(&app, id(&waiting), "aborted");
    let types = app.event_types(&receiver);
    assert_eq!(
        types.iter().filter(|t| *t == "recording.ended").count(),
        2,
        "{types:?}"
    );
    assert_eq!(
        types.iter().filter(|t| *t == "room.finished").count(),
        1,
        "{types:?}"
    );
    start(&app, json!({"type": "room_composite"})).expect_error(409, "room_ended", None);
    assert_eq!(
        app.get(ROOM).send().expect(200)["recordings"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_recording_interrupted_by_a_restart_fails_with_an_error() {
    let app = app();
    let recording = composite(&app);
    app.advance(Duration::from_secs(1));
    wait_for_status(&app, id(&recording), "active");
    let app = app.restart();
    wait_for_status(&app, id(&recording), "failed");
    let failed = get(&app, id(&recording));
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .contains("no longer knows"),
        "{failed}"
    );
    assert_eq!(failed["ended_at"], app.now());
}

#[test]
fn recordings_are_found_by_room_status_and_time_newest_first() {
    let app = app();
    app.room("other");
    let first = composite(&app);
    app.advance(Duration::from_secs(60));
    let second = app
        .post("/v1/rooms/other/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
    app.drive(id(&second), json!({"status": "complete"}));
    let found = |query: &str| -> Vec<String> {
        let page = app
            .get(&format!("/v1/recordings{query}"))
            .send()
            .expect(200);
        page["recordings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| id(r).to_owned())
            .collect()
    };
    let (first, second) = (id(&first).to_owned(), id(&second).to_owned());
    assert_eq!(found(""), [second.as_str(), first.as_str()]);
    assert_eq!(found("?room=standup"), [first.as_str()]);
    assert_eq!(found("?room=nowhere"), Vec::<String>::new());
    assert_eq!(found("?status=complete"), [second.as_str()]);
    assert_eq!(found("?after=2026-03-01T12:01:00Z"), [second.as_str()]);
    assert_eq!(found("?before=2026-03-01T12:00:00Z"), [first.as_str()]);
    assert_eq!(
        found("?after=2026-03-01T12:00:00Z&before=2026-03-01T12:01:00Z&room=other"),
        [second.as_str()]
    );
    for (query, code, field) in [
        ("status=gone", "invalid_request", "status"),
        ("after=now", "invalid_request", "after"),
        ("before=1", "invalid_request", "before"),
        ("room=a%20b", "invalid_room_name", "room"),
    ] {
        app.get(&format!("/v1/recordings?{query}"))
            .send()
            .expect_error(400, code, Some(field));
    }
    refuses_bad_pages(&app, "/v1/recordings");
    refuses_bad_pages(&app, ROOM);
    for _ in 0..4 {
        composite(&app);
        app.advance(Duration::from_millis(10));
    }
    let walked = walk_pages(|path| app.get(path), ROOM, "recordings", "egress_id", 2);
    assert_eq!((walked.len(), walked.last()), (5, Some(&first)));
}

#[test]
fn a_recording_is_visible_only_to_its_project_and_is_no_broadcast() {
    let app = app();
    let recording = composite(&app);
    let egress = id(&recording);
    let other = other_project(&app, "self_hosted");
    let path = format!("/v1/recordings/{egress}");
    app.get(&path)
        .bearer(&other.key)
        .send()
        .expect_error(404, "recording_not_found", None);
    app.post(&format!("{path}/stop"))
        .bearer(&other.key)
        .send()
        .expect_error(404, "recording_not_found", None);
    app.get(ROOM)
        .bearer(&other.key)
        .send()
        .expect_error(404, "room_not_found", None);
    let none = app
        .get("/v1/recordings")
        .bearer(&other.key)
        .send()
        .expect(200);
    assert_eq!(none["recordings"], json!([]));
    app.get(&format!("/v1/broadcasts/{egress}"))
        .send()
        .expect_error(404, "broadcast_not_found", None);
    app.post(&format!("/v1/broadcasts/{egress}/stop"))
        .send()
        .expect_error(404, "broadcast_not_found", None);
    app.get("/v1/recordings/EG_unknown")
        .send()
        .expect_error(404, "recording_not_found", None);
    app.get("/v1/rooms/nowhere/recordings")
        .send()
        .expect_error(404, "room_not_found", None);
    let nowhere = app
        .post("/v1/rooms/nowhere/recordings")
        .json(json!({"type": "room_composite"}))
        .send();
    nowhere.expect_error(404, "room_not_found", None);
    assert_eq!(get(&app, egress)["status"], "starting");
}

#[test]
fn a_participant_with_the_permission_records_its_own_room() {
    let app = app();
    app.room("other");
    let (host, guest) = (
        app.token("standup", "alice", "host"),
        app.token("standup", "bob", "guest"),
    );
    let elsewhere = app.token("other", "alice", "host");
    let body = json!({"type": "room_composite"});
    let begin = |token: &str| {
        app.post(ROOM)
            .anonymous()
            .header("x-svc-room-token", token)
            .json(body.clone())
            .send()
    };
    begin(&guest).expect_error(403, "permission_denied", Some("record"));
    begin(&elsewhere).expect_error(401, "unauthorized", None);
    let recording = begin(&host).expect(201);
    let stop = format!("/v1/recordings/{}/stop", id(&recording));
    let end = |token: &str| {
        app.post(&stop)
            .anonymous()
            .header("x-svc-room-token", token)
            .send()
    };
    end(&guest).expect_error(403, "permission_denied", Some("record"));
    // As if it did not exist.
    end(&elsewhere).expect_error(404, "recording_not_found", None);
    assert_eq!(end(&host).expect(200)["status"], "ending");
}

#[test]
fn a_plan_without_recording_refuses_starts_but_not_reads_or_stops() {
    let app = app();
    let free = other_project(&app, "free");
    let post = |path: &str, body: Value| app.post(path).bearer(&free.key).json(body).send();
    post("/v1/rooms", json!({"name": "standup"})).expect(201);
    let body = json!({"type": "room_composite"});
    post(ROOM, body.clone()).expect_error(402, "feature_not_in_plan", Some("recording"));
    // Errors for an unknown room and an ended one come first.
    post("/v1/rooms/nowhere/recordings", body.clone()).expect_error(404, "room_not_found", None);
    post(
        ROOM,
        json!({"type": "room_composite", "destination": "none"}),
    )
    .expect_error(404, "template_not_found", Some("destination"));
    app.delete("/v1/rooms/standup")
        .bearer(&free.key)
        .send()
        .expect_empty(204);
    post(ROOM, body).expect_error(409, "room_ended", None);
    let listed = app
        .get("/v1/recordings")
        .bearer(&free.key)
        .send()
        .expect(200);
    assert_eq!(listed["recordings"], json!([]));
    let unknown = app
        .post("/v1/recordings/EG_unknown/stop")
        .bearer(&free.key)
        .send();
    unknown.expect_error(404, "recording_not_found", None);
}

#[test]
fn a_destination_is_named_in_the_record_and_cannot_be_deleted_while_it_is_used() {
    let app = app();
    let template = default_template(&app);
    let at = format!("/v1/templates/{template}/destinations");
    let config =
        json!({"type": "s3", "bucket": "recordings", "access_key": "AKIA1", "secret": "s3cr3t"});
    let made = app
        .post(&at)
        .json(json!({"name": "archive", "kind": "recording", "config": config}))
        .send()
        .expect(201);
    let rtmp = json!({"urls": ["rtmp://127.0.0.1/live/key"]});
    app.post(&at)
        .json(json!({"name": "stream", "kind": "rtmp", "config": rtmp}))
        .send()
        .expect(201);
    let body = |name: &str| json!({"type": "room_composite", "destination": name});
    for unknown in ["none", "stream"] {
        start(&app, body(unknown)).expect_error(404, "destination_not_found", Some("destination"));
    }
    let recording = start(&app, body("archive")).expect(201);
    assert_eq!(
        (&recording["destination"], &recording["destination_id"]),
        (&json!("archive"), &made["id"])
    );
    let delete = || app.delete(&format!("{at}/archive")).send();
    delete().expect_error(409, "destination_in_use", None);
    app.drive(id(&recording), json!({"status": "complete"}));
    delete().expect_empty(204);
    // The record keeps the destination that was used.
    assert_eq!(get(&app, id(&recording))["destination"], "archive");
}

#[test]
fn a_replayed_start_is_the_same_recording_and_a_replayed_stop_the_same_answer() {
    let app = app();
    let begin = || {
        app.post(ROOM)
            .idempotency_key("k")
            .json(json!({"type": "room_composite"}))
            .send()
    };
    let (first, again) = (begin(), begin());
    assert_eq!((first.status, &first.body), (201, &again.body));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(
        app.get("/v1/recordings").send().expect(200)["recordings"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let recording = first.json();
    let stop = || {
        app.post(&format!("/v1/recordings/{}/stop", id(&recording)))
            .idempotency_key("s")
            .send()
    };
    let stopped = stop();
    app.advance(Duration::from_secs(1));
    wait_for_status(&app, id(&recording), "complete");
    assert_eq!(stop().body, stopped.body);
}

#[test]
fn a_running_recording_has_an_actor_and_a_final_one_has_none() {
    let app = app();
    let recording = composite(&app);
    let path = format!("/{}/egress/{}", app.project, id(&recording));
    get(&app, id(&recording));
    let actor = app.actors(&path);
    assert_eq!(
        (&actor["kind"], &actor["parent"]),
        (&json!("egress"), &json!(app.project))
    );
    assert_eq!(
        fields(&actor["state"]),
        ["kind", "last_answer", "room", "room_open", "status"]
    );
    assert_eq!(
        actor["state"]["last_answer"],
        json!({"at": app.now(), "status": "starting"})
    );
    stop(&app, id(&recording)).expect(200);
    let actor = app.actors(&path);
    assert_eq!(actor["timers"][0]["name"], "settle");
    app.advance(Duration::from_secs(1));
    wait_for_status(&app, id(&recording), "complete");
    eventually(|| {
        app.admin("GET", &format!("/debug/actors{path}"))
            .send()
            .status
            == 404
    });
}
