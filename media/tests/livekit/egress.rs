//! Egresses: recordings and broadcasts.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::MediaPlane;
use conclave_model::destination::{DestinationConfig, DestinationKind, RecordingConfig};
use conclave_model::egress::{
    CompositeMedia, EgressOutput, EgressPlan, EgressSource, EgressState, EgressStatus, Layout,
};
use conclave_model::rtmp::RtmpUrl;
use conclave_model::{NamespacedRoom, RoomId, Secret};
use livekit_double::{Fault, Joining, Settings};
use livekit_protocol as proto;
use proto::encoded_file_output::Output;
use proto::participant_info::Kind;
use proto::track_egress_request;

use super::{ROOM, TestPlane, alice, message, room};

fn file() -> EgressOutput {
    EgressOutput::File {
        filepath: "2026/call.mp4".parse().unwrap(),
        taken: Vec::new(),
    }
}

fn plan(source: EgressSource, output: EgressOutput) -> Arc<EgressPlan> {
    let max_participants = Some(8);
    Arc::new(EgressPlan {
        room_id: RoomId::new(),
        room: room(),
        max_participants,
        source,
        output,
        destination: None,
        is_automatic: false,
    })
}

fn composite(output: EgressOutput) -> Arc<EgressPlan> {
    plan(
        EgressSource::RoomComposite {
            layout: Layout::Grid,
            media: CompositeMedia::AudioOnly,
        },
        output,
    )
}

fn storage(config: &str) -> RecordingConfig {
    match DestinationConfig::from_secret(DestinationKind::Recording, &Secret::new(config)).unwrap()
    {
        DestinationConfig::Recording(config) => config,
        DestinationConfig::Rtmp(_) => unreachable!(),
    }
}

async fn started(test: &TestPlane, storage: Option<RecordingConfig>) -> proto::EncodedFileOutput {
    test.plane
        .start_egress(composite(file()), storage)
        .await
        .unwrap();
    let request = test
        .double
        .calls::<proto::RoomCompositeEgressRequest>("StartRoomCompositeEgress")
        .pop()
        .unwrap();
    assert_eq!(
        (
            request.layout.as_str(),
            request.audio_only,
            request.video_only
        ),
        ("grid", true, false)
    );
    request.file_outputs.into_iter().next().unwrap()
}

async fn running(test: &TestPlane) -> EgressState {
    test.plane
        .start_egress(composite(file()), None)
        .await
        .unwrap()
        .state
}

#[tokio::test]
async fn an_egress_of_a_room_that_is_not_live_opens_it_for_a_day_with_its_maximum() {
    let test = TestPlane::new();
    let state = running(&test).await;
    assert_eq!(
        (state.status, state.error, state.ended_at),
        (EgressStatus::Starting, None, None)
    );
    let opened = test.double.room(ROOM).unwrap();
    assert_eq!(
        (
            opened.empty_timeout,
            opened.departure_timeout,
            opened.max_participants
        ),
        (86_400, 86_400, 8)
    );
}

