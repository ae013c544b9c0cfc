//! `/v1/webhook-deliveries`: the posts and their log.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Hanging, NEVER, Receiver, TestApp, eventually};

/// Proves S-74.
#[test]
fn a_delivery_carries_both_signatures_and_the_name_of_its_event() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let secret = app.endpoint(&receiver.url)["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    app.room("standup");
    app.join("standup", "alice", "host");
    app.settle();
    let delivery = &app.deliveries("event_type=room.started")[0];
    let request = receiver.next();
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("x-svc-event"), "room.started");
    assert!(request.is_signed_with(&secret));
    assert_eq!(request.header("webhook-id"), delivery["id"]);
    let now = (app.clock.now().millis() / 1_000).to_string();
    assert_eq!(request.header("webhook-timestamp"), now);
    assert_eq!(
        request.header("webhook-signature"),
        request.standard_signature(&secret)
    );
}

#[test]
fn the_log_has_the_posted_payload_byte_for_byte() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let endpoint = app.endpoint(&receiver.url);
    app.room("standup");
    app.join("standup", "alice", "host");
    let queued_at = app.now();
    app.settle();
    let body = String::from_utf8(receiver.next().body.clone()).unwrap();
    let page = app
        .get("/v1/webhook-deliveries?event_type=room.started")
        .send();
    assert!(
        page.text().contains(&format!("\"payload\":{body},")),
        "{body} in {}",
        page.text()
    );
    let page = page.expect(200);
    let delivery = &page["webhook_deliveries"][0];
    let expected = json!({
        "id": delivery["id"], "endpoint_id": endpoint["id"], "endpoint_url": receiver.url,
        "event_type": "room.started", "payload": serde_json::from_str::<Value>(&body).unwrap(),
        "status": "delivered", "attempts": 1, "delivered_at": app.now(), "created_at": queued_at, "last_error": "",
        "response_status": 204
    });
    assert_eq!(
        page,
        json!({"webhook_deliveries": [expected], "limit": 50, "offset": 0, "has_more": false})
    );
}

#[test]
fn a_pending_delivery_has_a_next_attempt_and_no_response_yet() {
    let app = TestApp::start_with(|config| config.webhooks.timeout = NEVER);
    // Dropped before the app, which would wait for the post in flight.
    let hanging = Hanging::start();
    app.endpoint(&hanging.url);
    app.room("standup");
    app.join("standup", "alice", "host");
    let delivery = &app.deliveries("status=pending&event_type=room.started")[0];
    let expected = json!({
        "id": delivery["id"], "endpoint_id": delivery["endpoint_id"], "endpoint_url": hanging.url,
        "event_type": "room.started", "payload": delivery["payload"], "status": "pending", "attempts": 0,
        "next_attempt_at": app.now(), "created_at": app.now(), "last_error": "", "response_status": null
    });
    assert_eq!(*delivery, expected);
}

#[test]
fn a_first_attempt_leaves_at_once() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    app.join("standup", "alice", "host");
    assert_eq!(receiver.types(2), ["room.started", "participant.joined"]);
    app.settle();
    // The clock has not moved: no tick has passed.
    app.join("standup", "bob", "host");
    assert_eq!(receiver.next().json()["participant_identity"], "bob");
}

#[test]
fn behind_a_failed_event_of_its_room_a_first_attempt_waits_for_the_tick() {
    let (app, receiver) = TestApp::start_with_receiver();
    receiver.answer_with(500);
    app.room("standup");
    app.join("standup", "alice", "host");
    app.wait_until_armed();
    assert_eq!(receiver.drain().len(), 1, "the second event waits");
    let endpoint = app.actors("?kind=webhook_endpoint")["actors"][0].clone();
    let tick = app.clock.now().after(Duration::from_secs(5)).to_string();
    assert_eq!(
        endpoint["timers"],
        json!([{"name": "tick", "fires_at": tick}])
    );
    receiver.answer_with(204);
    // An event of another room does not wait.
    app.room("other");
    app.delete("/v1/rooms/other").send().expect_empty(204);
    assert_eq!(receiver.next().json()["room"], "other");
    app.wait_until_armed();
    app.advance(Duration::from_millis(4_999));
    app.wait_until_armed();
    assert!(receiver.drain().is_empty());
    app.advance(Duration::from_millis(1));
    assert_eq!(receiver.next().json()["type"], "participant.joined");
    app.settle();
    // The retry keeps its schedule.
    app.advance(Duration::from_secs(54));
    app.settle();
    assert!(receiver.drain().is_empty());
    app.advance(Duration::from_secs(1));
    assert_eq!(receiver.next().json()["type"], "room.started");
}

