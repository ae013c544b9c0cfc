//! Panics in each handler of each actor in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_model::faults::{Fault, arm};
use serde_json::{Value, json};

use super::messages::messages_of;
use super::world::World;
use crate::support::{TestApp, eventually};

/// Returns the number of failures by kind of actor.
fn restarts(world: &World) -> BTreeMap<String, u32> {
    let metrics = world.app.admin("GET", "/metrics").send().text();
    let lines = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("conclave_actor_restarts_total{kind=\""));
    let counts = lines.map(|line| line.split_once("\"} ").unwrap());
    counts
        .map(|(kind, count)| (kind.to_owned(), count.parse().unwrap()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Checks the finished rooms' events: no duplicates, an end for each join and for each room.
#[track_caller]
fn assert_consistent(world: &World) {
    let posts: BTreeMap<_, _> = world
        .received
        .iter()
        .map(|(id, event)| (id.clone(), event.clone()))
        .collect();
    let mut events = BTreeSet::new();
    for (_, event) in posts {
        let mut fact = event.clone();
        fact.as_object_mut().unwrap().remove("occurred_at");
        assert!(
            events.insert(fact.to_string()),
            "an event came twice: {event}"
        );
    }
    let count = |kind: &str, field: &str, of: &Value| {
        let parsed = events
            .iter()
            .map(|event| serde_json::from_str::<Value>(event).unwrap());
        parsed
            .filter(|event| {
                event["type"].as_str().unwrap().starts_with(kind) && event[field] == *of
            })
            .count()
    };
    let sessions = world.app.get("/v1/sessions?limit=200").send().expect(200);
    for session in sessions["sessions"].as_array().unwrap() {
        let sid = &session["participant_sid"];
        let ends = count("participant.left", "participant_sid", sid)
            + count("participant.connection_aborted", "participant_sid", sid);
        assert_eq!(
            (count("participant.joined", "participant_sid", sid), ends),
            (1, 1),
            "{session}"
        );
    }
    for room in ["stage", "sibling"] {
        assert_eq!(
            (
                count("room.started", "room", &json!(room)),
                count("room.finished", "room", &json!(room))
            ),
            (1, 1)
        );
    }
    for room in ["idle", "limited"] {
        assert_eq!(count("room.finished", "room", &json!(room)), 1);
    }
}

/// Fails unless calls succeed at once.
#[track_caller]
fn assert_usable(world: &World, room: &str) {
    world.app.room(room);
    let sid = world.app.join(room, "alice", "host");
    world.app.leave(&sid, true);
    world
        .app
        .delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

/// Makes one kind of actor panic on a message. Some messages follow only another actor's failure.
fn fail_at(kind: &str, message: &str) {
    let mut world = World::new();
    let before = match message {
        "restore" | "egress_loaded" => Some("egress"),
        "ingress_loaded" => Some("ingress"),
        _ => None,
    };
    let mut expected: BTreeMap<_, _> = before
        .map(|kind| (kind.to_owned(), 1))
        .into_iter()
        .collect();
    before
        .iter()
        .for_each(|kind| arm(&world.app.project, &format!("{kind}.poll"), Fault::Panic));
    expected.insert(kind.to_owned(), 1);
    arm(
        &world.app.project,
        &format!("{kind}.{message}"),
        Fault::Panic,
    );
    world.live();
    world.end();
    assert_consistent(&world);
    assert_usable(&world, "fresh");
    world.forget_endpoint();
    world.until(|world| world.is_over());
    world.until(|world| restarts(world) == expected);
    world.until(|world| world.app.actors("?kind=project")["actors"][0]["status"] == "running");
    assert_usable(&world, "another");
    assert_eq!(restarts(&world), expected, "siblings have failed too");
}

/// Runs three at a time, since most of the time is spent waiting. The upload actor has separate tests with a storage.
fn fail_at_each(kind: &str) {
    let messages: Vec<_> = messages_of(kind)
        .into_iter()
        .filter(|message| !message.starts_with("upload"))
        .collect();
    for messages in messages.chunks(3) {
        std::thread::scope(|scope| {
            for message in messages {
                let thread = std::thread::Builder::new().name(format!("{kind}.{message}"));
                thread
                    .spawn_scoped(scope, || fail_at(kind, message))
                    .unwrap();
            }
        });
    }
}

#[test]
fn a_room_that_is_written_while_its_project_is_rebuilt_can_be_joined_and_ends() {
    let app = TestApp::start();
    app.room("before");
    let lock = app.records().lock();
    let project = || {
        app.admin("GET", &format!("/debug/actors/{}", app.project))
            .send()
            .json()
    };
    let created = std::thread::scope(|scope| {
        let created = scope.spawn(|| app.post("/v1/rooms").json(json!({"name": "during"})).send());
        eventually(|| project()["state"]["rooms_pending"] == 1);
        arm(&app.project, "project.inspect", Fault::Panic);
        eventually(|| project()["status"] == "restarting");
        app.advance(Duration::from_millis(100));
        // The project answers once its children have started.
        eventually(|| project()["status"] == "running");
        drop(lock);
        created.join().unwrap()
    });
    created.expect(201);
    let sid = app.join("during", "alice", "host");
    app.leave(&sid, true);
    app.advance(Duration::from_secs(300));
    eventually(|| app.get("/v1/rooms/during").send().expect(200)["status"] == "ended");
}

/// Proves F-13.
#[test]
fn a_project_that_panics_in_any_handler_is_rebuilt_and_loses_nothing() {
    fail_at_each("project");
}

/// Proves F-13.
#[test]
fn a_room_that_panics_in_any_handler_is_rebuilt_and_loses_nothing() {
    fail_at_each("room");
}

/// Proves F-13.
#[test]
fn an_egress_that_panics_in_any_handler_is_rebuilt_and_loses_nothing() {
    fail_at_each("egress");
}

/// Proves F-13.
#[test]
fn an_ingress_that_panics_in_any_handler_is_rebuilt_and_loses_nothing() {
    fail_at_each("ingress");
}

/// Proves F-13.
#[test]
fn a_webhook_endpoint_that_panics_in_any_handler_is_rebuilt_and_loses_nothing() {
    fail_at_each("webhook_endpoint");
}
