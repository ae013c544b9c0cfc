//! Data messages.

#![allow(deprecated, reason = "the tests read what old clients read")]

use std::time::Duration;

use conclave_model::participant::DataKind;
use livekit_protocol as proto;
use livekit_protocol::data_packet::Value;
use prost::Message as _;

use super::MODES;
use super::commands::new_peer;
use super::fixture::Fixture;
use crate::command::{Command, ConnectionMode, PeerCommand, ServerMessage};
use crate::event::{FailureReason, PeerEvent, Receivers, SentMessage};

pub fn packet(number: u32, size: usize, to: &[&str]) -> Vec<u8> {
    let destination_identities = to.iter().map(|to| (*to).to_owned()).collect();
    let payload = [number.to_be_bytes().to_vec(), vec![1; size]].concat();
    let value = Some(Value::User(proto::UserPacket {
        payload,
        ..Default::default()
    }));
    proto::DataPacket {
        value,
        sequence: number,
        destination_identities,
        ..Default::default()
    }
    .encode_to_vec()
}

/// Returns the sequence numbers of a client's messages on a channel.
pub fn numbers(fixture: &mut Fixture, client: usize, label: &str) -> Vec<u32> {
    let messages = fixture
        .receiver(client)
        .messages
        .iter()
        .filter(|(channel, _)| channel == label);
    let packets = messages.map(|(_, bytes)| proto::DataPacket::decode(bytes.as_slice()).unwrap());
    let numbers = packets.map(|packet| match packet.value {
        Some(Value::User(user)) => u32::from_be_bytes(user.payload[..4].try_into().unwrap()),
        other => panic!("{other:?}"),
    });
    numbers.collect()
}

fn send(fixture: &mut Fixture, client: usize, label: &str, bytes: &[u8]) {
    let now = fixture.now;
    assert!(
        fixture.clients[client]
            .publisher
            .send_message(label, bytes, now),
        "the channel takes it"
    );
    fixture.settle();
}

pub fn world_with_channels(
    mode: crate::command::ConnectionMode,
    names: [&'static str; 3],
) -> (Fixture, [usize; 3]) {
    let mut fixture = Fixture::new();
    let clients = names.map(|name| {
        let client = fixture.join_connected(name, mode);
        if fixture.clients[client].subscriber.is_some() {
            fixture.offer(client, None, [1, 0], false);
        }
        client
    });
    fixture.run_until("all channels are open", |fixture| {
        let is_open = |connection: &super::support::Connection| connection.channels.len() >= 2;
        let all = |client: &super::fixture::Client| {
            is_open(&client.publisher) && client.subscriber.as_ref().is_none_or(is_open)
        };
        fixture.clients.iter().all(all)
    });
    (fixture, clients)
}

#[test]
fn user_messages_are_reported_if_that_is_asked_for() {
    let (mut fixture, [alice, ..]) =
        world_with_channels(ConnectionMode::Single, ["PA_alice", "PA_bob", "PA_carol"]);
    for (number, enabled) in [(1, false), (2, true), (3, false)] {
        fixture.command(Command::ReportMessages { enabled });
        send(
            &mut fixture,
            alice,
            "_reliable",
            &packet(number, 0, &["bob"]),
        );
    }
    let reported = fixture.clients[alice]
        .events
        .iter()
        .filter_map(|event| match event {
            PeerEvent::MessageSent(sent) => Some(sent.clone()),
            _ => None,
        });
    let to = Receivers {
        identities: vec!["bob".to_owned()],
        sids: Vec::new(),
    };
    let payload = 2_u32.to_be_bytes().to_vec();
    assert_eq!(
        reported.collect::<Vec<_>>(),
        [SentMessage {
            kind: DataKind::Reliable,
            topic: None,
            payload,
            to
        }]
    );
}

#[test]
fn messages_reach_those_they_are_for_and_name_their_sender() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        send(&mut fixture, alice, "_reliable", &packet(1, 10, &[]));
        send(
            &mut fixture,
            alice,
            "_reliable",
            &packet(2, 60_000, &["PA_carol"]),
        );
        send(&mut fixture, alice, "_lossy", &packet(3, 10, &["PA_bob"]));
        fixture.run(Duration::from_millis(200));
        assert_eq!(numbers(&mut fixture, bob, "_reliable"), [1], "{mode:?}");
        assert_eq!(
            numbers(&mut fixture, carol, "_reliable"),
            [1, 2],
            "{mode:?}"
        );
        assert_eq!(numbers(&mut fixture, bob, "_lossy"), [3], "{mode:?}");
        assert!(
            numbers(&mut fixture, alice, "_reliable").is_empty(),
            "{mode:?}: not to the sender"
        );
        let first =
            proto::DataPacket::decode(fixture.receiver(bob).messages[0].1.as_slice()).unwrap();
        assert_eq!(first.participant_identity, "PA_alice");
    }
}

