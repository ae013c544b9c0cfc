//! Egress requests: conversion of a plan into LiveKit's call, and recognition of an egress that was started although
//! the reply was lost.
//!
//! A client cannot choose an egress's name, but LiveKit lists each egress with its request, from which it removes
//! secrets. So the comparison uses the recorded subject and the destination: a file's path without its storage's
//! directory or prefix, and URLs without stream keys.

use std::path::Path;
use std::time::Duration;

use conclave_model::destination::{AzureConfig, GcpConfig, RecordingConfig, S3Config};
use conclave_model::egress::{CompositeMedia, EgressOutput, EgressPlan, EgressSource, Layout};
use conclave_model::filepath::FilePath;
use conclave_model::rtmp::RtmpUrl;
use conclave_model::{NamespacedRoom, Timestamp};
use livekit_protocol as proto;
use proto::egress_info::Request;
use proto::{direct_file_output, encoded_file_output};

use crate::livekit::convert::nanos;
use crate::livekit::twirp::{self, Call};
use crate::port::MediaError;

/// Storage, in a form that converts to both of LiveKit's file outputs.
enum Storage {
    Local,
    S3(Box<proto::S3Upload>),
    Gcp(proto::GcpUpload),
    Azure(proto::AzureBlobUpload),
}

/// Returns the call that starts an egress.
pub(super) fn start_call(request: &Request) -> Result<Call<proto::EgressInfo>, MediaError> {
    match request {
        Request::RoomComposite(request) => Ok(twirp::start_room_composite(request)),
        Request::Participant(request) => Ok(twirp::start_participant(request)),
        Request::Track(request) => Ok(twirp::start_track(request)),
        // Kinds that `to_proto` does not produce: web and track composite egresses.
        _ => Err(MediaError::Refused(
            "this kind of egress is not supported".into(),
        )),
    }
}

/// Converts a plan. `storage` belongs to its destination; without one, files are written to `recordings`, the directory
/// of local recordings.
///
/// # Errors
/// `Refused` for a broadcast of a single track, which LiveKit does not support.
pub(super) fn to_proto(
    plan: &EgressPlan,
    storage: Option<&RecordingConfig>,
    recordings: &Path,
) -> Result<Request, MediaError> {
    let room_name = plan.room.to_string();
    match (&plan.source, &plan.output) {
        (EgressSource::RoomComposite { layout, media }, output) => {
            let (file_outputs, stream_outputs) = outputs(&plan.room, output, storage, recordings);
            Ok(Request::RoomComposite(proto::RoomCompositeEgressRequest {
                room_name,
                layout: layout_name(*layout).into(),
                audio_only: *media == CompositeMedia::AudioOnly,
                video_only: *media == CompositeMedia::VideoOnly,
                file_outputs,
                stream_outputs,
                ..Default::default()
            }))
        }
        (EgressSource::Participant(identity), output) => {
            let (file_outputs, stream_outputs) = outputs(&plan.room, output, storage, recordings);
            Ok(Request::Participant(proto::ParticipantEgressRequest {
                room_name,
                identity: identity.to_string(),
                file_outputs,
                stream_outputs,
                ..Default::default()
            }))
        }
        // No encoder runs, so layout and media options do not apply.
        (EgressSource::Track(track), EgressOutput::File { filepath, .. }) => {
            let file = direct_file(&plan.room, filepath, storage, recordings);
            Ok(Request::Track(proto::TrackEgressRequest {
                room_name,
                track_id: track.to_string(),
                output: Some(proto::track_egress_request::Output::File(file)),
                ..Default::default()
            }))
        }
        (EgressSource::Track(_), EgressOutput::Streams(_)) => Err(MediaError::Refused(
            "LiveKit does not send a single track to RTMP receivers".into(),
        )),
    }
}

fn outputs(
    room: &NamespacedRoom,
    output: &EgressOutput,
    storage: Option<&RecordingConfig>,
    recordings: &Path,
) -> (Vec<proto::EncodedFileOutput>, Vec<proto::StreamOutput>) {
    match output {
        EgressOutput::File { filepath, .. } => (
            vec![encoded_file(room, filepath, storage, recordings)],
            Vec::new(),
        ),
        EgressOutput::Streams(urls) => (Vec::new(), vec![stream_output(urls)]),
    }
}

