//! Deleting a webhook endpoint with many pending deliveries: they disappear at once, and their rows are deleted later, in steps.

use serde_json::json;

use crate::support::{Receiver, TestApp, eventually};

const PENDING: usize = 60_000;

/// Starts an app whose only endpoint has many pending deliveries and two final ones. Also returns the endpoint's id.
fn app_with_pending() -> (TestApp, String) {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let id = app.endpoint(&receiver.url)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    app.room("standup");
    app.join("standup", "alice", "");
    app.deliver();
    let id_of_delivery = app.records().random_id();
    let many = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {PENDING})
         INSERT INTO webhook_deliveries
             (id, project_id, endpoint_id, endpoint_url, event_id, event_type, status, attempts, next_attempt_at, created_at)
         SELECT {id_of_delivery}, project_id, endpoint_id, endpoint_url, event_id, event_type, 'pending', 1,
                created_at + 3600000, created_at
         FROM (SELECT * FROM webhook_deliveries LIMIT 1) AS one, n"
    );
    app.records().run(&many);
    (app, id)
}

/// Returns the number of pending delivery rows and of endpoint rows.
fn rows(app: &TestApp) -> (u32, u32) {
    let count = |text: &str| app.records().value(text).parse().unwrap();
    let pending = "SELECT count(*) FROM webhook_deliveries WHERE status = 'pending'";
    (
        count(pending),
        count("SELECT count(*) FROM webhook_endpoints"),
    )
}

fn assert_deleted(app: &TestApp, id: &str) {
    assert_eq!(
        app.deliveries("status=pending"),
        Vec::<serde_json::Value>::new()
    );
    assert_eq!(app.deliveries(&format!("endpoint_id={id}")).len(), 2);
    assert_eq!(app.deliveries("").len(), 2);
    let endpoints = app.get("/v1/webhook-endpoints").send().expect(200);
    assert_eq!(endpoints["webhook_endpoints"], json!([]));
    let path = format!("/v1/webhook-endpoints/{id}");
    app.delete(&path)
        .send()
        .expect_error(404, "endpoint_not_found", None);
}

#[test]
fn the_deliveries_of_a_deleted_endpoint_are_gone_at_once_and_their_rows_later() {
    let (app, id) = app_with_pending();
    app.delete(&format!("/v1/webhook-endpoints/{id}"))
        .send()
        .expect_empty(204);
    assert_deleted(&app, &id);
    for n in 0..10 {
        app.room(&format!("room-{n}"));
    }
    eventually(|| rows(&app) == (0, 0));
}

#[test]
fn a_deletion_is_completed_after_a_restart() {
    let (app, id) = app_with_pending();
    app.delete(&format!("/v1/webhook-endpoints/{id}"))
        .send()
        .expect_empty(204);
    let app = app.restart();
    assert_deleted(&app, &id);
    eventually(|| rows(&app) == (0, 0));
}
