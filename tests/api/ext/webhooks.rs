//! `PATCH /ext/v1/webhook-endpoints/{id}` and `POST /ext/v1/webhook-endpoints/{id}/rotate-secret`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Received, Receiver, Response, TestApp, eventually};
use crate::tools::other_project;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

fn id(endpoint: &Value) -> &str {
    endpoint["id"].as_str().unwrap()
}

fn path(endpoint: &Value) -> String {
    format!("/ext/v1/webhook-endpoints/{}", id(endpoint))
}

fn change(app: &TestApp, endpoint: &Value, body: Value) -> Response {
    app.patch(&path(endpoint)).json(body).send()
}

fn rotate(app: &TestApp, endpoint: &Value, body: Value) -> Value {
    let path = format!("{}/rotate-secret", path(endpoint));
    app.post(&path).json(body).send().expect(200)
}

/// Returns the only endpoint as the contract's list shows it.
fn listed(app: &TestApp) -> Value {
    let page = app.get("/v1/webhook-endpoints").send().expect(200);
    assert_eq!(page["webhook_endpoints"].as_array().unwrap().len(), 1);
    page["webhook_endpoints"][0].clone()
}

/// Queues exactly one event: creating and ending a room reports only its end.
fn one_event(app: &TestApp, room: &str) {
    app.room(room);
    app.delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

/// Returns whether one of the Standard Webhooks signatures is by this secret.
fn is_standard_signed(request: &Received, secret: &str) -> bool {
    request
        .header("webhook-signature")
        .split(' ')
        .any(|signature| signature == request.standard_signature(secret))
}

#[test]
fn only_fields_that_are_sent_change_and_only_used_ones_are_shown() {
    let app = TestApp::start();
    let created = app.endpoint("http://127.0.0.1:9/hook");
    let before = listed(&app);
    let mut expected = before.clone();
    expected["description"] = json!("attendance");
    expected["events"] = json!(["participant.joined", "participant.left"]);
    let body = json!({"description": "attendance",
                      "events": ["participant.left", "participant.joined", "participant.left"]});
    assert_eq!(change(&app, &created, body).expect(200), expected);
    assert_eq!(listed(&app), expected);
    expected["url"] = json!("http://127.0.0.1:9/other");
    let body = json!({"url": "http://127.0.0.1:9/other"});
    assert_eq!(change(&app, &created, body).expect(200), expected);
    let app = app.restart();
    assert_eq!(listed(&app), expected);
    let body = json!({"url": "http://127.0.0.1:9/hook", "events": [], "description": ""});
    assert_eq!(change(&app, &created, body).expect(200), before);
}

#[test]
fn a_change_that_is_not_allowed_changes_nothing() {
    let app = TestApp::start_with(|config| {
        config.webhooks.allow_networks = vec!["127.0.0.1/32".parse().unwrap()];
    });
    let created = app.endpoint("http://127.0.0.1:9/hook");
    let before = listed(&app);
    let long = "x".repeat(501);
    for (body, code, field) in [
        (json!({"url": "ftp://127.0.0.1/"}), "invalid_url", "url"),
        (json!({"url": "http://10.0.0.1/"}), "blocked_url", "url"),
        (json!({"url": null}), "invalid_request", "url"),
        (
            json!({"events": ["webhook.test"]}),
            "invalid_request",
            "events[0]",
        ),
        (json!({"active": 1}), "invalid_request", "active"),
        (
            json!({"description": long}),
            "invalid_request",
            "description",
        ),
        (
            json!({"description": "a\u{0}"}),
            "invalid_request",
            "description",
        ),
        (json!({"secret": "mine"}), "invalid_request", "secret"),
    ] {
        change(&app, &created, body).expect_error(400, code, Some(field));
    }
    let rotation = app
        .post(&format!("{}/rotate-secret", path(&created)))
        .json(json!({"overlap_seconds": 259_201}))
        .send();
    rotation.expect_error(400, "invalid_request", Some("overlap_seconds"));
    assert_eq!(listed(&app), before);
}

#[test]
fn an_endpoint_of_another_project_or_a_deleted_one_is_not_found() {
    let app = TestApp::start();
    let created = app.endpoint("http://127.0.0.1:9/hook");
    let other = other_project(&app, "self_hosted");
    let refused = |key: &str| {
        let rotation = format!("{}/rotate-secret", path(&created));
        for request in [
            app.patch(&path(&created)).json(json!({"active": false})),
            app.post(&rotation).json(json!({})),
        ] {
            let answer = request.bearer(key).send();
            answer.expect_error(404, "endpoint_not_found", None);
        }
    };
    refused(&other.key);
    assert_eq!(listed(&app)["active"], true);
    app.delete(&format!("/v1/webhook-endpoints/{}", id(&created)))
        .send()
        .expect_empty(204);
    refused(&app.key);
    eventually(|| app.actors("?kind=webhook_endpoint")["actors"] == json!([]));
}

#[test]
fn only_chosen_events_are_queued() {
    let (app, receiver, all) = (TestApp::start(), Receiver::start(), Receiver::start());
    let endpoint = app.endpoint(&receiver.url);
    app.endpoint(&all.url);
    change(&app, &endpoint, json!({"events": ["participant.left"]})).expect(200);
    app.room("standup");
    let alice = app.join("standup", "alice", "");
    app.leave(&alice, true);
    assert_eq!(receiver.types(1), ["participant.left"]);
    assert_eq!(
        all.types(3),
        ["room.started", "participant.joined", "participant.left"]
    );
    let own = format!("endpoint_id={}", id(&endpoint));
    assert_eq!(app.deliveries(&own).len(), 1);
    change(&app, &endpoint, json!({"events": []})).expect(200);
    app.join("standup", "bob", "");
    assert_eq!(receiver.types(1), ["participant.joined"]);
}

#[test]
fn deliveries_go_to_the_new_url() {
    let (app, old, new) = (TestApp::start(), Receiver::start(), Receiver::start());
    let endpoint = app.endpoint(&old.url);
    old.answer_with(500);
    one_event(&app, "failed");
    app.settle();
    old.drain();
    change(&app, &endpoint, json!({"url": new.url})).expect(200);
    one_event(&app, "next");
    assert_eq!(new.next().json()["room"], "next");
    app.wait_until_armed();
    app.advance(Duration::from_secs(60));
    assert_eq!(new.next().json()["room"], "failed");
    assert!(old.drain().is_empty());
    app.settle();
    let deliveries = app.deliveries("status=delivered");
    let posted_to: Vec<_> = deliveries
        .iter()
        .map(|delivery| &delivery["endpoint_url"])
        .collect();
    assert_eq!(posted_to, [&json!(new.url), &json!(new.url)]);
}

#[test]
fn an_inactive_endpoint_gets_nothing_and_its_pending_deliveries_wait() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let endpoint = app.endpoint(&receiver.url);
    receiver.answer_with(500);
    one_event(&app, "pending");
    app.settle();
    receiver.drain();
    receiver.answer_with(204);
    let inactive = change(&app, &endpoint, json!({"active": false})).expect(200);
    assert_eq!(
        (&inactive["active"], inactive.get("disabled_at")),
        (&json!(false), None)
    );
    one_event(&app, "missed");
    assert_eq!(app.deliveries("").len(), 1);
    let app = app.restart();
    app.advance(HOUR);
    app.advance(Duration::from_secs(5));
    assert_eq!(listed(&app)["active"], false);
    assert!(receiver.drain().is_empty());
    change(&app, &endpoint, json!({"active": true})).expect(200);
    app.advance(Duration::from_secs(5));
    assert_eq!(receiver.next().json()["room"], "pending");
    one_event(&app, "next");
    assert_eq!(receiver.next().json()["room"], "next");
    app.settle();
    assert_eq!(app.deliveries("status=delivered").len(), 2);
}

