//! Reconciliation with a LiveKit whose lists are temporarily wrong, and with participants and jobs that no record expects.

use std::time::Duration;

use livekit_double::{Fault, Joining};
use proto::{DisconnectReason, TrackSource, TrackType};
use serde_json::json;

use super::{livekit, livekit_webhook, proto, room};
use crate::support::{Receiver, TestApp, eventually};

/// An empty list: empty in protobuf as well.
const EMPTY_LIST: Fault = Fault::Answer(200, "application/protobuf", "");

/// Minimum interval between the two lists that must both lack a participant.
const BETWEEN_LISTS: Duration = Duration::from_secs(10);

impl TestApp {
    #[track_caller]
    fn assert_open_sessions(&self, identities: &[&str]) {
        let open = self.get("/v1/sessions?active=true").send().expect(200);
        let open = open["sessions"].as_array().unwrap();
        let mut found: Vec<_> = open
            .iter()
            .map(|session| session["participant_identity"].as_str().unwrap())
            .collect();
        found.sort_unstable();
        assert_eq!(found, identities);
    }

    /// Advances to the next round and waits until the room's participants have been listed.
    #[track_caller]
    fn observed(&self, room: &str) {
        self.next_round();
        self.wait_until_seen(room);
    }

    /// Returns the metrics of the calls that list a room's participants, by outcome.
    fn lists(&self) -> Vec<String> {
        let metrics = self.admin("GET", "/metrics").send().text();
        let calls = metrics
            .lines()
            .filter(|line| line.starts_with("conclave_media_calls_total"));
        calls
            .filter(|line| line.contains("call=\"participants\""))
            .map(ToOwned::to_owned)
            .collect()
    }
}

#[test]
fn an_empty_list_is_no_answer_while_livekit_counts_participants() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    double.join(&room, &Joining::participant("alice"));
    app.wait_until_joined(1);
    double.set_listed(&room, "alice", false);
    for _ in 0..4 {
        let before = app.lists();
        app.next_round();
        eventually(|| app.lists() != before);
    }
    double.set_listed(&room, "alice", true);
    app.observed("standup");
    app.assert_open_sessions(&["alice"]);
    assert_eq!(
        app.logged(&["participant.connection_aborted", "participant.left"])
            .len(),
        0
    );
}

#[test]
fn a_session_is_closed_after_two_absences_in_a_row() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    double.join(&room, &Joining::participant("alice"));
    double.join(&room, &Joining::participant("bob"));
    app.wait_until_joined(2);
    for listed in [false, true, false] {
        double.set_listed(&room, "alice", listed);
        if listed {
            // The return is checked before the next round, which would otherwise start with two lists.
            app.advance(BETWEEN_LISTS);
            app.wait_until_seen("standup");
        }
        app.observed("standup");
        app.assert_open_sessions(&["alice", "bob"]);
    }
    app.reconciled("participant.connection_aborted", 1);
    app.assert_open_sessions(&["bob"]);
    assert_eq!(
        app.logged(&["participant.connection_aborted"])[0]["participant_identity"],
        "alice"
    );
}

