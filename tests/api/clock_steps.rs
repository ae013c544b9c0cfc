//! A clock that is set forward and back: no operation is delayed until the clock has caught up.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

const DAY: i64 = 24 * 3_600 * 1_000;

/// Runs `work` while the clock is ahead, then sets it back.
fn while_ahead<T>(app: &TestApp, days: i64, work: impl FnOnce() -> T) -> T {
    app.clock.step(days * DAY);
    let done = work();
    app.clock.step(-days * DAY);
    done
}

/// Advances the clock in ticks until `holds`, by one minute at most.
fn within_a_minute(app: &TestApp, holds: impl FnMut() -> bool) {
    within_minutes(app, 1, holds);
}

fn within_minutes(app: &TestApp, minutes: u32, mut holds: impl FnMut() -> bool) {
    for _ in 0..12 * minutes {
        app.advance(Duration::from_secs(5));
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_millis(300) {
            if holds() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
    // The clock stops here, but a busy machine may need real time for work that is already due.
    eventually(holds);
}

fn one_event(app: &TestApp, room: &str) {
    app.room(room);
    app.delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

fn is_ended(app: &TestApp, room: &str) -> bool {
    app.get(&format!("/v1/rooms/{room}")).send().expect(200)["status"] == "ended"
}

#[test]
fn events_from_before_and_after_a_step_are_posted_in_their_order() {
    let (app, receiver) = TestApp::start_with_receiver();
    let alice = while_ahead(&app, 1, || {
        app.room("standup");
        app.join("standup", "alice", "")
    });
    app.leave(&alice, true);
    let mut seen = Vec::new();
    within_a_minute(&app, || {
        seen.extend(
            receiver
                .drain()
                .iter()
                .map(|post| post.json()["type"].as_str().unwrap().to_owned()),
        );
        seen.len() == 3
    });
    assert_eq!(
        seen,
        ["room.started", "participant.joined", "participant.left"]
    );
}

#[test]
fn a_retry_that_was_scheduled_by_a_clock_ahead_is_made() {
    let (app, receiver) = TestApp::start_with_receiver();
    receiver.answer_with(500);
    while_ahead(&app, 1, || {
        one_event(&app, "standup");
        app.deliver();
    });
    receiver.next();
    receiver.answer_with(204);
    let app = app.restart();
    within_a_minute(&app, || !receiver.drain().is_empty());
    eventually(|| app.deliveries("status=delivered").len() == 1);
    let delivery = &app.deliveries("")[0];
    assert_eq!(delivery["attempts"], 2, "{delivery}");
}

#[test]
fn a_code_expires_by_the_present_clock() {
    let app = TestApp::start();
    app.room("standup");
    // The room must not end while the clock is ahead.
    app.join("standup", "alice", "");
    let code: Value = app
        .post("/v1/rooms/standup/codes")
        .json(json!({"role": "guest"}))
        .send()
        .expect(201);
    while_ahead(&app, 2, || app.room("another"));
    let path = format!("/v1/codes/{}/exchange", code["code"].as_str().unwrap());
    app.post(&path)
        .anonymous()
        .json(json!({"identity": "bob"}))
        .send()
        .expect(201);
}

#[test]
fn a_record_has_the_time_of_the_present_clock() {
    let app = TestApp::start();
    while_ahead(&app, 1, || app.room("ahead"));
    assert_eq!(app.room("standup")["created_at"], app.now());
}

/// Proves R-4.
#[test]
fn a_room_that_emptied_while_the_clock_was_ahead_ends_after_its_timeout() {
    let app = TestApp::start();
    for room in ["one", "two"] {
        while_ahead(&app, 1, || app.room(room));
        app.advance(Duration::from_secs(100));
    }
    app.advance(Duration::from_secs(99));
    assert!(!is_ended(&app, "one"));
    app.advance(Duration::from_secs(1));
    eventually(|| is_ended(&app, "one"));
    app.advance(Duration::from_secs(99));
    assert!(!is_ended(&app, "two"));
    app.advance(Duration::from_secs(1));
    eventually(|| is_ended(&app, "two"));
}

#[test]
fn a_room_whose_deadline_is_too_far_away_at_the_start_ends_after_its_timeout() {
    let app = TestApp::start();
    while_ahead(&app, 1, || app.room("standup"));
    let app = app.restart();
    eventually(|| {
        !app.actors("?kind=room")["actors"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    app.advance(Duration::from_secs(299));
    assert!(!is_ended(&app, "standup"));
    app.advance(Duration::from_secs(1));
    eventually(|| is_ended(&app, "standup"));
}

/// Proves F-17.
#[test]
fn after_a_step_of_hours_in_either_direction_webhooks_timers_and_reconciliation_go_on() {
    for hours in [5, -5] {
        let (app, receiver) = TestApp::start_with_receiver();
        let room = |name: &str, timeout: u32| {
            app.post("/v1/rooms")
                .json(json!({"name": name, "empty_timeout_seconds": timeout}))
                .send()
                .expect(201)
        };
        room("long", 86_400);
        let alice = app.join("long", "alice", "");
        app.deliver();
        assert_eq!(receiver.types(2), ["room.started", "participant.joined"]);
        room("empty", 60);
        app.clock.step(hours * 3_600 * 1_000);
        // The reconciliation that runs every minute finds it.
        app.drop_reports(1);
        app.leave(&alice, true);
        let mut seen = Vec::new();
        within_minutes(&app, 3, || {
            seen.extend(
                receiver
                    .drain()
                    .iter()
                    .map(|post| post.json()["type"].as_str().unwrap().to_owned()),
            );
            seen.len() >= 2 && is_ended(&app, "empty")
        });
        seen.sort_unstable();
        assert_eq!(
            seen,
            ["participant.connection_aborted", "room.finished"],
            "{hours} h"
        );
        assert_eq!(app.room("after")["created_at"], app.now());
    }
}
