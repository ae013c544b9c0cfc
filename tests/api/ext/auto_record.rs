//! The template setting `auto_record`.

use std::time::Duration;

use livekit_protocol as proto;
use serde_json::{Value, json};

use crate::livekit::livekit;
use crate::support::{Receiver, TestApp, eventually};
use crate::tools::{default_template, fields, other_project};

/// Sets the default template's recording that starts by itself.
fn set(app: &TestApp, auto_record: Value) -> Value {
    app.patch(&format!("/v1/templates/{}/settings", default_template(app)))
        .json(json!({"region": "auto", "auto_record": auto_record}))
        .send()
        .expect(200)
}

fn recordings(app: &TestApp) -> Vec<Value> {
    let page = app.get("/v1/recordings?limit=100").send().expect(200);
    page["recordings"].as_array().unwrap().clone()
}

/// Waits until the project has this number of recordings, newest first.
#[track_caller]
fn wait_for(app: &TestApp, count: usize) -> Vec<Value> {
    eventually(|| recordings(app).len() == count);
    recordings(app)
}

/// Waits until the room starts no recording by itself. A join is answered after the start of its recording is under way.
#[track_caller]
fn settle(app: &TestApp, room: &str) {
    let path = format!("/{}/room/{room}", app.project);
    eventually(|| app.actors(&path)["state"].get("recording_starts").is_none());
}

#[test]
fn the_setting_is_shown_only_when_it_is_set_and_null_removes_it() {
    let app = TestApp::start();
    let template = format!("/v1/templates/{}", default_template(&app));
    let before = app.get(&template).send().expect(200);
    assert_eq!(before["settings"], json!({"region": "auto"}));
    let setting = json!({"type": "room_composite", "layout": "grid", "destination": "archive"});
    let shown = set(&app, setting.clone());
    assert_eq!(shown["auto_record"], setting);
    let settings = json!({"region": "auto", "auto_record": setting});
    assert_eq!(app.get(&template).send().expect(200)["settings"], settings);
    // Without the field, it stays.
    app.patch(&format!("{template}/settings"))
        .json(json!({"region": "eu-west"}))
        .send()
        .expect(200);
    let kept = app
        .patch(&template)
        .json(json!({"settings": {"region": "auto"}}))
        .send()
        .expect(200);
    assert_eq!(kept["settings"], settings);
    let other = json!({"settings": {"auto_record": {"type": "participant"}}});
    let changed = app.patch(&template).json(other).send().expect(200);
    assert_eq!(
        changed["settings"]["auto_record"],
        json!({"type": "participant"})
    );
    let removed = set(&app, Value::Null);
    assert!(!fields(&removed).contains(&"auto_record"));
    let created = app
        .post("/v1/templates")
        .json(json!({"name": "recorded", "settings": {"auto_record": {"type": "participant"}}}))
        .send()
        .expect(201);
    assert_eq!(
        created["settings"],
        json!({"region": "auto", "auto_record": {"type": "participant"}})
    );
}

#[test]
fn fields_that_have_no_effect_and_unknown_words_are_refused() {
    let app = TestApp::start();
    let template = format!("/v1/templates/{}", default_template(&app));
    for (auto_record, field) in [
        (json!({"type": "participant", "layout": "grid"}), "layout"),
        (json!({"type": "track"}), "type"),
        (
            json!({"type": "room_composite", "layout": "none"}),
            "layout",
        ),
        (json!({"type": "room_composite", "layout": null}), "layout"),
    ] {
        let field = format!("settings.auto_record.{field}");
        app.patch(&template)
            .json(json!({"settings": {"auto_record": auto_record}}))
            .send()
            .expect_error(400, "invalid_request", Some(&field));
    }
    for auto_record in [json!([]), json!("participant"), json!({})] {
        let refused = app
            .patch(&template)
            .json(json!({"settings": {"auto_record": auto_record}}))
            .send();
        assert_eq!(refused.status, 400, "{auto_record}");
    }
}

