//! RTMP encoders on real sockets, next to a receiving WebRTC client.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rml_rtmp::handshake::{Handshake, HandshakeProcessResult, PeerType};
use rml_rtmp::sessions::{
    ClientSession, ClientSessionConfig, ClientSessionEvent, ClientSessionResult, PublishRequestType,
};
use rml_rtmp::time::RtmpTimestamp;
use serde_json::{Value, json};

use super::Call;
use crate::support::{Receiver, Request, TestApp, WAIT_LIMIT, eventually};

/// Frame interval in milliseconds.
const INTERVAL: u32 = 40;
/// Frame size in bytes, large enough for several packets.
const FRAME_BYTES: usize = 3_000;

/// An RTMP encoder.
pub struct RtmpEncoder {
    stream: TcpStream,
    session: ClientSession,
    events: Vec<ClientSessionEvent>,
    is_closed: bool,
    frames: u32,
    next: Instant,
    /// Whether its stream has B-frames.
    has_b_pictures: bool,
}

/// SPS that x264 writes for 640x360.
pub const SPS: [u8; 26] = [
    0x67, 0x64, 0x00, 0x1e, 0xac, 0xd9, 0x40, 0xa0, 0x2f, 0xf9, 0x70, 0x11, 0x00, 0x00, 0x03, 0x00,
    0x01, 0x00, 0x00, 0x03, 0x00, 0x32, 0x0f, 0x16, 0x2d, 0x96,
];

impl RtmpEncoder {
    /// Connects and requests to publish with a stream key.
    fn connect(app: &TestApp, key: &str) -> Self {
        let address = app.rtmp.expect("the app takes RTMP encoders");
        let mut stream = TcpStream::connect(address).unwrap();
        let first = shake_hands(&mut stream);
        stream
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        let (session, results) = ClientSession::new(ClientSessionConfig::new()).unwrap();
        let mut encoder = Self {
            stream,
            session,
            events: Vec::new(),
            is_closed: false,
            frames: 0,
            next: Instant::now(),
            has_b_pictures: false,
        };
        encoder.handle(results);
        encoder.receive(&first);
        let request = encoder.session.request_connection("live".into()).unwrap();
        encoder.handle(vec![request]);
        encoder.wait_for("the connection is accepted", |event| {
            matches!(event, ClientSessionEvent::ConnectionRequestAccepted)
        });
        let request = encoder
            .session
            .request_publishing(key.into(), PublishRequestType::Live)
            .unwrap();
        encoder.handle(vec![request]);
        encoder
    }

    /// Connects, and waits until the encoder may publish.
    #[track_caller]
    fn publish(app: &TestApp, ingress: &Value) -> Self {
        let mut encoder = Self::connect(app, ingress["stream_key"].as_str().unwrap());
        encoder.wait_for("it may publish", |event| {
            matches!(event, ClientSessionEvent::PublishRequestAccepted)
        });
        encoder.send_video(
            &[
                &[0x17, 0, 0, 0, 0, 1, 77, 0xc0, 0x1f, 0xff, 0xe1, 0, 26],
                &SPS[..],
                &[1, 0, 2, 0x68, 8],
            ]
            .concat(),
        );
        encoder
    }

    #[track_caller]
    fn wait_for(&mut self, what: &str, is_it: impl Fn(&ClientSessionEvent) -> bool) {
        let end = Instant::now() + WAIT_LIMIT;
        while !self.events.iter().any(&is_it) {
            assert!(
                Instant::now() < end && !self.is_closed,
                "{what}: {:?}",
                self.events
            );
            self.read();
        }
    }

    /// Sends the frames that are due, and reads all available input.
    pub fn drive(&mut self) {
        while !self.is_closed && Instant::now() >= self.next {
            self.next += Duration::from_millis(INTERVAL.into());
            self.send_frame();
        }
        self.read();
    }

