//! The TCP connections of a worker.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use conclave_model::{ClientAddress, Counts};
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::connection::TcpConnection;
use super::udp::normalize;
use crate::config::Limits;

/// The first token of a connection; those below are of listeners and UDP sockets.
const FIRST_TOKEN: usize = 1024;

/// The TCP connections of a worker, within its limits.
#[derive(Default)]
pub struct TcpConnections {
    by_token: HashMap<Token, TcpConnection>,
    by_peer: HashMap<SocketAddr, Token>,
    by_client: Counts<ClientAddress>,
    next_token: usize,
    /// The connections that may have something to read, in the order of their turns.
    readable: VecDeque<Token>,
}

/// How many connections of a listener are accepted before others have their turn.
const ACCEPTED_IN_TURN: usize = 64;

/// How much the system keeps of what a client sends before it is read: a quarter of a second of 4 Mbit/s. Without a limit, the
/// connections of one address could make it keep gigabytes.
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
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted connections inherit it. A system that refuses the size uses its own.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

impl TcpConnections {
    /// Accepts connections that wait at a listener, in one turn. Those beyond the limits are closed at once. Returns whether there
    /// may be more.
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
                    // A connection that cannot be watched is closed by being dropped.
                    let _ = self.add(connection, registry, limits);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                // Errors of the system come again.
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
        let client = ClientAddress::from(connection.peer.ip());
        if self.by_token.len() >= limits.tcp_connections
            || self.by_client.get(&client) >= limits.tcp_connections_per_address
        {
            return Ok(());
        }
        connection.stream.set_nodelay(true)?;
        let token = Token(FIRST_TOKEN + self.next_token);
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

    /// Notes that a connection may have something to read: it has its turn after those that were noted before.
    pub fn note_readable(&mut self, token: Token) {
        if let Some(connection) = self
            .by_token
            .get_mut(&token)
            .filter(|connection| !connection.is_readable)
        {
            connection.is_readable = true;
            self.readable.push_back(token);
        }
    }

    /// Returns whether a connection may have something to read.
    pub fn has_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Returns the connection whose turn it is.
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
        // Closing the stream removes it as well.
        let _ = registry.deregister(&mut connection.stream);
        if self.by_peer.get(&connection.peer) == Some(&token) {
            self.by_peer.remove(&connection.peer);
        }
        self.by_client.subtract(&connection.peer.ip().into());
        Some(connection.peer)
    }

    /// Returns the connections that are older than this.
    pub fn accepted_before(&self, time: Instant) -> impl Iterator<Item = (Token, SocketAddr)> {
        self.by_token
            .iter()
            .filter(move |(_, of)| of.since < time)
            .map(|(token, of)| (*token, of.peer))
    }

    /// Returns how many connections are open.
    pub fn len(&self) -> usize {
        self.by_token.len()
    }
}
