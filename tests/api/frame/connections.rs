//! Connections: their maximum number, and how long a client may keep the server waiting.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use conclave::config::Config;
use rustix::net::{AddressFamily, SocketType, bind, connect as connect_socket, socket};
use serde_json::json;

use crate::support::{TestApp, WAIT_LIMIT, Watcher, eventually};
use crate::tools::{answered, parsed};

/// Client timeout in these tests.
const TIMEOUT: Duration = Duration::from_secs(1);

/// More than the server reads after a refusal plus the buffers of both sockets.
const MOST_UNREAD: usize = 64 * 1024 * 1024;

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn impatient(config: &mut Config) {
    config.http.request_timeout = TIMEOUT;
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// Opens a connection and sends bytes. The server may already have closed it.
fn send(address: &str, bytes: &str) -> TcpStream {
    let mut stream = connect(address);
    let _ = stream.write_all(bytes.as_bytes());
    stream
}

/// Reads until the server closes the connection.
#[track_caller]
fn rest(mut stream: TcpStream) -> String {
    let started = Instant::now();
    let mut bytes = Vec::new();
    // A connection may also be reset.
    let _ = stream.read_to_end(&mut bytes);
    assert!(started.elapsed() < WAIT_LIMIT, "the connection stays open");
    String::from_utf8(bytes).unwrap()
}

/// Sends a request and reads the response's head.
fn kept_alive(address: &str) -> TcpStream {
    let mut stream = send(address, HEALTH);
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    stream
}

/// Returns a request head with `header`, and the first part of its body.
fn unfinished(app: &TestApp, path: &str, header: &str) -> String {
    let begun = if header.starts_with("Transfer") {
        "5\r\n{"
    } else {
        "{"
    };
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         {header}\r\n\r\n{begun}",
        app.key
    )
}

#[test]
fn a_body_that_does_not_arrive_in_time_is_408_and_its_connection_is_closed() {
    let app = TestApp::start_with(impatient);
    app.room("standup");
    for header in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        for (address, path) in [(&app.api, "/v1/rooms"), (&app.admin, "/sandbox/join")] {
            let answer = answered(|| rest(send(address, &unfinished(&app, path, header))));
            parsed(&answer).expect_error(408, "request_timeout", None);
        }
    }
    assert_eq!(
        app.get("/v1/rooms").send().expect(200)["rooms"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_body_that_nobody_reads_does_not_keep_its_connection_open() {
    let app = TestApp::start_with(impatient);
    for header in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let request = unfinished(&app, "/v1/rooms", header).replace(&app.key, "nobody");
        let answer = answered(|| rest(send(&app.api, &request)));
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
}

#[test]
fn a_connection_is_closed_when_the_head_of_its_next_request_does_not_arrive() {
    let app = TestApp::start_with(impatient);
    for address in [&app.api, &app.admin] {
        for begun in ["GET /hea", "GET /healthz HTTP/1.1\r\nHost: h\r\nX-Slow: "] {
            rest(send(address, begun));
            let mut stream = kept_alive(address);
            stream.write_all(begun.as_bytes()).unwrap();
            rest(stream);
        }
    }
}

#[test]
fn an_idle_connection_is_kept_for_longer_than_a_slow_one_and_then_closed() {
    let app = TestApp::start_with(|config| {
        impatient(config);
        config.http.keep_alive = 3 * TIMEOUT;
    });
    for address in [&app.api, &app.admin] {
        let started = Instant::now();
        rest(kept_alive(address));
        assert!(
            started.elapsed() > 2 * TIMEOUT,
            "closed after {:?}",
            started.elapsed()
        );
    }
}

/// Proves S-8.
#[test]
fn a_client_that_does_not_read_its_responses_loses_its_connection() {
    let app = TestApp::start_with(|config| {
        impatient(config);
        config.http.max_connections = 1;
    });
    // More than the sockets' buffers.
    let stalled = send(
        &app.api,
        &"GET /openapi.json HTTP/1.1\r\nHost: h\r\n\r\n".repeat(100),
    );
    eventually(|| {
        app.get("/healthz")
            .try_send()
            .is_some_and(|answer| answer.status == 200)
    });
    drop(stalled);
}

#[test]
fn a_client_that_waits_for_the_server_keeps_its_connection() {
    let app = TestApp::start_with(impatient);
    app.room("before");
    let watcher = Watcher::open(&app.admin, "");
    let lock = app.records().lock();
    let started = Instant::now();
    let refused = app.post("/v1/rooms").json(json!({"name": "a"})).send();
    assert!(
        started.elapsed() > TIMEOUT + TIMEOUT / 2,
        "the database is locked for longer than clients may wait"
    );
    refused.expect_error(503, "database_unavailable", None);
    drop(lock);
    // A silent event stream stays open.
    app.delete("/v1/rooms/before").send().expect_empty(204);
    assert_eq!(watcher.next().event, "room.finished");
}

/// Proves S-8.
#[test]
fn connections_beyond_the_maximum_are_closed_and_counted() {
    let app = TestApp::start_with(|config| {
        config.http.max_connections = 3;
        config.http.workers = 2;
    });
    let mut open: Vec<_> = (0..3).map(|_| kept_alive(&app.api)).collect();
    assert_eq!(rest(send(&app.api, HEALTH)), "");
    // The admin listener has its own connection limit.
    let metrics = app.admin("GET", "/metrics").send().text();
    assert!(
        metrics.contains("conclave_http_connections_refused_total{limit=\"total\"} 1\n"),
        "{metrics}"
    );
    open.pop();
    eventually(|| {
        app.get("/healthz")
            .try_send()
            .is_some_and(|answer| answer.status == 200)
    });
}

/// Sends part of a body repeatedly until the server closes the connection.
#[track_caller]
pub fn assert_is_not_read_for_ever(mut stream: &TcpStream, part: &[u8]) {
    stream.set_write_timeout(Some(WAIT_LIMIT)).unwrap();
    let mut sent = 0;
    while stream.write_all(part).is_ok() {
        sent += part.len();
        assert!(sent < MOST_UNREAD, "the server reads on");
    }
}

/// Proves S-15.
#[test]
fn a_client_that_sends_on_after_its_refusal_is_closed() {
    let app = TestApp::start();
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x1_0000], b"\r\n"].concat();
    for (header, part) in [
        ("Transfer-Encoding: chunked", chunk.as_slice()),
        ("Content-Length: 1000000000000", &chunk),
    ] {
        let head = format!(
            "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer nobody\r\n{header}\r\n\r\n"
        );
        let mut stream = send(&app.api, &head);
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 401");
        assert_is_not_read_for_ever(&stream, part);
    }
}