    /// Sends a frame; every tenth one is a key frame.
    fn send_frame(&mut self) {
        let (kind, unit) = match self.frames % 10 {
            0 => (0x17, [0x65, 0x88]),
            2 if self.has_b_pictures => (0x27, [0x01, 0b1010_0000]),
            _ => (0x27, [0x41, 0b1110_0000]),
        };
        self.frames += 1;
        let mut unit = unit.to_vec();
        unit.resize(FRAME_BYTES, 0xaa);
        let length = u32::try_from(unit.len()).unwrap().to_be_bytes();
        self.send_video(&[&[kind, 1, 0, 0, 0][..], &length, &unit].concat());
    }

    fn send_video(&mut self, body: &[u8]) {
        let time = RtmpTimestamp::new(self.frames * INTERVAL);
        let sent = self
            .session
            .publish_video_data(body.to_vec().into(), time, false)
            .unwrap();
        self.handle(vec![sent]);
    }

    fn send_audio(&mut self, milliseconds: u32, body: &[u8]) {
        let time = RtmpTimestamp::new(milliseconds);
        let sent = self
            .session
            .publish_audio_data(body.to_vec().into(), time, false)
            .unwrap();
        self.handle(vec![sent]);
    }

    /// Ends the stream as a stopped encoder does.
    fn stop(&mut self) {
        let results = self.session.stop_publishing().unwrap();
        self.handle(results);
        // No frame follows.
        self.next += Duration::from_secs(3_600);
    }

