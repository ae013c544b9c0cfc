//! Server failures that a client simulates.

use proto::simulate_scenario::Scenario;

use super::*;

fn simulate(fixture: &mut Fixture, sid: &ParticipantSid, scenario: Scenario) {
    fixture.request(
        sid,
        Request::Simulate(proto::SimulateScenario {
            scenario: Some(scenario),
        }),
    );
}

/// A room with one client, which may simulate failures.
fn fixture_with_alice() -> (Fixture, ParticipantSid) {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture
        .sessions
        .get_mut(&alice)
        .unwrap()
        .permit_simulations();
    fixture.take_all();
    (fixture, alice)
}

#[test]
fn nothing_is_simulated_without_permission() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    for scenario in [
        Scenario::NodeFailure(true),
        Scenario::Migration(true),
        Scenario::SubscriberBandwidth(1_000),
    ] {
        simulate(&mut fixture, &alice, scenario);
    }
    assert_eq!(
        (
            fixture.take(&alice),
            fixture.event_names(),
            fixture.commands.len()
        ),
        (vec![], vec![], 0)
    );
    assert!(!fixture.sessions.get_mut(&alice).unwrap().take_close());
}

#[test]
fn a_simulated_failure_sends_the_same_leave_as_a_real_one() {
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
        let (mut fixture, alice) = fixture_with_alice();
        simulate(&mut fixture, &alice, scenario);
        assert_eq!(leave_of(&fixture.take(&alice)), Some((reason, action)));
        assert!(
            fixture.sessions.get_mut(&alice).unwrap().take_close(),
            "{scenario:?}"
        );
        assert_eq!(fixture.event_names(), events, "{scenario:?}");
    }
}

#[test]
fn a_server_that_fails_sends_nothing() {
    let (mut fixture, alice) = fixture_with_alice();
    simulate(&mut fixture, &alice, Scenario::NodeFailure(true));
    assert_eq!(
        (fixture.take(&alice), fixture.event_names()),
        (vec![], vec!["lost"])
    );
    assert!(fixture.sessions.get_mut(&alice).unwrap().take_close());
}

#[test]
fn the_websocket_of_one_resume_is_closed_before_or_after_its_messages() {
    let before = Scenario::DisconnectSignalOnResumeNoMessages(true);
    for (scenario, comes_first) in [
        (before, true),
        (Scenario::DisconnectSignalOnResume(true), false),
    ] {
        let (mut fixture, alice) = fixture_with_alice();
        simulate(&mut fixture, &alice, scenario);
        for is_closed in [true, false] {
            fixture.call(&alice, Session::detach);
            fixture.call(&alice, |session, context| {
                session.resume(context, parameters(ConnectionMode::Single));
            });
            if !(is_closed && comes_first) {
                fixture.media(
                    &alice,
                    PeerEvent::Resumed {
                        last_message_seq: 0,
                    },
                );
                assert!(
                    matches!(fixture.take(&alice)[..], [Response::Reconnect(_), ..]),
                    "{scenario:?}"
                );
            }
            assert_eq!(
                fixture.sessions.get_mut(&alice).unwrap().take_close(),
                is_closed,
                "{scenario:?}"
            );
        }
    }
}

#[test]
fn the_bandwidth_of_a_client_is_limited_until_it_sends_zero() {
    let (mut fixture, alice) = fixture_with_alice();
    for (bits_per_second, expected) in [(500_000, Some(500)), (0, None)] {
        simulate(
            &mut fixture,
            &alice,
            Scenario::SubscriberBandwidth(bits_per_second),
        );
        let Some(Command::Peer {
            command: PeerCommand::SetPermissions(permissions),
            ..
        }) = fixture.commands.last()
        else {
            panic!("no command")
        };
        assert_eq!(permissions.subscribe_max_kbps, expected);
    }
}
