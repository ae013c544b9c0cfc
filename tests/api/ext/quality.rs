//! `/ext/v1/sessions/{id}/quality`, its samples, and `/ext/v1/sessions/worst`, for sessions without measurements. The tests with
//! WebRTC clients are in `webrtc/quality.rs`.

use serde_json::json;

use crate::support::TestApp;
use crate::tools::other_project;

/// Joins a participant without media. Returns its session.
fn join(app: &TestApp) -> String {
    app.room("standup");
    app.join("standup", "alice", "host");
    let page = app.get("/v1/sessions").send().expect(200);
    page["sessions"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_that_was_not_measured_has_neither_a_summary_nor_samples() {
    let app = TestApp::start();
    let id = join(&app);
    let quality = app
        .get(&format!("/ext/v1/sessions/{id}/quality"))
        .send()
        .expect(200);
    assert_eq!(quality, json!({"session_id": id}));
    let samples = app
        .get(&format!("/ext/v1/sessions/{id}/quality/samples?limit=3"))
        .send();
    assert_eq!(
        samples.expect(200),
        json!({"samples": [], "limit": 3, "offset": 0, "has_more": false})
    );
    let worst = app.get("/ext/v1/sessions/worst").send().expect(200);
    assert_eq!(worst["sessions"], json!([]));
}

#[test]
fn a_session_of_another_project_is_not_found() {
    let app = TestApp::start();
    let id = join(&app);
    let other = other_project(&app, "self_hosted");
    for path in ["quality", "quality/samples"] {
        let path = format!("/ext/v1/sessions/{id}/{path}");
        app.get(&path).send().expect(200);
        let refused = app.get(&path).bearer(&other.key).send();
        refused.expect_error(404, "session_not_found", None);
    }
}

#[test]
fn a_day_is_a_calendar_day() {
    let app = TestApp::start();
    app.get("/ext/v1/sessions/worst?day=2026-01-31")
        .send()
        .expect(200);
    for day in ["2026-02-30", "today", ""] {
        app.get(&format!("/ext/v1/sessions/worst?day={day}"))
            .send()
            .expect_error(400, "invalid_request", Some("day"));
    }
}
