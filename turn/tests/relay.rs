//! The TURN server with real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "other tests use what this one does not")]
#[path = "support/client.rs"]
mod client;
#[allow(dead_code, reason = "other tests use what this one does not")]
#[path = "support/requests.rs"]
mod requests;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conclave_model::{Clock, MediaAddress, Secret, Timestamp};
use conclave_turn::credentials::{password, username};
use conclave_turn::{TurnServer, TurnSettings, UdpRelay};

use client::{Link, READ_TIMEOUT, TurnClient};
use requests::{channel_data, code, relayed};

/// A machine under load may be slow; a test that passes takes a fraction of it.
const DEADLINE: Duration = Duration::from_secs(60);

const SECRET: &str = "hush";

/// A server that relays to the socket of the test, which stands for a media worker.
struct World {
    server: TurnServer,
    clock: Clock,
    worker: UdpSocket,
    /// Serves clients by TCP.
    tcp: SocketAddr,
    udp: UdpRelay,
}

impl World {
    fn new() -> Self {
        Self::with_patience(DEADLINE)
    }

    /// A server that closes a connection that has been without an allocation for so long.
    fn with_patience(patience: Duration) -> Self {
        let worker = UdpSocket::bind("127.0.0.1:0").unwrap();
        worker.set_read_timeout(Some(DEADLINE)).unwrap();
        let address = worker.local_addr().unwrap();
        let clock = Clock::manual(Timestamp::from_millis(1_000_000_000));
        let peers = [MediaAddress { bound: address, advertised: address }];
        let secret = Secret::new(SECRET);
        let server = TurnServer::new(TurnSettings { secret, peers: &peers, clock: clock.clone(), patience });
        let udp = server.serve_udp(&[address.ip()], 0).unwrap();
        Self { tcp: serve_tcp(server.clone()), udp, server, clock, worker }
    }

    fn client(&self, link: Link, name: &str) -> TurnClient {
        let username = username(name, self.clock.now().after(Duration::from_secs(3_600)));
        let password = password(&Secret::new(SECRET), &username);
        TurnClient::new(link, &username, password.reveal())
    }

    fn by_udp(&self) -> TurnClient {
        self.client(Link::udp(self.udp.addresses()[0]), "PA_alice")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.tcp).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        stream
    }

    fn by_tcp(&self) -> TurnClient {
        self.client(Link::Stream(Box::new(self.connect())), "PA_alice")
    }

    fn peer(&self) -> SocketAddr {
        self.worker.local_addr().unwrap()
    }

    /// Receives a datagram as the media worker. Returns whom to answer.
    fn take(&self, expected: &[u8]) -> SocketAddr {
        let mut buffer = [0; 2_000];
        let (length, source) = self.worker.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..length], *expected);
        assert!(source.ip().is_loopback());
        source
    }

    fn allocations(&self) -> u64 {
        self.server.metrics().allocations.load(Ordering::Relaxed)
    }
}

/// Serves clients on a thread of their own. Returns its address.
fn serve_tcp(server: TurnServer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, client) = listener.accept().await.unwrap();
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream, client).await });
            }
        });
    });
    address
}

fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[test]
fn datagrams_are_relayed_both_ways_by_udp_and_by_tcp() {
    let world = World::new();
    for mut client in [world.by_udp(), world.by_tcp()] {
        assert_eq!(code(&client.allocate()), 0);
        for payload in [&b"first"[..], b"2", &[7; 1_200]] {
            client.send(world.peer(), payload);
            let relay = world.take(payload);
            world.worker.send_to(payload, relay).unwrap();
            assert_eq!(client.wait(), (world.peer(), payload.to_vec()));
        }
    }
    let metrics = world.server.metrics();
    let bytes = 2 * 1_206;
    eventually("all is counted", || (read(&metrics.from_clients), read(&metrics.to_clients)) == (bytes, bytes));
    assert_eq!(read(&metrics.dropped), 0);
}

#[test]
fn what_others_on_the_machine_send_to_an_allocation_is_not_relayed() {
    let world = World::new();
    let mut client = world.by_tcp();
    client.allocate();
    client.send(world.peer(), b"ping");
    let relay = world.take(b"ping");
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(b"forged", relay).unwrap();
    world.worker.send_to(b"pong", relay).unwrap();
    assert_eq!(client.wait().1, b"pong");
}

