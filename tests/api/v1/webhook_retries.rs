//! Failed deliveries: the retry schedule, giving up, and retries on request.

use std::net::TcpListener;
use std::time::Duration;

use conclave_model::Timestamp;
use serde_json::{Value, json};

use crate::support::{Receiver, TestApp};

/// Starts an app with one failing receiver, and one event queued for it.
fn failing(status: u16) -> (TestApp, Receiver) {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    receiver.answer_with(status);
    app.endpoint(&receiver.url);
    one_event(&app, "standup");
    (app, receiver)
}

/// Queues exactly one event: creating and ending a room reports only its end.
fn one_event(app: &TestApp, room: &str) {
    app.room(room);
    app.delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

fn the_delivery(app: &TestApp) -> Value {
    let mut deliveries = app.deliveries("");
    assert_eq!(deliveries.len(), 1);
    deliveries.remove(0)
}

fn give_up(app: &TestApp) -> String {
    for minutes in [0, 1, 5, 30, 120] {
        app.advance(Duration::from_secs(minutes * 60));
        app.deliver();
    }
    let delivery = the_delivery(app);
    assert_eq!(delivery["status"], "failed", "{delivery}");
    delivery["id"].as_str().unwrap().to_owned()
}

/// Proves R-8.
#[test]
fn a_failing_delivery_is_posted_five_times_on_the_schedule_and_given_up() {
    let (app, receiver) = failing(500);
    app.settle();
    for (attempt, wait) in [
        (1, Some(60)),
        (2, Some(300)),
        (3, Some(1_800)),
        (4, Some(7_200)),
        (5, None),
    ] {
        let delivery = the_delivery(&app);
        let seen = (&delivery["attempts"], &delivery["response_status"]);
        assert_eq!(seen, (&json!(attempt), &json!(500)), "{delivery}");
        assert_ne!(delivery["last_error"], "");
        let due = wait.map(|seconds| app.clock.now().after(Duration::from_secs(seconds)));
        assert_eq!(
            delivery.get("next_attempt_at"),
            due.map(|due| json!(due.to_string())).as_ref()
        );
        assert_eq!(
            delivery["status"],
            if wait.is_some() { "pending" } else { "failed" }
        );
        if let Some(seconds) = wait {
            app.advance(Duration::from_secs(seconds) - Duration::from_millis(1));
            app.settle();
            assert_eq!(
                the_delivery(&app)["attempts"],
                attempt,
                "not before its time"
            );
            // The retry is due exactly at a tick, so it is posted then and not at the next one.
            app.advance(Duration::from_millis(1));
            app.settle();
        }
    }
    let requests = receiver.drain();
    assert_eq!(requests.len(), 5);
    assert!(
        requests
            .iter()
            .all(|request| request.body == requests[0].body)
    );
    assert!(
        requests
            .iter()
            .all(|request| request.header("webhook-id") == requests[0].header("webhook-id"))
    );
    let signed_at: Vec<_> = requests
        .iter()
        .map(|request| request.header("webhook-timestamp"))
        .collect();
    assert!(
        signed_at.windows(2).all(|pair| pair[0] < pair[1]),
        "{signed_at:?}"
    );
    app.advance(Duration::from_secs(30 * 3_600));
    app.settle();
    assert!(receiver.drain().is_empty());
}

#[test]
fn a_receiver_that_recovers_gets_the_event_at_the_next_attempt() {
    let (app, receiver) = failing(503);
    app.deliver();
    receiver.answer_with(200);
    app.advance(Duration::from_secs(60));
    app.deliver();
    let delivery = the_delivery(&app);
    let seen = (
        &delivery["status"],
        &delivery["attempts"],
        &delivery["last_error"],
        &delivery["response_status"],
    );
    assert_eq!(
        seen,
        (&json!("delivered"), &json!(2), &json!(""), &json!(200))
    );
    assert!(delivery.get("next_attempt_at").is_none());
    let delivered_at: Timestamp = delivery["delivered_at"].as_str().unwrap().parse().unwrap();
    assert!(delivered_at <= app.clock.now());
}

#[test]
fn only_a_2xx_is_a_delivery() {
    for status in [200, 201, 202, 204, 299] {
        let (app, _receiver) = failing(status);
        app.deliver();
        assert_eq!(the_delivery(&app)["status"], "delivered", "{status}");
    }
    for status in [301, 302, 307, 400, 404, 410, 429, 500, 503] {
        let (app, receiver) = failing(status);
        app.deliver();
        let delivery = the_delivery(&app);
        assert_eq!(
            (&delivery["status"], &delivery["response_status"]),
            (&json!("pending"), &json!(status))
        );
        assert!(
            delivery["last_error"]
                .as_str()
                .unwrap()
                .contains(&status.to_string()),
            "{delivery}"
        );
        assert_eq!(
            receiver.drain().len(),
            1,
            "{status} is not followed anywhere"
        );
    }
}

#[test]
fn a_refused_connection_is_a_failure_without_a_status() {
    let app = TestApp::start();
    // A port that no other test can get.
    app.endpoint("http://127.0.0.1:9/hook");
    one_event(&app, "standup");
    app.deliver();
    let delivery = the_delivery(&app);
    assert_eq!(
        (&delivery["status"], &delivery["attempts"]),
        (&json!("pending"), &json!(1))
    );
    assert_eq!(delivery["last_error"], "connection refused");
    assert_eq!(delivery.get("response_status"), Some(&Value::Null));
}

#[test]
fn a_failure_does_not_delay_later_deliveries() {
    let (app, receiver) = failing(500);
    app.deliver();
    receiver.drain();
    receiver.answer_with(204);
    one_event(&app, "another");
    app.deliver();
    assert_eq!(receiver.next().json()["room"], "another");
    assert_eq!(app.deliveries("status=pending").len(), 1);
}

#[test]
fn a_failed_delivery_can_be_retried_with_its_attempts_reset() {
    let (app, receiver) = failing(500);
    let id = give_up(&app);
    receiver.drain();
    receiver.answer_with(204);
    let path = format!("/v1/webhook-deliveries/{id}/retry");
    let before = the_delivery(&app);
    let retried = app.post(&path).send().expect(200);
    let mut expected = before;
    expected["status"] = json!("pending");
    expected["attempts"] = json!(0);
    expected["next_attempt_at"] = json!(app.now());
    assert_eq!(retried, expected);
    app.post(&path)
        .send()
        .expect_error(409, "delivery_not_retryable", None);
    app.deliver();
    let delivery = the_delivery(&app);
    assert_eq!(
        (&delivery["status"], &delivery["attempts"]),
        (&json!("delivered"), &json!(1))
    );
    assert_eq!(receiver.drain().len(), 1);
    app.post(&path)
        .send()
        .expect_error(409, "delivery_not_retryable", None);
}

#[test]
fn a_retried_delivery_has_the_whole_schedule_again() {
    let (app, receiver) = failing(500);
    let id = give_up(&app);
    app.post(&format!("/v1/webhook-deliveries/{id}/retry"))
        .send()
        .expect(200);
    assert_eq!(give_up(&app), id);
    assert_eq!(receiver.drain().len(), 10);
}

#[test]
fn repeating_a_retry_with_its_key_replays_the_answer() {
    let (app, receiver) = failing(500);
    let path = format!("/v1/webhook-deliveries/{}/retry", give_up(&app));
    receiver.answer_with(204);
    let retry = || app.post(&path).idempotency_key("again").send();
    let first = retry().expect(200);
    app.deliver();
    assert_eq!(retry().expect(200), first);
}

#[test]
fn an_unknown_delivery_cannot_be_retried() {
    let app = TestApp::start();
    let unknown = "/v1/webhook-deliveries/0191d2c4-9c11-7e02-9d3b-58a1c07be4f0/retry";
    app.post(unknown)
        .send()
        .expect_error(404, "delivery_not_found", None);
    app.post("/v1/webhook-deliveries/x/retry")
        .send()
        .expect_error(400, "invalid_request", Some("id"));
}

#[test]
fn deleting_an_endpoint_drops_what_is_pending_and_keeps_the_rest() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let id = app.endpoint(&receiver.url)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    one_event(&app, "delivered");
    app.deliver();
    receiver.answer_with(500);
    one_event(&app, "given-up");
    for minutes in [0, 1, 5, 30, 120] {
        app.advance(Duration::from_secs(minutes * 60));
        app.deliver();
    }
    one_event(&app, "pending");
    let room = |delivery: &Value| delivery["payload"]["room"].as_str().unwrap().to_owned();
    assert_eq!(
        app.deliveries("").iter().map(room).collect::<Vec<_>>(),
        ["pending", "given-up", "delivered"]
    );
    app.settle();
    receiver.drain();
    app.delete(&format!("/v1/webhook-endpoints/{id}"))
        .send()
        .expect_empty(204);
    let left = app.deliveries("");
    assert_eq!(
        left.iter().map(room).collect::<Vec<_>>(),
        ["given-up", "delivered"]
    );
    let path = format!(
        "/v1/webhook-deliveries/{}/retry",
        left[0]["id"].as_str().unwrap()
    );
    app.post(&path)
        .send()
        .expect_error(409, "delivery_not_retryable", None);
    app.deliver();
    assert!(receiver.drain().is_empty());
}

#[test]
fn deleting_an_endpoint_during_a_post_leaves_no_delivery() {
    let app = TestApp::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = app.endpoint(&format!("http://{}/hook", listener.local_addr().unwrap()));
    let path = format!("/v1/webhook-endpoints/{}", endpoint["id"].as_str().unwrap());
    one_event(&app, "standup");
    // The post is in progress and hangs.
    let posting = listener.accept().unwrap();
    app.delete(&path).send().expect_empty(204);
    assert_eq!(app.deliveries(""), Vec::<Value>::new());
    drop(posting);
    app.settle();
    assert_eq!(app.deliveries(""), Vec::<Value>::new());
}

#[test]
fn an_address_that_is_no_longer_allowed_is_not_dialled() {
    let (app, receiver) = failing(500);
    app.settle();
    receiver.drain();
    let app = app.restart_with(|config| config.webhooks.allow_networks.clear());
    app.wait_until_armed();
    app.advance(Duration::from_secs(60));
    app.settle();
    let delivery = the_delivery(&app);
    assert_eq!(
        (&delivery["status"], &delivery["last_error"]),
        (&json!("pending"), &json!("address blocked"))
    );
    assert!(receiver.drain().is_empty());
}
