//! Open connections: their limits, the server's activity on each, and which connection is closed for a new one.
//!
//! [`Connections`] counts a listener's connections, in total and per client. A connection beyond a limit is closed at once, so that
//! the process's remaining descriptors and memory serve the others.
//!
//! [`Activity`] is the server's activity on a connection. Requests share it with their connection, which reads and times out
//! accordingly.
//!
//! [`OpenConnections`] are the connections of a listener's worker. An idle client could exhaust a small listener's connections. At the
//! limit, the listener closes the longest-idle connection of the client that holds the most: other clients lose none, and a client
//! that sends a request at once is served even if it shares its address with the idle one, such as the server's own address.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use actix_web::HttpRequest;
use conclave_model::{ClientAddress, Counts, Throttle};
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use tokio::time::Instant;
use uuid::Uuid;

use super::client_address::TrustedProxies;
use super::request_boundary::{Body, RequestBoundary};

/// Maximum connections per client, except from this machine and trusted proxies.
// `http.max_connections` in docs/configuration.md states it.
pub const MAX_PER_CLIENT: usize = 1_024;
/// Minimum time between two warnings about closed connections.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Limits and open connections of a listener, shared by its workers.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    trusted_proxies: TrustedProxies,
    refused: IntCounterVec,
    warnings: Throttle,
    open: Mutex<OpenCounts>,
}

#[derive(Debug, Default)]
struct OpenCounts {
    total: usize,
    by_client: Counts<ClientAddress>,
}

/// Permit for an open connection, which counts until this is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    connections: Arc<Connections>,
    /// Client that it counts for; none for this machine and trusted proxies.
    client: Option<ClientAddress>,
}

/// Limit that a connection would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionLimit {
    /// All connections, `http.max_connections`.
    Total,
    /// One client's connections, [`MAX_PER_CLIENT`].
    Client,
}

impl ConnectionLimit {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Client => "client",
        }
    }
}

impl Connections {
    /// Creates the limits without open connections. `refused` counts refused connections by limit.
    pub fn new(max: usize, trusted_proxies: TrustedProxies, refused: IntCounterVec) -> Arc<Self> {
        let warnings = Throttle::new(WARNING_INTERVAL);
        Arc::new(Self {
            max,
            trusted_proxies,
            refused,
            warnings,
            open: Mutex::default(),
        })
    }

    /// Returns the maximum number of connections.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Counts a connection from an address.
    ///
    /// # Errors
    /// The limit that the connection would exceed.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Result<ConnectionPermit, ConnectionLimit> {
        // A listener on `::` has IPv4 peers as IPv4-mapped addresses; they count as the IPv4 addresses that they are.
        let client = self.counted_client(peer.to_canonical());
        self.count(client)
            .inspect_err(|limit| self.refused.with_label_values(&[limit.as_str()]).inc())?;
        Ok(ConnectionPermit {
            connections: Arc::clone(self),
            client,
        })
    }

    fn counted_client(&self, peer: IpAddr) -> Option<ClientAddress> {
        // Many clients share a proxy's address; an operator on this machine must always get in.
        let exempt = peer.is_loopback() || self.trusted_proxies.contains(peer);
        (!exempt).then(|| ClientAddress::from(peer))
    }

    fn count(&self, client: Option<ClientAddress>) -> Result<(), ConnectionLimit> {
        let mut open = self.open.lock();
        // Both limits under one lock, so that concurrent connections cannot exceed them.
        if open.total >= self.max {
            self.warn(&format!(
                "the maximum of {} open connections is reached",
                self.max
            ));
            return Err(ConnectionLimit::Total);
        }
        if client.is_some_and(|client| open.by_client.get(&client) >= MAX_PER_CLIENT) {
            self.warn(&format!(
                "a client has reached the maximum of {MAX_PER_CLIENT} open connections"
            ));
            return Err(ConnectionLimit::Client);
        }
        open.total += 1;
        if let Some(client) = client {
            open.by_client.add(client);
        }
        Ok(())
    }

    /// Logs a warning, at most once per interval.
    fn warn(&self, what: &str) {
        if self.warnings.allow(std::time::Instant::now()) {
            log::warn!("{what}; further connections are closed (http.max_connections)");
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.total -= 1;
        if let Some(client) = self.client {
            open.by_client.subtract(&client);
        }
    }
}

