//! Every error code, each produced over HTTP by the shortest scenario. A code without a scenario fails.

use std::time::Duration;

use conclave_model::ErrorCode;
use livekit_double::Fault;
use serde_json::{Value, json};

use crate::livekit::livekit;
use crate::support::{FakeBilling, Receiver, Response, TestApp};
use crate::tools::{
    answered, conclave, default_template, exchange, other_project, parsed, repeat_ban, room_on,
    template,
};
use crate::webrtc::whip::ConnectedEncoder;

/// Runs a scenario and returns its last response. The app is shared, so resources are named after the scenario's code.
type Scenario = fn(&TestApp) -> Response;

/// The scenarios. A new code needs a scenario.
const SCENARIOS: &[(ErrorCode, Scenario)] = &[
    (ErrorCode::InvalidRequest, |app| create(app, json!({}))),
    (ErrorCode::InvalidRoomName, |app| {
        create(app, json!({"name": "no spaces"}))
    }),
    (ErrorCode::InvalidIdentity, |app| {
        mint(app, json!({"room": "a", "identity": "no spaces"}))
    }),
    (ErrorCode::InvalidUrl, |app| {
        register(app, "ftp://example.org")
    }),
    (ErrorCode::BlockedUrl, |app| {
        register(app, "http://10.0.0.1/hook")
    }),
    (ErrorCode::InvalidFilepath, invalid_filepath),
    (ErrorCode::Unauthorized, |app| {
        app.get("/v1/rooms").anonymous().send()
    }),
    (ErrorCode::PermissionDenied, permission_denied),
    (ErrorCode::OriginRejected, |app| {
        app.get("/v1/rooms")
            .header("origin", "https://evil.example.org")
            .send()
    }),
    (ErrorCode::RoomLimitReached, room_limit_reached),
    (ErrorCode::QuotaExceeded, quota_exceeded),
    (ErrorCode::FeatureNotInPlan, feature_not_in_plan),
    (ErrorCode::InsufficientBalance, insufficient_balance),
    (ErrorCode::NotFound, |app| app.get("/v1/nothing").send()),
    (ErrorCode::RoomNotFound, |app| {
        app.get("/v1/rooms/nowhere").send()
    }),
    (ErrorCode::ParticipantNotFound, participant_not_found),
    (ErrorCode::TrackNotFound, track_not_found),
    (ErrorCode::SessionNotFound, |app| {
        app.get(&format!("/v1/sessions/{NO_ID}")).send()
    }),
    (ErrorCode::TemplateNotFound, |app| {
        app.get("/v1/templates/tpl_000000000000").send()
    }),
    (ErrorCode::RoleNotFound, |app| {
        app.get(&format!(
            "/v1/templates/{}/roles/none",
            default_template(app)
        ))
        .send()
    }),
    (ErrorCode::DestinationNotFound, |app| {
        app.get(&format!("{}/none", destinations(app))).send()
    }),
    (ErrorCode::RecordingNotFound, |app| {
        app.get("/v1/recordings/EG_none").send()
    }),
    (ErrorCode::IngressNotFound, |app| {
        app.get("/v1/ingress/IN_none").send()
    }),
    (ErrorCode::BroadcastNotFound, |app| {
        app.get("/v1/broadcasts/EG_none").send()
    }),
    (ErrorCode::EndpointNotFound, |app| {
        app.delete(&format!("/v1/webhook-endpoints/{NO_ID}")).send()
    }),
    (ErrorCode::DeliveryNotFound, |app| {
        app.post(&format!("/v1/webhook-deliveries/{NO_ID}/retry"))
            .send()
    }),
    (ErrorCode::CodeNotFound, |app| {
        app.post("/v1/codes/abcd-efgh-jkmn/exchange")
            .anonymous()
            .send()
    }),
    (ErrorCode::BanNotFound, |app| {
        app.room("unbanned");
        app.delete("/ext/v1/rooms/unbanned/bans/alice").send()
    }),
    (ErrorCode::IdentityBanned, identity_banned),
    (ErrorCode::BanLimitReached, ban_limit_reached),
    (ErrorCode::MethodNotAllowed, |app| {
        app.put("/v1/rooms").json(json!({})).send()
    }),
    (ErrorCode::RequestTimeout, request_timeout),
    (ErrorCode::RoomExists, room_exists),
    (ErrorCode::RoomEnded, room_ended),
    (ErrorCode::IdempotencyKeyReuse, idempotency_key_reuse),
    (ErrorCode::TemplateExists, template_exists),
    (ErrorCode::TemplateInUse, template_in_use),
    (ErrorCode::TemplateIsDefault, |app| {
        app.delete(&format!("/v1/templates/{}", default_template(app)))
            .send()
    }),
    (ErrorCode::DestinationExists, destination_exists),
    (ErrorCode::DestinationInUse, destination_in_use),
    (ErrorCode::RoleCapacityReached, role_capacity_reached),
    (ErrorCode::IdentityTaken, identity_taken),
    (ErrorCode::RoleReferenced, role_referenced),
    (ErrorCode::DeliveryNotRetryable, delivery_not_retryable),
    (ErrorCode::PayloadTooLarge, |app| {
        app.post("/v1/rooms").raw(vec![b' '; 65_537]).send()
    }),
    (ErrorCode::UnsupportedMediaType, unsupported_media_type),
    (ErrorCode::RateLimited, rate_limited),
    (ErrorCode::InternalError, internal_error),
    (ErrorCode::DatabaseUnavailable, database_unavailable),
    (ErrorCode::BillingUnavailable, billing_unavailable),
    (ErrorCode::DestinationUnusable, destination_unusable),
    (ErrorCode::MediaUnavailable, media_unavailable),
    (ErrorCode::RecordingExists, |_| {
        twice("recordings", &json!({"type": "room_composite"}))
    }),
    (ErrorCode::RecordingEnded, recording_ended),
    (ErrorCode::BroadcastExists, |_| {
        twice("broadcasts", &json!({"urls": ["rtmp://8.8.8.8/live/key"]}))
    }),
    (ErrorCode::IngressExists, |_| {
        twice(
            "ingress",
            &json!({"input_type": "rtmp", "participant_identity": "cam"}),
        )
    }),
    (ErrorCode::EncryptionUnavailable, encryption_unavailable),
    (ErrorCode::EncoderConnected, |_| {
        whip().request_of_second_encoder()
    }),
    (ErrorCode::PreconditionRequired, |_| whip().patch(None)),
    (ErrorCode::PreconditionFailed, |_| {
        whip().patch(Some("\"other\""))
    }),
];

