//! A client's connection, which closes when the client keeps the server waiting.
//!
//! actix-web has deadlines for the head of a connection's first request and for the time until the next request. It has none for later
//! heads, bodies that no handler reads, and responses that the client does not read. They get one here: while no request is being
//! handled, the client must send or read within the timeout; between two requests, it may stay silent for longer. After an early
//! response, when the request's body has not ended, actix-http would read and drop any number of bytes, such as the frames of a
//! WebSocket that the server has closed: beyond [`MAX_IGNORED`], it gets the end of the stream.
//!
//! One request is read at a time: pipelined bytes stay in the socket until the response is written, except for the bytes read together
//! with the end of the request ([`RequestBoundary`](super::request_boundary::RequestBoundary)). So a client that reads nothing has one
//! response waiting. actix-http copies whole chunks into its buffer, until it has 32 KiB. It gets pieces of that size
//! ([`ResponseBody`]), so less than 128 KiB are buffered, even if the response is one large chunk.
//!
//! However a connection ends, nothing that the client sent is lost. actix-http drops its buffered input on an error, so a read error
//! is reported as the end of input, and a write error only after that.

use std::error::Error;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::{Buf, Bytes, BytesMut};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connections::{Activity, ClientTimeouts, ConnectionPermit, Exchange};
use crate::tls::Socket;

/// Maximum bytes that are read and dropped after an early response, when the request's body has not ended.
const MAX_IGNORED: usize = 4 * 1024 * 1024;
/// Maximum bytes that are read ahead while a response is pending, to detect that the client has gone.
const AHEAD: usize = 1024;
/// Maximum buffer in bytes that a connection keeps between requests. Most bodies arrive with their head and are buffered until it is
/// parsed.
const MAX_BUFFER: usize = 2 * 1024;

/// Unsent bytes that the kernel buffers per connection (`TCP_NOTSENT_LOWAT`).
const MAX_UNSENT: u32 = 64 * 1024;

/// Connection with a deadline, from which one request is read at a time.
pub struct ClientStream {
    socket: Socket,
    activity: Rc<Activity>,
    timeouts: ClientTimeouts,
    /// Fires at the deadline or earlier.
    timer: Pin<Box<Sleep>>,
    /// Bytes received after the current request.
    buffered: BytesMut,
    /// Whether everything that the client sent was read.
    has_read_all: bool,
    /// Time since which writing fails. Later output is dropped until everything that the client sent was read.
    unwritable_since: Option<Instant>,
}

impl ClientStream {
    /// Wraps a connection that was just accepted.
    pub fn new(socket: Socket, timeouts: ClientTimeouts, permit: ConnectionPermit) -> Self {
        // Fails only on a socket that is already closed; the next read reports it.
        let _ = socket.bound_unsent(MAX_UNSENT);
        let timer = Box::pin(sleep(timeouts.request));
        let activity = Activity::new(permit);
        Self {
            socket,
            activity,
            timeouts,
            timer,
            buffered: BytesMut::new(),
            has_read_all: false,
            unwritable_since: None,
        }
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// Returns the state shared with the connection's requests.
    pub fn activity(&self) -> Rc<Activity> {
        Rc::clone(&self.activity)
    }

    /// Completes an operation for which the client is not ready: with an error once the client has kept the server waiting for too
    /// long, or the connection must close.
    fn poll_deadline<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        // At each wait: `close` may be called meanwhile by another task of this worker.
        self.activity.register(context.waker());
        if self.activity.is_closed() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        loop {
            // The timer is not reset at each read and write; it catches up here, at most once per timeout.
            ready!(self.timer.as_mut().poll(context));
            // A client that cannot be written to gets one timeout to send its rest, such as a WebSocket's `leave` (S-58).
            let unwritable = self
                .unwritable_since
                .map(|since| since + self.timeouts.request);
            let (deadline, now) = (
                unwritable.unwrap_or_else(|| self.activity.deadline(self.timeouts)),
                Instant::now(),
            );
            if deadline <= now {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            // The idle time's end can move the deadline closer, but not closer than this.
            let next = deadline.min(now + self.timeouts.request);
            self.timer.as_mut().reset(next);
        }
    }

    /// Records a write error. Returns the error if everything that the client sent was read, otherwise `dropped`.
    fn record_unwritable<T>(&mut self, error: io::Error, dropped: T) -> io::Result<T> {
        if self.has_read_all {
            return Err(error);
        }
        self.unwritable_since.get_or_insert_with(Instant::now);
        Ok(dropped)
    }
}

impl ClientStream {
    /// Reads the current request, or starts the next one.
    fn poll_request(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.buffered.is_empty() {
            // After an error nothing more can be read, so it is treated as the end.
            if Pin::new(&mut self.socket)
                .poll_read(context, buffer)
                .is_pending()
            {
                return self.poll_deadline(context);
            }
            // Reading nothing means the end of the input.
            self.has_read_all |= buffer.filled().len() == before;
            let taken = self.activity.take(&buffer.filled()[before..]);
            // Bytes of the next request stay here until the response is written.
            self.buffered
                .extend_from_slice(&buffer.filled()[before + taken..]);
            buffer.set_filled(before + taken);
        } else {
            let size = self.buffered.len().min(buffer.remaining());
            let taken = self.activity.take(&self.buffered[..size]);
            buffer.put_slice(&self.buffered[..taken]);
            self.buffered.advance(taken);
        }
        // `capacity` would not count the space in front of the consumed bytes.
        if self.buffered.is_empty() && self.buffered.try_reclaim(MAX_BUFFER + 1) {
            self.buffered = BytesMut::new();
        }
        self.activity.set_buffered(!self.buffered.is_empty());
        self.activity.record_read(buffer.filled().len() - before);
        self.activity.end_idle_time();
        Poll::Ready(Ok(()))
    }

