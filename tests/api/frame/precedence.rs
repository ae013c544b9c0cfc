//! Error precedence when several errors apply.

use serde_json::json;

use crate::support::{Request, TestApp};
use crate::tools::{conclave, other_project};

const EVIL: &str = "https://evil.example.org";

/// Returns a request by key with all possible errors: origin, size, media type, query and body.
fn all_wrong(app: &TestApp) -> Request {
    app.post("/v1/rooms?x=1")
        .raw("x".repeat(70_000))
        .header("content-type", "text/plain")
        .header("origin", EVIL)
}

#[test]
fn a_missing_key_is_reported_before_any_fault_of_the_request() {
    let app = TestApp::start();
    all_wrong(&app)
        .bearer("nonsense")
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn the_rate_of_an_address_is_checked_before_the_key() {
    let app = TestApp::start_with(|config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = 1;
    });
    all_wrong(&app)
        .bearer("nonsense")
        .send()
        .expect_error(401, "unauthorized", None);
    all_wrong(&app)
        .bearer("nonsense")
        .send()
        .expect_error(429, "rate_limited", None);
}

#[test]
fn the_origin_is_checked_before_the_rate_of_the_key_and_that_before_the_body() {
    let app = TestApp::start_with(|config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = 1;
    });
    app.get("/v1/rooms").send().expect(200);
    all_wrong(&app)
        .send()
        .expect_error(403, "origin_rejected", None);
    all_wrong(&app)
        .without("origin")
        .send()
        .expect_error(429, "rate_limited", None);
}

#[test]
fn the_size_is_checked_before_the_media_type_and_that_before_the_content() {
    let app = TestApp::start();
    all_wrong(&app)
        .without("origin")
        .send()
        .expect_error(413, "payload_too_large", None);
    let short = app
        .post("/v1/rooms?x=1")
        .raw("x")
        .header("content-type", "text/plain");
    short
        .send()
        .expect_error(415, "unsupported_media_type", None);
}

#[test]
fn a_malformed_request_is_reported_before_a_missing_permission() {
    let app = TestApp::start();
    app.room("a");
    let guest = app.token("a", "alice", "guest");
    app.delete("/v1/rooms/a?x=1")
        .bearer(&guest)
        .send()
        .expect_error(400, "invalid_request", Some("x"));
    app.delete("/v1/rooms/a")
        .bearer(&guest)
        .send()
        .expect_error(403, "permission_denied", Some("end_room"));
}

#[test]
fn a_suspended_project_is_reported_after_400_and_before_404_and_409() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let post = |body| app.post("/v1/rooms").bearer(&other.key).json(body).send();
    post(json!({"name": "a"})).expect(201);
    conclave(&app, &["project", "suspend", &other.project]);
    post(json!({"name": "a b"})).expect_error(400, "invalid_room_name", Some("name"));
    post(json!({"name": "a"})).expect_error(402, "quota_exceeded", None);
    let missing = json!({"name": "b", "template_id": "tpl_000000000000"});
    post(missing).expect_error(402, "quota_exceeded", None);
}

#[test]
fn not_found_is_reported_before_conflicts() {
    let app = TestApp::start();
    app.room("a");
    let body = json!({"name": "a", "template_id": "tpl_000000000000"});
    app.post("/v1/rooms").json(body).send().expect_error(
        404,
        "template_not_found",
        Some("template_id"),
    );
    app.delete("/v1/rooms/a").send().expect_empty(204);
    let body = json!({"room": "a", "identity": "x", "role": "ghost"});
    let answer = app.post("/v1/tokens").json(body).send();
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (404, &json!("role_not_found"))
    );
}

#[test]
fn the_plans_room_limit_is_reported_before_a_missing_template_and_a_used_name() {
    let app = TestApp::start();
    let other = other_project(&app, "free");
    let post = |body| app.post("/v1/rooms").bearer(&other.key).json(body).send();
    post(json!({"name": "a"})).expect(201);
    post(json!({"name": "b"})).expect(201);
    post(json!({"name": "a"})).expect_error(402, "room_limit_reached", None);
    let missing = json!({"name": "c", "template_id": "tpl_000000000000"});
    post(missing).expect_error(402, "room_limit_reached", None);
}

#[test]
fn not_found_is_reported_before_an_ended_room_and_that_before_a_missing_feature() {
    let app = TestApp::start();
    app.room("a");
    app.delete("/v1/rooms/a").send().expect_empty(204);
    conclave(&app, &["project", "set-plan", &app.project, "free"]);
    for (path, mut body) in [
        ("/v1/rooms/a/recordings", json!({"type": "room_composite"})),
        (
            "/v1/rooms/a/broadcasts",
            json!({"urls": ["rtmp://8.8.8.8/a/b"]}),
        ),
    ] {
        app.post(path)
            .json(body.clone())
            .send()
            .expect_error(409, "room_ended", None);
        body.as_object_mut().unwrap().remove("urls");
        body["destination"] = json!("nowhere");
        app.post(path).json(body).send().expect_error(
            404,
            "destination_not_found",
            Some("destination"),
        );
    }
}