const NO_ID: &str = "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21";

fn whip() -> ConnectedEncoder {
    ConnectedEncoder::start()
}

fn ban_limit_reached(app: &TestApp) -> Response {
    app.room("all-banned");
    let ban = |identity: &str| {
        let path = format!("/ext/v1/rooms/all-banned/bans/{identity}");
        app.put(&path).send()
    };
    ban("alice").expect(201);
    repeat_ban(app, "all-banned", 999);
    ban("bob")
}

fn identity_banned(app: &TestApp) -> Response {
    app.room("banned");
    app.put("/ext/v1/rooms/banned/bans/alice")
        .send()
        .expect(201);
    mint(app, json!({"room": "banned", "identity": "alice"}))
}

fn create(app: &TestApp, room: Value) -> Response {
    app.post("/v1/rooms").json(room).send()
}

fn mint(app: &TestApp, token: Value) -> Response {
    app.post("/v1/tokens").json(token).send()
}

fn register(app: &TestApp, url: &str) -> Response {
    app.post("/v1/webhook-endpoints")
        .json(json!({"url": url}))
        .send()
}

fn permission_denied(app: &TestApp) -> Response {
    app.room("permission_denied");
    let token = app.token("permission_denied", "alice", "guest");
    app.delete("/v1/rooms/permission_denied")
        .anonymous()
        .header("x-svc-room-token", &token)
        .send()
}

