//! `/metrics` on the admin listener.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::support::{TestApp, eventually};

/// Returns the values by name and labels, as in the text format.
fn numbers(app: &TestApp) -> BTreeMap<String, f64> {
    let text = app.admin("GET", "/metrics").send();
    assert_eq!(
        (text.status, text.headers["content-type"].as_str()),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    let samples = text.text();
    let samples = samples.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            line.rsplit_once(' ')
                .map(|(name, value)| (name.into(), value.parse().unwrap()))
                .unwrap()
        })
        .collect()
}

fn number(app: &TestApp, name: &str) -> f64 {
    numbers(app)
        .get(name)
        .copied()
        .unwrap_or_else(|| panic!("no {name} in {:#?}", numbers(app).keys()))
}

#[test]
fn requests_are_counted_by_operation_and_status_and_timed() {
    let app = TestApp::start();
    app.room("standup");
    app.post("/v1/rooms")
        .json(json!({"name": "standup"}))
        .send()
        .expect_error(409, "room_exists", Some("name"));
    app.get("/nowhere").send();
    app.request("PUT", "/v1/rooms").send();
    let requests = |operation: &str, status: u16| {
        number(
            &app,
            &format!(
                "conclave_http_requests_total{{operation=\"{operation}\",status=\"{status}\"}}"
            ),
        )
    };
    assert_eq!(
        (requests("create_room", 201), requests("create_room", 409)),
        (1., 1.)
    );
    assert_eq!((requests("none", 404), requests("none", 405)), (1., 1.));
    assert_eq!(
        number(
            &app,
            "conclave_http_request_seconds_count{operation=\"create_room\"}"
        ),
        2.
    );
}

#[test]
fn actors_are_counted_by_kind_and_status() {
    let app = TestApp::start();
    app.room("empty");
    app.room("busy");
    app.join("busy", "alice", "host");
    app.post("/v1/rooms/busy/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
    let actors = |kind: &str, status: &str| {
        number(
            &app,
            &format!("conclave_actors{{kind=\"{kind}\",status=\"{status}\"}}"),
        )
    };
    assert_eq!(
        (
            actors("room", "running"),
            actors("room", "hibernating"),
            actors("egress", "running")
        ),
        (1., 1., 1.)
    );
    assert_eq!(
        (
            actors("system", "running"),
            actors("project", "running"),
            actors("ingress", "running")
        ),
        (1., 1., 0.)
    );
    assert_eq!(
        number(&app, "conclave_actor_restarts_total{kind=\"room\"}"),
        0.
    );
    assert!(numbers(&app).contains_key("conclave_actor_mailbox{kind=\"room\"}"));
}

#[test]
fn deliveries_are_counted_by_outcome_and_their_lag_is_measured() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    app.join("standup", "alice", "host");
    app.deliver();
    let attempts = |outcome: &str| {
        number(
            &app,
            &format!("conclave_webhook_attempts_total{{outcome=\"{outcome}\"}}"),
        )
    };
    assert_eq!(
        (
            attempts("delivered"),
            attempts("retried"),
            attempts("failed")
        ),
        (2., 0., 0.)
    );
    receiver.answer_with(500);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    app.deliver();
    for wait in [60, 300, 1_800, 7_200] {
        app.advance(Duration::from_secs(wait));
        app.deliver();
    }
    eventually(|| attempts("failed") >= 1.);
    assert!(attempts("retried") >= 4.);
    let lag = number(&app, "conclave_webhook_delivery_lag_seconds_sum");
    assert!(
        lag >= 10.,
        "retries waited for a tick of five seconds: {lag}"
    );
}

#[test]
fn the_store_counts_its_batches_and_its_queues() {
    let app = TestApp::start();
    let before = number(&app, "conclave_store_batch_jobs_count");
    app.room("standup");
    // Writes from startup may come in between.
    assert!(number(&app, "conclave_store_batch_jobs_count") > before);
    assert!(number(&app, "conclave_store_batch_jobs_sum") > before);
    assert!(number(&app, "conclave_store_commit_seconds_sum") > 0.);
    eventually(|| number(&app, "conclave_store_writes_waiting") == 0.);
    eventually(|| number(&app, "conclave_store_reads_waiting") == 0.);
}

#[test]
fn calls_to_the_media_plane_are_counted_by_outcome() {
    let app = TestApp::start();
    app.room("standup");
    app.get("/v1/rooms/standup/participants").send().expect(200);
    app.admin("POST", "/sandbox/outage")
        .json(json!({"seconds": 60}))
        .send()
        .expect(200);
    app.get("/v1/rooms/standup/participants")
        .send()
        .expect_error(503, "media_unavailable", None);
    for outcome in ["answered", "failed"] {
        let calls =
            format!("conclave_media_calls_total{{call=\"participants\",outcome=\"{outcome}\"}}");
        assert!(number(&app, &calls) >= 1.);
    }
}

#[test]
fn the_metrics_require_the_admin_token() {
    let app = TestApp::start_with(|config| {
        config.admin.token = Some(conclave_model::Secret::new("let-me-in-please"));
    });
    app.admin("GET", "/metrics")
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
    assert!(numbers(&app).contains_key("conclave_store_writes_waiting"));
}
