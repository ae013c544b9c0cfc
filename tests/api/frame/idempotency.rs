//! `Idempotency-Key`: the first call runs, the others replay its response.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Response, TestApp};
use crate::tools::{default_template, exchange, other_project, template};

/// Creates a room with an idempotency key.
fn create(app: &TestApp, key: &str, body: Value) -> Response {
    app.post("/v1/rooms").json(body).idempotency_key(key).send()
}

/// Fails unless a response replays another, byte for byte.
#[track_caller]
fn assert_replays(replay: &Response, first: &Response) {
    assert_eq!((replay.status, replay.text()), (first.status, first.text()));
    assert_eq!(
        replay
            .headers
            .get("idempotency-replayed")
            .map(String::as_str),
        Some("true")
    );
    assert_eq!(first.headers.get("idempotency-replayed"), None);
    assert_eq!(
        replay.headers.get("content-type"),
        first.headers.get("content-type")
    );
}

fn rooms(app: &TestApp) -> usize {
    app.get("/v1/rooms").send().expect(200)["rooms"]
        .as_array()
        .unwrap()
        .len()
}

#[test]
fn a_replay_is_the_original_answer_byte_for_byte_without_an_effect() {
    let app = TestApp::start();
    let first = create(&app, "k", json!({"name": "a"}));
    first.expect(201);
    app.advance(Duration::from_secs(60));
    app.delete("/v1/rooms/a").send().expect_empty(204);
    assert_replays(&create(&app, "k", json!({"name": "a"})), &first);
    assert_eq!(app.get("/v1/rooms/a").send().json()["status"], "ended");
}

#[test]
fn an_answer_with_a_secret_is_replayed_too() {
    let app = TestApp::start();
    app.room("a");
    let token = || {
        app.post("/v1/tokens")
            .json(json!({"room": "a", "identity": "x"}))
            .idempotency_key("k")
            .send()
    };
    let first = token();
    first.expect(201);
    app.advance(Duration::from_secs(5));
    assert_replays(&token(), &first);
    let url = json!({"url": "http://127.0.0.1:9/hook"});
    let endpoint = || {
        app.post("/v1/webhook-endpoints")
            .json(url.clone())
            .idempotency_key("k")
            .send()
    };
    let first = endpoint();
    assert!(
        first.expect(201)["secret"]
            .as_str()
            .unwrap()
            .starts_with("whsec_")
    );
    assert_replays(&endpoint(), &first);
    let listed = app.get("/v1/webhook-endpoints").send().expect(200);
    assert_eq!(listed["webhook_endpoints"].as_array().unwrap().len(), 1);
}

