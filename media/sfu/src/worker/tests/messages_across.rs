//! Data messages between a room's workers.

use std::time::Duration;

use super::MODES;
use super::fixture::Fixture;
use super::messages::{numbers, packet};
use super::mirrors::Call;
use crate::command::{ConnectionMode, PeerCommand};
use crate::config::{Config, Limits};
use crate::dropped::DropReason;
use crate::worker::Worker;

/// Number of messages from a sender that has to wait.
const COUNT: u32 = 60;

/// Opens the channels of all clients in a call.
fn with_channels(mode: ConnectionMode) -> Call {
    let mut call = Call::new(mode);
    for client in [call.alice, call.bob, call.carol] {
        if call.fixture.clients[client].subscriber.is_some() {
            call.fixture.offer(client, None, [1, 0], false);
        }
    }
    call.fixture.run_until("all channels are open", |fixture| {
        fixture.clients.iter().all(|client| {
            let receives = client.subscriber.as_ref().unwrap_or(&client.publisher);
            client.publisher.channels.len() >= 2 && receives.channels.len() >= 2
        })
    });
    call
}

/// Sends a message of Alice's. Returns whether her channel took it.
fn send(call: &mut Call, number: u32, size: usize, to: &[&str]) -> bool {
    let now = call.fixture.now;
    let publisher = &mut call.fixture.clients[call.alice].publisher;
    publisher.send_message("_reliable", &packet(number, size, to), now)
}

/// Sends Alice's large messages from the `next` one to [`COUNT`], until her channel takes no more.
fn send_on(call: &mut Call, next: &mut u32) {
    while *next <= COUNT && send(call, *next, 60_000, &[]) {
        *next += 1;
    }
}

#[test]
fn messages_cross_in_order_and_only_to_where_their_receivers_are() {
    for mode in MODES {
        let mut call = with_channels(mode);
        let send = |call: &mut Call, number, to: &[&str]| {
            assert!(send(call, number, 100, to));
            call.fixture.settle();
        };
        for number in 1..=20 {
            send(&mut call, number, &[]);
        }
        send(&mut call, 21, &["PA_carol"]);
        call.fixture.run(Duration::from_millis(200));
        let (bob, carol) = (call.bob, call.carol);
        assert_eq!(
            numbers(&mut call.fixture, bob, "_reliable"),
            Vec::from_iter(1..=20)
        );
        assert_eq!(
            numbers(&mut call.fixture, carol, "_reliable"),
            Vec::from_iter(1..=21)
        );
        call.fixture.waiting[1].is_stalled = true;
        send(&mut call, 22, &["PA_nobody"]);
        assert!(call.fixture.waiting[1].instructions.is_empty());
        // The permission is revoked while the message is on its way.
        send(&mut call, 23, &[]);
        let mut permissions = super::commands::new_peer("PA_alice", mode).permissions;
        permissions.can_publish_data = false;
        call.command("PA_alice", PeerCommand::SetPermissions(permissions));
        call.fixture.waiting[1].instructions.rotate_left(1);
        call.stall(1, false);
        call.fixture.run(Duration::from_millis(200));
        assert_eq!(
            numbers(&mut call.fixture, bob, "_reliable"),
            Vec::from_iter(1..=20)
        );
    }
}

#[test]
fn a_message_reaches_a_receiver_whose_worker_has_not_announced_it_yet() {
    let mut fixture = Fixture::with_workers(2, Limits::default());
    let mut join = |name, home| {
        fixture.home = Some(home);
        let client = fixture.join_connected(name, ConnectionMode::Single);
        fixture.run_until("the channels are open", |fixture| {
            fixture.clients[client].publisher.channels.len() >= 2
        });
        // The first worker handles nothing until all have joined.
        fixture.waiting[0].is_stalled = true;
        client
    };
    let (alice, bob) = (join("PA_alice", 0), join("PA_bob", 1));
    let now = fixture.now;
    let publisher = &mut fixture.clients[bob].publisher;
    assert!(publisher.send_message("_reliable", &packet(1, 100, &["PA_alice"]), now));
    fixture.run(Duration::from_millis(200));
    fixture.waiting[0].is_stalled = false;
    fixture.run(Duration::from_secs(1));
    assert_eq!(numbers(&mut fixture, alice, "_reliable"), [1]);
}

