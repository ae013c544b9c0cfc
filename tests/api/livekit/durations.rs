//! The maximum duration of a room on LiveKit.

use std::time::Duration;

use livekit_double::Joining;
use serde_json::{Value, json};

use super::livekit;
use crate::support::eventually;

#[test]
fn participants_have_a_data_message_before_the_room_ends() {
    let (app, double) = livekit();
    app.post("/v1/rooms")
        .json(json!({"name": "standup", "max_duration_seconds": 120}))
        .send()
        .expect(201);
    let room = format!("{}.standup", app.project);
    double.join(&room, &Joining::participant("alice"));
    app.wait_until_joined(1);
    app.advance(Duration::from_secs(59));
    assert!(double.messages_to(&room, "alice").is_empty());
    // The double's webhooks carry the machine's time, which is a little later than the app's.
    app.advance(Duration::from_secs(30));
    eventually(|| double.messages_to(&room, "alice").len() == 1);
    let notice = &double.messages_to(&room, "alice")[0];
    assert_eq!(notice.topic.as_deref(), Some("conclave.room-ending"));
    let data: Value = serde_json::from_slice(&notice.data).unwrap();
    assert!((30..=60).contains(&data["seconds_left"].as_u64().unwrap()));
    app.advance(Duration::from_secs(60));
    eventually(|| app.get("/v1/rooms/standup").send().expect(200)["status"] == "ended");
}
