//! The connection of a client, which is closed when the client keeps the server waiting.
//!
//! actix-web has deadlines for the head of a connection's first request and for the time until its next one. Without a deadline
//! are the heads of later requests, bodies that no handler reads, and responses that the client does not read. They get one
//! here: while no request is being handled, the client must send or read on within the timeout.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::HttpRequest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::connections::ConnectionPermit;

/// A TCP connection with a deadline.
pub struct ClientStream {
    tcp: TcpStream,
    activity: Rc<Activity>,
    timeout: Duration,
    /// Fires at the deadline or before it.
    timer: Pin<Box<Sleep>>,
    _permit: ConnectionPermit,
}

/// What the server does with a connection. Requests share it with their connection.
pub struct Activity {
    /// The number of requests and response streams that are being handled.
    handling: Cell<usize>,
    /// Since when the server waits for the client, if nothing is being handled.
    waiting_since: Cell<Instant>,
}

/// Something of a connection that is being handled. Until this is dropped, the client does not keep the server waiting.
pub struct Handling(Rc<Activity>);

impl Handling {
    /// Begins to handle a request. `None` for one without a connection.
    pub fn begin(request: &HttpRequest) -> Option<Self> {
        let activity = request.conn_data::<Rc<Activity>>()?;
        activity.handling.set(activity.handling.get() + 1);
        Some(Self(Rc::clone(activity)))
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.handling.set(self.0.handling.get() - 1);
        self.0.note_progress();
    }
}

impl Activity {
    fn new() -> Rc<Self> {
        Rc::new(Self { handling: Cell::new(0), waiting_since: Cell::new(Instant::now()) })
    }

    fn note_progress(&self) {
        self.waiting_since.set(Instant::now());
    }

    fn deadline(&self, timeout: Duration) -> Instant {
        let since = if self.handling.get() == 0 { self.waiting_since.get() } else { Instant::now() };
        since + timeout
    }
}

impl ClientStream {
    /// Wraps a connection that has just been accepted.
    #[must_use]
    pub fn new(tcp: TcpStream, timeout: Duration, permit: ConnectionPermit) -> Self {
        Self { tcp, activity: Activity::new(), timeout, timer: Box::pin(sleep(timeout)), _permit: permit }
    }

    /// The client's address.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.tcp.peer_addr().ok()
    }

    /// What requests share with the connection, see [`Handling::begin`].
    #[must_use]
    pub fn activity(&self) -> Rc<Activity> {
        Rc::clone(&self.activity)
    }

    /// The end of an operation for which the client is not ready: an error once the client has kept the server waiting for
    /// too long.
    fn poll_deadline<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            let deadline = self.activity.deadline(self.timeout);
            if deadline <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.timer.as_mut().reset(deadline);
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.tcp).poll_read(context, buffer) {
            Poll::Pending => self.poll_deadline(context),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.tcp).poll_write(context, bytes) {
            Poll::Pending => self.poll_deadline(context),
            ready @ Poll::Ready(_) => {
                self.activity.note_progress();
                ready
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
