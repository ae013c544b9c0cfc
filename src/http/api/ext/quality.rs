//! Quality of sessions, as the embedded media plane measures it.

use conclave_db::{MeasuredSession, StoredSample};
use conclave_model::page::Page;
use conclave_model::quality::{
    ClientProgram, DirectionSample, DirectionSummary, MediaConnection, QualitySample,
    QualitySummary, Reconnects, loss,
};
use conclave_model::usage::Day;
use conclave_model::{ErrorCode, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, Listed};
use crate::http::api::spec::Method;
use crate::http::api::v1::sessions::{SessionJson, SessionPath};

/// Day of a list of sessions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct WorstSessionsQuery {
    /// Day of the sessions' last sample, YYYY-MM-DD; default today in UTC
    #[param(inline)]
    day: Option<Day>,
}

/// A session's quality.
#[derive(Serialize, ToSchema)]
pub struct SessionQuality {
    pub session_id: SessionId,
    /// Up to a minute old while the session is open. Absent if nothing was measured: with LiveKit as the media plane, for participants of
    /// the sandbox, and in a session's first seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub summary: Option<SessionQualitySummary>,
}

/// The sum of a session's samples.
#[derive(Serialize, ToSchema)]
pub struct SessionQualitySummary {
    /// Measured time.
    pub measured_seconds: f64,
    /// Mean estimated opinion score, 1 to 4.5, from loss and delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub score: Option<f64>,
    /// Lowest score of a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lowest_score: Option<f64>,
    /// Mean round-trip time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub round_trip_ms: Option<u32>,
    /// Highest round-trip time of a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_round_trip_ms: Option<u32>,
    /// `udp`, `tcp` or `turn` (this server's TURN server); absent for RTMP encoders.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub connection: Option<MediaConnection>,
    /// Times without a packet from the client for 10 s.
    pub interruptions: u32,
    pub reconnects: ReconnectCounts,
    /// Why the media failed: `negotiation`, `answer_timeout`, `silent`, `closed`, `capacity`, `too_many_commands` or `channels`. Absent if
    /// it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub failure: Option<String>,
    /// The client's program, as it states it. Absent if it states none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub client: Option<ClientProgramJson>,
    /// Media from the client.
    pub sent: DirectionQuality,
    /// Media to the client.
    pub received: DirectionQuality,
}

/// Resumes of a session by its client.
#[derive(Serialize, ToSchema)]
pub struct ReconnectCounts {
    /// All, including those without a stated reason.
    pub total: u32,
    /// The WebSocket was lost.
    pub signal: u32,
    /// The connection for publishing failed.
    pub publisher: u32,
    /// The connection for receiving failed.
    pub subscriber: u32,
    /// The client changed its way to the server.
    pub candidate: u32,
}

/// The client's program. A text is empty if the client does not state it.
#[derive(Serialize, ToSchema)]
#[schema(as = ClientProgram)]
pub struct ClientProgramJson {
    /// Such as `js`.
    pub sdk: String,
    /// The SDK's version.
    pub version: String,
    /// With its version.
    pub browser: String,
    pub os: String,
}

/// A session's media in one direction.
#[derive(Serialize, ToSchema)]
pub struct DirectionQuality {
    pub packets: u64,
    /// Share of lost packets, 0 to 1.
    pub loss: f64,
    /// Mean of the samples' jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub jitter_ms: Option<u32>,
    /// Mean bitrate.
    pub kbps: u64,
    /// Width of the largest video; 0 without video, or if its publisher does not state it.
    pub width: u32,
    /// Height of the largest video.
    pub height: u32,
    /// Mean frames per second of the largest video.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub frame_rate: Option<u32>,
    /// Freezes of videos from cameras.
    pub freezes: u32,
    /// Total length of the freezes.
    pub frozen_ms: u64,
    /// Changes of the forwarded simulcast or SVC layer.
    pub layer_switches: u32,
    /// In the order of first use.
    pub codecs: Vec<String>,
}

/// Measurements of a session in ten seconds.
#[derive(Serialize, ToSchema)]
pub struct SessionQualitySample {
    /// End of the interval.
    pub at: Timestamp,
    /// Length of the interval.
    pub seconds: f64,
    /// Mean estimated opinion score, 1 to 4.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub score: Option<f64>,
    /// Mean round-trip time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub round_trip_ms: Option<u32>,
    /// Estimated bandwidth to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub estimate_kbps: Option<u32>,
    /// `udp`, `tcp` or `turn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub connection: Option<MediaConnection>,
    /// Times without a packet from the client for 10 s.
    pub interruptions: u32,
    /// Resumes of the session by its client.
    pub reconnects: u32,
    /// Media from the client.
    pub sent: DirectionQualitySample,
    /// Media to the client.
    pub received: DirectionQualitySample,
}

