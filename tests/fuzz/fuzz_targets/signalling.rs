//! Signalling: the input is the query of a join and the frames of its client, who is in a room with another client.
//!
//! Nothing panics; after any input, the other client's WebSocket stays open and gets responses.

#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use conclave_fuzz::jwt::{KEY, SECRET};
use conclave_fuzz::{records, seeds};
use conclave_media::embedded::rtc::ConnectionMode;
use conclave_media::embedded::{ConnectRequest, EmbeddedPlane, SignalConnection, SignalFrame};
use conclave_media::token::{Grants, TokenRequest, TokenSigner};
use conclave_media::{Report, ReportReply, ReportSink};
use conclave_model::{Clock, Secret, Timestamp};
use libfuzzer_sys::fuzz_target;
use livekit_protocol as proto;
use prost::Message as _;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;
use tokio::runtime::Runtime;

/// 2026-03-01T12:00:00Z in seconds.
const NOW: i64 = 1_772_366_400;
const ROOM: &str = "prj_5f2a9c01be34.standup";
/// Largest number of frames in an input.
const FRAMES: usize = 32;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
});

fuzz_target!(init: write_seeds(), |data: &[u8]| RUNTIME.block_on(run(data)));

/// A control plane that admits every participant.
struct Admit;

impl ReportSink for Admit {
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply> {
        let admit = |_| {
            let (sender, answer) = tokio::sync::oneshot::channel();
            let _ = sender.send(Ok(()));
            answer
        };
        reports.into_iter().map(admit).collect()
    }
}

async fn run(data: &[u8]) {
    let mut records = records::read(data);
    let query = records.next().unwrap_or_default();
    let query = String::from_utf8_lossy(query);
    let signer = Arc::new(TokenSigner::new(KEY, &Secret::new(SECRET)));
    let clock = Clock::manual(Timestamp::from_millis(NOW * 1_000));
    // Without media workers, which have no effect on signalling frames.
    let plane = EmbeddedPlane::builder(
        clock,
        Arc::clone(&signer),
        "ws://127.0.0.1",
        Arc::new(Admit),
    )
    .build();
    let simple = (ConnectionMode::Dual, "protocol=16");
    let mut alice = connect(&plane, &signer, "alice", simple)
        .await
        .expect("nothing is wrong with this join");
    for mode in [ConnectionMode::Single, ConnectionMode::Dual] {
        let joined = connect(&plane, &signer, "mallory", (mode, &query)).await;
        let joined = if joined.is_none() {
            connect(&plane, &signer, "mallory", simple).await
        } else {
            joined
        };
        let Some(mut mallory) = joined else { continue };
        for frame in records.clone().take(FRAMES) {
            // Closed once the client has left.
            let _ = mallory.frames.send(signal_frame(frame)).await;
            while mallory.replies.try_recv().is_some() {}
        }
        tokio::task::yield_now().await;
    }
    assert!(answers(&mut alice).await, "the other client is answered");
}

/// Connects a client; `None` if it is rejected.
async fn connect(
    plane: &EmbeddedPlane,
    signer: &TokenSigner,
    identity: &str,
    (mode, query): (ConnectionMode, &str),
) -> Option<SignalConnection> {
    let request = TokenRequest {
        room: ROOM.parse().unwrap(),
        identity: identity.parse().unwrap(),
        name: String::new(),
        metadata: String::new(),
        attributes: std::collections::BTreeMap::new(),
        role: None,
        role_change: None,
        revocation: None,
        exchange: None,
        max_kbps: None,
        grants: Grants {
            can_update_own_metadata: true,
            ..Grants::default()
        },
        ttl: Duration::from_secs(600),
        empty_timeout_seconds: 300,
        max_participants: None,
    };
    let token = signer
        .mint(&request, Timestamp::from_millis(NOW * 1_000))
        .unwrap()
        .token;
    let authorization = format!("Bearer {}", token.reveal());
    plane
        .connect(ConnectRequest::new(mode, query, Some(&authorization)).ok()?)
        .await
        .ok()
}

/// Returns whether a ping gets a response.
async fn answers(client: &mut SignalConnection) -> bool {
    let ping = Request::PingReq(proto::Ping {
        timestamp: 7,
        rtt: 0,
    });
    if client
        .frames
        .send(SignalFrame::Binary(frame(ping)))
        .await
        .is_err()
    {
        return false;
    }
    while let Some(reply) = client.replies.recv().await {
        let SignalFrame::Binary(reply) = reply else {
            panic!("the client writes no text")
        };
        let reply = proto::SignalResponse::decode(&*reply).expect("a response");
        if matches!(&reply.message, Some(Response::PongResp(pong)) if pong.last_ping_timestamp == 7)
        {
            return true;
        }
    }
    false
}