#[test]
fn a_room_is_recorded_from_its_first_join_to_its_end_and_once() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    app.endpoint(&receiver.url);
    set(&app, json!({"type": "room_composite"}));
    app.room("standup");
    assert_eq!(recordings(&app), Vec::<Value>::new());
    let alice = app.join("standup", "alice", "host");
    let recording = wait_for(&app, 1).remove(0);
    assert_eq!(
        (&recording["type"], &recording["room"], &recording["status"]),
        (
            &json!("room_composite"),
            &json!("standup"),
            &json!("starting")
        )
    );
    app.join("standup", "bob", "guest");
    app.leave(&alice, true);
    app.join("standup", "alice", "host");
    settle(&app, "standup");
    assert_eq!(recordings(&app).len(), 1);
    // The setting is removed from the template, and not from the room that has it.
    set(&app, Value::Null);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    let id = recording["egress_id"].as_str().unwrap();
    let path = format!("/v1/recordings/{id}");
    eventually(|| {
        app.advance(Duration::from_secs(1));
        app.get(&path).send().expect(200)["status"] == "aborted"
            || app.get(&path).send().expect(200)["status"] == "complete"
    });
    let events = app.events(&receiver);
    let of = |kind: &str| {
        let is = |event: &&Value| event["type"] == kind && event["egress_id"] == id;
        events.iter().filter(is).count()
    };
    assert_eq!((of("recording.started"), of("recording.ended")), (1, 1));
    app.room("later");
    app.join("later", "alice", "host");
    settle(&app, "later");
    assert_eq!(recordings(&app).len(), 1, "the room has no such setting");
}

#[test]
fn a_room_that_was_created_before_the_setting_is_not_recorded() {
    let app = TestApp::start();
    app.room("standup");
    set(&app, json!({"type": "room_composite"}));
    app.join("standup", "alice", "host");
    settle(&app, "standup");
    assert_eq!(recordings(&app), Vec::<Value>::new());
}

#[test]
fn a_restart_does_not_start_a_second_recording_of_the_room() {
    let app = TestApp::start();
    set(&app, json!({"type": "room_composite"}));
    app.room("standup");
    app.room("later");
    app.join("standup", "alice", "host");
    wait_for(&app, 1);
    let app = app.restart();
    app.join("standup", "alice", "host");
    settle(&app, "standup");
    assert_eq!(recordings(&app).len(), 1);
    // The setting of a room that was not joined survives.
    app.join("later", "alice", "host");
    eventually(|| recordings(&app).len() == 2);
}

#[test]
fn on_livekit_a_restart_does_not_start_a_second_recording_of_a_connected_participant() {
    let (app, double) = livekit();
    set(&app, json!({"type": "participant"}));
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    double.connect(&token).unwrap();
    let recording = wait_for(&app, 1).remove(0);
    assert_eq!(recording["type"], "participant");
    let app = app.restart();
    // Two reconciliations, which find the participant.
    for _ in 0..2 {
        app.next_round();
        app.wait_until_seen("standup");
    }
    settle(&app, "standup");
    assert_eq!(recordings(&app).len(), 1);
    let starts = double.calls::<proto::ParticipantEgressRequest>("StartParticipantEgress");
    assert_eq!(starts.len(), 1);
}

#[test]
fn participants_that_join_in_the_same_millisecond_have_files_of_their_own() {
    // Which LiveKit would write over each other if they had the same name.
    let (app, double) = livekit();
    set(&app, json!({"type": "participant"}));
    app.room("standup");
    for identity in ["alice", "bob"] {
        let token = app.token("standup", identity, "host");
        double.connect(&token).unwrap();
    }
    let recorded = wait_for(&app, 2);
    let starts = double.calls::<proto::ParticipantEgressRequest>("StartParticipantEgress");
    let files = starts.iter().map(|start| &start.file_outputs[0].filepath);
    let files: Vec<&String> = files.collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert_ne!(files[0], files[1]);
    for recording in &recorded {
        let name = recording["filepath"].as_str().unwrap();
        assert!(files.iter().any(|file| file.ends_with(name)), "{name}");
    }
}