/// Proves S-91.
#[test]
fn during_the_overlap_deliveries_are_signed_with_both_secrets() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let endpoint = app.endpoint(&receiver.url);
    let old = endpoint["secret"].as_str().unwrap();
    let rotated = rotate(&app, &endpoint, json!({"overlap_seconds": 259_200}));
    let new = rotated["secret"].as_str().unwrap();
    assert!(new.starts_with("whsec_") && new != old);
    let until = app.clock.now().after(72 * HOUR).to_string();
    assert_eq!(rotated["previous_secret_expires_at"], until.as_str());
    assert_eq!(listed(&app)["previous_secret_expires_at"], until.as_str());
    assert!(listed(&app).get("secret").is_none());
    let app = app.restart();
    app.advance(72 * HOUR - Duration::from_secs(60));
    one_event(&app, "within");
    let request = receiver.next();
    // A receiver that knows only the contract has the old secret, and reads one signature.
    assert!(request.is_signed_with(old));
    assert!(!request.header("x-svc-signature").contains(' '));
    assert!(request.is_next_signed_with(new));
    assert!(is_standard_signed(&request, old) && is_standard_signed(&request, new));
    app.settle();
    app.advance(Duration::from_secs(60));
    one_event(&app, "after");
    let request = receiver.next();
    assert!(request.is_signed_with(new) && !request.is_next_signed_with(new));
    assert_eq!(
        request.header("webhook-signature"),
        request.standard_signature(new)
    );
    // The old secret is erased.
    eventually(|| listed(&app).get("previous_secret_expires_at").is_none());
    let left = "SELECT count(*) FROM webhook_endpoints WHERE previous_secret IS NOT NULL";
    assert_eq!(app.records().value(left), "0");
}

