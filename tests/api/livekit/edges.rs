//! What LiveKit and those who pretend to be LiveKit can ask of the server.

use std::time::Duration;

use livekit_protocol as proto;

use super::livekit;
use crate::support::eventually;

#[test]
fn readyz_asks_the_media_plane_once_a_second() {
    let (app, double) = livekit();
    let probes = || {
        let calls = double.calls::<proto::ListRoomsRequest>("ListRooms");
        calls.iter().filter(|call| call.names.first().is_some_and(|name| name.contains("health"))).count()
    };
    // The check of LiveKit's settings at the start asks too.
    let settings = || app.admin("GET", "/readyz").send().expect(200)["parts"]["media_settings"] == "ok";
    eventually(settings);
    app.advance(Duration::from_secs(1));
    let before = probes();
    for _ in 0..5 {
        app.admin("GET", "/readyz").send().expect(200);
    }
    assert_eq!(probes(), before + 1);
    app.advance(Duration::from_secs(1));
    app.admin("GET", "/readyz").send().expect(200);
    assert_eq!(probes(), before + 2);
}
