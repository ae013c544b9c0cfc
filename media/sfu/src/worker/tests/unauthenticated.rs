//! Unauthenticated clients, and participants that send nonsense.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestRunner};
use str0m::format::Codec;

use super::commands::new_peer;
use super::fixture::{Fixture, SERVER};
use super::{MODES, alice_and_bob};
use crate::command::{Command, ConnectionMode, PeerCommand};
use crate::config::Limits;
use crate::event::{FailureReason, PeerEvent};
use crate::transport::Source;
use crate::worker::Datagram;

impl Fixture {
    pub(super) fn receive_from(&mut self, address: SocketAddr, contents: &[u8]) {
        let source = Source {
            is_tcp: false,
            address,
        };
        let datagram = Datagram {
            source,
            destination: SERVER.parse().unwrap(),
            contents,
        };
        self.worker.handle_datagram(datagram, self.now);
    }

    fn is_bound(&self, address: SocketAddr) -> bool {
        self.worker.is_bound(Source {
            is_tcp: false,
            address,
        })
    }
}

/// Bytes of the checksum at the end of a STUN message, which the password does not cover.
const FINGERPRINT: usize = 8;

fn stranger() -> SocketAddr {
    "203.0.113.9:4000".parse().unwrap()
}

/// First bytes of a packet in each protocol.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let first = prop::sample::select(vec![0_u8, 1, 20, 22, 63, 64, 128, 144, 191, 200]);
    (first, prop::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(first, rest)| [vec![first], rest].concat())
}

/// Proves S-27.
#[test]
fn datagrams_of_strangers_change_nothing() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    fixture.worker.outbox().clear();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(2000));
    let fixture = std::cell::RefCell::new(fixture);
    let outcome = runner.run(&datagram(), |bytes| {
        let mut fixture = fixture.borrow_mut();
        fixture.receive_from(stranger(), &bytes);
        prop_assert!(!fixture.is_bound(stranger()) && fixture.worker.outbox().is_empty());
        Ok(())
    });
    outcome.unwrap();
    assert!(
        !fixture.borrow().clients[alice]
            .events
            .iter()
            .any(|event| matches!(event, PeerEvent::Failed(_)))
    );
}

/// Proves S-27.
#[test]
fn a_request_without_the_password_binds_no_address() {
    let mut fixture = Fixture::new();
    let alice = fixture.join("PA_alice", ConnectionMode::Single);
    let connection = &mut fixture.clients[alice].publisher;
    let checks = (1..100).flat_map(|step| {
        connection.advance(fixture.now + Duration::from_millis(20 * step));
        connection
            .outbox
            .drain(..)
            .map(|packet| packet.contents.to_vec())
            .collect::<Vec<_>>()
    });
    let request = checks
        .into_iter()
        .find(|bytes| bytes[0] < 2)
        .expect("the client checks the server's address");
    for position in 20..request.len() - FINGERPRINT {
        let mut changed = request.clone();
        changed[position] ^= 1;
        fixture.receive_from(stranger(), &changed);
        assert!(
            !fixture.is_bound(stranger()),
            "with byte {position} changed"
        );
    }
    fixture.receive_from(stranger(), &request);
    assert!(
        fixture.is_bound(stranger()),
        "the request itself is genuine"
    );
}

#[test]
fn a_participant_that_sends_nonsense_harms_nobody_else() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        fixture.join_connected("PA_mallory", mode);
        let mallory = fixture.receiver(2).address;
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        let fixture = std::cell::RefCell::new(fixture);
        let mut runner = TestRunner::new(ProptestConfig::with_cases(1000));
        let outcome = runner.run(&datagram(), |bytes| {
            fixture.borrow_mut().receive_from(mallory, &bytes);
            Ok(())
        });
        outcome.unwrap();
        let mut fixture = fixture.into_inner();
        for record in unprotected_records() {
            fixture.receive_from(mallory, &record);
        }
        fixture.settle();
        fixture.send(&mut voice, None, &[1]);
        assert_eq!(fixture.received(bob, &voice).len(), 1, "{mode:?}");
        // Anyone can send these with the participant's address as their source.
        let failed = fixture.clients[2]
            .events
            .iter()
            .any(|event| matches!(event, PeerEvent::Failed(_)));
        assert!(
            !failed,
            "{mode:?}: packets without authentication end no connection"
        );
    }
}

/// Unencrypted DTLS records: alerts, a handshake message, application data, and a truncated one.
fn unprotected_records() -> Vec<Vec<u8>> {
    let record = |kind: u8, epoch: u8, body: &[u8]| {
        let length = u8::try_from(body.len()).unwrap();
        [
            &[kind, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 9, 0, length],
            body,
        ]
        .concat()
    };
    let mut records = Vec::new();
    for epoch in [0, 1, 2] {
        for (kind, body) in [
            (21, &[2, 40][..]),
            (21, &[1, 0]),
            (22, &[1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]),
            (20, &[1]),
            (23, &[0; 40]),
        ] {
            records.push(record(kind, epoch, body));
        }
    }
    records.push(record(22, 0, &[0; 20])[..15].to_vec());
    records
}

/// Text with lines removed, repeated, truncated or replaced.
fn damaged(text: &str, changes: &[(usize, u8, String)]) -> String {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    for (at, change, other) in changes {
        let at = at % lines.len().max(1);
        match change % 4 {
            0 if lines.len() > 1 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => lines[at] = lines[at].chars().take(at % 20).collect(),
            _ => lines[at].push_str(other),
        }
    }
    lines.join("\r\n") + "\r\n"
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8, String)>> {
    prop::collection::vec(
        (any::<usize>(), any::<u8>(), "[ a-z0-9:;=/\\-]{0,12}"),
        1..6,
    )
}

