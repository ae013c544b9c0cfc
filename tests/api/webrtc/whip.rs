//! `/whip`: encoders on real transports, next to a receiving WebRTC client.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use str0m::format::Codec;
use str0m::media::MediaKind;

use super::Call;
use super::client::Publication;
use super::connection::NewSection;
use super::socket::SocketClient;
use crate::support::{Receiver, Request, Response, TestApp, eventually};

/// A WHIP encoder that sends audio and video regardless of the server's responses.
pub struct Encoder {
    pub transport: SocketClient,
    publications: Vec<Publication>,
    /// Path of the encoder's session.
    pub location: String,
    pub etag: String,
}

const SECTIONS: [NewSection<'_>; 2] = [
    NewSection {
        kind: MediaKind::Audio,
        cid: "sound",
        rids: &[],
    },
    NewSection {
        kind: MediaKind::Video,
        cid: "pictures",
        rids: &[],
    },
];

impl Encoder {
    /// Connects with a stream key.
    #[track_caller]
    pub fn connect(app: &TestApp, ingress: &Value) -> Self {
        let (mut transport, offer, publications) = offer();
        let response = post(app, key(ingress), &offer).send();
        assert_eq!(response.status, 201, "{}", response.text());
        assert_eq!(response.headers["content-type"], "application/sdp");
        transport.connection.accept_answer(&response.text());
        let (location, etag) = (
            response.headers["location"].clone(),
            response.headers["etag"].clone(),
        );
        assert!(!format!("{:?}{}", response.headers, response.text()).contains(key(ingress)));
        Self {
            transport,
            publications,
            location,
            etag,
        }
    }

    pub fn drive(&mut self) {
        let now = Instant::now();
        for publication in &mut self.publications {
            publication.send(&mut self.transport, now);
        }
        if !self.transport.connection.is_closed {
            self.transport.exchange();
        }
    }

    pub fn patch(&self, app: &TestApp, condition: Option<&str>, fragment: &str) -> Response {
        let request = app.patch(&self.location).anonymous().raw(fragment);
        let request = request.header("content-type", "application/trickle-ice-sdpfrag");
        condition
            .map_or(request.clone(), |tag| request.header("if-match", tag))
            .send()
    }
}

/// An encoder with an open session, for the error codes that need one.
pub struct ConnectedEncoder {
    app: TestApp,
    ingress: Value,
    encoder: Encoder,
}

impl ConnectedEncoder {
    pub fn start() -> Self {
        Self::start_at(TestApp::start_with_webrtc())
    }

    /// Like [`Self::start`], on an app with media workers.
    pub fn start_at(app: TestApp) -> Self {
        app.room("standup");
        let ingress = whip_ingress(&app);
        let encoder = Encoder::connect(&app, &ingress);
        Self {
            app,
            ingress,
            encoder,
        }
    }

    pub fn request_of_second_encoder(&self) -> Response {
        post(&self.app, key(&self.ingress), "").send()
    }

    pub fn patch(&self, condition: Option<&str>) -> Response {
        self.encoder.patch(&self.app, condition, "")
    }

    /// Ends the session.
    pub fn end(&self) -> Response {
        self.app.delete(&self.encoder.location).anonymous().send()
    }
}

pub fn offer() -> (SocketClient, String, Vec<Publication>) {
    let mut transport = SocketClient::udp();
    let mut api = transport.connection.rtc.sdp_api();
    let mids = SECTIONS.map(|section| section.add(&mut api));
    let (offer, pending) = api.apply().expect("there is something to offer");
    transport.connection.pending = Some(pending);
    let tracks = mids.into_iter().zip([Codec::Opus, Codec::Vp8]);
    let publications = tracks
        .map(|(mid, codec)| Publication::new(String::new(), mid, codec))
        .collect();
    (transport, offer.to_sdp_string(), publications)
}

pub fn key(ingress: &Value) -> &str {
    ingress["stream_key"].as_str().unwrap()
}

pub fn post(app: &TestApp, key: &str, offer: &str) -> Request {
    app.post(&format!("/whip/{key}"))
        .anonymous()
        .raw(offer)
        .header("content-type", "application/sdp")
}

/// Returns ICE credentials that differ from the encoder's, as an SDP fragment.
pub fn other_credentials() -> String {
    let (_, other_offer, _) = offer();
    other_offer
        .lines()
        .filter(|line| line.starts_with("a=ice-"))
        .map(|line| format!("{line}\r\n"))
        .collect()
}

/// Connects an encoder to a new room, and returns the response.
pub fn connected(app: &TestApp) -> Response {
    app.room("standup");
    let (_, offer, _) = offer();
    post(app, key(&whip_ingress(app)), &offer).send()
}

