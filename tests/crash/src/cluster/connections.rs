//! A standby's client connections: their maximum number, the cost of each, and the added latency.
//!
//! In the other scenarios, links lead through a proxy in this process. Here a standby connects to the active node directly, and its
//! WebSockets lead to a socket in this process, so that nothing else is measured.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::cost::memory;
use super::installation::{Installation, NODES};
use super::node::Node;
use super::round::median;
use super::{ClusterOptions, audit};

/// Required number per standby.
const GOAL: usize = 10_000;
/// Open files that a node reserves for other purposes. Each connection may take two: to the client, and to the active node.
const RESERVED: usize = 3_000;
/// Limit for the added median latency.
const MOST_ADDED: Duration = Duration::from_millis(1);
/// Maximum time until a node learns another address for the active node, plus some rest.
const REST: Duration = Duration::from_secs(3);
/// Response timeout.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Exchanges without a standby, and exchanges that warm up both ends before a measurement.
const COMPARED: usize = 2_000;

const OPEN: &str = "GET /rtc?access_token=none HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const OPENED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const MESSAGE: &[u8] = b"a message";

/// A standby's results with one kind of connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldConnections {
    /// The kind of connection.
    pub kind: &'static str,
    /// Connections open at once.
    pub held: usize,
    /// Required number, given the open file limit.
    pub least: usize,
    /// Number without a response once all were open.
    pub lost: usize,
    /// The standby's memory per connection, in bytes.
    pub memory: u64,
    /// Median latency through the standby.
    pub through: Duration,
    /// Median latency without the standby.
    pub direct: Duration,
}

impl HeldConnections {
    fn added(&self) -> Duration {
        self.through.saturating_sub(self.direct)
    }

    /// Returns violated limits.
    #[must_use]
    pub fn violations(&self, is_timed: bool) -> Vec<String> {
        let Self {
            kind,
            held,
            least,
            lost,
            ..
        } = *self;
        let mut violations = Vec::new();
        if held < least {
            violations.push(format!("a standby holds {held} {kind} instead of {least}"));
        }
        if lost > 0 {
            violations.push(format!(
                "{lost} of {held} {kind} do not answer through a standby"
            ));
        }
        if is_timed && self.added() >= MOST_ADDED {
            violations.push(format!("a standby adds {:?} to {kind}", self.added()));
        }
        violations
    }

    /// Returns the figures in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            kind,
            held,
            lost,
            memory,
            ..
        } = *self;
        let [through, direct] =
            [self.through, self.direct].map(|time| time.as_secs_f64() * 1_000.0);
        format!(
            "{kind}: {held} held, {lost} lost, {memory} bytes each; {through:.2} ms, without a standby {direct:.2} ms"
        )
    }

    /// Returns the figures as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "kind": self.kind,
            "held": self.held,
            "least": self.least,
            "lost": self.lost,
            "bytes_each": self.memory,
            "median_seconds": self.through.as_secs_f64(),
            "direct_median_seconds": self.direct.as_secs_f64(),
        })
    }
}

/// Opens as many connections to a standby as it allows, and then sends a message over each in sequence.
///
/// # Panics
/// A node does not run, or does not respond at all.
#[must_use]
pub fn hold_connections(options: &ClusterOptions) -> [HeldConnections; 2] {
    let least = least_connections();
    let installation = Installation::start(options, false, audit::begin);
    let (active, _) = installation.settle();
    let address = |node: usize| {
        installation.nodes[node]
            .addresses()
            .expect("a node that runs")
            .api
    };
    // The second one has forwarded nothing, so it has no connection to the active node yet.
    let [first, second] = [1, 2].map(|further| &installation.nodes[(active + further) % NODES]);
    let request = format!(
        "GET /v1/plan HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer {}\r\n\r\n",
        installation.key
    );
    let keep_alive = |address: SocketAddr| KeptAlive::open(address, &request);
    lead_to(&installation, address(active));
    let kept_alive = measure(
        "idle connections",
        least,
        first,
        address(active),
        keep_alive,
    );
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let opened_by_node = socket.local_addr().expect("a bound address");
    let accepted = accept_websockets(socket);
    lead_to(&installation, opened_by_node);
    let websocket = |address: SocketAddr| Websocket::open(address, &accepted);
    let websockets = measure("websockets", least, second, opened_by_node, websocket);
    [kept_alive, websockets]
}

/// Returns the required number of connections, given the open file limit, which this process raises as nodes do.
fn least_connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("a limit that a process may set");
    let files = limit.maximum.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    });
    GOAL.min(files.saturating_sub(RESERVED) / 2)
}

/// Makes standbys connect to an address instead of the active node's.
fn lead_to(installation: &Installation, address: SocketAddr) {
    installation
        .postgres
        .run(&format!("UPDATE leadership SET url = 'http://{address}'"));
    thread::sleep(REST);
}

