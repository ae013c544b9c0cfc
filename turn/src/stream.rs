//! A client that is connected by TCP or TLS.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::framing::MessageReader;
use crate::relay::{MAX_DATAGRAM, Relay};
use crate::session::{Reaction, Session, Transport};
use crate::shared::Shared;

/// The most bytes that wait for a slow client. Further datagrams are dropped, as a network would.
const WRITE_QUEUE: usize = 64 * 1_024;

/// The bytes that are read at once.
const READ_BYTES: usize = 8 * 1_024;

/// How many datagrams of media workers are written together.
const BATCH: usize = 32;

/// How long a client may leave unread what waits for it.
const UNREAD: Duration = Duration::from_secs(10);

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_secs(1);

/// How many messages a client may send while it has no allocation: an Allocate request is repeated once, with credentials.
const STRANGE_MESSAGES: usize = 16;

/// A connected client.
pub struct StreamClient<S> {
    shared: Arc<Shared>,
    session: Session,
    read: ReadHalf<S>,
    write: WriteHalf<S>,
    reader: MessageReader,
    relay: Relay,
    waiting: Waiting,
    tick: Interval,
    /// Since when there is no allocation.
    strange_since: Instant,
    strange_messages: usize,
}

/// The bytes that wait for a client.
struct Waiting {
    bytes: Vec<u8>,
    /// How many of them have been written.
    written: usize,
    /// Whether some that were written may still be on their way to the socket.
    must_flush: bool,
    /// Since when nothing was written, or nothing has waited.
    since: Instant,
}

/// The connection has ended, or is to be closed.
struct End;

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// What has happened.
enum Happened {
    Read(usize),
    Written(usize),
    Flushed,
    Relayed(usize, SocketAddr),
    Tick,
}

impl<S: AsyncRead + AsyncWrite + Unpin> StreamClient<S> {
    /// A client that has sent nothing yet.
    pub fn new(shared: Arc<Shared>, stream: S, client: SocketAddr) -> Self {
        let (read, write) = split(stream);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            session: Session::new(Arc::clone(&shared), client, Transport::Stream),
            shared,
            read,
            write,
            reader: MessageReader::default(),
            relay: Relay::default(),
            waiting: Waiting { bytes: Vec::new(), written: 0, must_flush: false, since: Instant::now() },
            tick,
            strange_since: Instant::now(),
            strange_messages: 0,
        }
    }

    /// Serves the client until the connection ends.
    pub async fn run(mut self) {
        let (mut input, mut datagram) = (vec![0; READ_BYTES], vec![0; MAX_DATAGRAM]);
        while let Ok(happened) = self.next(&mut input, &mut datagram).await {
            if self.handle(happened, &input, &mut datagram).is_err() {
                break;
            }
        }
    }

    /// Waits for what happens first. Nothing is read while too much waits to be written, so that a client who reads nothing gets no
    /// further answers.
    async fn next(&mut self, input: &mut [u8], datagram: &mut [u8]) -> Result<Happened, End> {
        let Self { read, write, relay, waiting, tick, .. } = self;
        tokio::select! {
            count = read.read(input), if waiting.has_room() => match count? {
                0 => Err(End),
                count => Ok(Happened::Read(count)),
            },
            sent = waiting.send(write) => sent,
            (count, from) = relay.receive(datagram) => Ok(Happened::Relayed(count, from)),
            _ = tick.tick() => Ok(Happened::Tick),
        }
    }

    fn handle(&mut self, happened: Happened, input: &[u8], datagram: &mut [u8]) -> Result<(), End> {
        match happened {
            Happened::Read(count) => self.take_messages(input.get(..count).unwrap_or_default())?,
            Happened::Written(count) => self.waiting.note_written(count),
            Happened::Flushed => self.waiting.must_flush = false,
            Happened::Relayed(count, from) => self.take_datagrams(count, from, datagram),
            Happened::Tick => self.look_at_deadlines()?,
        }
        Ok(())
    }

    fn take_messages(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.reader.push(bytes);
        while let Some(message) = self.reader.next_message().map_err(|_| End)? {
            let relay = &mut self.relay;
            match self.session.receive(message, &mut |address| relay.open(address)) {
                Reaction::Nothing => {}
                Reaction::Reply(response) => self.waiting.push(&response),
                Reaction::Relay { to, payload } => {
                    self.shared.metrics.note_from_client(payload.len(), self.relay.send(payload, to));
                }
            }
            self.note_allocation()?;
        }
        Ok(())
    }

    /// Closes the relay's socket if there is no allocation, and counts what comes meanwhile.
    fn note_allocation(&mut self) -> Result<(), End> {
        if self.session.has_allocation() {
            (self.strange_since, self.strange_messages) = (Instant::now(), 0);
            return Ok(());
        }
        self.relay.close();
        self.strange_messages += 1;
        if self.strange_messages > STRANGE_MESSAGES { Err(End) } else { Ok(()) }
    }

    /// Takes a datagram that was received, and those behind it.
    fn take_datagrams(&mut self, count: usize, from: SocketAddr, buffer: &mut [u8]) {
        self.take_datagram(from, buffer.get(..count).unwrap_or_default());
        for _ in 1..BATCH {
            let Some((count, from)) = self.relay.receive_now(buffer) else { return };
            self.take_datagram(from, buffer.get(..count).unwrap_or_default());
        }
    }

    fn take_datagram(&mut self, from: SocketAddr, payload: &[u8]) {
        let has_room = self.waiting.has_room();
        if !has_room || self.session.push_relayed(from, payload, &mut self.waiting.bytes) {
            self.shared.metrics.note_to_client(payload.len(), has_room);
        }
    }

    fn look_at_deadlines(&mut self) -> Result<(), End> {
        self.session.expire();
        if self.session.has_allocation() {
            self.strange_since = Instant::now();
        } else {
            self.relay.close();
        }
        let is_late = self.strange_since.elapsed() > self.shared.patience || self.waiting.is_late();
        if is_late { Err(End) } else { Ok(()) }
    }
}

impl Waiting {
    fn has_room(&self) -> bool {
        self.bytes.len() - self.written < WRITE_QUEUE
    }

    fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Writes something of what waits, or sees to it that nothing of what was written waits elsewhere. For ever if there is nothing.
    async fn send<W: AsyncWrite + Unpin>(&self, write: &mut W) -> Result<Happened, End> {
        if !self.is_empty() {
            return match write.write(self.rest()).await? {
                0 => Err(End),
                count => Ok(Happened::Written(count)),
            };
        }
        if self.must_flush {
            write.flush().await?;
            return Ok(Happened::Flushed);
        }
        pending().await
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn note_written(&mut self, count: usize) {
        (self.written, self.must_flush, self.since) = (self.written + count, true, Instant::now());
        // What was written is removed before it takes more room than what waits.
        if self.written >= self.bytes.len() || self.written > WRITE_QUEUE {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Returns whether the client has left unread what waits for too long.
    fn is_late(&mut self) -> bool {
        if self.is_empty() && !self.must_flush {
            self.since = Instant::now();
        }
        self.since.elapsed() > UNREAD
    }
}
