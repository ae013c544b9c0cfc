//! TURN server with real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "other tests use what this one does not")]
#[path = "support/client.rs"]
mod client;
#[allow(dead_code, reason = "other tests use what this one does not")]
#[path = "support/requests.rs"]
mod requests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conclave_model::{Clock, MediaAddress, Secret, Timestamp};
use conclave_turn::credentials::{password, username};
use conclave_turn::{MAX_ALLOCATIONS, RelayAccess, TurnServer, TurnSettings, UdpRelay};

use client::{Link, READ_TIMEOUT, TurnClient};
use requests::{channel_data, code, relayed};

/// A loaded machine may be slow; a passing test takes a fraction.
const DEADLINE: Duration = Duration::from_secs(60);

const SECRET: &str = "hush";
const LOOPBACK: &str = "127.0.0.1";

/// Server that relays to the test's socket, which stands for a media worker.
struct Fixture {
    server: TurnServer,
    clock: Clock,
    worker: UdpSocket,
    /// Address for TCP clients.
    tcp: SocketAddr,
    udp: UdpRelay,
    /// Admitted participants, by name.
    admitted: RefCell<HashMap<String, RelayAccess>>,
}

impl Fixture {
    fn new() -> Self {
        Self::with_allocation_timeout(DEADLINE)
    }

    /// Starts a server with this timeout for connections without an allocation.
    fn with_allocation_timeout(allocation_timeout: Duration) -> Self {
        let worker = UdpSocket::bind("127.0.0.1:0").unwrap();
        worker.set_read_timeout(Some(DEADLINE)).unwrap();
        let address = worker.local_addr().unwrap();
        let clock = Clock::manual(Timestamp::from_millis(1_000_000_000));
        let peers = [MediaAddress {
            bound: address,
            advertised: address,
        }];
        let secret = Secret::new(SECRET);
        let server = TurnServer::new(TurnSettings {
            secret,
            peers: &peers,
            clock: clock.clone(),
            allocation_timeout,
            max_allocations: MAX_ALLOCATIONS,
        });
        let udp = server.serve_udp(&[address.ip()], 0).unwrap();
        Self {
            tcp: serve_tcp(server.clone(), LOOPBACK),
            udp,
            server,
            clock,
            worker,
            admitted: RefCell::default(),
        }
    }

    fn client(&self, link: Link, name: &str) -> TurnClient {
        let admit = || self.server.admit(name, "prj_000000000001".parse().unwrap());
        self.admitted
            .borrow_mut()
            .entry(name.to_owned())
            .or_insert_with(admit);
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

    /// Receives a datagram as the media worker. Returns its source.
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

/// Accepts clients at an address's free port, on a thread. Returns the address.
fn serve_tcp(server: TurnServer, address: &str) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, client) = listener.accept().await.unwrap();
                let server = server.clone();
                let stream = stream.into_std().unwrap();
                let open = move || tokio::net::TcpStream::from_std(stream);
                tokio::spawn(async move { server.serve(client, open).await });
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
    let fixture = Fixture::new();
    for mut client in [fixture.by_udp(), fixture.by_tcp()] {
        assert_eq!(code(&client.allocate()), 0);
        for payload in [&b"first"[..], b"2", &[7; 1_200]] {
            client.send(fixture.peer(), payload);
            let relay = fixture.take(payload);
            fixture.worker.send_to(payload, relay).unwrap();
            assert_eq!(client.wait(), (fixture.peer(), payload.to_vec()));
        }
    }
    let metrics = fixture.server.metrics();
    // Three payloads, by UDP and by TCP.
    let bytes = 2 * 1_206;
    eventually("all is counted", || {
        (read(&metrics.from_clients), read(&metrics.to_clients)) == (bytes, bytes)
    });
    assert_eq!(read(&metrics.dropped), 0);
}

/// Proves S-29.
#[test]
fn only_media_workers_packets_to_an_allocation_are_relayed() {
    let fixture = Fixture::new();
    let mut client = fixture.by_tcp();
    client.allocate();
    client.send(fixture.peer(), b"ping");
    let relay = fixture.take(b"ping");
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Sent first: the pong arrives after the forged packet would have.
    other.send_to(b"forged", relay).unwrap();
    fixture.worker.send_to(b"pong", relay).unwrap();
    assert_eq!(client.wait().1, b"pong");
}

#[test]
fn an_allocation_ends_with_its_connection_or_its_time() {
    let fixture = Fixture::new();
    let (mut by_udp, mut by_tcp) = (fixture.by_udp(), fixture.by_tcp());
    let relayed_at = relayed(&by_udp.allocate());
    by_tcp.allocate();
    assert_eq!(fixture.allocations(), 2);
    drop(by_tcp);
    eventually("the allocation of a connection ends with it", || {
        fixture.allocations() == 1
    });
    // The lifetime of an allocation.
    fixture.clock.advance(Duration::from_secs(600));
    eventually("the allocation of a silent client ends", || {
        fixture.allocations() == 0
    });
    eventually("its socket is closed", || {
        UdpSocket::bind(("127.0.0.1", relayed_at.port())).is_ok()
    });
    let again = by_udp.requests.allocate();
    assert_eq!(by_udp.code(&again), 0, "the client may make another one");
}

