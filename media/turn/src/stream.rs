//! Clients connected by TCP or TLS.
//!
//! TCP delivers as many messages at once as its buffers hold, and a message may be as short as four
//! bytes. So at most [`MESSAGES_PER_BATCH`] messages are handled before other clients are
//! scheduled. After as many as a participant may send in an interval, nothing is read until the
//! next one ([`Pace`]): the rest waits in the client's own buffers, as TCP intends.

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

use crate::admission::Pace;
use crate::framing::MessageReader;
use crate::relay::{MAX_DATAGRAM, RelaySocket};
use crate::session::{ClientTransport, TurnReaction, TurnSession};
use crate::shared::SharedState;

/// Maximum bytes buffered for a slow client. Further datagrams are dropped, as a network would.
const MAX_QUEUED_BYTES: usize = 64 * 1_024;

const READ_BYTES: usize = 8 * 1_024;

/// Maximum datagrams from media workers written together.
const BATCH: usize = 32;

/// Maximum messages handled before other clients are scheduled.
const MESSAGES_PER_BATCH: usize = 64;

/// Maximum time for which a client may leave buffered bytes unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

const TICK: Duration = Duration::from_secs(1);

/// Maximum messages from a client without an allocation. An Allocate request is sent twice, the
/// second time with credentials.
const MAX_UNALLOCATED_MESSAGES: usize = 16;

/// A client's connection.
pub trait TurnConnection: AsyncRead + AsyncWrite + Unpin + Send {
    /// Returns whether the client has closed its side, even if earlier bytes are still unread.
    fn has_closed(&self) -> bool;
}

impl TurnConnection for TcpStream {
    fn has_closed(&self) -> bool {
        // tokio records the end of the stream beside readability, so it is known before the data is
        // read.
        let ready =
            pin!(self.ready(Interest::READABLE)).poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }
}

/// Connected client.
pub struct StreamClient<S> {
    shared: Arc<SharedState>,
    session: TurnSession,
    stream: S,
    /// Whether reading precedes writing the next time, so that neither starves the other.
    reads_first: bool,
    reader: MessageReader,
    /// End of a pause in reading, because the participant has sent its maximum.
    paused_until: Instant,
    relay: RelaySocket,
    queue: WriteQueue,
    tick: Interval,
    /// Time since which there is no allocation.
    unallocated_since: Instant,
    unallocated_messages: usize,
}

/// Bytes buffered for a client.
struct WriteQueue {
    bytes: Vec<u8>,
    /// Number of bytes already written.
    written: usize,
    /// Whether written bytes may still be in the TLS layer's buffer.
    must_flush: bool,
    /// Time of the last write, or since which nothing is buffered.
    since: Instant,
}

/// The connection has ended or must be closed.
struct ConnectionEnd;

impl From<io::Error> for ConnectionEnd {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// Event on a connection.
enum StreamEvent {
    Read(usize),
    Written(usize),
    Flushed,
    /// Messages that were read before are scheduled.
    Scheduled,
    Relayed(usize, SocketAddr),
    Tick,
}

impl<S: TurnConnection> StreamClient<S> {
    pub fn new(shared: Arc<SharedState>, stream: S, client: SocketAddr) -> Self {
        let mut tick = interval(TICK);
        // After a stall, one check suffices; bursts of missed ticks would only repeat it.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            session: TurnSession::new(Arc::clone(&shared), client, ClientTransport::Stream),
            shared,
            stream,
            reads_first: true,
            reader: MessageReader::default(),
            paused_until: Instant::now(),
            relay: RelaySocket::default(),
            queue: WriteQueue {
                bytes: Vec::new(),
                written: 0,
                must_flush: false,
                since: Instant::now(),
            },
            tick,
            unallocated_since: Instant::now(),
            unallocated_messages: 0,
        }
    }

    /// Serves the client until the connection ends. If the client closes it, unread messages are
    /// dropped: its allocation ends anyway.
    pub async fn run(mut self) {
        let (mut input, mut datagram) = (vec![0; READ_BYTES], vec![0; MAX_DATAGRAM]);
        while let Ok(event) = self.next(&mut input, &mut datagram).await {
            // A closed client's messages may be many; they are not worth handling.
            if self.stream.has_closed() || self.handle(event, &input, &mut datagram).is_err() {
                break;
            }
        }
    }

