//! The API over a LiveKit media plane: a LiveKit double, which sends its webhooks to the app. Tests for any plane are in
//! [`crate::scenarios`].

mod durations;
mod edges;
mod hanging_receivers;
mod order;
mod reconcile;
mod shared;

use std::time::Duration;

use conclave::config::{Config, MediaKind};
use conclave_model::{Clock, Secret};
use livekit_double::{Double, Fault, Joining, Settings};
use livekit_protocol as proto;
use proto::{DisconnectReason, EgressStatus, TrackSource, TrackType};
use serde_json::json;

use crate::support::{Receiver, Request, TestApp, eventually};
use crate::tools::jwt;

/// Reconciliation interval.
const RECONCILE: Duration = Duration::from_secs(60);

/// Starts an app on a double. Webhooks are signed with the machine's time, so the app's clock starts there.
fn livekit_app(double: &Double) -> TestApp {
    livekit_app_with(double, |_| {})
}

/// Like [`livekit_app`], with changed settings.
fn livekit_app_with(double: &Double, change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_at(Clock::system().now(), |config| {
        config.media.kind = MediaKind::Livekit;
        config.media.url = Some(double.url());
        config.media.api_key = Some(double.api_key.clone());
        config.media.api_secret = Some(Secret::new(double.api_secret.as_str()));
        change(config);
    })
}

/// Starts a double, and an app that receives its webhooks.
pub fn livekit() -> (TestApp, Double) {
    livekit_with(|_| {})
}

/// Like [`livekit`], with changed settings.
fn livekit_with(change: impl FnOnce(&mut Config)) -> (TestApp, Double) {
    let double = Double::start();
    let app = livekit_app_with(&double, change);
    double.send_to(&format!("{}/media/livekit/webhook", app.api));
    (app, double)
}

fn room(app: &TestApp) -> String {
    app.room("standup");
    format!("{}.standup", app.project)
}

fn livekit_webhook(app: &TestApp) -> Request {
    Request::new("POST", format!("{}/media/livekit/webhook", app.api))
}

#[test]
fn a_call_from_join_to_leave_is_recorded_and_reported() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    let host = [("svc.role", "host")];
    let sid = double.join(
        &room,
        &Joining {
            attributes: &host,
            ..Joining::participant("alice")
        },
    );
    double.publish(&room, "alice", TrackType::Audio, TrackSource::Microphone);
    app.wait_for_event("track.published", 1);
    let listed = app.get("/v1/rooms/standup/participants").send().expect(200);
    assert_eq!(
        listed["participants"][0]["tracks"][0]["source"],
        "microphone"
    );
    double.leave(&room, "alice", DisconnectReason::ClientInitiated);
    app.wait_for_event("participant.left", 1);
    let sessions = app.get("/v1/sessions").send().expect(200);
    let session = &sessions["sessions"][0];
    assert_eq!(
        (&session["participant_sid"], &session["role"]),
        (&json!(sid), &json!("host"))
    );
    assert!(session["left_at"].is_string());
    let types = app.event_types(&receiver);
    assert_eq!(
        types[..3],
        ["room.started", "participant.joined", "track.published"]
    );
    assert!(
        types.contains(&"track.unpublished".to_owned())
            && types.contains(&"participant.left".to_owned())
    );
}

#[test]
fn a_token_for_a_room_code_carries_the_name_for_livekit_too() {
    let (app, _double) = livekit();
    room(&app);
    let code = app
        .post("/v1/rooms/standup/codes")
        .json(json!({"role": "guest"}))
        .send()
        .expect(201)["code"]
        .clone();
    let path = format!("/v1/codes/{}/exchange", code.as_str().unwrap());
    let body = json!({"identity": "guest-x7k2", "name": "李雷"});
    let token = app.post(&path).anonymous().json(body).send().expect(201);
    let claims = jwt(token["token"].as_str().unwrap(), 1);
    assert_eq!(
        (&claims["sub"], &claims["name"]),
        (&json!("guest-x7k2"), &json!("李雷"))
    );
}

#[test]
fn events_of_tracks_name_the_role_though_livekit_does_not() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    double.join(
        &room,
        &Joining {
            attributes: &[("svc.role", "host")],
            ..Joining::participant("alice")
        },
    );
    double.publish(&room, "alice", TrackType::Audio, TrackSource::Microphone);
    double.leave(&room, "alice", DisconnectReason::SignalClose);
    app.wait_for_event("participant.connection_aborted", 1);
    for event in [
        "track.published",
        "track.unpublished",
        "participant.connection_aborted",
    ] {
        let delivery = app
            .deliveries("")
            .into_iter()
            .find(|delivery| delivery["event_type"] == event)
            .unwrap();
        assert_eq!(delivery["payload"]["role"], "host", "{event}");
    }
}

