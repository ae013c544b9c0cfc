//! `/v1/rooms/{name}/ingress` and `/v1/ingress`: an endpoint from creation to deletion, and its encoder.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Receiver, Response, TestApp, eventually};
use crate::tools::{conclave, fields, other_project, refuses_bad_pages, walk_pages};

impl TestApp {
    /// Creates an RTMP endpoint and returns it, including its stream key.
    #[track_caller]
    pub fn ingress(&self, room: &str, identity: &str) -> Value {
        let body = json!({"input_type": "rtmp", "participant_identity": identity});
        self.post(&format!("/v1/rooms/{room}/ingress"))
            .json(body)
            .send()
            .expect(201)
    }

    /// Performs an encoder action: `connect` or `disconnect`.
    #[track_caller]
    pub fn encoder(&self, ingress: &Value, what: &str) -> Response {
        let key = ingress["stream_key"].as_str().unwrap();
        self.admin("POST", &format!("/sandbox/ingress/{key}/{what}"))
            .send()
    }

    #[track_caller]
    pub fn connect(&self, ingress: &Value) -> Value {
        self.encoder(ingress, "connect").expect(200)
    }

    /// Reads the endpoint.
    #[track_caller]
    pub fn ingress_now(&self, ingress: &Value) -> Value {
        self.get(&path(ingress)).send().expect(200)
    }

    /// Returns an endpoint's expected event.
    fn ingress_event(&self, event_type: &str, ingress: &Value, status: &str) -> Value {
        let facts = json!({
            "participant_identity": ingress["participant_identity"], "ingress_id": ingress["ingress_id"],
            "ingress_status": status
        });
        self.event(event_type, ingress["room"].as_str().unwrap(), &facts)
    }
}

fn path(ingress: &Value) -> String {
    format!("/v1/ingress/{}", ingress["ingress_id"].as_str().unwrap())
}

fn started() -> (TestApp, Receiver) {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    (app, receiver)
}

#[test]
fn an_endpoint_shows_its_stream_key_once_and_its_url_never_does() {
    let (app, _) = started();
    let body = json!({
        "input_type": "rtmp", "participant_identity": "encoder", "participant_name": "Stage", "enable_transcoding": null
    });
    let made = app
        .post("/v1/rooms/standup/ingress")
        .json(body)
        .send()
        .expect(201);
    let key = made["stream_key"].as_str().unwrap();
    assert!(
        key.len() >= 24
            && key
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'),
        "{key}"
    );
    let mut expected = json!({
        "id": made["id"], "project_id": app.project, "room": "standup",
        "namespaced_room": format!("{}.standup", app.project), "ingress_id": made["ingress_id"], "input_type": "rtmp",
        "participant_identity": "encoder", "participant_name": "Stage", "url": "rtmp://127.0.0.1:1935/live/REDACTED",
        "status": "inactive", "created_at": app.now(), "updated_at": app.now(), "stream_key": key
    });
    assert_eq!(made, expected);
    expected.as_object_mut().unwrap().remove("stream_key");
    assert_eq!(app.ingress_now(&made), expected);
    assert_eq!(
        app.get("/v1/ingress").send().expect(200)["ingresses"],
        json!([expected])
    );
    let body =
        json!({"input_type": "whip", "participant_identity": "phone", "enable_transcoding": true});
    let whip = app
        .post("/v1/rooms/standup/ingress")
        .json(body)
        .send()
        .expect(201);
    let place = app.api.trim_start_matches("http://");
    assert_eq!(whip["url"], json!(format!("http://{place}/whip/REDACTED")));
    assert!(whip.get("participant_name").is_none());
}

