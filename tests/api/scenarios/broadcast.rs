//! Broadcasts to RTMP receivers, whose stream keys are never shown.

use serde_json::json;

use super::{Stage, on_both_planes};

on_both_planes!(
    a_broadcast_from_start_to_stop,
    a_broadcast_that_fails_says_why
);

fn start(stage: &mut Stage) -> String {
    let urls = json!([
        "rtmp://8.8.8.8/live/first-key",
        "rtmps://8.8.4.4:443/app/second-key"
    ]);
    let started = stage
        .app
        .post("/v1/rooms/standup/broadcasts")
        .json(json!({"urls": urls}))
        .send()
        .expect(201);
    assert_eq!(
        started["urls"],
        json!([
            "rtmp://8.8.8.8/live/REDACTED",
            "rtmps://8.8.4.4:443/app/REDACTED"
        ])
    );
    stage.expect(&["broadcast.started"]);
    let egress = started["egress_id"].as_str().unwrap().to_owned();
    stage.egress(&egress, "active", None);
    stage.expect(&["broadcast.updated"]);
    egress
}

fn a_broadcast_from_start_to_stop(mut stage: Stage) {
    stage.app.room("standup");
    let egress = start(&mut stage);
    let stopped = stage
        .app
        .post(&format!("/v1/broadcasts/{egress}/stop"))
        .send()
        .expect(200);
    assert_eq!(stopped["status"], "ending");
    stage.expect(&["broadcast.updated"]);
    stage.egress(&egress, "complete", None);
    let ended = stage.expect(&["broadcast.ended"]);
    assert_eq!(
        (&ended[0]["egress_id"], &ended[0]["broadcast_status"]),
        (&json!(egress), &json!("complete"))
    );
    stage.end();
}

fn a_broadcast_that_fails_says_why(mut stage: Stage) {
    stage.app.room("standup");
    let egress = start(&mut stage);
    stage.egress(
        &egress,
        "failed",
        Some("rtmp://8.8.8.8/live/first-key does not answer"),
    );
    stage.expect(&["broadcast.failed"]);
    let failed = stage
        .app
        .get(&format!("/v1/broadcasts/{egress}"))
        .send()
        .expect(200);
    // A worker's error may contain the URL, including the key.
    assert_eq!(
        (&failed["status"], &failed["error"]),
        (&json!("failed"), &json!("rtmp://… does not answer"))
    );
    stage.end();
}
