//! The connection of a client, which is closed when the client keeps the server waiting.
//!
//! actix-web has deadlines for the head of a connection's first request and for the time until its next one. Without a deadline
//! are the heads of later requests, bodies that no handler reads, and responses that the client does not read. They get one
//! here: while no request is being handled, the client must send or read on within the timeout. Between two requests it may be
//! silent for longer. And of what follows a request that was answered before its body had ended, such as the frames of a websocket
//! that the server has closed, actix-http would read any number of bytes to drop them: beyond [`MOST_IGNORED`] it is shown the end.
//!
//! Nothing that a client has sent is lost by the way in which its connection ends. actix-http drops what it has read if it then
//! meets an error, so an error of reading is shown to it as the end of what the client sends, and one of writing only after that.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connections::ConnectionPermit;
use crate::tls::Socket;

/// The most bytes that are read and dropped behind a request that was answered before its body had ended.
const MOST_IGNORED: usize = 4 * 1024 * 1024;

/// A connection with a deadline.
pub struct ClientStream {
    socket: Socket,
    activity: Rc<Activity>,
    timeouts: ClientTimeouts,
    /// Fires at the deadline or before it.
    timer: Pin<Box<Sleep>>,
    /// Whether all that the client has sent was read.
    has_read_all: bool,
    /// Since when writing has failed. What is written from then on is dropped, until all that the client has sent was read.
    unwritable_since: Option<Instant>,
}

/// How long a client may keep the server waiting.
#[derive(Debug, Clone, Copy)]
pub struct ClientTimeouts {
    /// While it sends a request or reads a response.
    pub request: Duration,
    /// Between two requests.
    pub keep_alive: Duration,
}

/// What the server does with a connection. Requests share it with their connection.
pub struct Activity {
    /// The number of requests and response streams that are being handled.
    handling: Cell<usize>,
    /// Since when the server waits for the client, if nothing is being handled.
    waiting_since: Cell<Instant>,
    /// Whether the last request has a body that was not read to its end.
    has_unread_body: Cell<bool>,
    /// The bytes that were read since the last request was handled, if it has such a body.
    ignored: Cell<usize>,
    /// Whether the last request was handled and the client has sent nothing since, as far as it is known.
    is_idle: Cell<bool>,
    /// Gone once the connection is to be closed.
    permit: RefCell<Option<ConnectionPermit>>,
    /// The task of the connection.
    task: AtomicWaker,
}

/// Something of a connection that is being handled. Until this is dropped, the client does not keep the server waiting.
pub struct Handling(Rc<Activity>);

impl Handling {
    /// Begins to handle a request. `None` for one without a connection.
    pub fn begin(request: &HttpRequest) -> Option<Self> {
        let activity = request.conn_data::<Rc<Activity>>()?;
        activity.handling.set(activity.handling.get() + 1);
        activity.has_unread_body.set(announces_body(request));
        activity.ignored.set(0);
        Some(Self(Rc::clone(activity)))
    }
}

fn announces_body(request: &HttpRequest) -> bool {
    let headers = request.headers();
    let length = headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
    length || headers.contains_key(TRANSFER_ENCODING) || opens_websocket(request) || request.method() == Method::CONNECT
}

