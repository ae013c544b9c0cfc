//! A client that is connected by TCP or TLS.
//!
//! TCP delivers as many messages at once as its buffers hold, and a message can be as short as four bytes. So a client has turns, in each of
//! which [`MESSAGES_OF_TURN`] messages are handled at the most; and after as many as its participant may send in an interval, nothing is
//! read until the next one ([`Pace`]). What is sent then waits in the client's own buffers, as TCP means it to.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};

use crate::framing::MessageReader;
use crate::members::Pace;
use crate::relay::{MAX_DATAGRAM, Relay};
use crate::session::{Reaction, Session, Transport};
use crate::shared::Shared;

/// The most bytes that wait for a slow client. Further datagrams are dropped, as a network would.
const WRITE_QUEUE: usize = 64 * 1_024;

/// The bytes that are read at once.
const READ_BYTES: usize = 8 * 1_024;

/// How many datagrams of media workers are written together.
const BATCH: usize = 32;

/// How many messages of a client are handled before others have their turn.
const MESSAGES_OF_TURN: usize = 64;

/// How long a client may leave unread what waits for it.
const UNREAD: Duration = Duration::from_secs(10);

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_secs(1);

/// How many messages a client may send while it has no allocation: an Allocate request is repeated once, with credentials.
const STRANGE_MESSAGES: usize = 16;

/// A client's connection.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send {
    /// Returns whether the client has closed its side, even if something that it sent before has not been read.
    fn has_closed(&self) -> bool;
}

impl Connection for TcpStream {
    fn has_closed(&self) -> bool {
        // The runtime remembers the system's notice of the end, which comes beside what is there to read.
        let ready =
            pin!(self.ready(Interest::READABLE)).poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }
}

/// A connected client.
pub struct StreamClient<S> {
    shared: Arc<Shared>,
    session: Session,
    stream: S,
    /// Whether reading comes before writing the next time, so that neither keeps the other from its turn.
    reads_first: bool,
    reader: MessageReader,
    /// Until when nothing is read, since the participant has sent as much as it may.
    paused_until: Instant,
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
    /// It is the turn of messages that were read before.
    Turn,
    Relayed(usize, SocketAddr),
    Tick,
}

