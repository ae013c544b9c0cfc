//! Unknown routes and methods, and properties that all responses share.

use serde_json::json;

use crate::support::TestApp;
use crate::tools::{assert_envelope, exchange};

#[test]
fn an_unknown_route_answers_with_the_error_envelope() {
    let app = TestApp::start();
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/rooms",
        "/v1/nothing",
        "/v1/rooms/",
        "/v1/rooms/a/b/c/d",
        "//v1/rooms",
    ] {
        app.get(path).send().expect_error(404, "not_found", None);
        app.post(path)
            .anonymous()
            .json(json!({}))
            .send()
            .expect_error(404, "not_found", None);
    }
}

#[test]
fn the_admin_surface_is_not_on_the_api_listener() {
    let app = TestApp::start();
    for path in ["/readyz", "/metrics", "/debug/actors", "/sandbox/join"] {
        app.get(path).send().expect_error(404, "not_found", None);
    }
}

#[test]
fn an_unsupported_method_is_405_with_the_allowed_ones() {
    let app = TestApp::start();
    for (method, path, allowed) in [
        ("PUT", "/v1/rooms", "POST, GET, HEAD"),
        ("DELETE", "/v1/tokens", "POST"),
        ("POST", "/v1/rooms/a", "GET, HEAD, DELETE"),
        ("GET", "/v1/tokens", "POST"),
        (
            "PATCH",
            "/v1/templates/tpl_000000000000/roles/host",
            "PUT, GET, HEAD, DELETE",
        ),
        ("OPTIONS", "/v1/rooms", "POST, GET, HEAD"),
        ("PURGE", "/v1/rooms", "POST, GET, HEAD"),
    ] {
        let answer = app.request(method, path).send();
        answer.expect_error(405, "method_not_allowed", None);
        assert_eq!(answer.headers["allow"], allowed, "{method} {path}");
    }
}

#[test]
fn paths_outside_the_operations_answer_with_the_error_envelope_too() {
    let app = TestApp::start();
    for path in ["/healthz", "/openapi.json"] {
        let answer = app.post(path).send();
        answer.expect_error(405, "method_not_allowed", None);
        assert_eq!(answer.headers["allow"], "GET, HEAD", "{path}");
    }
    for (method, path, allowed) in [
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/readyz", "GET, HEAD"),
        ("PUT", "/metrics", "GET, HEAD"),
        ("DELETE", "/debug/actors", "GET, HEAD"),
        ("DELETE", "/debug/actors/system", "GET, HEAD"),
        ("POST", "/debug/events", "GET, HEAD"),
        ("POST", "/docs", "GET, HEAD"),
        ("GET", "/sandbox/join", "POST"),
        ("GET", "/sandbox/outage", "POST"),
        ("POST", "/sandbox/participants/PA_1", "GET, HEAD"),
    ] {
        let answer = app.admin(method, path).send();
        answer.expect_error(405, "method_not_allowed", None);
        assert_eq!(answer.headers["allow"], allowed, "{method} {path}");
    }
    for path in ["/nope", "/sandbox/nope", "/sandbox"] {
        app.admin("POST", path)
            .send()
            .expect_error(404, "not_found", None);
    }
}

#[test]
fn every_answer_has_its_own_request_id() {
    let app = TestApp::start();
    let answers = [
        app.get("/v1/rooms").send(),
        app.get("/v1/rooms").anonymous().send(),
        app.get("/v1/nothing").send(),
        app.put("/v1/rooms").send(),
        app.post("/v1/rooms").raw("{").send(),
        app.post("/v1/rooms").json(json!({"name": "a"})).send(),
        app.delete("/v1/rooms/a").send(),
        app.get("/healthz").send(),
    ];
    let ids: std::collections::BTreeSet<_> = answers
        .iter()
        .map(|answer| &answer.headers["x-request-id"])
        .collect();
    assert_eq!(ids.len(), answers.len());
    assert!(
        ids.iter().all(|id| uuid::Uuid::parse_str(id).is_ok()),
        "{ids:?}"
    );
}

#[test]
fn malformed_json_is_400_without_a_field() {
    let app = TestApp::start();
    let bodies: [&[u8]; 12] = [
        b"",
        b"   ",
        b"{",
        b"{\"name\":\"a\"",
        b"{\"name\":\"a\"}}",
        b"{\"name\":\"a\"} {}",
        b"{'name':'a'}",
        b"[]",
        b"null",
        b"\"a\"",
        b"{\"name\":\"\xff\"}",
        b"\xef\xbb\xbf{\"name\":\"a\"}",
    ];
    for body in bodies {
        app.post("/v1/rooms")
            .raw(body)
            .send()
            .expect_error(400, "invalid_request", None);
    }
    let twice = app
        .post("/v1/rooms")
        .raw(r#"{"name":"a","name":"b"}"#)
        .send();
    twice.expect_error(400, "invalid_request", Some("name"));
}

#[test]
fn a_request_that_is_not_http_does_no_harm() {
    let app = TestApp::start();
    for bytes in [
        &b"\x00\x01\x02\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /v1/rooms HTTP/9.9\r\n\r\n",
    ] {
        let answer = exchange(&app, bytes);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    app.get("/v1/rooms").send().expect(200);
}

#[test]
fn unusual_paths_are_answered_with_the_error_envelope() {
    let app = TestApp::start();
    for path in [
        "/v1/rooms/%00",
        "/v1/rooms/%2e%2e",
        "/v1/rooms/a%2Fb",
        "/v1/rooms/%",
        "/v1/rooms/%zz",
        "/v1/rooms/a;b",
    ] {
        for method in ["GET", "DELETE"] {
            let answer = app.request(method, path).send();
            assert!(
                (400..500).contains(&answer.status),
                "{method} {path}: {}",
                answer.text()
            );
            assert_envelope(&answer);
        }
    }
}
