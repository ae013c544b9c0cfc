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
    let refused = PeerEvent::CodecUnsupported { track: voice.sid.parse().unwrap() };
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
