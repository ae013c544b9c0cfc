//! Recordings, broadcasts and ingress endpoints.

use std::time::Duration;

use conclave_media::{EgressOutput, EgressRequest, IngressRequest, KnownIngress, MediaPlane};
use conclave_model::destination::{DestinationConfig, DestinationKind, RecordingConfig};
use conclave_model::egress::{CompositeMedia, EgressSource, EgressState, EgressStatus, Layout};
use conclave_model::ingress::{IngressStatus, InputType, StreamKeyHash};
use conclave_model::rtmp::RtmpUrl;
use conclave_model::{NamespacedRoom, Secret};
use livekit_double::{Fault, Joining, Settings};
use livekit_protocol as proto;
use proto::encoded_file_output::Output;
use proto::ingress_state::Status;
use proto::participant_info::Kind;
use proto::track_egress_request;

use super::{ROOM, Stage, alice, message, room};

fn file(destination: Option<RecordingConfig>) -> EgressOutput {
    EgressOutput::File { filepath: "2026/call.mp4".parse().unwrap(), destination }
}

fn composite(output: EgressOutput) -> EgressRequest {
    let source = EgressSource::RoomComposite { layout: Layout::Grid, media: CompositeMedia::AudioOnly };
    EgressRequest { room: room(), max_participants: Some(8), source, output }
}

fn storage(config: &str) -> RecordingConfig {
    match DestinationConfig::from_secret(DestinationKind::Recording, &Secret::new(config)).unwrap() {
        DestinationConfig::Recording(config) => config,
        DestinationConfig::Rtmp(_) => unreachable!(),
    }
}

async fn started(stage: &Stage, destination: Option<RecordingConfig>) -> proto::EncodedFileOutput {
    stage.plane.start_egress(composite(file(destination))).await.unwrap();
    let request = stage.double.calls::<proto::RoomCompositeEgressRequest>("StartRoomCompositeEgress").pop().unwrap();
    assert_eq!((request.layout.as_str(), request.audio_only, request.video_only), ("grid", true, false));
    request.file_outputs.into_iter().next().unwrap()
}

async fn running(stage: &Stage) -> EgressState {
    stage.plane.start_egress(composite(file(None))).await.unwrap()
}

#[tokio::test]
async fn a_job_of_a_room_that_nobody_has_joined_opens_it_for_long_with_its_cap() {
    let stage = Stage::new();
    let state = running(&stage).await;
    assert_eq!((state.status, state.error, state.ended_at), (EgressStatus::Starting, None, None));
    let opened = stage.double.room(ROOM).unwrap();
    assert_eq!((opened.empty_timeout, opened.departure_timeout, opened.max_participants), (86_400, 86_400, 8));
}

