//! A media plane that is unreachable for a while or loses reports: the responses to callers, and how the records are reconciled with the
//! media plane.

use std::time::Duration;

use conclave_model::Timestamp;
use serde_json::{Value, json};

use crate::support::{Receiver, Request, TestApp, eventually};

const RECONCILE: Duration = Duration::from_secs(60);

fn started() -> (TestApp, Receiver) {
    let (app, receiver) = TestApp::start_with_receiver();
    app.post("/v1/rooms")
        .json(json!({"name": "standup", "empty_timeout_seconds": 86_400}))
        .send()
        .expect(201);
    (app, receiver)
}

impl TestApp {
    /// Makes the media plane unreachable for this long.
    pub fn outage(&self, seconds: u32) {
        let answer = self
            .admin("POST", "/sandbox/outage")
            .json(json!({"seconds": seconds}))
            .send()
            .expect(200);
        assert_eq!(answer, json!({"seconds": seconds}));
    }

    /// Drops the next `count` reports.
    pub fn drop_reports(&self, count: u32) {
        let answer = self
            .admin("POST", "/sandbox/drop_reports")
            .json(json!({"count": count}))
            .send()
            .expect(200);
        assert_eq!(answer, json!({"count": count}));
    }

    /// Returns the events with these types so far, oldest first, from the delivery log.
    pub fn logged(&self, types: &[&str]) -> Vec<Value> {
        let mut events: Vec<_> = self
            .deliveries("")
            .iter()
            .map(|delivery| delivery["payload"].clone())
            .collect();
        events.reverse();
        events.retain(|event| types.contains(&event["type"].as_str().unwrap()));
        events
    }

    /// Advances to the next reconciliation round. The previous round's timers must be armed, or this round would be skipped.
    #[track_caller]
    pub fn next_round(&self) {
        let is_armed = |actor: &str, timer: &str| {
            let actor = self
                .admin("GET", &format!("/debug/actors/{actor}"))
                .send()
                .json();
            let timers = actor["timers"].as_array().cloned().unwrap_or_default();
            let round = timers.iter().find(|found| found["name"] == timer);
            let at = round.and_then(|timer| timer["fires_at"].as_str()?.parse::<Timestamp>().ok());
            at.is_some_and(|at| self.clock.now() < at && at <= self.clock.now().after(RECONCILE))
        };
        eventually(|| is_armed(&self.project, "reconcile") && is_armed("system", "survey"));
        self.advance(RECONCILE);
    }

    /// Advances to the next reconciliation round and waits for this many events of a type.
    #[track_caller]
    pub fn reconciled(&self, event_type: &str, count: usize) {
        self.next_round();
        eventually(|| self.logged(&[event_type]).len() >= count);
        assert_eq!(self.logged(&[event_type]).len(), count);
    }

    /// Waits until the media plane has listed a room's participants at the current time.
    #[track_caller]
    pub fn wait_until_seen(&self, room: &str) {
        let path = format!("/debug/actors/{}/room/{room}", self.project);
        let seen = json!({"at": self.now(), "message": "observed"});
        eventually(|| {
            self.admin("GET", &path).send().json()["history"]
                .as_array()
                .is_some_and(|h| h.contains(&seen))
        });
    }

    /// Asserts that every join event has exactly one leave event.
    #[track_caller]
    fn assert_paired(&self) {
        let types = [
            "participant.joined",
            "participant.left",
            "participant.connection_aborted",
        ];
        let events = self.logged(&types);
        for event in &events {
            let of = |joined: bool| {
                let same = events
                    .iter()
                    .filter(|other| other["participant_sid"] == event["participant_sid"]);
                same.filter(|other| (other["type"] == "participant.joined") == joined)
                    .count()
            };
            assert_eq!((of(true), of(false)), (1, 1), "{event}");
        }
    }

