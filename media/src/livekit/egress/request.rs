//! Conversion of egress requests into LiveKit's calls.

use std::path::Path;

use conclave_model::NamespacedRoom;
use conclave_model::destination::{AzureConfig, GcpConfig, RecordingConfig, S3Config};
use conclave_model::egress::{CompositeMedia, EgressOutput, EgressPlan, EgressSource, Layout};
use conclave_model::filepath::FilePath;
use conclave_model::rtmp::RtmpUrl;
use livekit_protocol as proto;
use proto::egress_info::Request as EgressKind;
use proto::{direct_file_output, encoded_file_output};

use crate::livekit::calls::{self, Call};
use crate::port::MediaError;

/// A storage, from which the storage field of both of LiveKit's file outputs is made.
enum Storage {
    Local,
    S3(Box<proto::S3Upload>),
    Gcp(proto::GcpUpload),
    Azure(proto::AzureBlobUpload),
}

/// Returns the call that starts an egress.
pub(in crate::livekit) fn start_call(
    request: &EgressKind,
) -> Result<Call<proto::EgressInfo>, MediaError> {
    match request {
        EgressKind::RoomComposite(request) => Ok(calls::start_room_composite(request)),
        EgressKind::Participant(request) => Ok(calls::start_participant(request)),
        EgressKind::Track(request) => Ok(calls::start_track(request)),
        _ => Err(MediaError::Refused(
            "this kind of egress is not supported".into(),
        )),
    }
}

/// Converts a plan. `storage` is that of its destination; without one, files are written to `recordings`, the directory of local
/// recordings.
///
/// # Errors
/// `Refused` for a broadcast of a single track, which LiveKit does not support.
pub(in crate::livekit) fn to_proto(
    plan: &EgressPlan,
    storage: Option<&RecordingConfig>,
    recordings: &Path,
) -> Result<EgressKind, MediaError> {
    let room_name = plan.room.to_string();
    match (&plan.source, &plan.output) {
        (EgressSource::RoomComposite { layout, media }, output) => {
            let (file_outputs, stream_outputs) = outputs(&plan.room, output, storage, recordings);
            Ok(EgressKind::RoomComposite(
                proto::RoomCompositeEgressRequest {
                    room_name,
                    layout: layout_name(*layout).into(),
                    audio_only: *media == CompositeMedia::AudioOnly,
                    video_only: *media == CompositeMedia::VideoOnly,
                    file_outputs,
                    stream_outputs,
                    ..Default::default()
                },
            ))
        }
        (EgressSource::Participant(identity), output) => {
            let (file_outputs, stream_outputs) = outputs(&plan.room, output, storage, recordings);
            Ok(EgressKind::Participant(proto::ParticipantEgressRequest {
                room_name,
                identity: identity.to_string(),
                file_outputs,
                stream_outputs,
                ..Default::default()
            }))
        }
        (EgressSource::Track(track), EgressOutput::File { filepath, .. }) => {
            let file = direct_file(&plan.room, filepath, storage, recordings);
            Ok(EgressKind::Track(proto::TrackEgressRequest {
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

/// The output of a track egress, which writes the track as it is.
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
    // A manifest would be a second file beside the one that was requested.
    proto::DirectFileOutput {
        filepath,
        disable_manifest: true,
        output,
    }
}

/// The output of the other egresses, which encode the file.
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
        disable_manifest: true,
        output,
        ..Default::default()
    }
}

/// Returns the full path of a file and the storage that it is written to.
fn file_location(
    room: &NamespacedRoom,
    filepath: &FilePath,
    destination: Option<&RecordingConfig>,
    recordings: &Path,
) -> (String, Storage) {
    match destination {
        None => {
            let directory = recordings.join(room.split().0.as_str());
            (
                directory.join(filepath.as_str()).display().to_string(),
                Storage::Local,
            )
        }
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
            .map(|token| token.reveal().to_owned())
            .unwrap_or_default(),
        region: s3
            .region
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        endpoint: s3.endpoint.clone().unwrap_or_default(),
        bucket: s3.bucket.to_string(),
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