/// Measurements of a session's media in one direction, in ten seconds.
#[derive(Serialize, ToSchema)]
pub struct DirectionQualitySample {
    pub packets: u32,
    /// Share of lost packets, 0 to 1.
    pub loss: f64,
    /// Largest jitter of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub jitter_ms: Option<u32>,
    pub kbps: u32,
    /// Width of the largest video; 0 without video, or if its publisher does not state it.
    pub width: u32,
    /// Height of the largest video.
    pub height: u32,
    /// Frames per second of the largest video.
    pub frame_rate: u32,
    pub freezes: u32,
    pub frozen_ms: u32,
    pub layer_switches: u32,
}

/// A session with the sum of its samples.
#[derive(Serialize, ToSchema)]
#[schema(as = MeasuredSession)]
pub struct MeasuredSessionJson {
    #[serde(flatten)]
    pub session: SessionJson,
    pub quality: SessionQualitySummary,
}

impl Listed for SessionQualitySample {
    const COLLECTION: &'static str = "samples";
}

impl Listed for MeasuredSessionJson {
    const COLLECTION: &'static str = "sessions";
}

/// Converts hundredths.
fn hundredths(number: u32) -> f64 {
    f64::from(number) / 100.0
}

/// Converts milliseconds to seconds.
fn seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}

/// Rounds a share to four digits: more are noise.
fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

impl From<QualitySummary> for SessionQualitySummary {
    fn from(summary: QualitySummary) -> Self {
        let QualitySummary {
            millis,
            score,
            lowest_score,
            round_trip_ms,
            connection,
            interruptions,
            reconnects,
            failure,
            client,
            sent,
            received,
        } = summary;
        Self {
            measured_seconds: seconds(millis),
            score: score.mean().map(hundredths),
            lowest_score: lowest_score.map(hundredths),
            round_trip_ms: round_trip_ms.mean(),
            max_round_trip_ms: round_trip_ms.mean().map(|_| round_trip_ms.max),
            connection,
            interruptions,
            reconnects: reconnects.into(),
            failure,
            client: client.map(ClientProgramJson::from),
            sent: DirectionQuality::new(sent, millis, false),
            received: DirectionQuality::new(received, millis, true),
        }
    }
}

impl From<Reconnects> for ReconnectCounts {
    fn from(reconnects: Reconnects) -> Self {
        Self {
            total: reconnects.total,
            signal: reconnects.signal,
            publisher: reconnects.publisher,
            subscriber: reconnects.subscriber,
            candidate: reconnects.candidate,
        }
    }
}

impl From<ClientProgram> for ClientProgramJson {
    fn from(client: ClientProgram) -> Self {
        Self {
            sdk: client.sdk,
            version: client.version,
            browser: client.browser,
            os: client.os,
        }
    }
}

impl DirectionQuality {
    fn new(summary: DirectionSummary, millis: u64, is_to_client: bool) -> Self {
        Self {
            packets: summary.packets,
            loss: rounded(loss(summary.packets, summary.lost, is_to_client)),
            jitter_ms: summary.jitter_ms.mean(),
            kbps: summary.kbps(millis),
            width: summary.width,
            height: summary.height,
            frame_rate: summary.frame_rate.mean(),
            freezes: summary.freezes,
            frozen_ms: summary.frozen_ms,
            layer_switches: summary.switches,
            codecs: summary.codecs,
        }
    }
}

impl DirectionQualitySample {
    fn new(sample: &DirectionSample, is_to_client: bool) -> Self {
        Self {
            packets: sample.packets,
            loss: rounded(loss(
                sample.packets.into(),
                sample.lost.into(),
                is_to_client,
            )),
            jitter_ms: sample.jitter_ms,
            kbps: sample.kbps,
            width: sample.width,
            height: sample.height,
            frame_rate: sample.frame_rate,
            freezes: sample.freezes,
            frozen_ms: sample.frozen_ms,
            layer_switches: sample.switches,
        }
    }
}

impl From<StoredSample> for SessionQualitySample {
    fn from(StoredSample { at, sample }: StoredSample) -> Self {
        let QualitySample {
            millis,
            score,
            round_trip_ms,
            estimate_kbps,
            connection,
            interruptions,
            reconnects,
            sent,
            received,
        } = sample;
        Self {
            at,
            seconds: seconds(millis.into()),
            score: score.map(hundredths),
            round_trip_ms,
            estimate_kbps,
            connection,
            interruptions,
            reconnects,
            sent: DirectionQualitySample::new(&sent, false),
            received: DirectionQualitySample::new(&received, true),
        }
    }
}

impl MeasuredSessionJson {
    fn new(measured: MeasuredSession, now: Timestamp) -> Self {
        Self {
            session: SessionJson::new(measured.session, now),
            quality: measured.summary.into(),
        }
    }
}

