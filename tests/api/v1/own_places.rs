//! A token for a connected identity: its own seat does not count, so a client that reloads its page is admitted.

use std::time::Duration;

use livekit_protocol::DisconnectReason;
use serde_json::{Value, json};

use crate::livekit::livekit;
use crate::support::{Receiver, Request, Response, TestApp, eventually};
use crate::tools::{other_project, room_on, template};

fn mint(app: &TestApp, identity: &str, role: &str) -> Response {
    app.post("/v1/tokens")
        .json(json!({"room": "a", "identity": identity, "role": role}))
        .send()
}

fn full_role() -> Value {
    json!({"one": {"max_peer_count": 1}, "none": {"max_peer_count": -1}, "guest": {}})
}

fn full(answer: &Response) {
    answer.expect_error(409, "role_capacity_reached", Some("role"));
}

fn token_of(answer: &Response) -> String {
    answer.expect(201)["token"].as_str().unwrap().to_owned()
}

#[test]
fn the_holder_of_a_full_role_gets_a_token_for_it_and_replaces_itself() {
    let app = TestApp::start();
    room_on(&app, "a", &template(&app, "t", &full_role()));
    let first = app.join("a", "alice", "one");
    full(&mint(&app, "bob", "one"));
    full(&mint(&app, "alice", "none"));
    app.join_with(&token_of(&mint(&app, "alice", "one")))
        .expect(201);
    assert_eq!(app.view(&first)["participant"]["state"], "disconnected");
    assert_eq!(
        app.get("/v1/rooms/a/participants").send().expect(200)["participants"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // A participant with another role occupies a seat in this role.
    app.join("a", "bob", "guest");
    full(&mint(&app, "bob", "one"));
}

#[test]
fn a_code_that_is_locked_to_the_holder_of_a_full_role_gives_it_a_token() {
    let app = TestApp::start();
    room_on(&app, "a", &template(&app, "t", &full_role()));
    let exchange = |identity: &str| {
        let code = app
            .post("/v1/rooms/a/codes")
            .json(json!({"role": "one", "identity": identity}))
            .send()
            .expect(201);
        app.post(&format!(
            "/v1/codes/{}/exchange",
            code["code"].as_str().unwrap()
        ))
        .anonymous()
        .send()
    };
    app.join_with(&token_of(&exchange("alice"))).expect(201);
    app.join_with(&token_of(&exchange("alice"))).expect(201);
    full(&exchange("bob"));
}

#[test]
fn a_participant_of_a_room_with_the_plans_maximum_gets_a_token() {
    let app = TestApp::start();
    let other = other_project(&app, "free");
    let send = |path: &str, body: Value| app.post(path).bearer(&other.key).json(body).send();
    let template = send(
        "/v1/templates",
        json!({"name": "t", "roles": {"guest": {}}}),
    )
    .expect(201);
    send(
        "/v1/rooms",
        json!({"name": "a", "template_id": template["id"]}),
    )
    .expect(201);
    let mint = |identity: &str| send("/v1/tokens", json!({"room": "a", "identity": identity}));
    for number in 0..10 {
        app.join_with(&token_of(&mint(&format!("guest-{number}"))))
            .expect(201);
    }
    let over =
        |answer: Response| answer.expect_error(402, "quota_exceeded", Some("max_participants"));
    over(mint("alice"));
    app.join_with(&token_of(&mint("guest-3"))).expect(201);
    let exchange = |identity: &str| {
        let code = send(
            "/v1/rooms/a/codes",
            json!({"role": "guest", "identity": identity}),
        )
        .expect(201);
        app.post(&format!(
            "/v1/codes/{}/exchange",
            code["code"].as_str().unwrap()
        ))
        .anonymous()
        .send()
    };
    app.join_with(&token_of(&exchange("guest-4"))).expect(201);
    over(exchange("alice"));
    over(mint("alice"));
}

#[test]
fn the_holder_of_a_full_role_joins_livekit_again() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    room_on(&app, "a", &template(&app, "t", &full_role()));
    double
        .connect(&token_of(&mint(&app, "alice", "one")))
        .unwrap();
    app.wait_for_event("participant.joined", 1);
    let again = token_of(&mint(&app, "alice", "one"));
    full(&mint(&app, "bob", "one"));
    let second = double.connect(&again).unwrap();
    let active = || app.get("/v1/sessions?active=true").send().expect(200)["sessions"].clone();
    eventually(|| {
        let active = active();
        active[0]["participant_sid"] == json!(second) && active.as_array().unwrap().len() == 1
    });
    double.leave(
        &format!("{}.a", app.project),
        "alice",
        DisconnectReason::ClientInitiated,
    );
    eventually(|| active() == json!([]));
}

/// Returns the calls with a room token: a join, its dry run, moderation, and the call page's requests.
fn uses(app: &TestApp, token: &str) -> [u16; 4] {
    let with_token = |request: Request| {
        request
            .anonymous()
            .header("x-svc-room-token", token)
            .send()
            .status
    };
    let data = app
        .post("/v1/rooms/a/send-data")
        .json(json!({"data": "aGk="}));
    [
        app.join_with(token).status,
        app.validate(token).status,
        with_token(data),
        with_token(
            app.get("/call/role")
                .header("sec-fetch-site", "same-origin"),
        ),
    ]
}

#[test]
fn a_clock_that_is_set_back_by_up_to_a_minute_leaves_tokens_valid() {
    let app = TestApp::start_with_webrtc_and(|config| config.http.call_page = true);
    room_on(
        &app,
        "a",
        &template(
            &app,
            "t",
            &json!({"host": {"permissions": {"send_data": true}}}),
        ),
    );
    let by_code = app
        .post("/v1/rooms/a/codes")
        .json(json!({"role": "host"}))
        .send()
        .expect(201);
    let exchanged = app
        .post(&format!(
            "/v1/codes/{}/exchange",
            by_code["code"].as_str().unwrap()
        ))
        .anonymous();
    for token in [
        token_of(&mint(&app, "alice", "host")),
        token_of(&exchanged.send()),
    ] {
        assert_eq!(uses(&app, &token), [201, 200, 200, 200]);
        app.clock.step(-60_000);
        assert_eq!(uses(&app, &token), [201, 200, 200, 200]);
        app.clock.step(-1);
        assert_eq!(uses(&app, &token), [401, 401, 401, 401]);
        app.clock.step(60_001);
    }
    let short = app
        .post("/v1/tokens")
        .json(json!({"room": "a", "identity": "bob", "role": "host", "ttl_seconds": 60}));
    let token = token_of(&short.send());
    app.advance(Duration::from_secs(60));
    assert_eq!(
        uses(&app, &token),
        [401, 401, 401, 401],
        "there is no leeway at its end"
    );
}