#[test]
fn an_encoder_joins_as_a_participant_publishes_and_leaves() {
    let (app, receiver) = started();
    let made = app.ingress("standup", "encoder");
    assert!(
        app.get("/v1/rooms/standup")
            .send()
            .expect(200)
            .get("started_at")
            .is_none()
    );
    let state = app.connect(&made);
    assert_eq!(
        state,
        json!({"ingress_id": made["ingress_id"], "status": "publishing"})
    );
    assert_eq!(app.ingress_now(&made)["status"], "publishing");
    let inside = app
        .get("/v1/rooms/standup/participants/encoder")
        .send()
        .expect(200);
    assert_eq!(
        (&inside["kind"], &inside["state"], &inside["is_publisher"]),
        (&json!("ingress"), &json!("active"), &json!(true))
    );
    let sources: Vec<_> = inside["tracks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|track| &track["source"])
        .collect();
    assert_eq!(sources, ["camera", "microphone"]);
    // A second connect changes nothing and causes no event.
    assert_eq!(app.connect(&made), state);
    let events = app.events(&receiver);
    let types: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let expected = [
        "room.started",
        "participant.joined",
        "track.published",
        "track.published",
        "ingress.started",
    ];
    assert_eq!(types, expected);
    let mut expected = app.ingress_event("ingress.started", &made, "publishing");
    expected["occurred_at"] = events[0]["occurred_at"].clone();
    assert_eq!(events[4], expected);
    // An encoder keeps its room open and creates a session, like any participant.
    app.advance(Duration::from_secs(3_600));
    let gone = app.encoder(&made, "disconnect").expect(200);
    assert_eq!(
        gone,
        json!({"ingress_id": made["ingress_id"], "status": "inactive"})
    );
    assert_eq!(app.encoder(&made, "disconnect").expect(200), gone);
    let read = app.ingress_now(&made);
    assert_eq!(
        (&read["status"], &read["updated_at"]),
        (&json!("inactive"), &json!(app.now()))
    );
    let session = app.get("/v1/sessions").send().expect(200)["sessions"][0].clone();
    assert_eq!(
        (&session["participant_identity"], &session["track_count"]),
        (&json!("encoder"), &json!(2))
    );
    let ended = app.ingress_event("ingress.ended", &made, "inactive");
    let events = app.events(&receiver);
    let types: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        [
            "track.unpublished",
            "track.unpublished",
            "participant.left",
            "ingress.ended"
        ]
    );
    assert_eq!(events[3], ended);
    // An ended endpoint can be used again.
    app.connect(&made);
    assert_eq!(
        app.event_types(&receiver).last().unwrap(),
        "ingress.started"
    );
}

#[test]
fn removing_the_participant_ends_the_stream_after_it_has_left() {
    let (app, receiver) = started();
    let made = app.ingress("standup", "encoder");
    app.connect(&made);
    app.events(&receiver);
    app.delete("/v1/rooms/standup/participants/encoder")
        .send()
        .expect_empty(204);
    app.wait_for_event("ingress.ended", 1);
    let gone = [
        "track.unpublished",
        "track.unpublished",
        "participant.left",
        "ingress.ended",
    ];
    assert_eq!(app.event_types(&receiver), gone);
    assert_eq!(app.ingress_now(&made)["status"], "inactive");
    // A participant with the same identity replaces the encoder.
    app.connect(&made);
    app.events(&receiver);
    app.join("standup", "encoder", "host");
    app.wait_for_event("ingress.ended", 2);
    let mut types = app.event_types(&receiver);
    types.retain(|event| event != "participant.joined");
    assert_eq!(types, gone);
    assert_eq!(app.ingress_now(&made)["status"], "inactive");
    // The encoder replaces the participant with the same identity.
    app.connect(&made);
    let inside = app.get("/v1/rooms/standup/participants").send().expect(200);
    assert_eq!(
        (
            inside["participants"].as_array().unwrap().len(),
            &inside["participants"][0]["kind"]
        ),
        (1, &json!("ingress"))
    );
}

/// Proves S-77.
#[test]
fn deleting_invalidates_the_key_at_once_and_keeps_the_row() {
    let (app, receiver) = started();
    let made = app.ingress("standup", "encoder");
    app.connect(&made);
    app.events(&receiver);
    app.advance(Duration::from_secs(1));
    app.delete(&path(&made)).send().expect_empty(204);
    for what in ["connect", "disconnect"] {
        app.encoder(&made, what)
            .expect_error(404, "ingress_not_found", None);
    }
    let read = app.ingress_now(&made);
    let now = json!(app.now());
    assert_eq!(
        (&read["status"], &read["deleted_at"], &read["updated_at"]),
        (&json!("deleted"), &now, &now)
    );
    app.advance(Duration::from_secs(1));
    app.delete(&path(&made)).send().expect_empty(204);
    assert_eq!(app.ingress_now(&made), read);
    let mut expected = app.ingress_event("ingress.ended", &made, "inactive");
    expected["occurred_at"] = now;
    let events = app.events(&receiver);
    let types: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        [
            "track.unpublished",
            "track.unpublished",
            "participant.left",
            "ingress.ended"
        ]
    );
    assert_eq!(events[3], expected);
    app.get("/v1/rooms/standup/participants/encoder")
        .send()
        .expect_error(404, "participant_not_found", None);
    let actors = || {
        app.admin("GET", "/debug/actors?kind=ingress")
            .send()
            .expect(200)["actors"]
            .clone()
    };
    eventually(|| actors() == json!([]));
}

#[test]
fn an_endpoint_that_never_published_is_deleted_without_an_event() {
    let (app, receiver) = started();
    let made = app.ingress("standup", "encoder");
    app.delete(&path(&made)).send().expect_empty(204);
    assert_eq!(app.ingress_now(&made)["status"], "deleted");
    app.join("standup", "alice", "");
    assert_eq!(
        app.event_types(&receiver),
        ["room.started", "participant.joined"]
    );
}