/// Proves R-6.
#[test]
fn a_participant_that_is_listed_again_has_an_open_session_and_keeps_the_room_open() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let body = json!({"name": "standup", "empty_timeout_seconds": 90});
    app.post("/v1/rooms").json(body).send().expect(201);
    let room = format!("{}.standup", app.project);
    let sid = double.join(&room, &Joining::participant("alice"));
    double.publish(&room, "alice", TrackType::Audio, TrackSource::Microphone);
    app.wait_for_event("track.published", 1);
    double.fail("ListParticipants", EMPTY_LIST);
    double.fail("ListRooms", EMPTY_LIST);
    app.observed("standup");
    app.assert_open_sessions(&["alice"]);
    app.reconciled("participant.connection_aborted", 1);
    app.assert_open_sessions(&[]);
    double.heal();
    app.reconciled("participant.joined", 2);
    app.wait_for_event("track.published", 2);
    app.assert_open_sessions(&["alice"]);
    let again = &app.logged(&["participant.joined"])[1];
    assert_eq!(
        (&again["participant_sid"], &again["occurred_at"]),
        (&json!(sid), &json!(app.now()))
    );
    // Past the deadline that started when the session closed.
    app.observed("standup");
    assert_eq!(
        app.get("/v1/rooms/standup").send().expect(200)["status"],
        "open"
    );
    // The participant's leave closes the same session, which counts once.
    double.leave(&room, "alice", DisconnectReason::ClientInitiated);
    app.wait_for_event("participant.left", 1);
    assert_eq!(app.logged(&["track.unpublished"]).len(), 2);
    let sessions = app.get("/v1/sessions").send().expect(200);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
}

/// Proves R-31.
#[test]
fn a_crash_of_the_server_ends_no_session_on_livekit() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    double.join(&room, &Joining::participant("alice"));
    double.join(&room, &Joining::participant("bob"));
    app.wait_until_joined(2);
    double.drop_webhooks();
    double.leave(&room, "bob", DisconnectReason::ClientInitiated);
    let app = app.crash_for(Duration::from_secs(3_600));
    app.wait_until_seen("standup");
    app.assert_open_sessions(&["alice", "bob"]);
    // LiveKit does not report participants' leaves from the time when the server was down.
    app.reconciled("participant.connection_aborted", 1);
    app.assert_open_sessions(&["alice"]);
    let closed = app.get("/v1/sessions?active=false").send().expect(200);
    assert_eq!(closed["sessions"][0]["left_at"], json!(app.now()));
}

#[test]
fn a_participant_whose_identity_the_contract_does_not_allow_is_removed() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    let connected = || double.room(&room).map(|room| room.num_participants);
    double.join(&room, &Joining::participant("alice"));
    // LiveKit appends such a suffix to a client's identity if it connects with `?publish=`.
    double.join(&room, &Joining::participant("alice#camera"));
    double.publish(&room, "alice", TrackType::Audio, TrackSource::Microphone);
    app.wait_for_event("track.published", 1);
    eventually(|| connected() == Some(1));
    // The join webhook is lost: the next round finds the participant.
    double.drop_webhooks();
    double.join(&room, &Joining::participant("bob#camera"));
    assert_eq!(connected(), Some(2));
    app.observed("standup");
    eventually(|| connected() == Some(1));
    // The same in a room without other participants.
    double.leave(&room, "alice", DisconnectReason::ClientInitiated);
    app.observed("standup");
    app.reconciled("participant.connection_aborted", 1);
    double.join(&room, &Joining::participant("bob#camera"));
    app.next_round();
    eventually(|| connected() == Some(0));
    assert_eq!(app.logged(&["participant.joined"]).len(), 1);
}

