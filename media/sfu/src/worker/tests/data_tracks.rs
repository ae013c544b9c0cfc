//! Data tracks.

use std::time::Duration;

use conclave_model::{ParticipantSid, TrackSid};

use super::MODES;
use super::commands::new_peer;
use super::fixture::Fixture;
use super::messages::world_with_channels;
use crate::command::{ConnectionMode, PeerCommand};

const LABEL: &str = "_data_track";

fn sid(text: &str) -> ParticipantSid {
    text.parse().unwrap()
}

fn track() -> TrackSid {
    "DTR_1".parse().unwrap()
}

fn packet(handle: u16, number: u8) -> Vec<u8> {
    let mut packet = vec![0x18, 0, 0, 0, 0, number, 0, 1, 0, 0, 0, 7, number, 0xab];
    packet[2..4].copy_from_slice(&handle.to_be_bytes());
    packet
}

/// Returns handles and payloads of a client's packets.
fn received(fixture: &mut Fixture, client: usize) -> Vec<(u16, u8)> {
    let messages = fixture
        .receiver(client)
        .messages
        .iter()
        .filter(|(label, _)| label == LABEL);
    messages
        .map(|(_, packet)| (u16::from_be_bytes([packet[2], packet[3]]), packet[12]))
        .collect()
}

fn command(fixture: &mut Fixture, peer: &str, command: PeerCommand) {
    fixture.command(command.for_peer(sid(peer)));
}

fn subscribe(fixture: &mut Fixture, peer: &str, handle: u16) {
    command(
        fixture,
        peer,
        PeerCommand::SubscribeDataTrack {
            publisher: sid("PA_alice"),
            track: track(),
            handle,
        },
    );
}

fn send(fixture: &mut Fixture, client: usize, bytes: &[u8]) {
    let now = fixture.now;
    assert!(
        fixture.clients[client]
            .publisher
            .send_message(LABEL, bytes, now),
        "the channel takes it"
    );
    fixture.settle();
    fixture.run(Duration::from_millis(50));
}

/// Three participants with data track channels. The first one has a track with handle 7.
fn stage(mode: ConnectionMode) -> (Fixture, [usize; 3]) {
    let (mut fixture, clients) = world_with_channels(mode, ["PA_alice", "PA_bob", "PA_carol"]);
    for client in clients {
        fixture.clients[client].publisher.open_channel(LABEL);
    }
    fixture.run_until("the channels are open", |fixture| {
        let is_open = |client: usize| {
            let client = &fixture.clients[client];
            let receives = client.subscriber.as_ref().unwrap_or(&client.publisher);
            client.publisher.channels.contains_key(LABEL) && receives.channels.contains_key(LABEL)
        };
        clients.into_iter().all(is_open)
    });
    command(
        &mut fixture,
        "PA_alice",
        PeerCommand::PublishDataTrack {
            track: track(),
            handle: 7,
        },
    );
    (fixture, clients)
}

#[test]
fn a_packet_reaches_the_subscribers_of_its_track_by_their_handles() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) = stage(mode);
        subscribe(&mut fixture, "PA_bob", 300);
        send(&mut fixture, alice, &packet(7, 1));
        subscribe(&mut fixture, "PA_carol", 4);
        send(&mut fixture, alice, &packet(7, 2));
        command(
            &mut fixture,
            "PA_bob",
            PeerCommand::UnsubscribeDataTrack {
                publisher: sid("PA_alice"),
                track: track(),
            },
        );
        send(&mut fixture, alice, &packet(7, 3));
        assert_eq!(
            received(&mut fixture, bob),
            [(300, 1), (300, 2)],
            "{mode:?}"
        );
        assert_eq!(received(&mut fixture, carol), [(4, 2), (4, 3)], "{mode:?}");
        assert!(received(&mut fixture, alice).is_empty(), "{mode:?}");
        let whole = fixture.receiver(carol).messages.last().unwrap().1.clone();
        assert_eq!(whole, packet(4, 3), "only the handle changes");
    }
}

#[test]
fn nothing_is_forwarded_of_another_track_a_muted_one_or_one_that_has_ended_or_is_no_packet() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) = stage(mode);
        subscribe(&mut fixture, "PA_bob", 1);
        send(&mut fixture, alice, &packet(8, 1));
        send(&mut fixture, alice, &packet(7, 2)[..11]);
        send(&mut fixture, carol, &packet(7, 3));
        for (muted, number) in [(true, 4), (false, 5)] {
            command(
                &mut fixture,
                "PA_alice",
                PeerCommand::SetMuted {
                    track: track(),
                    muted,
                },
            );
            send(&mut fixture, alice, &packet(7, number));
        }
        command(
            &mut fixture,
            "PA_alice",
            PeerCommand::UnpublishDataTrack(track()),
        );
        send(&mut fixture, alice, &packet(7, 6));
        assert_eq!(received(&mut fixture, bob), [(1, 5)], "{mode:?}");
    }
}

#[test]
fn permissions_hold_for_the_next_packet_and_one_that_has_left_is_forgotten() {
    for mode in MODES {
        let (mut fixture, [alice, bob, carol]) = stage(mode);
        subscribe(&mut fixture, "PA_bob", 1);
        subscribe(&mut fixture, "PA_carol", 2);
        let mut permissions = new_peer("PA_bob", mode).permissions;
        permissions.can_subscribe = false;
        command(
            &mut fixture,
            "PA_bob",
            PeerCommand::SetPermissions(permissions),
        );
        send(&mut fixture, alice, &packet(7, 1));
        command(&mut fixture, "PA_bob", PeerCommand::Remove);
        send(&mut fixture, alice, &packet(7, 2));
        permissions.can_publish_data = false;
        command(
            &mut fixture,
            "PA_alice",
            PeerCommand::SetPermissions(permissions),
        );
        send(&mut fixture, alice, &packet(7, 3));
        assert!(received(&mut fixture, bob).is_empty(), "{mode:?}");
        assert_eq!(received(&mut fixture, carol), [(2, 1), (2, 2)], "{mode:?}");
    }
}