    /// Waits for the next event. Nothing is read while the write queue is full, so that a client
    /// that does not read gets no further replies, or while read messages are unhandled.
    async fn next(
        &mut self,
        input: &mut [u8],
        datagram: &mut [u8],
    ) -> Result<StreamEvent, ConnectionEnd> {
        let pause = self.paused_until.saturating_duration_since(Instant::now());
        let Self {
            stream,
            reads_first,
            reader,
            relay,
            queue,
            tick,
            ..
        } = self;
        // While closed, TCP's flow control slows the client down.
        let is_open = pause.is_zero() && queue.has_room();
        let (is_scheduled, may_read) = (
            is_open && reader.has_message(),
            is_open && !reader.has_message(),
        );
        tokio::select! {
            done = poll_fn(|context| poll_stream(stream, (may_read, *reads_first), input, queue, context)) => {
                *reads_first = !*reads_first;
                done
            },
            // Yields to the other clients first.
            () = tokio::task::yield_now(), if is_scheduled => Ok(StreamEvent::Scheduled),
            () = sleep(pause), if !pause.is_zero() => Ok(StreamEvent::Scheduled),
            (count, from) = relay.receive(datagram) => Ok(StreamEvent::Relayed(count, from)),
            _ = tick.tick() => Ok(StreamEvent::Tick),
        }
    }

    fn handle(
        &mut self,
        event: StreamEvent,
        input: &[u8],
        datagram: &mut [u8],
    ) -> Result<(), ConnectionEnd> {
        match event {
            StreamEvent::Read(count) => {
                self.reader.push(input.get(..count).unwrap_or_default());
                self.process_messages()?;
            }
            StreamEvent::Scheduled => self.process_messages()?,
            StreamEvent::Written(count) => self.queue.record_written(count),
            StreamEvent::Flushed => self.queue.must_flush = false,
            StreamEvent::Relayed(count, from) => self.forward_datagrams(count, from, datagram),
            StreamEvent::Tick => self.check_deadlines()?,
        }
        Ok(())
    }

    fn process_messages(&mut self) -> Result<(), ConnectionEnd> {
        for _ in 0..MESSAGES_PER_BATCH {
            let pace = match self.reader.next_length().map_err(|_| ConnectionEnd)? {
                Some(length) if self.queue.has_room() => self.pace(length),
                _ => return Ok(()),
            };
            if let Pace::Wait(time) = pace {
                // The message stays in the reader, and further ones in the client's buffers.
                self.paused_until = Instant::now() + time;
                return Ok(());
            }
            let Some(message) = self.reader.next_message().map_err(|_| ConnectionEnd)? else {
                return Ok(());
            };
            if pace == Pace::Drop {
                self.shared.metrics.record_from_client(message.len(), false);
                continue;
            }
            let relay = &mut self.relay;
            match self
                .session
                .receive(message, &mut |address| relay.open(address))
            {
                TurnReaction::Nothing => {}
                TurnReaction::Reply(response) => self.queue.push(&response),
                TurnReaction::Relay { to, payload } => {
                    self.shared
                        .metrics
                        .record_from_client(payload.len(), self.relay.send(payload, to));
                }
            }
            self.check_allocation()?;
        }
        Ok(())
    }

    /// Counts a message for its participant. Messages without a participant are counted in
    /// [`StreamClient::check_allocation`].
    fn pace(&self, bytes: usize) -> Pace {
        self.session
            .participant()
            .map_or(Pace::Handle, |participant| participant.pace(bytes))
    }

    /// Closes the relay socket if there is no allocation, and limits the messages until there is
    /// one.
    fn check_allocation(&mut self) -> Result<(), ConnectionEnd> {
        if self.session.has_allocation() {
            (self.unallocated_since, self.unallocated_messages) = (Instant::now(), 0);
            return Ok(());
        }
        self.relay.close();
        self.unallocated_messages += 1;
        if self.unallocated_messages > MAX_UNALLOCATED_MESSAGES {
            Err(ConnectionEnd)
        } else {
            Ok(())
        }
    }

