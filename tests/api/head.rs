//! `HEAD`: on every path that takes `GET`, with the same status and headers and without a body.

use std::collections::BTreeMap;

use crate::contract::every_operation;
use crate::support::{Request, Response, TestApp};
use crate::tools::default_template;

/// Returns a response's headers, except headers that differ each time.
fn headers(answer: &Response) -> BTreeMap<&str, &str> {
    let headers = answer
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    headers
        .filter(|(name, _)| !["date", "x-request-id"].contains(name))
        .collect()
}

/// Sends a request as `GET` and as `HEAD`, compares them, and returns the status.
#[track_caller]
fn assert_same(request: impl Fn(&str) -> Request, path: &str) -> u16 {
    let (get, head) = (request("GET").send(), request("HEAD").send());
    assert_eq!(
        (get.status, headers(&get)),
        (head.status, headers(&head)),
        "{path}: {}",
        get.text()
    );
    assert_eq!(head.text(), "", "{path}");
    if let Some(length) = get.headers.get("content-length") {
        assert_eq!(length.parse(), Ok(get.body.len()), "{path}");
    }
    get.status
}

#[test]
fn every_operation_that_takes_get_takes_head_with_the_same_checks() {
    let app = TestApp::start();
    app.room("standup");
    let sid = app.join("standup", "alice", "host");
    let template = default_template(&app);
    let mut succeeded = 0;
    let operations = every_operation(&app);
    for operation in operations
        .iter()
        .filter(|operation| operation.method == "GET")
    {
        let path = operation.concrete(|before, name| match (before, name) {
            ("rooms", _) => "standup".into(),
            ("participants", _) => "alice".into(),
            ("templates", _) => template.clone(),
            ("roles", _) => "host".into(),
            ("sessions", _) => sid.clone(),
            _ => "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21".into(),
        });
        let status = assert_same(|method| app.request(method, &path), &path);
        succeeded += usize::from(status == 200);
        assert_eq!(
            assert_same(|method| app.request(method, &path).bearer("nobody"), &path),
            401
        );
        let query = format!("{path}?nope=1");
        assert!(assert_same(|method| app.request(method, &query), &query) < 500);
        assert_eq!(
            assert_same(
                |method| app.request(method, &path).header("origin", "http://x.test"),
                &path
            ),
            403
        );
    }
    assert!(succeeded > 10, "{succeeded}");
}

#[test]
fn the_paths_beside_the_operations_take_head() {
    let app = TestApp::start();
    for path in [
        "/healthz",
        "/openapi.json",
        "/ext/openapi.json",
        "/call",
        "/call/main.js",
        "/call/livekit-client.umd.js",
    ] {
        assert_eq!(
            assert_same(|method| app.request(method, path).anonymous(), path),
            200,
            "{path}"
        );
    }
    for path in [
        "/nope",
        "/v1/nope",
        "/files/recordings/none",
        "/call/none.js",
    ] {
        assert!(
            assert_same(|method| app.request(method, path), path) >= 400,
            "{path}"
        );
    }
    for path in [
        "/healthz",
        "/debug/actors",
        "/docs",
        "/docs/",
        "/docs/api",
        "/docs/api.html",
        "/docs/api.md",
        "/sdk/",
        "/sdk/conclave-sdk.tgz",
        "/sign-in",
        "/",
    ] {
        assert!(
            assert_same(|method| app.admin(method, path), path) < 400,
            "{path}"
        );
    }
    for path in ["/metrics", "/readyz", "/debug/events"] {
        let head = app.admin("HEAD", path).send();
        assert_eq!((head.status, head.text().as_str()), (200, ""), "{path}");
    }
}

#[test]
fn a_path_without_get_takes_no_head_and_one_with_it_names_both() {
    let app = TestApp::start();
    let head = app.request("HEAD", "/v1/tokens").send();
    assert_eq!((head.status, head.headers["allow"].as_str()), (405, "POST"));
    assert_eq!(
        app.put("/v1/rooms").send().headers["allow"],
        "POST, GET, HEAD"
    );
    assert_eq!(
        app.post("/openapi.json").send().headers["allow"],
        "GET, HEAD"
    );
    assert!(
        every_operation(&app)
            .iter()
            .all(|operation| operation.method != "HEAD")
    );
}

#[test]
fn a_head_counts_in_the_rate_of_its_key() {
    let app = TestApp::start_with(|config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = 2;
    });
    let statuses = [(); 3].map(|()| app.request("HEAD", "/v1/rooms").send().status);
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_websocket_is_not_opened_by_head() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let url = format!("/rtc?access_token={token}");
    let head = app
        .request("HEAD", &url)
        .anonymous()
        .header("upgrade", "websocket")
        .header("connection", "upgrade");
    let head = head
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .send();
    assert!((400..500).contains(&head.status), "{head:?}");
}