#[test]
fn the_end_of_its_room_completes_an_endpoint_and_reports_it_before_the_rooms_end() {
    let (app, receiver) = started();
    let (live, idle) = (
        app.ingress("standup", "encoder"),
        app.ingress("standup", "spare"),
    );
    app.connect(&live);
    app.events(&receiver);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    let ended = app.ingress_event("ingress.ended", &live, "complete");
    let events = app.events(&receiver);
    let types: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let expected = [
        "track.unpublished",
        "track.unpublished",
        "participant.left",
        "ingress.ended",
        "room.finished",
    ];
    assert_eq!(
        (types.as_slice(), &events[3]),
        (expected.as_slice(), &ended)
    );
    for made in [&live, &idle] {
        assert_eq!(app.ingress_now(made)["status"], "complete");
    }
    let actors = || {
        app.admin("GET", "/debug/actors?kind=ingress")
            .send()
            .expect(200)["actors"]
            .clone()
    };
    eventually(|| actors() == json!([]));
    // No encoder can connect now; once the media plane has deleted the endpoint, its key is unknown.
    eventually(|| app.encoder(&idle, "connect").status == 404);
    // The project may still delete the endpoint.
    app.delete(&path(&live)).send().expect_empty(204);
    assert_eq!(app.ingress_now(&live)["status"], "deleted");
    app.delete(&path(&live)).send().expect_empty(204);
    let body = json!({"input_type": "whip", "participant_identity": "late"});
    app.post("/v1/rooms/standup/ingress")
        .json(body)
        .send()
        .expect_error(409, "room_ended", None);
}

/// Proves S-77.
#[test]
fn an_encoder_is_admitted_under_the_same_rules_as_any_participant() {
    let app = TestApp::start();
    app.post("/v1/rooms")
        .json(json!({"name": "small", "max_participants": 1}))
        .send()
        .expect(201);
    let made = app.ingress("small", "encoder");
    let alice = app.join("small", "alice", "host");
    app.encoder(&made, "connect")
        .expect_error(409, "role_capacity_reached", None);
    assert_eq!(app.ingress_now(&made)["status"], "inactive");
    app.leave(&alice, true);
    app.connect(&made);
    app.join_with(&app.token("small", "alice", "host"))
        .expect_error(409, "role_capacity_reached", None);
}

