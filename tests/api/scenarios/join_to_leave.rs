//! A call: participants join with their tokens, publish, are listed, and leave; the room ends after its empty timeout.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Stage, on_both_planes};

on_both_planes!(
    a_call_from_the_first_join_to_the_end_of_its_room,
    a_full_room_admits_no_further_participant
);

fn a_call_from_the_first_join_to_the_end_of_its_room(mut stage: Stage) {
    stage.app.room("standup");
    let token = json!({"room": "standup", "identity": "alice", "name": "Alice", "role": "host", "metadata": "{\"seat\":4}"});
    let token = stage.app.post("/v1/tokens").json(token).send().expect(201)["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let sid = stage.outside.join(&stage.app, &token);
    stage.expect(&["room.started", "participant.joined"]);
    let alice = super::Participant {
        room: "standup".into(),
        identity: "alice".into(),
        sid: sid.clone(),
        token,
    };
    let track = stage.publish(&alice, "audio", "microphone");
    let published = stage.expect(&["track.published"]);
    assert_eq!(
        (&published[0]["track_sid"], &published[0]["role"]),
        (&json!(track), &json!("host"))
    );

    let seen = stage
        .app
        .get("/v1/rooms/standup/participants/alice")
        .send()
        .expect(200);
    let facts = [
        "sid",
        "identity",
        "name",
        "metadata",
        "state",
        "kind",
        "is_publisher",
    ]
    .map(|field| seen[field].clone());
    let expected: [Value; 7] = [
        json!(sid),
        json!("alice"),
        json!("Alice"),
        json!("{\"seat\":4}"),
        json!("active"),
        json!("standard"),
        json!(true),
    ];
    assert_eq!(facts, expected);
    assert_eq!(seen["attributes"]["svc.role"], "host");
    assert_eq!(
        (&seen["tracks"][0]["sid"], &seen["tracks"][0]["source"]),
        (&json!(track), &json!("microphone"))
    );

    let bob = stage.join("standup", "bob", "guest");
    stage.expect(&["participant.joined"]);
    assert_eq!(
        listed(&stage),
        BTreeSet::from(["alice".to_owned(), "bob".to_owned()])
    );
    stage.leave(&bob, false);
    let aborted = stage.expect(&["participant.connection_aborted"]);
    assert_eq!(
        (&aborted[0]["participant_sid"], &aborted[0]["role"]),
        (&json!(bob.sid), &json!("guest"))
    );
    stage.leave(&alice, true);
    let gone = stage.expect(&["track.unpublished", "participant.left"]);
    assert!(
        gone.iter()
            .all(|event| event["participant_sid"] == sid.as_str() && event["role"] == "host")
    );
    assert_eq!(listed(&stage), BTreeSet::new());

    let sessions = stage.app.get("/v1/sessions").send().expect(200);
    let sessions = sessions["sessions"].as_array().unwrap();
    assert!(
        sessions.len() == 2
            && sessions
                .iter()
                .all(|session| session["left_at"].is_string())
    );
    // A media plane may use its own clock.
    stage.app.advance(Duration::from_secs(330));
    stage.expect(&["room.finished"]);
    assert_eq!(
        stage.app.get("/v1/rooms/standup").send().expect(200)["status"],
        "ended"
    );
    stage.end();
}

fn a_full_room_admits_no_further_participant(mut stage: Stage) {
    stage
        .app
        .post("/v1/rooms")
        .json(json!({"name": "duo", "max_participants": 1}))
        .send()
        .expect(201);
    // A recorder opens the room on the media plane first, and counts as no participant.
    let recorder = stage
        .app
        .post("/v1/rooms/duo/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
    stage.egress(recorder["egress_id"].as_str().unwrap(), "active", None);
    stage.expect(&["recording.started", "recording.updated"]);
    let alice = stage.join("duo", "alice", "host");
    stage.expect(&["room.started", "participant.joined"]);
    let token = stage.app.token("duo", "bob", "guest");
    assert!(!stage.outside.is_admitted(&stage.app, &token));
    stage.leave(&alice, true);
    stage.expect(&["participant.left"]);
    assert!(stage.outside.is_admitted(&stage.app, &token));
    stage.expect(&["participant.joined"]);
    stage.end();
}

/// Returns the identities in the room. Both joined at the same test time, so in any order.
fn listed(stage: &Stage) -> BTreeSet<String> {
    let page = stage
        .app
        .get("/v1/rooms/standup/participants")
        .send()
        .expect(200);
    page["participants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|who| who["identity"].as_str().unwrap().to_owned())
        .collect()
}
