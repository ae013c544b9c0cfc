//! Network failures, and clients that come back.

use std::time::Duration;

use str0m::format::Codec;

use super::world::World;
use super::{MODES, alice_and_bob};
use crate::command::{ConnectionMode, PeerCommand};
use crate::event::{FailureReason, PeerEvent};

#[test]
fn media_goes_on_while_ice_restarts() {
    for mode in MODES {
        let (mut world, alice, bob) = alice_and_bob(mode);
        let mut voice = world.publish(alice, "TR_voice", Codec::Opus, &[]);
        world.subscribe(bob, &voice);
        for round in 0..3 {
            for (client, name) in [(alice, "PA_alice"), (bob, "PA_bob")] {
                world.command(PeerCommand::Resume.for_peer(name.parse().unwrap()));
                if mode == ConnectionMode::Single || client == alice {
                    world.offer(client, None, [0, 0], true);
                }
            }
            for _ in 0..100 {
                world.send(&mut voice, None, &[round]);
                world.run(Duration::from_millis(20));
            }
        }
        assert_eq!(world.received(bob, &voice).len(), 300, "{mode:?}");
        assert!(world.clients[bob].events.contains(&PeerEvent::Resumed {
            last_message_seq: 0
        }));
    }
}

#[test]
fn a_silent_participant_is_interrupted_then_failed_and_can_recover() {
    for mode in MODES {
        let mut world = World::new();
        let alice = world.join_connected("PA_alice", mode);
        world.loses = Box::new(|_, _, _| true);
        world.run(Duration::from_secs(9));
        assert!(
            !world.clients[alice]
                .events
                .contains(&PeerEvent::Interrupted),
            "{mode:?}"
        );
        world.run(Duration::from_secs(3));
        assert!(
            world.clients[alice]
                .events
                .contains(&PeerEvent::Interrupted),
            "{mode:?}"
        );
        let failed = PeerEvent::Failed(FailureReason::Silent);
        assert!(!world.clients[alice].events.contains(&failed), "{mode:?}");
        world.run(Duration::from_secs(5));
        assert!(world.clients[alice].events.contains(&failed), "{mode:?}");
        world.loses = Box::new(|_, _, _| false);
        world.command(PeerCommand::Resume.for_peer("PA_alice".parse().unwrap()));
        if mode == ConnectionMode::Single {
            world.offer(alice, None, [0, 0], true);
        }
        world.run_until("the participant recovers", |world| {
            world.clients[alice].events.last() == Some(&PeerEvent::Recovered)
        });
    }
}

#[test]
fn a_client_that_closes_its_connection_fails_alone() {
    for mode in MODES {
        let (mut world, alice, bob) = alice_and_bob(mode);
        world.receiver(alice).rtc.close().unwrap();
        world.run(Duration::from_millis(100));
        assert!(
            world.clients[alice]
                .events
                .contains(&PeerEvent::Failed(FailureReason::Closed)),
            "{mode:?}"
        );
        assert!(
            !world.clients[bob]
                .events
                .iter()
                .any(|event| matches!(event, PeerEvent::Failed(_))),
            "{mode:?}"
        );
    }
}

#[test]
fn an_offer_that_is_not_answered_fails_the_participant() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let bob = world.join_connected("PA_bob", ConnectionMode::Dual);
    let voice = world.publish(alice, "TR_voice", Codec::Opus, &[]);
    world.clients[bob].answers = false;
    world.subscribe(bob, &voice);
    world.run(Duration::from_secs(17));
    assert!(
        world.clients[bob]
            .events
            .contains(&PeerEvent::Failed(FailureReason::AnswerTimeout))
    );
}

#[test]
fn an_offer_that_was_lost_with_the_signalling_is_made_again_at_the_resume() {
    for is_connected in [true, false] {
        let mut world = World::new();
        let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
        let mut voice = world.publish(alice, "TR_voice", Codec::Opus, &[]);
        world.answers = is_connected;
        let bob = world.join("PA_bob", ConnectionMode::Dual);
        world.run(Duration::from_secs(1));
        world.clients[bob].answers = false;
        world.subscribe(bob, &voice);
        world.clients[bob].answers = true;
        world.command(PeerCommand::Resume.for_peer("PA_bob".parse().unwrap()));
        world.run_until("the subscriber is connected", |world| {
            world.clients[bob]
                .subscriber
                .as_ref()
                .is_some_and(|connection| connection.channels.len() >= 2)
        });
        world.send(&mut voice, None, &[1]);
        assert_eq!(world.received(bob, &voice).len(), 1, "{is_connected}");
    }
}
