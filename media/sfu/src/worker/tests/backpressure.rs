//! Reliable messages to slow receivers.

use std::time::Duration;

use super::MODES;
use super::messages::{numbers, packet, world_with_channels};
use super::world::World;
use crate::config::Limits;
use crate::dropped::DropReason;
use crate::event::{FailureReason, PeerEvent};

/// Large messages, more than may wait for a receiver.
const COUNT: u32 = 80;
const SIZE: usize = 60_000;

/// Sends messages from `next` on as fast as a client's channel accepts them, for some time.
fn send_fast(world: &mut World, client: usize, next: &mut u32, time: Duration) {
    let end = world.now + time;
    assert!(
        end < world.begun + Duration::from_secs(120),
        "the messages arrive: {next}"
    );
    while world.now < end {
        let now = world.now;
        while *next <= COUNT
            && world.clients[client].publisher.send_message(
                "_reliable",
                &packet(*next, SIZE, &[]),
                now,
            )
        {
            *next += 1;
        }
        world.run(Duration::from_millis(5));
    }
}

/// Returns the number of messages that a client has received.
fn received(world: &mut World, client: usize) -> u32 {
    world.receiver(client).messages.len().try_into().unwrap()
}

/// Limits large packets to clients to this many bytes a second, with a burst of one second.
fn limit_bandwidth(world: &mut World, bytes_per_second: f64) {
    let (mut left, mut last) = (bytes_per_second, world.now);
    world.loses = Box::new(move |is_to_server, bytes, now| {
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

fn most_waiting_bytes(world: &World) -> usize {
    let waiting = world
        .worker
        .connections
        .values()
        .map(|transport| transport.backlog().bytes());
    waiting.max().unwrap_or_default()
}

fn data_losses(world: &World) -> u64 {
    world
        .worker
        .counters()
        .dropped
        .count_for(DropReason::DataBacklog)
}

#[test]
fn a_sender_waits_for_a_slower_receiver_which_gets_everything() {
    for mode in MODES {
        let (mut world, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        world.leave(carol);
        limit_bandwidth(&mut world, 400_000.0);
        let (mut next, mut most) = (1, 0);
        while received(&mut world, bob) < COUNT {
            send_fast(&mut world, alice, &mut next, Duration::from_millis(500));
            most = most.max(most_waiting_bytes(&world));
            assert!(
                !world.clients[bob]
                    .events
                    .iter()
                    .any(|event| matches!(event, PeerEvent::Failed(_))),
                "{mode:?}"
            );
        }
        assert_eq!(
            numbers(&mut world, bob, "_reliable"),
            (1..=COUNT).collect::<Vec<_>>(),
            "{mode:?}"
        );
        assert!(
            most < 512 * 1024,
            "the sender was slowed down: {most} bytes waited"
        );
        assert_eq!(data_losses(&world), 0);
    }
}

#[test]
fn clients_that_send_to_each_other_at_once_both_get_everything() {
    for mode in MODES {
        let (mut world, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        world.leave(carol);
        limit_bandwidth(&mut world, 800_000.0);
        let (mut of_alice, mut of_bob) = (1, 1);
        while received(&mut world, bob).min(received(&mut world, alice)) < COUNT {
            send_fast(&mut world, alice, &mut of_alice, Duration::from_millis(5));
            send_fast(&mut world, bob, &mut of_bob, Duration::from_millis(5));
        }
        assert_eq!(data_losses(&world), 0, "{mode:?}");
    }
}

#[test]
fn a_receiver_that_takes_nothing_loses_its_messages_and_the_others_get_theirs() {
    for mode in MODES {
        let (mut world, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        world.cut_off(carol, true);
        let mut next = 1;
        while received(&mut world, bob) < COUNT {
            send_fast(&mut world, alice, &mut next, Duration::from_millis(500));
        }
        assert_eq!(
            numbers(&mut world, bob, "_reliable"),
            (1..=COUNT).collect::<Vec<_>>(),
            "{mode:?}"
        );
        assert!(data_losses(&world) > 0, "{mode:?}: Carol lost some");
        assert!(
            most_waiting_bytes(&world) <= Limits::default().data_backlog_bytes,
            "{mode:?}"
        );
        let failures = world.clients.iter().flat_map(|client| &client.events);
        let others = failures.filter(
            |event| matches!(event, PeerEvent::Failed(reason) if *reason != FailureReason::Silent),
        );
        assert_eq!(others.count(), 0, "{mode:?}");
    }
}

#[test]
fn a_receiver_that_comes_back_gets_what_waits_and_what_comes_next() {
    let (mut world, [alice, _, carol]) = world_with_channels(
        crate::command::ConnectionMode::Single,
        ["PA_alice", "PA_bob", "PA_carol"],
    );
    world.cut_off(carol, true);
    let mut next = 1;
    send_fast(&mut world, alice, &mut next, Duration::from_secs(9));
    world.cut_off(carol, false);
    assert!(data_losses(&world) > 0);
    world.run_until("Carol has caught up", |world| {
        world
            .worker
            .connections
            .values()
            .all(|transport| transport.backlog().is_empty())
    });
    let now = world.now;
    assert!(world.clients[alice].publisher.send_message(
        "_reliable",
        &packet(COUNT + 1, 10, &[]),
        now
    ));
    world.run(Duration::from_secs(1));
    assert_eq!(
        numbers(&mut world, carol, "_reliable").last(),
        Some(&(COUNT + 1))
    );
}
