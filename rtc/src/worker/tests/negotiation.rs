//! Offers of both sides that cross each other.

use str0m::format::Codec;

use super::world::World;
use crate::command::ConnectionMode;
use crate::event::PeerEvent;

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
    assert_eq!(world.receiver(bob).tracks.values().collect::<Vec<_>>(), [&other.sid]);
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
    assert!(world.clients[alice].last_offer.contains(ORIENTATION), "the client can say how a picture is rotated");
    let bob = world.join_connected("PA_bob", ConnectionMode::Dual);
    world.subscribe(bob, &camera);
    let descriptions = world.clients.iter().flat_map(|client| &client.events).filter_map(|event| match event {
        PeerEvent::Offered { sdp, .. } | PeerEvent::Answered { sdp, .. } => Some(sdp),
        _ => None,
    });
    let of_video: Vec<_> = descriptions.filter(|sdp| sdp.contains("m=video")).collect();
    assert_eq!(of_video.len(), 2, "to each client");
    assert!(of_video.iter().all(|sdp| sdp.contains("a=extmap:") && !sdp.contains(ORIENTATION)), "{of_video:?}");
}

#[test]
fn a_participant_who_only_receives_has_one_connection_until_it_offers_another() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let roles = |world: &mut World| {
        let snapshot = world.snapshot(&["PA_alice"]);
        Vec::from_iter(snapshot[0].transports.iter().map(|transport| transport.role))
    };
    assert_eq!(roles(&mut world), ["subscriber"]);
    world.publish(alice, "TR_voice", Codec::Opus, &[]);
    assert_eq!(roles(&mut world), ["publisher", "subscriber"]);
    world.publish(alice, "TR_camera", Codec::Vp8, &[]);
    assert_eq!(roles(&mut world), ["publisher", "subscriber"]);
}
