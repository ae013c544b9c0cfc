//! First steps of a connection: count it, do its TLS handshake, and route TURN away from HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_server::GracefulShutdownSignal;
use conclave_media::embedded::turn_server::{TurnServer, is_turn};
use conclave_model::ClientAddress;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::http::listener::client_stream::ClientStream;
use crate::http::listener::connections::{
    ClientTimeouts, ConnectionPermit, Connections, OpenConnections,
};
use crate::tls::{Socket, TlsAcceptor};

/// Time without a first byte after which a connection counts as HTTP, which has its own deadline.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(5);

/// Receive buffer of a TURN client, in bytes. It bounds the data that is left to relay after the client has closed its connection.
const TURN_RECEIVE_BUFFER: usize = 256 * 1024;

/// A listener's protocols besides HTTP.
#[derive(Clone, Default)]
pub struct Protocols {
    /// TLS acceptor, if connections are encrypted.
    pub tls: Option<TlsAcceptor>,
    /// TURN server for clients that speak TURN, if there is one.
    pub turn: Option<TurnServer>,
}

/// Accepts a listener's connections.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub connections: Arc<Connections>,
    /// Open connections, if one of them is closed for a new one at the limit.
    pub open: Option<OpenConnections>,
    pub timeouts: ClientTimeouts,
    pub protocols: Protocols,
    pub stopping: GracefulShutdownSignal,
}

impl Acceptor {
    /// Counts a connection, and does its handshake. A refused one is closed by being dropped.
    ///
    /// # Errors
    /// If the connection is closed, or was a TURN client's and has ended.
    pub async fn accept(
        self,
        stream: TcpStream,
    ) -> Result<(ClientStream, Option<SocketAddr>), DispatchError> {
        let peer = stream.peer_addr()?;
        // Counted before the handshake, so that the limit also bounds handshakes in progress.
        let permit = self.admit(peer)?;
        // With Nagle's algorithm, a response's second write and a WebSocket's second message wait for the client to acknowledge the first one,
        // which it may delay by 40 ms.
        stream.set_nodelay(true)?;
        let mut socket = match &self.protocols.tls {
            Some(tls) => tls.accept(stream).await?,
            None => Socket::Plain(stream),
        };
        if let Some(turn) = &self.protocols.turn
            && self.speaks_turn(&mut socket).await?
        {
            self.serve_turn(turn, socket, peer, permit).await;
            // actix has no outcome for a connection that left HTTP; it drops aborted connections silently.
            return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
        }
        let stream = ClientStream::new(socket, self.timeouts, permit);
        self.open
            .inspect(|open| open.add(ClientAddress::from(peer.ip()), &stream.activity()));
        Ok((stream, Some(peer)))
    }

    fn admit(&self, peer: SocketAddr) -> io::Result<ConnectionPermit> {
        let permit = self
            .connections
            .admit(peer.ip())
            .or_else(|limit| match &self.open {
                // Closing one frees its permit at once, so the second attempt succeeds unless another thread was faster.
                Some(open) if open.close_one() => self.connections.admit(peer.ip()),
                _ => Err(limit),
            });
        permit.map_err(|_| io::ErrorKind::ConnectionRefused.into())
    }

    /// Returns whether a client speaks TURN, by its first byte. TURN clients do not offer a protocol in the handshake (ALPN).
    async fn speaks_turn(&self, socket: &mut Socket) -> io::Result<bool> {
        tokio::select! {
            first = socket.first_byte() => Ok(first?.is_some_and(is_turn)),
            () = sleep(FIRST_BYTE_TIMEOUT) => Ok(false),
            () = self.stopping.notified() => Ok(false),
        }
    }

    /// Serves a TURN client until its connection ends or the listener stops. It counts as a connection meanwhile.
    async fn serve_turn(
        &self,
        turn: &TurnServer,
        socket: Socket,
        peer: SocketAddr,
        permit: ConnectionPermit,
    ) {
        let _permit = permit;
        // A socket that rejects an option is about to end, so errors are ignored.
        let _ = socket.set_receive_buffer(TURN_RECEIVE_BUFFER);
        tokio::select! {
            served = turn.serve(peer, move || socket.into_current_runtime()) => {
                let _ = served.inspect_err(|error| log::error!(error:%; "the TURN server's threads cannot be started"));
            }
            () = self.stopping.notified() => {}
        }
    }
}
