//! Events at a receiver: their types, their order, and their exact fields.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestApp, with_microphone};

fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[test]
fn the_first_join_starts_the_room_and_the_second_does_not() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    let alice = app.join("standup", "alice", "host");
    let mut expected = vec![
        app.event("room.started", "standup", &json!({})),
        app.event(
            "participant.joined",
            "standup",
            &json!({"participant_identity": "alice", "participant_sid": alice, "role": "host"}),
        ),
    ];
    app.advance(Duration::from_secs(1));
    let bob = app.join("standup", "bob", "");
    let who = json!({"participant_identity": "bob", "participant_sid": bob});
    expected.push(app.event("participant.joined", "standup", &who));
    assert_eq!(app.events(&receiver), expected);
}

#[test]
fn a_clean_leave_and_a_lost_connection_are_different_events() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    let (alice, bob) = (
        app.join("standup", "alice", "host"),
        app.join("standup", "bob", ""),
    );
    app.events(&receiver);
    app.leave(&alice, true);
    let who = json!({"participant_identity": "alice", "participant_sid": alice, "role": "host"});
    let mut expected = vec![app.event("participant.left", "standup", &who)];
    app.leave(&bob, false);
    let who = json!({"participant_identity": "bob", "participant_sid": bob});
    expected.push(app.event("participant.connection_aborted", "standup", &who));
    assert_eq!(app.events(&receiver), expected);
}

#[test]
fn a_track_is_reported_with_its_muted_state_at_that_moment() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    let alice = app.join("standup", "alice", "host");
    app.events(&receiver);
    let track = app.publish(&alice, "audio", "microphone");
    let mut facts = json!({
        "participant_identity": "alice", "participant_sid": alice, "role": "host", "track_sid": track,
        "track_kind": "audio", "track_source": "microphone", "track_muted": false
    });
    assert_eq!(
        app.events(&receiver),
        [app.event_before_tick("track.published", &facts)]
    );
    // A mute is no event in the contract; the track's next event contains it.
    app.act(&alice, "mute", json!({"track_sid": track, "muted": true}))
        .expect(200);
    app.unpublish(&alice, &track);
    facts["track_muted"] = json!(true);
    assert_eq!(
        app.events(&receiver),
        [app.event_before_tick("track.unpublished", &facts)]
    );
}

impl TestApp {
    /// Returns an event in "standup" from before the tick that has just delivered it.
    fn event_before_tick(&self, event_type: &str, more: &Value) -> Value {
        let mut event = self.event(event_type, "standup", more);
        let then = self.clock.now().before(Duration::from_secs(5));
        event["occurred_at"] = json!(then.to_string());
        event
    }
}

#[test]
fn the_tracks_of_a_participant_end_before_it_leaves() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    let alice = app.join("standup", "alice", "host");
    let tracks = [
        app.publish(&alice, "audio", "microphone"),
        app.publish(&alice, "video", "camera"),
    ];
    app.events(&receiver);
    app.leave(&alice, false);
    let events = app.events(&receiver);
    assert_eq!(
        types(&events),
        [
            "track.unpublished",
            "track.unpublished",
            "participant.connection_aborted"
        ]
    );
    let mut ended: Vec<_> = events[..2]
        .iter()
        .map(|event| event["track_sid"].as_str().unwrap())
        .collect();
    let mut expected: Vec<_> = tracks.iter().map(String::as_str).collect();
    ended.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ended, expected);
}

#[test]
fn a_second_join_of_an_identity_replaces_the_first() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    let first = app.join("standup", "alice", "host");
    app.publish(&first, "audio", "microphone");
    app.events(&receiver);
    let second = app.join("standup", "alice", "guest");
    let events = app.events(&receiver);
    assert_eq!(
        types(&events),
        [
            "track.unpublished",
            "participant.left",
            "participant.joined"
        ]
    );
    let of = |index: usize| {
        (
            events[index]["participant_sid"].as_str().unwrap(),
            events[index]["role"].as_str().unwrap(),
        )
    };
    assert_eq!(
        (of(0), of(1), of(2)),
        ((&*first, "host"), (&*first, "host"), (&*second, "guest"))
    );
}

/// Proves R-7.
#[test]
fn a_join_refused_for_a_full_role_is_one_aborted_connection_and_no_session() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room_with_roles("stage", &json!({"speaker": {"max_peer_count": 1}}));
    // Both tokens are minted before either joins, or minting itself would refuse the second.
    let tokens = ["alice", "bob"].map(|identity| app.token("stage", identity, "speaker"));
    app.join_with(&tokens[0]).expect(201);
    app.events(&receiver);
    app.join_with(&tokens[1])
        .expect_error(409, "role_capacity_reached", None);
    let events = app.events(&receiver);
    let sid = &events[0]["participant_sid"];
    let who = json!({"participant_identity": "bob", "participant_sid": sid, "role": "speaker"});
    let mut expected = app.event_before_tick("participant.connection_aborted", &who);
    expected["room"] = json!("stage");
    assert_eq!(events, [expected]);
    assert_eq!(
        app.get("/v1/sessions?identity=bob").send().expect(200)["sessions"],
        json!([])
    );
    let listed = app.get("/v1/rooms/stage/participants").send().expect(200);
    assert_eq!(listed["participants"].as_array().unwrap().len(), 1);
}

