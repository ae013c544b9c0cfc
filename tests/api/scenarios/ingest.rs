//! Ingress: an encoder connects with its stream key, publishes like any participant, disconnects, and is refused.

use serde_json::json;

use super::{Stage, on_both_planes};

on_both_planes!(an_encoder_comes_in_publishes_goes_and_is_locked_out);

fn an_encoder_comes_in_publishes_goes_and_is_locked_out(mut stage: Stage) {
    stage.app.room("standup");
    let ingress = stage.app.ingress("standup", "camera-1");
    let key = ingress["stream_key"].as_str().unwrap();
    assert_eq!(
        (
            &ingress["status"],
            ingress["url"].as_str().unwrap().ends_with("/REDACTED")
        ),
        (&json!("inactive"), true)
    );
    assert!(stage.outside.connect(&stage.app, key));
    let came = [
        "room.started",
        "participant.joined",
        "track.published",
        "track.published",
        "ingress.started",
    ];
    stage.expect(&came);
    let now = stage.app.ingress_now(&ingress);
    assert_eq!(
        (&now["status"], now.get("stream_key")),
        (&json!("publishing"), None)
    );
    let inside = stage
        .app
        .get("/v1/rooms/standup/participants/camera-1")
        .send()
        .expect(200);
    assert_eq!(
        (&inside["kind"], inside["tracks"].as_array().unwrap().len()),
        (&json!("ingress"), 2)
    );

    stage.outside.disconnect(&stage.app, key);
    let went = [
        "track.unpublished",
        "track.unpublished",
        "participant.left",
        "ingress.ended",
    ];
    stage.expect(&went);
    assert!(stage.outside.connect(&stage.app, key), "it may come again");
    stage.expect(&came[1..]);
    let path = format!("/v1/ingress/{}", ingress["ingress_id"].as_str().unwrap());
    stage.app.delete(&path).send().expect_empty(204);
    stage.expect(&went);
    assert!(
        !stage.outside.connect(&stage.app, key),
        "its key opens nothing any more"
    );
    assert_eq!(stage.app.ingress_now(&ingress)["status"], "deleted");
    let sessions = stage.app.get("/v1/sessions").send().expect(200);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
}