/// Whether a request asks for a websocket. All that follows is its body then.
pub fn opens_websocket(request: &HttpRequest) -> bool {
    let upgrade = request.headers().get(UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket"))
}

/// Notes that the body of a request was read to its end, so that the connection is idle once the request was handled.
pub fn note_body_read(request: &HttpRequest) {
    if let Some(activity) = request.conn_data::<Rc<Activity>>() {
        activity.has_unread_body.set(false);
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.handling.set(self.0.handling.get() - 1);
        self.0.note_progress();
        self.0.is_idle.set(!self.0.has_unread_body.get());
    }
}

impl Activity {
    fn new(permit: ConnectionPermit) -> Rc<Self> {
        Rc::new(Self {
            handling: Cell::new(0),
            waiting_since: Cell::new(Instant::now()),
            has_unread_body: Cell::new(false),
            ignored: Cell::new(0),
            is_idle: Cell::new(false),
            permit: RefCell::new(Some(permit)),
            task: AtomicWaker::new(),
        })
    }

    /// Since when the server waits for the client: for a request, for its body, or until it reads the response. `None` while a
    /// request is being handled.
    pub fn waiting_since(&self) -> Option<Instant> {
        let waits = self.handling.get() == 0 || self.has_unread_body.get();
        (waits && self.permit.borrow().is_some()).then(|| self.waiting_since.get())
    }

    /// Closes the connection, which does not count any more.
    pub fn close(&self) {
        self.permit.take();
        self.task.wake();
    }

    /// Counts bytes that were read, if they follow a request that was handled before its body had ended.
    fn note_read(&self, bytes: usize) {
        if self.handling.get() == 0 && self.has_unread_body.get() {
            self.ignored.set(self.ignored.get() + bytes);
        }
    }

    fn note_progress(&self) {
        self.waiting_since.set(Instant::now());
    }

    /// The client sends its next request, or has not read all of its response.
    fn end_idle_time(&self) {
        if self.is_idle.replace(false) {
            self.note_progress();
        }
    }

    fn deadline(&self, timeouts: ClientTimeouts) -> Instant {
        match (self.handling.get(), self.is_idle.get()) {
            (0, false) => self.waiting_since.get() + timeouts.request,
            (0, true) => self.waiting_since.get() + timeouts.keep_alive,
            _ => Instant::now() + timeouts.request,
        }
    }
}

impl ClientStream {
    /// Wraps a connection that has just been accepted.
    pub fn new(socket: Socket, timeouts: ClientTimeouts, permit: ConnectionPermit) -> Self {
        let timer = Box::pin(sleep(timeouts.request));
        Self { socket, activity: Activity::new(permit), timeouts, timer, has_read_all: false, unwritable_since: None }
    }

    /// The client's address.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// What requests share with the connection, see [`Handling::begin`].
    pub fn activity(&self) -> Rc<Activity> {
        Rc::clone(&self.activity)
    }

    /// The end of an operation for which the client is not ready: an error once the client has kept the server waiting for
    /// too long, or the connection is to be closed.
    fn poll_deadline<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.activity.task.register(context.waker());
        if self.activity.permit.borrow().is_none() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            let unwritable = self.unwritable_since.map(|since| since + self.timeouts.request);
            let (deadline, now) = (unwritable.unwrap_or_else(|| self.activity.deadline(self.timeouts)), Instant::now());
            if deadline <= now {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            // When the idle time ends, the deadline may come nearer, but not nearer than this.
            let next = deadline.min(now + self.timeouts.request);
            self.timer.as_mut().reset(next);
        }
    }

    /// Writing has failed. Returns the error once all that the client has sent was read, and `dropped` before.
    fn note_unwritable<T>(&mut self, error: io::Error, dropped: T) -> io::Result<T> {
        if self.has_read_all {
            return Err(error);
        }
        self.unwritable_since.get_or_insert_with(Instant::now);
        Ok(dropped)
    }
}

impl Drop for ClientStream {
    /// The connection does not count any more, although requests may still share its activity.
    fn drop(&mut self) {
        self.activity.permit.take();
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.activity.ignored.get() > MOST_IGNORED {
            self.has_read_all = true;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        // After an error nothing more can be read, as after an end.
        if Pin::new(&mut self.socket).poll_read(context, buffer).is_pending() {
            return self.poll_deadline(context);
        }
        self.has_read_all |= buffer.filled().len() == before;
        self.activity.note_read(buffer.filled().len() - before);
        self.activity.end_idle_time();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.unwritable_since.is_some() {
            return Poll::Ready(self.note_unwritable(io::ErrorKind::BrokenPipe.into(), bytes.len()));
        }
        match Pin::new(&mut self.socket).poll_write(context, bytes) {
            Poll::Pending => {
                self.activity.end_idle_time();
                self.poll_deadline(context)
            }
            Poll::Ready(written) => {
                self.activity.note_progress();
                Poll::Ready(written.or_else(|error| self.note_unwritable(error, bytes.len())))
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unwritable_since.is_some() {
            return Poll::Ready(self.note_unwritable(io::ErrorKind::BrokenPipe.into(), ()));
        }
        let flushed = ready!(Pin::new(&mut self.socket).poll_flush(context));
        Poll::Ready(flushed.or_else(|error| self.note_unwritable(error, ())))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
