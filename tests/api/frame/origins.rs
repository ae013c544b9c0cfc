//! Browsers on other origins.

use conclave::config::Config;
use serde_json::json;

use crate::support::{Request, Response, TestApp};

const CONSOLE: &str = "https://console.example.org";
const BROWSER: &str = "https://app.example.org";
const EVIL: &str = "https://evil.example.org";

fn configured(config: &mut Config) {
    config.http = serde_json::from_value(json!({
        "listen": "127.0.0.1:0", "workers": 1, "console_origins": [CONSOLE], "browser_origins": [BROWSER]
    }))
    .unwrap();
}

fn preflight(app: &TestApp, path: &str, origin: &str, method: &str) -> Response {
    let request: Request = app.request("OPTIONS", path).anonymous();
    request
        .header("origin", origin)
        .header("access-control-request-method", method)
        .send()
}

fn allowed_origin(answer: &Response) -> Option<&str> {
    answer
        .headers
        .get("access-control-allow-origin")
        .map(String::as_str)
}

/// Proves S-73.
#[test]
fn a_key_from_a_browser_on_another_origin_is_refused() {
    let app = TestApp::start_with(configured);
    for origin in [
        EVIL,
        BROWSER,
        "null",
        "https://console.example.org.evil.example",
        "garbage",
        "",
    ] {
        let answer = app
            .post("/v1/rooms")
            .json(json!({"name": "a"}))
            .header("origin", origin)
            .send();
        answer.expect_error(403, "origin_rejected", None);
        assert_eq!(allowed_origin(&answer), None, "{origin}");
    }
    app.get("/v1/rooms/a")
        .send()
        .expect_error(404, "room_not_found", None);
}

#[test]
fn the_servers_own_origin_and_the_console_may_call_with_a_key() {
    let app = TestApp::start_with(configured);
    app.get("/v1/rooms")
        .header("origin", &app.api)
        .send()
        .expect(200);
    let answer = app.get("/v1/rooms").header("origin", CONSOLE).send();
    answer.expect(200);
    assert_eq!(allowed_origin(&answer), Some(CONSOLE));
    assert!(
        answer.headers["vary"]
            .to_ascii_lowercase()
            .contains("origin")
    );
    let refused = app.get("/v1/rooms/nobody").header("origin", CONSOLE).send();
    refused.expect_error(404, "room_not_found", None);
    assert_eq!(
        allowed_origin(&refused),
        Some(CONSOLE),
        "the console can read refusals too"
    );
}

#[test]
fn without_configuration_only_the_servers_own_origin_may_call() {
    let app = TestApp::start();
    app.get("/v1/rooms")
        .header("origin", CONSOLE)
        .send()
        .expect_error(403, "origin_rejected", None);
    app.get("/v1/rooms")
        .header("origin", &app.api)
        .send()
        .expect(200);
    assert_eq!(
        allowed_origin(&preflight(&app, "/v1/rooms", CONSOLE, "POST")),
        None
    );
}

#[test]
fn preflight_is_answered_to_the_console_for_every_call() {
    let app = TestApp::start_with(configured);
    for (path, method) in [
        ("/v1/rooms", "POST"),
        ("/v1/rooms/a", "DELETE"),
        ("/v1/templates/x/roles/y", "PUT"),
    ] {
        let answer = preflight(&app, path, CONSOLE, method);
        answer.expect_empty(204);
        assert_eq!(allowed_origin(&answer), Some(CONSOLE));
        assert_eq!(answer.headers["access-control-allow-methods"], method);
        let headers = answer.headers["access-control-allow-headers"].to_ascii_lowercase();
        for header in [
            "authorization",
            "content-type",
            "idempotency-key",
            "x-svc-room-token",
        ] {
            assert!(headers.contains(header), "{headers}");
        }
        assert!(
            !answer
                .headers
                .contains_key("access-control-allow-credentials")
        );
    }
}

#[test]
fn preflight_is_answered_to_browser_origins_only_for_room_token_calls() {
    let app = TestApp::start_with(configured);
    let answer = preflight(&app, "/v1/rooms/a", BROWSER, "DELETE");
    answer.expect_empty(204);
    assert_eq!(allowed_origin(&answer), Some(BROWSER));
    for (path, method) in [
        ("/v1/rooms", "POST"),
        ("/v1/rooms/a", "GET"),
        ("/v1/tokens", "POST"),
    ] {
        let answer = preflight(&app, path, BROWSER, method);
        answer.expect_error(403, "origin_rejected", None);
        assert_eq!(allowed_origin(&answer), None);
    }
}

#[test]
fn preflight_is_refused_to_other_origins_and_for_unsupported_methods() {
    let app = TestApp::start_with(configured);
    preflight(&app, "/v1/rooms/a", EVIL, "DELETE").expect_error(403, "origin_rejected", None);
    let answer = preflight(&app, "/v1/rooms/a", CONSOLE, "PATCH");
    assert!(
        allowed_origin(&answer).is_none() && answer.status >= 400,
        "{answer:?}"
    );
}

#[test]
fn a_browser_origin_may_moderate_with_the_room_token_header_and_read_the_answer() {
    let app = TestApp::start_with(configured);
    app.room("a");
    let token = app.token("a", "alice", "host");
    let end = |origin: &str| {
        app.delete("/v1/rooms/a")
            .anonymous()
            .header("origin", origin)
    };
    end(BROWSER)
        .bearer(&token)
        .send()
        .expect_error(403, "origin_rejected", None);
    let guest = app.token("a", "bob", "guest");
    let refused = end(BROWSER).header("x-svc-room-token", &guest).send();
    refused.expect_error(403, "permission_denied", Some("end_room"));
    assert_eq!(allowed_origin(&refused), Some(BROWSER));
    let answer = end(BROWSER).header("x-svc-room-token", &token).send();
    answer.expect_empty(204);
    assert_eq!(allowed_origin(&answer), Some(BROWSER));
}

#[test]
fn a_request_without_an_origin_is_not_from_a_browser() {
    let app = TestApp::start_with(configured);
    let answer = app.get("/v1/rooms").send();
    answer.expect(200);
    assert_eq!(allowed_origin(&answer), None);
}