#[test]
fn a_bitrate_above_its_ceiling_for_five_seconds_is_exceeded_and_below_for_five_is_cleared() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room_with_roles("stage", &json!({"speaker": {"publish": {"max_kbps": 500}}}));
    let alice = app.join("stage", "alice", "speaker");
    let track = app.publish(&alice, "video", "camera");
    app.events(&receiver);
    let who = json!({
        "participant_identity": "alice", "participant_sid": alice, "role": "speaker", "track_sid": track,
        "publish_kbps": 640, "publish_max_kbps": 500
    });
    app.act(&alice, "bitrate", json!({"kbps": 640})).expect(200);
    app.advance(Duration::from_millis(4_999));
    assert_eq!(
        app.deliveries("event_type=participant.publish_limit_exceeded"),
        Vec::<Value>::new()
    );
    app.advance(Duration::from_millis(1));
    app.wait_for_event("participant.publish_limit_exceeded", 1);
    let expected = app.event("participant.publish_limit_exceeded", "stage", &who);
    assert_eq!(app.events(&receiver), [expected]);

    app.act(&alice, "bitrate", json!({"kbps": 500})).expect(200);
    app.advance(Duration::from_secs(5));
    app.wait_for_event("participant.publish_limit_cleared", 1);
    let mut expected = app.event("participant.publish_limit_cleared", "stage", &who);
    expected["publish_kbps"] = json!(500);
    assert_eq!(app.events(&receiver), [expected]);
}

#[test]
fn with_two_tracks_an_exceeded_limit_names_neither() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room_with_roles("stage", &json!({"speaker": {"publish": {"max_kbps": 500}}}));
    let alice = app.join("stage", "alice", "speaker");
    app.publish(&alice, "video", "camera");
    app.publish(&alice, "audio", "microphone");
    app.events(&receiver);
    app.act(&alice, "bitrate", json!({"kbps": 501})).expect(200);
    app.advance(Duration::from_secs(5));
    app.wait_for_event("participant.publish_limit_exceeded", 1);
    assert!(app.events(&receiver)[0].get("track_sid").is_none());
}

/// Proves R-5.
#[test]
fn ending_a_room_closes_tracks_then_sessions_then_the_room_once() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    let (alice, bob) = (
        app.join("standup", "alice", "host"),
        app.join("standup", "bob", ""),
    );
    let track = app.publish(&alice, "audio", "microphone");
    app.events(&receiver);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    let who = json!({"participant_identity": "alice", "participant_sid": alice, "role": "host"});
    let of_track = with_microphone(&who, &track);
    let expected = [
        app.event("track.unpublished", "standup", &of_track),
        app.event("participant.left", "standup", &who),
        app.event(
            "participant.left",
            "standup",
            &json!({"participant_identity": "bob", "participant_sid": bob}),
        ),
        app.event("room.finished", "standup", &json!({})),
    ];
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(app.events(&receiver), expected);
    // The media plane has disconnected all participants, and no event is sent twice.
    crate::support::eventually(|| app.view(&bob)["participant"]["state"] == "disconnected");
    assert_eq!(app.view(&alice)["inbox"][0]["type"], "room_ended");
    assert_eq!(app.deliveries("status=pending"), Vec::<Value>::new());
}

#[test]
fn a_track_muted_since_it_began_ends_muted_when_its_room_ends() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    let alice = app.join("standup", "alice", "host");
    let track = app.publish(&alice, "audio", "microphone");
    app.act(&alice, "mute", json!({"track_sid": track, "muted": true}))
        .expect(200);
    app.events(&receiver);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    let events = app.events(&receiver);
    assert_eq!(
        (&events[0]["type"], &events[0]["track_muted"]),
        (&json!("track.unpublished"), &json!(true))
    );
}

/// Proves R-6.
#[test]
fn every_join_is_followed_by_exactly_one_leave_whatever_happens() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("busy");
    let mut inside: Vec<String> = Vec::new();
    // Random actions from a fixed seed.
    let mut dice = 0x2545_f491_u32;
    for _ in 0..60 {
        dice ^= dice << 13;
        dice ^= dice >> 17;
        dice ^= dice << 5;
        match dice % 5 {
            0 | 1 => inside.push(app.join("busy", &format!("participant-{}", dice % 7), "guest")),
            2 if !inside.is_empty() => {
                let sid = inside.swap_remove(dice as usize % inside.len());
                // A replaced participant has left already.
                app.act(&sid, "leave", json!({"clean": dice & 64 == 0}));
            }
            3 => inside.iter().take(1).for_each(|sid| {
                app.act(
                    sid,
                    "tracks",
                    json!({"kind": "audio", "source": "microphone"}),
                );
            }),
            _ => app.advance(Duration::from_millis(700)),
        }
    }
    app.delete("/v1/rooms/busy").send().expect_empty(204);
    let mut by_sid: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut tracks: BTreeMap<String, i32> = BTreeMap::new();
    for event in app.events(&receiver) {
        let event_type = event["type"].as_str().unwrap().to_owned();
        match (
            event["participant_sid"].as_str(),
            event["track_sid"].as_str(),
        ) {
            (_, Some(track)) => {
                *tracks.entry(track.into()).or_default() += if event_type == "track.published" {
                    1
                } else {
                    -1
                };
            }
            (Some(sid), None) => by_sid.entry(sid.into()).or_default().push(event_type),
            (None, None) => {}
        }
    }
    assert!(by_sid.len() > 10, "few participants joined");
    for (sid, steps) in by_sid {
        assert_eq!(
            (steps.len(), steps[0].as_str()),
            (2, "participant.joined"),
            "{sid}: {steps:?}"
        );
        assert!(
            ["participant.left", "participant.connection_aborted"].contains(&steps[1].as_str())
        );
    }
    assert!(tracks.values().all(|open| *open == 0), "{tracks:?}");
}
