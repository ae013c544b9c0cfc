//! Server failures that a client simulates.

use proto::simulate_scenario::Scenario;

use super::*;

fn simulate(world: &mut World, sid: &ParticipantSid, scenario: Scenario) {
    world.request(
        sid,
        Request::Simulate(proto::SimulateScenario {
            scenario: Some(scenario),
        }),
    );
}

/// A room with one client, which may simulate failures.
fn world_with_alice() -> (World, ParticipantSid) {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    world.sessions.get_mut(&alice).unwrap().permit_simulations();
    world.take_all();
    (world, alice)
}

#[test]
fn nothing_is_simulated_without_permission() {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    world.take_all();
    for scenario in [
        Scenario::NodeFailure(true),
        Scenario::Migration(true),
        Scenario::SubscriberBandwidth(1_000),
    ] {
        simulate(&mut world, &alice, scenario);
    }
    assert_eq!(
        (
            world.take(&alice),
            world.event_names(),
            world.commands.len()
        ),
        (vec![], vec![], 0)
    );
    assert!(!world.sessions.get_mut(&alice).unwrap().take_close());
}

#[test]
fn a_client_is_told_to_come_back_as_in_the_real_case() {
    let cases = [
        (
            Scenario::Migration(true),
            DisconnectReason::Migration,
            Action::Resume,
            vec![],
        ),
        (
            Scenario::ServerLeave(true),
            DisconnectReason::ServerShutdown,
            Action::Reconnect,
            vec![],
        ),
        (
            Scenario::LeaveRequestFullReconnect(true),
            DisconnectReason::StateMismatch,
            Action::Reconnect,
            vec!["lost"],
        ),
    ];
    for (scenario, reason, action, events) in cases {
        let (mut world, alice) = world_with_alice();
        simulate(&mut world, &alice, scenario);
        assert_eq!(leave_of(&world.take(&alice)), Some((reason, action)));
        assert!(
            world.sessions.get_mut(&alice).unwrap().take_close(),
            "{scenario:?}"
        );
        assert_eq!(world.event_names(), events, "{scenario:?}");
    }
}

#[test]
fn a_server_that_fails_says_nothing() {
    let (mut world, alice) = world_with_alice();
    simulate(&mut world, &alice, Scenario::NodeFailure(true));
    assert_eq!(
        (world.take(&alice), world.event_names()),
        (vec![], vec!["lost"])
    );
    assert!(world.sessions.get_mut(&alice).unwrap().take_close());
}

#[test]
fn the_websocket_of_one_resume_is_closed_before_or_after_its_messages() {
    let before = Scenario::DisconnectSignalOnResumeNoMessages(true);
    for (scenario, comes_first) in [
        (before, true),
        (Scenario::DisconnectSignalOnResume(true), false),
    ] {
        let (mut world, alice) = world_with_alice();
        simulate(&mut world, &alice, scenario);
        for is_closed in [true, false] {
            world.call(&alice, Session::detach);
            world.call(&alice, |session, context| {
                session.resume(context, parameters(ConnectionMode::Single));
            });
            if !(is_closed && comes_first) {
                world.media(
                    &alice,
                    PeerEvent::Resumed {
                        last_message_seq: 0,
                    },
                );
                assert!(
                    matches!(world.take(&alice)[..], [Response::Reconnect(_), ..]),
                    "{scenario:?}"
                );
            }
            assert_eq!(
                world.sessions.get_mut(&alice).unwrap().take_close(),
                is_closed,
                "{scenario:?}"
            );
        }
    }
}

#[test]
fn the_bandwidth_of_a_client_is_limited_until_it_says_zero() {
    let (mut world, alice) = world_with_alice();
    for (bits_per_second, expected) in [(500_000, Some(500)), (0, None)] {
        simulate(
            &mut world,
            &alice,
            Scenario::SubscriberBandwidth(bits_per_second),
        );
        let Some(Command::Peer {
            command: PeerCommand::SetPermissions(permissions),
            ..
        }) = world.commands.last()
        else {
            panic!("no command")
        };
        assert_eq!(permissions.subscribe_max_kbps, expected);
    }
}