#[test]
fn another_body_with_the_same_key_is_refused_even_if_it_is_equivalent() {
    let app = TestApp::start();
    create(&app, "k", json!({"name": "a"})).expect(201);
    create(&app, "k", json!({"name": "b"})).expect_error(409, "idempotency_key_reuse", None);
    let spaced = app
        .post("/v1/rooms")
        .raw(r#"{"name" : "a"}"#)
        .idempotency_key("k")
        .send();
    spaced.expect_error(409, "idempotency_key_reuse", None);
    create(&app, "k", json!({"name": "a"})).expect(201);
    assert_eq!(rooms(&app), 1);
}

#[test]
fn a_key_belongs_to_one_operation_and_one_project() {
    let app = TestApp::start();
    create(&app, "k", json!({"name": "a"})).expect(201);
    app.post("/v1/templates")
        .json(json!({"name": "a"}))
        .idempotency_key("k")
        .send()
        .expect(201);
    let other = other_project(&app, "self_hosted");
    let request = app
        .post("/v1/rooms")
        .bearer(&other.key)
        .json(json!({"name": "a"}))
        .idempotency_key("k");
    let room = request.send();
    assert_eq!(room.expect(201)["project_id"], other.project);
    assert_eq!(room.headers.get("idempotency-replayed"), None);
}

#[test]
fn the_same_key_on_another_path_of_the_operation_is_a_reuse() {
    let app = TestApp::start();
    let retry = |id: u8| {
        let path = format!("/v1/webhook-deliveries/00000000-0000-4000-8000-00000000000{id}/retry");
        app.post(&path).idempotency_key("k").send()
    };
    retry(1).expect_error(404, "delivery_not_found", None);
    retry(2).expect_error(409, "idempotency_key_reuse", None);
}

#[test]
fn errors_that_depend_only_on_the_request_are_stored() {
    let app = TestApp::start();
    app.room("a");
    let first = create(&app, "taken", json!({"name": "a"}));
    first.expect_error(409, "room_exists", Some("name"));
    assert_replays(&create(&app, "taken", json!({"name": "a"})), &first);

    let body = json!({"name": "b", "template_id": "tpl_000000000000"});
    let first = create(&app, "unknown", body.clone());
    first.expect_error(404, "template_not_found", Some("template_id"));
    assert_replays(&create(&app, "unknown", body), &first);

    let first = create(&app, "bad", json!({"name": "a b"}));
    first.expect_error(400, "invalid_room_name", Some("name"));
    assert_replays(&create(&app, "bad", json!({"name": "a b"})), &first);
    create(&app, "bad", json!({"name": "ab"})).expect_error(409, "idempotency_key_reuse", None);
}

#[test]
fn errors_before_the_operation_are_not_stored() {
    let app = TestApp::start();
    let post = || {
        app.post("/v1/rooms")
            .json(json!({"name": "a"}))
            .idempotency_key("k")
    };
    post()
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
    post()
        .header("content-type", "text/plain")
        .send()
        .expect_error(415, "unsupported_media_type", None);
    let large = post().raw("x".repeat(65_537)).idempotency_key("k").send();
    large.expect_error(413, "payload_too_large", None);
    post()
        .header("origin", "https://evil.example")
        .send()
        .expect_error(403, "origin_rejected", None);
    let made = post().send();
    made.expect(201);
    assert_eq!(made.headers.get("idempotency-replayed"), None);
}

#[test]
fn a_429_is_not_stored() {
    let app = TestApp::start_with(|config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = 1;
    });
    app.get("/v1/rooms").send().expect(200);
    create(&app, "k", json!({"name": "a"})).expect_error(429, "rate_limited", None);
    app.advance(Duration::from_secs(1));
    create(&app, "k", json!({"name": "a"})).expect(201);
}

#[test]
fn a_replay_counts_against_the_rate_and_needs_the_credential() {
    let app = TestApp::start();
    create(&app, "k", json!({"name": "a"})).expect(201);
    let request = app
        .post("/v1/rooms")
        .json(json!({"name": "a"}))
        .idempotency_key("k");
    request
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn stored_answers_survive_a_restart() {
    let app = TestApp::start();
    let first = create(&app, "k", json!({"name": "a"}));
    let mint = |app: &TestApp| {
        app.post("/v1/tokens")
            .json(json!({"room": "a", "identity": "x"}))
            .idempotency_key("t")
            .send()
    };
    let token = mint(&app);
    token.expect(201);
    let app = app.restart();
    assert_replays(&create(&app, "k", json!({"name": "a"})), &first);
    assert_replays(&mint(&app), &token);
    create(&app, "k", json!({"name": "b"})).expect_error(409, "idempotency_key_reuse", None);
}

#[test]
fn an_answer_is_stored_for_24_hours() {
    let app = TestApp::start();
    let body = json!({"name": "a", "empty_timeout_seconds": 1_000_000});
    let first = create(&app, "k", body.clone());
    first.expect(201);
    app.advance(Duration::from_secs(24 * 60 * 60 - 1));
    assert_replays(&create(&app, "k", body.clone()), &first);
    app.advance(Duration::from_secs(1));
    create(&app, "k", body).expect_error(409, "room_exists", Some("name"));
    create(&app, "k", json!({"name": "b"})).expect_error(409, "idempotency_key_reuse", None);
}

/// Proves R-15.
#[test]
fn concurrent_calls_with_one_key_run_once_and_get_the_same_answer() {
    let app = TestApp::start_with(|config| config.http.workers = 4);
    for round in 0..5 {
        let body = json!({"name": format!("t{round}")});
        let post = || {
            app.post("/v1/templates")
                .json(body.clone())
                .idempotency_key(&format!("k{round}"))
                .send()
        };
        let answers: Vec<Response> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..4).map(|_| scope.spawn(post)).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let replays = answers
            .iter()
            .filter(|answer| answer.headers.contains_key("idempotency-replayed"))
            .count();
        assert_eq!(replays, 3);
        for answer in &answers {
            answer.expect(201);
            assert_eq!(answer.text(), answers[0].text());
        }
    }
    let listed = app.get("/v1/templates").send().expect(200);
    assert_eq!(listed["templates"].as_array().unwrap().len(), 6);
}

