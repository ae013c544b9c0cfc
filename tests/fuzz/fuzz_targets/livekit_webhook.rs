//! LiveKit's webhooks: each line is a body with LiveKit's signature; they arrive in the order of the lines.
//!
//! A body with another signature is rejected. A report concerns its event's room, or the room of an earlier event that had to wait
//! for a join. A repeated event reports nothing.

#![no_main]

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_fuzz::jwt::{KEY, SECRET, sign_hs256};
use conclave_fuzz::{json, seeds};
use conclave_media::livekit::{LivekitPlane, LivekitSettings, WebhookOutcome};
use conclave_media::token::TokenSigner;
use conclave_media::{Report, ReportError, ReportReply, ReportSink};
use conclave_model::{Clock, LeaseCheck, Secret, Timestamp};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;

/// 2026-03-01T12:00:00Z in seconds.
const NOW: i64 = 1_772_366_400;

static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let words = "event id createdAt room name participant track egressInfo ingressInfo roomName sid identity state kind \
                 metadata attributes joinedAt joinedAtMs isPublisher disconnectReason tracks type muted width height simulcast \
                 source mimeType codecs layers egressId status error errorCode startedAt endedAt ingressId inputType reusable \
                 publishKbps publishMaxKbps participant_joined participant_left participant_connection_aborted \
                 track_published track_unpublished egress_started egress_updated egress_ended ingress_started ingress_ended \
                 room_started room_finished publish_limit_exceeded ACTIVE DISCONNECTED STANDARD AGENT AUDIO VIDEO CAMERA \
                 MICROPHONE CLIENT_INITIATED SIGNAL_CLOSE EGRESS_ACTIVE EGRESS_COMPLETE EGRESS_FAILED ENDPOINT_PUBLISHING \
                 RTMP_INPUT svc.role host prj_5f2a9c01be34.standup alice PA_1 TR_1 EG_1 IN_1 EV_1 1772366400";
    words.split_whitespace().map(str::to_owned).collect()
});

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
});

fuzz_target!(init: write_seeds(), |data: &[u8]| run(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    json::mutate(data, size, max_size, seed, &WORDS, |_| true)
});

/// Records the reports. Every room is unknown, so that the plane makes no calls.
#[derive(Default)]
struct Sink(Mutex<Vec<Report>>);

impl ReportSink for Sink {
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply> {
        let refuse = |report| {
            let (sender, answer) = tokio::sync::oneshot::channel();
            let _ = sender.send(Err(ReportError::UnknownRoom));
            self.0.lock().unwrap().push(report);
            answer
        };
        reports.into_iter().map(refuse).collect()
    }
}

/// A LiveKit plane with only its webhook intake in use, and its reports.
struct Target {
    plane: LivekitPlane,
    sink: Arc<Sink>,
}

impl Target {
    fn new() -> Self {
        let settings = LivekitSettings {
            url: "http://127.0.0.1:9".into(),
            timeout: Duration::from_millis(1),
            recordings: PathBuf::from("/recordings"),
            lease: LeaseCheck::not_needed(),
        };
        let clock = Clock::manual(Timestamp::from_millis(NOW * 1_000));
        let signer = Arc::new(TokenSigner::new(KEY, &Secret::new(SECRET)));
        let sink = Arc::new(Sink::default());
        let plane = LivekitPlane::new(
            settings,
            signer,
            clock,
            Arc::clone(&sink) as Arc<dyn ReportSink>,
        );
        Self { plane, sink }
    }

    /// Delivers a body with another body's signature, and returns the outcome and the reports.
    fn deliver(&self, body: &[u8], signed: &[u8]) -> (WebhookOutcome, Vec<Report>) {
        let sha256 = STANDARD.encode(Sha256::digest(signed));
        let claims = format!(
            r#"{{"iss":"{KEY}","exp":{},"sha256":"{sha256}"}}"#,
            NOW + 60
        );
        let signature = self
            .plane
            .verify_webhook(&sign_hs256(claims.as_bytes()))
            .expect("it is signed");
        let outcome = RUNTIME.block_on(self.plane.handle_webhook(&signature, body));
        (outcome, std::mem::take(&mut *self.sink.0.lock().unwrap()))
    }
}