/// Time limits for a client that keeps the server waiting.
#[derive(Debug, Clone, Copy)]
pub struct ClientTimeouts {
    /// While it sends a request or reads a response.
    pub request: Duration,
    /// Between two requests.
    pub keep_alive: Duration,
}

/// The server's activity on a connection.
// Cells suffice: a connection and its requests stay on one worker's thread.
pub struct Activity {
    /// Number of requests and response streams being handled.
    handling: Cell<usize>,
    /// Time since which the server waits for the client, if nothing is being handled.
    waiting_since: Cell<Instant>,
    /// Whether the last request's body was not read to its end.
    has_unread_body: Cell<bool>,
    /// Bytes read since the last request was handled, if its body was not read to its end.
    ignored: Cell<usize>,
    /// Whether the last request was handled and the client has sent nothing since, as far as known.
    is_idle: Cell<bool>,
    /// Current request's boundary.
    boundary: Cell<RequestBoundary>,
    /// Last request's id.
    request_id: Cell<Uuid>,
    /// Number of exchanges whose response was not taken yet.
    unanswered: Cell<usize>,
    /// Whether the response to the last request is being sent.
    is_responding: Cell<bool>,
    /// Whether bytes of a taken response may be unwritten.
    is_unflushed: Cell<bool>,
    /// Whether bytes are buffered for a later read: of the next request, or of a body.
    is_buffered: Cell<bool>,
    /// `None` once the connection must close.
    permit: RefCell<Option<ConnectionPermit>>,
    /// The connection's task.
    task: AtomicWaker,
}

/// Activity on a connection. Until this is dropped, the client does not keep the server waiting.
pub struct Handling(Rc<Activity>);

/// Request with its response. Until this is dropped and the taken part of the response is written, no further request is read.
pub struct Exchange(Rc<Activity>);

/// Starts the exchange and the handling of a request that was just parsed; from now on, its body may be read. `None` for a request
/// without a connection.
pub fn start_exchange(request: &HttpRequest, id: Uuid) -> Option<(Exchange, Handling)> {
    let activity = request.conn_data::<Rc<Activity>>()?;
    activity.request_id.set(id);
    let body = Body::from_request(request);
    Some((Exchange::new(activity, body), Handling::new(activity, body)))
}

impl Handling {
    /// Extends a request's handling beyond its exchange, for a response that is a stream. `None` for a request without a connection.
    pub fn start(request: &HttpRequest) -> Option<Self> {
        request
            .conn_data()
            .map(|activity| Self::new(activity, Body::from_request(request)))
    }

    fn new(activity: &Rc<Activity>, body: Body) -> Self {
        activity.handling.set(activity.handling.get() + 1);
        // `record_body_read` clears it once a handler has read the body.
        activity.has_unread_body.set(body != Body::Absent);
        activity.ignored.set(0);
        Self(Rc::clone(activity))
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        // The client's time starts now, not when it sent the request.
        self.0.handling.set(self.0.handling.get() - 1);
        self.0.record_progress();
        // With an unread body, the client may still be sending: the short timeout applies.
        self.0.is_idle.set(!self.0.has_unread_body.get());
    }
}

impl Exchange {
    fn new(activity: &Rc<Activity>, body: Body) -> Self {
        let mut boundary = activity.boundary.get();
        boundary.start_body(body);
        activity.boundary.set(boundary);
        activity.unanswered.set(activity.unanswered.get() + 1);
        activity.is_responding.set(false);
        // The body may have arrived with the head, when the connection's task could not know that it belongs to this request.
        if boundary.is_open() {
            activity.wake_if_buffered();
        }
        Self(Rc::clone(activity))
    }

    /// Marks the response as being sent.
    pub fn respond(&self) {
        self.0.is_responding.set(true);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.unanswered.set(self.0.unanswered.get() - 1);
        // The end of the response is in actix-http's buffer, or will be before the next write.
        self.0.is_unflushed.set(true);
    }
}

