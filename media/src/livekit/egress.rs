//! Recordings and broadcasts.

use conclave_model::destination::{AzureConfig, GcpConfig, RecordingConfig, S3Config};
use conclave_model::egress::{CompositeMedia, EgressSource, EgressState, Layout};
use conclave_model::filepath::FilePath;
use conclave_model::rtmp::RtmpUrl;
use conclave_model::{EgressId, NamespacedRoom, TrackSid};
use livekit_protocol as proto;
use proto::{direct_file_output, encoded_file_output};

use super::calls::{self, Call};
use super::convert;
use super::failure::Failure;
use super::plane::Inner;
use crate::port::{EgressOutput, EgressRequest, MediaError};

/// Storage, in the one form that both of LiveKit's file outputs are made from.
enum Storage {
    Local,
    S3(Box<proto::S3Upload>),
    Gcp(proto::GcpUpload),
    Azure(proto::AzureBlobUpload),
}

impl Inner {
    /// Starts a job. Its room is opened first: LiveKit starts none in a room that is not live.
    pub async fn start_egress(&self, job: EgressRequest) -> Result<EgressState, MediaError> {
        let call = self.start_call(&job)?;
        self.open_room(&job.room, job.max_participants).await?;
        let started = self.twirp.call(call).await.map_err(no_worker)?;
        convert::egress(&started, self.clock.now())
            .map(|(_, state)| state)
            .ok_or_else(|| MediaError::Unavailable("LiveKit started an egress that has no id".into()))
    }

