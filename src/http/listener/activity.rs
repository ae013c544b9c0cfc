//! What the server does with a connection. Requests share it with their connection, which waits and reads accordingly.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use actix_web::HttpRequest;
use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use super::connections::ConnectionPermit;
use super::request_boundary::{Body, RequestBoundary};

/// How long a client may keep the server waiting.
#[derive(Debug, Clone, Copy)]
pub struct ClientTimeouts {
    /// While it sends a request or reads a response.
    pub request: Duration,
    /// Between two requests.
    pub keep_alive: Duration,
}

/// What the server does with a connection.
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
    /// Which bytes belong to the request that is read.
    boundary: Cell<RequestBoundary>,
    /// The number of exchanges whose response has not been taken to be sent.
    unanswered: Cell<usize>,
    /// Whether the response to the last request is being sent.
    is_responding: Cell<bool>,
    /// Whether bytes of a response that was taken may not have been written yet.
    is_unflushed: Cell<bool>,
    /// Whether bytes of the next request, or of a body, were received and are to be read later.
    is_held: Cell<bool>,
    /// Gone once the connection is to be closed.
    permit: RefCell<Option<ConnectionPermit>>,
    /// The task of the connection.
    task: AtomicWaker,
}

/// Something of a connection that is being handled. Until this is dropped, the client does not keep the server waiting.
pub struct Handling(Rc<Activity>);

/// A request and its response. Until this is dropped and what was taken of the response is written, no further request is read.
pub struct Exchange(Rc<Activity>);

/// Begins the exchange of a request that was just parsed, whose body may be read then, and its handling. `None` for one without a
/// connection.
pub fn begin(request: &HttpRequest) -> Option<(Exchange, Handling)> {
    let activity = request.conn_data::<Rc<Activity>>()?;
    let body = Body::of(request);
    Some((
        Exchange::begin(activity, body),
        Handling::of(activity, body),
    ))
}

impl Handling {
    /// Begins to handle a request further than its exchange, as one whose response is a stream. `None` for one without a connection.
    pub fn begin(request: &HttpRequest) -> Option<Self> {
        request
            .conn_data()
            .map(|activity| Self::of(activity, Body::of(request)))
    }

    fn of(activity: &Rc<Activity>, body: Body) -> Self {
        activity.handling.set(activity.handling.get() + 1);
        activity.has_unread_body.set(body != Body::Absent);
        activity.ignored.set(0);
        Self(Rc::clone(activity))
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.handling.set(self.0.handling.get() - 1);
        self.0.note_progress();
        self.0.is_idle.set(!self.0.has_unread_body.get());
    }
}

impl Exchange {
    fn begin(activity: &Rc<Activity>, body: Body) -> Self {
        let mut boundary = activity.boundary.get();
        boundary.begin_body(body);
        activity.boundary.set(boundary);
        activity.unanswered.set(activity.unanswered.get() + 1);
        activity.is_responding.set(false);
        if boundary.is_open() {
            activity.wake_if_held();
        }
        Self(Rc::clone(activity))
    }

    /// The response is about to be sent.
    pub fn respond(&self) {
        self.0.is_responding.set(true);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.unanswered.set(self.0.unanswered.get() - 1);
        // actix-http has the end of the response in its buffer, or is about to put it there before it writes.
        self.0.is_unflushed.set(true);
    }
}

/// Notes that the body of a request was read to its end, so that the connection is idle once the request was handled.
pub fn note_body_read(request: &HttpRequest) {
    if let Some(activity) = request.conn_data::<Rc<Activity>>() {
        activity.has_unread_body.set(false);
    }
}

impl Activity {
    /// Nothing was read yet.
    pub(super) fn new(permit: ConnectionPermit) -> Rc<Self> {
        Rc::new(Self {
            handling: Cell::new(0),
            waiting_since: Cell::new(Instant::now()),
            has_unread_body: Cell::new(false),
            ignored: Cell::new(0),
            is_idle: Cell::new(false),
            boundary: Cell::default(),
            unanswered: Cell::new(0),
            is_responding: Cell::new(false),
            is_unflushed: Cell::new(false),
            is_held: Cell::new(false),
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
        self.release();
        self.task.wake();
    }

    /// The connection does not count any more.
    pub(super) fn release(&self) {
        self.permit.take();
    }

    /// Whether the connection is to be closed.
    pub(super) fn is_closed(&self) -> bool {
        self.permit.borrow().is_none()
    }

    /// Lets the task of the connection run when something changes that it waits for.
    pub(super) fn register(&self, waker: &Waker) {
        self.task.register(waker);
    }

    /// Counts bytes that were read, if they follow a request that was handled before its body had ended.
    pub(super) fn note_read(&self, bytes: usize) {
        if self.handling.get() == 0 && self.has_unread_body.get() {
            self.ignored.set(self.ignored.get() + bytes);
        }
    }

    /// The bytes that were read since the last request was handled, if its body has not ended.
    pub(super) fn ignored(&self) -> usize {
        self.ignored.get()
    }

    /// The client has taken a part of a response.
    pub(super) fn note_progress(&self) {
        self.waiting_since.set(Instant::now());
    }

    /// The client sends its next request, or has not read all of its response.
    pub(super) fn end_idle_time(&self) {
        if self.is_idle.replace(false) {
            self.note_progress();
        }
    }

    /// When the connection is closed unless the client does something before.
    pub(super) fn deadline(&self, timeouts: ClientTimeouts) -> Instant {
        match (self.handling.get(), self.is_idle.get()) {
            (0, false) => self.waiting_since.get() + timeouts.request,
            (0, true) => self.waiting_since.get() + timeouts.keep_alive,
            _ => Instant::now() + timeouts.request,
        }
    }

    /// Whether bytes may be read now: those of a request that has not ended, or of the next one if the response was sent.
    pub(super) fn may_read(&self) -> bool {
        let mut boundary = self.boundary.get();
        if boundary.is_end() && self.unanswered.get() == 0 && !self.is_unflushed.get() {
            boundary.begin_next();
            self.boundary.set(boundary);
        }
        boundary.is_open()
    }

    /// Returns how many of these bytes may be read now, see [`may_read`](Self::may_read), and notes that they are.
    pub(super) fn take(&self, bytes: &[u8]) -> usize {
        let mut boundary = self.boundary.get();
        let taken = boundary.advance(bytes);
        self.boundary.set(boundary);
        taken
    }

    /// Whether a response is being sent.
    pub(super) fn is_responding(&self) -> bool {
        self.unanswered.get() > 0 && self.is_responding.get()
    }

    /// Notes whether bytes were received that may not be read yet.
    pub(super) fn hold(&self, is_held: bool) {
        self.is_held.set(is_held);
    }

    /// All that actix-http has taken of responses was written.
    pub(super) fn note_flushed(&self) {
        if self.unanswered.get() == 0 && self.is_unflushed.replace(false) {
            self.wake_if_held();
        }
    }

    fn wake_if_held(&self) {
        if self.is_held.get() {
            self.task.wake();
        }
    }
}
