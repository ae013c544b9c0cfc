//! A small HTTP/1.1 server for tests: one thread per connection, one request on each. The handler writes to the connection itself, so it
//! can also respond slowly, with broken bytes, or not at all.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod object_storage;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

pub use object_storage::{Fault, ObjectStorage};

/// Time limit for a client's request.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The method, such as `POST`.
    pub method: String,
    /// The path with the query.
    pub target: String,
    /// Headers in their order.
    pub headers: Vec<(String, String)>,
    /// Body with the length in `Content-Length`; empty without that header.
    pub body: Vec<u8>,
}

/// A response, after which the connection is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

/// Listens on a free port at 127.0.0.1.
///
/// # Panics
/// No port is free.
#[must_use]
pub fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    (listener, address)
}

/// Starts a server on a free port at 127.0.0.1 and returns its address. The server runs until the process ends.
///
/// # Panics
/// No port is free.
pub fn serve(handle: impl Fn(Request, TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let (listener, address) = bind();
    serve_on(listener, handle);
    address
}

/// Starts a server on a port that is bound already.
pub fn serve_on(
    listener: TcpListener,
    handle: impl Fn(Request, TcpStream) + Clone + Send + 'static,
) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            thread::spawn(move || {
                if let Some(request) = Request::read(&stream) {
                    handle(request, stream);
                }
            });
        }
    });
}

impl Request {
    /// Returns a header's value; empty when it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// Reads a request; `None` if the client sends none or disconnects.
    fn read(stream: &TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
        let request = Self::parse(&mut BufReader::new(stream))?;
        stream.set_read_timeout(None).ok()?;
        Some(request)
    }

    /// Reads a request from any connection; `None` if the client sends none or disconnects.
    pub fn parse(reader: &mut impl BufRead) -> Option<Self> {
        let line = read_line(reader)?;
        let mut words = line.strip_suffix(" HTTP/1.1")?.splitn(2, ' ');
        let mut request = Self {
            method: words.next()?.to_owned(),
            target: words.next()?.to_owned(),
            ..Self::default()
        };
        while let Some((name, value)) = read_line(reader)?.split_once(':') {
            request
                .headers
                .push((name.to_owned(), value.trim().to_owned()));
        }
        request
            .body
            .resize(request.header("content-length").parse().unwrap_or(0), 0);
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }
}

fn read_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    Some(line.trim_end().to_owned())
}

impl Response {
    /// Creates a response without a body.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self {
            status,
            headers: String::new(),
            body: Vec::new(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.extend([name, ": ", value, "\r\n"]);
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Returns the bytes to send.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        let Self {
            status,
            headers,
            mut body,
        } = self;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} Test\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        bytes.append(&mut body);
        bytes
    }

    /// Sends the response.
    ///
    /// # Errors
    /// The client has disconnected.
    pub fn send(self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.into_bytes())
    }
}
