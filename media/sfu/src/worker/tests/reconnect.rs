//! Network failures, and clients that reconnect.

use std::time::Duration;

use str0m::format::Codec;

use super::fixture::Fixture;
use super::{MODES, alice_and_bob};
use crate::command::{ConnectionMode, PeerCommand};
use crate::event::{FailureReason, PeerEvent};

#[test]
fn media_goes_on_while_ice_restarts() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        for round in 0..3 {
            for (client, name) in [(alice, "PA_alice"), (bob, "PA_bob")] {
                fixture.command(PeerCommand::Resume.for_peer(name.parse().unwrap()));
                if mode == ConnectionMode::Single || client == alice {
                    fixture.offer(client, None, [0, 0], true);
                }
            }
            for _ in 0..100 {
                fixture.send(&mut voice, None, &[round]);
                fixture.run(Duration::from_millis(20));
            }
        }
        assert_eq!(fixture.received(bob, &voice).len(), 300, "{mode:?}");
        assert!(fixture.clients[bob].events.contains(&PeerEvent::Resumed {
            last_message_seq: 0
        }));
    }
}

#[test]
fn a_silent_participant_is_interrupted_then_failed_and_can_recover() {
    for mode in MODES {
        let mut fixture = Fixture::new();
        let alice = fixture.join_connected("PA_alice", mode);
        fixture.loses = Box::new(|_, _, _| true);
        fixture.run(Duration::from_secs(9));
        assert!(
            !fixture.clients[alice]
                .events
                .contains(&PeerEvent::Interrupted),
            "{mode:?}"
        );
        fixture.run(Duration::from_secs(3));
        assert!(
            fixture.clients[alice]
                .events
                .contains(&PeerEvent::Interrupted),
            "{mode:?}"
        );
        let failed = PeerEvent::Failed(FailureReason::Silent);
        assert!(!fixture.clients[alice].events.contains(&failed), "{mode:?}");
        fixture.run(Duration::from_secs(5));
        assert!(fixture.clients[alice].events.contains(&failed), "{mode:?}");
        fixture.loses = Box::new(|_, _, _| false);
        fixture.command(PeerCommand::Resume.for_peer("PA_alice".parse().unwrap()));
        if mode == ConnectionMode::Single {
            fixture.offer(alice, None, [0, 0], true);
        }
        fixture.run_until("the participant recovers", |fixture| {
            fixture.clients[alice].events.last() == Some(&PeerEvent::Recovered)
        });
    }
}

#[test]
fn a_client_that_closes_its_connection_fails_alone() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        fixture.receiver(alice).rtc.close().unwrap();
        fixture.run(Duration::from_millis(100));
        assert!(
            fixture.clients[alice]
                .events
                .contains(&PeerEvent::Failed(FailureReason::Closed)),
            "{mode:?}"
        );
        assert!(
            !fixture.clients[bob]
                .events
                .iter()
                .any(|event| matches!(event, PeerEvent::Failed(_))),
            "{mode:?}"
        );
    }
}

#[test]
fn an_offer_that_is_not_answered_fails_the_participant() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Dual);
    let voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    fixture.clients[bob].answers = false;
    fixture.subscribe(bob, &voice);
    fixture.run(Duration::from_secs(17));
    assert!(
        fixture.clients[bob]
            .events
            .contains(&PeerEvent::Failed(FailureReason::AnswerTimeout))
    );
}

#[test]
fn an_offer_that_was_lost_with_the_signalling_is_made_again_at_the_resume() {
    for is_connected in [true, false] {
        let mut fixture = Fixture::new();
        let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.answers = is_connected;
        let bob = fixture.join("PA_bob", ConnectionMode::Dual);
        fixture.run(Duration::from_secs(1));
        fixture.clients[bob].answers = false;
        fixture.subscribe(bob, &voice);
        fixture.clients[bob].answers = true;
        fixture.command(PeerCommand::Resume.for_peer("PA_bob".parse().unwrap()));
        fixture.run_until("the subscriber is connected", |fixture| {
            fixture.clients[bob]
                .subscriber
                .as_ref()
                .is_some_and(|connection| connection.channels.len() >= 2)
        });
        fixture.send(&mut voice, None, &[1]);
        assert_eq!(fixture.received(bob, &voice).len(), 1, "{is_connected}");
    }
}
