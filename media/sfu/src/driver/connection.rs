//! A TCP connection of a client.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;

use super::framing::{PacketReader, frame_header};

/// The most bytes that wait for a slow client. More packets are dropped, as a network would.
const WRITE_QUEUE: usize = 256 * 1024;

/// The most bytes that are read at once, so that little is kept of a client that sends without pause.
const READ_BYTES: usize = 8 * 1024;

/// How many packets and reads a client has in its turn.
const STEPS_IN_TURN: usize = 32;

/// What there is behind the packets that were received in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Nothing can be read now.
    Nothing,
    /// There may be more.
    More,
    /// The end of the connection.
    End,
}

/// A TCP connection of a client.
pub struct TcpConnection {
    pub stream: TcpStream,
    /// The client's address.
    pub peer: SocketAddr,
    /// The server's address as clients know it.
    pub advertised: SocketAddr,
    /// When it was accepted.
    pub since: Instant,
    /// Whether it waits for its turn to be read.
    pub is_readable: bool,
    /// How many packets have come before it was bound to a participant; `None` once it has been.
    pub strange_packets: Option<usize>,
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
            strange_packets: Some(0),
            reader: PacketReader::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Reads in one turn and hands on each packet.
    pub fn receive(&mut self, buffer: &mut [u8], mut handle: impl FnMut(&[u8])) -> Rest {
        for _ in 0..STEPS_IN_TURN {
            match self.reader.next_packet() {
                Ok(Some(packet)) => handle(packet),
                Ok(None) => match self.read(buffer) {
                    Rest::More => {}
                    rest => return rest,
                },
                Err(_) => return Rest::End,
            }
        }
        Rest::More
    }

    /// Reads some bytes, if there are any.
    fn read(&mut self, buffer: &mut [u8]) -> Rest {
        let limit = buffer.len().min(READ_BYTES);
        let Some(buffer) = buffer.get_mut(..limit) else {
            return Rest::End;
        };
        match self.stream.read(buffer) {
            Ok(0) => Rest::End,
            Ok(length) => {
                self.reader.push(buffer.get(..length).unwrap_or_default());
                Rest::More
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Rest::More,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Rest::Nothing,
            Err(_) => Rest::End,
        }
    }

    /// Takes a packet to send. Returns whether there was room for it.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let Some(header) =
            frame_header(packet).filter(|_| self.waiting.len() + packet.len() <= WRITE_QUEUE)
        else {
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
