//! Request smuggling: bytes where two servers might disagree on the end of a request. A node gets one request per response to the client.

use std::io::Write;

use super::{Node, Standby, exchange_raw};

/// Sends bytes that hide a second request, and returns the response. Fails if a node sees the hidden request.
#[track_caller]
fn attempt(bytes: &str) -> String {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(1, node.address);
    let answer = exchange_raw(standby.address, bytes.as_bytes());
    let received: Vec<_> = node.received.try_iter().collect();
    let hidden = received
        .iter()
        .find(|request| request.target.contains("hidden") && request.method == "DELETE");
    assert_eq!(hidden, None, "{answer}");
    for request in &received {
        let length: usize = request.header("content-length").parse().unwrap_or(0);
        assert_eq!(
            (length, request.header("transfer-encoding")),
            (request.body.len(), "")
        );
    }
    answer
}

const HIDDEN: &str = "DELETE /v1/rooms/hidden HTTP/1.1\r\nHost: a\r\n\r\n";

/// Proves S-2.
#[test]
fn a_body_with_two_lengths_never_leaves() {
    let length = HIDDEN.len();
    for (case, bytes) in [
        (
            "both",
            format!(
                "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}",
                length + 5
            ),
        ),
        (
            "both, the other way round",
            format!("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{HIDDEN}"),
        ),
        (
            "two lengths",
            format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{HIDDEN}"),
        ),
        (
            "a list of lengths",
            format!("Content-Length: 0, {length}\r\n\r\n{HIDDEN}"),
        ),
        (
            "a length with a sign",
            format!("Content-Length: +{length}\r\n\r\n{HIDDEN}"),
        ),
        (
            "an unknown encoding",
            format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        ),
        (
            "two encodings",
            format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n{HIDDEN}"),
        ),
        (
            "a space in the name",
            format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        ),
        (
            "a folded header",
            format!("X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n{HIDDEN}"),
        ),
    ] {
        let request = format!("POST /v1/rooms HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{bytes}");
        let answer = attempt(&request);
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{case}: {answer}");
    }
}

/// Proves S-2.
#[test]
fn what_follows_an_upgrade_that_is_none_never_leaves() {
    let length = HIDDEN.len();
    for (case, head) in [
        ("a read", "GET /v1/rooms HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n".to_owned()),
        ("no Connection", "GET /v1/rooms HTTP/1.1\r\nUpgrade: WebSocket\r\n".to_owned()),
        (
            "with a length",
            format!(
                "POST /v1/rooms HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: {length}\r\n"
            ),
        ),
        (
            "in chunks",
            "POST /v1/rooms HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\n"
                .to_owned(),
        ),
        (
            "several",
            "GET /v1/rooms HTTP/1.1\r\nUpgrade: h2c\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n".to_owned(),
        ),
    ] {
        let request = format!("{head}Host: a\r\n\r\n{HIDDEN}");
        let answer = attempt(&request);
        assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{case}: {answer}");
    }
}

#[test]
fn what_follows_a_body_is_a_request_of_its_own() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(1, node.address);
    let first = "POST /v1/rooms HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    let second = "GET /v1/rooms HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let answers = exchange_raw(standby.address, format!("{first}{second}").as_bytes());
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
    for (method, body) in [("POST", "{}"), ("GET", "")] {
        let received = node.next();
        assert_eq!(
            (received.method.as_str(), received.body.as_slice()),
            (method, body.as_bytes())
        );
        assert_eq!(received.header("x-forwarded-for"), super::CLIENT);
    }
}

#[test]
fn a_body_in_chunks_arrives_as_one_request() {
    let standby = Standby::start();
    let node =
        super::streams::RawNode::start(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    standby.active(1, node.address);
    let chunks = ["{\"name\":", "\"a\"}"]
        .map(|chunk| format!("{:x};ext=1\r\n{chunk}\r\n", chunk.len()))
        .concat();
    let head = "POST /v1/rooms HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = exchange_raw(
        standby.address,
        format!("{head}{chunks}0\r\n\r\n").as_bytes(),
    );
    assert!(answer.ends_with("ok"), "{answer}");
    let received = node.received_text();
    assert!(
        received.contains("\r\ntransfer-encoding: chunked\r\n") && !received.contains("ext=1"),
        "{received}"
    );
    assert_eq!(received.matches("HTTP/1.1").count(), 1, "{received}");
}

#[test]
fn a_header_does_not_become_two() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(1, node.address);
    let mut client = super::connect_as_client(standby.address);
    client
        .write_all(
            b"GET /v1/rooms HTTP/1.1\r\nHost: a\r\nX-A: b\rX-Forwarded-For: 127.0.0.1\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut answer = String::new();
    let _ = std::io::Read::read_to_string(&mut client, &mut answer);
    assert!(
        node.received
            .try_iter()
            .all(|request| request.header("x-forwarded-for") == super::CLIENT),
        "{answer}"
    );
}