#[test]
fn a_job_whose_start_lost_its_answer_is_stopped_as_soon_as_its_retry_has_one() {
    let (app, double) = livekit();
    let room = room(&app);
    let operators = double.start_egress(&room, "operator.mp4");
    // `ListEgress` fails, so the start's outcome is unknown at first.
    double.fail("ListEgress", Fault::NoResponse);
    let start = || {
        app.post("/v1/rooms/standup/recordings")
            .json(json!({"type": "room_composite"}))
            .send()
    };
    double.fail("StartRoomCompositeEgress", Fault::Dropped);
    start().expect_error(503, "media_unavailable", None);
    double.heal();
    let recorded = start().expect(201)["egress_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let lost = double.egresses()[1].egress_id.clone();
    assert!(lost != recorded && lost != operators);
    eventually(|| double.is_stopped(&lost));
    assert!(!double.is_stopped(&recorded) && !double.is_stopped(&operators));
    assert_eq!(
        app.get("/v1/recordings").send().expect(200)["recordings"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_job_whose_start_lost_its_answer_is_stopped_without_a_retry_by_reconciliation() {
    let (app, double) = livekit();
    let room = room(&app);
    let operators = double.start_egress(&room, "operator.mp4");
    double.fail("ListEgress", Fault::NoResponse);
    double.fail("StartRoomCompositeEgress", Fault::Dropped);
    let start = app
        .post("/v1/rooms/standup/recordings")
        .json(json!({"type": "room_composite"}))
        .send();
    start.expect_error(503, "media_unavailable", None);
    double.heal();
    let lost = double.egresses()[1].egress_id.clone();
    app.next_round();
    eventually(|| double.is_stopped(&lost));
    assert!(!double.is_stopped(&operators));
}

#[test]
fn bitrate_reports_about_participants_who_are_not_in_the_room_are_ignored() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    let alice = double.join(&room, &Joining::participant("alice"));
    let bob = double.join(&room, &Joining::participant("bob"));
    app.wait_until_joined(2);
    double.leave(&room, "bob", DisconnectReason::ClientInitiated);
    app.wait_until_gone("bob");
    let report = |number: u32, sid: &str, identity: &str| {
        let body = json!({
            "event": "participant_publish_limit_exceeded", "id": format!("EV_limit{number}"), "room": {"name": room},
            "publishKbps": 900, "publishMaxKbps": 500, "participant": {"sid": sid, "identity": identity}
        });
        let signed = double.sign(body.to_string().as_bytes());
        let sent = livekit_webhook(&app)
            .header("authorization", &signed.authorization)
            .raw(signed.body)
            .send();
        assert_eq!(sent.status, 200);
    };
    report(1, &bob, "bob");
    report(2, "PA_nobody", "nobody");
    report(3, &alice, "mallory");
    report(4, &alice, "alice");
    let events = app.logged(&["participant.publish_limit_exceeded"]);
    let who: Vec<_> = events
        .iter()
        .map(|event| event["participant_identity"].as_str().unwrap())
        .collect();
    assert_eq!(who, ["alice"]);
}

#[test]
fn who_left_while_the_server_was_down_is_closed_right_after_the_grace() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    double.join(&room, &Joining::participant("alice"));
    double.join(&room, &Joining::participant("bob"));
    app.wait_until_joined(2);
    double.drop_webhooks();
    double.leave(&room, "bob", DisconnectReason::ClientInitiated);
    let app = app.crash_for(Duration::from_secs(3_600));
    app.wait_until_seen("standup");
    app.assert_open_sessions(&["alice", "bob"]);
    // Long before the next round.
    app.advance(Duration::from_secs(10));
    app.wait_until_joined(1);
    app.assert_open_sessions(&["alice"]);
}

#[test]
fn who_left_in_an_outage_is_closed_within_fifteen_seconds_of_its_end_also_if_nothing_was_called() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    double.join(&room, &Joining::participant("alice"));
    double.join(&room, &Joining::participant("bob"));
    app.wait_until_joined(2);
    let is_check = |call: &proto::ListRoomsRequest| call.names == ["conclave.health"];
    let checks = || {
        double
            .calls("ListRooms")
            .iter()
            .filter(|call| is_check(call))
            .count()
    };
    double.drop_webhooks();
    double.fail_all(Fault::Dropped);
    double.leave(&room, "bob", DisconnectReason::ClientInitiated);
    let before = checks();
    app.advance(Duration::from_secs(5));
    eventually(|| checks() >= before + 2);
    let lists = app.lists();
    double.heal();
    // In steps: the last failed check may set the next one's time only after the clock moved.
    app.step_until(Duration::from_secs(1), 5, || app.lists() != lists);
    app.wait_until_seen("standup");
    app.assert_open_sessions(&["alice", "bob"]);
    app.advance(Duration::from_secs(10));
    app.wait_until_joined(1);
    app.assert_open_sessions(&["alice"]);
}