#[test]
fn a_body_of_some_size_that_is_refused_unread_leaves_its_connection_to_the_next_request() {
    let app = TestApp::start();
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x1_0000], b"\r\n"].concat();
    let mut stream = connect(&app.api);
    // Each body is read and dropped separately.
    for _ in 0..4 {
        let head = "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&chunk.repeat(32)).unwrap();
        stream.write_all(b"0\r\n\r\n").unwrap();
    }
    stream
        .write_all(
            HEALTH
                .replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    let answers = rest(stream);
    assert_eq!(
        (
            answers.matches("HTTP/1.1 401").count(),
            answers.matches("HTTP/1.1 200").count()
        ),
        (4, 1),
        "{answers}"
    );
}

/// Connects from another address on this machine and sends a request.
fn kept_alive_from(source: &str, address: &str) -> TcpStream {
    let socket: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
    connect_socket(
        &socket,
        &address
            .trim_start_matches("http://")
            .parse::<SocketAddr>()
            .unwrap(),
    )
    .unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    assert_is_answered(&mut stream);
    stream
}

#[track_caller]
fn assert_is_answered(stream: &mut TcpStream) {
    stream.write_all(HEALTH.as_bytes()).unwrap();
    let mut answer = [0; 4_096];
    let read = stream.read(&mut answer).unwrap();
    assert!(
        answer[..read].starts_with(b"HTTP/1.1 200 OK"),
        "{}",
        String::from_utf8_lossy(&answer[..read])
    );
}

/// Proves S-13.
#[test]
fn connections_that_wait_give_way_to_new_ones_on_the_admin_listener() {
    let app = TestApp::start();
    let watcher = Watcher::open(&app.admin, "");
    let mut others: Vec<_> = (0..5)
        .map(|_| kept_alive_from("127.0.0.2", &app.admin))
        .collect();
    let unread_body = "POST /sandbox/join HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                       Content-Length: 100\r\n\r\n{";
    // Each kind up to the connection limit.
    for begun in ["", "GET /hea", unread_body, HEALTH] {
        let held: Vec<_> = (0..1_024).map(|_| send(&app.admin, begun)).collect();
        for path in ["/healthz", "/readyz", "/debug/actors"] {
            app.admin("GET", path).send().expect(200);
        }
        drop(held);
    }
    others.iter_mut().for_each(assert_is_answered);
    app.room("standup");
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(watcher.next().event, "room.finished");
}

/// A response of several writes would otherwise wait for the client's delayed acknowledgement after each one (Nagle's algorithm): 40 ms,
/// on a loopback connection such as a reverse proxy's for every response of more than 32 KiB.
#[test]
fn a_long_response_does_not_wait_for_acknowledgements() {
    let app = TestApp::start();
    for number in 0..50 {
        app.post("/v1/rooms")
            .json(json!({"name": format!("room-{number}"), "metadata": "x".repeat(500)}))
            .send()
            .expect(201);
    }
    let list = format!(
        "GET /v1/rooms?limit=100 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        app.key
    );
    let mut stream = connect(&app.api);
    let times: Vec<_> = (0..80)
        .map(|_| {
            let started = Instant::now();
            stream.write_all(list.as_bytes()).unwrap();
            // Two writes; the second one is shorter than a segment.
            assert!((33..60).contains(&(read_response(&mut stream) / 1024)));
            started.elapsed()
        })
        .collect();
    // A client acknowledges its first packets at once. Afterwards each response would wait, so that the fastest quarter shows it, however
    // busy the machine is.
    let mut later = times[40..].to_vec();
    later.sort_unstable();
    assert!(later[10] < Duration::from_millis(35), "{later:?}");
}

/// Reads a whole response, and returns the length of its body.
fn read_response(stream: &mut TcpStream) -> usize {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = parsed(&String::from_utf8(head).unwrap());
    let length = head.headers["content-length"].parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    length
}