    /// Reads nothing for the request, but detects the end of the client's input.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unwritable_since.is_some() && self.activity.is_responding() {
            // A response such as an event stream may never end, and later requests cannot be answered.
            self.has_read_all = true;
            return Poll::Ready(Ok(()));
        }
        if self.buffered.is_empty() {
            // A small read detects that the client has gone, without buffering much of a pipeline.
            let mut bytes = [MaybeUninit::uninit(); AHEAD];
            let mut buffer = ReadBuf::uninit(&mut bytes);
            if Pin::new(&mut self.socket)
                .poll_read(context, &mut buffer)
                .is_ready()
            {
                if buffer.filled().is_empty() {
                    self.has_read_all = true;
                    return Poll::Ready(Ok(()));
                }
                self.buffered.extend_from_slice(buffer.filled());
                self.activity.set_buffered(true);
            }
        }
        self.poll_deadline(context)
    }
}

impl Drop for ClientStream {
    /// Stops counting the connection, although requests may still share its activity.
    fn drop(&mut self) {
        self.activity.release();
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The end of the input makes actix-http close the connection.
        if self.activity.ignored() > MAX_IGNORED {
            self.has_read_all = true;
            return Poll::Ready(Ok(()));
        }
        if self.activity.may_read() {
            self.poll_request(context, buffer)
        } else {
            self.poll_ahead(context)
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.unwritable_since.is_some() {
            return Poll::Ready(
                // Reported as written: after an error, actix-http would drop the input that it has not read.
                self.record_unwritable(io::ErrorKind::BrokenPipe.into(), bytes.len()),
            );
        }
        match Pin::new(&mut self.socket).poll_write(context, bytes) {
            Poll::Pending => {
                // A client that does not read its response is not idle: the short timeout applies.
                self.activity.end_idle_time();
                self.poll_deadline(context)
            }
            Poll::Ready(written) => {
                self.activity.record_progress();
                Poll::Ready(written.or_else(|error| self.record_unwritable(error, bytes.len())))
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = if self.unwritable_since.is_some() {
            Err(io::ErrorKind::BrokenPipe.into())
        } else {
            ready!(Pin::new(&mut self.socket).poll_flush(context))
        };
        // actix-http flushes only after it has written its whole buffer.
        self.activity.record_flushed();
        Poll::Ready(flushed.or_else(|error| self.record_unwritable(error, ())))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// Maximum piece in bytes: the size of actix-http's buffer.
const PIECE: usize = 32 * 1024;

pin_project! {
    /// Body in pieces.
    pub struct ResponseBody<B> {
        #[pin]
        body: B,
        // Rest of the current chunk.
        chunk: Bytes,
        // For a `HEAD`: only the length is sent.
        is_left_out: bool,
        // Held until the body is taken completely.
        _exchange: Option<Exchange>,
    }
}

impl<B: MessageBody> ResponseBody<B> {
    /// Wraps a body; with `is_left_out`, only its length is sent. The exchange ends when the body was taken.
    pub fn new(body: B, is_left_out: bool, exchange: Option<Exchange>) -> Self {
        if let Some(exchange) = &exchange {
            exchange.respond();
        }
        Self {
            body,
            chunk: Bytes::new(),
            is_left_out,
            _exchange: exchange,
        }
    }
}

impl<B: MessageBody> MessageBody for ResponseBody<B> {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.project();
        if *this.is_left_out {
            return Poll::Ready(None);
        }
        if this.chunk.is_empty() {
            match ready!(this.body.poll_next(context)) {
                Some(Ok(chunk)) => *this.chunk = chunk,
                other => return Poll::Ready(other.map(|failed| failed.map_err(Into::into))),
            }
        }
        // Splitting shares the chunk's memory.
        let size = this.chunk.len().min(PIECE);
        Poll::Ready(Some(Ok(this.chunk.split_to(size))))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    async fn pieces(body: ResponseBody<impl MessageBody>) -> Vec<Bytes> {
        let (mut body, mut pieces) = (pin!(body), Vec::new());
        while let Some(piece) = poll_fn(|context| body.as_mut().poll_next(context)).await {
            pieces.push(piece.unwrap());
        }
        pieces
    }

    /// Proves S-9.
    #[tokio::test]
    async fn a_body_is_taken_in_pieces_of_32_kib() {
        let content: Vec<u8> = (0..100_000)
            .map(|number: u32| number.to_le_bytes()[0])
            .collect();
        let body = ResponseBody::new(content.clone(), false, None);
        assert_eq!(body.size(), BodySize::Sized(100_000));
        let pieces = pieces(body).await;
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE));
        assert_eq!(pieces.concat(), content);
    }

    #[tokio::test]
    async fn of_a_body_that_is_left_out_the_length_remains() {
        let body = ResponseBody::new("content", true, None);
        assert_eq!(body.size(), BodySize::Sized(7));
        assert!(pieces(body).await.is_empty());
    }
}
