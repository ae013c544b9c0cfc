//! str0m demands that its output is polled after each change, before the next one. The worker writes packets to a
//! connection without doing so: these tests would notice if it mattered.

use std::time::{Duration, Instant};

use str0m::Output;
use str0m::format::Codec;
use str0m::media::{Mid, Pt};
use str0m::rtp::RtpWrite;

use super::fixture::{Fixture, Publication};
use super::support::{Abilities, Received};
use super::{MODES, alice_and_bob};
use crate::command::ConnectionMode;
use crate::transport::{Source, TransportKey};
use crate::worker::Datagram;
use crate::worker::receive::is_media;

/// Packets that a client sends at once: as many as a worker receives in one batch.
const AT_ONCE: usize = 16;

/// Returns a call in which a connection sends audio, with the connection, its section and the payload type.
fn one_receiver() -> (Fixture, TransportKey, Mid, Pt) {
    let (mut fixture, alice, bob) = alice_and_bob(ConnectionMode::Single);
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    fixture.subscribe(bob, &voice);
    fixture.send(&mut voice, None, &[0]);
    fixture.run(Duration::from_secs(1));
    let subscription = &fixture.worker.tracks.values().next().unwrap().subscriptions[0];
    let (receiver, mid) = (subscription.transport, subscription.mid);
    let (payload_type, _) = subscription.payload.unwrap();
    (fixture, receiver, mid, payload_type)
}

fn numbered(payload_type: Pt, number: u64, now: Instant) -> RtpWrite {
    RtpWrite::new(
        payload_type,
        (30_000 + number).into(),
        0,
        now,
        &[1, 2, 3][..],
    )
}

#[test]
fn a_connection_puts_out_nothing_of_what_is_written_before_time_passes() {
    let (mut fixture, receiver, mid, payload_type) = one_receiver();
    let (now, transport) = (
        fixture.now,
        fixture.worker.connections.get_mut(receiver).unwrap(),
    );
    transport.advance(now).unwrap();
    while !matches!(transport.poll().unwrap(), Output::Timeout(_)) {}
    for number in 0..AT_ONCE as u64 {
        assert!(transport.write_rtp(mid, numbered(payload_type, number, now)));
        let output = transport.poll().unwrap();
        assert!(
            matches!(output, Output::Timeout(due) if due <= now),
            "after write {number}: {output:?}"
        );
    }
    let mut packets = 0;
    for moment in 0..AT_ONCE as u32 {
        transport
            .advance(now + Duration::from_micros(1) * moment)
            .unwrap();
        loop {
            match transport.poll().unwrap() {
                Output::Timeout(_) => break,
                Output::Transmit(_) => packets += 1,
                Output::Event(event) => panic!("{event:?}"),
            }
        }
    }
    assert_eq!(packets, AT_ONCE);
}

/// The worker relies on this: after a media packet, it advances the time without another poll.
#[test]
fn only_the_next_moment_follows_a_media_packet() {
    let (mut fixture, receiver, mid, payload_type) = one_receiver();
    let mut now = fixture.now;
    let transport = fixture.worker.connections.get_mut(receiver).unwrap();
    for number in 0..AT_ONCE as u64 {
        assert!(transport.write_rtp(mid, numbered(payload_type, number, now)));
    }
    // Reports and statistics become due together with the packets.
    now += Duration::from_secs(6);
    transport.advance(now).unwrap();
    let (mut media, mut others) = (0, 0);
    loop {
        match transport.poll().unwrap() {
            Output::Transmit(packet) if is_media(&packet.contents) => {
                media += 1;
                let next = transport.poll().unwrap();
                let soon = now + Duration::from_micros(1);
                assert!(
                    matches!(next, Output::Timeout(due) if due <= soon),
                    "after packet {media}: {next:?}"
                );
                now = soon;
                transport.advance(now).unwrap();
            }
            Output::Transmit(_) | Output::Event(_) => others += 1,
            Output::Timeout(_) => break,
        }
    }
    // The bandwidth estimation may add padding.
    assert!(media >= AT_ONCE, "{media} packets");
    assert!(others > 0, "nothing else was due");
}

#[test]
fn media_is_told_from_other_packets() {
    let opus = [0x80, 0x6f, 0, 1];
    let marked = [0x90, 0xe0, 0, 1];
    let (report, feedback) = ([0x80, 200, 0, 6], [0x8f, 205, 0, 5]);
    let (stun, dtls) = ([1, 1, 0, 0], [23, 254, 253, 0]);
    assert!(is_media(&opus) && is_media(&marked));
    for other in [&report[..], &feedback, &stun, &dtls, &[0x80], &[]] {
        assert!(!is_media(other), "{other:?}");
    }
}

