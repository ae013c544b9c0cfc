//! Rooms, people and moderation.

use conclave_media::token::Grants;
use conclave_media::{MediaPlane, MuteOutcome, RoleGrant, ServerData};
use conclave_model::participant::{DataKind, ParticipantKind, TrackKind, TrackSource};
use conclave_model::{Identity, TrackSid};
use livekit_double::{Fault, Joining, Settings};
use livekit_protocol as proto;
use proto::participant_info::Kind;
use proto::{TrackSource as Source, TrackType};

use super::{ROOM, Stage, alice, message, room};

fn nobody() -> Identity {
    "nobody".parse().unwrap()
}

#[tokio::test]
async fn people_are_listed_with_what_they_publish() {
    let stage = Stage::new();
    let alice_sid =
        stage.double.join(ROOM, &Joining { attributes: &[("svc.role", "host")], ..Joining::participant("alice") });
    stage.double.join(ROOM, &Joining { kind: Kind::Connector, ..Joining::participant("phone") });
    let track = stage.double.publish(ROOM, "alice", TrackType::Video, Source::Camera);
    let people = stage.plane.participants(&room()).await.unwrap();
    assert_eq!(people.len(), 2);
    let found = people.iter().find(|person| person.identity == alice()).unwrap();
    assert_eq!((found.sid.as_str(), found.role().unwrap().as_str()), (alice_sid.as_str(), "host"));
    assert_eq!((found.tracks[0].sid.as_str(), found.tracks[0].kind), (track.as_str(), TrackKind::Video));
    assert_eq!((found.tracks[0].source, found.tracks[0].simulcast), (TrackSource::Camera, Some(false)));
    assert!(found.joined_at.is_some() && found.is_publisher);
    assert!(people.iter().all(|person| person.kind == ParticipantKind::Standard));
    assert_eq!(stage.plane.participant(&room(), &alice()).await.unwrap().unwrap(), *found);
}

#[tokio::test]
async fn a_room_that_is_not_live_is_an_empty_one() {
    let stage = Stage::new();
    assert_eq!(stage.plane.participants(&room()).await.unwrap(), []);
    assert_eq!(stage.plane.participant(&room(), &alice()).await.unwrap(), None);
    stage.plane.close_room(&room()).await.unwrap();
    let message = ServerData { data: vec![1], topic: None, kind: DataKind::Reliable, to: vec![] };
    stage.plane.send_data(&room(), message).await.unwrap();
}

#[tokio::test]
async fn somebody_for_whom_no_node_answers_is_absent_only_when_the_list_says_so() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.double.fail("GetParticipant", Fault::NoResponse);
    stage.double.fail("MutePublishedTrack", Fault::NoResponse);
    assert_eq!(stage.plane.participant(&room(), &nobody()).await.unwrap(), None);
    let track: TrackSid = "TR_1".parse().unwrap();
    let muted = stage.plane.mute_track(&room(), &nobody(), &track, true).await.unwrap();
    assert_eq!(muted, MuteOutcome::NoSuchParticipant);
    assert!(stage.plane.participant(&room(), &alice()).await.is_err());
    assert!(stage.plane.mute_track(&room(), &alice(), &track, true).await.is_err());
    stage.double.fail("SendData", Fault::NoResponse);
    let message = ServerData { data: vec![1], topic: None, kind: DataKind::Lossy, to: vec![] };
    assert!(stage.plane.send_data(&room(), message).await.is_err(), "somebody is there and did not get it");
}

#[tokio::test]
async fn a_track_is_muted_and_one_that_is_not_there_is_no_success() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    let sid: TrackSid = stage.double.publish(ROOM, "alice", TrackType::Audio, Source::Microphone).parse().unwrap();
    let done = stage.plane.mute_track(&room(), &alice(), &sid, true).await.unwrap();
    assert!(matches!(done, MuteOutcome::Done(track) if track.muted && track.sid == sid));
    let unknown = "TR_unknown".parse().unwrap();
    let done = stage.plane.mute_track(&room(), &alice(), &unknown, true).await.unwrap();
    assert_eq!(done, MuteOutcome::NoSuchTrack);
    let done = stage.plane.mute_track(&room(), &nobody(), &sid, true).await.unwrap();
    assert_eq!(done, MuteOutcome::NoSuchParticipant);
    let asked: Vec<proto::MuteRoomTrackRequest> = stage.double.calls("MutePublishedTrack");
    assert!(
        asked.iter().all(|request| request.identity == "alice"),
        "LiveKit would look for nobody's node for seconds"
    );
}