#[test]
fn a_first_attempt_leaves_at_once_although_many_events_of_another_room_wait() {
    let (app, receiver) = TestApp::start_with_receiver();
    receiver.answer_with(500);
    app.room("standup");
    app.join("standup", "first", "");
    app.wait_until_armed();
    // More than one batch waits behind the failed event.
    for number in 0..60 {
        app.join("standup", &format!("user-{number}"), "");
    }
    app.wait_until_armed();
    assert_eq!(receiver.drain().len(), 1);
    receiver.answer_with(204);
    app.room("other");
    app.delete("/v1/rooms/other").send().expect_empty(204);
    assert_eq!(receiver.next().json()["room"], "other");
}

#[test]
fn a_first_attempt_leaves_beside_a_post_with_many_events_of_its_room_behind_it() {
    let app = TestApp::start_with(|config| config.webhooks.timeout = NEVER);
    // Dropped before the app, which would wait for the post in flight.
    let hanging = Hanging::for_event("participant.left");
    app.endpoint(&hanging.url);
    app.room("busy");
    for number in 0..60 {
        app.join("busy", &format!("user-{number}"), "");
    }
    app.settle();
    // The events of the end are more than one batch.
    app.delete("/v1/rooms/busy").send().expect_empty(204);
    app.room("quiet");
    app.delete("/v1/rooms/quiet").send().expect_empty(204);
    let is_of_quiet = |delivery: &Value| delivery["payload"]["room"] == "quiet";
    eventually(|| app.deliveries("status=delivered").iter().any(is_of_quiet) && hanging.held() > 0);
    assert_eq!(hanging.held(), 1);
}

