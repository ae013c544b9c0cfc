//! Admission: a project's requests beyond its share are queued or refused, without an effect on other projects.

use std::thread;

use conclave::config::Config;
use serde_json::json;

use crate::support::{Response, TestApp, eventually};
use crate::tools::other_project;

/// Allows one running and one queued request per project.
fn tiny(config: &mut Config) {
    config.limits.project_running = 1;
    config.limits.project_waiting = 1;
}

fn admitted(app: &TestApp, state: &str, count: u32) -> bool {
    let line = format!("conclave_http_requests_admitted{{state=\"{state}\"}} {count}\n");
    app.admin("GET", "/metrics").send().text().contains(&line)
}

fn refused(app: &TestApp, limit: &str, count: u32) -> bool {
    let line = format!("conclave_http_requests_refused_total{{limit=\"{limit}\"}} {count}\n");
    app.admin("GET", "/metrics").send().text().contains(&line)
}

#[track_caller]
fn expect_refused(response: &Response, status: u16, code: &str) {
    response.expect_error(status, code, None);
    assert_eq!(response.headers["retry-after"], "1");
}

/// Proves R-20, S-61.
#[test]
fn a_project_waits_for_itself_and_another_is_served_meanwhile() {
    let app = TestApp::start_with(tiny);
    let other = other_project(&app, "self_hosted");
    let lock = app.records().lock();
    thread::scope(|scope| {
        let running = scope.spawn(|| app.post("/v1/rooms").json(json!({"name": "a"})).send());
        eventually(|| admitted(&app, "running", 1));
        let waiting = scope.spawn(|| app.get("/v1/rooms/a").send());
        eventually(|| admitted(&app, "waiting", 1));
        expect_refused(&app.get("/v1/rooms").send(), 429, "rate_limited");
        expect_refused(
            &app.post("/v1/rooms").json(json!({"name": "b"})).send(),
            429,
            "rate_limited",
        );
        app.get("/v1/rooms").bearer(&other.key).send().expect(200);
        assert!(
            admitted(&app, "running", 1) && admitted(&app, "waiting", 1),
            "others have waited for the database"
        );
        drop(lock);
        running.join().unwrap().expect(201);
        assert_eq!(
            waiting.join().unwrap().expect(200)["name"],
            "a",
            "it was its turn after the creation"
        );
    });
    app.room("b");
    assert!(refused(&app, "project", 2));
    eventually(|| admitted(&app, "running", 0) && admitted(&app, "waiting", 0));
}

/// Proves R-20.
#[test]
fn a_request_that_has_waited_for_a_second_is_refused() {
    let app = TestApp::start_with(tiny);
    let lock = app.records().lock();
    thread::scope(|scope| {
        let running = scope.spawn(|| app.post("/v1/rooms").json(json!({"name": "a"})).send());
        eventually(|| admitted(&app, "running", 1));
        expect_refused(&app.get("/v1/rooms").send(), 429, "rate_limited");
        drop(lock);
        running.join().unwrap().expect(201);
    });
    assert!(refused(&app, "wait", 1));
}

/// Proves R-20.
#[test]
fn requests_beyond_the_total_are_503_and_the_admin_listener_answers() {
    let app = TestApp::start_with(|config| config.http.max_requests = 1);
    let other = other_project(&app, "self_hosted");
    let lock = app.records().lock();
    thread::scope(|scope| {
        let running = scope.spawn(|| app.post("/v1/rooms").json(json!({"name": "a"})).send());
        eventually(|| admitted(&app, "running", 1));
        let response = app.get("/v1/rooms").bearer(&other.key).send();
        expect_refused(&response, 503, "database_unavailable");
        app.get("/healthz").send().expect(200);
        app.get("/v1/rooms")
            .bearer("nobody")
            .send()
            .expect_error(401, "unauthorized", None);
        drop(lock);
        running.join().unwrap().expect(201);
    });
    app.get("/v1/rooms").bearer(&other.key).send().expect(200);
    assert!(refused(&app, "total", 1));
}