#[tokio::test]
async fn a_file_goes_to_the_projects_directory_or_to_its_destination() {
    let stage = Stage::new();
    let local = started(&stage, None).await;
    assert_eq!(local.filepath, "/recordings/prj_0123456789ab/2026/call.mp4");
    assert!(local.output.is_none() && local.disable_manifest);

    let s3 = storage(
        r#"{"type":"s3","bucket":"b","region":"eu-1","endpoint":"https://s3.test","prefix":"calls/",
            "force_path_style":true,"access_key":"AK","secret":"s3cret","session_token":"tok"}"#,
    );
    let output = started(&stage, Some(s3)).await;
    assert_eq!(output.filepath, "calls/2026/call.mp4");
    let Some(Output::S3(s3)) = output.output else { panic!("an S3 upload") };
    assert_eq!((s3.bucket.as_str(), s3.region.as_str(), s3.endpoint.as_str()), ("b", "eu-1", "https://s3.test"));
    assert_eq!((s3.access_key.as_str(), s3.secret.as_str(), s3.session_token.as_str()), ("AK", "s3cret", "tok"));
    assert!(s3.force_path_style);

    let output = started(&stage, Some(storage(r#"{"type":"gcp","bucket":"b","credentials":"{}"}"#))).await;
    assert_eq!(output.filepath, "2026/call.mp4");
    assert!(matches!(output.output, Some(Output::Gcp(gcp)) if gcp.credentials == "{}" && gcp.bucket == "b"));

    let azure = r#"{"type":"azure","container":"c","prefix":"p","account_name":"acc","account_key":"k"}"#;
    let output = started(&stage, Some(storage(azure))).await;
    assert_eq!(output.filepath, "p/2026/call.mp4");
    let Some(Output::Azure(azure)) = output.output else { panic!("an Azure upload") };
    assert_eq!((azure.container_name, azure.account_name, azure.account_key), ("c".into(), "acc".into(), "k".into()));
}

#[tokio::test]
async fn a_track_a_participant_and_a_broadcast_are_asked_for_as_such() {
    let stage = Stage::new();
    let source = EgressSource::Track("TR_1".parse().unwrap());
    stage
        .plane
        .start_egress(EgressRequest { room: room(), max_participants: None, source, output: file(None) })
        .await
        .unwrap();
    let request = stage.double.calls::<proto::TrackEgressRequest>("StartTrackEgress").remove(0);
    assert_eq!((request.room_name.as_str(), request.track_id.as_str()), (ROOM, "TR_1"));
    assert!(matches!(request.output, Some(track_egress_request::Output::File(file))
        if file.filepath == "/recordings/prj_0123456789ab/2026/call.mp4"));

    let source = EgressSource::Participant(alice());
    stage
        .plane
        .start_egress(EgressRequest { room: room(), max_participants: None, source, output: file(None) })
        .await
        .unwrap();
    let request = stage.double.calls::<proto::ParticipantEgressRequest>("StartParticipantEgress").remove(0);
    assert_eq!((request.identity.as_str(), request.file_outputs.len()), ("alice", 1));

    let urls = vec![RtmpUrl::parse("rtmp://live.test/app/key").unwrap()];
    stage.plane.start_egress(composite(EgressOutput::Streams(urls))).await.unwrap();
    let request = stage.double.calls::<proto::RoomCompositeEgressRequest>("StartRoomCompositeEgress").remove(0);
    assert_eq!(request.stream_outputs[0].urls, ["rtmp://live.test/app/key"]);
    assert_eq!(request.stream_outputs[0].protocol, proto::StreamProtocol::Rtmp as i32);
    assert!(request.file_outputs.is_empty());
}

#[tokio::test]
async fn a_job_is_followed_until_it_is_final() {
    let stage = Stage::new();
    let id = running(&stage).await.egress_id;
    let status = async || stage.plane.egress(&room(), &id).await.unwrap().map(|state| state.status);
    for (said, read) in [
        (proto::EgressStatus::EgressActive, EgressStatus::Active),
        (proto::EgressStatus::EgressEnding, EgressStatus::Ending),
        (proto::EgressStatus::EgressComplete, EgressStatus::Complete),
        (proto::EgressStatus::EgressAborted, EgressStatus::Aborted),
        (proto::EgressStatus::EgressLimitReached, EgressStatus::LimitReached),
    ] {
        stage.double.set_egress_status(id.as_str(), said, "");
        assert_eq!(status().await, Some(read));
    }
    stage.double.set_egress_status(
        id.as_str(),
        proto::EgressStatus::EgressFailed,
        "could not reach rtmp://live.test/app/key today",
    );
    let failed = stage.plane.egress(&room(), &id).await.unwrap().unwrap();
    assert_eq!(failed.error.as_deref(), Some("could not reach rtmp://… today"));
    assert!(failed.status == EgressStatus::Failed && failed.ended_at.is_some());
    let other: NamespacedRoom = "prj_ffffffffffff.standup".parse().unwrap();
    assert_eq!(stage.plane.egress(&other, &id).await.unwrap(), None, "it is another project's");
    stage.double.forget_egress(id.as_str());
    assert_eq!(status().await, None);
}

#[tokio::test]
async fn a_job_is_told_to_finish_and_one_that_has_finished_stays_so() {
    let stage = Stage::new();
    let id = running(&stage).await.egress_id;
    stage.double.set_egress_status(id.as_str(), proto::EgressStatus::EgressActive, "");
    let stopped = stage.plane.stop_egress(&room(), &id).await.unwrap().unwrap();
    assert_eq!(stopped.status, EgressStatus::Ending);
    let again = stage.plane.stop_egress(&room(), &id).await.unwrap().unwrap();
    assert_eq!(again.status, EgressStatus::Ending, "412 is asked after");
    stage.double.set_egress_status(id.as_str(), proto::EgressStatus::EgressComplete, "");
    let ended = stage.plane.stop_egress(&room(), &id).await.unwrap().unwrap();
    assert_eq!(ended.status, EgressStatus::Complete);
    stage.double.forget_egress(id.as_str());
    assert_eq!(stage.plane.stop_egress(&room(), &id).await.unwrap(), None);
}

#[tokio::test]
async fn a_job_whose_worker_died_has_failed_and_one_whose_worker_is_slow_has_not() {
    let (stage, clock) = Stage::with_clock();
    let id = running(&stage).await.egress_id;
    stage.double.set_egress_status(id.as_str(), proto::EgressStatus::EgressActive, "");
    for method in ["StopEgress", "UpdateStream"] {
        stage.double.fail(method, Fault::Twirp(408, "deadline_exceeded", "request timed out"));
    }
    let look = async || stage.plane.egress(&room(), &id).await.unwrap().unwrap();
    // It may be on its way into the room.
    assert_eq!(look().await.status, EgressStatus::Active);
    assert!(message(stage.plane.stop_egress(&room(), &id).await.unwrap_err()).contains("worker"));
    clock.advance(Duration::from_secs(61));
    // It is there, and slow.
    stage.double.join(ROOM, &Joining { kind: Kind::Egress, ..Joining::participant(id.as_str()) });
    assert_eq!(look().await.status, EgressStatus::Active);
    assert!(message(stage.plane.stop_egress(&room(), &id).await.unwrap_err()).contains("worker"));
    stage.double.leave(ROOM, id.as_str(), proto::DisconnectReason::SignalClose);
    for died in [look().await, stage.plane.stop_egress(&room(), &id).await.unwrap().unwrap()] {
        assert!(died.status == EgressStatus::Failed && died.ended_at == Some(clock.now()));
        assert!(died.error.unwrap().contains("the egress worker died"));
    }
    // It is not in the room, and answers.
    stage.double.fail("UpdateStream", Fault::Twirp(400, "invalid_argument", "pipeline is not streaming"));
    assert_eq!(look().await.status, EgressStatus::Active);
    // Nobody can tell.
    stage.double.fail("UpdateStream", Fault::ProxyPage(502));
    assert!(stage.plane.egress(&room(), &id).await.is_err());
}

#[tokio::test]
async fn without_redis_a_job_says_what_is_missing() {
    let stage = Stage::new();
    stage.double.configure(Settings { redis: false, ..Settings::default() });
    let refused = stage.plane.start_egress(composite(file(None))).await.unwrap_err();
    assert!(message(refused).contains("Redis"));
}

#[tokio::test]
async fn a_job_that_no_worker_takes_says_so() {
    let stage = Stage::new();
    stage.double.fail("StartRoomCompositeEgress", Fault::NoResponse);
    let refused = stage.plane.start_egress(composite(file(None))).await.unwrap_err();
    assert!(message(refused).contains("egress worker"));
}

#[tokio::test]
async fn a_survey_counts_the_jobs_that_have_not_ended() {
    let stage = Stage::new();
    let (first, second) = (running(&stage).await, running(&stage).await);
    stage.double.set_egress_status(second.egress_id.as_str(), proto::EgressStatus::EgressComplete, "");
    let survey = stage.plane.survey(&room().split().0).await.unwrap();
    assert_eq!(survey.egresses, [(room(), first)]);
    let elsewhere = "prj_ffffffffffff".parse().unwrap();
    assert_eq!(stage.plane.survey(&elsewhere).await.unwrap(), conclave_media::Survey::default());
}

#[tokio::test]
async fn an_endpoint_is_made_followed_and_taken_away() {
    let stage = Stage::new();
    let new = IngressRequest {
        room: room(),
        max_participants: Some(8),
        input_type: InputType::Whip,
        identity: "encoder".parse().unwrap(),
        name: Some("Stage".into()),
        enable_transcoding: Some(true),
    };
    let made = stage.plane.create_ingress(new).await.unwrap();
    assert_eq!(made.url, "http://127.0.0.1:8080/w");
    assert_eq!(stage.double.room(ROOM).unwrap().max_participants, 8, "an encoder would open it without");
    assert!(!made.stream_key.reveal().is_empty());
    let request = stage.double.calls::<proto::CreateIngressRequest>("CreateIngress").remove(0);
    assert_eq!((request.input_type, request.enable_transcoding), (1, Some(true)));
    assert_eq!((request.participant_identity.as_str(), request.participant_name.as_str()), ("encoder", "Stage"));

    let known = KnownIngress {
        ingress_id: made.ingress_id.clone(),
        room: room(),
        identity: "encoder".parse().unwrap(),
        name: None,
        input_type: InputType::Whip,
        key_hash: StreamKeyHash::from_key(made.stream_key.reveal()),
    };
    let status = async || stage.plane.ingress(&known).await.unwrap().map(|state| state.status);
    assert_eq!(status().await, Some(IngressStatus::Inactive));
    for (said, read) in [
        (Status::EndpointBuffering, IngressStatus::Buffering),
        (Status::EndpointPublishing, IngressStatus::Publishing),
        (Status::EndpointError, IngressStatus::Error),
        // The next encoder may come.
        (Status::EndpointComplete, IngressStatus::Inactive),
    ] {
        stage.double.set_ingress_status(made.ingress_id.as_str(), said, "");
        assert_eq!(status().await, Some(read));
    }
    let survey = stage.plane.survey(&room().split().0).await.unwrap();
    assert_eq!(survey.ingresses.len(), 1);
    stage.plane.delete_ingress(&made.ingress_id).await.unwrap();
    stage.plane.delete_ingress(&made.ingress_id).await.unwrap();
    assert_eq!(status().await, None);
}
