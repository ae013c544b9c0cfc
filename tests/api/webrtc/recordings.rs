//! Recordings of rooms with WebRTC clients that need no ffmpeg, or only a script in its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use livekit_protocol::encryption::Type as Encryption;
use serde_json::{Value, json};
use str0m::media::MediaKind;
use tempfile::TempDir;

use super::Call;
use super::uploads::{recording, status, wait_for_status};
use crate::support::{NEVER, TestApp};

#[test]
fn without_ffmpeg_a_real_recording_is_refused_with_what_to_install_and_one_of_the_sandbox_is_simulated()
 {
    let mut call = Call::start();
    let start = |call: &Call| {
        call.app
            .post("/v1/rooms/standup/recordings")
            .json(json!({"type": "room_composite"}))
            .send()
    };
    call.app.join("standup", "bob", "host");
    start(&call).expect(201);
    call.join("alice", "host");
    let refused = start(&call).expect(503);
    assert_eq!(refused["error"]["code"], "media_unavailable");
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("install the package ffmpeg"),
        "{refused}"
    );
    let ready = call.app.admin("GET", "/readyz").send().expect(200);
    assert!(
        ready["parts"]["egress"]
            .as_str()
            .unwrap()
            .contains("not installed"),
        "{ready}"
    );
}

#[test]
fn the_recording_of_a_track_that_is_not_published_is_404() {
    let mut call = Call::start();
    call.join("alice", "host");
    let body = json!({"type": "track", "track_id": "TR_nothing"});
    call.app
        .post("/v1/rooms/standup/recordings")
        .json(body)
        .send()
        .expect_error(404, "track_not_found", None);
}

/// A call whose recordings a script encodes: it copies its input into the file, once the file `go` exists next to it.
struct Encoded {
    call: Call,
    folder: TempDir,
}

impl Encoded {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (program, go) = (folder.path().join("ffmpeg"), folder.path().join("go"));
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*-version) echo 'ffmpeg version 5.1 of a test' ;;\n\
             *-encoders) echo ' V..... libx264'; echo ' A..... aac' ;;\n*rawvideo*) exec cat > /dev/null ;;\n\
             *'-c copy'*) for last; do :; done; printf x > \"${{last#file:}}\"; exec cat > /dev/null ;;\n\
             *) for last; do :; done; while ! [ -e {} ]; do sleep 0.02; done; cat > \"${{last#file:}}\" ;;\nesac\n",
            go.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let recordings = folder.path().join("recordings");
        let app = TestApp::start_with_webrtc_and(|config| {
            config.egress.ffmpeg = program.display().to_string();
            config.egress.stop_timeout = NEVER;
            // The buffer has room for some frames; the others are dropped.
            config.egress.buffer_mib = 0;
            config.recordings.dir = Some(recordings);
        });
        app.room("standup");
        Self {
            call: Call::new(app),
            folder,
        }
    }

    fn record(&self, body: &Value) -> String {
        let started = self
            .call
            .app
            .post("/v1/rooms/standup/recordings")
            .json(body.clone())
            .send()
            .expect(201);
        started["egress_id"].as_str().unwrap().to_owned()
    }

    /// Makes the encoder read.
    fn release(&self) {
        fs::write(self.folder.path().join("go"), "").unwrap();
    }

    fn metric(&self, name: &str) -> f64 {
        let text = self.call.app.admin("GET", "/metrics").send().text();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("no {name}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }
}

#[test]
fn a_recording_whose_encoder_is_late_catches_up_after_the_stop_and_its_dropped_frames_are_counted()
{
    let mut encoded = Encoded::start();
    let alice = encoded.call.join("alice", "host");
    encoded.call.speak(alice);
    assert_eq!(encoded.metric("conclave_egress_dropped_frames_total"), 0.);
    let id = encoded.record(&json!({"type": "room_composite", "filepath": "late.mkv"}));
    let debug = format!("/{}/egress/{id}", encoded.call.app.project);
    encoded.call.wait("frames are dropped", |call| {
        call.app.actors(&debug)["state"]["progress"]["dropped_frames"].as_u64() > Some(5)
    });
    let stopped = encoded
        .call
        .app
        .post(&format!("/v1/recordings/{id}/stop"))
        .send()
        .expect(200);
    assert_eq!(stopped["status"], "ending");
    assert_eq!(
        status(&encoded.call.app, &id),
        "ending",
        "the encoder has read nothing yet"
    );
    encoded.release();
    wait_for_status(&encoded.call.app, &id, "complete");
    assert!(recording(&encoded.call.app, &id).get("error").is_none());
    // The recording has ended, but its frames still count.
    assert!(encoded.metric("conclave_egress_dropped_frames_total") > 5.);
    assert!(encoded.metric("conclave_egress_frames_total") > 5.);
}

#[test]
fn recordings_of_encrypted_tracks_alone_are_refused_with_a_reason_and_one_of_the_room_is_not() {
    let mut encoded = Encoded::start();
    let alice = encoded.call.join("alice", "host");
    encoded.call.clients[alice].announce_with(MediaKind::Audio, Encryption::Gcm);
    encoded.call.wait("the track is published", |call| {
        !call.clients[alice].publications.is_empty()
    });
    let track = encoded.call.clients[alice].publications[0].sid.clone();
    encoded.call.wait("the track is known", |call| {
        let shown = call
            .app
            .get("/v1/rooms/standup/participants/alice")
            .send()
            .expect(200);
        shown["tracks"][0]["sid"] == track
    });
    for (body, field) in [
        (json!({"type": "track", "track_id": track}), "track_id"),
        (
            json!({"type": "participant", "identity": "alice"}),
            "identity",
        ),
    ] {
        let refused = encoded
            .call
            .app
            .post("/v1/rooms/standup/recordings")
            .json(body)
            .send();
        refused.expect_error(400, "invalid_request", Some(field));
        assert!(
            refused.text().contains("encrypted end to end"),
            "{}",
            refused.text()
        );
    }
    encoded.release();
    let room = encoded.record(&json!({"type": "room_composite"}));
    encoded.call.wait("the recording is active", |call| {
        status(&call.app, &room) == "active"
    });
    let clear = encoded.call.publish(alice, MediaKind::Video);
    encoded.call.wait("the other track is known", |call| {
        let shown = call
            .app
            .get("/v1/rooms/standup/participants/alice")
            .send()
            .expect(200);
        shown["tracks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|known| known["sid"] == clear)
    });
    encoded.record(&json!({"type": "participant", "identity": "alice"}));
}
