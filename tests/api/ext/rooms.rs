//! `GET /ext/v1/rooms/live`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestApp, eventually};
use crate::tools::{other_project, refuses_bad_pages, walk_pages};

const LIVE: &str = "/ext/v1/rooms/live";

fn live(app: &TestApp) -> Vec<Value> {
    let page = app.get(LIVE).send().expect(200);
    page["rooms"].as_array().unwrap().clone()
}

fn names(app: &TestApp) -> Vec<String> {
    let name = |room: &Value| room["name"].as_str().unwrap().to_owned();
    live(app).iter().map(name).collect()
}

#[test]
fn a_room_is_live_from_its_first_join_to_its_last_leave() {
    let app = TestApp::start();
    app.room("standup");
    assert_eq!(live(&app), Vec::<Value>::new());
    let alice = app.join("standup", "alice", "host");
    let mut expected = app.get("/v1/rooms/standup").send().expect(200);
    for (field, value) in [
        ("participant_count", json!(1)),
        ("publisher_count", json!(0)),
        ("recording", json!(false)),
        ("broadcasting", json!(false)),
    ] {
        expected[field] = value;
    }
    assert_eq!(live(&app), [expected]);
    app.leave(&alice, true);
    eventually(|| live(&app).is_empty());
}

#[test]
fn participants_publishers_recordings_and_broadcasts_are_those_of_now() {
    let app = TestApp::start();
    app.room("standup");
    let alice = app.join("standup", "alice", "host");
    let bob = app.join("standup", "bob", "");
    let counts = || {
        let room = &live(&app)[0];
        [&room["participant_count"], &room["publisher_count"]].map(|count| count.as_u64().unwrap())
    };
    assert_eq!(counts(), [2, 0]);
    let track = app.publish(&alice, "audio", "microphone");
    app.publish(&alice, "video", "camera");
    eventually(|| counts() == [2, 1]);
    app.publish(&bob, "audio", "microphone");
    eventually(|| counts() == [2, 2]);
    app.unpublish(&alice, &track);
    app.leave(&bob, true);
    eventually(|| counts() == [1, 1]);
    let state = || {
        let room = &live(&app)[0];
        (room["recording"].clone(), room["broadcasting"].clone())
    };
    let start = |what: &str, body: Value| {
        let started = app.post(&format!("/v1/rooms/standup/{what}")).json(body);
        started.send().expect(201)["egress_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let recording = start("recordings", json!({"type": "room_composite"}));
    assert_eq!(state(), (json!(true), json!(false)));
    start("broadcasts", json!({"urls": ["rtmp://8.8.8.8/live/key"]}));
    assert_eq!(state(), (json!(true), json!(true)));
    app.drive(&recording, json!({"status": "complete"}));
    eventually(|| state() == (json!(false), json!(true)));
}

#[test]
fn a_recording_and_a_broadcast_that_are_ending_run_no_more() {
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "host");
    let starts = [
        ("recordings", json!({"type": "room_composite"})),
        ("broadcasts", json!({"urls": ["rtmp://8.8.8.8/live/key"]})),
    ];
    for (kind, body) in starts {
        let start = app.post(&format!("/v1/rooms/standup/{kind}")).json(body);
        let started = start.send().expect(201);
        let id = started["egress_id"].as_str().unwrap();
        let stop = app.post(&format!("/v1/{kind}/{id}/stop")).send();
        assert_eq!(stop.expect(200)["status"], "ending");
    }
    let room = &live(&app)[0];
    assert_eq!(
        (&room["recording"], &room["broadcasting"]),
        (&json!(false), &json!(false))
    );
}

#[test]
fn the_latest_first_join_is_the_first_of_the_list_and_pages_follow_it() {
    let app = TestApp::start();
    refuses_bad_pages(&app, LIVE);
    for name in ["a", "b", "c", "empty"] {
        app.room(name);
    }
    for name in ["b", "c", "a"] {
        app.advance(Duration::from_secs(1));
        app.join(name, "alice", "");
    }
    app.join("b", "bob", "");
    assert_eq!(names(&app), ["a", "c", "b"]);
    let walked = walk_pages(|path| app.get(path), LIVE, "rooms", "name", 2);
    assert_eq!(walked, ["a", "c", "b"]);
    app.delete("/v1/rooms/c").send().expect_empty(204);
    assert_eq!(names(&app), ["a", "b"]);
}

#[test]
fn rooms_of_another_project_are_not_listed() {
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "");
    let other = other_project(&app, "self_hosted");
    let listed = app.get(LIVE).bearer(&other.key).send().expect(200);
    assert_eq!(listed["rooms"], json!([]));
}