fn whip_ingress(app: &TestApp) -> Value {
    let body = json!({"input_type": "whip", "participant_identity": "studio", "participant_name": "Studio"});
    app.post("/v1/rooms/standup/ingress")
        .json(body)
        .send()
        .expect(201)
}

impl Call {
    /// Connects an encoder and waits until it publishes. Returns its endpoint and its tracks, audio first.
    #[track_caller]
    fn publish_by_whip(&mut self) -> (Value, [String; 2]) {
        let ingress = whip_ingress(&self.app);
        self.encoders.push(Encoder::connect(&self.app, &ingress));
        self.wait("the encoder publishes", |call| {
            call.status(&ingress) == "publishing"
        });
        let tracks = self.tracks_of_studio();
        (ingress, tracks)
    }

    /// Returns the encoder's tracks, audio first.
    #[track_caller]
    pub fn tracks_of_studio(&self) -> [String; 2] {
        let studio = self
            .app
            .get("/v1/rooms/standup/participants/studio")
            .send()
            .expect(200);
        let track = |kind: &str| {
            let found = studio["tracks"]
                .as_array()
                .unwrap()
                .iter()
                .find(|track| track["kind"] == kind);
            found.unwrap_or_else(|| panic!("no {kind}: {studio}"))["sid"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        [track("audio"), track("video")]
    }

    pub fn status(&self, ingress: &Value) -> String {
        self.app.ingress_now(ingress)["status"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub fn has_participant(&self, identity: &str) -> bool {
        self.app
            .get(&format!("/v1/rooms/standup/participants/{identity}"))
            .send()
            .status
            == 200
    }
}

#[test]
fn an_encoder_publishes_sound_and_pictures_as_a_participant() {
    let mut call = Call::start();
    let viewer = call.join("alice", "host");
    let (ingress, tracks) = call.publish_by_whip();
    for track in &tracks {
        call.assert_receives(viewer, track);
    }
    let studio = call
        .app
        .get("/v1/rooms/standup/participants/studio")
        .send()
        .expect(200);
    assert_eq!(
        (&studio["kind"], &studio["name"], &studio["state"]),
        (&json!("ingress"), &json!("Studio"), &json!("active"))
    );
    let shown = call
        .app
        .actors(&format!("/{}/room/standup", call.app.project))["media"]
        .clone();
    let encoder = shown
        .as_array()
        .unwrap()
        .iter()
        .find(|shown| shown["identity"] == "studio")
        .unwrap();
    assert_eq!(
        (
            &encoder["transports"][0]["connected"],
            &encoder["published"][1]["codec"]
        ),
        (&json!(true), &json!("video/VP8"))
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
    call.app
        .delete(&location)
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
    let sessions = call
        .app
        .get("/v1/sessions?identity=studio")
        .send()
        .expect(200);
    assert_eq!(sessions["sessions"][0]["track_count"], 2, "{sessions}");
}

#[test]
fn the_events_of_an_encoder_are_those_of_a_participant_and_of_its_endpoint() {
    let mut call = Call::start();
    let receiver = Receiver::start();
    call.app.endpoint(&receiver.url);
    let (ingress, _) = call.publish_by_whip();
    let mut types = call.app.event_types(&receiver);
    assert_eq!(
        types.split_off(2),
        ["track.published", "track.published", "ingress.started"],
        "after {types:?}, which are room.started and participant.joined"
    );
    // The encoder closes its connection without a request to end its session.
    call.encoders[0].transport.connection.rtc.close().unwrap();
    call.run(Duration::from_millis(200));
    assert_eq!(
        call.status(&ingress),
        "publishing",
        "its request to end the session may come behind"
    );
    // In steps: the media worker may notice the end of the connection only after the clock moved.
    call.app.step_until(Duration::from_secs(6), 5, || {
        call.status(&ingress) == "inactive"
    });
    assert_eq!(
        call.app.event_types(&receiver),
        [
            "track.unpublished",
            "track.unpublished",
            "participant.connection_aborted",
            "ingress.ended"
        ]
    );
}

/// Proves S-81.
#[test]
fn moderation_holds_for_an_encoder() {
    let mut call = Call::start();
    let viewer = call.join("alice", "host");
    let (ingress, [sound, pictures]) = call.publish_by_whip();
    call.assert_receives(viewer, &sound);
    call.assert_receives(viewer, &pictures);
    let mute = |call: &Call, muted: bool| {
        let body = json!({"track_sid": pictures, "muted": muted});
        call.app
            .post("/v1/rooms/standup/participants/studio/mute")
            .json(body)
            .send()
            .expect(200)
    };
    mute(&call, true);
    call.assert_silent(viewer, &pictures);
    call.assert_receives(viewer, &sound);
    mute(&call, false);
    call.assert_receives(viewer, &pictures);
    call.app
        .delete("/v1/rooms/standup/participants/studio")
        .send()
        .expect_empty(204);
    call.assert_silent(viewer, &sound);
    assert_eq!(call.status(&ingress), "inactive");
    // The stream key stays valid, so the encoder may connect again.
    call.encoders.clear();
    call.encoders.push(Encoder::connect(&call.app, &ingress));
    call.wait("the encoder publishes again", |call| {
        call.status(&ingress) == "publishing"
    });
}

/// Proves S-81.
#[test]
fn deleting_the_endpoint_disconnects_its_encoder_at_once() {
    let mut call = Call::start();
    let viewer = call.join("alice", "host");
    let (ingress, [sound, pictures]) = call.publish_by_whip();
    call.assert_receives(viewer, &pictures);
    call.app
        .delete(&format!(
            "/v1/ingress/{}",
            ingress["ingress_id"].as_str().unwrap()
        ))
        .send()
        .expect_empty(204);
    call.assert_silent(viewer, &pictures);
    call.assert_silent(viewer, &sound);
    assert!(!call.has_participant("studio"));
    post(&call.app, key(&ingress), &offer().1)
        .send()
        .expect_error(404, "ingress_not_found", None);
}

/// Proves S-78.
#[test]
fn a_key_that_is_unknown_in_use_or_of_another_protocol_is_refused_before_the_body_is_looked_at() {
    let mut call = Call::start();
    let (ingress, _) = call.publish_by_whip();
    let app = &call.app;
    post(app, "nokey", "")
        .send()
        .expect_error(404, "ingress_not_found", None);
    post(app, key(&ingress), "")
        .send()
        .expect_error(409, "encoder_connected", None);
    let rtmp = app.ingress("standup", "camera");
    post(app, key(&rtmp), "")
        .send()
        .expect_error(404, "ingress_not_found", None);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    eventually(|| post(app, key(&ingress), &offer().1).send().status == 404);
}

#[test]
fn an_offer_that_cannot_be_published_is_refused_and_the_endpoint_stays_usable() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let ingress = whip_ingress(&app);
    let refuse = |offer: &str| {
        post(&app, key(&ingress), offer)
            .send()
            .expect_error(400, "invalid_request", None);
    };
    refuse("");
    refuse(
        "v=0\r\nm=video 9 UDP/TLS/RTP/SAVPF 98\r\na=mid:0\r\na=sendonly\r\na=rtpmap:98 H263/90000\r\n",
    );
    let offered = offer().1;
    refuse(&offered.replace("a=sendonly", "a=recvonly"));
    refuse(&offered.replace("a=ice-pwd:", "a=x-pwd:"));
    refuse(&offered.replace("a=fingerprint:", "a=x-fingerprint:"));
    let wrong_type = post(&app, key(&ingress), &offered).header("content-type", "application/json");
    wrong_type
        .send()
        .expect_error(415, "unsupported_media_type", None);
    let long = format!("{offered}{}", "a=x-long:1\r\n".repeat(6_000));
    post(&app, key(&ingress), &long)
        .send()
        .expect_error(413, "payload_too_large", None);
    let mut encoder = Encoder::connect(&app, &ingress);
    eventually(|| {
        encoder.drive();
        app.ingress_now(&ingress)["status"] == "publishing"
    });
    assert!(app.ingress_now(&ingress).get("error").is_none());
}

#[test]
fn ice_is_restarted_by_a_fragment_with_new_credentials() {
    let mut call = Call::start();
    let viewer = call.join("alice", "host");
    let (_, [_, pictures]) = call.publish_by_whip();
    call.assert_receives(viewer, &pictures);
    let encoder = &call.encoders[0];
    let (app, etag) = (&call.app, encoder.etag.clone());
    let ice = other_credentials();
    encoder
        .patch(app, None, &ice)
        .expect_error(428, "precondition_required", None);
    encoder
        .patch(app, Some("\"other\""), &ice)
        .expect_error(412, "precondition_failed", None);
    encoder
        .patch(app, Some(&etag), "a=nothing:1\r\n")
        .expect_error(400, "invalid_request", None);
    let restarted = encoder.patch(app, Some("*"), &ice);
    assert_eq!(restarted.status, 200, "{}", restarted.text());
    assert_eq!(
        restarted.headers["content-type"],
        "application/trickle-ice-sdpfrag"
    );
    assert_ne!(restarted.headers["etag"], etag);
    for line in ["a=ice-ufrag:", "a=ice-pwd:", "a=candidate:"] {
        assert!(restarted.text().contains(line), "{}", restarted.text());
    }
    encoder
        .patch(app, Some(&etag), &ice)
        .expect_error(412, "precondition_failed", None);
    // A fragment with the current credentials and further addresses changes nothing.
    encoder
        .patch(app, Some(&restarted.headers["etag"]), &ice)
        .expect_empty(204);
    call.assert_receives(viewer, &pictures);
}

#[test]
fn browsers_may_publish_from_every_origin() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let ingress = whip_ingress(&app);
    let path = format!("/whip/{}", key(&ingress));
    let asked = app
        .request("OPTIONS", &path)
        .anonymous()
        .header("origin", "https://studio.example.org");
    let allowed = asked.header("access-control-request-method", "POST").send();
    allowed.expect_empty(204);
    assert_eq!(allowed.headers["access-control-allow-origin"], "*");
    assert!(allowed.headers["access-control-allow-methods"].contains("POST"));
    assert!(allowed.headers["access-control-allow-headers"].contains("Content-Type"));
    assert_eq!(allowed.headers["accept-post"], "application/sdp");
    let refused = post(&app, "nokey", "")
        .header("origin", "https://studio.example.org")
        .send();
    assert_eq!(refused.headers["access-control-allow-origin"], "*");
    app.get(&path)
        .anonymous()
        .send()
        .expect_error(405, "method_not_allowed", None);
}

#[test]
fn a_session_is_ended_by_the_stream_key_too() {
    let mut call = Call::start();
    let (ingress, _) = call.publish_by_whip();
    let path = format!("/whip/{}", key(&ingress));
    call.app.delete(&path).anonymous().send().expect_empty(200);
    assert_eq!(call.status(&ingress), "inactive");
    call.app
        .delete(&path)
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
}

/// Proves S-78.
#[test]
fn guesses_of_stream_keys_are_limited_by_address() {
    let app = TestApp::start_with_webrtc();
    let mut answers = (0..400).map(|guess| post(&app, &format!("key{guess}"), "").send());
    answers
        .next()
        .unwrap()
        .expect_error(404, "ingress_not_found", None);
    // Rate-limited responses come later than others, so one is enough.
    let limited = answers
        .find(|answer| answer.status != 404)
        .expect("the rate is limited");
    limited.expect_error(429, "rate_limited", None);
    assert!(limited.headers.contains_key("retry-after"));
}

#[test]
fn an_encoder_that_never_connects_is_given_up() {
    let mut call = Call::start();
    let ingress = whip_ingress(&call.app);
    let (_, offer, _) = offer();
    assert_eq!(post(&call.app, key(&ingress), &offer).send().status, 201);
    call.wait("the endpoint buffers", |call| {
        call.status(&ingress) == "buffering"
    });
    call.app.advance(Duration::from_secs(61));
    call.wait("the endpoint is free again", |call| {
        call.status(&ingress) == "inactive"
    });
    let sessions = call.app.get("/v1/sessions").send().expect(200);
    assert_eq!(sessions["sessions"], json!([]));
}

#[test]
fn an_encoder_takes_over_from_one_that_has_been_silent_for_two_seconds_and_from_no_other() {
    let mut call = Call::start();
    let viewer = call.join("alice", "host");
    let receiver = Receiver::start();
    let (ingress, _) = call.publish_by_whip();
    call.app.endpoint(&receiver.url);
    call.run(Duration::from_secs(3));
    post(&call.app, key(&ingress), &offer().1)
        .send()
        .expect_error(409, "encoder_connected", None);
    // The first encoder loses its network: no packets arrive, and its session stays open.
    // Measured from before its last packets, since a busy machine may delay the steps after them.
    let since = Instant::now();
    call.run(Duration::from_millis(100));
    let lost = call.encoders.remove(0);
    let (mut transport, offer, publications) = offer();
    let response = loop {
        call.run(Duration::from_millis(500));
        // A key may be tried once per second.
        call.app.advance(Duration::from_secs(1));
        let response = post(&call.app, key(&ingress), &offer).send();
        if response.status == 201 {
            break response;
        }
        assert_eq!(response.status, 409, "{}", response.text());
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
    transport.connection.accept_answer(&response.text());
    let (location, etag) = (
        response.headers["location"].clone(),
        response.headers["etag"].clone(),
    );
    call.encoders.push(Encoder {
        transport,
        publications,
        location,
        etag,
    });
    call.wait("the newcomer publishes", |call| {
        call.status(&ingress) == "publishing"
    });
    let studio = call
        .app
        .get("/v1/rooms/standup/participants/studio")
        .send()
        .expect(200);
    call.assert_receives(viewer, studio["tracks"][0]["sid"].as_str().unwrap());
    call.app
        .delete(&lost.location)
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
    let types = call.app.event_types(&receiver);
    assert_eq!(
        types[..5],
        [
            "track.unpublished",
            "track.unpublished",
            "participant.connection_aborted",
            "ingress.ended",
            "participant.joined"
        ]
    );
}
