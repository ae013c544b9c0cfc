//! Reliable messages to slow receivers.

use std::time::Duration;

use super::MODES;
use super::fixture::Fixture;
use super::messages::{numbers, packet, world_with_channels};
use crate::config::Limits;
use crate::dropped::DropReason;
use crate::event::{FailureReason, PeerEvent};

/// Large messages, more than may wait for a receiver.
const COUNT: u32 = 80;
const SIZE: usize = 60_000;

/// Sends messages from `next` on as fast as a client's channel accepts them, for some time.
fn send_fast(fixture: &mut Fixture, client: usize, next: &mut u32, time: Duration) {
    let end = fixture.now + time;
    assert!(
        end < fixture.begun + Duration::from_secs(120),
        "the messages arrive: {next}"
    );
    while fixture.now < end {
        let now = fixture.now;
        while *next <= COUNT
            && fixture.clients[client].publisher.send_message(
                "_reliable",
                &packet(*next, SIZE, &[]),
                now,
            )
        {
            *next += 1;
        }
        fixture.run(Duration::from_millis(5));
    }
}

/// Returns the number of messages that a client has received.
fn received(fixture: &mut Fixture, client: usize) -> u32 {
    fixture.receiver(client).messages.len().try_into().unwrap()
}

/// Limits large packets to clients to this many bytes a second, with a burst of one second.
fn limit_bandwidth(fixture: &mut Fixture, bytes_per_second: f64) {
    let (mut left, mut last) = (bytes_per_second, fixture.now);
    fixture.loses = Box::new(move |is_to_server, bytes, now| {
        if is_to_server || bytes < 500 {
            return false;
        }
        let bytes = bytes as f64;
        left = f64::min(
            left + now.saturating_duration_since(last).as_secs_f64() * bytes_per_second,
            bytes_per_second,
        );
        last = last.max(now);
        let is_lost = left < bytes;
        left -= if is_lost { 0.0 } else { bytes };
        is_lost
    });
}

fn most_waiting_bytes(fixture: &Fixture) -> usize {
    let waiting = fixture
        .worker
        .connections
        .values()
        .map(|transport| transport.backlog().bytes());
    waiting.max().unwrap_or_default()
}

fn data_losses(fixture: &Fixture) -> u64 {
    fixture
        .worker
        .counters()
        .dropped
        .count_for(DropReason::DataBacklog)
}

#[test]
fn a_sender_waits_for_a_slower_receiver_which_gets_everything() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        fixture.leave(carol);
        limit_bandwidth(&mut fixture, 400_000.0);
        let (mut next, mut most) = (1, 0);
        while received(&mut fixture, bob) < COUNT {
            send_fast(&mut fixture, alice, &mut next, Duration::from_millis(500));
            most = most.max(most_waiting_bytes(&fixture));
            assert!(
                !fixture.clients[bob]
                    .events
                    .iter()
                    .any(|event| matches!(event, PeerEvent::Failed(_))),
                "{mode:?}"
            );
        }
        assert_eq!(
            numbers(&mut fixture, bob, "_reliable"),
            (1..=COUNT).collect::<Vec<_>>(),
            "{mode:?}"
        );
        assert!(
            most < 512 * 1024,
            "the sender was slowed down: {most} bytes waited"
        );
        assert_eq!(data_losses(&fixture), 0);
    }
}

#[test]
fn clients_that_send_to_each_other_at_once_both_get_everything() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        fixture.leave(carol);
        limit_bandwidth(&mut fixture, 800_000.0);
        let (mut of_alice, mut of_bob) = (1, 1);
        while received(&mut fixture, bob).min(received(&mut fixture, alice)) < COUNT {
            send_fast(&mut fixture, alice, &mut of_alice, Duration::from_millis(5));
            send_fast(&mut fixture, bob, &mut of_bob, Duration::from_millis(5));
        }
        assert_eq!(data_losses(&fixture), 0, "{mode:?}");
    }
}

#[test]
fn a_receiver_that_takes_nothing_loses_its_messages_and_the_others_get_theirs() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        fixture.cut_off(carol, true);
        let mut next = 1;
        while received(&mut fixture, bob) < COUNT {
            send_fast(&mut fixture, alice, &mut next, Duration::from_millis(500));
        }
        assert_eq!(
            numbers(&mut fixture, bob, "_reliable"),
            (1..=COUNT).collect::<Vec<_>>(),
            "{mode:?}"
        );
        assert!(data_losses(&fixture) > 0, "{mode:?}: Carol lost some");
        assert!(
            most_waiting_bytes(&fixture) <= Limits::default().data_backlog_bytes,
            "{mode:?}"
        );
        let failures = fixture.clients.iter().flat_map(|client| &client.events);
        let others = failures.filter(
            |event| matches!(event, PeerEvent::Failed(reason) if *reason != FailureReason::Silent),
        );
        assert_eq!(others.count(), 0, "{mode:?}");
    }
}

#[test]
fn a_receiver_that_comes_back_gets_what_waits_and_what_comes_next() {
    let (mut fixture, [alice, _, carol]) = world_with_channels(
        crate::command::ConnectionMode::Single,
        ["PA_alice", "PA_bob", "PA_carol"],
    );
    fixture.cut_off(carol, true);
    let mut next = 1;
    send_fast(&mut fixture, alice, &mut next, Duration::from_secs(9));
    fixture.cut_off(carol, false);
    assert!(data_losses(&fixture) > 0);
    fixture.run_until("Carol has caught up", |fixture| {
        fixture
            .worker
            .connections
            .values()
            .all(|transport| transport.backlog().is_empty())
    });
    let now = fixture.now;
    assert!(fixture.clients[alice].publisher.send_message(
        "_reliable",
        &packet(COUNT + 1, 10, &[]),
        now
    ));
    fixture.run(Duration::from_secs(1));
    assert_eq!(
        numbers(&mut fixture, carol, "_reliable").last(),
        Some(&(COUNT + 1))
    );
}