/// Returns the id of the request being handled; `None` for a request without a connection. A connection handles one at a time.
pub fn request_id(request: &HttpRequest) -> Option<Uuid> {
    let activity = request.conn_data::<Rc<Activity>>()?;
    Some(activity.request_id.get())
}

/// Records that a request's body was read completely, so that the connection is idle after the request.
pub fn record_body_read(request: &HttpRequest) {
    if let Some(activity) = request.conn_data::<Rc<Activity>>() {
        activity.has_unread_body.set(false);
    }
}

impl Activity {
    /// Creates a new connection's activity.
    pub(super) fn new(permit: ConnectionPermit) -> Rc<Self> {
        Rc::new(Self {
            handling: Cell::new(0),
            waiting_since: Cell::new(Instant::now()),
            has_unread_body: Cell::new(false),
            ignored: Cell::new(0),
            is_idle: Cell::new(false),
            boundary: Cell::default(),
            request_id: Cell::default(),
            unanswered: Cell::new(0),
            is_responding: Cell::new(false),
            is_unflushed: Cell::new(false),
            is_buffered: Cell::new(false),
            permit: RefCell::new(Some(permit)),
            task: AtomicWaker::new(),
        })
    }

    /// Returns since when the server waits for the client: for a request, for its body, or until it reads the response. `None` while a
    /// request is being handled.
    pub fn waiting_since(&self) -> Option<Instant> {
        let waits = self.handling.get() == 0 || self.has_unread_body.get();
        // A connection that is closing already cannot make room again.
        (waits && self.permit.borrow().is_some()).then(|| self.waiting_since.get())
    }

    /// Closes the connection, and stops counting it.
    pub fn close(&self) {
        self.release();
        self.task.wake();
    }

    /// Stops counting the connection.
    pub(super) fn release(&self) {
        self.permit.take();
    }

    /// Returns whether the connection must close.
    pub(super) fn is_closed(&self) -> bool {
        self.permit.borrow().is_none()
    }

    /// Registers the connection's task, which is woken on a change that it waits for.
    pub(super) fn register(&self, waker: &Waker) {
        self.task.register(waker);
    }

    /// Counts bytes that were read after an early response, when the request's body has not ended.
    pub(super) fn record_read(&self, bytes: usize) {
        if self.handling.get() == 0 && self.has_unread_body.get() {
            self.ignored.set(self.ignored.get() + bytes);
        }
    }

    /// Returns the bytes read since the last request was handled, if its body has not ended.
    pub(super) fn ignored(&self) -> usize {
        self.ignored.get()
    }

    /// Records that the client took a part of a response.
    pub(super) fn record_progress(&self) {
        self.waiting_since.set(Instant::now());
    }

    /// Ends the idle time: the client sends its next request, or has not read its whole response.
    pub(super) fn end_idle_time(&self) {
        if self.is_idle.replace(false) {
            self.record_progress();
        }
    }

    /// Returns the time at which the connection closes unless the client does something before.
    pub(super) fn deadline(&self, timeouts: ClientTimeouts) -> Instant {
        match (self.handling.get(), self.is_idle.get()) {
            (0, false) => self.waiting_since.get() + timeouts.request,
            (0, true) => self.waiting_since.get() + timeouts.keep_alive,
            // While a request is handled, the client is not late; this only bounds the timer's next check.
            _ => Instant::now() + timeouts.request,
        }
    }

    /// Returns whether bytes may be read now: of an unfinished request, or of the next request if the response was sent.
    pub(super) fn may_read(&self) -> bool {
        let mut boundary = self.boundary.get();
        if boundary.is_end() && self.unanswered.get() == 0 && !self.is_unflushed.get() {
            boundary.start_next();
            self.boundary.set(boundary);
        }
        boundary.is_open()
    }

    /// Returns how many of these bytes may be read now, see [`may_read`](Self::may_read), and counts them as read.
    pub(super) fn take(&self, bytes: &[u8]) -> usize {
        let mut boundary = self.boundary.get();
        let taken = boundary.advance(bytes);
        self.boundary.set(boundary);
        taken
    }

