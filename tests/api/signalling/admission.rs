//! Admission: admitted clients, their first response, and the form of refusals.

use std::io::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::write::GzEncoder;
use livekit_protocol as proto;
use prost::Message as _;
use proto::signal_request::Message as SignalRequest;
use proto::signal_response::Message as SignalResponse;
use serde_json::json;
use tungstenite::Message;

use super::client::{Client, assert_refused, query, status_of};
use crate::support::{Request, TestApp, eventually};

#[test]
fn a_client_is_answered_and_leaves_without_a_session_while_its_media_is_not_connected() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    let Some(SignalResponse::Join(join)) = client.next() else {
        panic!("the first message answers the join")
    };
    assert_eq!(join.participant.unwrap().identity, "alice");
    assert!(matches!(
        client.next(),
        Some(SignalResponse::RefreshToken(_))
    ));
    let offer = client.until(|response| {
        if let SignalResponse::Offer(offer) = response {
            Some(offer)
        } else {
            None
        }
    });
    assert!(offer.sdp.contains("m=application"), "{}", offer.sdp);
    client.send(SignalRequest::PingReq(proto::Ping {
        timestamp: 7,
        rtt: 0,
    }));
    let pong = client.until(|response| {
        if let SignalResponse::PongResp(pong) = response {
            Some(pong)
        } else {
            None
        }
    });
    assert_eq!(pong.last_ping_timestamp, 7);
    assert_eq!(
        app.get("/v1/rooms/standup/participants").send().expect(200)["participants"],
        json!([])
    );

    client.send(SignalRequest::Leave(proto::LeaveRequest::default()));
    assert!(client.next().is_none(), "the server closes the websocket");
    assert_eq!(
        app.get("/v1/sessions").send().expect(200)["sessions"],
        json!([])
    );
}

#[test]
fn a_device_that_does_not_send_a_codec_well_may_not_publish_with_it() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    for (device, user_agent, has_h264) in [
        (
            "&os=android&device_model=Xiaomi%202201117TI",
            "tests",
            false,
        ),
        ("&os=android&device_model=Pixel%209", "tests", true),
        ("", firefox, false),
    ] {
        let query = format!("{}{device}", query(&app.token("standup", "alice", "host")));
        let mut client = Client::connect_as(&app, &format!("/rtc{query}"), user_agent).unwrap();
        let Some(SignalResponse::Join(join)) = client.next() else {
            panic!("the first message answers the join")
        };
        let mimes: Vec<_> = join
            .enabled_publish_codecs
            .into_iter()
            .map(|codec| codec.mime)
            .collect();
        assert_eq!(
            mimes.contains(&"video/H264".to_owned()),
            has_h264,
            "{device} {user_agent}"
        );
        assert!(mimes.contains(&"video/VP8".to_owned()));
    }
}

#[test]
fn a_refusal_has_the_same_status_at_the_websocket_and_at_its_dry_run() {
    let app = TestApp::start_with_webrtc();
    app.room_with_roles("full", &json!({"host": {"max_peer_count": 1}}));
    app.room("over");
    let (first, second) = (
        app.token("full", "alice", "host"),
        app.token("full", "bob", "host"),
    );
    let ended = app.token("over", "alice", "host");
    app.delete("/v1/rooms/over").send().expect_empty(204);
    assert_eq!(app.validate(&first).status, 200);
    let _alice = Client::connect(&app, &format!("/rtc{}", query(&first))).unwrap();

    let cases = [
        (second.as_str(), 403, "the role is full"),
        (ended.as_str(), 404, "requested room does not exist"),
        ("not-a-token", 401, "the token is malformed"),
    ];
    for (token, status, text) in cases {
        assert_refused(&app.validate(token), status, text);
        let error = Client::connect(&app, &format!("/rtc{}", query(token)))
            .err()
            .unwrap();
        assert_eq!(status_of(&error), status);
    }
    assert_refused(
        &app.get("/rtc/v1/validate").anonymous().send(),
        401,
        "no token",
    );
    app.room("open");
    let path = format!(
        "/rtc/v1/validate?access_token={}",
        app.token("open", "alice", "host")
    );
    assert_refused(&app.get(&path).anonymous().send(), 400, "join_request");
    assert_refused(&app.get("/rtc/v1").anonymous().send(), 404, "WebSocket");
}

