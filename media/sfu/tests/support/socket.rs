//! A test client with a real socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use str0m::net::Protocol;

use super::connection::{Abilities, Connection, NamedBy};

enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream, Vec<u8>),
    Other(Box<dyn PacketSocket>),
}

/// Another transport to the server.
pub trait PacketSocket {
    /// Sends a packet.
    fn send(&mut self, packet: &[u8], destination: SocketAddr);

    /// Returns the next packet; waits briefly for one.
    fn receive(&mut self) -> Option<(SocketAddr, Vec<u8>)>;
}

/// A test client with a real socket.
pub struct SocketClient {
    pub connection: Connection,
    socket: Socket,
}

/// Default abilities of a client with a real socket.
pub const ESTIMATES: Abilities = Abilities {
    estimates: true,
    red: false,
    retransmissions: NamedBy::Packet,
    all_codecs: false,
};

/// Time for which one exchange waits for packets.
const WAIT: Duration = Duration::from_millis(2);

impl SocketClient {
    pub fn udp() -> Self {
        Self::udp_with(ESTIMATES)
    }

    /// Creates a UDP client with other abilities.
    pub fn udp_with(abilities: Abilities) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        let address = socket.local_addr().unwrap();
        Self {
            connection: Connection::new(address, Protocol::Udp, abilities, Instant::now()),
            socket: Socket::Udp(socket),
        }
    }

    pub fn tcp(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let address = stream.local_addr().unwrap();
        let connection = Connection::new(address, Protocol::Tcp, ESTIMATES, Instant::now());
        Self {
            connection,
            socket: Socket::Tcp(stream, Vec::new()),
        }
    }

    /// Replaces the socket by another transport.
    pub fn go_by(&mut self, socket: Box<dyn PacketSocket>) {
        self.socket = Socket::Other(socket);
    }

    /// Sends and receives all packets, waiting briefly for more.
    pub fn exchange(&mut self) {
        self.connection.advance(Instant::now());
        for packet in std::mem::take(&mut self.connection.outbox) {
            match &mut self.socket {
                Socket::Udp(socket) => {
                    // A full buffer loses the packet, as a network would.
                    let _ = socket.send_to(&packet.contents, packet.destination);
                }
                Socket::Tcp(stream, _) => {
                    let length = u16::try_from(packet.contents.len()).unwrap();
                    stream.write_all(&length.to_be_bytes()).unwrap();
                    stream.write_all(&packet.contents).unwrap();
                }
                Socket::Other(socket) => socket.send(&packet.contents, packet.destination),
            }
        }
        while let Some((source, packet)) = self.receive() {
            self.connection.receive(source, &packet, Instant::now());
        }
    }

    fn receive(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        let mut buffer = [0; 4096];
        match &mut self.socket {
            Socket::Udp(socket) => {
                let (length, source) = socket.recv_from(&mut buffer).ok()?;
                Some((source, buffer[..length].to_vec()))
            }
            Socket::Other(socket) => socket.receive(),
            Socket::Tcp(stream, bytes) => loop {
                if let [high, low, rest @ ..] = bytes.as_slice() {
                    let length = usize::from(u16::from_be_bytes([*high, *low]));
                    if rest.len() >= length {
                        let packet = bytes.drain(..2 + length).skip(2).collect();
                        return Some((stream.peer_addr().unwrap(), packet));
                    }
                }
                match stream.read(&mut buffer) {
                    Ok(length) => bytes.extend(&buffer[..length]),
                    Err(error)
                        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                    {
                        return None;
                    }
                    Err(error) => panic!("{error}"),
                }
            },
        }
    }
}
