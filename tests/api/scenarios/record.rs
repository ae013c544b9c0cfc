//! Recordings: from the start to each final status.

use serde_json::{Value, json};

use super::{Stage, on_both_planes};

on_both_planes!(
    a_recording_from_start_to_stop,
    a_recording_may_end_by_itself_in_four_ways,
    a_recording_of_a_room_that_ends_is_settled,
);

fn start(stage: &mut Stage) -> String {
    let started = stage
        .app
        .post("/v1/rooms/standup/recordings")
        .json(json!({"type": "room_composite"}))
        .send();
    let started = started.expect(201);
    assert_eq!(started["status"], "starting");
    stage.expect(&["recording.started"]);
    started["egress_id"].as_str().unwrap().to_owned()
}

fn get(stage: &Stage, egress: &str) -> Value {
    stage
        .app
        .get(&format!("/v1/recordings/{egress}"))
        .send()
        .expect(200)
}

fn a_recording_from_start_to_stop(mut stage: Stage) {
    stage.app.room("standup");
    let egress = start(&mut stage);
    stage.egress(&egress, "active", None);
    let updated = stage.expect(&["recording.updated"]);
    assert_eq!(
        (&updated[0]["egress_id"], &updated[0]["recording_status"]),
        (&json!(egress), &json!("active"))
    );
    assert_eq!(get(&stage, &egress)["status"], "active");
    let stop = format!("/v1/recordings/{egress}/stop");
    assert_eq!(stage.app.post(&stop).send().expect(200)["status"], "ending");
    stage.expect(&["recording.updated"]);
    stage.egress(&egress, "complete", None);
    stage.expect(&["recording.ended"]);
    let done = get(&stage, &egress);
    assert_eq!(
        (&done["status"], done.get("error")),
        (&json!("complete"), None)
    );
    assert!(done["ended_at"].is_string());
    assert_eq!(
        stage.app.post(&stop).send().expect(200),
        done,
        "stopping what has ended changes nothing"
    );
    stage.end();
}

fn a_recording_may_end_by_itself_in_four_ways(mut stage: Stage) {
    stage.app.room("standup");
    for (status, error, event) in [
        ("complete", None, "recording.ended"),
        ("failed", Some("the disk is full"), "recording.failed"),
        ("aborted", None, "recording.ended"),
        ("limit_reached", None, "recording.ended"),
    ] {
        let egress = start(&mut stage);
        stage.egress(&egress, "active", None);
        stage.expect(&["recording.updated"]);
        stage.egress(&egress, status, error);
        stage.expect(&[event]);
        let ended = get(&stage, &egress);
        assert_eq!(
            (
                ended["status"].as_str(),
                ended.get("error").and_then(Value::as_str)
            ),
            (Some(status), error)
        );
    }
    stage.end();
}

fn a_recording_of_a_room_that_ends_is_settled(mut stage: Stage) {
    stage.app.room("standup");
    let egress = start(&mut stage);
    stage.egress(&egress, "active", None);
    stage.expect(&["recording.updated"]);
    stage
        .app
        .delete("/v1/rooms/standup")
        .send()
        .expect_empty(204);
    stage.expect(&["room.finished", "recording.ended"]);
    assert_eq!(get(&stage, &egress)["status"], "complete");
    stage.end();
}