/// Returns a join request for a URL, with this many tracks.
fn join_request(tracks: usize) -> String {
    let client_info = Some(proto::ClientInfo {
        protocol: 16,
        ..Default::default()
    });
    let add_track_requests = vec![proto::AddTrackRequest::default(); tracks];
    let join = proto::JoinRequest {
        client_info,
        add_track_requests,
        ..Default::default()
    };
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&join.encode_to_vec()).unwrap();
    let compression = proto::wrapped_join_request::Compression::Gzip.into();
    let wrapped = proto::WrappedJoinRequest {
        compression,
        join_request: encoder.finish().unwrap(),
    };
    URL_SAFE_NO_PAD.encode(wrapped.encode_to_vec())
}

/// Proves S-32.
#[test]
fn a_join_request_is_read_only_with_a_valid_token_and_refused_if_it_inflates_to_much() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let large = join_request(500_000);
    assert!(large.len() < 2_000, "it is small in the url");
    for path in ["/rtc", "/rtc/v1"] {
        for (token, join, status, text) in [
            ("not-a-token", large.as_str(), 401, "the token is malformed"),
            ("not-a-token", "%21", 401, "the token is malformed"),
            (token.as_str(), large.as_str(), 400, "join_request"),
            (token.as_str(), "%21", 400, "join_request"),
        ] {
            let query = format!("access_token={token}&join_request={join}");
            assert_refused(
                &app.get(&format!("{path}/validate?{query}"))
                    .anonymous()
                    .send(),
                status,
                text,
            );
            let error = Client::connect(&app, &format!("{path}?{query}"))
                .err()
                .unwrap();
            assert_eq!(status_of(&error), status);
        }
        let query = format!("access_token={token}&join_request={}", join_request(3));
        assert_eq!(
            app.get(&format!("{path}/validate?{query}"))
                .anonymous()
                .send()
                .status,
            200
        );
    }
}

