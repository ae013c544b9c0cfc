//! Bodies and responses: which are buffered, which are streamed, and how connections are reused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use test_http_server::Response as Answer;

use super::{Node, Reply, Standby, connect_as_client, exchange_raw};
use crate::support::{WAIT_LIMIT, eventually};

/// A node that keeps connections open and answers each request head with the same bytes.
pub struct RawNode {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<u8>>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl RawNode {
    pub fn start(answer: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            received: Arc::default(),
            open: Arc::default(),
        };
        let (connections, received, open) = (
            node.connections.clone(),
            node.received.clone(),
            node.open.clone(),
        );
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::Relaxed);
                open.lock().push(stream.try_clone().unwrap());
                let (received, answer) = (Arc::clone(&received), answer.clone());
                std::thread::spawn(move || {
                    let (mut buffer, mut request) = ([0; 4096], Vec::new());
                    while let Ok(length @ 1..) = stream.read(&mut buffer) {
                        received.lock().extend(&buffer[..length]);
                        request.extend(&buffer[..length]);
                        if is_whole(&request) {
                            request.clear();
                            stream.write_all(&answer).unwrap();
                        }
                    }
                });
            }
        });
        node
    }

    pub fn received_text(&self) -> String {
        String::from_utf8_lossy(&self.received.lock()).into_owned()
    }

    /// Closes all connections.
    fn close(&self) {
        for stream in self.open.lock().drain(..) {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with("0\r\n\r\n");
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Request-Id: of-the-node\r\n\r\nok";

#[test]
fn a_request_and_its_response_pass_as_they_are() {
    let answer = Answer::new(201)
        .header("Location", "/whip/session/a")
        .header("X-Request-Id", "of-the-node");
    let answer = answer
        .header("Set-Cookie", "a")
        .header("Keep-Alive", "timeout=5")
        .body("created");
    let (standby, node) = (
        Standby::start(),
        Node::start(move |_| Reply::Answer(answer.clone())),
    );
    standby.active(1, node.address);
    let path = "/v1/rooms/a%2Fb//..;x?b=%20&a=1&a=2";
    let request = standby
        .request("PATCH", path)
        .header("if-match", "\"1\"")
        .bearer("k")
        .raw("{\"a\": 1}");
    let response = request.send();
    assert_eq!(
        (response.status, response.text().as_str()),
        (201, "created")
    );
    let seen = ["location", "x-request-id", "set-cookie", "content-length"]
        .map(|name| response.headers[name].as_str());
    assert_eq!(seen, ["/whip/session/a", "of-the-node", "a", "7"]);
    assert!(!response.headers.contains_key("keep-alive"));
    let received = node.next();
    assert_eq!(
        (received.method.as_str(), received.target.as_str()),
        ("PATCH", path)
    );
    let sent = [
        "if-match",
        "authorization",
        "content-type",
        "content-length",
    ]
    .map(|name| received.header(name));
    assert_eq!(sent, ["\"1\"", "Bearer k", "application/json", "8"]);
    assert_eq!(received.body, b"{\"a\": 1}");
}

#[test]
fn a_response_without_a_body_stays_one() {
    let standby = Standby::start();
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"
        .as_bytes()
        .to_vec();
    let node = Node::start(move |_| Reply::Raw(head.clone()));
    standby.active(1, node.address);
    let answer = exchange_raw(
        standby.address,
        b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert!(
        answer.contains("\r\ncontent-length: 1234\r\n") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
    for status in ["204 No Content", "304 Not Modified"] {
        let head = format!("HTTP/1.1 {status}\r\n\r\n").into_bytes();
        let node = Node::start(move |_| Reply::Raw(head.clone()));
        standby.active(if status.starts_with('2') { 2 } else { 3 }, node.address);
        let answer = exchange_raw(
            standby.address,
            b"GET /v1/rooms HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        );
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")) && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
        assert!(!answer.contains("content-length: 0"), "{answer}");
    }
}

#[test]
fn connections_to_the_node_are_used_again_and_those_that_it_has_closed_are_not() {
    let (standby, node) = (Standby::start(), RawNode::start(OK.to_vec()));
    standby.active(1, node.address);
    for _ in 0..5 {
        assert_eq!(
            standby.request("POST", "/v1/rooms").raw("{}").send().text(),
            "ok"
        );
    }
    assert_eq!(node.connections.load(Ordering::Relaxed), 1);
    node.close();
    // A request may be lost if the standby reuses the closed connection before it notices the close.
    eventually(|| standby.request("POST", "/v1/rooms").raw("{}").send().status == 200);
    assert_eq!(node.connections.load(Ordering::Relaxed), 2);
}

#[test]
fn a_connection_to_a_node_is_not_used_for_the_next_one() {
    let (standby, node) = (Standby::start(), RawNode::start(OK.to_vec()));
    for epoch in 1..=3 {
        standby.active(epoch, node.address);
        assert_eq!(standby.request("GET", "/v1/rooms").send().text(), "ok");
    }
    assert_eq!(node.connections.load(Ordering::Relaxed), 3);
}

#[test]
fn a_long_response_is_streamed_and_is_seen_to_break_off() {
    let body = "x".repeat(2_000_000);
    let (standby, sent) = (Standby::start(), body.clone());
    let node = Node::start(move |_| Reply::Answer(Answer::new(200).body(sent.clone())));
    standby.active(1, node.address);
    assert_eq!(standby.request("GET", "/call").send().text(), body);
    let cut = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n",
        "x".repeat(1_000_000).as_bytes(),
    ]
    .concat();
    let node = Node::start(move |_| Reply::Raw(cut.clone()));
    standby.active(2, node.address);
    let answer = exchange_raw(
        standby.address,
        b"GET /call HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert!(
        answer.contains("content-length: 2000000\r\n") && answer.len() < 1_100_000,
        "{}",
        answer.len()
    );
}

#[test]
fn a_body_that_is_too_long_to_be_kept_passes_once() {
    let (standby, body) = (Standby::start(), "x".repeat(200_000));
    let node = Node::start(|_| Reply::Answer(Answer::new(413).body("too large")));
    standby.active(1, node.address);
    let large = || {
        standby
            .request("POST", "/v1/rooms")
            .idempotency_key("k")
            .raw(body.clone())
    };
    assert_eq!(large().send().text(), "too large");
    assert_eq!(node.next().body.len(), 200_000);
    let broken = Node::start(|_| Reply::Break);
    standby.active(2, broken.address);
    large()
        .send()
        .expect_error(503, "database_unavailable", None);
    assert_eq!(broken.unseen(), 1);
}

#[test]
fn a_client_that_breaks_off_within_its_body_makes_no_whole_request() {
    let (standby, node) = (Standby::start(), RawNode::start(OK.to_vec()));
    standby.active(1, node.address);
    let mut client = connect_as_client(standby.address);
    client
        .write_all(b"POST /v1/rooms HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{\"name\"")
        .unwrap();
    eventually(|| node.received_text().ends_with("{\"name\""));
    drop(client);
    // The connection to the node is closed, so that the node notices the missing rest.
    let mut open = node.open.lock().pop().unwrap();
    open.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    eventually(|| matches!(open.read(&mut [0; 16]), Ok(0) | Err(_)));
    assert_eq!(standby.count("answered"), 0);
}

#[test]
fn a_slow_node_is_waited_for_longer_than_a_request_is_held() {
    let standby = Standby::start_with(|options| options.max_buffer_time = Duration::from_millis(1));
    let (node, tell) = Node::waiting();
    standby.active(1, node.address);
    let slow = standby.send(standby.request("GET", "/v1/rooms"));
    node.next();
    tell.send(Answer::new(200).body("at last")).unwrap();
    assert_eq!(slow.answer().text(), "at last");
}
