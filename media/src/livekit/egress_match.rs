//! Recognition of egresses that a request has started although its answer was lost.
//!
//! LiveKit gives an egress no name of the client's, but lists each with its request. LiveKit removes secrets from it, so what
//! is compared is what is recorded, and where it goes without stream keys.

use std::time::Duration;

use conclave_model::Timestamp;
use livekit_protocol as proto;
use proto::egress_info::Request;

use super::convert::nanos;

/// How far LiveKit's clock may be behind this server's.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

/// What a request records or broadcasts, and where to.
#[derive(Debug, PartialEq, Eq)]
struct Outline<'a> {
    kind: &'static str,
    /// The identity or the track; empty for a whole room.
    subject: &'a str,
    files: Vec<&'a str>,
    /// The urls without their last segment, which holds the stream key.
    streams: Vec<&'a str>,
}

/// Returns whether a listed egress may have been started by `request` at `since` or later. A LiveKit that does not list requests
/// leaves only the time.
pub(super) fn is_started_by(listed: &proto::EgressInfo, request: &Request, since: Timestamp) -> bool {
    let earliest = since.before(CLOCK_DIFFERENCE);
    let is_recent = nanos(listed.started_at).is_none_or(|at| at >= earliest);
    is_recent
        && listed
            .request
            .as_ref()
            .is_none_or(|found| outline(found).is_some_and(|found| Some(found) == outline(request)))
}

/// Returns what this server's kinds of requests are compared by; `None` for other kinds.
fn outline(request: &Request) -> Option<Outline<'_>> {
    match request {
        Request::RoomComposite(request) => Some(encoded("room", "", &request.file_outputs, &request.stream_outputs)),
        Request::Participant(request) => {
            Some(encoded("participant", &request.identity, &request.file_outputs, &request.stream_outputs))
        }
        Request::Track(request) => {
            let file = match &request.output {
                Some(proto::track_egress_request::Output::File(file)) => Some(file.filepath.as_str()),
                _ => None,
            };
            let files = file.into_iter().collect();
            Some(Outline { kind: "track", subject: &request.track_id, files, streams: Vec::new() })
        }
        _ => None,
    }
}

fn encoded<'a>(
    kind: &'static str,
    subject: &'a str,
    files: &'a [proto::EncodedFileOutput],
    streams: &'a [proto::StreamOutput],
) -> Outline<'a> {
    let urls = streams.iter().flat_map(|output| &output.urls);
    Outline {
        kind,
        subject,
        files: files.iter().map(|file| file.filepath.as_str()).collect(),
        streams: urls.map(|url| url.rsplit_once('/').map_or(url.as_str(), |(base, _)| base)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(file: &str, url: &str) -> Request {
        let filepath = file.to_owned();
        let streams = proto::StreamOutput { urls: vec![url.to_owned()], ..Default::default() };
        Request::RoomComposite(proto::RoomCompositeEgressRequest {
            file_outputs: vec![proto::EncodedFileOutput { filepath, ..Default::default() }],
            stream_outputs: vec![streams],
            ..Default::default()
        })
    }

    fn started(at: i64, request: Option<Request>) -> proto::EgressInfo {
        proto::EgressInfo { started_at: at * 1_000_000_000, request, ..Default::default() }
    }

    #[test]
    fn an_egress_is_recognized_by_its_file_and_its_streams_without_their_keys() {
        let (request, since) = (room("a.mp4", "rtmp://host/app/key"), Timestamp::from_millis(1_000_000));
        let is_same = |listed: proto::EgressInfo| is_started_by(&listed, &request, since);
        assert!(is_same(started(1_000, Some(room("a.mp4", "rtmp://host/app/{k...y}")))));
        assert!(is_same(started(941, Some(request.clone()))), "LiveKit's clock is behind");
        assert!(!is_same(started(939, Some(request.clone()))), "it was started before");
        assert!(!is_same(started(1_000, Some(room("b.mp4", "rtmp://host/app/key")))));
        assert!(!is_same(started(1_000, Some(room("a.mp4", "rtmp://host/other/key")))));
        assert!(!is_same(started(1_000, Some(Request::Web(proto::WebEgressRequest::default())))));
        assert!(is_same(started(1_000, None)));
    }
}