/// Returns a track egress's output, which contains the track without re-encoding.
fn direct_file(
    room: &NamespacedRoom,
    filepath: &FilePath,
    destination: Option<&RecordingConfig>,
    recordings: &Path,
) -> proto::DirectFileOutput {
    let (filepath, storage) = file_location(room, filepath, destination, recordings);
    let output = match storage {
        Storage::Local => None,
        Storage::S3(s3) => Some(direct_file_output::Output::S3(*s3)),
        Storage::Gcp(gcp) => Some(direct_file_output::Output::Gcp(gcp)),
        Storage::Azure(azure) => Some(direct_file_output::Output::Azure(azure)),
    };
    // A manifest would be a second file next to the requested one.
    proto::DirectFileOutput {
        filepath,
        disable_manifest: true,
        output,
    }
}

/// Returns the output of the other egresses, which encode the file.
fn encoded_file(
    room: &NamespacedRoom,
    filepath: &FilePath,
    destination: Option<&RecordingConfig>,
    recordings: &Path,
) -> proto::EncodedFileOutput {
    let (filepath, storage) = file_location(room, filepath, destination, recordings);
    let output = match storage {
        Storage::Local => None,
        Storage::S3(s3) => Some(encoded_file_output::Output::S3(*s3)),
        Storage::Gcp(gcp) => Some(encoded_file_output::Output::Gcp(gcp)),
        Storage::Azure(azure) => Some(encoded_file_output::Output::Azure(azure)),
    };
    proto::EncodedFileOutput {
        filepath,
        // A manifest would be a second file, as for a track.
        disable_manifest: true,
        output,
        ..Default::default()
    }
}

/// Returns a file's full path and its storage.
fn file_location(
    room: &NamespacedRoom,
    filepath: &FilePath,
    destination: Option<&RecordingConfig>,
    recordings: &Path,
) -> (String, Storage) {
    match destination {
        None => {
            // Local recordings have a directory for each project, so that projects cannot overwrite each other's files.
            let directory = recordings.join(room.split().0.as_str());
            (
                directory.join(filepath.as_str()).display().to_string(),
                Storage::Local,
            )
        }
        // The storage belongs to one project, so its object names need no project directory.
        Some(config) => {
            let storage = match config {
                RecordingConfig::S3(s3) => Storage::S3(Box::new(s3_upload(s3))),
                RecordingConfig::Gcp(gcp) => Storage::Gcp(gcp_upload(gcp)),
                RecordingConfig::Azure(azure) => Storage::Azure(azure_upload(azure)),
            };
            (config.object_name(filepath), storage)
        }
    }
}

const fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Speaker => "speaker",
        Layout::Grid => "grid",
    }
}

fn stream_output(urls: &[RtmpUrl]) -> proto::StreamOutput {
    let urls = urls.iter().map(|url| url.reveal().to_owned()).collect();
    proto::StreamOutput {
        protocol: proto::StreamProtocol::Rtmp as i32,
        urls,
    }
}

fn s3_upload(s3: &S3Config) -> proto::S3Upload {
    proto::S3Upload {
        access_key: s3.access_key.as_ref().to_owned(),
        secret: s3.secret.reveal().to_owned(),
        session_token: s3
            .session_token
            .as_ref()
            // Only temporary credentials have a session token.
            .map(|token| token.reveal().to_owned())
            .unwrap_or_default(),
        region: s3
            .region
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        endpoint: s3.endpoint.clone().unwrap_or_default(),
        bucket: s3.bucket.to_string(),
        // Some S3-compatible servers need path style.
        force_path_style: s3.force_path_style.unwrap_or_default(),
        ..Default::default()
    }
}

fn gcp_upload(gcp: &GcpConfig) -> proto::GcpUpload {
    proto::GcpUpload {
        credentials: gcp.credentials.reveal().to_owned(),
        bucket: gcp.bucket.to_string(),
        ..Default::default()
    }
}

fn azure_upload(azure: &AzureConfig) -> proto::AzureBlobUpload {
    proto::AzureBlobUpload {
        account_name: azure.account_name.to_string(),
        account_key: azure.account_key.reveal().to_owned(),
        container_name: azure.container.to_string(),
    }
}

/// Maximum time by which LiveKit's clock may be behind this server's.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

