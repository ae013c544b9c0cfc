//! Videos in more than one codec: one track for the API; each client receives a codec that it supports.

use livekit_protocol as proto;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;
use serde_json::json;

use super::Call;
use super::client::{Client, VP9_KEY_FRAME};
use crate::support::eventually;

const ALICE: &str = "/v1/rooms/stage/participants/alice";

/// Alice publishes a camera in VP9 and could also send VP8. Bob has both, Carol has no VP9.
struct Stage {
    call: Call,
    alice: usize,
    bob: usize,
    carol: usize,
    camera: String,
}

impl Stage {
    fn start() -> Self {
        let mut call = Call::start();
        let roles = json!({
            "host": {},
            "vp9": {"publish": {"video_codecs": ["vp9"]}},
            "viewer": {"publish": {"allowed": []}},
        });
        call.app.room_with_roles("stage", &roles);
        for identity in ["alice", "bob", "carol"] {
            let token = call.app.token("stage", identity, "host");
            let join = if identity == "carol" {
                Client::join
            } else {
                Client::join_with_all_codecs
            };
            call.clients.push(join(&call.app.api, &token).unwrap());
        }
        call.wait("all are active", |call| {
            let listed = call
                .app
                .get("/v1/rooms/stage/participants")
                .send()
                .expect(200);
            listed["participants"].as_array().unwrap().len() == 3
        });
        let mut stage = Self {
            call,
            alice: 0,
            bob: 1,
            carol: 2,
            camera: String::new(),
        };
        stage.announce("", "camera", &[("vp9", "camera"), ("vp8", "")]);
        stage.call.wait("the camera is published", |call| {
            !call.clients[0].publications.is_empty()
        });
        stage
            .camera
            .clone_from(&stage.call.clients[0].publications[0].sid);
        stage
    }

    /// Announces a video or an additional codec.
    fn announce(&mut self, sid: &str, cid: &str, codecs: &[(&str, &str)]) {
        let codec = |(codec, cid): &(&str, &str)| proto::SimulcastCodec {
            codec: (*codec).to_owned(),
            cid: (*cid).to_owned(),
            ..Default::default()
        };
        self.call.clients[self.alice].request(Request::AddTrack(proto::AddTrackRequest {
            sid: sid.to_owned(),
            cid: cid.to_owned(),
            r#type: proto::TrackType::Video.into(),
            source: proto::TrackSource::Camera.into(),
            simulcast_codecs: codecs.iter().map(codec).collect(),
            ..Default::default()
        }));
    }

    /// Waits until the server requests a codec from Alice.
    #[track_caller]
    fn wait_for_request(&mut self, codec: &str) {
        let alice = self.alice;
        self.call.wait("the codec is asked for", |call| {
            let told =
                call.clients[alice]
                    .responses
                    .iter()
                    .rev()
                    .find_map(|response| match response {
                        Response::SubscribedQualityUpdate(update) => {
                            Some(&update.subscribed_codecs)
                        }
                        _ => None,
                    });
            told.is_some_and(|codecs| {
                codecs
                    .iter()
                    .any(|one| one.codec == codec && one.qualities[0].enabled)
            })
        });
    }

    /// Publishes VP8 when the server requests it, as LiveKit's clients do.
    fn publish_backup(&mut self) {
        self.wait_for_request("vp8");
        let camera = self.camera.clone();
        self.announce(&camera, "copy", &[("vp8", "copy")]);
        self.call.wait("the backup is published", |call| {
            call.clients[0].publications.len() == 2
        });
        assert_eq!(self.call.clients[0].publications[1].sid, camera);
    }

    /// Waits until Bob gets VP9 and Carol VP8, from now on.
    #[track_caller]
    fn assert_both_arrive(&mut self) {
        for client in [self.bob, self.carol] {
            self.call.assert_receives(client, &self.camera);
        }
        let is_vp9 = |client: usize| {
            let received = self.call.clients[client].received(&self.camera);
            received
                .map(|packet| packet.payload[0] == VP9_KEY_FRAME)
                .collect::<Vec<_>>()
        };
        assert!(is_vp9(self.bob).into_iter().all(|is_vp9| is_vp9));
        assert!(!is_vp9(self.carol).into_iter().any(|is_vp9| is_vp9));
    }