    fn read(&mut self) {
        let mut buffer = [0; 4_096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.is_closed = true,
            Ok(bytes) => self.receive(&buffer[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.is_closed = true,
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let results = self.session.handle_input(bytes).unwrap();
        self.handle(results);
    }

    fn handle(&mut self, results: Vec<ClientSessionResult>) {
        for result in results {
            match result {
                // The server closes a removed encoder's connection.
                ClientSessionResult::OutboundResponse(packet) => {
                    self.is_closed |= self.stream.write_all(&packet.bytes).is_err();
                }
                ClientSessionResult::RaisedEvent(event) => self.events.push(event),
                ClientSessionResult::UnhandleableMessageReceived(_) => {}
            }
        }
    }
}

/// Performs the handshake, and returns the bytes that follow it.
fn shake_hands(stream: &mut TcpStream) -> Vec<u8> {
    let mut handshake = Handshake::new(PeerType::Client);
    stream
        .write_all(&handshake.generate_outbound_p0_and_p1().unwrap())
        .unwrap();
    let mut buffer = [0; 4_096];
    loop {
        let bytes = stream.read(&mut buffer).unwrap();
        match handshake.process_bytes(&buffer[..bytes]).unwrap() {
            HandshakeProcessResult::InProgress { response_bytes } => {
                stream.write_all(&response_bytes).unwrap();
            }
            HandshakeProcessResult::Completed {
                response_bytes,
                remaining_bytes,
            } => {
                stream.write_all(&response_bytes).unwrap();
                return remaining_bytes;
            }
        }
    }
}

fn start() -> Call {
    let listen = "127.0.0.1:0".parse().unwrap();
    let app = TestApp::start_with_webrtc_and(|config| config.media.rtmp_listen = Some(listen));
    app.room("standup");
    Call::new(app)
}

impl Call {
    /// Connects an encoder and waits until it publishes. Returns its endpoint and its video track.
    #[track_caller]
    fn publish_by_rtmp(&mut self) -> (Value, String) {
        let ingress = self.app.ingress("standup", "camera");
        self.rtmp_encoders
            .push(RtmpEncoder::publish(&self.app, &ingress));
        assert_eq!(self.app.ingress_now(&ingress)["status"], "buffering");
        self.wait("the encoder publishes", |call| {
            call.app.ingress_now(&ingress)["status"] == "publishing"
        });
        let camera = self
            .app
            .get("/v1/rooms/standup/participants/camera")
            .send()
            .expect(200);
        let sid = camera["tracks"][0]["sid"].as_str().unwrap().to_owned();
        (ingress, sid)
    }
}

#[test]
fn an_encoder_publishes_h264_as_a_participant_and_leaves() {
    let mut call = start();
    let receiver = Receiver::start();
    let viewer = call.join("alice", "host");
    call.app.endpoint(&receiver.url);
    let (ingress, video) = call.publish_by_rtmp();
    assert!(
        ingress["url"]
            .as_str()
            .unwrap()
            .ends_with(&format!("{}/live/REDACTED", call.app.rtmp.unwrap().port()))
    );
    call.assert_receives(viewer, &video);
    let camera = call
        .app
        .get("/v1/rooms/standup/participants/camera")
        .send()
        .expect(200);
    assert_eq!(
        (&camera["kind"], &camera["tracks"][0]["mime_type"]),
        (&json!("ingress"), &json!("video/H264"))
    );
    // A key frame is its parameter sets in an aggregation packet, and then the frame itself. Packets that arrive before the answer that
    // describes them are lost to a client, which then waits for the next key frame.
    let key_frame = |call: &Call| -> Vec<_> {
        let packets = call.clients[viewer]
            .received(&video)
            .map(|packet| (packet.payload[0] & 0x1f, packet.payload[1]));
        packets
            .skip_while(|(unit, _)| *unit != 24)
            .skip(1)
            .take(1)
            .collect()
    };
    call.wait("a key frame arrives", |call| !key_frame(call).is_empty());
    assert_eq!(
        key_frame(&call),
        [(28, 0x85)],
        "the first fragment of a key picture"
    );
    let shown = call
        .app
        .actors(&format!("/{}/room/standup", call.app.project))["media"]
        .clone();
    let encoder = shown
        .as_array()
        .unwrap()
        .iter()
        .find(|shown| shown["identity"] == "camera")
        .unwrap();
    assert_eq!(
        (&encoder["transports"], &encoder["published"][0]["codec"]),
        (&json!([]), &json!("video/H264"))
    );
    assert!(
        encoder["published"][0]["layers"][0]["packets"]
            .as_u64()
            .unwrap()
            > 0,
        "{encoder}"
    );
    call.rtmp_encoders[0].stop();
    call.wait("the endpoint is inactive", |call| {
        call.app.ingress_now(&ingress)["status"] == "inactive"
    });
    let types = call.app.event_types(&receiver);
    let expected = [
        "participant.joined",
        "track.published",
        "ingress.started",
        "track.unpublished",
        "participant.left",
        "ingress.ended",
    ];
    assert_eq!(types, expected);
}

#[test]
fn an_encoder_whose_connection_breaks_is_a_join_that_was_aborted() {
    let mut call = start();
    let receiver = Receiver::start();
    let (ingress, _) = call.publish_by_rtmp();
    call.app.endpoint(&receiver.url);
    call.rtmp_encoders.clear();
    call.wait("the endpoint is inactive", |call| {
        call.app.ingress_now(&ingress)["status"] == "inactive"
    });
    let types = call.app.event_types(&receiver);
    assert_eq!(
        types,
        [
            "track.unpublished",
            "participant.connection_aborted",
            "ingress.ended"
        ]
    );
}

#[test]
fn moderation_and_the_end_of_its_endpoint_hold_for_an_encoder_at_once() {
    let mut call = start();
    let viewer = call.join("alice", "host");
    let (ingress, video) = call.publish_by_rtmp();
    call.assert_receives(viewer, &video);
    let mute = |call: &Call, muted: bool| {
        let body = json!({"track_sid": video, "muted": muted});
        call.app
            .post("/v1/rooms/standup/participants/camera/mute")
            .json(body)
            .send()
            .expect(200)
    };
    mute(&call, true);
    call.assert_silent(viewer, &video);
    mute(&call, false);
    call.assert_receives(viewer, &video);
    call.app
        .delete("/v1/rooms/standup/participants/camera")
        .send()
        .expect_empty(204);
    call.assert_silent(viewer, &video);
    call.wait("the connection is closed", |call| {
        call.rtmp_encoders[0].is_closed
    });
    call.rtmp_encoders[0] = RtmpEncoder::publish(&call.app, &ingress);
    call.wait("the encoder publishes again", |call| {
        call.app.ingress_now(&ingress)["status"] == "publishing"
    });
    call.app
        .delete(&format!(
            "/v1/ingress/{}",
            ingress["ingress_id"].as_str().unwrap()
        ))
        .send()
        .expect_empty(204);
    call.wait("the connection is closed", |call| {
        call.rtmp_encoders[0].is_closed
    });
}

#[test]
fn a_key_that_is_unknown_in_use_or_of_another_protocol_is_refused() {
    let mut call = start();
    let (ingress, _) = call.publish_by_rtmp();
    let body = json!({"input_type": "whip", "participant_identity": "studio"});
    let whip = call
        .app
        .post("/v1/rooms/standup/ingress")
        .json(body)
        .send()
        .expect(201);
    for key in [
        "nokey",
        ingress["stream_key"].as_str().unwrap(),
        whip["stream_key"].as_str().unwrap(),
    ] {
        let mut refused = RtmpEncoder::connect(&call.app, key);
        eventually(|| {
            refused.read();
            refused.is_closed
        });
        let is_accepted = |event: &ClientSessionEvent| {
            matches!(event, ClientSessionEvent::PublishRequestAccepted)
        };
        assert!(!refused.events.iter().any(is_accepted));
    }
    assert_eq!(call.app.ingress_now(&ingress)["status"], "publishing");
}

/// Proves S-78.
#[test]
fn guesses_of_stream_keys_by_whip_and_rtmp_have_one_limit() {
    let mut call = start();
    let ingress = call.app.ingress("standup", "camera");
    for guess in 0..64 {
        let sent = Request::new("POST", format!("{}/whip/key{guess}", call.app.api))
            .anonymous()
            .send();
        sent.expect_error(404, "ingress_not_found", None);
    }
    let mut refused = RtmpEncoder::connect(&call.app, ingress["stream_key"].as_str().unwrap());
    eventually(|| {
        refused.read();
        refused.is_closed
    });
    let said = format!("{:?}", refused.events);
    assert!(!said.contains("PublishRequestAccepted"), "{said}");
    call.app.advance(Duration::from_secs(1));
    call.rtmp_encoders
        .push(RtmpEncoder::publish(&call.app, &ingress));
    call.wait("the encoder publishes", |call| {
        call.app.ingress_now(&ingress)["status"] == "publishing"
    });
}

#[test]
fn a_stream_that_receivers_cannot_play_is_an_error_of_the_endpoint_until_the_next_encoder() {
    let mut call = start();
    let ingress = call.app.ingress("standup", "camera");
    let mut encoder = RtmpEncoder::publish(&call.app, &ingress);
    encoder.has_b_pictures = true;
    call.rtmp_encoders.push(encoder);
    call.wait("the connection is closed", |call| {
        call.rtmp_encoders[0].is_closed
    });
    call.wait("the endpoint has an error", |call| {
        call.app.ingress_now(&ingress)["status"] == "error"
    });
    let error = call.app.ingress_now(&ingress)["error"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        error.contains("B-frames") && error.contains("ffmpeg is not installed"),
        "{error}"
    );
    call.rtmp_encoders[0] = RtmpEncoder::publish(&call.app, &ingress);
    call.wait("the encoder publishes", |call| {
        call.app.ingress_now(&ingress)["status"] == "publishing"
    });
    assert!(call.app.ingress_now(&ingress).get("error").is_none());
}

#[test]
fn a_stream_of_sound_alone_is_an_error_without_ffmpeg() {
    let call = start();
    let ingress = call.app.ingress("standup", "camera");
    let mut encoder = RtmpEncoder::connect(&call.app, ingress["stream_key"].as_str().unwrap());
    encoder.wait_for("it may publish", |event| {
        matches!(event, ClientSessionEvent::PublishRequestAccepted)
    });
    for number in 0..150 {
        encoder.send_audio(number * 20, &[0xaf, u8::from(number > 0), 0x12, 0x10]);
    }
    eventually(|| call.app.ingress_now(&ingress)["status"] == "error");
    let error = call.app.ingress_now(&ingress)["error"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        error.contains("only audio") && error.contains("ffmpeg is not installed"),
        "{error}"
    );
}

/// Proves S-79.
#[test]
fn bytes_that_are_no_rtmp_close_the_connection_and_nothing_else() {
    let mut call = start();
    let (ingress, _) = call.publish_by_rtmp();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![3; 100_000],
        Vec::new(),
    ] {
        let mut stream = TcpStream::connect(call.app.rtmp.unwrap()).unwrap();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(&bytes);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert_eq!(call.app.ingress_now(&ingress)["status"], "publishing");
}

#[test]
fn an_encoder_takes_over_from_one_that_has_been_silent_for_two_seconds_and_from_no_other() {
    let mut call = start();
    let viewer = call.join("alice", "host");
    let (ingress, _) = call.publish_by_rtmp();
    let key = ingress["stream_key"].as_str().unwrap();
    let is_accepted = |encoder: &mut RtmpEncoder| {
        eventually(|| {
            encoder.read();
            encoder.is_closed || format!("{:?}", encoder.events).contains("PublishRequestAccepted")
        });
        !encoder.is_closed
    };
    // The first encoder keeps sending while another tries.
    let mut second = RtmpEncoder::connect(&call.app, key);
    call.run(Duration::from_secs(3));
    assert!(!is_accepted(&mut second), "the first one publishes");
    assert_eq!(call.app.ingress_now(&ingress)["status"], "publishing");
    // The first encoder loses its network: no packets arrive, and the connection stays open.
    // Measured from before its last packets, since a busy machine may delay the steps after them.
    let since = Instant::now();
    call.run(Duration::from_millis(100));
    let lost = call.rtmp_encoders.remove(0);
    let mut newcomer = loop {
        call.run(Duration::from_millis(500));
        // A key may be tried once per second.
        call.app.advance(Duration::from_secs(1));
        let mut newcomer = RtmpEncoder::connect(&call.app, key);
        if is_accepted(&mut newcomer) {
            break newcomer;
        }
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "the key stays taken"
        );
    };
    assert!(
        since.elapsed() >= Duration::from_millis(1_500),
        "{:?}",
        since.elapsed()
    );
    newcomer.send_video(
        &[
            &[0x17, 0, 0, 0, 0, 1, 77, 0xc0, 0x1f, 0xff, 0xe1, 0, 26],
            &SPS[..],
            &[1, 0, 2, 0x68, 8],
        ]
        .concat(),
    );
    call.rtmp_encoders.push(newcomer);
    call.wait("the newcomer publishes", |call| {
        call.app.ingress_now(&ingress)["status"] == "publishing"
    });
    let camera = call
        .app
        .get("/v1/rooms/standup/participants/camera")
        .send()
        .expect(200);
    call.assert_receives(viewer, camera["tracks"][0]["sid"].as_str().unwrap());
    drop(lost);
    call.run(Duration::from_millis(500));
    assert_eq!(
        call.app.ingress_now(&ingress)["status"],
        "publishing",
        "the end of the first one changes nothing"
    );
}

#[test]
fn an_endpoint_that_is_to_transcode_does_so_with_video_that_receivers_could_play_also_after_a_restart()
 {
    let mut call = start();
    let create = |app: &TestApp, identity: &str, enabled: Value| {
        let body = json!({"input_type": "rtmp", "participant_identity": identity, "enable_transcoding": enabled});
        app.post("/v1/rooms/standup/ingress")
            .json(body)
            .send()
            .expect(201)
    };
    let transcoded = create(&call.app, "transcoded", json!(true));
    let plain = [json!(false), Value::Null]
        .map(|enabled| create(&call.app, &format!("plain-{enabled}"), enabled));
    for is_restarted in [false, true] {
        if is_restarted {
            call = Call::new(call.app.restart());
        }
        call.rtmp_encoders
            .push(RtmpEncoder::publish(&call.app, &transcoded));
        call.wait("the endpoint has an error", |call| {
            call.app.ingress_now(&transcoded)["status"] == "error"
        });
        let error = call.app.ingress_now(&transcoded)["error"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            error.contains("must be transcoded") && error.contains("ffmpeg is not installed"),
            "{error}"
        );
    }
    for ingress in &plain {
        call.rtmp_encoders
            .push(RtmpEncoder::publish(&call.app, ingress));
        call.wait("the encoder publishes", |call| {
            call.app.ingress_now(ingress)["status"] == "publishing"
        });
    }
}
