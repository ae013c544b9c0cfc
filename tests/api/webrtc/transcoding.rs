//! WHIP encoders with transcoded video; a script replaces ffmpeg.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Call;
use super::rtmp::SPS;
use super::whip::{Encoder, key, offer, other_credentials, post};
use crate::support::{Receiver, TestApp, eventually};

/// Number of frames that the script writes, one every 40 ms: more than any test needs.
const FRAMES: u32 = 1_500;
/// Start of the script: it prints ffmpeg's version on request.
const PREAMBLE: &str = "#!/bin/sh\ncase \"$*\" in\n*-version) echo 'ffmpeg version 5.1 of a test'; exit ;;\n\
    *-encoders) echo ' V..... libx264'; echo ' A..... libopus'; exit ;;\nesac\n";

/// A server whose ffmpeg is a script.
struct Scripted {
    call: Call,
    folder: TempDir,
}

impl Scripted {
    /// Starts with a script that runs this instead of transcoding. It finds H.264 frames in the folder `frames` next to it.
    fn start(transcode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ffmpeg");
        fs::write(
            &program,
            format!("{PREAMBLE}cd \"${{0%/*}}\"\n{transcode}\n"),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let frames = folder.path().join("frames");
        fs::create_dir(&frames).unwrap();
        for number in 0..FRAMES {
            fs::write(frames.join(format!("{number:04}")), made(number)).unwrap();
        }
        let app = TestApp::start_with_webrtc_and(|config| {
            config.egress.ffmpeg = program.display().to_string();
            config.egress.max_composites = 1;
        });
        app.room("standup");
        Self {
            call: Call::new(app),
            folder,
        }
    }

    /// Like [`Self::start`], with a script that stores its input by process and writes a frame every 40 ms.
    fn start_transcoding() -> Self {
        Self::start(
            "echo $$ >> processes; exec 3<&0; cat <&3 > input.$$ &\n\
             for frame in frames/*; do cat \"$frame\" || exit; sleep 0.04; done; wait",
        )
    }

    /// Returns each process' input, in start order.
    fn inputs(&self) -> Vec<Vec<u8>> {
        let started = fs::read_to_string(self.folder.path().join("processes")).unwrap_or_default();
        started
            .lines()
            .map(|pid| {
                fs::read(self.folder.path().join(format!("input.{pid}"))).unwrap_or_default()
            })
            .collect()
    }

    /// Connects an encoder and waits until it publishes audio and video. Returns its endpoint and its tracks, audio first.
    #[track_caller]
    fn publish(&mut self) -> (Value, [String; 2]) {
        let ingress = endpoint(&self.call.app, "studio", json!(true));
        self.call
            .encoders
            .push(Encoder::connect(&self.call.app, &ingress));
        self.call.wait("both tracks are published", has_both_tracks);
        let tracks = self.call.tracks_of_studio();
        (ingress, tracks)
    }
}

fn has_both_tracks(call: &Call) -> bool {
    let shown = call.app.get("/v1/rooms/standup/participants/studio").send();
    shown.status == 200
        && shown.expect(200)["tracks"]
            .as_array()
            .is_some_and(|tracks| tracks.len() == 2)
}

/// Returns an H.264 frame as ffmpeg writes it; the first one follows the file header and the parameter sets. Every tenth one is a key
/// frame.
fn made(number: u32) -> Vec<u8> {
    let parameters = [
        &[0x17, 0, 0, 0, 0, 1, 66, 0xc0, 0x1f, 0xff, 0xe1, 0, 26][..],
        &SPS,
        &[1, 0, 2, 0x68, 8],
    ]
    .concat();
    let (kind, unit) = if number.is_multiple_of(10) {
        (0x17, [0x65, 0x88])
    } else {
        (0x27, [0x41, 0xe0])
    };
    let frame = [&[kind, 1, 0, 0, 0, 0, 0, 0, 2][..], &unit].concat();
    let beginning = if number == 0 {
        [&b"FLV\x01\x01\0\0\0\x09\0\0\0\0"[..], &tag(0, &parameters)].concat()
    } else {
        Vec::new()
    };
    [beginning, tag(number * 40, &frame)].concat()
}

/// Returns an FLV tag.
fn tag(milliseconds: u32, body: &[u8]) -> Vec<u8> {
    let [_, size @ ..] = u32::try_from(body.len()).unwrap().to_be_bytes();
    let [_, time @ ..] = milliseconds.to_be_bytes();
    let header = [&[9][..], &size, &time, &[0; 4]].concat();
    let length = u32::try_from(header.len() + body.len()).unwrap();
    [&header, body, &length.to_be_bytes()].concat()
}

fn endpoint(app: &TestApp, identity: &str, enabled: Value) -> Value {
    let body = json!({
        "input_type": "whip", "participant_identity": identity, "participant_name": "Studio", "enable_transcoding": enabled
    });
    app.post("/v1/rooms/standup/ingress")
        .json(body)
        .send()
        .expect(201)
}

fn error(call: &Call, ingress: &Value) -> String {
    call.app.ingress_now(ingress)["error"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn viewers_receive_what_ffmpeg_makes_of_the_pictures_and_the_sound_as_it_is() {
    let mut scripted = Scripted::start_transcoding();
    let viewer = scripted.call.join("alice", "host");
    let (_, [sound, pictures]) = scripted.publish();
    let call = &mut scripted.call;
    call.assert_receives(viewer, &sound);
    call.assert_receives(viewer, &pictures);
    // The encoder sends VP8, which no client receives.
    let expected: [&[u8]; 2] = [&[0x41, 0xe0], &[0x78]];
    let payloads: Vec<_> = call.clients[viewer]
        .received(&pictures)
        .map(|packet| packet.payload.clone())
        .collect();
    assert!(
        payloads
            .iter()
            .all(|payload| expected.iter().any(|begin| payload.starts_with(begin)))
            && expected
                .iter()
                .all(|begin| payloads.iter().any(|payload| payload.starts_with(begin))),
        "{payloads:?}"
    );
    let heard = call.clients[viewer].received(&sound).last().unwrap();
    assert_eq!(heard.payload[..], [1, 2, 3]);
    // The program reads the encoder's frames as Matroska. It does not wait for them before it writes its own.
    let is_matroska = |input: &Vec<u8>| {
        input.starts_with(&[0x1a, 0x45, 0xdf, 0xa3])
            && input.windows(5).any(|bytes| bytes == b"V_VP8")
    };
    eventually(|| scripted.inputs().iter().any(is_matroska));
    assert_eq!(scripted.inputs().len(), 1, "processes");
}

#[test]
fn a_transcoded_encoder_is_one_participant_with_the_events_of_an_encoder() {
    let mut scripted = Scripted::start_transcoding();
    let receiver = Receiver::start();
    let viewer = scripted.call.join("alice", "host");
    scripted.call.app.endpoint(&receiver.url);
    let (ingress, [_, pictures]) = scripted.publish();
    let call = &mut scripted.call;
    let studio = call
        .app
        .get("/v1/rooms/standup/participants/studio")
        .send()
        .expect(200);
    assert_eq!(
        (&studio["kind"], &studio["name"], &studio["state"]),
        (&json!("ingress"), &json!("Studio"), &json!("active"))
    );
    let kinds = studio["tracks"].as_array().unwrap();
    let codec = |kind: &str| {
        let track = kinds.iter().find(|track| track["kind"] == kind).unwrap();
        (track["mime_type"].clone(), track["muted"].clone())
    };
    assert_eq!(codec("video"), (json!("video/H264"), json!(false)));
    assert_eq!(codec("audio"), (json!("audio/opus"), json!(false)));
    assert_eq!(call.status(&ingress), "publishing");
    let listed = call
        .app
        .get("/v1/rooms/standup/participants")
        .send()
        .expect(200);
    assert_eq!(
        listed["participants"].as_array().unwrap().len(),
        2,
        "the encoder is one participant: {listed}"
    );
    // The encoder ends its session.
    let location = call.encoders[0].location.clone();
    call.app
        .delete(&location)
        .anonymous()
        .send()
        .expect_empty(200);
    assert!(!call.has_participant("studio"));
    assert_eq!(call.status(&ingress), "inactive");
    call.assert_silent(viewer, &pictures);
    call.wait("the connection is closed", |call| {
        call.encoders[0].transport.connection.is_closed
    });
    let mut types = call.app.event_types(&receiver);
    // The order between the first frames and the stream's start depends on ffmpeg.
    let middle = types.drain(1..types.len() - 4).collect::<Vec<_>>();
    assert_eq!(types[0], "participant.joined");
    assert_eq!(
        types[1..],
        [
            "track.unpublished",
            "track.unpublished",
            "participant.left",
            "ingress.ended"
        ]
    );
    let count = |name: &str| middle.iter().filter(|kind| *kind == name).count();
    assert_eq!(
        (
            middle.len(),
            count("track.published"),
            count("ingress.started")
        ),
        (3, 2, 1),
        "{middle:?}"
    );
    let sessions = call
        .app
        .get("/v1/sessions?identity=studio")
        .send()
        .expect(200);
    assert_eq!(
        sessions["sessions"].as_array().unwrap().len(),
        1,
        "{sessions}"
    );
    assert_eq!(sessions["sessions"][0]["track_count"], 2, "{sessions}");
}

#[test]
fn moderation_and_a_restart_of_ice_hold_for_a_transcoded_encoder() {
    let mut scripted = Scripted::start_transcoding();
    let call = &mut scripted.call;
    let viewer = call.join("alice", "host");
    let (ingress, [sound, pictures]) = scripted.publish();
    let call = &mut scripted.call;
    call.assert_receives(viewer, &pictures);
    let mute = |call: &Call, track: &str, muted: bool| {
        let body = json!({"track_sid": track, "muted": muted});
        call.app
            .post("/v1/rooms/standup/participants/studio/mute")
            .json(body)
            .send()
            .expect(200)
    };
    mute(call, &pictures, true);
    call.assert_silent(viewer, &pictures);
    call.assert_receives(viewer, &sound);
    mute(call, &pictures, false);
    call.assert_receives(viewer, &pictures);
    mute(call, &sound, true);
    call.assert_silent(viewer, &sound);
    mute(call, &sound, false);
    call.assert_receives(viewer, &sound);
    let etag = call.encoders[0].etag.clone();
    let restarted = call.encoders[0].patch(&call.app, Some(&etag), &other_credentials());
    assert_eq!(restarted.status, 200, "{}", restarted.text());
    assert!(
        restarted.text().contains("a=ice-ufrag:") && restarted.headers["etag"] != etag,
        "{}",
        restarted.text()
    );
    call.assert_receives(viewer, &sound);
    call.app
        .delete("/v1/rooms/standup/participants/studio")
        .send()
        .expect_empty(204);
    call.assert_silent(viewer, &sound);
    call.wait("the connection is closed", |call| {
        call.encoders[0].transport.connection.is_closed
    });
    assert_eq!(call.status(&ingress), "inactive");
    // The server did not stop the encoder, so it may return.
    call.encoders.clear();
    call.encoders.push(Encoder::connect(&call.app, &ingress));
    call.wait("both tracks are published again", has_both_tracks);
    call.app
        .delete(&format!(
            "/v1/ingress/{}",
            ingress["ingress_id"].as_str().unwrap()
        ))
        .send()
        .expect_empty(204);
    assert!(!call.has_participant("studio"));
}

#[test]
fn a_transcoded_encoder_gives_way_after_two_seconds_of_silence_and_not_while_it_sends() {
    let mut scripted = Scripted::start_transcoding();
    let (ingress, _) = scripted.publish();
    let call = &mut scripted.call;
    let viewer = call.join("alice", "host");
    call.run(Duration::from_secs(3));
    call.app.advance(Duration::from_secs(1));
    post(&call.app, key(&ingress), &offer().1)
        .send()
        .expect_error(409, "encoder_connected", None);
    // The encoder loses its network: no packets arrive, and its session stays open.
    // Measured from before its last packets, since a busy machine may delay the steps after them.
    let since = Instant::now();
    call.run(Duration::from_millis(100));
    let lost = call.encoders.remove(0);
    loop {
        call.run(Duration::from_millis(500));
        // A key may be tried once per second.
        call.app.advance(Duration::from_secs(1));
        if post(&call.app, key(&ingress), "").send().status == 400 {
            break;
        }
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "the key stays taken"
        );
    }
    assert!(
        since.elapsed() >= Duration::from_millis(1_500),
        "{:?}",
        since.elapsed()
    );
    call.app.advance(Duration::from_secs(1));
    call.encoders.push(Encoder::connect(&call.app, &ingress));
    call.wait("the newcomer publishes", has_both_tracks);
    let [_, pictures] = call.tracks_of_studio();
    call.assert_receives(viewer, &pictures);
    call.app
        .delete(&lost.location)
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
}

#[test]
fn pictures_that_cannot_be_transcoded_end_the_encoder_with_a_reason() {
    let mut scripted = Scripted::start("echo 'Cannot allocate memory' >&2; exit 1");
    let ingress = endpoint(&scripted.call.app, "studio", json!(true));
    let call = &mut scripted.call;
    call.encoders.push(Encoder::connect(&call.app, &ingress));
    call.wait("the endpoint has an error", |call| {
        call.status(&ingress) == "error"
    });
    let error = error(call, &ingress);
    assert!(
        error.contains("must be transcoded") && error.contains("Cannot allocate memory"),
        "{error}"
    );
    assert!(!call.has_participant("studio"));
    call.wait("the connection is closed", |call| {
        call.encoders[0].transport.connection.is_closed
    });
    let location = call.encoders[0].location.clone();
    call.app
        .delete(&location)
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
}

#[test]
fn an_encoder_for_which_there_is_no_transcoder_left_ends_with_a_reason_and_the_next_one_gets_that_of_one_that_has_left()
 {
    let mut scripted = Scripted::start_transcoding();
    scripted.publish();
    let call = &mut scripted.call;
    let second = endpoint(&call.app, "second", json!(true));
    call.encoders.push(Encoder::connect(&call.app, &second));
    call.wait("the endpoint has an error", |call| {
        call.status(&second) == "error"
    });
    let error = error(call, &second);
    assert!(
        error.contains("the transcoding limit is reached"),
        "{error}"
    );
    assert!(call.has_participant("studio"));
    let first = call.encoders.remove(0);
    call.app
        .delete(&first.location)
        .anonymous()
        .send()
        .expect_empty(200);
    call.encoders.clear();
    call.encoders.push(Encoder::connect(&call.app, &second));
    call.wait("the encoder publishes", |call| {
        call.status(&second) == "publishing"
    });
}

#[test]
fn an_endpoint_is_transcoded_only_if_it_says_so_also_after_a_restart() {
    let mut call = Call::start();
    let transcoded = endpoint(&call.app, "transcoded", json!(true));
    let plain = [json!(false), Value::Null]
        .map(|enabled| endpoint(&call.app, &format!("plain-{enabled}"), enabled));
    for is_restarted in [false, true] {
        if is_restarted {
            call = Call::new(call.app.restart());
            // Actors restore the endpoints after the server is ready; a response with the status shows that its actor is ready.
            for endpoint in plain.iter().chain([&transcoded]) {
                call.status(endpoint);
            }
        }
        call.encoders.push(Encoder::connect(&call.app, &transcoded));
        call.wait("the endpoint has an error", |call| {
            call.status(&transcoded) == "error"
        });
        let error = error(&call, &transcoded);
        assert!(
            error.contains("must be transcoded") && error.contains("ffmpeg is not installed"),
            "{error}"
        );
    }
    let viewer = call.join("alice", "host");
    for ingress in &plain {
        call.encoders.push(Encoder::connect(&call.app, ingress));
        call.wait("the encoder publishes", |call| {
            call.status(ingress) == "publishing"
        });
        let identity = ingress["participant_identity"].as_str().unwrap();
        let shown = call
            .app
            .get(&format!("/v1/rooms/standup/participants/{identity}"))
            .send()
            .expect(200);
        let tracks = shown["tracks"].as_array().unwrap();
        let video = tracks
            .iter()
            .find(|track| track["kind"] == "video")
            .unwrap();
        assert_eq!(video["mime_type"], "video/VP8");
        call.assert_receives(viewer, video["sid"].as_str().unwrap());
    }
}
