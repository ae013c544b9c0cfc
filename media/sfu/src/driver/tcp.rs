//! A worker's TCP connections. Each packet follows its length in two bytes (RFC 4571).

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use conclave_model::{ClientAddress, Counts};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::udp::normalize;
use crate::config::Limits;

/// First token of a connection. Lower ones are listeners and UDP sockets.
const FIRST_TOKEN: usize = 1024;

/// A worker's TCP connections, within its limits.
#[derive(Default)]
pub struct TcpConnections {
    by_token: HashMap<Token, TcpConnection>,
    by_peer: HashMap<SocketAddr, Token>,
    by_client: Counts<ClientAddress>,
    next_token: usize,
    /// Connections that may have data to read, in round-robin order.
    readable: VecDeque<Token>,
}

/// Connections accepted from a listener per round.
const ACCEPTED_IN_TURN: usize = 64;

/// Receive buffer per connection: a quarter of a second at 4 Mbit/s. Without a limit, connections from one address
/// could make the system buffer gigabytes.
const RECEIVE_BUFFER_BYTES: usize = 128 * 1024;

/// Opens a listener that is bound to this address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    const BACKLOG: i32 = 1024;
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A restarted server must get its port although old connections are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted connections inherit the size. A system that rejects it uses its own.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

impl TcpConnections {
    /// Accepts waiting connections for one round. Those beyond the limits are closed at once. Returns whether there may
    /// be more.
    pub fn accept(
        &mut self,
        listener: &TcpListener,
        advertised: SocketAddr,
        registry: &Registry,
        limits: &Limits,
        now: Instant,
    ) -> bool {
        for _ in 0..ACCEPTED_IN_TURN {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let connection = TcpConnection::new(stream, normalize(peer), advertised, now);
                    // A connection that cannot be registered is closed by being dropped.
                    let _ = self.add(connection, registry, limits);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                // Errors such as a lack of file descriptors are reported again when the next connection arrives.
                Err(_) => return false,
            }
        }
        true
    }

    fn add(
        &mut self,
        mut connection: TcpConnection,
        registry: &Registry,
        limits: &Limits,
    ) -> io::Result<()> {
        // An IPv6 client controls a whole /64, which counts as one address.
        let client = ClientAddress::from(connection.peer.ip());
        if self.by_token.len() >= limits.tcp_connections
            || self.by_client.get(&client) >= limits.tcp_connections_per_address
        {
            // Dropping the stream closes it.
            return Ok(());
        }
        // Nagle's algorithm would hold audio packets back until the last one is acknowledged.
        connection.stream.set_nodelay(true)?;
        let token = Token(FIRST_TOKEN + self.next_token);
        // Tokens are not reused, so a late event for a closed connection finds no other one.
        self.next_token += 1;
        registry.register(
            &mut connection.stream,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        self.by_peer.insert(connection.peer, token);
        self.by_client.add(client);
        self.by_token.insert(token, connection);
        Ok(())
    }

    /// Returns the connection with this token.
    pub fn get(&mut self, token: Token) -> Option<&mut TcpConnection> {
        self.by_token.get_mut(&token)
    }

    /// Records that a connection may have data to read. It is read after those recorded before.
    pub fn mark_readable(&mut self, token: Token) {
        if let Some(connection) = self
            .by_token
            .get_mut(&token)
            .filter(|connection| !connection.is_readable)
        {
            // Each connection is queued once, however many events arrive for it.
            connection.is_readable = true;
            self.readable.push_back(token);
        }
    }

    /// Returns whether a connection may have data to read.
    pub fn has_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Removes and returns the connection that is read next.
    pub fn next_readable(&mut self) -> Option<Token> {
        let token = self.readable.pop_front()?;
        if let Some(connection) = self.by_token.get_mut(&token) {
            connection.is_readable = false;
        }
        Some(token)
    }

    /// Returns the connection to this client.
    pub fn to(&mut self, peer: SocketAddr) -> Option<(Token, &mut TcpConnection)> {
        let token = *self.by_peer.get(&peer)?;
        Some((token, self.by_token.get_mut(&token)?))
    }

    /// Closes a connection; returns the client's address.
    pub fn close(&mut self, token: Token, registry: &Registry) -> Option<SocketAddr> {
        let mut connection = self.by_token.remove(&token)?;
        // An error is harmless: closing the stream deregisters it as well.
        let _ = registry.deregister(&mut connection.stream);
        // The client may already have a newer connection from the same address.
        if self.by_peer.get(&connection.peer) == Some(&token) {
            self.by_peer.remove(&connection.peer);
        }
        self.by_client.subtract(&connection.peer.ip().into());
        Some(connection.peer)
    }

    /// Returns the connections that were accepted before `time`.
    pub fn accepted_before(&self, time: Instant) -> impl Iterator<Item = (Token, SocketAddr)> {
        self.by_token
            .iter()
            .filter(move |(_, of)| of.since < time)
            .map(|(token, of)| (*token, of.peer))
    }

    /// Returns the number of open connections.
    pub fn len(&self) -> usize {
        self.by_token.len()
    }
}

/// Maximum bytes that wait for a slow client. Further packets are dropped, as the network would.
const WRITE_QUEUE: usize = 256 * 1024;