/// Proves S-30.
#[test]
fn a_client_that_reads_nothing_loses_packets_and_holds_up_nobody() {
    let fixture = Fixture::new();
    let (mut slow, mut other) = (fixture.by_tcp(), fixture.by_tcp());
    slow.allocate();
    slow.send(fixture.peer(), b"ping");
    let relay = fixture.take(b"ping");
    other.allocate();
    let metrics = fixture.server.metrics();
    let mut sent = 0_u64;
    eventually("packets are dropped once the buffers are full", || {
        for _ in 0..100 {
            fixture.worker.send_to(&[1; 1_200], relay).unwrap();
            sent += 1;
        }
        other.send(fixture.peer(), b"ping");
        let relay = fixture.take(b"ping");
        fixture.worker.send_to(b"pong", relay).unwrap();
        assert_eq!(other.wait().1, b"pong");
        read(&metrics.dropped) > 0
    });
    // The client reads again: first the buffered datagrams, then new ones.
    let mut received = 0;
    eventually("what has waited arrives", || {
        // At least ten datagrams fit into the buffers.
        received += u64::from(slow.receive().is_some());
        received >= 10
    });
    assert!(received < sent);
    eventually("what is sent from then on arrives", || {
        fixture.worker.send_to(b"again", relay).unwrap();
        slow.receive()
            .is_some_and(|(_, payload)| payload == b"again")
    });
}

/// Proves S-30.
#[test]
fn a_connection_without_an_allocation_is_closed() {
    let fixture = Fixture::with_allocation_timeout(Duration::ZERO);
    fixture.by_tcp().wait_for_end();
    let fixture = Fixture::new();
    for garbage in [
        &b"\0\x03\0\x08not a cookie at all"[..],
        b"\0\0\xff\xff",
        &[0xff; 100],
    ] {
        let mut client = fixture.by_tcp();
        client.write(garbage);
        // Garbage that looks like a message's start makes the server wait for more.
        (0..20).for_each(|_| client.write(garbage));
        client.wait_for_end();
    }
    let mut asking = fixture.by_tcp();
    let allocate = asking.requests.allocate();
    // More than an honest client sends without an allocation.
    (0..20).for_each(|_| asking.write(&allocate));
    asking.wait_for_end();
    let mut half = fixture.connect();
    std::io::Write::write_all(&mut half, &allocate[..10]).unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    half.set_read_timeout(Some(DEADLINE)).unwrap();
    // The kernel resets a connection that is closed before its bytes were read.
    match half.read(&mut [0]) {
        Ok(read) => assert_eq!(read, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert_eq!(fixture.allocations(), 0);
}

#[test]
fn messages_may_come_in_pieces_and_several_at_once() {
    let fixture = Fixture::new();
    let mut client = fixture.by_tcp();
    client.allocate();
    let bind = client.requests.bind(0x4000, fixture.peer());
    assert_eq!(client.code(&bind), 0);
    let bytes = [
        channel_data(0x4000, b"one"),
        channel_data(0x4000, b""),
        channel_data(0x4000, b"three"),
    ]
    .concat();
    // Once byte by byte, and once as a whole.
    bytes.iter().for_each(|byte| client.write(&[*byte]));
    client.write(&bytes);
    for expected in [&b"one"[..], b"three", b"one", b"three"] {
        fixture.take(expected);
    }
}

/// Proves S-31.
#[test]
fn empty_datagrams_are_not_relayed() {
    let fixture = Fixture::new();
    for mut client in [fixture.by_tcp(), fixture.by_udp()] {
        client.allocate();
        let bind = client.requests.bind(0x4000, fixture.peer());
        assert_eq!(client.code(&bind), 0);
        client.write(&channel_data(0x4000, b""));
        client.write(&requests::send(fixture.peer(), b""));
        client.write(&channel_data(0x4000, b"something"));
        fixture.take(b"something");
    }
}

/// Proves S-31.
#[test]
fn a_closed_clients_queued_messages_are_dropped_and_others_are_served_meanwhile() {
    let fixture = Fixture::new();
    let (mut flooding, mut other) = (
        fixture.by_tcp(),
        fixture.client(Link::Stream(Box::new(fixture.connect())), "PA_bob"),
    );
    flooding.allocate();
    other.allocate();
    // More than a participant may send in a minute.
    let empty = channel_data(0x4000, b"").repeat(400_000);
    let mut left = &empty[..];
    let Some(mut stream) = flooding.into_tcp() else {
        panic!("it is connected by TCP")
    };
    stream.set_nonblocking(true).unwrap();
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end && !left.is_empty() {
        match stream.write(left) {
            Ok(written) => left = &left[written..],
            Err(_) => std::thread::yield_now(),
        }
    }
    let messages = (empty.len() - left.len()) / 4;
    assert!(
        messages > 10_000,
        "the buffers have taken more than is handled meanwhile"
    );
    other.send(fixture.peer(), b"ping");
    fixture.take(b"ping");
    assert_eq!(fixture.allocations(), 2);
    drop(stream);
    let closed = Instant::now();
    eventually("its allocation ends", || fixture.allocations() == 1);
    // Half the time in which they would all be handled, at 5,000 a second.
    let allowed = Duration::from_secs(u64::try_from(messages / 10_000).unwrap());
    let taken = closed.elapsed();
    assert!(
        taken < allowed.max(Duration::from_secs(5)),
        "{taken:?} for {messages}"
    );
}

/// Proves S-31.
#[test]
fn a_participant_sends_a_bounded_number_of_messages_a_second_over_all_its_connections() {
    let fixture = Fixture::new();
    let mut clients: Vec<_> = (0..4).map(|_| fixture.by_tcp()).collect();
    for client in &mut clients {
        client.allocate();
        let bind = client.requests.bind(0x4000, fixture.peer());
        assert_eq!(client.code(&bind), 0);
    }
    let start = Instant::now();
    let flood = channel_data(0x4000, b"x").repeat(2_500);
    let threads: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let (mut stream, flood) = (client.into_tcp().unwrap(), flood.clone());
            std::thread::spawn(move || {
                stream.write_all(&flood).unwrap();
                stream
            })
        })
        .collect();
    // 500 per tenth of a second; the first tenth may have started earlier. Further ones wait for a
    // second and are dropped after that.
    let metrics = fixture.server.metrics();
    eventually("all messages are handled or dropped", || {
        read(&metrics.from_clients) + read(&metrics.dropped) == 10_000
    });
    let (took, handled) = (start.elapsed(), read(&metrics.from_clients));
    // Intervals start with messages, so one more may be open at both ends.
    let windows = u64::try_from(took.as_millis() / 100).unwrap() + 2;
    assert!(
        (5_000..=windows * 500).contains(&handled) && took > Duration::from_millis(800),
        "{handled} in {took:?}"
    );
    threads
        .into_iter()
        .for_each(|thread| drop(thread.join().unwrap()));
}