/// Completes the worker's output, and drops its packets.
fn complete(fixture: &mut Fixture) {
    while fixture.worker.flush(fixture.now) {
        fixture.worker.outbox().clear();
    }
}

#[test]
fn damaged_descriptions_fail_their_participant_at_most() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(100));
    let offer = {
        let mut fixture = Fixture::new();
        let client = fixture.join("PA_sample", ConnectionMode::Single);
        fixture.clients[client].last_offer.clone()
    };
    let fixture = std::cell::RefCell::new(Fixture::new());
    let alice = fixture
        .borrow_mut()
        .join_connected("PA_alice", ConnectionMode::Single);
    let outcome = runner.run(&(changes(), any::<bool>()), |(changes, is_dual)| {
        let mut fixture = fixture.borrow_mut();
        let (room, now) = (fixture.room.clone(), fixture.now);
        let mode = if is_dual {
            ConnectionMode::Dual
        } else {
            ConnectionMode::Single
        };
        let sdp = damaged(&offer, &changes);
        let peer: conclave_model::ParticipantSid = "PA_mallory".parse().unwrap();
        fixture
            .worker
            .handle_command(&room, Command::AddPeer(new_peer("PA_mallory", mode)), now);
        complete(&mut fixture);
        let offer = PeerCommand::Offer {
            offer_id: 1,
            sdp: sdp.clone(),
        }
        .for_peer(peer.clone());
        fixture.worker.handle_command(&room, offer, now);
        let answer = PeerCommand::Answer { offer_id: 0, sdp }.for_peer(peer.clone());
        fixture.worker.handle_command(&room, answer, now);
        complete(&mut fixture);
        fixture
            .worker
            .handle_command(&room, PeerCommand::Remove.for_peer(peer), now);
        drop(fixture.worker.take_events());
        Ok(())
    });
    outcome.unwrap();
    let mut fixture = fixture.into_inner();
    let voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    assert!(
        fixture.clients[alice].publisher.is_connected,
        "{}",
        voice.sid
    );
}

#[test]
fn handshakes_of_one_address_are_limited() {
    let mut fixture = Fixture::with_limits(Limits {
        handshakes_per_address: 1,
        ..Limits::default()
    });
    let alice = fixture.join("PA_alice", ConnectionMode::Single);
    let bob = fixture.join("PA_bob", ConnectionMode::Single);
    fixture.run_until("one after the other is connected", |fixture| {
        [alice, bob].iter().all(|client| {
            fixture.clients[*client]
                .events
                .contains(&PeerEvent::Connected)
        })
    });
    let mut fixture = Fixture::with_limits(Limits {
        handshakes_per_address: 0,
        ..Limits::default()
    });
    let carol = fixture.join("PA_carol", ConnectionMode::Single);
    fixture.run(Duration::from_secs(3));
    assert!(!fixture.clients[carol].publisher.is_connected);
}

#[test]
fn a_participant_beyond_the_capacity_fails() {
    let mut fixture = Fixture::with_limits(Limits {
        peers: 1,
        ..Limits::default()
    });
    fixture.join_connected("PA_alice", ConnectionMode::Single);
    fixture.command(Command::AddPeer(new_peer(
        "PA_alice2",
        ConnectionMode::Single,
    )));
    assert_eq!(fixture.failures("PA_alice2"), [FailureReason::Capacity]);
}

#[test]
fn a_participant_with_a_description_that_is_too_large_fails_before_it_is_parsed() {
    let limits = Limits {
        sdp_bytes: 60_000,
        sdp_lines: 5000,
        media_sections: 10,
        ..Limits::default()
    };
    let mut fixture = Fixture::with_limits(limits);
    for (name, line, count) in [
        (
            "PA_bytes",
            "a=fmtp:96 x=111111111111111111111111111111111\r\n",
            2000,
        ),
        ("PA_lines", "a=x\r\n", 6000),
        ("PA_sections", "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n", 12),
        (
            "PA_candidates",
            "a=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\n",
            257,
        ),
    ] {
        let refused = fixture.worker.counters().refused_clients;
        fixture.command(Command::AddPeer(new_peer(name, ConnectionMode::Single)));
        let sdp = format!("v=0\r\n{}", line.repeat(count));
        fixture.command(PeerCommand::Offer { offer_id: 1, sdp }.for_peer(name.parse().unwrap()));
        assert_eq!(
            fixture.failures(name),
            [FailureReason::Negotiation],
            "{name}"
        );
        assert_eq!(
            fixture.worker.counters().refused_clients,
            refused + 1,
            "{name}"
        );
    }
}

#[test]
fn a_worker_forgets_participants_and_rooms_completely() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        fixture.leave(alice);
        fixture.leave(bob);
        fixture.command(Command::CloseRoom);
        assert!(fixture.worker.is_empty(), "{mode:?}");
    }
}

#[test]
fn a_packet_that_is_too_large_harms_no_receiver() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut camera = fixture.publish(alice, "TR_camera", Codec::H264, &[]);
        fixture.subscribe(bob, &camera);
        for size in [1000, 1400, 1401, 1900, 100] {
            let payload = [vec![0x65], vec![0; size - 1]].concat();
            fixture.send(&mut camera, None, &payload);
        }
        let sizes: Vec<_> = fixture
            .received(bob, &camera)
            .iter()
            .map(|packet| packet.payload.len())
            .collect();
        assert_eq!(sizes, [1000, 1400, 100], "{mode:?}");
    }
}
