//! Forged headers by which a client pretends to be another client or node.

use conclave::http::listener::forwarded::{FORWARDED_TO, NOT_ACTIVE};

use super::{CLIENT, Node, Standby, exchange_raw};

/// Sends a request from an address that is no trusted proxy.
fn forged(standby: &Standby, headers: &str) -> String {
    let request = format!(
        "GET /v1/rooms HTTP/1.1\r\nHost: api.example.org\r\n{headers}Connection: close\r\n\r\n"
    );
    exchange_raw(standby.address, request.as_bytes())
}

/// Proves S-2.
#[test]
fn a_client_is_known_by_its_address_and_not_by_what_it_says() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(7, node.address);
    let lies = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-For: 198.51.100.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=x\r\n\
                X-Real-IP: 198.51.100.1\r\nTE: trailers\r\nProxy-Authorization: x\r\nUpgrade: h2c\r\n";
    assert!(forged(&standby, lies).starts_with("HTTP/1.1 200 "));
    let received = node.next();
    let mut names: Vec<_> = received
        .headers
        .iter()
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect();
    names.sort();
    names.retain(|name| name != "date");
    assert_eq!(names, [FORWARDED_TO, "host", "x-forwarded-for"]);
    let values = ["host", "x-forwarded-for", FORWARDED_TO].map(|name| received.header(name));
    assert_eq!(values, ["api.example.org", CLIENT, "7"]);
}

#[test]
fn a_client_that_waits_for_100_gets_it_from_the_standby_once() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(1, node.address);
    let head = "POST /v1/rooms HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
    let answer = exchange_raw(standby.address, format!("{head}{{}}").as_bytes());
    let statuses: Vec<_> = answer
        .lines()
        .filter(|line| line.starts_with("HTTP/1.1 "))
        .collect();
    assert_eq!(statuses, ["HTTP/1.1 100 Continue", "HTTP/1.1 200 OK"]);
    let received = node.next();
    assert_eq!(
        (received.header("expect"), received.body.as_slice()),
        ("", &b"{}"[..])
    );
}

#[test]
fn a_client_that_names_its_credential_in_connection_keeps_it() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(1, node.address);
    forged(
        &standby,
        "Connection: authorization, host, x-forwarded-for\r\nAuthorization: Bearer k\r\n",
    );
    let received = node.next();
    assert_eq!(received.header("authorization"), "Bearer k");
    assert_eq!(
        (received.header("host"), received.header("x-forwarded-for")),
        ("api.example.org", CLIENT)
    );
}

#[test]
fn a_key_that_is_named_in_connection_permits_no_repeat() {
    let (standby, node) = (Standby::start(), Node::start(|_| super::Reply::Break));
    standby.active(1, node.address);
    let request = "POST /v1/rooms HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nConnection: idempotency-key, close\r\n\
                   Content-Length: 2\r\n\r\n{}";
    assert!(exchange_raw(standby.address, request.as_bytes()).contains("node_lost"));
    assert_eq!(node.unseen(), 1);
}

#[test]
fn a_trusted_proxy_is_believed_about_its_client() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(1, node.address);
    let proxied = standby
        .request("GET", "/v1/rooms")
        .header("x-forwarded-for", "198.51.100.1, 203.0.113.5, 127.0.0.1");
    proxied.send();
    assert_eq!(node.next().header("x-forwarded-for"), "203.0.113.5");
}

/// Proves S-2.
#[test]
fn a_request_goes_through_one_standby_only() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(1, node.address);
    let refused = standby
        .request("GET", "/v1/rooms")
        .header(FORWARDED_TO, "1")
        .send();
    assert_eq!(
        (refused.status, refused.headers[NOT_ACTIVE].as_str()),
        (503, "standby")
    );
    // Two standbys, each configured to take the other for the active node.
    let (one, other) = (Standby::start_with(brief), Standby::start_with(brief));
    one.active(1, other.address);
    other.active(1, one.address);
    one.request("GET", "/v1/rooms")
        .send()
        .expect_error(503, "database_unavailable", None);
    assert_eq!((node.unseen(), other.count("answered")), (0, 0));
}

fn brief(options: &mut conclave::cluster::ProxyOptions) {
    options.max_buffer_time = super::MOMENT;
}

#[test]
fn a_client_that_pretends_to_be_a_node_is_a_client() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    standby.active(3, node.address);
    assert!(forged(&standby, "Conclave-Passed-On: 9\r\n").ends_with("active"));
    assert_eq!(node.next().header(FORWARDED_TO), "3");
}
