//! A worker's sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use conclave_model::MediaAddress;
use mio::net::{TcpListener, UdpSocket};
use mio::{Interest, Registry, Token};
use str0m::Candidate;
use str0m::net::{Protocol, TcpType, Transmit};

use super::addresses::{BindError, candidate_addresses};
use super::neighbours::Neighbours;
use super::tcp::{ReadOutcome, TcpConnections, listen};
use super::udp::{UdpPort, bind};
use super::{WorkerMetrics, add, set};
use crate::config::{Config, Limits};
use crate::transport::Source;
use crate::worker::{Datagram, Worker};

/// Token of the waker.
pub const WAKER: Token = Token(0);

/// Size in bytes of the largest possible datagram.
const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum attempts to find a port that is free for both UDP and TCP.
const FREE_PORT_ATTEMPTS: usize = 20;

/// Datagrams handled before their copies are sent. With 64, the first one waited for 300 copies of the others.
const RECEIVE_BATCH: usize = 16;

/// Batches of a socket, or of all TCP connections, handled before commands and deadlines. So a flood does not delay
/// them.
const BATCHES_IN_TURN: usize = 32;

/// Maximum packets on a TCP connection before a participant is bound to it. Clients send a STUN request every 50 ms.
const MAX_UNBOUND_PACKETS: usize = 512;

/// A worker's sockets. Odd tokens are UDP sockets; each following even token is the listener at the same port.
pub struct Sockets {
    udp: Vec<UdpPort>,
    /// UDP sockets that may have datagrams to receive.
    readable: Vec<usize>,
    /// Listeners that may have connections to accept.
    acceptable: Vec<usize>,
    listeners: Vec<(TcpListener, SocketAddr)>,
    tcp: TcpConnections,
    limits: Limits,
    buffer: Vec<u8>,
    neighbours: Neighbours,
}

impl Sockets {
    /// Opens a worker's sockets at a port on every configured address. Port 0 means that the system chooses.
    pub fn open(
        config: &Config,
        port: u16,
        registry: &Registry,
        neighbours: Neighbours,
    ) -> Result<Self, BindError> {
        let mut sockets = Self {
            udp: Vec::new(),
            readable: Vec::new(),
            acceptable: Vec::new(),
            listeners: Vec::new(),
            tcp: TcpConnections::default(),
            limits: config.limits.clone(),
            // One for all sockets: a packet is handled before the next one is received.
            buffer: vec![0; BUFFER_BYTES],
            neighbours,
        };
        for (bound, advertised) in candidate_addresses(config)? {
            let address = SocketAddr::from((bound, port));
            sockets
                .open_port(address, advertised, config.tcp, registry)
                .map_err(|error| BindError::Socket { address, error })?;
        }
        Ok(sockets)
    }