    /// Returns the session of a participant's join; `None` if there is none.
    fn session(&self, sid: &str) -> Option<Value> {
        let sessions = self.get("/v1/sessions").send().expect(200);
        let found = sessions["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["participant_sid"] == sid)?;
        let id = found["id"].as_str().unwrap();
        Some(self.get(&format!("/v1/sessions/{id}")).send().expect(200))
    }
}

/// Returns all calls that need the media plane.
fn asking(app: &TestApp, ingress: &str, track: &str) -> Vec<Request> {
    let room = |path: &str| format!("/v1/rooms/standup/{path}");
    vec![
        app.get(&room("participants")),
        app.get(&room("participants/alice")),
        app.delete(&room("participants/alice")),
        app.post(&room("participants/alice/mute"))
            .json(json!({"track_sid": track, "muted": true})),
        app.post(&room("participants/alice/role"))
            .json(json!({"role": "guest"})),
        app.post(&room("send-data")).json(json!({"data": "aGk="})),
        app.post(&room("ingress"))
            .json(json!({"input_type": "rtmp", "participant_identity": "second"})),
        app.get(ingress),
        app.delete(ingress),
    ]
}

#[test]
fn during_an_outage_calls_that_need_the_media_plane_are_503_and_the_others_work() {
    let (app, receiver) = started();
    let alice = app.join("standup", "alice", "host");
    let track = app.publish(&alice, "audio", "microphone");
    let ingress = app.ingress("standup", "encoder");
    let path = format!("/v1/ingress/{}", ingress["ingress_id"].as_str().unwrap());
    app.events(&receiver);
    app.outage(30);
    for request in asking(&app, &path, &track) {
        let answer = request.send();
        answer.expect_error(503, "media_unavailable", None);
        assert_eq!(answer.headers["retry-after"], "1");
    }
    let ready = app.admin("GET", "/readyz").send().expect(503);
    assert_eq!(
        (&ready["ready"], &ready["parts"]["media"]),
        (&json!(false), &json!("unavailable"))
    );
    for path in [
        "/v1/rooms",
        "/v1/rooms/standup",
        "/v1/sessions",
        "/v1/ingress",
        "/v1/rooms/standup/role-changes",
    ] {
        app.get(path).send().expect(200);
    }
    app.room("retro");
    // Participants stay, and their actions are reported; so are joins that need no call to the media plane.
    app.act(&alice, "mute", json!({"track_sid": track, "muted": true}))
        .expect(200);
    let bob = app.join("standup", "bob", "host");
    app.connect(&ingress);
    app.leave(&bob, true);
    // The template has subscription rules, which the media plane must have before a participant joins.
    let roles = json!({"guest": {"subscribe": {"to_roles": []}}});
    app.outage(0);
    app.room_with_roles("quiet", &roles);
    let token = app.token("quiet", "carol", "guest");
    app.outage(30);
    app.join_with(&token)
        .expect_error(503, "media_unavailable", None);
    app.advance(Duration::from_secs(30));
    app.admin("GET", "/readyz").send().expect(200);
    app.join_with(&token).expect(201);
    let listed = app.get("/v1/rooms/standup/participants").send().expect(200);
    assert_eq!(listed["participants"].as_array().unwrap().len(), 2);
    // No refused call had an effect.
    assert_eq!(app.ingress_now(&ingress)["status"], "publishing");
    assert_eq!(
        app.get("/v1/ingress").send().expect(200)["ingresses"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        app.get("/v1/rooms/standup/role-changes").send().expect(200)["role_changes"],
        json!([])
    );
    let request = asking(&app, &path, &track);
    for (request, status) in request
        .into_iter()
        .zip([200, 200, 204, 404, 404, 200, 201, 200, 204])
    {
        let answer = request.send();
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

#[test]
fn zero_seconds_end_an_outage() {
    let (app, _) = started();
    app.outage(3_600);
    app.get("/v1/rooms/standup/participants")
        .send()
        .expect_error(503, "media_unavailable", None);
    app.outage(0);
    app.get("/v1/rooms/standup/participants").send().expect(200);
    let refused = |path: &str, body: Value, field: &str| {
        app.admin("POST", path)
            .json(body)
            .send()
            .expect_error(400, "invalid_request", Some(field));
    };
    refused("/sandbox/outage", json!({}), "seconds");
    refused("/sandbox/outage", json!({"seconds": -1}), "seconds");
    refused("/sandbox/drop_reports", json!({"count": "all"}), "count");
}

#[test]
fn a_room_ended_during_an_outage_ends_at_once_and_its_participants_leave_after_the_outage() {
    let (app, receiver) = started();
    let alice = app.join("standup", "alice", "host");
    let ingress = app.ingress("standup", "encoder");
    app.connect(&ingress);
    app.events(&receiver);
    app.outage(20);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(
        app.get("/v1/rooms/standup").send().expect(200)["status"],
        "ended"
    );
    assert_eq!(app.ingress_now(&ingress)["status"], "complete");
    app.wait_for_event("room.finished", 1);
    assert_eq!(app.view(&alice)["participant"]["state"], "active");
    // Without a call, the return is noticed before the next reconciliation round.
    app.advance(Duration::from_secs(20));
    eventually(|| {
        // The health check may run a moment before the outage ends.
        app.advance(Duration::from_millis(100));
        app.view(&alice)["participant"]["state"] == "disconnected"
    });
    assert_eq!(
        app.view(&alice)["inbox"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()["type"],
        "room_ended"
    );
    eventually(|| app.encoder(&ingress, "connect").status == 404);
    assert_eq!(app.logged(&["ingress.ended", "room.finished"]).len(), 2);
    app.assert_paired();
}

#[test]
fn missed_changes_are_reconciled_as_soon_as_the_plane_is_back() {
    let (app, _) = started();
    let alice = app.join("standup", "alice", "host");
    app.outage(20);
    app.drop_reports(1);
    app.leave(&alice, true);
    app.get("/v1/rooms/standup/participants")
        .send()
        .expect_error(503, "media_unavailable", None);
    app.advance(Duration::from_secs(20));
    app.advance_until(RECONCILE / 2, || {
        app.session(&alice).unwrap().get("left_at").is_some()
    });
    app.wait_for_event("participant.connection_aborted", 1);
    app.assert_paired();
}

#[test]
fn a_lost_join_is_recorded_within_one_round_also_in_a_hibernating_room() {
    let (app, _) = started();
    app.drop_reports(1);
    let alice = app.join("standup", "alice", "host");
    assert_eq!(app.session(&alice), None);
    assert!(
        app.get("/v1/rooms/standup")
            .send()
            .expect(200)
            .get("started_at")
            .is_none()
    );
    app.reconciled("participant.joined", 1);
    assert_eq!(app.logged(&["room.started"]).len(), 1);
    app.drop_reports(2);
    let bob = app.join("standup", "bob", "guest");
    let track = app.publish(&bob, "video", "camera");
    app.reconciled("participant.joined", 2);
    app.wait_for_event("track.published", 1);
    let session = app.session(&bob).unwrap();
    assert_eq!(
        (&session["role"], &session["tracks"][0]["track_sid"]),
        (&json!("guest"), &json!(track))
    );
    app.leave(&alice, true);
    app.leave(&bob, false);
    app.advance(RECONCILE);
    app.assert_paired();
}

#[test]
fn a_lost_leave_is_recorded_within_one_round() {
    let (app, _) = started();
    let (alice, bob) = (
        app.join("standup", "alice", "host"),
        app.join("standup", "bob", ""),
    );
    let track = app.publish(&alice, "audio", "microphone");
    app.advance(Duration::from_secs(10));
    app.drop_reports(2);
    app.leave(&alice, true);
    assert!(app.session(&alice).unwrap().get("left_at").is_none());
    app.reconciled("participant.connection_aborted", 1);
    let session = app.session(&alice).unwrap();
    assert_eq!(session["left_at"], json!(app.now()));
    assert_eq!(
        (
            &session["tracks"][0]["track_sid"],
            &session["tracks"][0]["ended_at"]
        ),
        (&json!(track), &json!(app.now()))
    );
    app.leave(&bob, true);
    app.assert_paired();
}

#[test]
fn a_participant_whose_join_and_leave_were_lost_is_not_recorded() {
    let (app, _) = started();
    app.drop_reports(2);
    let alice = app.join("standup", "alice", "host");
    app.leave(&alice, true);
    app.advance(RECONCILE);
    app.join("standup", "bob", "");
    app.wait_for_event("participant.joined", 1);
    assert_eq!(app.session(&alice), None);
}

#[test]
fn lost_reports_of_tracks_are_recorded_within_one_round() {
    let (app, _) = started();
    let alice = app.join("standup", "alice", "host");
    app.drop_reports(1);
    let track = app.publish(&alice, "audio", "microphone");
    let open = app.publish(&alice, "video", "camera");
    app.reconciled("track.published", 2);
    app.drop_reports(1);
    app.act(&alice, "mute", json!({"track_sid": track, "muted": true}))
        .expect(200);
    // A mute is no event, but the track's next event contains it.
    app.next_round();
    app.wait_until_seen("standup");
    app.drop_reports(1);
    app.unpublish(&alice, &track);
    app.reconciled("track.unpublished", 1);
    let ended = app.logged(&["track.unpublished"]);
    let facts = json!({
        "participant_identity": "alice", "participant_sid": alice, "role": "host", "track_sid": track,
        "track_kind": "audio", "track_source": "microphone", "track_muted": true
    });
    assert_eq!(ended, [app.event("track.unpublished", "standup", &facts)]);
    app.reconciled("track.published", 2);
    let tracks = app.session(&alice).unwrap()["tracks"].clone();
    let ends: Vec<_> = tracks
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (t["track_sid"].clone(), t.get("ended_at").is_some()))
        .collect();
    assert_eq!(ends, [(json!(open), false), (json!(track), true)]);
}

#[test]
fn lost_reports_of_an_ingress_are_recorded_within_one_round() {
    let (app, _) = started();
    let ingress = app.ingress("standup", "encoder");
    // The join, two tracks, and the endpoint's status.
    app.drop_reports(4);
    app.connect(&ingress);
    app.reconciled("ingress.started", 1);
    app.wait_for_event("track.published", 2);
    app.drop_reports(4);
    app.encoder(&ingress, "disconnect").expect(200);
    app.reconciled("ingress.ended", 1);
    app.wait_for_event("participant.connection_aborted", 1);
    app.assert_paired();
    assert_eq!(app.ingress_now(&ingress)["status"], "inactive");
}

#[test]
fn a_participant_over_the_cap_whose_join_was_lost_is_removed_with_one_event() {
    let (app, _) = started();
    app.room_with_roles("stage", &json!({"speaker": {"max_peer_count": 1}}));
    let tokens = [
        app.token("stage", "alice", "speaker"),
        app.token("stage", "bob", "speaker"),
    ];
    app.join_with(&tokens[0]).expect(201);
    app.drop_reports(1);
    let bob = app.join_with(&tokens[1]).expect(201)["sid"].clone();
    app.reconciled("participant.connection_aborted", 1);
    eventually(|| app.view(bob.as_str().unwrap())["participant"]["state"] == "disconnected");
    app.reconciled("participant.connection_aborted", 1);
    assert_eq!(
        app.logged(&["participant.connection_aborted"])[0]["participant_sid"],
        bob
    );
}

#[test]
fn an_unknown_egress_and_an_impossible_status_are_refused() {
    let (app, _) = started();
    let drive = |body: Value| {
        app.admin("POST", "/sandbox/egress/EG_unknown")
            .json(body)
            .send()
    };
    drive(json!({"status": "active"})).expect_error(404, "not_found", None);
    for status in [
        json!("starting"),
        json!("ending"),
        json!("done"),
        json!({"active": null}),
        json!(7),
    ] {
        drive(json!({"status": status})).expect_error(400, "invalid_request", Some("status"));
    }
    drive(json!({"status": "failed", "error": null})).expect_error(
        400,
        "invalid_request",
        Some("error"),
    );
}