/// Proves S-91.
#[test]
fn without_an_overlap_the_old_secret_is_invalid_at_once() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let endpoint = app.endpoint(&receiver.url);
    let rotated = rotate(&app, &endpoint, json!({"overlap_seconds": 0}));
    assert!(rotated.get("previous_secret_expires_at").is_none());
    assert!(listed(&app).get("previous_secret_expires_at").is_none());
    one_event(&app, "standup");
    let request = receiver.next();
    let new = rotated["secret"].as_str().unwrap();
    assert!(request.is_signed_with(new));
    assert_eq!(
        request.header("webhook-signature"),
        request.standard_signature(new)
    );
}

#[test]
fn repeating_a_rotation_with_its_key_gives_the_same_secret_and_no_key_another() {
    let app = TestApp::start();
    let endpoint = app.endpoint("http://127.0.0.1:9/hook");
    let path = format!("{}/rotate-secret", path(&endpoint));
    let once = || app.post(&path).idempotency_key("once").send().expect(200);
    let (first, second) = (once(), once());
    assert_eq!(first, second);
    // Without a body: a day.
    let until = app.clock.now().after(DAY).to_string();
    assert_eq!(first["previous_secret_expires_at"], until.as_str());
    assert_ne!(
        rotate(&app, &endpoint, json!({}))["secret"],
        first["secret"]
    );
}

/// Starts an app whose deliveries have two attempts, a minute apart.
fn app_with_two_attempts() -> (TestApp, Receiver, Value) {
    let app = TestApp::start_with(|config| {
        config.webhooks.retry_delays = vec![Duration::from_secs(60)];
    });
    let receiver = Receiver::start();
    let endpoint = app.endpoint(&receiver.url);
    (app, receiver, endpoint)
}

/// Queues an event on each of some days, and lets its delivery end.
fn event_each_day(app: &TestApp, days: std::ops::RangeInclusive<u32>) {
    for day in days {
        one_event(app, &format!("day-{day}"));
        app.settle();
        app.advance(Duration::from_secs(60));
        app.settle();
        app.advance(DAY - Duration::from_secs(60));
    }
}

#[test]
fn an_endpoint_that_fails_for_five_days_is_disabled_with_a_last_event() {
    let (app, receiver, endpoint) = app_with_two_attempts();
    let since = app.now();
    receiver.answer_with(500);
    event_each_day(&app, 0..=4);
    assert_eq!(listed(&app)["active"], true);
    receiver.drain();
    one_event(&app, "day-5");
    app.settle();
    app.advance(Duration::from_secs(60));
    app.settle();
    let reason =
        format!("every attempt since {since} has failed, the last with: the receiver answered 500");
    let shown = listed(&app);
    assert_eq!(
        (
            &shown["active"],
            &shown["disabled_at"],
            &shown["disabled_reason"]
        ),
        (&json!(false), &json!(app.now()), &json!(reason))
    );
    let posted = receiver.drain();
    assert_eq!(posted.len(), 3, "two attempts, and the last event");
    let last = posted.last().unwrap();
    assert_eq!(
        last.json(),
        json!({"type": "webhook.endpoint_disabled", "project_id": app.project, "endpoint_id": endpoint["id"],
               "reason": reason, "occurred_at": app.now()})
    );
    assert!(last.is_signed_with(endpoint["secret"].as_str().unwrap()));
    let failed = &app.deliveries("")[0];
    assert_eq!(
        (
            &failed["event_type"],
            &failed["status"],
            &failed["attempts"]
        ),
        (
            &json!("webhook.endpoint_disabled"),
            &json!("failed"),
            &json!(1)
        )
    );
    // Nothing more, also after a restart.
    let count = app.deliveries("").len();
    let app = app.restart();
    one_event(&app, "ignored");
    app.advance(HOUR);
    assert_eq!(app.deliveries("").len(), count);
    assert!(receiver.drain().is_empty());
    let retry = format!(
        "/v1/webhook-deliveries/{}/retry",
        app.deliveries("")[1]["id"].as_str().unwrap()
    );
    app.post(&retry)
        .send()
        .expect_error(409, "delivery_not_retryable", None);

    receiver.answer_with(204);
    let enabled = change(&app, &endpoint, json!({"active": true})).expect(200);
    assert_eq!(
        (&enabled["active"], enabled.get("disabled_at")),
        (&json!(true), None)
    );
    one_event(&app, "enabled");
    assert_eq!(receiver.next().json()["room"], "enabled");
    app.post(&retry).send().expect(200);
    assert_eq!(receiver.next().json()["room"], "day-5");
}

#[test]
fn one_success_within_five_days_keeps_an_endpoint_active() {
    let (app, receiver, _) = app_with_two_attempts();
    receiver.answer_with(500);
    event_each_day(&app, 0..=2);
    receiver.answer_with(204);
    event_each_day(&app, 3..=3);
    receiver.answer_with(500);
    event_each_day(&app, 4..=8);
    assert_eq!(listed(&app)["active"], true);
    event_each_day(&app, 9..=9);
    assert_eq!(listed(&app)["active"], false);
}