    fn start_call(&self, job: &EgressRequest) -> Result<Call<proto::EgressInfo>, MediaError> {
        let room_name = job.room.to_string();
        match (&job.source, &job.output) {
            (EgressSource::RoomComposite { layout, media }, output) => {
                let (file_outputs, stream_outputs) = self.outputs(&job.room, output);
                Ok(calls::start_room_composite(&proto::RoomCompositeEgressRequest {
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
                let (file_outputs, stream_outputs) = self.outputs(&job.room, output);
                Ok(calls::start_participant(&proto::ParticipantEgressRequest {
                    room_name,
                    identity: identity.to_string(),
                    file_outputs,
                    stream_outputs,
                    ..Default::default()
                }))
            }
            (EgressSource::Track(track), EgressOutput::File { filepath, destination }) => {
                Ok(calls::start_track(&self.track_request(&job.room, track, filepath, destination.as_ref())))
            }
            (EgressSource::Track(_), EgressOutput::Streams(_)) => {
                Err(MediaError::Refused("LiveKit does not send a single track to RTMP receivers".into()))
            }
        }
    }

    fn track_request(
        &self,
        room: &NamespacedRoom,
        track: &TrackSid,
        filepath: &FilePath,
        destination: Option<&RecordingConfig>,
    ) -> proto::TrackEgressRequest {
        let (filepath, storage) = self.place(room, filepath, destination);
        let output = match storage {
            Storage::Local => None,
            Storage::S3(s3) => Some(direct_file_output::Output::S3(*s3)),
            Storage::Gcp(gcp) => Some(direct_file_output::Output::Gcp(gcp)),
            Storage::Azure(azure) => Some(direct_file_output::Output::Azure(azure)),
        };
        let file = proto::DirectFileOutput { filepath, disable_manifest: true, output };
        proto::TrackEgressRequest {
            room_name: room.to_string(),
            track_id: track.to_string(),
            output: Some(proto::track_egress_request::Output::File(file)),
            ..Default::default()
        }
    }

    fn outputs(
        &self,
        room: &NamespacedRoom,
        output: &EgressOutput,
    ) -> (Vec<proto::EncodedFileOutput>, Vec<proto::StreamOutput>) {
        match output {
            EgressOutput::File { filepath, destination } => {
                (vec![self.encoded_file(room, filepath, destination.as_ref())], Vec::new())
            }
            EgressOutput::Streams(urls) => (Vec::new(), vec![stream_output(urls)]),
        }
    }

    fn encoded_file(
        &self,
        room: &NamespacedRoom,
        filepath: &FilePath,
        destination: Option<&RecordingConfig>,
    ) -> proto::EncodedFileOutput {
        let (filepath, storage) = self.place(room, filepath, destination);
        let output = match storage {
            Storage::Local => None,
            Storage::S3(s3) => Some(encoded_file_output::Output::S3(*s3)),
            Storage::Gcp(gcp) => Some(encoded_file_output::Output::Gcp(gcp)),
            Storage::Azure(azure) => Some(encoded_file_output::Output::Azure(azure)),
        };
        // A manifest would be a second file that nobody asked for.
        proto::EncodedFileOutput { filepath, disable_manifest: true, output, ..Default::default() }
    }

    /// Where a file goes: a full name, and the storage it is in.
    fn place(
        &self,
        room: &NamespacedRoom,
        filepath: &FilePath,
        destination: Option<&RecordingConfig>,
    ) -> (String, Storage) {
        match destination {
            None => {
                let directory = self.recordings.join(room.split().0.as_str());
                (directory.join(filepath.as_str()).display().to_string(), Storage::Local)
            }
            Some(RecordingConfig::S3(s3)) => (prefixed(s3.prefix.as_ref(), filepath), Storage::S3(Box::new(of_s3(s3)))),
            Some(RecordingConfig::Gcp(gcp)) => (prefixed(gcp.prefix.as_ref(), filepath), Storage::Gcp(of_gcp(gcp))),
            Some(RecordingConfig::Azure(azure)) => {
                (prefixed(azure.prefix.as_ref(), filepath), Storage::Azure(of_azure(azure)))
            }
        }
    }

    /// How a job stands; `None` when LiveKit does not know it in this room.
    pub async fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        match self.said_of(room, id).await? {
            Some(said) => Ok(Some(self.verified(room, said).await?)),
            None => Ok(None),
        }
    }

    /// How LiveKit says that a job stands.
    async fn said_of(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, Failure> {
        let request = proto::ListEgressRequest { egress_id: id.to_string(), ..Default::default() };
        let listed = match self.twirp.call(calls::list_egress(&request)).await {
            Err(failure) if failure.is_not_found() => return Ok(None),
            listed => listed?.items,
        };
        let now = self.clock.now();
        let known = listed.iter().filter_map(|info| convert::egress(info, now));
        Ok(known.into_iter().find(|(of, state)| of == room && state.egress_id == *id).map(|(_, state)| state))
    }

    /// Tells a job to finish.
    pub async fn stop_egress(&self, room: &NamespacedRoom, id: &EgressId) -> Result<Option<EgressState>, MediaError> {
        // An id says nothing of its room, and LiveKit would stop anybody's.
        let Some(known) = self.said_of(room, id).await? else { return Ok(None) };
        if known.status.is_final() {
            return Ok(Some(known));
        }
        match self.twirp.call(calls::stop_egress(&proto::StopEgressRequest { egress_id: id.to_string() })).await {
            Ok(info) => Ok(convert::egress(&info, self.clock.now()).map(|(_, state)| state)),
            Err(failure) if failure.is_not_found() => Ok(None),
            // It has ended meanwhile, or is ending.
            Err(failure) if failure.is_precondition() => Ok(self.said_of(room, id).await?),
            Err(failure) if failure.is_deadline() => match self.verified(room, known).await? {
                died if died.status.is_final() => Ok(Some(died)),
                _ => Err(MediaError::Refused("the egress worker of this job does not answer LiveKit".into())),
            },
            Err(failure) => Err(failure.into()),
        }
    }
}

/// LiveKit asks every worker there is, and says no more than that none took the job.
fn no_worker(failure: Failure) -> MediaError {
    if failure.is_no_response() {
        let missing = "no egress worker took the job: is one running and free, and does it share LiveKit's Redis?";
        return MediaError::Refused(missing.into());
    }
    failure.into()
}

const fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Speaker => "speaker",
        Layout::Grid => "grid",
    }
}

fn stream_output(urls: &[RtmpUrl]) -> proto::StreamOutput {
    let urls = urls.iter().map(|url| url.reveal().to_owned()).collect();
    proto::StreamOutput { protocol: proto::StreamProtocol::Rtmp as i32, urls }
}

/// A prefix is a directory, however it ends.
fn prefixed(prefix: Option<&impl AsRef<str>>, filepath: &FilePath) -> String {
    match prefix.map(|prefix| prefix.as_ref().trim_end_matches('/')) {
        None | Some("") => filepath.to_string(),
        Some(prefix) => format!("{prefix}/{filepath}"),
    }
}

fn of_s3(s3: &S3Config) -> proto::S3Upload {
    proto::S3Upload {
        access_key: s3.access_key.as_ref().to_owned(),
        secret: s3.secret.reveal().to_owned(),
        session_token: s3.session_token.as_ref().map(|token| token.reveal().to_owned()).unwrap_or_default(),
        region: s3.region.as_ref().map(ToString::to_string).unwrap_or_default(),
        endpoint: s3.endpoint.clone().unwrap_or_default(),
        bucket: s3.bucket.to_string(),
        force_path_style: s3.force_path_style.unwrap_or_default(),
        ..Default::default()
    }
}

fn of_gcp(gcp: &GcpConfig) -> proto::GcpUpload {
    proto::GcpUpload {
        credentials: gcp.credentials.reveal().to_owned(),
        bucket: gcp.bucket.to_string(),
        ..Default::default()
    }
}

fn of_azure(azure: &AzureConfig) -> proto::AzureBlobUpload {
    proto::AzureBlobUpload {
        account_name: azure.account_name.to_string(),
        account_key: azure.account_key.reveal().to_owned(),
        container_name: azure.container.to_string(),
    }
}