/// A receiver's packets, and its connection's statistics, after many-packet frames and audio.
#[derive(Debug)]
struct Outcome {
    /// Audio payloads and video payloads in order, with the distances between sequence numbers.
    heard: Vec<(Vec<u8>, u64, u32)>,
    seen: Vec<(Vec<u8>, u64, u32)>,
    statistics: (u64, u64, Option<String>),
    /// Estimated bandwidth in kbit/s.
    estimate: u32,
}

/// Sends audio and video packets together for some seconds. All connections are polled once per batch, or after each
/// packet.
fn outcome(mode: ConnectionMode, is_batched: bool) -> Outcome {
    let mut fixture = Fixture::new();
    fixture.abilities = Abilities {
        estimates: true,
        ..Abilities::default()
    };
    let (alice, bob) = (
        fixture.join_connected("PA_alice", mode),
        fixture.join_connected("PA_bob", mode),
    );
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    fixture.subscribe(bob, &voice);
    fixture.subscribe(bob, &camera);
    // The estimation starts after a new video has settled, and its first probes depend on single bytes.
    fixture.run(Duration::from_secs(3));
    for frame in 0..150_u8 {
        for number in 0..AT_ONCE as u8 {
            if number == 7 {
                write(&mut fixture, &mut voice, &[frame, number]);
            } else {
                let is_key = frame % 50 == 0 && number == 0;
                let payload = [
                    &camera.next_vp8_header(is_key)[..],
                    &[frame, number],
                    &[0; 500],
                ]
                .concat();
                write(&mut fixture, &mut camera, &payload);
            }
        }
        receive(&mut fixture, alice, is_batched);
        fixture.settle();
        fixture.run(Duration::from_millis(33));
    }
    fixture.run(Duration::from_secs(2));
    let steps = |track: &Publication| {
        let received = fixture.received(bob, track);
        let step = |pair: &[Received]| {
            let timestamp = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
            (
                pair[1].payload.clone(),
                pair[1].sequence - pair[0].sequence,
                timestamp,
            )
        };
        received.windows(2).map(step).collect()
    };
    let (heard, seen) = (steps(&voice), steps(&camera));
    let transport = fixture.snapshot(&["PA_bob"])[0]
        .transports
        .last()
        .unwrap()
        .clone();
    let receiver = fixture.worker.tracks.values().next().unwrap().subscriptions[0].transport;
    let stats = fixture
        .worker
        .connections
        .get(receiver)
        .unwrap()
        .stats()
        .cloned()
        .unwrap();
    let loss = stats.egress_loss_fraction.map(|loss| format!("{loss:.3}"));
    let statistics = (stats.bytes_tx, stats.peer_bytes_tx / 10_000, loss);
    Outcome {
        heard,
        seen,
        statistics,
        estimate: transport.estimate_kbps.unwrap(),
    }
}

fn write(fixture: &mut Fixture, track: &mut Publication, payload: &[u8]) {
    fixture.write(track, None, payload);
    fixture.now += Duration::from_micros(10);
    let now = fixture.now;
    fixture.clients[track.client].publisher.advance(now);
}

/// Passes a client's packets to the worker.
fn receive(fixture: &mut Fixture, client: usize, is_batched: bool) {
    for packet in std::mem::take(&mut fixture.clients[client].publisher.outbox) {
        let source = Source {
            is_tcp: false,
            address: packet.source,
        };
        let datagram = Datagram {
            source,
            destination: packet.destination,
            contents: &packet.contents,
        };
        fixture.worker.handle_datagram(datagram, fixture.now);
        for transport in fixture
            .worker
            .connections
            .values_mut()
            .filter(|_| !is_batched)
        {
            let output = transport.poll().unwrap();
            assert!(matches!(output, Output::Timeout(_)), "{output:?}");
        }
    }
}

#[test]
fn packets_order_statistics_and_estimates_are_those_of_connections_whose_outputs_are_taken_after_each_packet()
 {
    for mode in MODES {
        let (batched, single) = (outcome(mode, true), outcome(mode, false));
        assert_eq!(
            (batched.heard.len(), batched.seen.len()),
            (149, 150 * (AT_ONCE - 1) - 1),
            "{mode:?}"
        );
        assert_eq!(batched.heard, single.heard, "{mode:?}");
        assert_eq!(batched.seen, single.seen, "{mode:?}");
        assert_eq!(batched.statistics, single.statistics, "{mode:?}");
        // Two runs of the same kind differ by some percent, since SSRCs and names are random.
        let (estimate, other) = (batched.estimate, single.estimate);
        assert!(
            estimate.abs_diff(other) <= other / 8,
            "{mode:?}: {estimate} and {other} kbit/s"
        );
    }
}