#[test]
fn lost_webhooks_are_made_up_for_by_reconciliation() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    double.join(&room, &Joining::participant("alice"));
    app.wait_until_joined(1);
    double.drop_webhooks();
    double.leave(&room, "alice", DisconnectReason::ClientInitiated);
    double.join(&room, &Joining::participant("bob"));
    double.publish(&room, "bob", TrackType::Audio, TrackSource::Microphone);
    // Long enough after alice's join that she no longer counts as joining. A single list without her may be wrong.
    app.next_round();
    app.wait_until_seen("standup");
    app.next_round();
    app.wait_for_event("participant.connection_aborted", 1);
    app.wait_for_event("track.published", 1);
    app.wait_until_joined(1);
    let open = app.get("/v1/sessions?active=true").send().expect(200);
    assert_eq!(open["sessions"][0]["participant_identity"], "bob");
}

#[test]
fn participants_connected_during_a_restart_keep_their_session_and_subscription_rules() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    app.room_with_roles(
        "quiet",
        &json!({"host": {}, "guest": {"subscribe": {"to_roles": ["host"]}}}),
    );
    let room = format!("{}.quiet", app.project);
    for identity in ["one", "two"] {
        double.join(
            &room,
            &Joining {
                attributes: &[("svc.role", "guest")],
                ..Joining::participant(identity)
            },
        );
    }
    double.publish(&room, "two", TrackType::Audio, TrackSource::Microphone);
    app.wait_for_event("track.published", 1);
    let withheld = || {
        double
            .calls::<proto::UpdateSubscriptionsRequest>("UpdateSubscriptions")
            .len()
    };
    eventually(|| withheld() > 0);
    let app = app.restart();
    let before = withheld();
    app.advance(RECONCILE);
    eventually(|| withheld() > before);
    app.wait_until_joined(2);
    assert_eq!(
        app.get("/v1/sessions").send().expect(200)["sessions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_recording_is_started_followed_and_stopped() {
    let (app, double) = livekit();
    room(&app);
    let started = app
        .post("/v1/rooms/standup/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
    let egress = started["egress_id"].as_str().unwrap();
    double.set_egress_status(egress, EgressStatus::EgressActive, "");
    app.wait_for_event_of(egress, "active");
    let stop = format!("/v1/recordings/{egress}/stop");
    assert_eq!(app.post(&stop).send().expect(200)["status"], "ending");
    double.set_egress_status(egress, EgressStatus::EgressFailed, "the disk is full");
    app.wait_for_event_of(egress, "failed");
    let failed = app
        .get(&format!("/v1/recordings/{egress}"))
        .send()
        .expect(200);
    assert_eq!(failed["error"], "the disk is full");
}

#[test]
fn egresses_whose_worker_died_or_that_livekit_forgot_fail_with_an_error() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    room(&app);
    let start = || {
        let started = app
            .post("/v1/rooms/standup/recordings")
            .json(json!({"type": "room_composite"}))
            .send();
        let egress = started.expect(201)["egress_id"]
            .as_str()
            .unwrap()
            .to_owned();
        double.set_egress_status(&egress, EgressStatus::EgressActive, "");
        app.wait_for_event_of(&egress, "active");
        egress
    };
    let (orphan, forgotten) = (start(), start());
    double.fail("UpdateStream", Fault::NoResponse);
    double.forget_egress(&forgotten);
    // Past the time in which a worker may still start, and then one round.
    app.advance(Duration::from_secs(10));
    app.next_round();
    app.wait_for_event("recording.failed", 2);
    for (egress, said) in [
        (orphan, "the egress worker died"),
        (forgotten, "no longer knows this egress"),
    ] {
        let failed = app
            .get(&format!("/v1/recordings/{egress}"))
            .send()
            .expect(200);
        assert!(
            failed["status"] == "failed" && failed["error"].as_str().unwrap().contains(said),
            "{failed}"
        );
    }
}

#[test]
fn a_participant_is_moderated_and_an_unknown_one_is_404() {
    let (app, double) = livekit();
    let room = room(&app);
    double.join(&room, &Joining::participant("alice"));
    let track = double.publish(&room, "alice", TrackType::Audio, TrackSource::Microphone);
    app.wait_until_joined(1);
    let mute = |who: &str, track: &str| {
        let path = format!("/v1/rooms/standup/participants/{who}/mute");
        app.post(&path)
            .json(json!({"track_sid": track, "muted": true}))
            .send()
    };
    assert_eq!(mute("alice", &track).expect(200)["track"]["muted"], true);
    mute("alice", "TR_none").expect_error(404, "track_not_found", None);
    mute("nobody", &track).expect_error(404, "participant_not_found", None);
    app.delete("/v1/rooms/standup/participants/alice")
        .send()
        .expect_empty(204);
    app.delete("/v1/rooms/standup/participants/alice")
        .send()
        .expect_error(404, "participant_not_found", None);
}

#[test]
fn an_unsigned_webhook_is_refused_and_one_of_a_room_not_owned_by_this_server_is_ignored() {
    let (app, double) = livekit();
    let body = br#"{"event": "room_started", "id": "EV_1", "room": {"name": "somebody-elses"}}"#;
    livekit_webhook(&app)
        .raw(body)
        .send()
        .expect_error(401, "unauthorized", None);
    let signed = double.sign(body);
    let tampered = livekit_webhook(&app)
        .header("authorization", &signed.authorization)
        .raw(b"{}".to_vec());
    tampered.send().expect_error(401, "unauthorized", None);
    assert_eq!(
        livekit_webhook(&app)
            .header("authorization", &signed.authorization)
            .raw(body)
            .send()
            .status,
        200
    );
    let malformed = double.sign(b"no report");
    let refused = livekit_webhook(&app)
        .header("authorization", &malformed.authorization)
        .raw(b"no report".to_vec());
    refused.send().expect_error(400, "invalid_request", None);
}

#[test]
fn while_livekit_is_unreachable_live_state_is_503_and_a_room_still_ends() {
    let (app, double) = livekit();
    let room = room(&app);
    double.join(&room, &Joining::participant("alice"));
    app.wait_until_joined(1);
    // LiveKit keeps an empty room for a while.
    app.room("left");
    let left = format!("{}.left", app.project);
    double.join(&left, &Joining::participant("bob"));
    double.leave(&left, "bob", DisconnectReason::ClientInitiated);
    app.wait_until_gone("bob");
    double.fail_all(Fault::ProxyPage(502));
    app.delete("/v1/rooms/left").send().expect_empty(204);
    app.get("/v1/rooms/standup/participants")
        .send()
        .expect_error(503, "media_unavailable", None);
    app.get("/v1/rooms/standup").send().expect(200);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(app.admin("GET", "/readyz").send().status, 503);
    assert!(
        double.room(&room).is_some(),
        "the live side could not be closed"
    );
    double.heal();
    // A result is cached for one second.
    app.advance(Duration::from_secs(1));
    eventually(|| app.admin("GET", "/readyz").send().status == 200);
    // The return alone closes the remaining room, well before the next reconciliation round.
    app.advance_until(RECONCILE / 2, || {
        double.room(&room).is_none() && double.room(&left).is_none()
    });
}

#[test]
fn a_livekit_unreachable_at_the_start_is_used_as_soon_as_it_answers() {
    let (app, double) = livekit();
    let room = room(&app);
    double.drop_webhooks();
    double.join(&room, &Joining::participant("alice"));
    double.fail_all(Fault::ProxyPage(503));
    let app = app.restart();
    assert_eq!(app.admin("GET", "/readyz").send().status, 503);
    app.get("/v1/rooms/standup").send().expect(200);
    app.token("standup", "bob", "guest");
    double.heal();
    app.advance_until(RECONCILE / 2, || {
        app.get("/v1/sessions?active=true").send().expect(200)["sessions"][0]["participant_identity"]
            == "alice"
    });
}

#[test]
fn bitrate_limits_are_reported_when_the_media_node_measures_them() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    let room = room(&app);
    let sid = double.join(
        &room,
        &Joining {
            attributes: &[("svc.role", "host")],
            ..Joining::participant("alice")
        },
    );
    app.wait_until_joined(1);
    for (number, word) in ["exceeded", "cleared"].into_iter().enumerate() {
        let event = format!("participant_publish_limit_{word}");
        let body = json!({
            "event": event, "id": format!("EV_limit{number}"), "room": {"name": room}, "publishKbps": 900 - number * 600,
            "publishMaxKbps": 500, "participant": {"sid": sid, "identity": "alice"}, "track": {"sid": "TR_1"}
        });
        let signed = double.sign(body.to_string().as_bytes());
        assert_eq!(
            livekit_webhook(&app)
                .header("authorization", &signed.authorization)
                .raw(signed.body)
                .send()
                .status,
            200
        );
        let event = event.replacen('_', ".", 1);
        app.wait_for_event(&event, 1);
        let payload = app.deliveries(&format!("event_type={event}")).remove(0)["payload"].clone();
        assert_eq!(
            (&payload["publish_max_kbps"], &payload["track_sid"]),
            (&json!(500), &json!("TR_1"))
        );
        assert_eq!(
            (&payload["publish_kbps"], &payload["role"]),
            (&json!(900 - number * 600), &json!("host"))
        );
    }
}