#[test]
fn deliveries_are_filtered_by_status_event_and_endpoint_newest_first() {
    let (app, good, bad) = (TestApp::start(), Receiver::start(), Receiver::start());
    bad.answer_with(500);
    let [good_id, bad_id] =
        [&good, &bad].map(|r| app.endpoint(&r.url)["id"].as_str().unwrap().to_owned());
    app.room("standup");
    app.join("standup", "alice", "host");
    app.deliver();
    let count = |query: &str| app.deliveries(query).len();
    assert_eq!(
        (
            count(""),
            count("status=delivered"),
            count("status=pending"),
            count("status=failed")
        ),
        (4, 2, 2, 0)
    );
    assert_eq!(count("event_type=room.started"), 2);
    assert_eq!(count(&format!("endpoint_id={good_id}&status=delivered")), 2);
    assert_eq!(count(&format!("endpoint_id={bad_id}&status=delivered")), 0);
    let newest = app.deliveries(&format!("endpoint_id={good_id}"));
    let types: Vec<_> = newest
        .iter()
        .map(|delivery| delivery["event_type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["participant.joined", "room.started"]);
    let refused = |query: &str| app.get(&format!("/v1/webhook-deliveries?{query}")).send();
    refused("status=lost").expect_error(400, "invalid_request", Some("status"));
    refused("event_type=room.exploded").expect_error(400, "invalid_request", Some("event_type"));
    refused("endpoint_id=x").expect_error(400, "invalid_request", Some("endpoint_id"));
}

/// Proves R-8.
#[test]
fn within_each_room_first_attempts_keep_the_order_of_events() {
    let (app, receiver) = TestApp::start_with_receiver();
    let rooms = ["a", "b", "c", "d", "e"];
    for room in rooms {
        app.room(room);
    }
    // One delivered event first, after which rooms are posted in parallel.
    app.join("a", "first", "");
    app.deliver();
    for round in 0..12 {
        for room in rooms {
            let sid = app.join(room, &format!("p{round}"), "");
            app.leave(&sid, round % 2 == 0);
        }
    }
    let events = app.events(&receiver);
    let mut order: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for event in events.iter().filter(|event| {
        event["participant_identity"]
            .as_str()
            .is_some_and(|p| p != "first")
    }) {
        let step = (
            event["participant_identity"].as_str().unwrap(),
            event["type"].as_str().unwrap(),
        );
        order
            .entry(event["room"].as_str().unwrap())
            .or_default()
            .push(step);
    }
    let names: Vec<_> = (0..12).map(|round| format!("p{round}")).collect();
    let gone = ["participant.left", "participant.connection_aborted"];
    let expected: Vec<_> = names
        .iter()
        .enumerate()
        .flat_map(|(round, name)| {
            [
                (name.as_str(), "participant.joined"),
                (name.as_str(), gone[round % 2]),
            ]
        })
        .collect();
    assert_eq!(order.len(), rooms.len());
    for (room, steps) in order {
        assert_eq!(steps, expected, "{room}");
    }
}

#[test]
fn more_than_one_batch_is_posted_in_order() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("crowd");
    for n in 0..130 {
        app.join("crowd", &format!("p{n}"), "");
    }
    let received: Vec<_> = (0..131).map(|_| receiver.next().json()).collect();
    assert_eq!(received[0]["type"], "room.started");
    for (n, event) in received[1..].iter().enumerate() {
        assert_eq!(event["participant_identity"], format!("p{n}"));
    }
    app.settle();
    assert_eq!(app.deliveries("status=delivered").len(), 131);
}

#[test]
fn pending_deliveries_survive_a_restart() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let secret = app.endpoint(&receiver.url)["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    app.room("standup");
    receiver.answer_with(500);
    let alice = app.join("standup", "alice", "");
    app.leave(&alice, true);
    // The first has failed, and the others wait behind it.
    app.wait_until_armed();
    assert_eq!(receiver.drain().len(), 1);
    receiver.answer_with(204);
    let app = app.restart();
    app.deliver();
    app.advance(Duration::from_secs(60));
    app.settle();
    let received = receiver.drain();
    let types: Vec<_> = received
        .iter()
        .map(|request| request.json()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        types,
        ["participant.joined", "participant.left", "room.started"]
    );
    assert!(
        received
            .iter()
            .all(|request| request.is_signed_with(&secret))
    );
}

/// Proves R-9, S-76.
#[test]
fn a_hundred_receivers_that_never_answer_do_not_delay_another() {
    // A delivery behind a hanging receiver would not be posted before the test fails.
    let app = TestApp::start_with(|config| config.webhooks.timeout = NEVER);
    let (receiver, hanging) = (Receiver::start(), Hanging::start());
    for n in 0..100 {
        app.endpoint(&format!("{}/{n}", hanging.url));
    }
    app.endpoint(&receiver.url);
    app.room("standup");
    app.join("standup", "alice", "");
    assert_eq!(receiver.types(2), ["room.started", "participant.joined"]);
    eventually(|| hanging.held() == 100);
    // A second event arrives while the other receivers still hang.
    app.join("standup", "bob", "");
    assert_eq!(receiver.next().json()["participant_identity"], "bob");
    assert_eq!(hanging.held(), 100);
}

/// The longest of the default `webhooks.retry_delays`.
const LONGEST_DELAY: Duration = Duration::from_secs(2 * 3_600);

#[test]
fn after_a_restart_a_receiver_that_has_answered_does_not_wait_for_hanging_ones() {
    let mut app =
        TestApp::start_with(|config| config.webhooks.timeout = Duration::from_millis(300));
    // Dropped before the app, which would wait for the hanging posts.
    let (receiver, hanging) = (Receiver::start(), Hanging::start());
    app.endpoint(&receiver.url);
    for n in 0..150 {
        app.endpoint(&format!("{}/{n}", hanging.url));
    }
    let end_room = |app: &TestApp, room: &str| {
        app.room(room);
        app.delete(&format!("/v1/rooms/{room}"))
            .send()
            .expect_empty(204);
    };
    end_room(&app, "before");
    app.deliver();
    assert_eq!(receiver.next().json()["room"], "before");
    // A busy machine may respond after the timeout.
    eventually(|| {
        let is_delivered = app.deliveries("status=delivered").len() == 1;
        if !is_delivered {
            app.advance(LONGEST_DELAY);
            app.deliver();
        }
        is_delivered
    });
    receiver.drain();
    let held = hanging.held();
    app = app.restart_with(|config| config.webhooks.timeout = NEVER);
    app.wait_until_armed();
    app.advance(LONGEST_DELAY);
    eventually(|| hanging.held() >= held + 100);
    end_room(&app, "after");
    assert_eq!(receiver.next().json()["room"], "after");
}