/// Subject and destination of a listed request.
struct Outline<'a> {
    subject: Subject<'a>,
    files: Vec<&'a str>,
    /// URLs without their last segment, which contains the stream key.
    streams: Vec<&'a str>,
}

#[derive(PartialEq, Eq)]
enum Subject<'a> {
    Room,
    Participant(&'a str),
    Track(&'a str),
}

/// Returns whether a listed egress may have been started for this plan at `since` or later. If LiveKit does not list
/// requests, only the time is compared.
pub(super) fn is_started_by(
    listed: &proto::EgressInfo,
    plan: &EgressPlan,
    since: Timestamp,
) -> bool {
    let earliest = since.before(CLOCK_DIFFERENCE);
    // An egress that is still starting has no start time yet.
    let is_recent = nanos(listed.started_at).is_none_or(|at| at >= earliest);
    is_recent
        && listed
            .request
            .as_ref()
            .is_none_or(|found| outline(found).is_some_and(|found| found.is_planned_by(plan)))
}

impl Outline<'_> {
    fn is_planned_by(&self, plan: &EgressPlan) -> bool {
        let subject = match &plan.source {
            EgressSource::RoomComposite { .. } => Subject::Room,
            EgressSource::Participant(identity) => Subject::Participant(identity.as_str()),
            EgressSource::Track(track) => Subject::Track(track.as_str()),
        };
        let goes_there = match &plan.output {
            // Paths are compared without the storage's directory or prefix.
            EgressOutput::File { filepath, .. } => {
                self.streams.is_empty()
                    // A plan has exactly one file, so another client started an egress with more.
                    && matches!(self.files[..], [file] if ends_with(file, filepath))
            }
            EgressOutput::Streams(urls) => {
                self.files.is_empty()
                    && urls
                        .iter()
                        .map(|url| without_key(url.reveal()))
                        // In order: LiveKit lists a request's URLs as they were sent.
                        .eq(self.streams.iter().copied())
            }
        };
        self.subject == subject && goes_there
    }
}

/// Returns whether a path ends with another, possibly after a directory or prefix.
fn ends_with(path: &str, end: &FilePath) -> bool {
    path.strip_suffix(end.as_str())
        .is_some_and(|front| front.is_empty() || front.ends_with('/'))
}

fn without_key(url: &str) -> &str {
    // LiveKit removes stream keys from its lists, so they cannot be compared.
    url.rsplit_once('/').map_or(url, |(base, _)| base)
}

/// Returns a request's parts to compare; `None` for a kind of request that this server does not send.
fn outline(request: &Request) -> Option<Outline<'_>> {
    match request {
        Request::RoomComposite(request) => Some(encoded(
            Subject::Room,
            &request.file_outputs,
            &request.stream_outputs,
        )),
        Request::Participant(request) => {
            let subject = Subject::Participant(&request.identity);
            Some(encoded(
                subject,
                &request.file_outputs,
                &request.stream_outputs,
            ))
        }
        Request::Track(request) => {
            let file = match &request.output {
                Some(proto::track_egress_request::Output::File(file)) => {
                    Some(file.filepath.as_str())
                }
                _ => None,
            };
            let subject = Subject::Track(&request.track_id);
            Some(Outline {
                subject,
                files: file.into_iter().collect(),
                streams: Vec::new(),
            })
        }
        _ => None,
    }
}