fn room_limit_reached(app: &TestApp) -> Response {
    let free = other_project(app, "free");
    let create = |name| {
        app.post("/v1/rooms")
            .bearer(&free.key)
            .json(json!({"name": name}))
            .send()
    };
    for name in ["first", "second"] {
        create(name).expect(201);
    }
    create("third")
}

fn quota_exceeded(app: &TestApp) -> Response {
    let stopped = other_project(app, "self_hosted");
    conclave(app, &["project", "suspend", &stopped.project]);
    app.post("/v1/rooms")
        .bearer(&stopped.key)
        .json(json!({"name": "a"}))
        .send()
}

fn insufficient_balance(_: &TestApp) -> Response {
    let service = FakeBilling::start();
    service.set_standing("insufficient_balance");
    let app = TestApp::start_with(|config| config.billing.url = Some(service.url.clone()));
    create(&app, json!({"name": "a"}))
}

fn invalid_filepath(app: &TestApp) -> Response {
    app.room("invalid_filepath");
    let body = json!({"type": "room_composite", "filepath": "../outside.mp4"});
    app.post("/v1/rooms/invalid_filepath/recordings")
        .json(body)
        .send()
}

fn feature_not_in_plan(app: &TestApp) -> Response {
    let free = other_project(app, "free");
    app.post("/v1/rooms")
        .bearer(&free.key)
        .json(json!({"name": "a"}))
        .send()
        .expect(201);
    app.post("/v1/rooms/a/recordings")
        .bearer(&free.key)
        .json(json!({"type": "room_composite"}))
        .send()
}

fn destinations(app: &TestApp) -> String {
    format!("/v1/templates/{}/destinations", default_template(app))
}

fn store(app: &TestApp, name: &str) -> Response {
    let config = json!({"urls": ["rtmp://8.8.8.8/live/key"]});
    app.post(&destinations(app))
        .json(json!({"name": name, "kind": "rtmp", "config": config}))
        .send()
}

fn broadcast_to(app: &TestApp, room: &str, destination: &str) -> Response {
    app.post(&format!("/v1/rooms/{room}/broadcasts"))
        .json(json!({"destination": destination}))
        .send()
}

fn destination_exists(app: &TestApp) -> Response {
    store(app, "destination_exists").expect(201);
    store(app, "destination_exists")
}

fn destination_in_use(app: &TestApp) -> Response {
    app.room("destination_in_use");
    store(app, "destination_in_use").expect(201);
    broadcast_to(app, "destination_in_use", "destination_in_use").expect(201);
    app.delete(&format!("{}/destination_in_use", destinations(app)))
        .send()
}

/// The operator lost the key that sealed the destination.
fn destination_unusable(_: &TestApp) -> Response {
    let app = TestApp::start();
    app.room("a");
    store(&app, "stream").expect(201);
    let another = app.data().join("another.key");
    app.forget_keys();
    let app = app
        .restart_with(|config| config.encryption.key_file = Some(another.to_str().unwrap().into()));
    broadcast_to(&app, "a", "stream")
}

/// LiveKit returns the same id twice. A protobuf string field is its tag, its length and its text.
fn twice(path: &str, body: &Value) -> Response {
    let (app, double) = livekit();
    app.room("a");
    let room = format!("{}.a", app.project);
    let field = |tag: char, text: &str| {
        format!(
            "{tag}{}{text}",
            char::from(u8::try_from(text.len()).unwrap())
        )
    };
    let egress = field('\u{a}', "EG_1") + &field('j', &room);
    let ingress = field('\u{a}', "IN_1")
        + &field('\u{1a}', "key")
        + &field('"', "rtmp://a/b")
        + &field('B', &room);
    for (method, answer) in [
        ("StartRoomCompositeEgress", egress),
        ("CreateIngress", ingress),
    ] {
        double.fail(
            method,
            Fault::Answer(200, "application/protobuf", answer.leak()),
        );
    }
    let start = || {
        app.post(&format!("/v1/rooms/a/{path}"))
            .json(body.clone())
            .send()
    };
    start().expect(201);
    start()
}

