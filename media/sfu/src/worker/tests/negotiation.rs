//! Crossing offers by both sides.

use std::time::Duration;

use str0m::format::Codec;

use super::fixture::{BETWEEN_OFFERS, Fixture};
use crate::command::{ConnectionMode, PeerCommand};
use crate::event::PeerEvent;

/// Returns the number of offers that a client has received.
fn offers(fixture: &Fixture, client: usize) -> usize {
    fixture.clients[client]
        .events
        .iter()
        .filter(|event| matches!(event, PeerEvent::Offered { .. }))
        .count()
}

/// Subscribes a client to tracks, a few milliseconds apart.
fn subscribe_in_turn(fixture: &mut Fixture, client: usize, tracks: &[&str]) {
    let peer = fixture.clients[client].name;
    for track in tracks {
        fixture.command(
            PeerCommand::Subscribe(track.parse().unwrap()).for_peer(peer.parse().unwrap()),
        );
        fixture.run(Duration::from_millis(5));
    }
}

#[test]
fn changes_that_follow_each_other_closely_are_one_offer() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let tracks = ["TR_1", "TR_2", "TR_3"];
    for track in tracks {
        fixture.publish(alice, track, Codec::Opus, &[]);
    }
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Dual);
    fixture.run(BETWEEN_OFFERS);
    let before = offers(&fixture, bob);
    subscribe_in_turn(&mut fixture, bob, &tracks);
    fixture.run(BETWEEN_OFFERS);
    assert_eq!(offers(&fixture, bob), before + 1);
    assert_eq!(fixture.receiver(bob).tracks.len(), 3);
}

#[test]
fn a_change_right_after_an_offer_is_offered_a_while_later_and_never_before_the_answer() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Dual);
    let [first, second] =
        ["TR_1", "TR_2"].map(|track| fixture.publish(alice, track, Codec::Opus, &[]));
    fixture.subscribe(bob, &first);
    fixture.run(BETWEEN_OFFERS);
    let before = offers(&fixture, bob);
    // A participant leaves and rejoins: its section is freed, offered, answered, and carries another track.
    let unsubscribe = PeerCommand::Unsubscribe(first.sid.parse().unwrap());
    fixture.command(unsubscribe.for_peer("PA_bob".parse().unwrap()));
    fixture.run_until("the section is offered as free", |fixture| {
        offers(fixture, bob) == before + 1
    });
    let begun = fixture.now;
    subscribe_in_turn(&mut fixture, bob, &["TR_2"]);
    fixture.run_until("the track is offered", |fixture| {
        offers(fixture, bob) == before + 2
    });
    assert!(
        fixture.now - begun >= Duration::from_millis(150),
        "{:?}",
        fixture.now - begun
    );
    assert_eq!(
        fixture.receiver(bob).tracks.values().collect::<Vec<_>>(),
        [&second.sid]
    );

    fixture.clients[bob].answers = false;
    fixture.unsubscribe(bob, &second);
    subscribe_in_turn(&mut fixture, bob, &["TR_1"]);
    fixture.run(Duration::from_secs(3));
    assert_eq!(
        offers(&fixture, bob),
        before + 3,
        "the last one is not answered"
    );
    fixture.clients[bob].answers = true;
    fixture.answer_late(bob);
    fixture.run(BETWEEN_OFFERS);
    assert_eq!(offers(&fixture, bob), before + 4);
}

#[test]
fn an_offer_of_the_client_does_not_count_as_its_answer_to_that_of_the_server() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Dual);
    fixture.clients[bob].answers = false;
    fixture.subscribe(bob, &voice);
    fixture.publish(bob, "TR_bob", Codec::Opus, &[]);
    fixture.answer_late(bob);
    let refused = PeerEvent::CodecUnsupported(voice.sid.parse().unwrap());
    assert!(!fixture.clients[bob].events.contains(&refused));
    fixture.send(&mut voice, None, &[1]);
    assert_eq!(fixture.received(bob, &voice).len(), 1);
}

#[test]
fn a_section_is_offered_as_inactive_although_the_client_makes_an_offer_of_its_own() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Dual);
    fixture.subscribe(bob, &voice);
    fixture.clients[bob].answers = false;
    let other = fixture.publish(alice, "TR_other", Codec::Opus, &[]);
    fixture.subscribe(bob, &other);
    fixture.unsubscribe(bob, &voice);
    fixture.publish(bob, "TR_bob", Codec::Opus, &[]);
    fixture.clients[bob].answers = true;
    fixture.answer_late(bob);
    fixture.run(BETWEEN_OFFERS);
    assert_eq!(
        fixture.receiver(bob).tracks.values().collect::<Vec<_>>(),
        [&other.sid]
    );
    fixture.send(&mut voice, None, &[1]);
    assert!(fixture.receiver(bob).received.is_empty());
}

#[test]
fn pictures_are_rotated_before_they_are_encoded_since_their_orientation_is_not_negotiated() {
    const ORIENTATION: &str = "urn:3gpp:video-orientation";
    let mut fixture = Fixture::new();
    fixture.abilities.estimates = true;
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    assert!(
        fixture.clients[alice].last_offer.contains(ORIENTATION),
        "the client can say how a picture is rotated"
    );
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Dual);
    fixture.subscribe(bob, &camera);
    let descriptions = fixture
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
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let roles = |fixture: &mut Fixture| {
        let snapshot = fixture.snapshot(&["PA_alice"]);
        Vec::from_iter(
            snapshot[0]
                .transports
                .iter()
                .map(|transport| transport.role),
        )
    };
    assert_eq!(roles(&mut fixture), ["subscriber"]);
    fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    assert_eq!(roles(&mut fixture), ["publisher", "subscriber"]);
    fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    assert_eq!(roles(&mut fixture), ["publisher", "subscriber"]);
}