#[tokio::test]
async fn unmuting_that_livekit_forbids_names_the_setting_and_is_a_success_where_nothing_is_muted() {
    let stage = Stage::new();
    stage.double.configure(Settings { remote_unmute: false, ..Settings::default() });
    stage.double.join(ROOM, &Joining::participant("alice"));
    let sid: TrackSid = stage.double.publish(ROOM, "alice", TrackType::Audio, Source::Microphone).parse().unwrap();
    let done = stage.plane.mute_track(&room(), &alice(), &sid, false).await.unwrap();
    assert!(matches!(done, MuteOutcome::Done(track) if !track.muted));
    stage.plane.mute_track(&room(), &alice(), &sid, true).await.unwrap();
    let refused = stage.plane.mute_track(&room(), &alice(), &sid, false).await.unwrap_err();
    assert!(message(refused).contains("room.enable_remote_unmute"));
    let unknown = "TR_unknown".parse().unwrap();
    let done = stage.plane.mute_track(&room(), &alice(), &unknown, false).await.unwrap();
    assert_eq!(done, MuteOutcome::NoSuchTrack);
}

#[tokio::test]
async fn only_the_join_that_is_meant_is_removed() {
    let stage = Stage::new();
    let first = stage.double.join(ROOM, &Joining::participant("alice")).parse().unwrap();
    let second = stage.double.join(ROOM, &Joining::participant("alice")).parse().unwrap();
    assert!(!stage.plane.remove_participant(&room(), &first).await.unwrap());
    assert_eq!(stage.plane.participants(&room()).await.unwrap().len(), 1);
    assert!(stage.plane.remove_participant(&room(), &second).await.unwrap());
    assert_eq!(stage.plane.participants(&room()).await.unwrap(), []);
    assert!(!stage.plane.remove_participant(&room(), &second).await.unwrap());
}

#[tokio::test]
async fn a_message_goes_to_whom_it_is_meant_for() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    let message =
        ServerData { data: b"hi".to_vec(), topic: Some("chat".into()), kind: DataKind::Lossy, to: vec![alice()] };
    stage.plane.send_data(&room(), message).await.unwrap();
    let sent = &stage.double.calls::<proto::SendDataRequest>("SendData")[0];
    assert_eq!((sent.data.as_slice(), sent.kind, sent.topic.as_deref()), (b"hi".as_slice(), 1, Some("chat")));
    assert_eq!((sent.destination_identities.as_slice(), sent.nonce.len()), (["alice".to_owned()].as_slice(), 16));
}

#[tokio::test]
async fn a_role_replaces_permissions_and_attributes_and_keeps_what_it_does_not_speak_of() {
    let stage = Stage::new();
    let attributes = [("svc.role", "guest"), ("svc.publish.max_kbps", "300"), ("team", "blue")];
    stage.double.join(ROOM, &Joining { attributes: &attributes, ..Joining::participant("alice") });
    let grants = Grants {
        can_publish_data: false,
        sources: vec![TrackSource::Microphone, TrackSource::ScreenShare],
        hidden: true,
        ..Grants::default()
    };
    let role = RoleGrant { role: "host".parse().unwrap(), grants, max_kbps: None };
    let changed = stage.plane.set_role(&room(), &alice(), role.clone()).await.unwrap().unwrap();
    let attributes: Vec<_> = changed.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(attributes, [("svc.role", "host"), ("team", "blue")]);
    let update = stage.double.calls::<proto::UpdateParticipantRequest>("UpdateParticipant").remove(0);
    let permission = update.permission.unwrap();
    assert!(permission.can_publish && permission.can_subscribe && permission.hidden && !permission.can_publish_data);
    assert_eq!(permission.can_publish_sources, [Source::Microphone as i32, Source::ScreenShare as i32]);
    assert_eq!((update.name.as_str(), update.metadata.as_str()), ("", ""), "empty is no change");
    assert_eq!(stage.plane.set_role(&room(), &nobody(), role).await.unwrap(), None);
}

#[tokio::test]
async fn a_room_is_closed_with_everybody_in_it() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.plane.close_room(&room()).await.unwrap();
    assert_eq!(stage.double.room(ROOM), None);
    stage.plane.close_room(&room()).await.unwrap();
}

#[tokio::test]
async fn a_survey_finds_what_is_live_in_the_rooms_of_its_project() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.double.join("prj_ffffffffffff.other", &Joining::participant("bob"));
    stage.double.join("not ours", &Joining::participant("carol"));
    stage.double.join("prj_0123456789ab.left", &Joining::participant("dave"));
    stage.double.leave("prj_0123456789ab.left", "dave", proto::DisconnectReason::ClientInitiated);
    let project = room().split().0;
    let survey = stage.plane.survey(&project).await.unwrap();
    assert_eq!((survey.rooms, survey.egresses.len(), survey.ingresses.len()), (vec![room()], 0, 0));
    assert_eq!(survey.empty_rooms, ["prj_0123456789ab.left".parse().unwrap()]);
    stage.double.configure(Settings { redis: false, ..Settings::default() });
    let survey = stage.plane.survey(&project).await.unwrap();
    assert_eq!(survey.rooms, [room()], "a LiveKit without Redis has rooms all the same");
}
