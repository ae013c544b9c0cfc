//! A standby's proxy to the active node. Most of these tests simulate the nodes, so that they control when each connection breaks;
//! `servers` has two real servers on a PostgreSQL database.

mod fixed;
mod forged;
mod holds;
mod repeats;
mod servers;
mod smuggling;
mod streams;
mod websockets;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer};
use conclave::cluster::node::ActiveNodes;
use conclave::cluster::{ClusterMetrics, Proxy, ProxyOptions};
use conclave::http::frame::limits::FixedLimits;
use conclave::http::listener::client_address::TrustedProxies;
use conclave::http::listener::trace::trace;
use conclave_db::lease::ActiveServer;
use conclave_model::{Clock, Timestamp};
use prometheus::Registry;
use test_http_server::{Request as Received, Response as Answer};

use crate::support::{NEVER, Request, Response, WAIT_LIMIT, eventually};

/// An address that is no trusted proxy.
const CLIENT: &str = "127.0.0.9";

/// A standby without a lease: the test sets the active node.
pub struct Standby {
    pub address: SocketAddr,
    nodes: Arc<ActiveNodes>,
    registry: Registry,
    server: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Standby {
    /// Starts a standby that buffers requests for as long as a test takes.
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub fn start_with(change: impl FnOnce(&mut ProxyOptions)) -> Self {
        let (nodes, registry) = (ActiveNodes::new(), Registry::new());
        let trusted = TrustedProxies(vec!["127.0.0.1/32".parse().unwrap()]);
        let mut options = ProxyOptions {
            nodes: Arc::clone(&nodes),
            proxies: trusted.clone(),
            max_requests: 100,
            max_buffer_time: NEVER,
            keep_alive: NEVER,
            fixed: Arc::new(FixedLimits::new(
                &Clock::manual(Timestamp::from_millis(0)),
                trusted.clone(),
            )),
            metrics: ClusterMetrics::new(&registry).unwrap(),
        };
        change(&mut options);
        let proxy = Proxy::new(options);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, started) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async {
                let app = move || {
                    let proxy = Arc::clone(&proxy);
                    App::new()
                        .wrap(from_fn(trace))
                        .configure(move |config| proxy.configure(config))
                };
                let server = HttpServer::new(app)
                    .workers(1)
                    .disable_signals()
                    .listen(listener)
                    .unwrap()
                    .run();
                sender.send(server.handle()).unwrap();
                server.await.unwrap();
            });
        });
        let server = started.recv_timeout(WAIT_LIMIT).unwrap();
        Self {
            address,
            nodes,
            registry,
            server,
            thread: Some(thread),
        }
    }

    /// Makes the node at this address active from now on.
    pub fn active(&self, epoch: i64, address: SocketAddr) {
        let url = format!("http://{address}");
        self.nodes.record_server(Some(&ActiveServer {
            epoch,
            url,
            is_this: false,
        }));
    }

    /// Makes the database unreachable for this standby.
    pub fn cut_off(&self) {
        self.nodes.record_cut_off(true);
    }

    pub fn none_active(&self) {
        self.nodes.record_server(None);
    }

    pub fn request(&self, method: &str, path: &str) -> Request {
        Request::new(method, format!("http://{}{path}", self.address))
    }

    /// Sends a request from another thread.
    pub fn send(&self, request: Request) -> Sent {
        let (sender, answer) = mpsc::channel();
        std::thread::spawn(move || sender.send(request.send()));
        Sent(answer)
    }

    /// Waits until this many requests are buffered.
    #[track_caller]
    pub fn until_held(&self, count: i64) {
        eventually(|| self.metric("conclave_cluster_requests_held", "") == count);
    }

    /// Returns the number of requests with this result.
    pub fn count(&self, result: &str) -> i64 {
        self.metric("conclave_cluster_requests_total", result)
    }

    #[allow(clippy::cast_possible_truncation, reason = "a small count")]
    fn metric(&self, name: &str, result: &str) -> i64 {
        let families = self.registry.gather();
        let metrics = families
            .iter()
            .filter(|family| family.name() == name)
            .flat_map(prometheus::proto::MetricFamily::get_metric);
        let of_result = metrics.filter(|metric| {
            metric
                .get_label()
                .iter()
                .all(|label| label.value() == result)
        });
        of_result
            .map(|metric| {
                (metric.get_counter().get_value() + metric.get_gauge().get_value()) as i64
            })
            .sum()
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        // Not gracefully: the standby may buffer requests for ever.
        drop(self.server.stop(false));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A request that waits for its response.
pub struct Sent(Receiver<Response>);

impl Sent {
    #[track_caller]
    pub fn answer(self) -> Response {
        self.0.recv_timeout(WAIT_LIMIT).expect("an answer")
    }
}

/// A simulated node's reaction to a request.
pub enum Reply {
    Answer(Answer),
    /// Sends these bytes and closes the connection.
    Raw(Vec<u8>),
    /// Closes the connection without a response.
    Break,
    /// Responds when the test sends the response.
    When(Receiver<Answer>),
}

/// A simulated node and the requests that it received.
pub struct Node {
    pub address: SocketAddr,
    pub received: Receiver<Received>,
}

impl Node {
    pub fn start(reply: impl Fn(&Received) -> Reply + Clone + Send + 'static) -> Self {
        let (sender, received) = mpsc::channel();
        let address = test_http_server::serve(move |request, mut stream: TcpStream| {
            let reply = reply(&request);
            let _ = sender.send(request);
            // The standby may have timed out.
            match reply {
                Reply::Answer(answer) => drop(answer.send(&mut stream)),
                Reply::Raw(bytes) => drop(stream.write_all(&bytes)),
                Reply::Break => {}
                Reply::When(told) => drop(told.recv().map(|answer| answer.send(&mut stream))),
            }
        });
        Self { address, received }
    }

    /// Starts a node that answers each request with this body.
    pub fn answering(body: &'static str) -> Self {
        Self::start(move |_| Reply::Answer(Answer::new(200).body(body)))
    }

    /// Starts a node that answers one request, with the response that the test sends.
    pub fn waiting() -> (Self, mpsc::Sender<Answer>) {
        let (tell, told) = mpsc::channel();
        let told = Arc::new(parking_lot::Mutex::new(Some(told)));
        let node = Self::start(move |_| told.lock().take().map_or(Reply::Break, Reply::When));
        (node, tell)
    }

    #[track_caller]
    pub fn next(&self) -> Received {
        self.received.recv_timeout(WAIT_LIMIT).expect("a request")
    }

    /// Returns the number of received requests that the test has not yet taken.
    pub fn unseen(&self) -> usize {
        self.received.try_iter().count()
    }
}

/// Returns an address without a listener.
pub fn closed_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// Connects from an address that is no trusted proxy.
pub fn connect_as_client(address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::new(CLIENT.parse().unwrap(), 0)).unwrap();
    connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// Sends bytes from an address that is no trusted proxy, and returns the bytes received until the connection closes.
#[track_caller]
pub fn exchange_raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect_as_client(address);
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // The connection may also be reset.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Long enough for an unexpected event to show.
pub const MOMENT: Duration = Duration::from_millis(200);
