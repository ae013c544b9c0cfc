//! The load: clients driven by one thread.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::client::{Client, Participation};
use super::connection::Settings;
use super::datagrams::Buffer;
use super::received::Count;
use super::source::PACKET_RATE;
use crate::BenchError;

/// Interval at which clients send due packets.
const TICK: Duration = Duration::from_micros(250);
/// Factor by which a tick may exceed the usual number of packets. After this thread was stopped for a moment, all clients' packets are due
/// at once; independent clients would neither send theirs together, nor all faster for a while.
const CATCH_UP: f64 = 1.25;
/// Sources per client: its WebSocket, its publisher's and its subscriber's socket.
const SOURCES: usize = 3;

/// Clients driven by one thread.
pub struct Load {
    poll: Poll,
    events: Events,
    settings: Settings,
    buffer: Buffer,
    clients: Vec<Option<Client>>,
    /// First client in the next tick, so that the same clients are not always the first to send.
    first: usize,
    next_tick: Instant,
}

/// Identifies a client in a load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientId(usize);

impl Load {
    pub fn new() -> Result<Self, BenchError> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(4096),
            settings: Settings::new()?,
            buffer: Buffer::new(),
            clients: Vec::new(),
            first: 0,
            next_tick: Instant::now(),
        })
    }

    /// Joins a client with a token. It is connected later: see [`Load::is_connected`].
    pub fn join(
        &mut self,
        server: SocketAddr,
        token: &str,
        participation: &Participation,
    ) -> Result<ClientId, BenchError> {
        let free = self.clients.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let mut client =
            Client::join(&self.settings, server, address(index), token, participation)?;
        for (token, source) in sources(index, &client) {
            self.poll
                .registry()
                .register(&mut SourceFd(&source), token, Interest::READABLE)?;
        }
        // The first messages may have come with the handshake response.
        client.receive_messages()?;
        self.clients[index] = Some(client);
        Ok(ClientId(index))
    }

    /// Disconnects a client.
    pub fn leave(&mut self, id: ClientId) -> Result<(), BenchError> {
        let Some(mut client) = self.clients.get_mut(id.0).and_then(Option::take) else {
            return Ok(());
        };
        client.leave()?;
        for (_, source) in sources(id.0, &client) {
            self.poll.registry().deregister(&mut SourceFd(&source))?;
        }
        Ok(())
    }

    /// Returns a client that has not left.
    pub fn client(&self, id: ClientId) -> Result<&Client, BenchError> {
        self.clients
            .get(id.0)
            .and_then(Option::as_ref)
            .ok_or_else(|| "the client has left".into())
    }

    /// Returns all clients' received packets since the last call.
    pub fn take_count(&mut self) -> Count {
        let mut count = Count::default();
        self.clients
            .iter_mut()
            .flatten()
            .for_each(|client| count.add(client.received.take()));
        count
    }

    /// Drives the clients for a time.
    pub fn run(&mut self, time: Duration) -> Result<(), BenchError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn()?;
        }
        Ok(())
    }

    /// Drives the clients until a condition holds; an error if it does not within this time.
    pub fn run_until(
        &mut self,
        what: &str,
        time: Duration,
        holds: impl Fn(&Self) -> Result<bool, BenchError>,
    ) -> Result<(), BenchError> {
        let end = Instant::now() + time;
        while !holds(self)? {
            if Instant::now() > end {
                return Err(format!("{what}: not within {time:?}").into());
            }
            self.turn()?;
        }
        Ok(())
    }

    /// Handles received data, and waits for a moment if there is none.
    fn turn(&mut self) -> Result<(), BenchError> {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let wait = self.next_tick.saturating_duration_since(Instant::now());
        let polled = self
            .poll
            .poll(&mut events, Some(wait))
            .or_else(ignore_interruption);
        let handled = polled.map_err(BenchError::from).and_then(|()| {
            for event in &events {
                self.handle(event.token())?;
                self.tick_if_due()?;
            }
            self.tick_if_due()
        });
        self.events = events;
        handled
    }

    fn handle(&mut self, token: Token) -> Result<(), BenchError> {
        let Some(client) = self
            .clients
            .get_mut(token.0 / SOURCES)
            .and_then(Option::as_mut)
        else {
            return Ok(());
        };
        match token.0 % SOURCES {
            0 => client.receive_messages(),
            source => client.receive_packets(source == 1, &mut self.buffer),
        }
    }

    fn tick_if_due(&mut self) -> Result<(), BenchError> {
        let now = Instant::now();
        if now < self.next_tick {
            return Ok(());
        }
        self.next_tick = now + TICK;
        let publishers = self
            .clients
            .iter()
            .flatten()
            .filter(|client| client.publisher.is_some())
            .count();
        let due = publishers as f64 * PACKET_RATE * TICK.as_secs_f64();
        let mut allowed = (CATCH_UP * due).ceil() as usize;
        self.first = (self.first + 1) % self.clients.len().max(1);
        let (before, after) = self.clients.split_at_mut(self.first);
        after
            .iter_mut()
            .chain(before)
            .flatten()
            .try_for_each(|client| client.advance(now, &mut allowed))
    }
}

/// Returns a client's own address: servers limit traffic from one address.
fn address(index: usize) -> IpAddr {
    let [.., high, low] = index.to_be_bytes();
    Ipv4Addr::new(127, 1 + high, low, 1).into()
}

fn sources(index: usize, client: &Client) -> Vec<(Token, RawFd)> {
    let first = index * SOURCES;
    let publisher = client
        .publisher
        .as_ref()
        .and_then(|publisher| publisher.connection.socket());
    let sources = [
        Some(client.signalling.stream().as_raw_fd()),
        publisher,
        client.subscriber.socket(),
    ];
    sources
        .into_iter()
        .zip(first..)
        .filter_map(|(source, token)| Some((Token(token), source?)))
        .collect()
}

fn ignore_interruption(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted {
        Ok(())
    } else {
        Err(error)
    }
}