#[test]
fn an_allocation_ends_with_its_connection_or_its_time() {
    let world = World::new();
    let (mut by_udp, mut by_tcp) = (world.by_udp(), world.by_tcp());
    let relayed_at = relayed(&by_udp.allocate());
    by_tcp.allocate();
    assert_eq!(world.allocations(), 2);
    drop(by_tcp);
    eventually("the allocation of a connection ends with it", || world.allocations() == 1);
    world.clock.advance(Duration::from_secs(600));
    eventually("the allocation of a silent client ends", || world.allocations() == 0);
    eventually("its socket is closed", || UdpSocket::bind(("127.0.0.1", relayed_at.port())).is_ok());
    let again = by_udp.requests.allocate();
    assert_eq!(by_udp.code(&again), 0, "the client may make another one");
}

#[test]
fn a_client_that_reads_nothing_loses_packets_and_holds_up_nobody() {
    let world = World::new();
    let (mut slow, mut other) = (world.by_tcp(), world.by_tcp());
    slow.allocate();
    slow.send(world.peer(), b"ping");
    let relay = world.take(b"ping");
    other.allocate();
    let metrics = world.server.metrics();
    let mut sent = 0_u64;
    eventually("packets are dropped once the buffers are full", || {
        for _ in 0..100 {
            world.worker.send_to(&[1; 1_200], relay).unwrap();
            sent += 1;
        }
        other.send(world.peer(), b"ping");
        let relay = world.take(b"ping");
        world.worker.send_to(b"pong", relay).unwrap();
        assert_eq!(other.wait().1, b"pong");
        read(&metrics.dropped) > 0
    });
    // It reads again: what has waited comes, and then what is new.
    let mut received = 0;
    eventually("what has waited arrives", || {
        received += u64::from(slow.receive().is_some());
        received >= 10
    });
    assert!(received < sent);
    eventually("what is sent from then on arrives", || {
        world.worker.send_to(b"again", relay).unwrap();
        slow.receive().is_some_and(|(_, payload)| payload == b"again")
    });
}

#[test]
fn a_connection_of_a_stranger_ends() {
    let world = World::with_patience(Duration::ZERO);
    world.by_tcp().wait_for_end();
    let world = World::new();
    for garbage in [&b"\0\x03\0\x08not a cookie at all"[..], b"\0\0\xff\xff", &[0xff; 100]] {
        let mut client = world.by_tcp();
        client.write(garbage);
        // Of a message that has the form of one, more are awaited.
        (0..20).for_each(|_| client.write(garbage));
        client.wait_for_end();
    }
    let mut asking = world.by_tcp();
    let allocate = asking.requests.allocate();
    (0..20).for_each(|_| asking.write(&allocate));
    asking.wait_for_end();
    let mut half = world.connect();
    std::io::Write::write_all(&mut half, &allocate[..10]).unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    half.set_read_timeout(Some(DEADLINE)).unwrap();
    assert_eq!(half.read(&mut [0]).unwrap(), 0);
    assert_eq!(world.allocations(), 0);
}

#[test]
fn messages_may_come_in_pieces_and_several_at_once() {
    let world = World::new();
    let mut client = world.by_tcp();
    client.allocate();
    let bind = client.requests.bind(0x4000, world.peer());
    assert_eq!(client.code(&bind), 0);
    let bytes = [channel_data(0x4000, b"one"), channel_data(0x4000, b""), channel_data(0x4000, b"three")].concat();
    bytes.iter().for_each(|byte| client.write(&[*byte]));
    client.write(&bytes);
    for expected in [&b"one"[..], b"", b"three", b"one", b"", b"three"] {
        world.take(expected);
    }
}

#[test]
fn a_port_is_free_once_the_server_has_ended() {
    let World { udp, .. } = World::new();
    let address = udp.addresses()[0];
    assert!(UdpSocket::bind(address).is_err());
    drop(udp);
    assert!(UdpSocket::bind(address).is_ok());
}
