//! Rooms, participants and moderation.

use conclave_media::token::Grants;
use conclave_media::{MediaPlane, MuteOutcome, RoleGrant, ServerData};
use conclave_model::participant::{DataKind, ParticipantKind, TrackKind, TrackSource};
use conclave_model::{Identity, TrackSid};
use livekit_double::{Fault, Joining, Settings};
use livekit_protocol as proto;
use proto::participant_info::Kind;
use proto::{TrackSource as Source, TrackType};

use super::{ROOM, TestPlane, alice, message, room};

fn absent() -> Identity {
    "absent".parse().unwrap()
}

#[tokio::test]
async fn participants_are_listed_with_their_tracks() {
    let test = TestPlane::new();
    let alice_sid = test.double.join(
        ROOM,
        &Joining {
            attributes: &[("svc.role", "host")],
            ..Joining::participant("alice")
        },
    );
    test.double.join(
        ROOM,
        &Joining {
            kind: Kind::Connector,
            ..Joining::participant("phone")
        },
    );
    let track = test
        .double
        .publish(ROOM, "alice", TrackType::Video, Source::Camera);
    let participants = test.plane.participants(&room()).await.unwrap();
    assert_eq!(participants.len(), 2);
    let found = participants
        .iter()
        .find(|participant| participant.identity == alice())
        .unwrap();
    assert_eq!(
        (found.sid.as_str(), found.role().unwrap().as_str()),
        (alice_sid.as_str(), "host")
    );
    assert_eq!(
        (found.tracks[0].sid.as_str(), found.tracks[0].kind),
        (track.as_str(), TrackKind::Video)
    );
    assert_eq!(
        (found.tracks[0].source, found.tracks[0].simulcast),
        (TrackSource::Camera, Some(false))
    );
    assert!(found.joined_at.is_some() && found.is_publisher);
    assert!(
        participants
            .iter()
            .all(|participant| participant.kind == ParticipantKind::Standard)
    );
    assert_eq!(
        test.plane
            .participant(&room(), &alice())
            .await
            .unwrap()
            .unwrap(),
        *found
    );
}

#[tokio::test]
async fn a_room_that_is_not_live_has_no_participants() {
    let test = TestPlane::new();
    assert_eq!(test.plane.participants(&room()).await.unwrap(), []);
    assert_eq!(
        test.plane.participant(&room(), &alice()).await.unwrap(),
        None
    );
    test.plane.close_room(&room()).await.unwrap();
    let message = ServerData {
        data: vec![1],
        topic: None,
        kind: DataKind::Reliable,
        to: vec![],
    };
    test.plane.send_data(&room(), message).await.unwrap();
}

#[tokio::test]
async fn a_participant_without_a_node_is_absent_only_if_it_is_not_listed() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.double.fail("GetParticipant", Fault::NoResponse);
    test.double.fail("MutePublishedTrack", Fault::NoResponse);
    assert_eq!(
        test.plane.participant(&room(), &absent()).await.unwrap(),
        None
    );
    let track: TrackSid = "TR_1".parse().unwrap();
    let muted = test
        .plane
        .mute_track(&room(), &absent(), &track, true)
        .await
        .unwrap();
    assert_eq!(muted, MuteOutcome::NoSuchParticipant);
    assert!(test.plane.participant(&room(), &alice()).await.is_err());
    assert!(
        test.plane
            .mute_track(&room(), &alice(), &track, true)
            .await
            .is_err()
    );
    test.double.fail("SendData", Fault::NoResponse);
    let message = ServerData {
        data: vec![1],
        topic: None,
        kind: DataKind::Lossy,
        to: vec![],
    };
    assert!(
        test.plane.send_data(&room(), message).await.is_err(),
        "a participant is connected and did not receive it"
    );
}

#[tokio::test]
async fn a_track_is_muted_and_an_unknown_track_is_not() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    let sid: TrackSid = test
        .double
        .publish(ROOM, "alice", TrackType::Audio, Source::Microphone)
        .parse()
        .unwrap();
    let done = test
        .plane
        .mute_track(&room(), &alice(), &sid, true)
        .await
        .unwrap();
    assert!(matches!(done, MuteOutcome::Done(track) if track.muted && track.sid == sid));
    let unknown = "TR_unknown".parse().unwrap();
    let done = test
        .plane
        .mute_track(&room(), &alice(), &unknown, true)
        .await
        .unwrap();
    assert_eq!(done, MuteOutcome::NoSuchTrack);
    let done = test
        .plane
        .mute_track(&room(), &absent(), &sid, true)
        .await
        .unwrap();
    assert_eq!(done, MuteOutcome::NoSuchParticipant);
    let requests: Vec<proto::MuteRoomTrackRequest> = test.double.calls("MutePublishedTrack");
    assert!(
        requests.iter().all(|request| request.identity == "alice"),
        "LiveKit would search the node of an absent participant for seconds"
    );
}

#[tokio::test]
async fn a_forbidden_unmute_names_the_setting_and_succeeds_if_the_track_is_not_muted() {
    let test = TestPlane::new();
    test.double.configure(Settings {
        remote_unmute: false,
        ..Settings::default()
    });
    test.double.join(ROOM, &Joining::participant("alice"));
    let sid: TrackSid = test
        .double
        .publish(ROOM, "alice", TrackType::Audio, Source::Microphone)
        .parse()
        .unwrap();
    let done = test
        .plane
        .mute_track(&room(), &alice(), &sid, false)
        .await
        .unwrap();
    assert!(matches!(done, MuteOutcome::Done(track) if !track.muted));
    test.plane
        .mute_track(&room(), &alice(), &sid, true)
        .await
        .unwrap();
    let refused = test
        .plane
        .mute_track(&room(), &alice(), &sid, false)
        .await
        .unwrap_err();
    assert!(message(refused).contains("room.enable_remote_unmute"));
    let unknown = "TR_unknown".parse().unwrap();
    let done = test
        .plane
        .mute_track(&room(), &alice(), &unknown, false)
        .await
        .unwrap();
    assert_eq!(done, MuteOutcome::NoSuchTrack);
}

