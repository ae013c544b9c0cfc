//! `/debug/projects/{project}/events`: a project's events from a position on.

use std::time::Duration;

use conclave_model::Secret;
use serde_json::{Value, json};

use crate::support::{Request, TestApp, eventually};

fn path(app: &TestApp) -> String {
    format!("/debug/projects/{}/events", app.project)
}

/// Ends a new room, which causes one event.
fn emit(app: &TestApp, room: &str) {
    app.room(room);
    app.delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

#[test]
fn the_events_after_a_position_are_those_of_the_deliveries() {
    let app = TestApp::start();
    app.endpoint("http://127.0.0.1:9/");
    let start = app.admin("GET", &path(&app)).send().expect(200);
    assert_eq!(start, json!({"events": [], "position": 0}));
    for room in ["a", "b"] {
        emit(&app, room);
    }
    let page = app
        .admin("GET", &format!("{}?after=0", path(&app)))
        .send()
        .expect(200);
    let events = page["events"].as_array().unwrap();
    let shown = |event: &Value| (event["type"].clone(), event["room"].clone());
    let expected = ["a", "b"].map(|room| (json!("room.finished"), json!(room)));
    assert_eq!(events.iter().map(shown).collect::<Vec<_>>(), expected);
    let bodies: Vec<_> = app
        .deliveries("")
        .iter()
        .rev()
        .map(|delivery| delivery["payload"].clone())
        .collect();
    let payloads = events
        .iter()
        .map(|event| serde_json::from_str(event["payload"].as_str().unwrap()).unwrap());
    assert_eq!(payloads.collect::<Vec<Value>>(), bodies);
    assert_eq!(page["position"], events[1]["id"]);
    assert_eq!(
        app.admin("GET", &path(&app)).send().expect(200)["position"],
        page["position"]
    );
}

#[test]
fn the_position_at_an_instant_is_before_the_first_event_since_then() {
    let app = TestApp::start();
    let at = |instant: &str| {
        let found = app
            .admin("GET", &format!("{}?since={instant}", path(&app)))
            .send()
            .expect(200);
        assert_eq!(found["events"], json!([]));
        found["position"].clone()
    };
    let before = app.now();
    assert_eq!(at(&before), 0);
    emit(&app, "a");
    emit(&app, "b");
    let ids: Vec<Value> = app
        .admin("GET", &format!("{}?after=0", path(&app)))
        .send()
        .expect(200)["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["id"].clone())
        .collect();
    app.advance(Duration::from_secs(60));
    let between = app.now();
    assert_eq!(at(&between), ids[1]);
    emit(&app, "c");
    assert_eq!((at(&before), at(&between)), (json!(0), ids[1].clone()));
    app.advance(Duration::from_secs(60));
    let newest = app.admin("GET", &path(&app)).send().expect(200)["position"].clone();
    assert_eq!(at(&app.now()), newest);
}

#[test]
fn a_request_waits_for_the_next_event() {
    let app = TestApp::start();
    let request = Request::new("GET", format!("{}{}?after=0", app.admin, path(&app)));
    let waiting = std::thread::spawn(move || request.send().expect(200));
    eventually(|| {
        app.admin("GET", "/metrics")
            .send()
            .text()
            .contains("conclave")
    });
    emit(&app, "a");
    let page = waiting.join().unwrap();
    assert_eq!(page["events"][0]["room"], "a");
    assert_eq!(page["events"].as_array().unwrap().len(), 1);
}

/// Proves R-27.
#[test]
fn a_client_that_was_away_for_longer_than_events_are_kept_is_told() {
    let app = TestApp::start_with(|config| {
        config.webhooks.retention = Duration::from_secs(60);
        config.events.retention = Duration::from_secs(60);
    });
    emit(&app, "a");
    app.advance(Duration::from_secs(3_600));
    let after_zero = || {
        app.admin("GET", &format!("{}?after=0", path(&app)))
            .send()
            .expect(200)
    };
    emit(&app, "b");
    eventually(|| after_zero()["gap"] == "deleted");
    assert_eq!(after_zero()["events"].as_array().unwrap().len(), 1);
    let beyond = app
        .admin("GET", &format!("{}?after=1000", path(&app)))
        .send()
        .expect(200);
    assert_eq!(
        (&beyond["gap"], &beyond["events"]),
        (&json!("restored"), &json!([]))
    );
}

#[test]
fn a_project_has_one_signing_secret_for_forwarded_events() {
    let app = TestApp::start();
    let of = |app: &TestApp, project: &str| {
        app.admin("GET", &format!("/debug/projects/{project}/signing-secret"))
            .send()
    };
    let secret = of(&app, &app.project).expect(200);
    assert!(secret["secret"].as_str().unwrap().starts_with("whsec_"));
    of(&app, "prj_000000000000").expect_error(404, "not_found", None);
    let app = app.restart();
    assert_eq!(of(&app, &app.project).expect(200), secret);
}

#[test]
fn unknown_projects_wrong_positions_and_strangers_are_refused() {
    let app =
        TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    for project in ["prj_000000000000", "x"] {
        let path = format!("/debug/projects/{project}/events");
        app.admin("GET", &path)
            .send()
            .expect_error(404, "not_found", None);
        app.admin("GET", &format!("{path}?after=0"))
            .send()
            .expect_error(404, "not_found", None);
    }
    for after in ["-1", "x", ""] {
        let refused = app
            .admin("GET", &format!("{}?after={after}", path(&app)))
            .send();
        refused.expect_error(400, "invalid_request", Some("after"));
    }
    for path in [path(&app), path(&app).replace("events", "signing-secret")] {
        app.admin("GET", &path)
            .anonymous()
            .send()
            .expect_error(401, "unauthorized", None);
        app.admin("POST", &path)
            .send()
            .expect_error(405, "method_not_allowed", None);
    }
}
