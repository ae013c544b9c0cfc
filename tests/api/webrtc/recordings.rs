//! Recordings of rooms with WebRTC clients, as far as they need no ffmpeg.

use serde_json::json;

use super::Call;

#[test]
fn without_ffmpeg_a_real_recording_is_refused_with_what_to_install_and_one_of_the_sandbox_is_simulated() {
    let mut call = Call::start();
    let start =
        |call: &Call| call.app.post("/v1/rooms/standup/recordings").json(json!({"type": "room_composite"})).send();
    call.app.join("standup", "bob", "host");
    start(&call).expect(201);
    call.join("alice", "host");
    let refused = start(&call).expect(503);
    assert_eq!(refused["error"]["code"], "media_unavailable");
    assert!(refused["error"]["message"].as_str().unwrap().contains("install the package ffmpeg"), "{refused}");
    let ready = call.app.admin("GET", "/readyz").send().expect(200);
    assert!(ready["parts"]["egress"].as_str().unwrap().contains("not installed"), "{ready}");
}

#[test]
fn the_recording_of_a_track_that_is_not_published_is_404() {
    let mut call = Call::start();
    call.join("alice", "host");
    let body = json!({"type": "track", "track_id": "TR_nothing"});
    call.app.post("/v1/rooms/standup/recordings").json(body).send().expect_error(404, "track_not_found", None);
}
