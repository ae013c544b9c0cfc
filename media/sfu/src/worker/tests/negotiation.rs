//! Crossing offers by both sides.

use std::time::Duration;

use str0m::format::Codec;

use super::world::{BETWEEN_OFFERS, World};
use crate::command::{ConnectionMode, PeerCommand};
use crate::event::PeerEvent;

/// Returns the number of offers that a client has received.
fn offers(world: &World, client: usize) -> usize {
    world.clients[client]
        .events
        .iter()
        .filter(|event| matches!(event, PeerEvent::Offered { .. }))
        .count()
}

/// Subscribes a client to tracks, a few milliseconds apart.
fn subscribe_in_turn(world: &mut World, client: usize, tracks: &[&str]) {
    let peer = world.clients[client].name;
    for track in tracks {
        world.command(
            PeerCommand::Subscribe(track.parse().unwrap()).for_peer(peer.parse().unwrap()),
        );
        world.run(Duration::from_millis(5));
    }
}

#[test]
fn changes_that_follow_each_other_closely_are_one_offer() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let tracks = ["TR_1", "TR_2", "TR_3"];
    for track in tracks {
        world.publish(alice, track, Codec::Opus, &[]);
    }
    let bob = world.join_connected("PA_bob", ConnectionMode::Dual);
    world.run(BETWEEN_OFFERS);
    let before = offers(&world, bob);
    subscribe_in_turn(&mut world, bob, &tracks);
    world.run(BETWEEN_OFFERS);
    assert_eq!(offers(&world, bob), before + 1);
    assert_eq!(world.receiver(bob).tracks.len(), 3);
}

#[test]
fn a_change_right_after_an_offer_is_offered_a_while_later_and_never_before_the_answer() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let bob = world.join_connected("PA_bob", ConnectionMode::Dual);
    let [first, second] =
        ["TR_1", "TR_2"].map(|track| world.publish(alice, track, Codec::Opus, &[]));
    world.subscribe(bob, &first);
    world.run(BETWEEN_OFFERS);
    let before = offers(&world, bob);
    // A participant leaves and comes back: its section is freed, offered, answered, and carries another track.
    let unsubscribe = PeerCommand::Unsubscribe(first.sid.parse().unwrap());
    world.command(unsubscribe.for_peer("PA_bob".parse().unwrap()));
    world.run_until("the section is offered as free", |world| {
        offers(world, bob) == before + 1
    });
    let begun = world.now;
    subscribe_in_turn(&mut world, bob, &["TR_2"]);
    world.run_until("the track is offered", |world| {
        offers(world, bob) == before + 2
    });
    assert!(
        world.now - begun >= Duration::from_millis(150),
        "{:?}",
        world.now - begun
    );
    assert_eq!(
        world.receiver(bob).tracks.values().collect::<Vec<_>>(),
        [&second.sid]
    );

    world.clients[bob].answers = false;
    world.unsubscribe(bob, &second);
    subscribe_in_turn(&mut world, bob, &["TR_1"]);
    world.run(Duration::from_secs(3));
    assert_eq!(
        offers(&world, bob),
        before + 3,
        "the last one is not answered"
    );
    world.clients[bob].answers = true;
    world.answer_late(bob);
    world.run(BETWEEN_OFFERS);
    assert_eq!(offers(&world, bob), before + 4);
}

#[test]
fn an_offer_of_the_client_does_not_count_as_its_answer_to_that_of_the_server() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let mut voice = world.publish(alice, "TR_voice", Codec::Opus, &[]);
    let bob = world.join_connected("PA_bob", ConnectionMode::Dual);
    world.clients[bob].answers = false;
    world.subscribe(bob, &voice);
    world.publish(bob, "TR_bob", Codec::Opus, &[]);
    world.answer_late(bob);
    let refused = PeerEvent::CodecUnsupported(voice.sid.parse().unwrap());
    assert!(!world.clients[bob].events.contains(&refused));
    world.send(&mut voice, None, &[1]);
    assert_eq!(world.received(bob, &voice).len(), 1);
}

#[test]
fn a_section_is_offered_as_inactive_although_the_client_makes_an_offer_of_its_own() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let mut voice = world.publish(alice, "TR_voice", Codec::Opus, &[]);
    let bob = world.join_connected("PA_bob", ConnectionMode::Dual);
    world.subscribe(bob, &voice);
    world.clients[bob].answers = false;
    let other = world.publish(alice, "TR_other", Codec::Opus, &[]);
    world.subscribe(bob, &other);
    world.unsubscribe(bob, &voice);
    world.publish(bob, "TR_bob", Codec::Opus, &[]);
    world.clients[bob].answers = true;
    world.answer_late(bob);
    world.run(BETWEEN_OFFERS);
    assert_eq!(
        world.receiver(bob).tracks.values().collect::<Vec<_>>(),
        [&other.sid]
    );
    world.send(&mut voice, None, &[1]);
    assert!(world.receiver(bob).received.is_empty());
}

#[test]
fn pictures_are_rotated_before_they_are_encoded_since_their_orientation_is_not_negotiated() {
    const ORIENTATION: &str = "urn:3gpp:video-orientation";
    let mut world = World::new();
    world.abilities.estimates = true;
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let camera = world.publish(alice, "TR_camera", Codec::Vp8, &[]);
    assert!(
        world.clients[alice].last_offer.contains(ORIENTATION),
        "the client can say how a picture is rotated"
    );
    let bob = world.join_connected("PA_bob", ConnectionMode::Dual);
    world.subscribe(bob, &camera);
    let descriptions = world
        .clients
        .iter()
        .flat_map(|client| &client.events)
        .filter_map(|event| match event {
            PeerEvent::Offered { sdp, .. } | PeerEvent::Answered { sdp, .. } => Some(sdp),
            _ => None,
        });
    let of_video: Vec<_> = descriptions.filter(|sdp| sdp.contains("m=video")).collect();
    assert_eq!(of_video.len(), 2, "to each client");
    assert!(
        of_video
            .iter()
            .all(|sdp| sdp.contains("a=extmap:") && !sdp.contains(ORIENTATION)),
        "{of_video:?}"
    );
}

#[test]
fn a_participant_who_only_receives_has_one_connection_until_it_offers_another() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let roles = |world: &mut World| {
        let snapshot = world.snapshot(&["PA_alice"]);
        Vec::from_iter(
            snapshot[0]
                .transports
                .iter()
                .map(|transport| transport.role),
        )
    };
    assert_eq!(roles(&mut world), ["subscriber"]);
    world.publish(alice, "TR_voice", Codec::Opus, &[]);
    assert_eq!(roles(&mut world), ["publisher", "subscriber"]);
    world.publish(alice, "TR_camera", Codec::Vp8, &[]);
    assert_eq!(roles(&mut world), ["publisher", "subscriber"]);
}