#[test]
fn an_allocation_ends_with_its_participant_and_its_credentials_are_worth_nothing_then() {
    let fixture = Fixture::new();
    let (mut by_udp, mut by_tcp) = (fixture.by_udp(), fixture.by_tcp());
    let mut other = fixture.client(Link::Stream(Box::new(fixture.connect())), "PA_bob");
    other.allocate();
    for client in [&mut by_udp, &mut by_tcp] {
        client.allocate();
        client.send(fixture.peer(), b"ping");
        fixture.take(b"ping");
    }
    fixture.admitted.borrow_mut().remove("PA_alice");
    by_udp.send(fixture.peer(), b"late");
    by_tcp.send(fixture.peer(), b"late");
    eventually("its allocations end", || fixture.allocations() == 1);
    by_tcp.wait_for_end();
    let refresh = by_udp.requests.refresh(600);
    assert_eq!(by_udp.code(&refresh), 401);
    let username = username(
        "PA_alice",
        fixture.clock.now().after(Duration::from_secs(3_600)),
    );
    let password = password(&Secret::new(SECRET), &username);
    let mut again = TurnClient::new(
        Link::Stream(Box::new(fixture.connect())),
        &username,
        password.reveal(),
    );
    assert_eq!(code(&again.allocate()), 401);
    other.send(fixture.peer(), b"on");
    fixture.take(b"on");
}

#[test]
fn a_client_by_ipv4_of_a_socket_for_both_families_has_an_ipv4_address() {
    let fixture = Fixture::new();
    let both = serve_tcp(fixture.server.clone(), "::");
    let stream = TcpStream::connect((LOOPBACK, both.port())).unwrap();
    let own = stream.local_addr().unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let mut client = fixture.client(Link::Stream(Box::new(stream)), "PA_alice");
    let bound = client.ask(&requests::binding());
    assert_eq!(requests::mapped(&bound), own);
    assert_eq!(requests::mapped(&client.allocate()), own);
}

#[test]
fn a_port_is_free_once_the_server_has_ended() {
    let Fixture { udp, .. } = Fixture::new();
    let address = udp.addresses()[0];
    assert!(UdpSocket::bind(address).is_err());
    drop(udp);
    assert!(UdpSocket::bind(address).is_ok());
}
