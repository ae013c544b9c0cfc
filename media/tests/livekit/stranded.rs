//! People whom LiveKit lists and has not: found, believed no more, and let in again.

use conclave_media::{MediaPlane, MuteOutcome};
use livekit_double::{Fault, Joining, Settings};
use livekit_protocol as proto;

use super::{ROOM, Stage, alice, eventually, room};

async fn identities(stage: &Stage) -> Vec<String> {
    let people = stage.plane.participants(&room()).await.unwrap();
    people.into_iter().map(|person| person.identity.to_string()).collect()
}

fn looks(stage: &Stage) -> usize {
    stage.double.calls::<proto::CreateRoomRequest>("CreateRoom").len()
}

#[tokio::test]
async fn who_is_listed_and_on_no_node_is_not_there_once_somebody_has_looked() {
    let stage = Stage::new();
    for identity in ["alice", "bob"] {
        stage.double.join(ROOM, &Joining::participant(identity));
    }
    let track = stage.double.publish(ROOM, "alice", proto::TrackType::Audio, proto::TrackSource::Microphone);
    stage.double.make_ghost(ROOM, "alice");
    assert_eq!(identities(&stage).await, ["alice", "bob"], "the caller is not kept waiting");
    while identities(&stage).await != ["bob"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.plane.participant(&room(), &alice()).await.unwrap(), None);
    let muted = stage.plane.mute_track(&room(), &alice(), &track.parse().unwrap(), true).await.unwrap();
    assert_eq!(muted, MuteOutcome::NoSuchParticipant);
    stage.double.join(ROOM, &Joining::participant("alice"));
    assert_eq!(identities(&stage).await, ["alice", "bob"], "a new connection is somebody else");
}

#[tokio::test]
async fn a_room_in_which_only_those_are_left_is_empty_and_stays_so() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.double.make_ghost(ROOM, "alice");
    while !identities(&stage).await.is_empty() {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        assert!(identities(&stage).await.is_empty());
    }
}

#[tokio::test]
async fn a_room_whose_node_died_is_found_empty_and_can_be_closed() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.double.lose_node(ROOM);
    while !identities(&stage).await.is_empty() {
        tokio::task::yield_now().await;
    }
    stage.double.lose_node(ROOM);
    stage.plane.close_room(&room()).await.unwrap();
    assert_eq!(stage.double.room(ROOM), None);
    stage.double.join(ROOM, &Joining::participant("alice"));
    let forgotten = Fault::Twirp(500, "unknown", "twirp error unknown: could not find object");
    stage.double.fail("DeleteRoom", forgotten);
    stage.plane.close_room(&room()).await.unwrap_err();
    assert_eq!(looks(&stage), 3, "it is tried once more");
}

#[tokio::test]
async fn a_livekit_that_asks_the_rooms_node_knows_rooms_without_one_too() {
    let stage = Stage::new();
    stage.double.configure(Settings { node_lists: true, ..Settings::default() });
    assert!(identities(&stage).await.is_empty(), "nobody has joined");
    stage.double.join(ROOM, &Joining::participant("alice"));
    assert_eq!(identities(&stage).await, ["alice"]);
    eventually(|| looks(&stage) == 1).await;
    stage.double.lose_node(ROOM);
    identities(&stage).await;
    assert!(looks(&stage) >= 2, "the room has a node again");
}

#[tokio::test]
async fn where_everybody_is_there_a_look_asks_after_nobody_and_holds_a_while() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    for _ in 0..3 {
        assert_eq!(identities(&stage).await, ["alice"]);
    }
    eventually(|| looks(&stage) == 1).await;
    assert_eq!(identities(&stage).await, ["alice"]);
    assert!(stage.double.calls::<proto::UpdateSubscriptionsRequest>("UpdateSubscriptions").is_empty());
    assert_eq!(looks(&stage), 1);
}

#[tokio::test]
async fn while_the_node_does_not_answer_nobody_is_given_up() {
    let stage = Stage::new();
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.double.fail("CreateRoom", Fault::NoResponse);
    stage.double.fail("UpdateSubscriptions", Fault::NoResponse);
    for _ in 0..50 {
        assert_eq!(identities(&stage).await, ["alice"]);
    }
}