    /// Returns whether a response is being sent.
    pub(super) fn is_responding(&self) -> bool {
        self.unanswered.get() > 0 && self.is_responding.get()
    }

    /// Records whether bytes are buffered that may not be read yet.
    pub(super) fn set_buffered(&self, is_buffered: bool) {
        self.is_buffered.set(is_buffered);
    }

    /// Records that all taken responses were written.
    pub(super) fn record_flushed(&self) {
        if self.unanswered.get() == 0 && self.is_unflushed.replace(false) {
            self.wake_if_buffered();
        }
    }

    fn wake_if_buffered(&self) {
        if self.is_buffered.get() {
            self.task.wake();
        }
    }
}

/// Open connections of a worker. Clones share them.
#[derive(Clone, Default)]
pub struct OpenConnections(Rc<RefCell<HashMap<ClientAddress, Vec<Weak<Activity>>>>>);

impl OpenConnections {
    /// Adds a connection. It is removed when it ends.
    pub fn add(&self, client: ClientAddress, activity: &Rc<Activity>) {
        let mut open = self.0.borrow_mut();
        // Ended connections are removed here, so that `Drop` needs no access to the worker's map. A worker of such a listener has few.
        open.retain(|_, client_connections| {
            client_connections.retain(|activity| activity.strong_count() > 0);
            !client_connections.is_empty()
        });
        open.entry(client)
            .or_default()
            .push(Rc::downgrade(activity));
    }

    /// Closes a connection on which no request is being handled. Returns whether there is one.
    pub fn close_one(&self) -> bool {
        let open = self.0.borrow();
        // First within a client, then among clients: the client with the most connections loses its longest-idle one.
        let longest_waiting = |client_connections: &Vec<Weak<Activity>>| {
            let waiting = client_connections
                .iter()
                .filter_map(Weak::upgrade)
                .filter_map(|one| Some((one.waiting_since()?, one)));
            waiting
                .min_by_key(|(since, _)| *since)
                .map(|(_, activity)| (client_connections.len(), activity))
        };
        let found = open
            .values()
            .filter_map(longest_waiting)
            .max_by_key(|(connections, _)| *connections);
        found.inspect(|(_, activity)| activity.close()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    fn connections(max: usize) -> Arc<Connections> {
        let refused = IntCounterVec::new(Opts::new("refused", "refused"), &["limit"]).unwrap();
        Connections::new(
            max,
            TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]),
            refused,
        )
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_closed_connection_makes_room_for_another() {
        let connections = connections(2);
        let first = connections.admit(address("127.0.0.1")).unwrap();
        let _second = connections.admit(address("203.0.113.1")).unwrap();
        assert_eq!(
            connections.admit(address("203.0.113.2")).unwrap_err(),
            ConnectionLimit::Total
        );
        drop(first);
        connections.admit(address("203.0.113.2")).unwrap();
        assert_eq!(connections.refused.with_label_values(&["total"]).get(), 1);
    }

    #[test]
    fn a_client_has_1024_connections_and_others_have_theirs() {
        let connections = connections(100_000);
        let open = |text: &str| connections.admit(address(text));
        let mut held: Vec<_> = (0..1_024)
            .map(|host| open(&format!("2001:db8::{host:x}")).unwrap())
            .collect();
        assert_eq!(open("2001:db8::ffff").unwrap_err(), ConnectionLimit::Client);
        let _other = open("2001:db8:0:1::1").unwrap();
        held.pop();
        let _again = open("2001:db8::ffff").unwrap();
        drop(held);
        let open = connections.open.lock();
        assert_eq!((open.total, open.by_client.total()), (2, 2));
    }

    #[test]
    fn this_machine_and_trusted_proxies_have_only_the_total_limit() {
        let connections = connections(10_000);
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3"] {
            let held: Vec<_> = (0..1_100)
                .map(|_| connections.admit(address(peer)).unwrap())
                .collect();
            assert_eq!(held.len(), 1_100);
        }
        assert_eq!(connections.open.lock().total, 0);
    }
}