    #[track_caller]
    fn assert_both_are_silent(&mut self) {
        for client in [self.bob, self.carol] {
            self.call.assert_silent(client, &self.camera);
        }
    }

    /// Returns the MIME types of the tracks that the API lists.
    fn listed(&self) -> Vec<String> {
        let alice = self.call.app.get(ALICE).send().expect(200);
        let tracks = alice["tracks"].as_array().unwrap();
        tracks
            .iter()
            .map(|track| track["mime_type"].as_str().unwrap().to_owned())
            .collect()
    }

    fn change_role(&self, role: &str) {
        self.call
            .app
            .post(&format!("{ALICE}/role"))
            .json(json!({"role": role}))
            .send()
            .expect(200);
    }
}

#[test]
fn each_client_gets_a_codec_that_it_has_of_one_track_through_mutes_and_resumes() {
    let mut stage = Stage::start();
    stage.publish_backup();
    stage.assert_both_arrive();
    assert_eq!(stage.listed(), ["video/VP9"], "it is one track");
    let seen = stage.call.clients[stage.carol].seen("alice").unwrap();
    let [track] = &seen.tracks[..] else {
        panic!("{seen:?}")
    };
    let mimes: Vec<_> = track
        .codecs
        .iter()
        .map(|codec| (codec.mime_type.as_str(), codec.mid.is_empty()))
        .collect();
    assert_eq!(mimes, [("video/VP9", false), ("video/VP8", false)]);

    for muted in [true, false] {
        let body = json!({"track_sid": stage.camera, "muted": muted});
        stage
            .call
            .app
            .post(&format!("{ALICE}/mute"))
            .json(body)
            .send()
            .expect(200);
        if muted {
            stage.assert_both_are_silent();
        } else {
            stage.assert_both_arrive();
        }
    }

    for client in [stage.alice, stage.carol] {
        stage.call.clients[client].lose_signalling();
        stage.call.clients[client].forget_responses();
        stage.call.clients[client].resume();
        stage.call.wait("the resume is answered", |call| {
            call.clients[client]
                .responses
                .iter()
                .any(|response| matches!(response, Response::Reconnect(_)))
        });
        stage.assert_both_arrive();
    }
    stage.wait_for_request("vp8");
}

#[test]
fn a_role_without_a_codec_ends_that_and_one_that_may_not_publish_ends_both() {
    let mut stage = Stage::start();
    stage.publish_backup();
    stage.assert_both_arrive();
    stage.change_role("vp9");
    stage.call.assert_silent(stage.carol, &stage.camera);
    stage.call.assert_receives(stage.bob, &stage.camera);
    assert_eq!(stage.listed(), ["video/VP9"]);
    let unsupported = proto::SubscriptionError::SeCodecUnsupported;
    let (carol, camera) = (stage.carol, stage.camera.clone());
    stage.call.wait("it is told", |call| {
        call.clients[carol].responses.iter().any(|response| {
            matches!(response, Response::SubscriptionResponse(refused)
            if refused.track_sid == camera && refused.err() == unsupported)
        })
    });
    stage.announce(&camera, "again", &[("vp8", "again")]);
    stage.call.wait("the codec is refused", |call| {
        call.clients[0].responses.iter().any(|response| {
            matches!(response, Response::RequestResponse(refused)
            if refused.reason() == proto::request_response::Reason::UnsupportedType)
        })
    });

    stage.change_role("viewer");
    stage.assert_both_are_silent();
    assert!(stage.listed().is_empty());
}

#[test]
fn a_client_that_stops_to_send_the_first_codec_ends_the_track_in_both() {
    let mut stage = Stage::start();
    stage.publish_backup();
    stage.assert_both_arrive();
    stage.call.clients[stage.alice].unpublish(0);
    stage.assert_both_are_silent();
    // The packets stop before the server has handled the offer.
    eventually(|| stage.listed().is_empty());
}