/// Proves F-14.
#[test]
fn the_circuit_opens_when_livekit_keeps_failing_and_closes_when_it_answers() {
    let (app, double) = livekit();
    room(&app);
    double.fail_all(Fault::Dropped);
    let ask = || app.get("/v1/rooms/standup/participants").send();
    let asked = || {
        double
            .calls::<proto::ListParticipantsRequest>("ListParticipants")
            .len()
    };
    for _ in 0..5 {
        ask().expect_error(503, "media_unavailable", None);
    }
    let before = asked();
    for _ in 0..5 {
        let refused = ask();
        refused.expect_error(503, "media_unavailable", None);
        assert!((1..=5).contains(&refused.headers["retry-after"].parse::<u32>().unwrap()));
    }
    assert_eq!(
        asked(),
        before,
        "no call waits for a server that does not answer"
    );
    app.get("/v1/rooms/standup").send().expect(200);
    double.heal();
    eventually(|| {
        app.advance(Duration::from_secs(1));
        ask().status == 200
    });
}

#[test]
fn a_refusal_by_livekit_names_the_setting_and_opens_no_circuit() {
    let (app, double) = livekit();
    let room = room(&app);
    double.configure(Settings {
        remote_unmute: false,
        ..Settings::default()
    });
    double.join(&room, &Joining::participant("alice"));
    let track = double.publish(&room, "alice", TrackType::Audio, TrackSource::Microphone);
    let mute = |muted: bool| {
        let body = json!({"track_sid": track, "muted": muted});
        app.post("/v1/rooms/standup/participants/alice/mute")
            .json(body)
            .send()
    };
    mute(true).expect(200);
    for _ in 0..10 {
        let refused = mute(false);
        refused.expect_error(503, "media_unavailable", None);
        assert!(
            refused.text().contains("room.enable_remote_unmute"),
            "{}",
            refused.text()
        );
    }
    mute(true).expect(200);
}

