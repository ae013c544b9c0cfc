//! State after a server crash, with the embedded media plane.

use std::time::Duration;

use conclave_model::Timestamp;
use serde_json::json;
use test_postgres::Engine;

use crate::support::{TestApp, eventually};

/// Heartbeat interval with SQLite. With PostgreSQL it is one second.
const HEARTBEAT: Duration = Duration::from_secs(60);

impl TestApp {
    /// Advances to the next heartbeat and waits until it is written.
    #[track_caller]
    fn next_heartbeat(&self) {
        self.wait_for_heartbeat();
        self.advance(HEARTBEAT);
        self.wait_for_heartbeat();
    }

    /// Waits until this heartbeat is written: only then is the next one's timer armed.
    #[track_caller]
    fn wait_for_heartbeat(&self) {
        eventually(|| {
            let system = self.admin("GET", "/debug/actors/system").send().json();
            let timers = system["timers"].as_array().cloned().unwrap_or_default();
            let next = timers.iter().find(|timer| timer["name"] == "heartbeat");
            let at = next.and_then(|timer| timer["fires_at"].as_str()?.parse::<Timestamp>().ok());
            at.is_some_and(|at| self.clock.now() < at)
        });
    }
}

/// Proves R-29.
#[test]
fn sessions_end_at_the_last_heartbeat_before_a_crash_and_the_empty_timer_starts_after_it() {
    let (app, _receiver) = TestApp::start_with_receiver();
    app.post("/v1/rooms")
        .json(json!({"name": "standup", "empty_timeout_seconds": 60}))
        .send()
        .expect(201);
    let alice = app.join("standup", "alice", "host");
    app.publish(&alice, "audio", "microphone");
    for _ in 0..3 {
        app.next_heartbeat();
    }
    let heartbeat = app.now();
    app.advance(Duration::from_secs(20));
    let bob = app.join("standup", "bob", "guest");
    let joined = app.now();
    app.advance(Duration::from_secs(20));
    let last = match Engine::chosen() {
        Engine::Sqlite => json!(heartbeat),
        Engine::Postgres => {
            app.wait_for_heartbeat();
            json!(app.now())
        }
    };
    // Bob's join may be his last recorded event.
    let last_of_bob = json!(last.as_str().max(Some(&joined)));
    let app = app.crash_for(Duration::from_secs(3_600));
    app.wait_for_event("participant.connection_aborted", 2);
    let sessions = app.get("/v1/sessions").send().expect(200)["sessions"].clone();
    let left = |sid: &str| {
        let session = sessions
            .as_array()
            .unwrap()
            .iter()
            .find(|session| session["participant_sid"] == sid)
            .unwrap();
        session["left_at"].clone()
    };
    assert_eq!(
        (left(&alice), left(&bob)),
        (last.clone(), last_of_bob.clone())
    );
    let aborted = app.logged(&["participant.connection_aborted"]);
    let times: Vec<_> = aborted
        .iter()
        .map(|event| event["occurred_at"].clone())
        .collect();
    assert_eq!(times, [last, last_of_bob]);
    let usage = app.get("/v1/usage").send().expect(200);
    let minutes = if Engine::chosen() == Engine::Sqlite {
        3.0
    } else {
        4.0
    };
    assert_eq!(usage["total_participant_minutes"], minutes, "{usage}");
    // Participants with a valid token have the whole timeout to return.
    assert_eq!(
        app.get("/v1/rooms/standup").send().expect(200)["status"],
        "open"
    );
    app.advance(Duration::from_secs(59));
    app.join("standup", "alice", "host");
}

#[test]
fn a_server_that_stopped_well_left_no_heartbeat() {
    let (app, _receiver) = TestApp::start_with_receiver();
    app.room("standup");
    app.join("standup", "alice", "host");
    app.next_heartbeat();
    app.advance(Duration::from_secs(20));
    let app = app.restart();
    app.wait_for_event("participant.connection_aborted", 1);
    let sessions = app.get("/v1/sessions").send().expect(200);
    assert_eq!(sessions["sessions"][0]["left_at"], json!(app.now()));
}

/// Proves R-30.
#[test]
fn sessions_end_when_the_server_stops_and_the_empty_timer_starts_when_it_runs_again() {
    let (app, _receiver) = TestApp::start_with_receiver();
    app.post("/v1/rooms")
        .json(json!({"name": "standup", "empty_timeout_seconds": 60}))
        .send()
        .expect(201);
    let alice = app.join("standup", "alice", "host");
    app.publish(&alice, "audio", "microphone");
    app.join("standup", "bob", "guest");
    app.next_heartbeat();
    app.advance(Duration::from_secs(30));
    let stopped = app.now();
    let app = app.restart_after(Duration::from_secs(3_600));
    let sessions = app.get("/v1/sessions").send().expect(200)["sessions"].clone();
    let left: Vec<_> = sessions
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["left_at"].clone())
        .collect();
    assert_eq!(left, [json!(stopped), json!(stopped)]);
    app.wait_for_event("participant.connection_aborted", 2);
    for event in app.logged(&["participant.connection_aborted", "track.unpublished"]) {
        assert_eq!(event["occurred_at"], json!(stopped), "{event}");
    }
    let usage = app.get("/v1/usage").send().expect(200);
    assert_eq!(usage["total_participant_minutes"], 3.0, "{usage}");
    assert_eq!(
        app.get("/v1/rooms/standup").send().expect(200)["status"],
        "open"
    );
    // Participants with a valid token have the whole timeout to return.
    app.advance(Duration::from_secs(59));
    app.join("standup", "alice", "host");
    app.advance(Duration::from_secs(3_600));
    assert_eq!(
        app.get("/v1/rooms/standup").send().expect(200)["status"],
        "open"
    );
}
