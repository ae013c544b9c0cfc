//! Bodies: at most 65536 bytes, and JSON.

use serde_json::json;

use crate::support::TestApp;
use crate::tools::exchange;

const LIMIT: usize = 65_536;

/// A request that closes its connection.
const NEXT: &str = "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Returns a body with exactly this many bytes that creates a room.
fn body(name: &str, length: usize) -> String {
    let frame = format!(r#"{{"name":"{name}","metadata":""}}"#);
    format!(
        r#"{{"name":"{name}","metadata":"{}"}}"#,
        "x".repeat(length - frame.len())
    )
}

/// Returns a chunked request, without an announced length.
fn chunked(app: &TestApp, body: &str) -> String {
    let head = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        app.key
    );
    let mut bytes = head.into_bytes();
    for chunk in body.as_bytes().chunks(10_000) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    exchange(app, &bytes)
}

#[test]
fn a_body_of_65536_bytes_is_accepted_and_one_more_byte_is_not() {
    let app = TestApp::start();
    app.post("/v1/rooms")
        .raw(body("fits", LIMIT))
        .send()
        .expect(201);
    let answer = app.post("/v1/rooms").raw(body("over", LIMIT + 1)).send();
    answer.expect_error(413, "payload_too_large", None);
    app.get("/v1/rooms/over")
        .send()
        .expect_error(404, "room_not_found", None);
}

#[test]
fn a_chunked_body_has_the_same_limit() {
    let app = TestApp::start();
    let answer = chunked(&app, &body("fits", LIMIT));
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let answer = chunked(&app, &body("over", LIMIT + 1));
    assert!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("payload_too_large"),
        "{answer}"
    );
    app.get("/v1/rooms/over")
        .send()
        .expect_error(404, "room_not_found", None);
}

#[test]
fn a_content_length_over_the_limit_is_refused_before_the_body_is_sent() {
    let app = TestApp::start();
    let head = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 99999999999\r\nConnection: close\r\n\r\n",
        app.key
    );
    let answer = exchange(&app, head.as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("payload_too_large"),
        "{answer}"
    );
}

#[test]
fn the_limit_holds_for_operations_without_a_body() {
    let app = TestApp::start();
    app.room("a");
    let answer = app.delete("/v1/rooms/a").raw("x".repeat(LIMIT + 1)).send();
    answer.expect_error(413, "payload_too_large", None);
    assert_eq!(app.get("/v1/rooms/a").send().json()["status"], "open");
}

#[test]
fn a_body_of_another_media_type_is_415() {
    let app = TestApp::start();
    let post = || app.post("/v1/rooms").raw(r#"{"name":"a"}"#);
    for value in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "application",
        "",
    ] {
        let answer = post().header("content-type", value).send();
        answer.expect_error(415, "unsupported_media_type", None);
    }
    let head = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Length: 12\r\n\
         Connection: close\r\n\r\n{{\"name\":\"a\"}}",
        app.key
    );
    assert!(exchange(&app, head.as_bytes()).starts_with("HTTP/1.1 415"));
    for value in ["application/json; charset=utf-8", "Application/JSON"] {
        let name = format!("r{}", value.len());
        app.post("/v1/rooms")
            .json(json!({"name": name}))
            .header("content-type", value)
            .send()
            .expect(201);
    }
}

#[test]
fn a_call_without_a_body_needs_no_media_type() {
    let app = TestApp::start();
    app.room("a");
    app.delete("/v1/rooms/a")
        .header("content-type", "text/plain")
        .send()
        .expect_empty(204);
}

/// Proves S-17.
#[test]
fn a_body_that_is_refused_unread_is_never_parsed_as_the_next_request() {
    let app = TestApp::start();
    app.room("a");
    let smuggled = format!(
        "DELETE /v1/rooms/a HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n\r\n",
        app.key
    );
    let body = format!("{smuggled}{}", " ".repeat(70_000));
    for (head, status) in [
        ("POST /v1/rooms", 401),
        ("POST /v1/nothing", 404),
        ("PUT /v1/rooms", 405),
        ("POST /v1/tokens", 401),
        ("GET /healthz", 200),
    ] {
        let request = format!(
            "{head} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(&app, (request + NEXT).as_bytes());
        assert!(
            answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{head}: {answer}"
        );
    }
    let head = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        app.key,
        body.len()
    );
    let answer = exchange(&app, (head + &body + NEXT).as_bytes());
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
        "{answer}"
    );
    assert_eq!(app.get("/v1/rooms/a").send().json()["status"], "open");
}

#[test]
fn a_client_that_waits_for_100_continue_receives_it() {
    let app = TestApp::start();
    let request = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: 12\r\nConnection: close\r\n\r\n{{\"name\":\"a\"}}",
        app.key
    );
    let answer = exchange(&app, request.as_bytes());
    assert!(answer.contains("HTTP/1.1 201"), "{answer}");
}
