//! Candidates in clients' offers.

use std::collections::BTreeSet;
use std::time::Duration;

use str0m::net::Protocol;

use super::commands::new_peer;
use super::fixture::Fixture;
use super::support::{Abilities, Connection};
use crate::command::{Command, ConnectionMode, NewPeer, PeerCommand};

/// Sends one offer per list, with its addresses as candidates, from a client that sends nothing else. Returns the
/// addresses that the server contacts.
fn contacted(needs_full_ice: bool, offers: &[&[String]]) -> BTreeSet<String> {
    let mut fixture = Fixture::new();
    fixture.command(Command::AddPeer(NewPeer {
        needs_full_ice,
        ..new_peer("PA_mallory", ConnectionMode::Single)
    }));
    let address = "198.51.100.9:5000".parse().unwrap();
    let (offer, _) = Connection::new(address, Protocol::Udp, Abilities::default(), fixture.now)
        .offer(None, [1, 1], false);
    let mut contacted = BTreeSet::new();
    for addresses in offers {
        let candidates = addresses
            .iter()
            .map(|address| format!("a=candidate:1 1 udp 2130706431 {address} 5000 typ host\r\n"));
        let (room, peer) = (fixture.room.clone(), "PA_mallory".parse().unwrap());
        let sdp = offer.clone() + &candidates.collect::<String>();
        fixture.worker.handle_command(
            &room,
            PeerCommand::Offer { offer_id: 1, sdp }.for_peer(peer),
            fixture.now,
        );
        for _ in 0..100 {
            fixture.now += Duration::from_millis(50);
            fixture.worker.handle_timeout(fixture.now);
            while fixture.worker.flush(fixture.now) {}
            contacted.extend(
                fixture
                    .worker
                    .outbox()
                    .drain(..)
                    .map(|packet| packet.destination.ip().to_string()),
            );
        }
    }
    assert!(fixture.failures("PA_mallory").is_empty());
    contacted
}

fn texts(addresses: &[&str]) -> Vec<String> {
    addresses
        .iter()
        .map(|address| (*address).to_owned())
        .collect()
}

/// Proves S-39.
#[test]
fn a_full_ice_agent_contacts_public_addresses_and_those_of_its_own_networks_only() {
    let offered = texts(&[
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "198.41.0.1",
    ]);
    assert_eq!(
        contacted(true, &[&offered]),
        texts(&["198.41.0.1"]).into_iter().collect()
    );
    // The server's address is in this network.
    let offered = texts(&["192.168.0.1", "192.0.2.77"]);
    assert_eq!(
        contacted(true, &[&offered]),
        texts(&["192.0.2.77"]).into_iter().collect()
    );
}

/// Proves S-39.
#[test]
fn a_full_ice_agent_contacts_few_addresses_however_many_are_offered() {
    let many: Vec<_> = (1..100).map(|last| format!("198.41.0.{last}")).collect();
    assert_eq!(
        contacted(true, &[&many]),
        many[..8].iter().cloned().collect()
    );
    assert_eq!(
        contacted(true, &[&many[..5], &many[50..]]),
        [&many[..5], &many[50..53]].concat().into_iter().collect()
    );
}

/// Proves S-39.
#[test]
fn an_ice_lite_agent_contacts_nobody() {
    assert!(contacted(false, &[&texts(&["198.41.0.1", "192.0.2.77"])]).is_empty());
}
