//! WebRTC clients in the operator's views.

use serde_json::json;
use str0m::media::MediaKind;

use super::Call;

#[test]
fn the_debug_endpoint_shows_the_transports_and_tracks_of_a_room() {
    let mut call = Call::start();
    let id = format!("/{}/room/standup", call.app.project);
    call.app.join("standup", "sandbox", "host");
    assert_eq!(
        call.app.actors(&id).get("media"),
        None,
        "there is no WebRTC client"
    );
    let (alice, bob) = (call.join("alice", "host"), call.join("bob", "host"));
    let camera = call.publish(alice, MediaKind::Video);
    call.assert_receives(bob, &camera);
    call.wait("the workers know the candidate pair", |call| {
        !call.app.actors(&id)["media"][0]["transports"][0]["candidate_pair"].is_null()
    });
    let shown = call.app.actors(&id)["media"].clone();
    let [publisher, subscriber] = shown.as_array().unwrap().as_slice() else {
        panic!("{shown}")
    };
    assert_eq!(
        (&publisher["identity"], &subscriber["identity"]),
        (&json!("alice"), &json!("bob"))
    );
    assert_eq!(
        publisher["transports"][0]["candidate_pair"]["protocol"],
        "udp"
    );
    let track = &publisher["published"][0];
    assert_eq!(
        (&track["sid"], &track["codec"], &track["subscribers"]),
        (&json!(camera), &json!("video/VP8"), &json!(1))
    );
    assert!(track["layers"][0]["last_key_frame_ms"].is_u64(), "{track}");
    assert_eq!(
        (
            &subscriber["received"][0]["sid"],
            &subscriber["received"][0]["current"]
        ),
        (&json!(camera), &json!("low"))
    );
    assert!(subscriber["received"][0]["kbps"].is_u64(), "{subscriber}");
}

#[test]
fn the_metrics_count_joins_packets_and_first_frames() {
    let mut call = Call::start();
    let (alice, bob) = (call.join("alice", "host"), call.join("bob", "host"));
    let camera = call.publish(alice, MediaKind::Video);
    call.assert_receives(bob, &camera);
    assert!(super::Client::join(&call.app.api, "not-a-token").is_err());
    let number = |call: &Call, name: &str| -> f64 {
        let text = call.app.admin("GET", "/metrics").send().text();
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert_eq!(
        number(&call, "conclave_rtc_joins_total{outcome=\"joined\"}"),
        2.
    );
    assert_eq!(
        number(&call, "conclave_rtc_joins_total{outcome=\"refused\"}"),
        1.
    );
    assert_eq!(number(&call, "conclave_rtc_participants{worker=\"0\"}"), 2.);
    call.wait("the first frame is counted", |call| {
        number(call, "conclave_rtc_first_frame_seconds_count") == 1.
    });
    for name in [
        "packets_total{packets=\"received\"",
        "media_packets_total{packets=\"forwarded\"",
        "worker_busy_seconds_total",
    ] {
        assert!(
            number(&call, &format!("conclave_rtc_{name}")) > 0.,
            "{name}"
        );
    }
}