fn run(data: &[u8]) {
    assert!(
        std::str::from_utf8(data)
            .is_ok_and(|text| Target::new().plane.verify_webhook(text).is_none())
            || !data.is_ascii()
    );
    let (target, mut rooms) = (Target::new(), Vec::new());
    for body in data.split(|byte| *byte == b'\n').take(12) {
        let forged = [body, b" "].concat();
        assert_eq!(
            target.deliver(&forged, body),
            (WebhookOutcome::Unsigned, Vec::new())
        );
        let (outcome, reports) = target.deliver(body, body);
        let event: Option<Value> = serde_json::from_slice(body).ok();
        rooms.extend(event.as_ref().and_then(room));
        match outcome {
            WebhookOutcome::Accepted => {
                assert!(
                    reports
                        .iter()
                        .all(|report| rooms.iter().any(|room| *room == report.room.as_str())),
                    "{reports:?}"
                );
                check_repetition(&event.expect("JSON was accepted"), &target, body);
            }
            WebhookOutcome::Ignored | WebhookOutcome::Malformed => assert_eq!(reports, []),
            WebhookOutcome::Unsigned | WebhookOutcome::Unavailable => panic!("{outcome:?}"),
        }
    }
}

/// Returns the name of an event's room.
fn room(event: &Value) -> Option<String> {
    let rooms = [
        "/room/name",
        "/egressInfo/roomName",
        "/ingressInfo/roomName",
    ];
    let mut names = rooms
        .iter()
        .filter_map(|at| event.pointer(at)?.as_str())
        .filter(|name| !name.is_empty());
    names.next().map(str::to_owned)
}

fn check_repetition(event: &Value, target: &Target, body: &[u8]) {
    if event["id"].as_str().is_some_and(|id| !id.is_empty()) {
        assert_eq!(
            target.deliver(body, body),
            (WebhookOutcome::Accepted, Vec::new()),
            "a repetition"
        );
    }
}

fn write_seeds() {
    const ROOM: &str = r#""room":{"name":"prj_5f2a9c01be34.standup"},"createdAt":"1772366400""#;
    const WHO: &str = r#""participant":{"sid":"PA_1","identity":"alice","name":"A","state":"ACTIVE","joinedAt":"1772366399","joinedAtMs":"1772366399500","attributes":{"svc.role":"host"}"#;
    const TRACK: &str = r#"{"sid":"TR_1","type":"VIDEO","source":"CAMERA","mimeType":"video/VP8","width":640,"height":360,"simulcast":true,"codecs":[{"mimeType":"video/VP8","layers":[{},{}]}]}"#;
    let join = format!(r#"{{"event":"participant_joined","id":"EV_1",{ROOM},{WHO}}}}}"#);
    let joined_with_track = format!(
        r#"{{"event":"participant_joined","id":"EV_5",{ROOM},{WHO},"tracks":[{TRACK}]}}}}"#
    );
    let track =
        format!(r#"{{"event":"track_published","id":"EV_2",{ROOM},{WHO}}},"track":{TRACK}}}"#);
    let unpublished = track
        .replace("published", "unpublished")
        .replace("EV_2", "EV_3");
    let left = format!(
        r#"{{"event":"participant_left","id":"EV_4",{ROOM},{WHO},"disconnectReason":"SIGNAL_CLOSE"}}}}"#
    );
    let aborted = left.replace("participant_left", "participant_connection_aborted");
    let egress = r#"{"event":"egress_ended","id":"EV_6","createdAt":"1772366400","egressInfo":{"egressId":"EG_1","roomName":"prj_5f2a9c01be34.standup","status":"EGRESS_FAILED","error":"e","errorCode":500,"startedAt":"1772366300000000000","endedAt":"1772366400000000000"}}"#;
    let ingress = r#"{"event":"ingress_started","id":"EV_7","createdAt":"1772366400","ingressInfo":{"ingressId":"IN_1","roomName":"prj_5f2a9c01be34.standup","inputType":"RTMP_INPUT","reusable":true,"state":{"status":"ENDPOINT_PUBLISHING","error":""}}}"#;
    let all = [
        join.as_str(),
        &joined_with_track,
        &track,
        &unpublished,
        &left,
        &aborted,
        egress,
        ingress,
    ];
    let sequences = [
        [&*join, &*track, &*unpublished, &*left].join("\n"),
        [&*left, &*track, &*join].join("\n"),
    ];
    seeds::write(
        "livekit_webhook",
        all.map(str::to_owned).into_iter().chain(sequences),
    );
}