#[test]
fn attributes_in_the_query_are_those_of_the_participant_if_its_role_permits_it_and_else_401() {
    let app = TestApp::start_with_webrtc();
    let roles = json!({"speaker": {"permissions": {"update_own_metadata": true}}, "host": {}});
    app.room_with_roles("stage", &roles);
    let with = |role: &str, json: &str| {
        format!(
            "{}&attributes={}",
            query(&app.token("stage", "alice", role)),
            URL_SAFE_NO_PAD.encode(json)
        )
    };
    for (role, json, status, text) in [
        ("host", r#"{"hand":"up"}"#, 401, "does not permit"),
        ("speaker", r#"{"svc.role":"host"}"#, 401, "svc."),
        ("speaker", r#"{"hand":1}"#, 400, "attributes"),
    ] {
        let query = with(role, json);
        assert_refused(
            &app.get(&format!("/rtc/validate{query}")).anonymous().send(),
            status,
            text,
        );
        let error = Client::connect(&app, &format!("/rtc{query}"))
            .err()
            .unwrap();
        assert_eq!(status_of(&error), status);
    }
    let mut client = Client::connect(
        &app,
        &format!("/rtc{}", with("speaker", r#"{"hand":"up"}"#)),
    )
    .unwrap();
    let Some(SignalResponse::Join(join)) = client.next() else {
        panic!("the first message answers the join")
    };
    let own = join.participant.unwrap();
    assert_eq!(
        (
            own.attributes["hand"].as_str(),
            own.attributes["svc.role"].as_str()
        ),
        ("up", "speaker")
    );
    assert!(own.permission.unwrap().can_update_metadata);
}

#[test]
fn a_refusal_does_not_repeat_the_request() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    let metadata = "m".repeat(50_000);
    client.send(SignalRequest::UpdateMetadata(
        proto::UpdateParticipantMetadata {
            metadata,
            request_id: 7,
            ..Default::default()
        },
    ));
    let refusal = client.until(|response| match response {
        SignalResponse::RequestResponse(refusal) => Some(refusal),
        _ => None,
    });
    assert_eq!(
        (refusal.request_id, refusal.reason()),
        (7, proto::request_response::Reason::NotAllowed)
    );
    assert!(refusal.encoded_len() < 100);
}

#[test]
fn a_client_gets_the_turn_servers_that_are_configured() {
    let app = TestApp::start_with_webrtc_and(|config| {
        config.media.rtc.turn.urls = vec!["turn:turn.example.com:3478".to_owned()];
        config.media.rtc.turn.secret = Some(conclave_model::Secret::new("shared"));
    });
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    let Some(SignalResponse::Join(join)) = client.next() else {
        panic!("the first message answers the join")
    };
    let server = &join.ice_servers[0];
    assert_eq!(server.urls, ["turn:turn.example.com:3478"]);
    let (expiry, name) = server.username.split_once(':').unwrap();
    let sid = &join.participant.as_ref().unwrap().sid;
    let in_twelve_hours = app.clock.now().after(Duration::from_secs(12 * 3_600));
    assert_eq!(
        (expiry.parse(), name),
        (Ok(in_twelve_hours.millis() / 1_000), sid.as_str())
    );
    assert!(!server.credential.is_empty() && server.credential != "shared");
}

#[test]
fn a_client_that_sends_text_is_answered_in_it() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    client.until(|response| matches!(response, SignalResponse::Offer(_)).then_some(()));
    client
        .0
        .send(Message::text(r#"{"pingReq": {"timestamp": "7"}}"#))
        .unwrap();
    client.0.send(Message::text("no request")).unwrap();
    let answer = loop {
        if let Message::Text(text) = client.0.read().unwrap() {
            break serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
    };
    assert_eq!(answer["pongResp"]["lastPingTimestamp"], "7");
}

#[test]
fn the_same_identity_again_replaces_the_first_client() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let path = format!("/rtc{}", query(&app.token("standup", "alice", "host")));
    let mut first = Client::connect(&app, &path).unwrap();
    let _second = Client::connect(&app, &path).unwrap();
    let leave = first.until(|response| {
        if let SignalResponse::Leave(leave) = response {
            Some(leave)
        } else {
            None
        }
    });
    assert_eq!(leave.reason(), proto::DisconnectReason::DuplicateIdentity);
    assert!(first.next().is_none(), "the server closes the websocket");
}

#[test]
fn a_participant_that_is_not_known_cannot_be_resumed_and_is_told_to_join_anew() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let path = format!("/rtc{}&reconnect=1&sid=PA_unknown", query(&token));
    let mut client = Client::connect(&app, &path).unwrap();
    let Some(SignalResponse::Leave(leave)) = client.next() else {
        panic!("a leave")
    };
    assert_eq!(leave.action(), proto::leave_request::Action::Reconnect);
    assert!(client.next().is_none());
}

#[test]
fn a_join_whose_media_never_connects_is_aborted_after_a_minute() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    client.until(|response| matches!(response, SignalResponse::Offer(_)).then_some(()));
    for _ in 0..5 {
        app.advance(Duration::from_secs(10));
        client
            .0
            .send(Message::binary(
                proto::SignalRequest {
                    message: Some(SignalRequest::Ping(1)),
                }
                .encode_to_vec(),
            ))
            .unwrap();
        // Received before the clock advances: a client that is silent for 15 s loses its signalling session.
        client.until(|response| matches!(response, SignalResponse::Pong(_)).then_some(()));
    }
    app.advance(Duration::from_secs(10));
    let leave = client.until(|response| {
        if let SignalResponse::Leave(leave) = response {
            Some(leave)
        } else {
            None
        }
    });
    assert_eq!(leave.reason(), proto::DisconnectReason::JoinFailure);
    eventually(|| app.get("/v1/sessions").send().expect(200)["sessions"] == json!([]));
}

#[test]
fn pages_of_any_origin_may_probe_the_server() {
    let app = TestApp::start_with_webrtc();
    let probe = Request::new("HEAD", format!("{}/", app.api)).send();
    assert_eq!(
        (
            probe.status,
            probe.headers["access-control-allow-origin"].as_str()
        ),
        (200, "*")
    );
    let preflight = Request::new("OPTIONS", format!("{}/rtc/v1/validate", app.api)).send();
    assert_eq!(
        (
            preflight.status,
            preflight.headers["access-control-allow-headers"].as_str()
        ),
        (204, "Authorization")
    );
}

#[test]
fn without_webrtc_there_is_no_signalling() {
    let app = TestApp::start();
    app.get("/rtc/validate")
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
}