fn measure<C: Exchange>(
    kind: &'static str,
    least: usize,
    standby: &Node,
    direct: SocketAddr,
    open: impl Fn(SocketAddr) -> io::Result<C>,
) -> HeldConnections {
    let address = standby.addresses().expect("a node that runs").api;
    let resident = || memory(standby.process_id().expect("a node that runs"));
    let exchanged = |address| {
        let mut connection = open(address).expect("a connection");
        let times = (0..COMPARED)
            .map(|_| connection.timed().expect("an answer"))
            .collect();
        middle(times)
    };
    exchanged(address);
    let direct = exchanged(direct);
    let before = resident();
    let mut connections: Vec<_> = (0..GOAL).map_while(|_| open(address).ok()).collect();
    let held = connections.len();
    thread::sleep(REST);
    let used = resident().saturating_sub(before) * 1_024;
    let times: Vec<_> = connections
        .iter_mut()
        .filter_map(|connection| connection.timed().ok())
        .collect();
    HeldConnections {
        kind,
        held,
        least,
        lost: held - times.len(),
        memory: used / held.max(1) as u64,
        through: middle(times),
        direct,
    }
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    median(&times)
}

/// A connection on which a message is answered.
trait Exchange {
    fn exchange(&mut self) -> io::Result<()>;

    fn timed(&mut self) -> io::Result<Duration> {
        let sent = Instant::now();
        self.exchange().map(|()| sent.elapsed())
    }
}

/// A connection that is idle between requests.
struct KeptAlive<'a> {
    stream: TcpStream,
    request: &'a str,
}

impl<'a> KeptAlive<'a> {
    fn open(address: SocketAddr, request: &'a str) -> io::Result<Self> {
        let mut opened = Self {
            stream: connect(address)?,
            request,
        };
        opened.exchange()?;
        Ok(opened)
    }
}

impl Exchange for KeptAlive<'_> {
    fn exchange(&mut self) -> io::Result<()> {
        self.stream.write_all(self.request.as_bytes())?;
        let mut answer = Vec::with_capacity(2_048);
        loop {
            let mut chunk = [0; 2_048];
            let length = self.stream.read(&mut chunk)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend(&chunk[..length]);
            match is_whole(&String::from_utf8_lossy(&answer)) {
                Some(true) => return Ok(()),
                Some(false) => {}
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

/// Returns whether a response is complete; `None` if its status is not 200.
fn is_whole(response: &str) -> Option<bool> {
    let Some((head, body)) = response.split_once("\r\n\r\n") else {
        return Some(false);
    };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    head.starts_with("HTTP/1.1 200 ")
        .then(|| body.len() >= length.unwrap_or(0))
}

/// A WebSocket, including the node's end.
struct Websocket {
    client: TcpStream,
    node: TcpStream,
}

impl Websocket {
    fn open(address: SocketAddr, accepted: &Receiver<TcpStream>) -> io::Result<Self> {
        let mut client = connect(address)?;
        client.write_all(OPEN.as_bytes())?;
        let head = read_head(&mut client)?;
        if !head.starts_with(b"HTTP/1.1 101 ") {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let node = accepted.recv_timeout(TIMEOUT).map_err(io::Error::other)?;
        Ok(Self { client, node })
    }
}

impl Exchange for Websocket {
    fn exchange(&mut self) -> io::Result<()> {
        let mut received = [0; MESSAGE.len()];
        self.client.write_all(MESSAGE)?;
        self.node.read_exact(&mut received)?;
        self.node.write_all(&received)?;
        self.client.read_exact(&mut received)?;
        if received == MESSAGE {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

/// Accepts each requested WebSocket, as the active node.
fn accept_websockets(socket: TcpListener) -> Receiver<TcpStream> {
    let (sender, accepted) = channel();
    let open = |mut stream: TcpStream| {
        prepare(&stream)?;
        read_head(&mut stream)?;
        stream.write_all(OPENED)?;
        Ok::<_, io::Error>(stream)
    };
    thread::spawn(move || {
        let opened = socket
            .incoming()
            .flatten()
            .filter_map(|stream| open(stream).ok());
        // The receiver is gone once no more WebSockets are needed.
        opened
            .map_while(|stream| sender.send(stream).ok())
            .for_each(drop);
    });
    accepted
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    prepare(&stream)?;
    Ok(stream)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HeldConnections, is_whole};

    #[test]
    fn a_standby_that_holds_too_few_loses_some_or_is_slow_is_found() {
        let millis = Duration::from_millis;
        let held = HeldConnections {
            kind: "websockets",
            held: 8_700,
            least: 8_500,
            lost: 0,
            memory: 9_000,
            through: millis(2),
            direct: millis(2),
        };
        assert!(held.violations(true).is_empty());
        for worse in [
            HeldConnections {
                held: 8_499,
                ..held
            },
            HeldConnections { lost: 1, ..held },
            HeldConnections {
                through: millis(3),
                ..held
            },
        ] {
            assert_eq!(worse.violations(true).len(), 1, "{worse:?}");
        }
        assert!(
            HeldConnections {
                through: millis(9),
                ..held
            }
            .violations(false)
            .is_empty()
        );
    }

    #[test]
    fn the_end_of_a_response_is_known_and_one_that_is_no_200_is_none() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(
            ["HTTP/1.1 200", head, &format!("{head}{{}}")].map(is_whole),
            [Some(false), Some(false), Some(true)]
        );
        assert_eq!(
            is_whole("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
            None
        );
    }
}