#[test]
fn concurrent_calls_with_one_key_and_different_bodies_run_once() {
    let app = TestApp::start_with(|config| config.http.workers = 2);
    let make = |name: &'static str| create(&app, "k", json!({"name": name}));
    let (one, two) = std::thread::scope(|scope| {
        let (one, two) = (scope.spawn(|| make("a")), scope.spawn(|| make("b")));
        (one.join().unwrap().status, two.join().unwrap().status)
    });
    assert_eq!((one.min(two), one.max(two)), (201, 409));
    assert_eq!(rooms(&app), 1);
}

#[test]
fn a_key_has_1_to_255_printable_characters() {
    let app = TestApp::start();
    let field = Some("Idempotency-Key");
    create(&app, "", json!({"name": "a"})).expect_error(400, "invalid_request", field);
    create(&app, &"k".repeat(256), json!({"name": "a"})).expect_error(
        400,
        "invalid_request",
        field,
    );
    create(&app, "schlüssel", json!({"name": "a"})).expect_error(400, "invalid_request", field);
    create(&app, "a\tb", json!({"name": "a"})).expect_error(400, "invalid_request", field);
    assert_eq!(rooms(&app), 0);
    create(&app, &"k".repeat(255), json!({"name": "a"})).expect(201);
    create(&app, "~ !\"#{}", json!({"name": "b"})).expect(201);
}

#[test]
fn two_keys_in_one_request_are_refused() {
    let app = TestApp::start();
    let head = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Idempotency-Key: one\r\nIdempotency-Key: two\r\nContent-Length: 12\r\nConnection: close\r\n\r\n\
         {{\"name\":\"a\"}}",
        app.key
    );
    let answer = exchange(&app, head.as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 400") && answer.contains("\"field\":\"Idempotency-Key\""),
        "{answer}"
    );
    assert_eq!(rooms(&app), 0);
}

#[test]
fn operations_without_idempotency_ignore_a_key() {
    let app = TestApp::start();
    let path = format!("/v1/templates/{}/roles/x", template(&app, "t", &json!({})));
    let put = |body: Value| app.put(&path).json(body).idempotency_key("k").send();
    put(json!({})).expect(201);
    assert_eq!(put(json!({"priority": 1})).expect(200)["priority"], 1);
    app.get("/v1/rooms").idempotency_key("").send().expect(200);
    let settings = format!("/v1/templates/{}", default_template(&app));
    app.patch(&settings)
        .json(json!({}))
        .idempotency_key("")
        .send()
        .expect(200);
}

/// Opens a room with three participants: the first may mute, unmute and record, the second may only mute, and the third has no permissions.
fn stage() -> TestApp {
    let app = TestApp::start();
    let all = json!({"mute_others": true, "unmute_others": true, "record": true});
    let roles = json!({"chair": {"permissions": all}, "usher": {"permissions": {"mute_others": true}}, "guest": {}});
    app.room_with_roles("stage", &roles);
    app
}

/// Returns a call with a room token and an idempotency key.
fn by_token(app: &TestApp, token: &str, path: &str, key: &str, body: Value) -> Response {
    let request = app
        .post(path)
        .anonymous()
        .header("x-svc-room-token", token)
        .idempotency_key(key);
    if body.is_null() {
        request.send()
    } else {
        request.json(body).send()
    }
}

const RECORDINGS: &str = "/v1/rooms/stage/recordings";