#[test]
fn lists_filter_by_room_status_and_input_type_and_page_newest_first() {
    let (app, _) = started();
    app.room("retro");
    let mut made = Vec::new();
    for (room, input) in [("standup", "rtmp"), ("standup", "whip"), ("retro", "rtmp")] {
        app.advance(Duration::from_secs(1));
        let body = json!({"input_type": input, "participant_identity": format!("{room}-{input}")});
        made.push(
            app.post(&format!("/v1/rooms/{room}/ingress"))
                .json(body)
                .send()
                .expect(201),
        );
    }
    app.connect(&made[0]);
    app.delete(&path(&made[2])).send().expect_empty(204);
    let listed = |query: &str| {
        let page = app.get(&format!("/v1/ingress?{query}")).send().expect(200);
        let rows = page["ingresses"].as_array().unwrap().iter();
        rows.map(|row| row["participant_identity"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(""), ["retro-rtmp", "standup-whip", "standup-rtmp"]);
    assert_eq!(listed("room=standup"), ["standup-whip", "standup-rtmp"]);
    assert_eq!(listed("room=elsewhere"), [""; 0]);
    assert_eq!(listed("input_type=rtmp"), ["retro-rtmp", "standup-rtmp"]);
    assert_eq!(listed("status=publishing"), ["standup-rtmp"]);
    assert_eq!(
        listed("status=deleted&input_type=rtmp&room=retro"),
        ["retro-rtmp"]
    );
    assert_eq!(listed("status=error"), [""; 0]);
    let paged = walk_pages(
        |path| app.get(path),
        "/v1/ingress",
        "ingresses",
        "participant_identity",
        2,
    );
    assert_eq!(paged, listed(""));
    refuses_bad_pages(&app, "/v1/ingress");
    app.get("/v1/ingress?status=live")
        .send()
        .expect_error(400, "invalid_request", Some("status"));
    app.get("/v1/ingress?input_type=srt").send().expect_error(
        400,
        "invalid_request",
        Some("input_type"),
    );
    app.get("/v1/ingress?room=a%20b")
        .send()
        .expect_error(400, "invalid_room_name", Some("room"));
}

#[test]
fn invalid_creations_are_refused_in_the_order_of_the_contract() {
    let app = TestApp::start();
    app.room("over");
    app.delete("/v1/rooms/over").send().expect_empty(204);
    app.room("standup");
    let make = |room: &str, body: Value| {
        app.post(&format!("/v1/rooms/{room}/ingress"))
            .json(body)
            .send()
    };
    let good = json!({"input_type": "rtmp", "participant_identity": "encoder"});
    make("nowhere", good.clone()).expect_error(404, "room_not_found", None);
    make("a%20b", good.clone()).expect_error(400, "invalid_room_name", Some("name"));
    for (body, code, field) in [
        (
            json!({"participant_identity": "encoder"}),
            "invalid_request",
            "input_type",
        ),
        (
            json!({"input_type": "srt", "participant_identity": "encoder"}),
            "invalid_request",
            "input_type",
        ),
        (
            json!({"input_type": "rtmp"}),
            "invalid_request",
            "participant_identity",
        ),
        (
            json!({"input_type": "rtmp", "participant_identity": "a b"}),
            "invalid_identity",
            "participant_identity",
        ),
        (
            json!({"input_type": "rtmp", "participant_identity": "a", "participant_name": null}),
            "invalid_request",
            "participant_name",
        ),
    ] {
        make("over", body).expect_error(400, code, Some(field));
    }
    // A plan without streaming: the room's other errors come first.
    conclave(&app, &["project", "set-plan", &app.project, "free"]);
    make("nowhere", good.clone()).expect_error(404, "room_not_found", None);
    make("over", good.clone()).expect_error(409, "room_ended", None);
    make("standup", good.clone()).expect_error(402, "feature_not_in_plan", Some("streaming"));
    conclave(&app, &["project", "suspend", &app.project]);
    make("nowhere", good).expect_error(402, "quota_exceeded", None);
    app.get("/v1/ingress/IN_unknown")
        .send()
        .expect_error(404, "ingress_not_found", None);
    app.delete("/v1/ingress/IN_unknown")
        .send()
        .expect_error(404, "ingress_not_found", None);
    app.get("/v1/ingress/a%20b")
        .send()
        .expect_error(400, "invalid_request", Some("ingress_id"));
}

#[test]
fn an_endpoint_is_not_found_by_another_project() {
    let (app, _) = started();
    let made = app.ingress("standup", "encoder");
    let other = other_project(&app, "self_hosted");
    app.get(&path(&made))
        .bearer(&other.key)
        .send()
        .expect_error(404, "ingress_not_found", None);
    app.delete(&path(&made))
        .bearer(&other.key)
        .send()
        .expect_error(404, "ingress_not_found", None);
    assert_eq!(
        app.get("/v1/ingress").bearer(&other.key).send().expect(200)["ingresses"],
        json!([])
    );
    app.connect(&made);
}

#[test]
fn a_restart_disconnects_the_encoder_and_its_stream_key_still_works() {
    let (app, receiver) = started();
    let made = app.ingress("standup", "encoder");
    app.connect(&made);
    app.events(&receiver);
    let app = app.restart_after(Duration::from_secs(30));
    app.wait_for_event("ingress.ended", 1);
    app.wait_for_event("participant.connection_aborted", 1);
    let mut types = app.event_types(&receiver);
    types.sort_unstable();
    let expected = [
        "ingress.ended",
        "participant.connection_aborted",
        "track.unpublished",
        "track.unpublished",
    ];
    assert_eq!(types, expected);
    assert_eq!(app.ingress_now(&made)["status"], "inactive");
    app.connect(&made);
    assert_eq!(
        app.event_types(&receiver).last().unwrap(),
        "ingress.started"
    );
    // A deleted endpoint stays deleted.
    app.delete(&path(&made)).send().expect_empty(204);
    let app = app.restart();
    app.encoder(&made, "connect")
        .expect_error(404, "ingress_not_found", None);
    assert_eq!(app.ingress_now(&made)["status"], "deleted");
}

#[test]
fn the_debug_endpoint_shows_an_endpoints_actor_and_nothing_of_its_key() {
    let (app, _) = started();
    let made = app.ingress("standup", "encoder");
    app.connect(&made);
    let id = format!(
        "{}/ingress/{}",
        app.project,
        made["ingress_id"].as_str().unwrap()
    );
    let page = app.actors("");
    assert_eq!(page["totals"]["ingress"], 1);
    let actor = app.actors(&format!("/{id}"));
    assert_eq!(
        (&actor["kind"], &actor["parent"], &actor["timers"]),
        (&json!("ingress"), &json!(app.project), &json!([]))
    );
    let state = &actor["state"];
    assert_eq!(
        fields(state),
        [
            "input_type",
            "last_answer",
            "participant_identity",
            "room",
            "status"
        ]
    );
    assert_eq!(state["status"], "publishing");
    assert_eq!(
        state["last_answer"],
        json!({"at": app.now(), "status": "publishing"})
    );
    let shown = app
        .admin("GET", "/debug/actors?limit=200")
        .header("accept", "text/plain")
        .send()
        .text();
    assert!(shown.contains(made["ingress_id"].as_str().unwrap()));
    assert!(!shown.contains(made["stream_key"].as_str().unwrap()));
}