#[test]
fn a_thousand_reliable_messages_arrive_in_order_over_a_lossy_network() {
    for mode in MODES {
        let (mut fixture, [alice, bob, _]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        let mut count = 0;
        fixture.loses = Box::new(move |_, _, _| {
            count += 1;
            count % 20 == 0
        });
        let mut next = 1;
        while next <= 1000 {
            let now = fixture.now;
            let bytes = packet(next, 100, &[]);
            next += u32::from(fixture.clients[alice].publisher.send_message(
                "_reliable",
                &bytes,
                now,
            ));
            fixture.run(Duration::from_millis(5));
        }
        fixture.run_until("all messages arrive", |fixture| {
            let connection = &fixture.clients[bob];
            connection
                .subscriber
                .as_ref()
                .unwrap_or(&connection.publisher)
                .messages
                .len()
                >= 1000
        });
        assert_eq!(
            numbers(&mut fixture, bob, "_reliable"),
            (1..=1000).collect::<Vec<_>>(),
            "{mode:?}"
        );
    }
}

#[test]
fn a_repeated_message_is_dropped_and_a_missed_one_is_sent_again() {
    for mode in MODES {
        let (mut fixture, [alice, bob, _]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        for number in [1, 2, 2, 1, 3] {
            send(&mut fixture, alice, "_reliable", &packet(number, 10, &[]));
        }
        fixture.run(Duration::from_millis(100));
        assert_eq!(
            numbers(&mut fixture, bob, "_reliable"),
            [1, 2, 3],
            "{mode:?}"
        );
        let received = vec![("PA_alice".parse().unwrap(), 1)];
        fixture.command(PeerCommand::ReplayData { received }.for_peer("PA_bob".parse().unwrap()));
        fixture.run(Duration::from_millis(100));
        assert_eq!(
            numbers(&mut fixture, bob, "_reliable"),
            [1, 2, 3, 2, 3],
            "{mode:?}"
        );
    }
}

#[test]
fn permissions_hold_for_the_next_message() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        let mut permissions = new_peer("PA_alice", mode).permissions;
        permissions.can_publish_data = false;
        fixture.command(
            PeerCommand::SetPermissions(permissions).for_peer("PA_alice".parse().unwrap()),
        );
        permissions.can_subscribe = false;
        fixture.command(
            PeerCommand::SetPermissions(permissions).for_peer("PA_carol".parse().unwrap()),
        );
        send(&mut fixture, alice, "_reliable", &packet(1, 10, &[]));
        send(&mut fixture, bob, "_reliable", &packet(2, 10, &[]));
        fixture.run(Duration::from_millis(100));
        assert!(
            numbers(&mut fixture, bob, "_reliable").is_empty(),
            "{mode:?}"
        );
        assert_eq!(numbers(&mut fixture, alice, "_reliable"), [2], "{mode:?}");
        assert!(
            numbers(&mut fixture, carol, "_reliable").is_empty(),
            "{mode:?}"
        );
    }
}

#[test]
fn the_server_sends_messages_without_a_sender() {
    for mode in MODES {
        let (mut fixture, [alice, bob, _]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        let message = ServerMessage {
            to: vec!["PA_bob".parse().unwrap()],
            kind: DataKind::Reliable,
            topic: Some("news".to_owned()),
            payload: vec![0, 0, 0, 9],
        };
        fixture.command(Command::SendData(message));
        fixture.run(Duration::from_millis(100));
        assert_eq!(numbers(&mut fixture, bob, "_reliable"), [9], "{mode:?}");
        assert!(
            numbers(&mut fixture, alice, "_reliable").is_empty(),
            "{mode:?}"
        );
        let packet =
            proto::DataPacket::decode(fixture.receiver(bob).messages[0].1.as_slice()).unwrap();
        assert_eq!(packet.participant_identity, "");
    }
}

#[test]
fn a_message_on_a_channel_of_another_label_reaches_all_as_a_user_message() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        for label in ["chat", "_data_track"] {
            fixture.clients[alice].publisher.open_channel(label);
        }
        fixture.run_until("the channels are open", |fixture| {
            ["chat", "_data_track"].iter().all(|label| {
                fixture.clients[alice]
                    .publisher
                    .channels
                    .contains_key(*label)
            })
        });
        send(&mut fixture, alice, "_data_track", &[0, 0, 0, 8]);
        send(&mut fixture, alice, "chat", &[0, 0, 0, 7]);
        fixture.run(Duration::from_millis(100));
        for client in [bob, carol] {
            assert_eq!(numbers(&mut fixture, client, "_reliable"), [7], "{mode:?}");
            let packet =
                proto::DataPacket::decode(fixture.receiver(client).messages[0].1.as_slice())
                    .unwrap();
            assert_eq!(packet.participant_identity, "PA_alice");
        }
        assert!(
            numbers(&mut fixture, alice, "_reliable").is_empty(),
            "{mode:?}: not to the sender"
        );
    }
}