    fn open_port(
        &mut self,
        address: SocketAddr,
        advertised: IpAddr,
        tcp: bool,
        registry: &Registry,
    ) -> io::Result<()> {
        let (mut socket, listener) = bind_port(address, tcp)?;
        // The system may have chosen the port.
        let advertised = SocketAddr::from((advertised, socket.local_addr()?.port()));
        let index = self.udp.len();
        registry.register(
            &mut socket,
            // Writable as well: a busy socket's queue is sent when the system reports that there is room again.
            Token(1 + 2 * index),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        self.udp.push(UdpPort::new(socket, advertised));
        if let Some(mut listener) = listener {
            registry.register(&mut listener, Token(2 + 2 * index), Interest::READABLE)?;
            self.listeners.push((listener, advertised));
        }
        Ok(())
    }

    /// Returns the candidates that are advertised to clients.
    pub fn candidates(&self) -> Vec<Candidate> {
        let udp = self
            .udp
            .iter()
            .filter_map(|port| Candidate::host(port.advertised, "udp").ok());
        let tcp = self.listeners.iter().filter_map(|(_, advertised)| {
            Candidate::builder()
                .tcp()
                .host(*advertised)
                // Clients open the connections (RFC 6544).
                .tcptype(TcpType::Passive)
                .build()
                .ok()
        });
        udp.chain(tcp).collect()
    }

    /// Returns the addresses of the UDP sockets.
    pub fn udp_addresses(&self) -> Vec<MediaAddress> {
        let bound = |port: &UdpPort| port.socket.local_addr().ok();
        let addresses = self
            .udp
            .iter()
            .filter_map(|port| Some((bound(port)?, port.advertised)));
        addresses
            .map(|(bound, advertised)| MediaAddress { bound, advertised })
            .collect()
    }

    /// Records that a socket is ready. The system reports that once (edge-triggered), so it is remembered until
    /// [`Sockets::receive`] has read everything.
    pub fn mark_ready(&mut self, token: Token) {
        // Inverts the tokens of `open_port`.
        let index = token.0.wrapping_sub(1) / 2;
        if !token.0.is_multiple_of(2) && index < self.udp.len() {
            add_once(&mut self.readable, index);
        } else if token.0.is_multiple_of(2) && index < self.listeners.len() {
            add_once(&mut self.acceptable, index);
        } else {
            self.tcp.mark_readable(token);
        }
    }

    /// Returns whether the last round may have left unread packets or connections.
    pub fn has_more(&self) -> bool {
        !self.readable.is_empty() || !self.acceptable.is_empty() || self.tcp.has_readable()
    }

    /// Handles arrived packets for a limited time, so that a flood delays neither commands and deadlines nor other
    /// sockets.
    pub fn receive(&mut self, worker: &mut Worker, registry: &Registry, metrics: &WorkerMetrics) {
        // Taken out of the list, so that a socket with more datagrams waits for the next round.
        for index in std::mem::take(&mut self.readable) {
            if self.receive_datagrams(index, worker, registry, metrics) {
                add_once(&mut self.readable, index);
            }
        }
        self.accept(registry, metrics);
        for _ in 0..BATCHES_IN_TURN {
            let Some(token) = self.tcp.next_readable() else {
                return;
            };
            self.receive_stream(token, worker, registry, metrics);
        }
    }

    /// Accepts a limited number of connections.
    fn accept(&mut self, registry: &Registry, metrics: &WorkerMetrics) {
        for index in std::mem::take(&mut self.acceptable) {
            let Some((listener, advertised)) = self.listeners.get(index) else {
                continue;
            };
            if self.tcp.accept(
                listener,
                *advertised,
                registry,
                &self.limits,
                Instant::now(),
            ) {
                add_once(&mut self.acceptable, index);
            }
            set(&metrics.tcp_connections, self.tcp.len());
        }
    }

    /// Handles a limited number of datagrams from a socket. Returns whether there may be more.
    fn receive_datagrams(
        &mut self,
        index: usize,
        worker: &mut Worker,
        registry: &Registry,
        metrics: &WorkerMetrics,
    ) -> bool {
        for _ in 0..BATCHES_IN_TURN {
            let may_have_more = self.receive_batch(index, worker, metrics);
            self.send(worker, registry, metrics);
            if !may_have_more {
                return false;
            }
        }
        true
    }

    /// Handles a batch of datagrams. Returns whether there may be more.
    fn receive_batch(
        &mut self,
        index: usize,
        worker: &mut Worker,
        metrics: &WorkerMetrics,
    ) -> bool {
        let Some(port) = self.udp.get(index) else {
            return false;
        };
        let now = Instant::now();
        for _ in 0..RECEIVE_BATCH {
            // An error of a datagram socket concerns one call; the next one may succeed.
            let Ok(Some((length, address))) = port.receive(&mut self.buffer) else {
                return false;
            };
            add(&metrics.received_packets, 1);
            add(&metrics.received_bytes, length);
            let contents = self.buffer.get(..length).unwrap_or_default();
            let source = Source {
                is_tcp: false,
                address,
            };
            worker.handle_datagram(
                Datagram {
                    source,
                    destination: port.advertised,
                    contents,
                },
                now,
            );
        }
        true
    }

    /// Handles a limited number of packets from a connection, and sends its queue.
    fn receive_stream(
        &mut self,
        token: Token,
        worker: &mut Worker,
        registry: &Registry,
        metrics: &WorkerMetrics,
    ) {
        let Some(connection) = self.tcp.get(token) else {
            return;
        };
        let now = Instant::now();
        // One reading of the clock per round: all these packets have been waiting.
        let (source, destination) = (
            Source {
                is_tcp: true,
                address: connection.peer,
            },
            connection.advertised,
        );
        let mut packets = 0;
        let rest = connection.receive(&mut self.buffer, |contents| {
            packets += 1;
            add(&metrics.received_packets, 1);
            add(&metrics.received_bytes, contents.len());
            worker.handle_datagram(
                Datagram {
                    source,
                    destination,
                    contents,
                },
                now,
            );
        });
        connection.unbound_packets = connection
            .unbound_packets
            // `None` from the first bound packet on, for the connection's whole life.
            .filter(|_| !worker.is_bound(source))
            .map(|count| count + packets);
        // A connection is bound by an authenticated STUN request. Until then, its packets are only a cost.
        let is_flood = connection
            .unbound_packets
            .is_some_and(|count| count > MAX_UNBOUND_PACKETS);
        if is_flood || rest == ReadOutcome::End || !connection.send() {
            self.close_stream(token, worker, registry, metrics);
        // At the end of the queue, so that a fast sender does not starve other clients.
        } else if rest == ReadOutcome::More {
            self.tcp.mark_readable(token);
        }
        self.send(worker, registry, metrics);
    }

    fn close_stream(
        &mut self,
        token: Token,
        worker: &mut Worker,
        registry: &Registry,
        metrics: &WorkerMetrics,
    ) {
        if let Some(address) = self.tcp.close(token, registry) {
            worker.forget_source(Source {
                is_tcp: true,
                address,
            });
        }
        set(&metrics.tcp_connections, self.tcp.len());
    }

    /// Closes connections that no participant has bound in time.
    pub fn close_unbound(
        &mut self,
        worker: &mut Worker,
        registry: &Registry,
        metrics: &WorkerMetrics,
    ) {
        // The monotonic clock can be younger than the limit, right after the machine has started.
        let Some(before) = Instant::now().checked_sub(self.limits.tcp_unbound) else {
            return;
        };
        let is_unbound = |address| {
            !worker.is_bound(Source {
                is_tcp: true,
                address,
            })
        };
        let unbound: Vec<_> = self
            .tcp
            .accepted_before(before)
            .filter(|(_, peer)| is_unbound(*peer))
            .collect();
        for (token, _) in unbound {
            self.close_stream(token, worker, registry, metrics);
        }
    }

    fn send_crossings(&self, worker: &mut Worker) {
        if let Some(crossings) = worker.take_crossings() {
            self.neighbours.send(crossings);
        }
    }

    /// Completes everything received, and sends the worker's packets. Other workers come first, so that they start with
    /// them meanwhile.
    pub fn send(&mut self, worker: &mut Worker, registry: &Registry, metrics: &WorkerMetrics) {
        let mut broken = Vec::new();
        let mut has_more = true;
        while has_more {
            self.send_crossings(worker);
            // In pieces of one outbox, so that the first packets leave while later ones are still being encrypted.
            has_more = worker.flush(Instant::now());
            self.send_outbox(worker.outbox(), metrics, &mut broken);
        }
        self.send_crossings(worker);
        for token in broken {
            self.close_stream(token, worker, registry, metrics);
        }
    }

    /// Sends packets, and collects the connections that have failed.
    fn send_outbox(
        &mut self,
        outbox: &mut Vec<Transmit>,
        metrics: &WorkerMetrics,
        broken: &mut Vec<Token>,
    ) {
        for packet in outbox.drain(..) {
            // A packet that is not accepted is lost, as in a network: retransmissions repair media, SCTP repairs
            // messages.
            let was_taken = match packet.proto {
                Protocol::Udp => self.push_datagram(packet),
                _ => self.push_stream(&packet, metrics, broken),
            };
            add(&metrics.dropped_packets, usize::from(!was_taken));
        }
        for port in &mut self.udp {
            let sent = port.send();
            add(&metrics.sent_packets, sent.packets);
            add(&metrics.sent_bytes, sent.bytes);
            add(&metrics.dropped_packets, sent.dropped);
        }
    }

    fn push_datagram(&mut self, packet: Transmit) -> bool {
        let port = self
            .udp
            .iter_mut()
            // The client knows the server by this address and drops packets from any other.
            .find(|port| port.advertised == packet.source);
        port.is_some_and(|port| port.push(packet))
    }

    fn push_stream(
        &mut self,
        packet: &Transmit,
        metrics: &WorkerMetrics,
        broken: &mut Vec<Token>,
    ) -> bool {
        let Some((token, connection)) = self.tcp.to(packet.destination) else {
            return false;
        };
        let was_taken = connection.push(&packet.contents);
        if !connection.send() {
            broken.push(token);
        }
        if was_taken {
            add(&metrics.sent_packets, 1);
            add(&metrics.sent_bytes, packet.contents.len());
        }
        was_taken
    }
}

/// Adds an index to a list, once.
fn add_once(list: &mut Vec<usize>, index: usize) {
    if !list.contains(&index) {
        list.push(index);
    }
}

/// Opens a UDP socket and, with `tcp`, a listener at the same port. If the system chose the UDP port, and that is in
/// use for TCP, another one is tried.
fn bind_port(address: SocketAddr, tcp: bool) -> io::Result<(UdpSocket, Option<TcpListener>)> {
    let mut attempts = if address.port() == 0 {
        FREE_PORT_ATTEMPTS
    } else {
        1
    };
    loop {
        let socket = bind(address)?;
        if !tcp {
            return Ok((socket, None));
        }
        attempts -= 1;
        match listen(socket.local_addr()?) {
            Ok(listener) => return Ok((socket, Some(listener))),
            Err(error) if attempts == 0 || error.kind() != io::ErrorKind::AddrInUse => {
                return Err(error);
            }
            // The UDP socket is closed, and the next attempt gets another port.
            Err(_) => {}
        }
    }
}

/// Period for calling [`Sockets::close_unbound`].
pub const CLOSE_UNBOUND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpStream, UdpSocket as StdSocket};
    use std::sync::atomic::{AtomicU64, Ordering};

    use mio::{Events, Poll};

    use super::*;
    use crate::driver::tcp::frame_header;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// A worker's sockets, driven by the test.
    struct Fixture {
        poll: Poll,
        sockets: Sockets,
        worker: Worker,
        metrics: WorkerMetrics,
    }

    impl Fixture {
        fn new(limits: Limits) -> Self {
            let poll = Poll::new().unwrap();
            let config = Config {
                addresses: vec![LOOPBACK],
                limits,
                ..Config::default()
            };
            let sockets =
                Sockets::open(&config, 0, poll.registry(), Neighbours::default()).unwrap();
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
                self.run_round();
            }
            stream
        }

        /// Runs one round; returns the packets received so far.
        fn run_round(&mut self) -> u64 {
            let mut events = Events::with_capacity(64);
            self.poll
                .poll(&mut events, Some(Duration::from_millis(1)))
                .unwrap();
            for event in &events {
                self.sockets.mark_ready(event.token());
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
        let mut fixture = Fixture::new(Limits::default());
        // One datagram more than a round handles.
        let stranger = StdSocket::bind((LOOPBACK, 0)).unwrap();
        let turn = RECEIVE_BATCH * BATCHES_IN_TURN;
        for _ in 0..=turn {
            stranger
                .send_to(&[0], fixture.sockets.udp[0].advertised)
                .unwrap();
        }
        let turn = u64::try_from(turn).unwrap();
        assert_eq!(fixture.run_round(), turn);
        assert!(fixture.sockets.has_more());
        assert_eq!(fixture.run_round(), turn + 1);
    }

    /// Proves S-28.
    #[test]
    fn a_flood_in_a_connection_is_received_in_turns_with_the_other_connections() {
        let mut fixture = Fixture::new(Limits::default());
        let (mut flood, mut quiet) = (fixture.connect(), fixture.connect());
        flood.write_all(&framed(&[2; 10], 2000)).unwrap();
        quiet.write_all(&framed(&[2; 10], 1)).unwrap();
        let mut rounds = vec![fixture.run_round()];
        while fixture.sockets.has_more() {
            rounds.push(fixture.run_round());
        }
        let most = rounds
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .chain([rounds[0]])
            .max()
            .unwrap();
        // At most 32 packets and reads per connection and visit, in 32 visits.
        assert!(most <= 1024, "a turn has an end: {rounds:?}");
        assert_eq!(
            fixture.sockets.tcp.len(),
            1,
            "an unauthenticated client that continues is disconnected: {rounds:?}"
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
    fn packets_that_a_slow_client_does_not_take_count_as_dropped_only() {
        let mut fixture = Fixture::new(Limits::default());
        let (stream, server) = (fixture.connect(), fixture.sockets.listeners[0].1);
        let destination = stream.local_addr().unwrap();
        let packet = |_| Transmit {
            proto: Protocol::Tcp,
            source: server,
            destination,
            contents: vec![0_u8; 1000].into(),
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut pushed = 0;
        // Until the system's buffers and the connection's queue are full: nobody reads.
        while count(&fixture.metrics.dropped_packets) == 0 {
            let mut outbox: Vec<_> = (0..100).map(packet).collect();
            fixture
                .sockets
                .send_outbox(&mut outbox, &fixture.metrics, &mut Vec::new());
            pushed += 100;
        }
        let sent = count(&fixture.metrics.sent_packets);
        assert!(sent > 0);
        assert_eq!(sent + count(&fixture.metrics.dropped_packets), pushed);
        assert_eq!(count(&fixture.metrics.sent_bytes), sent * 1000);
    }

    #[test]
    fn each_connection_has_a_turn_before_the_first_has_another() {
        let mut fixture = Fixture::new(Limits::default());
        let mut streams: Vec<_> = (0..3).map(|_| fixture.connect()).collect();
        for stream in &mut streams {
            stream.write_all(&framed(&[2; 10], 200)).unwrap();
        }
        // Drops the order in which the connections were accepted; the test sets its own.
        while fixture.sockets.tcp.next_readable().is_some() {}
        let tokens: Vec<_> = fixture
            .sockets
            .tcp
            .accepted_before(Instant::now())
            .map(|(token, _)| token)
            .collect();
        tokens
            .iter()
            .for_each(|token| fixture.sockets.mark_ready(*token));
        for expected in tokens.iter().chain(&tokens) {
            let token = fixture.sockets.tcp.next_readable().unwrap();
            assert_eq!(token, *expected);
            fixture.sockets.receive_stream(
                token,
                &mut fixture.worker,
                fixture.poll.registry(),
                &fixture.metrics,
            );
        }
    }

    /// Proves S-28.
    #[test]
    fn an_empty_packet_ends_a_connection() {
        let mut fixture = Fixture::new(Limits::default());
        let mut stream = fixture.connect();
        stream.write_all(&framed(&[], 1000)).unwrap();
        while fixture.sockets.tcp.len() > 0 {
            fixture.run_round();
        }
        assert_eq!(fixture.metrics.received_packets.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn connections_are_accepted_in_turns() {
        let mut fixture = Fixture::new(Limits::default());
        let server = fixture.sockets.listeners[0].1;
        let _streams: Vec<_> = (0..200)
            .map(|_| TcpStream::connect(server).unwrap())
            .collect();
        let mut accepted = 0;
        while accepted < 200 {
            fixture.run_round();
            let now = fixture.sockets.tcp.len();
            // The limit per round, `ACCEPTED_IN_TURN`.
            assert!(now - accepted <= 64, "{accepted}, then {now}");
            accepted = now;
        }
    }
}