fn encoded<'a>(
    subject: Subject<'a>,
    files: &'a [proto::EncodedFileOutput],
    streams: &'a [proto::StreamOutput],
) -> Outline<'a> {
    let urls = streams.iter().flat_map(|output| &output.urls);
    Outline {
        subject,
        files: files.iter().map(|file| file.filepath.as_str()).collect(),
        streams: urls.map(|url| without_key(url)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::RoomId;

    use super::*;

    fn plan(source: EgressSource, output: EgressOutput) -> EgressPlan {
        let (room_id, room) = (RoomId::new(), "prj_0123456789ab.standup".parse().unwrap());
        EgressPlan {
            room_id,
            room,
            max_participants: None,
            source,
            output,
            destination: None,
            is_automatic: false,
        }
    }

    fn composite(output: EgressOutput) -> EgressPlan {
        plan(
            EgressSource::RoomComposite {
                layout: Layout::Grid,
                media: CompositeMedia::Both,
            },
            output,
        )
    }

    fn file() -> EgressOutput {
        EgressOutput::File {
            filepath: "a.mp4".parse().unwrap(),
            taken: Vec::new(),
        }
    }

    fn room(file: Option<&str>, url: Option<&str>) -> Request {
        let file = file.map(|path| proto::EncodedFileOutput {
            filepath: path.to_owned(),
            ..Default::default()
        });
        let stream = url.map(|url| proto::StreamOutput {
            urls: vec![url.to_owned()],
            ..Default::default()
        });
        Request::RoomComposite(proto::RoomCompositeEgressRequest {
            file_outputs: file.into_iter().collect(),
            stream_outputs: stream.into_iter().collect(),
            ..Default::default()
        })
    }

    fn started(at: i64, request: Option<Request>) -> proto::EgressInfo {
        proto::EgressInfo {
            started_at: at * 1_000_000_000,
            request,
            ..Default::default()
        }
    }

    #[test]
    fn an_egress_is_recognized_by_its_file_and_its_streams_without_their_keys() {
        let since = Timestamp::from_millis(1_000_000);
        let url = RtmpUrl::parse("rtmp://host/app/key").unwrap();
        let (recording, broadcast) = (
            composite(file()),
            composite(EgressOutput::Streams(vec![url])),
        );
        let is_recording = |listed: proto::EgressInfo| is_started_by(&listed, &recording, since);
        let is_broadcast = |url: &str| {
            is_started_by(
                &started(1_000, Some(room(None, Some(url)))),
                &broadcast,
                since,
            )
        };
        let written = |path: &str| Some(room(Some(path), None));
        for path in [
            "a.mp4",
            "/recordings/prj_0123456789ab/a.mp4",
            "prefix/a.mp4",
        ] {
            assert!(is_recording(started(1_000, written(path))), "{path}");
        }
        assert!(
            is_recording(started(941, written("a.mp4"))),
            "LiveKit's clock is behind"
        );
        assert!(
            !is_recording(started(939, written("a.mp4"))),
            "it was started before"
        );
        assert!(
            !is_recording(started(1_000, written("b.mp4")))
                && !is_recording(started(1_000, written("aa.mp4")))
        );
        assert!(!is_recording(started(
            1_000,
            Some(room(Some("a.mp4"), Some("rtmp://host/app/key")))
        )));
        assert!(!is_recording(started(
            1_000,
            Some(Request::Web(proto::WebEgressRequest::default()))
        )));
        // Without a listed request, only the time is compared.
        assert!(is_recording(started(1_000, None)));
        // LiveKit lists masked keys.
        assert!(is_broadcast("rtmp://host/app/{k...y}") && !is_broadcast("rtmp://host/other/key"));
    }

    #[test]
    fn an_egress_of_a_participant_or_a_track_is_recognized_by_that() {
        let since = Timestamp::from_millis(0);
        let of_participant = plan(EgressSource::Participant("alice".parse().unwrap()), file());
        let of_track = plan(EgressSource::Track("TR_1".parse().unwrap()), file());
        let participant = |identity: &str| {
            let file = proto::EncodedFileOutput {
                filepath: "a.mp4".into(),
                ..Default::default()
            };
            let request = proto::ParticipantEgressRequest {
                identity: identity.into(),
                ..Default::default()
            };
            Some(Request::Participant(proto::ParticipantEgressRequest {
                file_outputs: vec![file],
                ..request
            }))
        };
        let track = |track_id: &str| {
            let file = proto::DirectFileOutput {
                filepath: "a.mp4".into(),
                ..Default::default()
            };
            let output = Some(proto::track_egress_request::Output::File(file));
            Some(Request::Track(proto::TrackEgressRequest {
                track_id: track_id.into(),
                output,
                ..Default::default()
            }))
        };
        // The file is the same in all of them: only the subject differs.
        for (plan, same, others) in [
            (
                &of_participant,
                participant("alice"),
                [
                    participant("bob"),
                    track("TR_1"),
                    Some(room(Some("a.mp4"), None)),
                ],
            ),
            (
                &of_track,
                track("TR_1"),
                [
                    track("TR_2"),
                    participant("alice"),
                    Some(room(Some("a.mp4"), None)),
                ],
            ),
        ] {
            assert!(is_started_by(&started(1, same), plan, since));
            assert!(others.into_iter().all(|other| !is_started_by(
                &started(1, other),
                plan,
                since
            )));
        }
    }
}
