//! The first steps of a connection: it is counted, its handshake is done, and one that speaks TURN leaves HTTP.

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

/// How long a connection may send nothing before it is taken for one of HTTP, which has its own deadline.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(5);

/// The bytes that the system keeps of a client of TURN until they are read, so that few are left of one that has closed its connection.
const TURN_RECEIVE_BUFFER: usize = 256 * 1024;

/// What a listener speaks.
#[derive(Clone, Default)]
pub struct Protocols {
    /// Does the handshake, if connections are encrypted.
    pub tls: Option<TlsAcceptor>,
    /// Serves the clients that speak TURN, if there may be any.
    pub turn: Option<TurnServer>,
}

/// Accepts the connections of a listener.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub connections: Arc<Connections>,
    /// Closes one of these for a new one if there are as many as may be.
    pub open: Option<OpenConnections>,
    pub timeouts: ClientTimeouts,
    pub protocols: Protocols,
    pub stopping: GracefulShutdownSignal,
}

impl Acceptor {
    /// Counts a connection, and does its handshake. One that is refused is closed, since it is dropped.
    ///
    /// # Errors
    /// The connection is closed, or was one of TURN and has ended.
    pub async fn accept(
        self,
        stream: TcpStream,
    ) -> Result<(ClientStream, Option<SocketAddr>), DispatchError> {
        let peer = stream.peer_addr()?;
        let permit = self.admit(peer)?;
        let mut socket = match &self.protocols.tls {
            Some(tls) => tls.accept(stream).await?,
            None => Socket::Plain(stream),
        };
        if let Some(turn) = &self.protocols.turn
            && self.speaks_turn(&mut socket).await?
        {
            self.serve_turn(turn, socket, peer, permit).await;
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
                Some(open) if open.close_one() => self.connections.admit(peer.ip()),
                _ => Err(limit),
            });
        permit.map_err(|_| io::ErrorKind::ConnectionRefused.into())
    }

    /// Returns whether a client speaks TURN, which its first byte says. Clients do not offer it in the handshake.
    async fn speaks_turn(&self, socket: &mut Socket) -> io::Result<bool> {
        tokio::select! {
            first = socket.first_byte() => Ok(first?.is_some_and(is_turn)),
            () = sleep(FIRST_BYTE_TIMEOUT) => Ok(false),
            () = self.stopping.notified() => Ok(false),
        }
    }

    /// Serves a client of TURN, until its connection ends or the listener stops. Meanwhile it counts as a connection.
    async fn serve_turn(
        &self,
        turn: &TurnServer,
        socket: Socket,
        peer: SocketAddr,
        permit: ConnectionPermit,
    ) {
        let _permit = permit;
        // Media waits for nothing. A socket that refuses is about to end.
        let _ = (
            socket.set_nodelay(),
            socket.set_receive_buffer(TURN_RECEIVE_BUFFER),
        );
        tokio::select! {
            served = turn.serve(peer, move || socket.into_current_runtime()) => {
                let _ = served.inspect_err(|error| log::error!(error:%; "the threads of TURN cannot be started"));
            }
            () = self.stopping.notified() => {}
        }
    }
}