fn replay(fixture: &mut Fixture, peer: &str, received: &[(&str, u32)]) {
    let received = received
        .iter()
        .map(|(sender, last)| (sender.parse().unwrap(), *last))
        .collect();
    fixture.command(PeerCommand::ReplayData { received }.for_peer(peer.parse().unwrap()));
    fixture.run(Duration::from_millis(100));
}

/// Proves S-53.
#[test]
fn a_sender_that_is_named_many_times_is_replayed_once() {
    let (mut fixture, [alice, bob, _]) =
        world_with_channels(ConnectionMode::Single, ["PA_alice", "PA_bob", "PA_carol"]);
    for number in 1..=3 {
        send(&mut fixture, alice, "_reliable", &packet(number, 10, &[]));
    }
    fixture.run(Duration::from_millis(100));
    replay(&mut fixture, "PA_bob", &[("PA_alice", 1); 900]);
    assert_eq!(numbers(&mut fixture, bob, "_reliable"), [1, 2, 3, 2, 3]);
    replay(
        &mut fixture,
        "PA_bob",
        &[("PA_alice", 0), ("PA_alice", 2), ("PA_bob", 0)],
    );
    assert_eq!(numbers(&mut fixture, bob, "_reliable"), [1, 2, 3, 2, 3, 3]);
}

/// Proves S-53.
#[test]
fn a_participant_gets_no_message_from_before_its_join_nor_an_old_one_nor_one_that_it_may_not_have()
{
    let (mut fixture, [alice, bob, _]) =
        world_with_channels(ConnectionMode::Single, ["PA_alice", "PA_bob", "PA_carol"]);
    send(&mut fixture, alice, "_reliable", &packet(1, 10, &[]));
    fixture.run(Duration::from_secs(1));
    let dave = fixture.join_connected("PA_dave", ConnectionMode::Single);
    fixture.run_until("the channels are open", |fixture| {
        fixture.clients[dave].publisher.channels.len() >= 2
    });
    send(&mut fixture, alice, "_reliable", &packet(2, 10, &[]));
    send(
        &mut fixture,
        alice,
        "_reliable",
        &packet(3, 10, &["PA_carol"]),
    );
    fixture.run(Duration::from_millis(100));
    replay(&mut fixture, "PA_dave", &[("PA_alice", 0)]);
    assert_eq!(numbers(&mut fixture, dave, "_reliable"), [2, 2]);
    let mut permissions = new_peer("PA_bob", ConnectionMode::Single).permissions;
    permissions.can_subscribe = false;
    fixture.command(PeerCommand::SetPermissions(permissions).for_peer("PA_bob".parse().unwrap()));
    replay(&mut fixture, "PA_bob", &[("PA_alice", 0)]);
    assert_eq!(numbers(&mut fixture, bob, "_reliable"), [1, 2]);
    fixture.run(Duration::from_secs(10));
    replay(&mut fixture, "PA_dave", &[("PA_alice", 0)]);
    assert_eq!(
        numbers(&mut fixture, dave, "_reliable"),
        [2, 2],
        "ten seconds later it is too late"
    );
}

fn has_failed(fixture: &Fixture, client: usize) -> bool {
    fixture.clients[client]
        .events
        .contains(&PeerEvent::Failed(FailureReason::Channels))
}

/// Proves S-54.
#[test]
fn a_client_that_opens_many_channels_or_one_with_a_long_name_is_disconnected() {
    for mode in MODES {
        let (mut fixture, [alice, bob, _]) =
            world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
        // Together with the channels of LiveKit's clients.
        for number in 0..24 {
            fixture.clients[alice]
                .publisher
                .open_channel(&format!("channel-{number}"));
        }
        fixture.run(Duration::from_millis(500));
        assert!(!has_failed(&fixture, alice), "{mode:?}");
        for number in 24..100 {
            fixture.clients[alice]
                .publisher
                .open_channel(&format!("channel-{number}"));
        }
        fixture.run(Duration::from_millis(500));
        assert!(has_failed(&fixture, alice), "{mode:?}");
        fixture.clients[bob]
            .publisher
            .open_channel(&"n".repeat(256));
        fixture.run(Duration::from_millis(500));
        assert!(!has_failed(&fixture, bob), "{mode:?}");
        fixture.clients[bob]
            .publisher
            .open_channel(&"n".repeat(257));
        fixture.run(Duration::from_millis(500));
        assert!(has_failed(&fixture, bob), "{mode:?}");
    }
}