fn summary_example() -> Value {
    json!({
        "measured_seconds": 1800.1, "score": 4.31, "lowest_score": 3.02, "round_trip_ms": 48, "max_round_trip_ms": 212,
        "connection": "udp", "interruptions": 0,
        "reconnects": {"total": 1, "signal": 1, "publisher": 0, "subscriber": 0, "candidate": 0},
        "client": {"sdk": "js", "version": "2.15.14", "browser": "chrome 141.0", "os": "macos"},
        "sent": {
            "packets": 415_800, "loss": 0.0017, "jitter_ms": 6, "kbps": 1740, "width": 1280, "height": 720,
            "frame_rate": 30, "freezes": 0, "frozen_ms": 0, "layer_switches": 0, "codecs": ["VP8", "Opus"]
        },
        "received": {
            "packets": 1_101_600, "loss": 0.0051, "jitter_ms": 9, "kbps": 4410, "width": 1280, "height": 720,
            "frame_rate": 29, "freezes": 2, "frozen_ms": 812, "layer_switches": 7, "codecs": ["VP8", "Opus"]
        }
    })
}

fn example() -> Value {
    json!({
        "session_id": "0191d2c4-9c11-7e02-9d3b-58a1c07be4f0",
        "summary": summary_example()
    })
}

fn sample_example() -> Value {
    json!({
        "at": "2026-01-31T12:30:05.120Z", "seconds": 10.021, "score": 4.31, "round_trip_ms": 48, "estimate_kbps": 5400,
        "connection": "udp", "interruptions": 0, "reconnects": 0,
        "sent": {
            "packets": 2310, "loss": 0.0017, "jitter_ms": 6, "kbps": 1740, "width": 1280, "height": 720,
            "frame_rate": 30, "freezes": 0, "frozen_ms": 0, "layer_switches": 0
        },
        "received": {
            "packets": 6120, "loss": 0.0051, "jitter_ms": 9, "kbps": 4410, "width": 1280, "height": 720,
            "frame_rate": 29, "freezes": 1, "frozen_ms": 412, "layer_switches": 2
        }
    })
}

fn worst_example() -> Value {
    json!({
        "id": "0191d2c4-9c11-7e02-9d3b-58a1c07be4f0", "room": "standup",
        "namespaced_room": "prj_5f2a9c01be34.standup", "participant_identity": "alice",
        "participant_sid": "PA_8fK2mQ0aLx7c", "role": "host", "joined_at": "2026-01-31T12:00:05.120Z",
        "left_at": "2026-01-31T12:30:05.120Z", "duration_seconds": 1800, "track_count": 0,
        "quality": summary_example()
    })
}

/// Returns the operations that read the quality of sessions.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(
            Method::Get,
            "/ext/v1/sessions/worst",
            "list_worst_sessions",
            list_worst,
        )
        .about(
            "sessions",
            "List a day's measured sessions, lowest mean score first",
        )
        .responds(worst_example())
        .build(),
        operation(
            Method::Get,
            "/ext/v1/sessions/{id}/quality",
            "get_session_quality",
            get,
        )
        .about("sessions", "Read the summary of a session's quality")
        .responds(example())
        .errors(&[ErrorCode::SessionNotFound])
        .build(),
        operation(
            Method::Get,
            "/ext/v1/sessions/{id}/quality/samples",
            "list_session_quality_samples",
            list_samples,
        )
        .about(
            "sessions",
            "List a session's quality samples, one for each ten seconds while connected, newest first",
        )
        .responds(sample_example())
        .errors(&[ErrorCode::SessionNotFound])
        .build(),
    ]
}

pub async fn list_worst(
    context: RequestContext,
    input: Input<NoParams, Paged<WorstSessionsQuery>, NoBody>,
) -> Result<Page<MeasuredSessionJson>> {
    let Paged { page, filter } = input.query;
    let now = context.state.clock.now();
    let day = filter.day.unwrap_or_else(|| Day::from(now));
    let worst = context
        .state
        .store
        .quality()
        .worst(context.project(), day, page)
        .await?;
    Ok(worst.map(|measured| MeasuredSessionJson::new(measured, now)))
}

pub async fn get(
    context: RequestContext,
    input: Input<SessionPath, NoParams, NoBody>,
) -> Result<Json<SessionQuality>> {
    let session_id = input.path.id();
    let summary = context
        .state
        .store
        .quality()
        .summary(context.project(), session_id)
        .await?;
    Ok(Json(SessionQuality {
        session_id,
        summary: summary.map(SessionQualitySummary::from),
    }))
}

pub async fn list_samples(
    context: RequestContext,
    input: Input<SessionPath, Paged<NoParams>, NoBody>,
) -> Result<Page<SessionQualitySample>> {
    let samples = context
        .state
        .store
        .quality()
        .samples(context.project(), input.path.id(), input.query.page)
        .await?;
    Ok(samples.map(SessionQualitySample::from))
}