#[tokio::test]
async fn only_the_participant_with_the_given_sid_is_removed() {
    let test = TestPlane::new();
    let first = test
        .double
        .join(ROOM, &Joining::participant("alice"))
        .parse()
        .unwrap();
    let second = test
        .double
        .join(ROOM, &Joining::participant("alice"))
        .parse()
        .unwrap();
    assert!(
        !test
            .plane
            .remove_participant(&room(), &first)
            .await
            .unwrap()
    );
    assert_eq!(test.plane.participants(&room()).await.unwrap().len(), 1);
    assert!(
        test.plane
            .remove_participant(&room(), &second)
            .await
            .unwrap()
    );
    assert_eq!(test.plane.participants(&room()).await.unwrap(), []);
    assert!(
        !test
            .plane
            .remove_participant(&room(), &second)
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn a_message_names_its_recipients() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    let message = ServerData {
        data: b"hi".to_vec(),
        topic: Some("chat".into()),
        kind: DataKind::Lossy,
        to: vec![alice()],
    };
    test.plane.send_data(&room(), message).await.unwrap();
    let sent = &test.double.calls::<proto::SendDataRequest>("SendData")[0];
    assert_eq!(
        (sent.data.as_slice(), sent.kind, sent.topic.as_deref()),
        (b"hi".as_slice(), 1, Some("chat"))
    );
    assert_eq!(
        (sent.destination_identities.as_slice(), sent.nonce.len()),
        (["alice".to_owned()].as_slice(), 16)
    );
}

#[tokio::test]
async fn a_role_replaces_permissions_and_its_attributes_and_keeps_other_attributes() {
    let test = TestPlane::new();
    let attributes = [
        ("svc.role", "guest"),
        ("svc.publish.max_kbps", "300"),
        ("team", "blue"),
    ];
    test.double.join(
        ROOM,
        &Joining {
            attributes: &attributes,
            ..Joining::participant("alice")
        },
    );
    let grants = Grants {
        can_publish_data: false,
        sources: vec![TrackSource::Microphone, TrackSource::ScreenShare],
        hidden: true,
        can_update_own_metadata: true,
        ..Grants::default()
    };
    let role = RoleGrant {
        role: "host".parse().unwrap(),
        grants,
        max_kbps: None,
    };
    let changed = test
        .plane
        .set_role(&room(), &alice(), role.clone())
        .await
        .unwrap()
        .unwrap();
    let attributes: Vec<_> = changed
        .attributes
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(attributes, [("svc.role", "host"), ("team", "blue")]);
    let update = test
        .double
        .calls::<proto::UpdateParticipantRequest>("UpdateParticipant")
        .remove(0);
    let permission = update.permission.unwrap();
    assert!(
        permission.can_publish
            && permission.can_subscribe
            && permission.hidden
            && !permission.can_publish_data
    );
    assert_eq!(
        permission.can_publish_sources,
        [Source::Microphone as i32, Source::ScreenShare as i32]
    );
    assert!(
        !permission.can_update_metadata,
        "LiveKit would let its client change the attribute with its role"
    );
    assert_eq!(
        (update.name.as_str(), update.metadata.as_str()),
        ("", ""),
        "LiveKit keeps a field that is empty"
    );
    assert_eq!(
        test.plane.set_role(&room(), &absent(), role).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn closing_a_room_disconnects_its_participants() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.plane.close_room(&room()).await.unwrap();
    assert_eq!(test.double.room(ROOM), None);
    test.plane.close_room(&room()).await.unwrap();
}

#[tokio::test]
async fn a_survey_returns_the_live_rooms_and_is_shared_out_to_their_projects() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.double
        .join("prj_ffffffffffff.other", &Joining::participant("bob"));
    test.double.join("not ours", &Joining::participant("carol"));
    test.double
        .join("prj_0123456789ab.left", &Joining::participant("dave"));
    test.double.leave(
        "prj_0123456789ab.left",
        "dave",
        proto::DisconnectReason::ClientInitiated,
    );
    let project = room().split().0;
    let mut shares = test.plane.inventory().await.unwrap().by_project();
    let inventory = shares.remove(&project).unwrap();
    assert_eq!(
        (
            inventory.rooms,
            inventory.egresses.len(),
            inventory.ingresses.len()
        ),
        (vec![room()], 0, 0)
    );
    assert_eq!(
        inventory.empty_rooms,
        ["prj_0123456789ab.left".parse().unwrap()]
    );
    let (other, inventory) = shares.pop_first().unwrap();
    assert_eq!(
        (other.as_str(), inventory.rooms),
        (
            "prj_ffffffffffff",
            vec!["prj_ffffffffffff.other".parse().unwrap()]
        )
    );
    assert!(shares.is_empty(), "a room of no project is in no share");
    test.double.configure(Settings {
        redis: false,
        ..Settings::default()
    });
    let inventory = test
        .plane
        .inventory()
        .await
        .unwrap()
        .by_project()
        .remove(&project)
        .unwrap();
    assert_eq!(
        inventory.rooms,
        [room()],
        "LiveKit has rooms without Redis too"
    );
}
