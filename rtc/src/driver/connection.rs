//! A TCP connection of a client.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;

use super::framing::{PacketReader, frame_header};

/// The most bytes that wait for a slow client. More packets are dropped, as a network would.
const WRITE_QUEUE: usize = 256 * 1024;

/// A TCP connection of a client.
pub struct TcpConnection {
    pub stream: TcpStream,
    /// The client's address.
    pub peer: SocketAddr,
    /// The server's address as clients know it.
    pub advertised: SocketAddr,
    /// When it was accepted.
    pub since: Instant,
    reader: PacketReader,
    waiting: VecDeque<u8>,
}

impl TcpConnection {
    /// Wraps an accepted stream.
    pub fn new(stream: TcpStream, peer: SocketAddr, advertised: SocketAddr, since: Instant) -> Self {
        Self { stream, peer, advertised, since, reader: PacketReader::default(), waiting: VecDeque::new() }
    }

    /// Reads what is there and hands on each packet. Returns whether the connection goes on.
    pub fn receive(&mut self, buffer: &mut [u8], mut handle: impl FnMut(&[u8])) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(length) => {
                    self.reader.push(buffer.get(..length).unwrap_or_default());
                    loop {
                        match self.reader.next_packet() {
                            Ok(Some(packet)) => handle(packet),
                            Ok(None) => break,
                            Err(_) => return false,
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Takes a packet to send. Returns whether there was room for it.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let Some(header) = frame_header(packet).filter(|_| self.waiting.len() + packet.len() <= WRITE_QUEUE) else {
            return false;
        };
        self.waiting.extend(header);
        self.waiting.extend(packet);
        true
    }

    /// Sends what was pushed, until the connection is busy. Returns whether it goes on.
    pub fn send(&mut self) -> bool {
        while !self.waiting.is_empty() {
            match self.stream.write(self.waiting.make_contiguous()) {
                Ok(length) => {
                    self.waiting.drain(..length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}