impl<S: Connection> StreamClient<S> {
    /// A client that has sent nothing yet.
    pub fn new(shared: Arc<Shared>, stream: S, client: SocketAddr) -> Self {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            session: Session::new(Arc::clone(&shared), client, Transport::Stream),
            shared,
            stream,
            reads_first: true,
            reader: MessageReader::default(),
            paused_until: Instant::now(),
            relay: Relay::default(),
            waiting: Waiting {
                bytes: Vec::new(),
                written: 0,
                must_flush: false,
                since: Instant::now(),
            },
            tick,
            strange_since: Instant::now(),
            strange_messages: 0,
        }
    }

    /// Serves the client until the connection ends. What a client that has closed it sent last is dropped: its allocation ends anyway.
    pub async fn run(mut self) {
        let (mut input, mut datagram) = (vec![0; READ_BYTES], vec![0; MAX_DATAGRAM]);
        while let Ok(happened) = self.next(&mut input, &mut datagram).await {
            if self.stream.has_closed() || self.handle(happened, &input, &mut datagram).is_err() {
                break;
            }
        }
    }

    /// Waits for what happens first. Nothing is read while too much waits to be written, so that a client who reads nothing gets no
    /// further answers, and while messages wait for their turn.
    async fn next(&mut self, input: &mut [u8], datagram: &mut [u8]) -> Result<Happened, End> {
        let pause = self.paused_until.saturating_duration_since(Instant::now());
        let Self {
            stream,
            reads_first,
            reader,
            relay,
            waiting,
            tick,
            ..
        } = self;
        let is_open = pause.is_zero() && waiting.has_room();
        let (has_turn, may_read) = (
            is_open && reader.has_message(),
            is_open && !reader.has_message(),
        );
        tokio::select! {
            done = poll_fn(|context| poll_stream(stream, (may_read, *reads_first), input, waiting, context)) => {
                *reads_first = !*reads_first;
                done
            },
            () = tokio::task::yield_now(), if has_turn => Ok(Happened::Turn),
            () = sleep(pause), if !pause.is_zero() => Ok(Happened::Turn),
            (count, from) = relay.receive(datagram) => Ok(Happened::Relayed(count, from)),
            _ = tick.tick() => Ok(Happened::Tick),
        }
    }

    fn handle(&mut self, happened: Happened, input: &[u8], datagram: &mut [u8]) -> Result<(), End> {
        match happened {
            Happened::Read(count) => {
                self.reader.push(input.get(..count).unwrap_or_default());
                self.take_messages()?;
            }
            Happened::Turn => self.take_messages()?,
            Happened::Written(count) => self.waiting.note_written(count),
            Happened::Flushed => self.waiting.must_flush = false,
            Happened::Relayed(count, from) => self.take_datagrams(count, from, datagram),
            Happened::Tick => self.look_at_deadlines()?,
        }
        Ok(())
    }

    fn take_messages(&mut self) -> Result<(), End> {
        for _ in 0..MESSAGES_OF_TURN {
            let pace = match self.reader.next_length().map_err(|_| End)? {
                Some(length) if self.waiting.has_room() => self.pace(length),
                _ => return Ok(()),
            };
            if let Pace::Wait(time) = pace {
                self.paused_until = Instant::now() + time;
                return Ok(());
            }
            let Some(message) = self.reader.next_message().map_err(|_| End)? else {
                return Ok(());
            };
            if pace == Pace::Drop {
                self.shared.metrics.note_from_client(message.len(), false);
                continue;
            }
            let relay = &mut self.relay;
            match self
                .session
                .receive(message, &mut |address| relay.open(address))
            {
                Reaction::Nothing => {}
                Reaction::Reply(response) => self.waiting.push(&response),
                Reaction::Relay { to, payload } => {
                    self.shared
                        .metrics
                        .note_from_client(payload.len(), self.relay.send(payload, to));
                }
            }
            self.note_allocation()?;
        }
        Ok(())
    }

    /// Counts a message for its participant. Those of strangers are counted by [`StreamClient::note_allocation`].
    fn pace(&self, bytes: usize) -> Pace {
        self.session
            .member()
            .map_or(Pace::Handle, |member| member.pace(bytes))
    }

    /// Closes the relay's socket if there is no allocation, and counts what comes meanwhile.
    fn note_allocation(&mut self) -> Result<(), End> {
        if self.session.has_allocation() {
            (self.strange_since, self.strange_messages) = (Instant::now(), 0);
            return Ok(());
        }
        self.relay.close();
        self.strange_messages += 1;
        if self.strange_messages > STRANGE_MESSAGES {
            Err(End)
        } else {
            Ok(())
        }
    }

    /// Takes a datagram that was received, and those behind it.
    fn take_datagrams(&mut self, count: usize, from: SocketAddr, buffer: &mut [u8]) {
        self.take_datagram(from, buffer.get(..count).unwrap_or_default());
        for _ in 1..BATCH {
            let Some((count, from)) = self.relay.receive_now(buffer) else {
                return;
            };
            self.take_datagram(from, buffer.get(..count).unwrap_or_default());
        }
    }

    fn take_datagram(&mut self, from: SocketAddr, payload: &[u8]) {
        let has_room = self.waiting.has_room();
        if !has_room
            || self
                .session
                .push_relayed(from, payload, &mut self.waiting.bytes)
        {
            self.shared.metrics.note_to_client(payload.len(), has_room);
        }
    }

    fn look_at_deadlines(&mut self) -> Result<(), End> {
        let has_left = self
            .session
            .member()
            .is_some_and(|member| member.has_left());
        self.session.expire();
        if self.session.has_allocation() {
            self.strange_since = Instant::now();
        } else {
            self.relay.close();
        }
        let is_late = self.strange_since.elapsed() > self.shared.patience || self.waiting.is_late();
        if has_left || is_late {
            Err(End)
        } else {
            Ok(())
        }
    }
}

/// Reads or writes, whichever the connection is ready for; if both, the one that comes first.
fn poll_stream<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    (may_read, reads_first): (bool, bool),
    input: &mut [u8],
    waiting: &Waiting,
    context: &mut Context<'_>,
) -> Poll<Result<Happened, End>> {
    if !may_read {
        return waiting.poll_send(stream, context);
    }
    if !reads_first && let Poll::Ready(sent) = waiting.poll_send(stream, context) {
        return Poll::Ready(sent);
    }
    let mut buffer = ReadBuf::new(input);
    match Pin::new(&mut *stream).poll_read(context, &mut buffer)? {
        Poll::Ready(()) if buffer.filled().is_empty() => Poll::Ready(Err(End)),
        Poll::Ready(()) => Poll::Ready(Ok(Happened::Read(buffer.filled().len()))),
        Poll::Pending if reads_first => waiting.poll_send(stream, context),
        Poll::Pending => Poll::Pending,
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

    /// Writes something of what waits, or sees to it that nothing of what was written waits elsewhere. Pending if there is nothing.
    fn poll_send<S: AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<Result<Happened, End>> {
        if !self.is_empty() {
            return Poll::Ready(
                match ready!(Pin::new(stream).poll_write(context, self.rest()))? {
                    0 => Err(End),
                    count => Ok(Happened::Written(count)),
                },
            );
        }
        if self.must_flush {
            ready!(Pin::new(stream).poll_flush(context))?;
            return Poll::Ready(Ok(Happened::Flushed));
        }
        Poll::Pending
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