#[test]
fn messages_cross_to_no_worker_without_participants() {
    let mut call = with_channels(ConnectionMode::Single);
    for client in [call.bob, call.carol] {
        call.fixture.leave(client);
    }
    call.fixture.waiting[1].is_stalled = true;
    assert!(send(&mut call, 1, 100, &[]));
    call.fixture.run(Duration::from_millis(200));
    assert!(call.fixture.waiting[1].instructions.is_empty());
}

#[test]
fn a_sender_waits_for_a_slower_receiver_on_another_worker_which_gets_everything() {
    for is_stalled in [false, true] {
        let mut call = with_channels(ConnectionMode::Single);
        call.fixture.leave(call.carol);
        let (mut left, mut last) = (300_000., call.fixture.now);
        call.fixture.loses = Box::new(move |is_to_server, bytes, now| {
            if is_to_server || bytes < 500 {
                return false;
            }
            let since = now.saturating_duration_since(last).as_secs_f64();
            left = f64::min(left + since * 400_000., 400_000.);
            last = last.max(now);
            let is_lost = left < bytes as f64;
            left -= if is_lost { 0. } else { bytes as f64 };
            is_lost
        });
        call.fixture.waiting[1].is_stalled = is_stalled;
        let (mut next, end) = (1, call.fixture.now + Duration::from_secs(90));
        let bob = call.bob;
        while numbers(&mut call.fixture, bob, "_reliable").len() < COUNT as usize {
            assert!(call.fixture.now < end, "{is_stalled}: {next} were sent");
            send_on(&mut call, &mut next);
            call.fixture.run(Duration::from_millis(100));
            if call.fixture.now > end.checked_sub(Duration::from_secs(88)).unwrap() {
                call.fixture.waiting[1].is_stalled = false;
            }
        }
        assert_eq!(
            numbers(&mut call.fixture, bob, "_reliable"),
            Vec::from_iter(1..=COUNT)
        );
        let lost = |worker: &Worker| worker.counters().dropped.count_for(DropReason::DataBacklog);
        assert_eq!((lost(&call.fixture.worker), lost(call.second())), (0, 0));
    }
}

#[test]
fn a_sender_waits_for_no_worker_that_has_ended() {
    let mut call = with_channels(ConnectionMode::Single);
    call.fixture.home = Some(0);
    let dave = call
        .fixture
        .join_connected("PA_dave", ConnectionMode::Single);
    call.fixture.run_until("the channels are open", |fixture| {
        fixture.clients[dave].publisher.channels.len() >= 2
    });
    // The second worker handles nothing from now on.
    call.fixture.waiting[1].is_stalled = true;
    let mut next = 1;
    let mut send = |call: &mut Call| {
        send_on(call, &mut next);
        call.fixture.run(Duration::from_millis(100));
        numbers(&mut call.fixture, dave, "_reliable")
    };
    for _ in 0..20 {
        send(&mut call);
    }
    assert!(
        send(&mut call).len() < COUNT as usize,
        "it may only be late"
    );
    // A thread that ends drops its worker.
    for client in [call.bob, call.carol] {
        call.fixture.cut_off(client, true);
    }
    call.fixture.further[0] = Worker::new(Vec::new(), &Config::default(), call.fixture.now);
    let end = call.fixture.now + Duration::from_secs(60);
    while send(&mut call).len() < COUNT as usize {
        assert!(call.fixture.now < end, "the sender still waits");
    }
    assert_eq!(send(&mut call), Vec::from_iter(1..=COUNT));
}