#[tokio::test]
async fn a_file_is_written_to_the_projects_directory_or_to_its_destination() {
    let test = TestPlane::new();
    let local = started(&test, None).await;
    assert_eq!(local.filepath, "/recordings/prj_0123456789ab/2026/call.mp4");
    assert!(local.output.is_none() && local.disable_manifest);

    let s3 = storage(
        r#"{"type":"s3","bucket":"b","region":"eu-1","endpoint":"https://s3.test","prefix":"calls/",
            "force_path_style":true,"access_key":"AK","secret":"s3cret","session_token":"tok"}"#,
    );
    let output = started(&test, Some(s3)).await;
    assert_eq!(output.filepath, "calls/2026/call.mp4");
    let Some(Output::S3(s3)) = output.output else {
        panic!("an S3 upload")
    };
    assert_eq!(
        (s3.bucket.as_str(), s3.region.as_str(), s3.endpoint.as_str()),
        ("b", "eu-1", "https://s3.test")
    );
    assert_eq!(
        (
            s3.access_key.as_str(),
            s3.secret.as_str(),
            s3.session_token.as_str()
        ),
        ("AK", "s3cret", "tok")
    );
    assert!(s3.force_path_style);

    let output = started(
        &test,
        Some(storage(r#"{"type":"gcp","bucket":"b","credentials":"{}"}"#)),
    )
    .await;
    assert_eq!(output.filepath, "2026/call.mp4");
    assert!(
        matches!(output.output, Some(Output::Gcp(gcp)) if gcp.credentials == "{}" && gcp.bucket == "b")
    );

    let azure =
        r#"{"type":"azure","container":"c","prefix":"p","account_name":"acc","account_key":"k"}"#;
    let output = started(&test, Some(storage(azure))).await;
    assert_eq!(output.filepath, "p/2026/call.mp4");
    let Some(Output::Azure(azure)) = output.output else {
        panic!("an Azure upload")
    };
    assert_eq!(
        (azure.container_name, azure.account_name, azure.account_key),
        ("c".into(), "acc".into(), "k".into())
    );
}

#[tokio::test]
async fn each_source_and_output_has_its_own_call() {
    let test = TestPlane::new();
    let source = EgressSource::Track("TR_1".parse().unwrap());
    test.plane
        .start_egress(plan(source, file()), None)
        .await
        .unwrap();
    let request = test
        .double
        .calls::<proto::TrackEgressRequest>("StartTrackEgress")
        .remove(0);
    assert_eq!(
        (request.room_name.as_str(), request.track_id.as_str()),
        (ROOM, "TR_1")
    );
    assert!(
        matches!(request.output, Some(track_egress_request::Output::File(file))
        if file.filepath == "/recordings/prj_0123456789ab/2026/call.mp4")
    );

    let source = EgressSource::Participant(alice());
    test.plane
        .start_egress(plan(source, file()), None)
        .await
        .unwrap();
    let request = test
        .double
        .calls::<proto::ParticipantEgressRequest>("StartParticipantEgress")
        .remove(0);
    assert_eq!(
        (request.identity.as_str(), request.file_outputs.len()),
        ("alice", 1)
    );

    let urls = vec![RtmpUrl::parse("rtmp://live.test/app/key").unwrap()];
    test.plane
        .start_egress(composite(EgressOutput::Streams(urls)), None)
        .await
        .unwrap();
    let request = test
        .double
        .calls::<proto::RoomCompositeEgressRequest>("StartRoomCompositeEgress")
        .remove(0);
    assert_eq!(request.stream_outputs[0].urls, ["rtmp://live.test/app/key"]);
    assert_eq!(
        request.stream_outputs[0].protocol,
        proto::StreamProtocol::Rtmp as i32
    );
    assert!(request.file_outputs.is_empty());
}

#[tokio::test]
async fn the_states_of_an_egress_are_converted_until_it_is_final() {
    let test = TestPlane::new();
    let id = running(&test).await.egress_id;
    let status = async || {
        test.plane
            .egress(&room(), &id)
            .await
            .unwrap()
            .map(|state| state.status)
    };
    for (reported, converted) in [
        (proto::EgressStatus::EgressActive, EgressStatus::Active),
        (proto::EgressStatus::EgressEnding, EgressStatus::Ending),
        (proto::EgressStatus::EgressComplete, EgressStatus::Complete),
        (proto::EgressStatus::EgressAborted, EgressStatus::Aborted),
        (
            proto::EgressStatus::EgressLimitReached,
            EgressStatus::LimitReached,
        ),
    ] {
        test.double.set_egress_status(id.as_str(), reported, "");
        assert_eq!(status().await, Some(converted));
    }
    test.double.set_egress_status(
        id.as_str(),
        proto::EgressStatus::EgressFailed,
        "could not reach rtmp://live.test/app/key today",
    );
    let failed = test.plane.egress(&room(), &id).await.unwrap().unwrap();
    assert_eq!(
        failed.error.as_deref(),
        Some("could not reach rtmp://… today")
    );
    assert!(failed.status == EgressStatus::Failed && failed.ended_at.is_some());
    let other: NamespacedRoom = "prj_ffffffffffff.standup".parse().unwrap();
    assert_eq!(
        test.plane.egress(&other, &id).await.unwrap(),
        None,
        "the egress is of another project"
    );
    test.double.forget_egress(id.as_str());
    assert_eq!(status().await, None);
}

#[tokio::test]
async fn an_egress_is_stopped_and_an_ended_one_is_unchanged() {
    let test = TestPlane::new();
    let id = running(&test).await.egress_id;
    test.double
        .set_egress_status(id.as_str(), proto::EgressStatus::EgressActive, "");
    let stopped = test.plane.stop_egress(&room(), &id).await.unwrap().unwrap();
    assert_eq!(stopped.status, EgressStatus::Ending);
    let again = test.plane.stop_egress(&room(), &id).await.unwrap().unwrap();
    assert_eq!(
        again.status,
        EgressStatus::Ending,
        "a failed precondition is followed by a read"
    );
    test.double
        .set_egress_status(id.as_str(), proto::EgressStatus::EgressComplete, "");
    let ended = test.plane.stop_egress(&room(), &id).await.unwrap().unwrap();
    assert_eq!(ended.status, EgressStatus::Complete);
    test.double.forget_egress(id.as_str());
    assert_eq!(test.plane.stop_egress(&room(), &id).await.unwrap(), None);
}

#[tokio::test]
async fn an_egress_whose_worker_died_has_failed_and_one_whose_worker_is_slow_has_not() {
    let (test, clock) = TestPlane::with_clock();
    let id = running(&test).await.egress_id;
    test.double
        .set_egress_status(id.as_str(), proto::EgressStatus::EgressActive, "");
    for method in ["StopEgress", "UpdateStream"] {
        test.double.fail(
            method,
            Fault::Twirp(408, "deadline_exceeded", "request timed out"),
        );
    }
    let read = async || test.plane.egress(&room(), &id).await.unwrap().unwrap();
    // The worker may still be joining.
    assert_eq!(read().await.status, EgressStatus::Active);
    assert!(message(test.plane.stop_egress(&room(), &id).await.unwrap_err()).contains("worker"));
    clock.advance(Duration::from_secs(61));
    // The worker is in the room, but slow.
    test.double.join(
        ROOM,
        &Joining {
            kind: Kind::Egress,
            ..Joining::participant(id.as_str())
        },
    );
    assert_eq!(read().await.status, EgressStatus::Active);
    assert!(message(test.plane.stop_egress(&room(), &id).await.unwrap_err()).contains("worker"));
    test.double
        .leave(ROOM, id.as_str(), proto::DisconnectReason::SignalClose);
    for died in [
        read().await,
        test.plane.stop_egress(&room(), &id).await.unwrap().unwrap(),
    ] {
        assert!(died.status == EgressStatus::Failed && died.ended_at == Some(clock.now()));
        assert!(died.error.unwrap().contains("the egress worker died"));
    }
    // The worker is not in the room, but responds.
    test.double.fail(
        "UpdateStream",
        Fault::Twirp(400, "invalid_argument", "pipeline is not streaming"),
    );
    assert_eq!(read().await.status, EgressStatus::Active);
    // LiveKit is unavailable.
    test.double.fail("UpdateStream", Fault::ProxyPage(502));
    assert!(test.plane.egress(&room(), &id).await.is_err());
}

#[tokio::test]
async fn the_error_of_an_egress_without_redis_names_redis() {
    let test = TestPlane::new();
    test.double.configure(Settings {
        redis: false,
        ..Settings::default()
    });
    let refused = test
        .plane
        .start_egress(composite(file()), None)
        .await
        .unwrap_err();
    assert!(message(refused).contains("Redis"));
}

#[tokio::test]
async fn the_error_of_an_egress_without_a_worker_names_the_worker() {
    let test = TestPlane::new();
    test.double
        .fail("StartRoomCompositeEgress", Fault::NoResponse);
    let refused = test
        .plane
        .start_egress(composite(file()), None)
        .await
        .unwrap_err();
    assert!(message(refused).contains("egress worker"));
}

#[tokio::test]
async fn a_survey_contains_the_egresses_that_have_not_ended() {
    let test = TestPlane::new();
    let (first, second) = (running(&test).await, running(&test).await);
    test.double.set_egress_status(
        second.egress_id.as_str(),
        proto::EgressStatus::EgressComplete,
        "",
    );
    let mut shares = test.plane.inventory().await.unwrap().by_project();
    assert_eq!(
        shares.remove(&room().split().0).unwrap().egresses,
        [(room(), first)]
    );
    assert_eq!(shares.len(), 0, "nothing is live elsewhere");
}
