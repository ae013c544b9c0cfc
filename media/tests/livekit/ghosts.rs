//! Ghost participants: LiveKit lists them, but no node has a connection to them.

use conclave_media::{MediaPlane, MuteOutcome};
use livekit_double::{Fault, Joining, Settings};
use livekit_protocol as proto;

use super::{ROOM, TestPlane, alice, eventually, room};

async fn identities(test: &TestPlane) -> Vec<String> {
    let participants = test.plane.participants(&room()).await.unwrap();
    participants
        .into_iter()
        .map(|participant| participant.identity.to_string())
        .collect()
}

fn searches(test: &TestPlane) -> usize {
    test.double
        .calls::<proto::CreateRoomRequest>("CreateRoom")
        .len()
}

#[tokio::test]
async fn a_listed_participant_without_a_node_is_absent_after_the_search() {
    let test = TestPlane::new();
    for identity in ["alice", "bob"] {
        test.double.join(ROOM, &Joining::participant(identity));
    }
    let track = test.double.publish(
        ROOM,
        "alice",
        proto::TrackType::Audio,
        proto::TrackSource::Microphone,
    );
    test.double.make_ghost(ROOM, "alice");
    assert_eq!(
        identities(&test).await,
        ["alice", "bob"],
        "the caller does not wait for the search"
    );
    while identities(&test).await != ["bob"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        test.plane.participant(&room(), &alice()).await.unwrap(),
        None
    );
    let muted = test
        .plane
        .mute_track(&room(), &alice(), &track.parse().unwrap(), true)
        .await
        .unwrap();
    assert_eq!(muted, MuteOutcome::NoSuchParticipant);
    test.double.join(ROOM, &Joining::participant("alice"));
    assert_eq!(
        identities(&test).await,
        ["alice", "bob"],
        "a new connection has a new sid"
    );
}

#[tokio::test]
async fn a_room_with_only_ghosts_is_empty_and_stays_empty() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.double.make_ghost(ROOM, "alice");
    while !identities(&test).await.is_empty() {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        assert!(identities(&test).await.is_empty());
    }
}

#[tokio::test]
async fn a_room_whose_node_died_is_empty_and_can_be_closed() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.double.lose_node(ROOM);
    while !identities(&test).await.is_empty() {
        tokio::task::yield_now().await;
    }
    test.double.lose_node(ROOM);
    test.plane.close_room(&room()).await.unwrap();
    assert_eq!(test.double.room(ROOM), None);
    test.double.join(ROOM, &Joining::participant("alice"));
    let forgotten = Fault::Twirp(500, "unknown", "twirp error unknown: could not find object");
    test.double.fail("DeleteRoom", forgotten);
    test.plane.close_room(&room()).await.unwrap_err();
    assert_eq!(searches(&test), 3, "the deletion is repeated once");
}

#[tokio::test]
async fn a_livekit_that_lists_by_the_rooms_node_assigns_one_to_a_room_without() {
    let test = TestPlane::new();
    test.double.configure(Settings {
        node_lists: true,
        ..Settings::default()
    });
    assert!(identities(&test).await.is_empty(), "the room is not live");
    test.double.join(ROOM, &Joining::participant("alice"));
    assert_eq!(identities(&test).await, ["alice"]);
    eventually(|| searches(&test) == 1).await;
    test.double.lose_node(ROOM);
    identities(&test).await;
    assert!(searches(&test) >= 2, "the room has a node again");
}

#[tokio::test]
async fn a_search_that_misses_no_participant_makes_no_further_call_and_is_not_repeated_at_once() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    for _ in 0..3 {
        assert_eq!(identities(&test).await, ["alice"]);
    }
    eventually(|| searches(&test) == 1).await;
    assert_eq!(identities(&test).await, ["alice"]);
    assert!(
        test.double
            .calls::<proto::UpdateSubscriptionsRequest>("UpdateSubscriptions")
            .is_empty()
    );
    assert_eq!(searches(&test), 1);
}

#[tokio::test]
async fn no_participant_is_a_ghost_while_its_node_does_not_answer() {
    let test = TestPlane::new();
    test.double.join(ROOM, &Joining::participant("alice"));
    test.double.fail("CreateRoom", Fault::NoResponse);
    test.double.fail("UpdateSubscriptions", Fault::NoResponse);
    for _ in 0..50 {
        assert_eq!(identities(&test).await, ["alice"]);
    }
}