/// Returns the frame with these bytes: a text frame if they look like a JSON object.
fn signal_frame(bytes: &[u8]) -> SignalFrame {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.starts_with('{') => SignalFrame::Text(text.to_owned()),
        _ => SignalFrame::Binary(bytes.to_vec()),
    }
}

fn frame(message: Request) -> Vec<u8> {
    proto::SignalRequest {
        message: Some(message),
    }
    .encode_to_vec()
}

fn write_seeds() {
    let description = |id| proto::SessionDescription {
        r#type: "offer".into(),
        sdp: "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n".into(),
        id,
        ..Default::default()
    };
    let track = proto::AddTrackRequest {
        cid: "camera".into(),
        r#type: proto::TrackType::Video.into(),
        source: proto::TrackSource::Camera.into(),
        width: 1280,
        height: 720,
        layers: vec![proto::VideoLayer {
            quality: 2,
            width: 1280,
            height: 720,
            ..Default::default()
        }],
        simulcast_codecs: vec![proto::SimulcastCodec {
            codec: "vp8".into(),
            cid: "camera".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let join = proto::JoinRequest {
        client_info: Some(proto::ClientInfo {
            protocol: 16,
            capabilities: vec![1],
            ..Default::default()
        }),
        connection_settings: Some(proto::ConnectionSettings {
            auto_subscribe: true,
            ..Default::default()
        }),
        add_track_requests: vec![track.clone()],
        publisher_offer: Some(description(1)),
        ..Default::default()
    };
    let wrapped = proto::WrappedJoinRequest {
        compression: 0,
        join_request: join.encode_to_vec(),
    };
    let single = format!(
        "join_request={}",
        URL_SAFE.encode(wrapped.encode_to_vec()).replace('=', "%3D")
    );
    let dual = "protocol=16&auto_subscribe=1&adaptive_stream=0&subscriber_allow_pause=1&client_protocol=1&capabilities=1";
    let subscription = proto::UpdateSubscription {
        track_sids: vec!["TR_1".into()],
        subscribe: true,
        participant_tracks: vec![proto::ParticipantTracks {
            participant_sid: "PA_1".into(),
            track_sids: vec!["TR_2".into()],
        }],
    };
    let permission = proto::SubscriptionPermission {
        all_participants: false,
        track_permissions: vec![proto::TrackPermission {
            participant_identity: "alice".into(),
            track_sids: vec!["TR_1".into()],
            ..Default::default()
        }],
    };
    let settings = proto::UpdateTrackSettings {
        track_sids: vec!["TR_1".into()],
        width: 320,
        height: 180,
        quality: 1,
        ..Default::default()
    };
    let sync = proto::SyncState {
        subscription: Some(subscription.clone()),
        track_sids_disabled: vec!["TR_3".into()],
        datachannel_receive_states: vec![proto::DataChannelReceiveState {
            publisher_sid: "PA_1".into(),
            last_seq: 3,
        }],
        ..Default::default()
    };
    let update = proto::UpdateParticipantMetadata {
        metadata: "m".into(),
        request_id: 3,
        ..Default::default()
    };
    let requests = [
        Request::AddTrack(track),
        Request::Offer(description(2)),
        Request::Answer(description(1)),
        Request::Mute(proto::MuteTrackRequest {
            sid: "TR_1".into(),
            muted: true,
        }),
        Request::Subscription(subscription),
        Request::SubscriptionPermission(permission),
        Request::TrackSetting(settings),
        Request::SyncState(sync),
        Request::UpdateMetadata(update),
        Request::PingReq(proto::Ping {
            timestamp: 1,
            rtt: 2,
        }),
        Request::Leave(proto::LeaveRequest::default()),
    ];
    let text = |request: &Request| {
        serde_json::to_vec(&proto::SignalRequest {
            message: Some(request.clone()),
        })
        .unwrap()
    };
    let texts: Vec<_> = requests.iter().map(text).collect();
    let frames: Vec<_> = requests.into_iter().map(frame).chain(texts).collect();
    let inputs = [&*single, dual].map(|query| {
        let query = query.as_bytes().to_vec();
        records::write(std::iter::once(&query).chain(&frames))
    });
    let each = frames
        .iter()
        .map(|frame| records::write([&dual.as_bytes().to_vec(), frame]));
    seeds::write("signalling", inputs.into_iter().chain(each));
}
