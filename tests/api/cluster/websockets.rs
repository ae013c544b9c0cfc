//! WebSockets: bytes are forwarded in both directions until one side closes or another node becomes active.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::{Node, Standby, connect_as_client};
use crate::support::WAIT_LIMIT;

const OPEN: &[u8] =
    b"GET /rtc/v1?access_token=t HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const OPENED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nfirst";

/// A node whose connection the test uses directly.
struct Talking(TcpListener);

impl Talking {
    fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Accepts a connection and reads a request's head.
    fn accept(&self) -> (TcpStream, String) {
        let (mut stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        let head = read_head(&mut stream);
        (stream, head)
    }
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[track_caller]
fn expect(stream: &mut TcpStream, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&read),
        String::from_utf8_lossy(bytes)
    );
}

/// Opens a WebSocket through a standby. Returns the client's side and the node's side.
fn opened(standby: &Standby, node: &Talking) -> (TcpStream, TcpStream) {
    standby.active(1, node.address());
    let mut client = connect_as_client(standby.address);
    client.write_all(OPEN).unwrap();
    let (mut at_node, head) = node.accept();
    for header in [
        "connection: upgrade\r\n",
        "upgrade: websocket\r\n",
        "sec-websocket-version: 13\r\n",
    ] {
        assert!(head.contains(header), "{head}");
    }
    assert!(
        head.starts_with("GET /rtc/v1?access_token=t HTTP/1.1\r\n")
            && !head.contains("content-length"),
        "{head}"
    );
    at_node.write_all(OPENED).unwrap();
    let head = read_head(&mut client).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    for header in [
        "connection: upgrade\r\n",
        "upgrade: websocket\r\n",
        "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=",
    ] {
        assert!(head.contains(header), "{head}");
    }
    assert!(
        !head.contains("transfer-encoding") && !head.contains("content-length"),
        "{head}"
    );
    expect(&mut client, b"first");
    (client, at_node)
}

#[test]
fn bytes_pass_in_both_directions() {
    let (standby, node) = (Standby::start(), Talking::start());
    let (mut client, mut at_node) = opened(&standby, &node);
    for _ in 0..3 {
        client.write_all(b"\x82\x03abc").unwrap();
        expect(&mut at_node, b"\x82\x03abc");
        at_node.write_all(b"\x82\x03def").unwrap();
        expect(&mut client, b"\x82\x03def");
    }
    let large = vec![7; 3_000_000];
    let sent = large.clone();
    let mut sending = at_node.try_clone().unwrap();
    let writer = std::thread::spawn(move || sending.write_all(&sent).unwrap());
    expect(&mut client, &large);
    writer.join().unwrap();
}

#[test]
fn the_last_bytes_of_a_client_that_ends_its_websocket_arrive() {
    let (standby, node) = (Standby::start(), Talking::start());
    let (mut client, mut at_node) = opened(&standby, &node);
    client.write_all(b"leave").unwrap();
    drop(client);
    let mut rest = Vec::new();
    at_node.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"leave");
}

#[test]
fn the_last_bytes_of_a_node_that_ends_a_websocket_arrive() {
    let (standby, node) = (Standby::start(), Talking::start());
    let (mut client, mut at_node) = opened(&standby, &node);
    at_node.write_all(b"bye").unwrap();
    drop(at_node);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"bye");
}

#[test]
fn a_websocket_to_a_node_that_is_not_active_any_more_is_closed() {
    let (standby, node) = (Standby::start(), Talking::start());
    let (mut client, _stopped) = opened(&standby, &node);
    standby.active(2, Node::answering("next").address);
    assert_eq!(client.read(&mut [0; 16]).unwrap_or(0), 0);
}

#[test]
fn a_refusal_reaches_the_client() {
    let (standby, node) = (Standby::start(), Talking::start());
    standby.active(1, node.address());
    let mut client = connect_as_client(standby.address);
    client.write_all(OPEN).unwrap();
    let (mut at_node, _) = node.accept();
    at_node
        .write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nnone")
        .unwrap();
    assert!(read_head(&mut client).starts_with("HTTP/1.1 401 "));
    expect(&mut client, b"none");
}

#[test]
fn a_websocket_that_a_node_drops_before_it_is_open_is_opened_at_the_next() {
    let (standby, node, next) = (Standby::start(), Talking::start(), Talking::start());
    standby.active(1, node.address());
    let mut client = connect_as_client(standby.address);
    client.write_all(OPEN).unwrap();
    drop(node.accept());
    drop(node);
    standby.until_held(1);
    standby.active(2, next.address());
    let (mut at_next, _) = next.accept();
    at_next.write_all(OPENED).unwrap();
    assert!(read_head(&mut client).starts_with("HTTP/1.1 101 "));
    expect(&mut client, b"first");
}
