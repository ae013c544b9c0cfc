//! TURN client with a real socket.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::requests::{Requests, channel_data, code, indicated};

/// Maximum wait for a response, after which a test fails.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Timeout for one read, so that all clients are served by turns.
pub const READ_TIMEOUT: Duration = Duration::from_millis(2);

/// Channel for the first peer.
const FIRST_CHANNEL: u16 = 0x4000;

/// Byte stream.
pub trait Stream: Read + Write + Any {}

impl<T: Read + Write + Any> Stream for T {}

/// Link to the server.
pub enum Link {
    /// Connected UDP socket.
    Udp(UdpSocket),
    /// Connection with a read timeout.
    Stream(Box<dyn Stream>),
}

/// TURN client with a real socket.
pub struct TurnClient {
    pub requests: Requests,
    link: Link,
    /// Read buffer.
    buffer: Box<[u8]>,
    /// Bytes read from a stream and not parsed yet.
    input: Vec<u8>,
    /// Received datagrams and responses.
    datagrams: VecDeque<(SocketAddr, Vec<u8>)>,
    responses: VecDeque<Vec<u8>>,
    channels: HashMap<SocketAddr, u16>,
    /// Whether the server has closed the connection.
    pub is_closed: bool,
}

impl Link {
    pub fn udp(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((server.ip(), 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        Self::Udp(socket)
    }
}

impl TurnClient {
    pub fn new(link: Link, username: &str, password: &str) -> Self {
        Self {
            requests: Requests::new(username, password),
            link,
            buffer: vec![0; 65_536].into(),
            input: Vec::new(),
            datagrams: VecDeque::new(),
            responses: VecDeque::new(),
            channels: HashMap::new(),
            is_closed: false,
        }
    }

    /// Returns a TCP client's connection.
    pub fn into_tcp(self) -> Option<TcpStream> {
        match self.link {
            Link::Udp(_) => None,
            Link::Stream(stream) => (stream as Box<dyn Any>)
                .downcast()
                .ok()
                .map(|stream| *stream),
        }
    }

    /// Allocates: an Allocate request, and another with credentials. Returns the response.
    pub fn allocate(&mut self) -> Vec<u8> {
        let challenge = self.ask(&self.requests.allocate());
        assert_eq!(code(&challenge), 401);
        self.requests.take_challenge(&challenge);
        self.ask(&self.requests.allocate())
    }

    /// Sends a request, and returns the response's code.
    pub fn code(&mut self, request: &[u8]) -> u16 {
        code(&self.ask(request))
    }

    /// Sends a request, and returns the response.
    pub fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.write(request);
        let end = Instant::now() + WAIT_LIMIT;
        loop {
            if let Some(response) = self.responses.pop_front() {
                return response;
            }
            assert!(Instant::now() < end && !self.is_closed, "no answer");
            self.read();
        }
    }

    /// Sends a datagram to a peer through a channel, which is bound at the first use.
    pub fn send(&mut self, peer: SocketAddr, payload: &[u8]) {
        let channel = match self.channels.get(&peer) {
            Some(channel) => *channel,
            None => {
                let channel = FIRST_CHANNEL + u16::try_from(self.channels.len()).unwrap();
                let bind = self.requests.bind(channel, peer);
                assert_eq!(self.code(&bind), 0, "a media worker is permitted");
                self.channels.insert(peer, channel);
                channel
            }
        };
        self.write(&channel_data(channel, payload));
    }

    /// Returns a peer's datagram, if one has arrived or arrives shortly.
    pub fn receive(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        if self.datagrams.is_empty() {
            self.read();
        }
        self.datagrams.pop_front()
    }

    /// Waits for a peer's datagram.
    pub fn wait(&mut self) -> (SocketAddr, Vec<u8>) {
        let end = Instant::now() + WAIT_LIMIT;
        loop {
            if let Some(received) = self.receive() {
                return received;
            }
            assert!(Instant::now() < end && !self.is_closed, "no datagram");
        }
    }

    /// Waits until the server closes the connection.
    pub fn wait_for_end(&mut self) {
        let end = Instant::now() + WAIT_LIMIT;
        while !self.is_closed {
            assert!(Instant::now() < end, "the connection stays open");
            self.read();
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        match &mut self.link {
            // A full buffer drops the packet, as a network would.
            Link::Udp(socket) => drop(socket.send(bytes)),
            Link::Stream(stream) => {
                let written = stream.write_all(bytes).and_then(|()| stream.flush());
                self.is_closed |= written.is_err();
            }
        }
    }

    /// Reads available bytes, waiting briefly.
    fn read(&mut self) {
        let read = match &mut self.link {
            Link::Udp(socket) => socket.recv(&mut self.buffer),
            Link::Stream(stream) => stream.read(&mut self.buffer),
        };
        match (read, &self.link) {
            (Ok(length), Link::Udp(_)) => {
                let message = self.buffer[..length].to_vec();
                self.take(&message);
            }
            (Ok(0), Link::Stream(_)) => self.is_closed = true,
            (Ok(length), Link::Stream(_)) => {
                self.input.extend_from_slice(&self.buffer[..length]);
                self.take_messages();
            }
            (Err(error), _)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            (Err(_), _) => self.is_closed = true,
        }
    }

    fn take_messages(&mut self) {
        while let [first, _, high, low, ..] = self.input[..] {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let length = length.next_multiple_of(4) + if first >> 6 == 0 { 20 } else { 4 };
            if self.input.len() < length {
                return;
            }
            let message: Vec<_> = self.input.drain(..length).collect();
            self.take(&message);
        }
    }

    fn take(&mut self, message: &[u8]) {
        match message {
            [first, second, high, low, payload @ ..] if first >> 6 == 1 => {
                let (channel, length) = (
                    u16::from_be_bytes([*first, *second]),
                    u16::from_be_bytes([*high, *low]),
                );
                let peer = self
                    .channels
                    .iter()
                    .find(|(_, number)| **number == channel)
                    .unwrap()
                    .0;
                self.datagrams
                    .push_back((*peer, payload[..usize::from(length)].to_vec()));
            }
            // An indication.
            [first, second, ..] if first & 1 == 0 && second & 0x10 != 0 => {
                self.datagrams.push_back(indicated(message));
            }
            _ => self.responses.push_back(message.to_vec()),
        }
    }
}