/// Maximum bytes per read, so that little memory is kept for a client that sends without pause.
const READ_BYTES: usize = 8 * 1024;

/// Packets and reads per client and round.
const STEPS_IN_TURN: usize = 32;

/// State of a connection after a round of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Nothing is left to read now.
    Nothing,
    /// There may be more.
    More,
    /// The connection has ended.
    End,
}

/// A client's TCP connection.
pub struct TcpConnection {
    pub stream: TcpStream,
    /// The client's address.
    pub peer: SocketAddr,
    /// The server's address as known to clients.
    pub advertised: SocketAddr,
    /// Time at which it was accepted.
    pub since: Instant,
    /// Whether it is queued for reading.
    pub is_readable: bool,
    /// Packets received before a participant was bound to it; `None` after that.
    pub unbound_packets: Option<usize>,
    reader: PacketReader,
    waiting: VecDeque<u8>,
}

impl TcpConnection {
    /// Wraps an accepted stream.
    pub fn new(
        stream: TcpStream,
        peer: SocketAddr,
        advertised: SocketAddr,
        since: Instant,
    ) -> Self {
        Self {
            stream,
            peer,
            advertised,
            since,
            is_readable: false,
            unbound_packets: Some(0),
            reader: PacketReader::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Reads for one round, and passes each packet to `handle`.
    pub fn receive(&mut self, buffer: &mut [u8], mut handle: impl FnMut(&[u8])) -> ReadOutcome {
        for _ in 0..STEPS_IN_TURN {
            match self.reader.next_packet() {
                Ok(Some(packet)) => handle(packet),
                // Complete packets in memory come first, so the buffer stays small.
                Ok(None) => match self.read(buffer) {
                    ReadOutcome::More => {}
                    rest => return rest,
                },
                // After an invalid length, the position of the next packet is unknown.
                Err(_) => return ReadOutcome::End,
            }
        }
        ReadOutcome::More
    }

    /// Reads once, if there is data.
    fn read(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        let limit = buffer.len().min(READ_BYTES);
        let Some(buffer) = buffer.get_mut(..limit) else {
            return ReadOutcome::End;
        };
        match self.stream.read(buffer) {
            Ok(0) => ReadOutcome::End,
            Ok(length) => {
                self.reader.push(buffer.get(..length).unwrap_or_default());
                ReadOutcome::More
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => ReadOutcome::More,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ReadOutcome::Nothing,
            Err(_) => ReadOutcome::End,
        }
    }

    /// Queues a packet. Returns whether there was room for it.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let Some(header) =
            // A packet is queued whole or not at all: half of one would desynchronise the client.
            frame_header(packet).filter(|_| self.waiting.len() + packet.len() <= WRITE_QUEUE)
        else {
            return false;
        };
        self.waiting.extend(header);
        self.waiting.extend(packet);
        true
    }

    /// Sends queued packets until the connection is busy. Returns whether the connection is still open.
    pub fn send(&mut self) -> bool {
        while !self.waiting.is_empty() {
            match self.stream.write(self.waiting.make_contiguous()) {
                Ok(length) => {
                    self.waiting.drain(..length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A client that does not read is no error; its queue is limited.
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

/// Maximum packet size in bytes. WebRTC's packets fit into a datagram.
const MAX_PACKET: usize = 4096;

/// A packet is empty, or longer than any WebRTC packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a packet in a TCP connection must be 1 to {MAX_PACKET} bytes long")]
pub struct InvalidLength;

/// Splits a byte stream into packets.
#[derive(Debug, Default)]
pub struct PacketReader {
    bytes: Vec<u8>,
    /// Bytes that were consumed.
    taken: usize,
}

impl PacketReader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        // Consumed bytes are removed once per read rather than once per packet.
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete packet.
    ///
    /// # Errors
    ///
    /// [`InvalidLength`], after which the stream is unusable.
    pub fn next_packet(&mut self) -> Result<Option<&[u8]>, InvalidLength> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let [high, low, packet @ ..] = rest else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length == 0 || length > MAX_PACKET {
            return Err(InvalidLength);
        }
        let packet = packet.get(..length);
        if packet.is_some() {
            self.taken += 2 + length;
        }
        Ok(packet)
    }
}

/// Returns the length prefix for a packet; `None` if it is too long.
pub fn frame_header(packet: &[u8]) -> Option<[u8; 2]> {
    u16::try_from(packet.len()).ok().map(u16::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_survive_any_fragmentation(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..20), cut in 1..50_usize,
        ) {
            let mut stream = Vec::new();
            for packet in &packets {
                stream.extend(frame_header(packet).unwrap());
                stream.extend(packet);
            }
            let mut reader = PacketReader::default();
            let mut read = Vec::new();
            for bytes in stream.chunks(cut) {
                reader.push(bytes);
                while let Some(packet) = reader.next_packet().unwrap() {
                    read.push(packet.to_vec());
                }
            }
            prop_assert_eq!(read, packets);
        }
    }

    #[test]
    fn a_packet_that_is_empty_or_too_long_ends_the_stream() {
        for length in [[0xff, 0xff], [0, 0]] {
            let mut reader = PacketReader::default();
            reader.push(&length);
            assert_eq!(reader.next_packet(), Err(InvalidLength));
        }
    }
}