#[test]
fn readyz_reports_livekits_settings_and_checks_again_after_an_outage() {
    let (app, double) = livekit();
    let settings = |status: u16| {
        let ready = app.admin("GET", "/readyz").send().expect(status);
        ready["parts"]["media_settings"]
            .as_str()
            .map(ToOwned::to_owned)
    };
    eventually(|| settings(200).as_deref() == Some("ok"));
    double.configure(Settings {
        remote_unmute: false,
        ..Settings::default()
    });
    double.fail_all(Fault::NoResponse);
    // A result is cached for one second.
    app.advance(Duration::from_secs(1));
    assert_eq!(settings(503).as_deref(), Some("ok"), "what was found last");
    double.heal();
    eventually(|| {
        app.advance(Duration::from_secs(5));
        settings(200).is_some_and(|problems| problems.contains("room.enable_remote_unmute"))
    });
    assert!(double.rooms().is_empty());
}

#[test]
fn a_setting_that_changes_without_an_outage_is_found_within_the_hour() {
    let (app, double) = livekit();
    let settings =
        || app.admin("GET", "/readyz").send().expect(200)["parts"]["media_settings"].to_string();
    eventually(|| settings() == r#""ok""#);
    double.configure(Settings {
        redis: false,
        ..Settings::default()
    });
    app.advance(Duration::from_secs(60 * 60));
    eventually(|| settings().contains("set redis"));
}

impl TestApp {
    fn wait_for_event_of(&self, egress: &str, status: &str) {
        eventually(|| {
            self.get("/v1/recordings").send().expect(200)["recordings"]
                .as_array()
                .is_some_and(|all| {
                    all.iter()
                        .any(|one| one["egress_id"] == egress && one["status"] == status)
                })
        });
    }

    /// Waits until a participant has joined and left.
    fn wait_until_gone(&self, identity: &str) {
        eventually(|| {
            let gone = self
                .get(&format!("/v1/sessions?active=false&identity={identity}"))
                .send()
                .expect(200);
            gone["sessions"]
                .as_array()
                .is_some_and(|gone| gone.len() == 1)
        });
    }

    fn wait_until_joined(&self, participants: usize) {
        eventually(|| {
            let open = self.get("/v1/sessions?active=true").send().expect(200);
            open["sessions"]
                .as_array()
                .is_some_and(|open| open.len() == participants)
        });
    }
}
