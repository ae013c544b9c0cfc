//! `/v1/usage` and `/v1/plan`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::tools::conclave;

/// Runs `conclave project …` on a running app's data.
fn project(app: &TestApp, words: &[&str]) {
    conclave(app, &[&["project"], words].concat());
}

fn on_plan(plan: &str) -> TestApp {
    let app = TestApp::start();
    project(&app, &["set-plan", &app.project, plan]);
    app
}

fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3_600)
}

fn create(app: &TestApp, name: &str) -> crate::support::Response {
    app.post("/v1/rooms")
        .json(json!({"name": name, "empty_timeout_seconds": 4_000_000}))
        .send()
}

fn day(usage: &Value, date: &str) -> Value {
    usage["days"]
        .as_array()
        .unwrap()
        .iter()
        .find(|day| day["date"] == date)
        .cloned()
        .unwrap_or(Value::Null)
}

#[test]
fn a_plan_without_limits_shows_nulls_and_nothing_used() {
    let app = TestApp::start();
    let expected = json!({
        "plan_id": "self_hosted", "display_name": "Self-hosted", "price_ugx": 0,
        "limits": {"concurrent_rooms": null, "participants_per_room": null, "participant_minutes_per_month": null},
        "features": {"recording": true, "streaming": true}, "quota_state": "active", "period_start": "2026-03-01",
        "participant_minutes_used": 0.0, "participant_minutes_remaining": null, "active_rooms": 0
    });
    assert_eq!(app.get("/v1/plan").send().expect(200), expected);
    app.room("a");
    assert_eq!(app.get("/v1/plan").send().json()["active_rooms"], 1);
}

#[test]
fn usage_has_a_row_for_each_of_thirty_days_and_ends_today() {
    let app = TestApp::start();
    let usage = app.get("/v1/usage").send().expect(200);
    let days = usage["days"].as_array().unwrap();
    assert_eq!(
        (days.len(), &days[0]["date"], &days[29]["date"]),
        (30, &json!("2026-01-31"), &json!("2026-03-01"))
    );
    assert_eq!(
        days[0],
        json!({"date": "2026-01-31", "participant_minutes": 0.0, "sessions": 0})
    );
    assert_eq!(usage["total_participant_minutes"], 0.0);
    assert_eq!(usage["plan"], app.get("/v1/plan").send().json());
    assert_eq!(usage.as_object().unwrap().len(), 3);
}

#[test]
fn a_session_over_midnight_counts_its_minutes_on_each_day_and_begins_on_one() {
    let app = TestApp::start();
    create(&app, "a").expect(201);
    app.advance(hours(11) + Duration::from_secs(59 * 60));
    let sid = app.join("a", "alice", "host");
    app.advance(Duration::from_secs(150));
    let open = app
        .get("/v1/usage?from=2026-03-01&to=2026-03-02")
        .send()
        .expect(200);
    app.leave(&sid, true);
    app.advance(hours(1));
    let closed = app
        .get("/v1/usage?from=2026-03-01&to=2026-03-02")
        .send()
        .expect(200);
    assert_eq!(open["days"], closed["days"]);
    let expected = json!([
        {"date": "2026-03-01", "participant_minutes": 1.0, "sessions": 1},
        {"date": "2026-03-02", "participant_minutes": 1.5, "sessions": 0}
    ]);
    assert_eq!(closed["days"], expected);
    assert_eq!(closed["total_participant_minutes"], 2.5);
    assert_eq!(closed["plan"]["participant_minutes_used"], 2.5);
}

#[test]
fn usage_survives_a_restart_and_counts_disconnected_participants_once() {
    let app = TestApp::start();
    create(&app, "a").expect(201);
    app.join("a", "alice", "host");
    app.advance(Duration::from_secs(60));
    let app = app.restart();
    crate::support::eventually(|| {
        app.get("/v1/sessions?active=true").send().json()["sessions"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    app.advance(hours(1));
    let usage = app.get("/v1/usage").send().expect(200);
    assert_eq!(
        day(&usage, "2026-03-01"),
        json!({"date": "2026-03-01", "participant_minutes": 1.0, "sessions": 1})
    );
}

#[test]
fn an_invalid_window_is_refused() {
    let app = TestApp::start();
    for (query, field) in [
        ("from=yesterday", "from"),
        ("to=2026-02-30", "to"),
        ("from=2026-03-02&to=2026-03-01", "from"),
        ("from=1970-01-01", "from"),
        ("colour=red", "colour"),
    ] {
        app.get(&format!("/v1/usage?{query}")).send().expect_error(
            400,
            "invalid_request",
            Some(field),
        );
    }
    let one = app
        .get("/v1/usage?to=2026-02-10&from=2026-02-10")
        .send()
        .expect(200);
    assert_eq!(one["days"].as_array().unwrap().len(), 1);
}

#[test]
fn a_spent_month_refuses_work_until_the_next_begins() {
    let app = on_plan("free");
    create(&app, "a").expect(201);
    app.join("a", "alice", "host");
    // 10,000 minutes are one participant for 166 hours and 40 minutes.
    app.advance(hours(166));
    let token = json!({"room": "a", "identity": "bob"});
    app.post("/v1/tokens")
        .json(token.clone())
        .send()
        .expect(201);
    app.advance(hours(1));
    let plan = app.get("/v1/plan").send().expect(200);
    assert_eq!(
        (&plan["quota_state"], &plan["participant_minutes_remaining"]),
        (&json!("exceeded"), &json!(0.0))
    );
    app.post("/v1/tokens")
        .json(token.clone())
        .send()
        .expect_error(402, "quota_exceeded", None);
    create(&app, "b").expect_error(402, "quota_exceeded", None);
    // From March 1, 12:00: 167 hours, and on to April 1, 07:00.
    app.advance(hours(31 * 24 - 12 + 7 - 167));
    let plan = app.get("/v1/plan").send().expect(200);
    assert_eq!(plan["period_start"], "2026-04-01");
    // Alice is still connected, and only her time in the new month counts.
    let (used, state) = (
        plan["participant_minutes_used"].as_f64().unwrap(),
        &plan["quota_state"],
    );
    assert_eq!((used, state), (7.0 * 60.0, &json!("active")));
    create(&app, "b").expect(201);
}

#[test]
fn overage_is_paid_from_the_wallet_and_an_empty_wallet_refuses() {
    let app = on_plan("starter");
    create(&app, "a").expect(201);
    for identity in ["p1", "p2", "p3", "p4", "p5", "p6", "p7"] {
        app.join("a", identity, "guest");
    }
    // Seven participants for 120 hours: 50,400 minutes, 400 past the block, 8 shillings each.
    app.advance(hours(120));
    create(&app, "b").expect_error(402, "insufficient_balance", None);
    assert_eq!(app.get("/v1/plan").send().json()["quota_state"], "exceeded");
    project(&app, &["credit", &app.project, "3200"]);
    create(&app, "b").expect_error(402, "insufficient_balance", None);
    project(&app, &["credit", &app.project, "1"]);
    create(&app, "b").expect(201);
    assert_eq!(app.get("/v1/plan").send().json()["quota_state"], "active");
}

#[test]
fn a_suspended_project_is_shown_and_starts_no_work() {
    let app = TestApp::start();
    create(&app, "a").expect(201);
    project(&app, &["suspend", &app.project]);
    assert_eq!(
        app.get("/v1/plan").send().json()["quota_state"],
        "suspended"
    );
    create(&app, "b").expect_error(402, "quota_exceeded", None);
    app.get("/v1/usage").send().expect(200);
    project(&app, &["resume", &app.project]);
    create(&app, "b").expect(201);
}