#[test]
fn an_error_for_a_participant_is_replayed_only_to_that_participant() {
    let app = stage();
    let [guest, chair] = ["guest", "chair"].map(|role| app.token("stage", role, role));
    let record = |token: &str| {
        by_token(
            &app,
            token,
            RECORDINGS,
            "k",
            json!({"type": "room_composite"}),
        )
    };
    let refused = record(&guest);
    refused.expect_error(403, "permission_denied", Some("record"));
    assert_replays(&record(&guest), &refused);
    // The same participant's newer token is the same caller.
    app.advance(Duration::from_secs(5));
    assert_replays(&record(&app.token("stage", "guest", "guest")), &refused);
    let other_body = by_token(
        &app,
        &guest,
        RECORDINGS,
        "k",
        json!({"type": "room_composite", "layout": "grid"}),
    );
    other_body.expect_error(409, "idempotency_key_reuse", None);
    // A participant with the permission does not get that response; its own is stored under the key from then on.
    let started = record(&chair);
    started.expect(201);
    assert_replays(&record(&chair), &started);
    let body = json!({"type": "room_composite"});
    assert_replays(
        &app.post(RECORDINGS).json(body).idempotency_key("k").send(),
        &started,
    );
    assert_replays(&record(&guest), &refused);
    let app = app.restart();
    let record = |token: &str| {
        by_token(
            &app,
            token,
            RECORDINGS,
            "k",
            json!({"type": "room_composite"}),
        )
    };
    assert_replays(&record(&guest), &refused);
    assert_replays(&record(&chair), &started);
    assert_eq!(
        app.get(RECORDINGS).send().expect(200)["recordings"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// Proves S-59.
#[test]
fn an_answer_is_replayed_only_to_participants_with_the_permission() {
    let app = stage();
    let sid = app.join("stage", "alice", "guest");
    let track = app.publish(&sid, "audio", "microphone");
    let path = "/v1/rooms/stage/participants/alice/mute";
    let [guest, usher, chair] =
        ["guest", "usher", "chair"].map(|role| app.token("stage", role, role));
    for (muted, field) in [(true, "mute_others"), (false, "unmute_others")] {
        let (body, key) = (json!({"track_sid": track, "muted": muted}), field);
        let first = app
            .post(path)
            .json(body.clone())
            .idempotency_key(key)
            .send();
        first.expect(200);
        let mute = |token: &str| by_token(&app, token, path, key, body.clone());
        mute(&guest).expect_error(403, "permission_denied", Some(field));
        assert_replays(&mute(&chair), &first);
        if muted {
            assert_replays(&mute(&usher), &first);
        } else {
            mute(&usher).expect_error(403, "permission_denied", Some(field));
        }
    }
    // A demoted participant gets its own response again, as every retry must, but no other participant's response.
    app.join("stage", "chair", "chair");
    let body = json!({"track_sid": track, "muted": true});
    let mine = by_token(&app, &chair, path, "mine", body.clone());
    mine.expect(200);
    let theirs = app
        .post(path)
        .json(body.clone())
        .idempotency_key("theirs")
        .send();
    let demote = app
        .post("/v1/rooms/stage/participants/chair/role")
        .json(json!({"role": "guest"}))
        .send();
    demote.expect(200);
    assert_replays(&by_token(&app, &chair, path, "mine", body.clone()), &mine);
    assert_replays(
        &app.post(path)
            .json(body.clone())
            .idempotency_key("theirs")
            .send(),
        &theirs,
    );
    let replay = by_token(&app, &chair, path, "theirs", body);
    replay.expect_error(403, "permission_denied", Some("mute_others"));
}

#[test]
fn a_stop_is_replayed_only_to_participants_of_its_room() {
    let app = stage();
    app.room_with_roles(
        "elsewhere",
        &json!({"chair": {"permissions": {"record": true}}}),
    );
    let chair = app.token("stage", "chair", "chair");
    let stranger = app.token("elsewhere", "chair", "chair");
    let recording = by_token(
        &app,
        &chair,
        RECORDINGS,
        "start",
        json!({"type": "room_composite"}),
    )
    .expect(201);
    let path = format!(
        "/v1/recordings/{}/stop",
        recording["egress_id"].as_str().unwrap()
    );
    let stop = |token: &str| by_token(&app, token, &path, "stop", Value::Null);
    let unknown = stop(&stranger);
    unknown.expect_error(404, "recording_not_found", None);
    let stopped = stop(&chair);
    assert_eq!(stopped.expect(200)["status"], "ending");
    assert_replays(&stop(&chair), &stopped);
    assert_replays(&stop(&stranger), &unknown);
    let other = app.token("elsewhere", "other", "chair");
    stop(&other).expect_error(404, "recording_not_found", None);
    assert_replays(&app.post(&path).idempotency_key("stop").send(), &stopped);
}
