//! Requests that arrive while no node is active.

use std::time::Duration;

use super::{Node, Standby, exchange_raw};

#[test]
fn a_request_is_held_until_a_node_is_active() {
    let (standby, node) = (Standby::start(), Node::answering("active"));
    let held = standby.send(standby.request("POST", "/v1/rooms").raw("{}"));
    standby.until_held(1);
    standby.request("GET", "/healthz").send().expect(200);
    standby.active(1, node.address);
    assert_eq!(held.answer().text(), "active");
    standby.until_held(0);
}

#[test]
fn a_request_that_no_node_takes_in_time_is_refused_and_may_be_repeated() {
    let standby =
        Standby::start_with(|options| options.max_buffer_time = Duration::from_millis(50));
    let refused = standby.request("POST", "/v1/rooms").raw("{}").send();
    assert_eq!(refused.headers["retry-after"], "1");
    refused.expect_error(503, "database_unavailable", None);
    assert_eq!(standby.count("not_taken"), 1);
}

/// Proves S-3.
#[test]
fn as_many_requests_are_held_as_may_be() {
    let (standby, node) = (
        Standby::start_with(|options| options.max_requests = 2),
        Node::answering("active"),
    );
    let held = [(); 2].map(|()| standby.send(standby.request("GET", "/v1/rooms")));
    standby.until_held(2);
    let refused = standby.request("GET", "/v1/rooms").send();
    assert_eq!(refused.headers["retry-after"], "1");
    refused.expect_error(503, "database_unavailable", None);
    assert_eq!(standby.count("not_held"), 1);
    standby.active(1, node.address);
    held.into_iter()
        .for_each(|held| assert_eq!(held.answer().text(), "active"));
}

/// Proves S-3.
#[test]
fn a_client_that_has_a_quarter_of_the_places_leaves_the_rest_to_others() {
    let (standby, node) = (
        Standby::start_with(|options| options.max_requests = 4),
        Node::answering("active"),
    );
    let read = "GET /v1/rooms HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let address = standby.address;
    let first = std::thread::spawn(move || exchange_raw(address, read.as_bytes()));
    standby.until_held(1);
    let refused = exchange_raw(address, read.as_bytes());
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("too many requests wait"),
        "{refused}"
    );
    let others = [(); 3].map(|()| standby.send(standby.request("GET", "/v1/rooms")));
    standby.until_held(4);
    standby.active(1, node.address);
    assert!(first.join().unwrap().ends_with("active"));
    others
        .into_iter()
        .for_each(|other| assert_eq!(other.answer().text(), "active"));
}