    /// Forwards a received datagram and the ones queued behind it, up to a batch.
    fn forward_datagrams(&mut self, count: usize, from: SocketAddr, buffer: &mut [u8]) {
        self.forward_datagram(from, buffer.get(..count).unwrap_or_default());
        for _ in 1..BATCH {
            let Some((count, from)) = self.relay.receive_now(buffer) else {
                return;
            };
            self.forward_datagram(from, buffer.get(..count).unwrap_or_default());
        }
    }

    fn forward_datagram(&mut self, from: SocketAddr, payload: &[u8]) {
        // Checked first: without room, framing the datagram would be wasted.
        let has_room = self.queue.has_room();
        if !has_room
            || self
                .session
                .push_relayed(from, payload, &mut self.queue.bytes)
        {
            self.shared
                .metrics
                .record_to_client(payload.len(), has_room);
        }
    }

    fn check_deadlines(&mut self) -> Result<(), ConnectionEnd> {
        let has_left = self
            .session
            .participant()
            .is_some_and(|participant| participant.has_left());
        self.session.expire();
        if self.session.has_allocation() {
            // The timeout starts anew when the allocation ends.
            self.unallocated_since = Instant::now();
        } else {
            self.relay.close();
        }
        let is_late = self.unallocated_since.elapsed() > self.shared.allocation_timeout
            || self.queue.is_late();
        if has_left || is_late {
            Err(ConnectionEnd)
        } else {
            Ok(())
        }
    }
}

/// Reads or writes, whichever the connection is ready for; if both, by turns.
fn poll_stream<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    (may_read, reads_first): (bool, bool),
    input: &mut [u8],
    queue: &WriteQueue,
    context: &mut Context<'_>,
) -> Poll<Result<StreamEvent, ConnectionEnd>> {
    if !may_read {
        return queue.poll_send(stream, context);
    }
    if !reads_first && let Poll::Ready(sent) = queue.poll_send(stream, context) {
        return Poll::Ready(sent);
    }
    let mut buffer = ReadBuf::new(input);
    match Pin::new(&mut *stream).poll_read(context, &mut buffer)? {
        Poll::Ready(()) if buffer.filled().is_empty() => Poll::Ready(Err(ConnectionEnd)),
        Poll::Ready(()) => Poll::Ready(Ok(StreamEvent::Read(buffer.filled().len()))),
        Poll::Pending if reads_first => queue.poll_send(stream, context),
        Poll::Pending => Poll::Pending,
    }
}

impl WriteQueue {
    fn has_room(&self) -> bool {
        self.bytes.len() - self.written < MAX_QUEUED_BYTES
    }

    fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Writes buffered bytes, or flushes written ones. Pending if there are none.
    fn poll_send<S: AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<Result<StreamEvent, ConnectionEnd>> {
        if !self.is_empty() {
            return Poll::Ready(
                match ready!(Pin::new(stream).poll_write(context, self.rest()))? {
                    // A write of zero bytes means that the connection is closed.
                    0 => Err(ConnectionEnd),
                    count => Ok(StreamEvent::Written(count)),
                },
            );
        }
        if self.must_flush {
            ready!(Pin::new(stream).poll_flush(context))?;
            return Poll::Ready(Ok(StreamEvent::Flushed));
        }
        Poll::Pending
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn record_written(&mut self, count: usize) {
        (self.written, self.must_flush, self.since) = (self.written + count, true, Instant::now());
        // Written bytes are removed before they outweigh the buffered ones: each removal moves the
        // rest.
        if self.written >= self.bytes.len() || self.written > MAX_QUEUED_BYTES {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Returns whether the client has left buffered bytes unread for too long.
    fn is_late(&mut self) -> bool {
        if self.is_empty() && !self.must_flush {
            self.since = Instant::now();
        }
        self.since.elapsed() > WRITE_TIMEOUT
    }
}
