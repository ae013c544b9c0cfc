//! A client's path to the media workers through Conclave's TURN server.

#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "it is made for tests, which fail by panicking and use more of it"
)]
#[path = "../../../../media/turn/tests/support/client.rs"]
mod client;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use livekit_protocol::IceServer;
use nix::sys::socket::{MsgFlags, recv};

use super::requests::{code, relayed};
use super::{Route, requests};
use crate::BenchError;
use client::{Link, TurnClient};

/// A TURN allocation.
pub struct Relay {
    client: TurnClient,
    /// The client's address as the media workers see it.
    pub address: SocketAddr,
}

impl Relay {
    /// Makes an allocation with a client's credentials. `api` is the address for stream connections.
    pub fn new(servers: &[IceServer], route: Route, api: SocketAddr) -> Result<Self, BenchError> {
        let server = servers
            .first()
            .ok_or("the client was given no TURN server")?;
        let link = match route {
            Route::TurnByUdp => {
                let url = server
                    .urls
                    .iter()
                    .find_map(|url| url.strip_suffix("?transport=udp"));
                let port = url
                    .and_then(|url| url.rsplit(':').next())
                    .ok_or("no TURN server by UDP")?;
                let link = Link::udp((api.ip(), port.parse()?).into());
                if let Link::Udp(socket) = &link {
                    socket.set_nonblocking(true)?;
                }
                link
            }
            _ => Link::Stream(Box::new(Stream(TcpStream::connect(api)?))),
        };
        let mut client = TurnClient::new(link, &server.username, &server.credential);
        let response = client.allocate();
        match code(&response) {
            0 => Ok(Self {
                client,
                address: relayed(&response),
            }),
            code => Err(format!("the TURN server refuses an allocation with {code}").into()),
        }
    }

    /// Sends a datagram.
    pub fn send(&mut self, to: SocketAddr, contents: &[u8]) {
        self.client.send(to, contents);
    }

    /// Returns a received datagram; an error if the server has closed the connection.
    pub fn receive(&mut self) -> Result<Option<(SocketAddr, Vec<u8>)>, BenchError> {
        let datagram = self.client.receive();
        if self.client.is_closed {
            return Err("the TURN server has closed the connection".into());
        }
        Ok(datagram)
    }
}

/// A connection with non-blocking reads and blocking writes.
struct Stream(TcpStream);

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT)?)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