#[test]
fn each_participant_has_one_running_recording_across_rejoins_and_hidden_ones_have_none() {
    let app = TestApp::start();
    let roles = json!({"host": {}, "observer": {"hidden": true}});
    let template = app
        .post("/v1/templates")
        .json(json!({"name": "interview", "roles": roles, "settings": {"auto_record": {"type": "participant"}}}))
        .send()
        .expect(201);
    app.post("/v1/rooms")
        .json(json!({"name": "standup", "template_id": template["id"]}))
        .send()
        .expect(201);
    app.join("standup", "eve", "observer");
    let alice = app.join("standup", "alice", "host");
    wait_for(&app, 1);
    app.join("standup", "bob", "host");
    let both = wait_for(&app, 2);
    assert!(
        both.iter()
            .all(|recording| recording["type"] == "participant")
    );
    app.leave(&alice, true);
    let alice = app.join("standup", "alice", "host");
    settle(&app, "standup");
    assert_eq!(recordings(&app).len(), 2, "it is still running");
    // Once it has ended, the next join starts another one.
    for recording in recordings(&app) {
        let id = recording["egress_id"].as_str().unwrap();
        app.drive(id, json!({"status": "complete"}));
    }
    eventually(|| {
        recordings(&app)
            .iter()
            .all(|recording| recording["status"] == "complete")
    });
    app.leave(&alice, true);
    app.join("standup", "alice", "host");
    eventually(|| recordings(&app).len() == 3);
}

#[test]
fn a_participant_that_rejoins_while_its_recording_ends_is_recorded_again() {
    let app = TestApp::start();
    set(&app, json!({"type": "participant"}));
    app.room("standup");
    let alice = app.join("standup", "alice", "host");
    let recording = wait_for(&app, 1).remove(0);
    let id = recording["egress_id"].as_str().unwrap();
    let stopped = app
        .post(&format!("/v1/recordings/{id}/stop"))
        .send()
        .expect(200);
    assert_eq!(stopped["status"], "ending");
    app.leave(&alice, true);
    app.join("standup", "alice", "host");
    wait_for(&app, 2);
}

#[test]
fn a_start_that_is_refused_leaves_one_failed_recording_with_the_reason_and_its_event() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    app.endpoint(&receiver.url);
    set(
        &app,
        json!({"type": "room_composite", "destination": "archive"}),
    );
    app.room("standup");
    app.join("standup", "alice", "host");
    let failed = wait_for(&app, 1).remove(0);
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(
        failed["error"].as_str().unwrap().contains("destination"),
        "{failed}"
    );
    assert_eq!(failed["ended_at"], failed["started_at"]);
    app.join("standup", "bob", "guest");
    settle(&app, "standup");
    assert_eq!(recordings(&app).len(), 1);
    let events = app.events(&receiver);
    let of_failed: Vec<_> = events
        .iter()
        .filter(|event| event["egress_id"] == failed["egress_id"])
        .collect();
    assert_eq!(of_failed.len(), 1, "{of_failed:?}");
    assert_eq!(
        (&of_failed[0]["type"], &of_failed[0]["recording_status"]),
        (&json!("recording.failed"), &json!("failed"))
    );
}

#[test]
fn a_plan_without_recordings_refuses_them_also_when_they_start_by_themselves() {
    let app = TestApp::start();
    let other = other_project(&app, "free");
    let template = app
        .post("/v1/templates")
        .bearer(&other.key)
        .json(json!({
            "name": "recorded", "roles": {"host": {}}, "settings": {"auto_record": {"type": "room_composite"}}
        }))
        .send()
        .expect(201);
    app.post("/v1/rooms")
        .bearer(&other.key)
        .json(json!({"name": "standup", "template_id": template["id"]}))
        .send()
        .expect(201);
    let token = app
        .post("/v1/tokens")
        .bearer(&other.key)
        .json(json!({"room": "standup", "identity": "alice", "role": "host"}))
        .send()
        .expect(201);
    assert_eq!(app.join_with(token["token"].as_str().unwrap()).status, 201);
    let listed = || {
        let page = app.get("/v1/recordings").bearer(&other.key).send();
        page.expect(200)["recordings"].as_array().unwrap().clone()
    };
    eventually(|| !listed().is_empty());
    let failed = listed().remove(0);
    assert_eq!(
        (&failed["status"], &failed["error"]),
        (
            &json!("failed"),
            &json!("the plan does not include recording")
        )
    );
    assert_eq!(
        recordings(&app),
        Vec::<Value>::new(),
        "of the other project"
    );
}
