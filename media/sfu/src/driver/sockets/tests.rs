use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket as StdSocket};
use std::sync::atomic::Ordering;

use mio::{Events, Poll};

use super::*;
use crate::driver::framing::frame_header;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// The sockets of a worker, whose turns the test takes.
struct World {
    poll: Poll,
    sockets: Sockets,
    worker: Worker,
    metrics: WorkerMetrics,
}

impl World {
    fn new(limits: Limits) -> Self {
        let poll = Poll::new().unwrap();
        let config = Config {
            addresses: vec![LOOPBACK],
            limits,
            ..Config::default()
        };
        let sockets = Sockets::open(&config, 0, poll.registry()).unwrap();
        let worker = Worker::new(sockets.candidates(), &config, Instant::now());
        Self {
            poll,
            sockets,
            worker,
            metrics: WorkerMetrics::default(),
        }
    }

    fn connect(&mut self) -> TcpStream {
        let stream = TcpStream::connect(self.sockets.listeners[0].1).unwrap();
        let before = self.sockets.tcp.len();
        while self.sockets.tcp.len() == before {
            self.turn();
        }
        stream
    }

    /// Takes one turn; returns how many packets it has brought so far.
    fn turn(&mut self) -> u64 {
        let mut events = Events::with_capacity(64);
        self.poll
            .poll(&mut events, Some(Duration::from_millis(1)))
            .unwrap();
        for event in &events {
            self.sockets.note_ready(event.token());
        }
        self.sockets
            .receive(&mut self.worker, self.poll.registry(), &self.metrics);
        self.metrics.received_packets.load(Ordering::Relaxed)
    }
}

fn framed(packet: &[u8], count: usize) -> Vec<u8> {
    [&frame_header(packet).unwrap()[..], packet]
        .concat()
        .repeat(count)
}

#[test]
fn a_flood_is_received_in_turns() {
    let mut world = World::new(Limits::default());
    let stranger = StdSocket::bind((LOOPBACK, 0)).unwrap();
    let turn = RECEIVE_BATCH * BATCHES_IN_TURN;
    for _ in 0..=turn {
        stranger
            .send_to(&[0], world.sockets.udp[0].advertised)
            .unwrap();
    }
    let turn = u64::try_from(turn).unwrap();
    assert_eq!(world.turn(), turn);
    assert!(world.sockets.has_more());
    assert_eq!(world.turn(), turn + 1);
}

#[test]
fn a_flood_in_a_connection_is_received_in_turns_with_the_other_connections() {
    let mut world = World::new(Limits::default());
    let (mut flood, mut quiet) = (world.connect(), world.connect());
    flood.write_all(&framed(&[2; 10], 2000)).unwrap();
    quiet.write_all(&framed(&[2; 10], 1)).unwrap();
    let mut turns = vec![world.turn()];
    while world.sockets.has_more() {
        turns.push(world.turn());
    }
    let most = turns
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .chain([turns[0]])
        .max()
        .unwrap();
    assert!(most <= 1024, "a turn has an end: {turns:?}");
    assert_eq!(
        world.sockets.tcp.len(),
        1,
        "a stranger that goes on is closed: {turns:?}"
    );
    flood
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    assert!(matches!(
        flood.read(&mut [0]).map_err(|error| error.kind()),
        Ok(0) | Err(io::ErrorKind::ConnectionReset)
    ));
}

#[test]
fn each_connection_has_a_turn_before_the_first_has_another() {
    let mut world = World::new(Limits::default());
    let mut streams: Vec<_> = (0..3).map(|_| world.connect()).collect();
    for stream in &mut streams {
        stream.write_all(&framed(&[2; 10], 200)).unwrap();
    }
    while world.sockets.tcp.next_readable().is_some() {}
    let tokens: Vec<_> = world
        .sockets
        .tcp
        .accepted_before(Instant::now())
        .map(|(token, _)| token)
        .collect();
    tokens
        .iter()
        .for_each(|token| world.sockets.note_ready(*token));
    for expected in tokens.iter().chain(&tokens) {
        let token = world.sockets.tcp.next_readable().unwrap();
        assert_eq!(token, *expected);
        world.sockets.receive_stream(
            token,
            &mut world.worker,
            world.poll.registry(),
            &world.metrics,
        );
    }
}

#[test]
fn an_empty_packet_ends_a_connection() {
    let mut world = World::new(Limits::default());
    let mut stream = world.connect();
    stream.write_all(&framed(&[], 1000)).unwrap();
    while world.sockets.tcp.len() > 0 {
        world.turn();
    }
    assert_eq!(world.metrics.received_packets.load(Ordering::Relaxed), 0);
}

#[test]
fn connections_are_accepted_in_turns() {
    let mut world = World::new(Limits::default());
    let server = world.sockets.listeners[0].1;
    let _streams: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(server).unwrap())
        .collect();
    let mut accepted = 0;
    while accepted < 200 {
        world.turn();
        let now = world.sockets.tcp.len();
        assert!(now - accepted <= 64, "{accepted}, then {now}");
        accepted = now;
    }
}
