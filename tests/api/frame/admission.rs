//! Admission: a project's requests beyond its share are queued or refused, without an effect on other projects.

use std::thread;
use std::time::{Duration, Instant};

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
    // The queued request waits for a second at most, and the running one for five, which a busy machine may need for the other steps.
    eventually(project_waits_for_itself);
}

/// Returns whether both requests were served in time. If not, the other responses show nothing.
fn project_waits_for_itself() -> bool {
    let app = TestApp::start_with(tiny);
    let other = other_project(&app, "self_hosted");
    let lock = app.records().lock();
    let (begun, [created, queued], refusals, foreign, have_waited) = thread::scope(|scope| {
        let running = scope.spawn(|| app.post("/v1/rooms").json(json!({"name": "a"})).send());
        eventually(|| admitted(&app, "running", 1) || running.is_finished());
        let begun = Instant::now();
        let waiting = scope.spawn(|| app.get("/v1/rooms/a").send());
        eventually(|| admitted(&app, "waiting", 1) || waiting.is_finished());
        let refusals = [
            app.get("/v1/rooms").send(),
            app.post("/v1/rooms").json(json!({"name": "b"})).send(),
        ];
        let foreign = app.get("/v1/rooms").bearer(&other.key).send();
        let have_waited = admitted(&app, "running", 1) && admitted(&app, "waiting", 1);
        drop(lock);
        let answers = [running, waiting].map(|call| call.join().unwrap());
        (begun, answers, refusals, foreign, have_waited)
    });
    if begun.elapsed() >= Duration::from_secs(1) || created.status == 503 {
        return false;
    }
    for refused in &refusals {
        expect_refused(refused, 429, "rate_limited");
    }
    foreign.expect(200);
    assert!(have_waited, "others have waited for the database");
    created.expect(201);
    assert_eq!(
        queued.expect(200)["name"],
        "a",
        "it was its turn after the creation"
    );
    app.room("b");
    assert!(refused(&app, "project", 2));
    eventually(|| admitted(&app, "running", 0) && admitted(&app, "waiting", 0));
    true
}

/// Makes requests while another one of the project runs, which waits for the database. Returns nothing if they took longer than the five
/// seconds for which it waits.
fn beside_a_running_request<T>(app: &TestApp, requests: impl FnOnce() -> T) -> Option<T> {
    let lock = app.records().lock();
    let (created, made) = thread::scope(|scope| {
        let running = scope.spawn(|| app.post("/v1/rooms").json(json!({"name": "a"})).send());
        eventually(|| admitted(app, "running", 1) || running.is_finished());
        let made = requests();
        drop(lock);
        (running.join().unwrap(), made)
    });
    if created.status == 503 {
        return None;
    }
    created.expect(201);
    Some(made)
}

/// Proves R-20.
#[test]
fn a_request_that_has_waited_for_a_second_is_refused() {
    eventually(|| {
        let app = TestApp::start_with(tiny);
        let Some(waited) = beside_a_running_request(&app, || app.get("/v1/rooms").send()) else {
            return false;
        };
        expect_refused(&waited, 429, "rate_limited");
        assert!(refused(&app, "wait", 1));
        true
    });
}

/// Proves R-20.
#[test]
fn requests_beyond_the_total_are_503_and_the_admin_listener_answers() {
    eventually(|| {
        let app = TestApp::start_with(|config| config.http.max_requests = 1);
        let other = other_project(&app, "self_hosted");
        let requests = || {
            let beyond = app.get("/v1/rooms").bearer(&other.key).send();
            app.get("/healthz").send().expect(200);
            app.get("/v1/rooms")
                .bearer("nobody")
                .send()
                .expect_error(401, "unauthorized", None);
            beyond
        };
        let Some(beyond) = beside_a_running_request(&app, requests) else {
            return false;
        };
        expect_refused(&beyond, 503, "database_unavailable");
        app.get("/v1/rooms").bearer(&other.key).send().expect(200);
        assert!(refused(&app, "total", 1));
        true
    });
}