fn media_unavailable(_: &TestApp) -> Response {
    let app = TestApp::start();
    app.room("a");
    app.admin("POST", "/sandbox/outage")
        .json(json!({"seconds": 60}))
        .send()
        .expect(200);
    app.get("/v1/rooms/a/participants").send()
}

fn encryption_unavailable(_: &TestApp) -> Response {
    let app = TestApp::start_with(|config| config.encryption.key_file = Some("".into()));
    store(&app, "stream")
}

fn participant_not_found(app: &TestApp) -> Response {
    app.room("participant_not_found");
    app.get("/v1/rooms/participant_not_found/participants/nobody")
        .send()
}

fn track_not_found(app: &TestApp) -> Response {
    app.room("track_not_found");
    app.join("track_not_found", "alice", "host");
    let mute = app.post("/v1/rooms/track_not_found/participants/alice/mute");
    mute.json(json!({"track_sid": "TR_none", "muted": true}))
        .send()
}

fn request_timeout(_: &TestApp) -> Response {
    let app =
        TestApp::start_with(|config| config.http.request_timeout = Duration::from_millis(100));
    let head = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Length: 2\r\n\r\n{{",
        app.key
    );
    parsed(&answered(|| exchange(&app, head.as_bytes())))
}

fn room_exists(app: &TestApp) -> Response {
    app.room("room_exists");
    create(app, json!({"name": "room_exists"}))
}

fn room_ended(app: &TestApp) -> Response {
    app.room("room_ended");
    app.delete("/v1/rooms/room_ended").send().expect_empty(204);
    mint(app, json!({"room": "room_ended", "identity": "alice"}))
}

fn recording_ended(app: &TestApp) -> Response {
    app.room("recording_ended");
    let started = app
        .post("/v1/rooms/recording_ended/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
    let id = started["egress_id"].as_str().unwrap();
    app.post(&format!("/v1/recordings/{id}/stop"))
        .send()
        .expect(200);
    app.post(&format!("/ext/v1/recordings/{id}/pause")).send()
}

fn idempotency_key_reuse(app: &TestApp) -> Response {
    let create = |name| {
        app.post("/v1/rooms")
            .idempotency_key("once")
            .json(json!({"name": name}))
            .send()
    };
    create("idempotency_key_reuse").expect(201);
    create("another")
}

fn template_exists(app: &TestApp) -> Response {
    template(app, "template_exists", &json!({}));
    app.post("/v1/templates")
        .json(json!({"name": "template_exists"}))
        .send()
}

fn template_in_use(app: &TestApp) -> Response {
    let used = template(app, "template_in_use", &json!({}));
    room_on(app, "template_in_use", &used);
    app.delete(&format!("/v1/templates/{used}")).send()
}

fn role_capacity_reached(app: &TestApp) -> Response {
    app.room_with_roles(
        "role_capacity_reached",
        &json!({"closed": {"max_peer_count": -1}}),
    );
    mint(
        app,
        json!({"room": "role_capacity_reached", "identity": "alice", "role": "closed"}),
    )
}

fn identity_taken(app: &TestApp) -> Response {
    app.room("identity_taken");
    app.join("identity_taken", "alice", "host");
    let code = app
        .post("/v1/rooms/identity_taken/codes")
        .json(json!({"role": "guest"}))
        .send()
        .expect(201);
    let path = format!("/v1/codes/{}/exchange", code["code"].as_str().unwrap());
    app.post(&path)
        .anonymous()
        .json(json!({"identity": "alice"}))
        .send()
}

fn role_referenced(app: &TestApp) -> Response {
    let roles = json!({"audience": {"subscribe": {"to_roles": ["speaker"]}}, "speaker": {}});
    let referring = template(app, "role_referenced", &roles);
    app.delete(&format!("/v1/templates/{referring}/roles/speaker"))
        .send()
}

fn delivery_not_retryable(app: &TestApp) -> Response {
    let receiver = Receiver::start();
    // So that a delivery is pending after its first attempt, too, which is made at once.
    receiver.answer_with(500);
    let endpoint = app.endpoint(&receiver.url);
    app.room("delivery_not_retryable");
    app.join("delivery_not_retryable", "alice", "host");
    let pending = app.deliveries("status=pending").remove(0);
    let answer = app
        .post(&format!(
            "/v1/webhook-deliveries/{}/retry",
            pending["id"].as_str().unwrap()
        ))
        .send();
    app.delete(&format!(
        "/v1/webhook-endpoints/{}",
        endpoint["id"].as_str().unwrap()
    ))
    .send()
    .expect_empty(204);
    answer
}

fn unsupported_media_type(app: &TestApp) -> Response {
    app.post("/v1/rooms")
        .json(json!({"name": "a"}))
        .header("content-type", "text/plain")
        .send()
}

fn rate_limited(_: &TestApp) -> Response {
    let app = TestApp::start_with(|config| config.limits.burst = 1);
    app.get("/v1/rooms").send().expect(200);
    app.get("/v1/rooms").send()
}

/// The operator removes a project's plan from the plan file.
fn internal_error(_: &TestApp) -> Response {
    let app = TestApp::start();
    conclave(&app, &["project", "set-plan", &app.project, "free"]);
    let file = app.data().join("plans.toml");
    let left =
        "[self_hosted]\ndisplay_name = \"Left\"\nprice_ugx = 0\nlimits = {}\nfeatures = {}\n";
    std::fs::write(&file, left).unwrap();
    let app = app.restart_with(|config| config.plans.file = Some(file));
    app.get("/v1/plan").send()
}

/// Another process locks the database for longer than a write waits.
fn database_unavailable(_: &TestApp) -> Response {
    let app = TestApp::start();
    // Once this write is done, so are all writes at startup.
    app.room("before");
    let lock = app.records().lock();
    let refused = create(&app, json!({"name": "a"}));
    drop(lock);
    create(&app, json!({"name": "a"})).expect(201);
    refused
}

fn billing_unavailable(_: &TestApp) -> Response {
    let service = FakeBilling::start();
    let app = TestApp::start_with(|config| config.billing.url = Some(service.url.clone()));
    app.room("a");
    service.answer_with(test_http_server::Response::new(500));
    app.advance(Duration::from_secs(30));
    mint(&app, json!({"room": "a", "identity": "alice"}))
}

#[test]
fn every_code_is_produced_with_its_status() {
    let app = TestApp::start();
    // Sequential: on a busy machine, concurrent requests to one project are refused after a while.
    for (code, scenario) in SCENARIOS {
        yields(*code, &scenario(&app));
    }
}

#[track_caller]
fn yields(code: ErrorCode, answer: &Response) {
    let field = answer.json()["error"]["field"].as_str().map(str::to_owned);
    answer.expect_error(code.status(), code.as_str(), field.as_deref());
    // A lost key does not come back with time.
    let for_good = matches!(
        code,
        ErrorCode::DestinationUnusable | ErrorCode::EncryptionUnavailable
    );
    let waits = matches!(code.status(), 429 | 503) && !for_good;
    assert_eq!(
        answer.headers.contains_key("retry-after"),
        waits,
        "{}: {:?}",
        code.as_str(),
        answer.headers
    );
}

#[test]
fn every_code_has_one_scenario() {
    for code in ErrorCode::ALL {
        let scenarios = SCENARIOS
            .iter()
            .filter(|(yielded, _)| yielded == code)
            .count();
        assert_eq!(
            scenarios,
            1,
            "{} needs one scenario in tests/api/codes.rs",
            code.as_str()
        );
    }
}
