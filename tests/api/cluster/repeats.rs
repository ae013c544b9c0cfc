//! Which requests are sent again when the connection to the active node breaks.

use std::sync::Arc;

use conclave::http::listener::forwarded::{NOT_ACTIVE, UNCONFIRMED};
use serde_json::json;
use test_http_server::Response as Answer;

use super::{Node, Reply, Standby, closed_address};
use crate::support::Request;

/// Starts a node with scripted replies to its first requests; it answers the others.
fn node_that(first: impl Fn() -> Vec<Reply>) -> Node {
    let replies = Arc::new(parking_lot::Mutex::new(first()));
    Node::start(move |_| {
        let mut replies = replies.lock();
        if replies.is_empty() {
            Reply::Answer(Answer::new(200).body("later"))
        } else {
            replies.remove(0)
        }
    })
}

fn create(standby: &Standby) -> Request {
    standby
        .request("POST", "/v1/rooms")
        .json(json!({"name": "a"}))
}

#[test]
fn a_read_that_breaks_off_is_sent_again() {
    let (standby, node) = (
        Standby::start(),
        node_that(|| vec![Reply::Break, Reply::Break]),
    );
    standby.active(1, node.address);
    assert_eq!(standby.request("GET", "/v1/rooms").send().text(), "later");
    assert_eq!((node.unseen(), standby.count("repeated")), (3, 2));
}

#[test]
fn a_response_that_breaks_off_within_its_body_is_asked_for_again() {
    let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun".to_vec();
    let (standby, node) = (
        Standby::start(),
        node_that(|| vec![Reply::Raw(begun.clone())]),
    );
    standby.active(1, node.address);
    assert_eq!(standby.request("GET", "/v1/rooms").send().text(), "later");
}

#[test]
fn a_change_with_an_idempotency_key_is_sent_again_with_its_body() {
    let (standby, node) = (Standby::start(), node_that(|| vec![Reply::Break]));
    standby.active(1, node.address);
    assert_eq!(create(&standby).idempotency_key("k").send().text(), "later");
    for _ in 0..2 {
        let received = node.next();
        assert_eq!(
            (received.header("idempotency-key"), received.body.as_slice()),
            ("k", &br#"{"name":"a"}"#[..])
        );
    }
}

#[test]
fn a_change_without_one_is_not_and_its_client_learns_that_it_may_have_happened() {
    let (standby, node) = (Standby::start(), node_that(|| vec![Reply::Break]));
    standby.active(1, node.address);
    let lost = create(&standby).send();
    assert!(!lost.headers.contains_key("retry-after"), "{lost:?}");
    lost.expect_error(503, "node_lost", None);
    assert_eq!((node.unseen(), standby.count("node_lost")), (1, 1));
}

#[test]
fn a_key_that_the_path_does_not_take_permits_no_repeat() {
    let (standby, node) = (Standby::start(), node_that(|| vec![Reply::Break]));
    standby.active(1, node.address);
    standby
        .request("POST", "/whip/key")
        .idempotency_key("k")
        .send()
        .expect_error(503, "node_lost", None);
    assert_eq!(node.unseen(), 1);
}

#[test]
fn a_change_that_did_not_reach_the_node_goes_to_the_next_one() {
    let (standby, next) = (Standby::start(), Node::answering("next"));
    standby.active(1, closed_address());
    let sent = standby.send(create(&standby));
    standby.until_held(1);
    standby.active(2, next.address);
    assert_eq!(sent.answer().text(), "next");
    assert_eq!(next.next().body, br#"{"name":"a"}"#);
}

#[test]
fn a_change_that_a_node_refuses_since_it_is_not_active_is_sent_again() {
    let refusal = || Answer::new(503).header(NOT_ACTIVE, "standby");
    let (standby, node) = (
        Standby::start(),
        node_that(|| vec![Reply::Answer(refusal()), Reply::Answer(refusal())]),
    );
    standby.active(1, node.address);
    assert_eq!(create(&standby).send().text(), "later");
    assert_eq!(node.unseen(), 3);
}

#[test]
fn a_node_that_stops_gets_nothing_more_and_the_next_one_all_of_it() {
    let stopping = Node::start(|_| Reply::Answer(Answer::new(503).header(NOT_ACTIVE, "stopping")));
    let (standby, next) = (Standby::start(), Node::answering("next"));
    standby.active(1, stopping.address);
    let sent = standby.send(create(&standby));
    standby.until_held(1);
    standby.none_active();
    standby.active(2, next.address);
    assert_eq!(sent.answer().text(), "next");
    assert_eq!(stopping.unseen(), 1);
}

#[test]
fn the_answer_of_a_node_that_has_lost_its_epoch_does_not_count() {
    let (standby, next) = (Standby::start(), Node::answering("next"));
    let (stopped, wake) = Node::waiting();
    standby.active(1, stopped.address);
    let read = standby.send(standby.request("GET", "/v1/rooms"));
    stopped.next();
    standby.active(2, next.address);
    assert_eq!(read.answer().text(), "next");
    drop(wake.send(Answer::new(200).body("too late")));
    assert_eq!(next.unseen(), 1);
}

#[test]
fn a_change_that_is_with_a_node_that_has_lost_its_epoch_is_given_up() {
    let (standby, next) = (Standby::start(), Node::answering("next"));
    let (stopped, _wake) = Node::waiting();
    standby.active(1, stopped.address);
    let change = standby.send(create(&standby));
    stopped.next();
    standby.active(2, next.address);
    change.answer().expect_error(503, "node_lost", None);
    assert_eq!(next.unseen(), 0);
}

#[test]
fn a_request_that_makes_each_node_fail_does_not_go_through_all_of_them() {
    let standby = Standby::start();
    let poisoned = Node::start(|_| Reply::Break);
    let sent = standby.send(standby.request("GET", "/v1/rooms"));
    for epoch in 1..=3 {
        standby.active(epoch, poisoned.address);
        // The request may be sent to the same node several times while that node is active.
        while poisoned.next().header("conclave-passed-on") != epoch.to_string() {}
    }
    let given_up = sent.answer();
    assert_eq!(given_up.headers["retry-after"], "1");
    given_up.expect_error(503, "database_unavailable", None);
    assert_eq!(standby.count("broke_off"), 1);
}

const FAILED: &str = r#"{"error":{"code":"database_unavailable","message":"retry with backoff"}}"#;

/// Starts a node that cannot confirm its lease with the database.
fn unconfirmed() -> Node {
    Node::start(|_| Reply::Answer(Answer::new(503).header(UNCONFIRMED, "1").body(FAILED)))
}

#[test]
fn what_may_be_repeated_waits_while_the_database_does_not_answer_the_active_node() {
    let (standby, cut, next) = (Standby::start(), unconfirmed(), Node::answering("next"));
    standby.active(1, cut.address);
    let sent = [
        standby.request("GET", "/v1/rooms"),
        create(&standby).idempotency_key("k"),
    ];
    let sent = sent.map(|request| standby.send(request));
    standby.until_held(2);
    standby.active(2, next.address);
    for sent in sent {
        assert_eq!(sent.answer().text(), "next");
    }
}

#[test]
fn a_change_that_may_have_happened_at_such_a_node_is_answered_as_it_answers() {
    let (standby, cut) = (Standby::start(), unconfirmed());
    standby.active(1, cut.address);
    let answered = create(&standby).send();
    assert!(!answered.headers.contains_key(UNCONFIRMED), "{answered:?}");
    answered.expect_error(503, "database_unavailable", None);
    assert_eq!(cut.unseen(), 1);
}

#[test]
fn what_such_a_node_refuses_before_it_does_anything_waits() {
    let refusing = Node::start(|_| {
        Reply::Answer(
            Answer::new(503)
                .header(NOT_ACTIVE, "unconfirmed")
                .body(FAILED),
        )
    });
    let (standby, next) = (Standby::start(), Node::answering("next"));
    standby.active(1, refusing.address);
    let sent = standby.send(create(&standby));
    standby.until_held(1);
    standby.active(2, next.address);
    assert_eq!(sent.answer().text(), "next");
}

#[test]
fn nothing_waits_for_a_takeover_where_the_database_answers_nobody() {
    let refusing = Node::start(|_| {
        Reply::Answer(
            Answer::new(503)
                .header(NOT_ACTIVE, "unconfirmed")
                .body(FAILED),
        )
    });
    let standby = Standby::start();
    standby.cut_off();
    for (epoch, node) in [(1, unconfirmed()), (2, refusing)] {
        standby.active(epoch, node.address);
        standby
            .request("GET", "/v1/rooms")
            .send()
            .expect_error(503, "database_unavailable", None);
        create(&standby)
            .send()
            .expect_error(503, "database_unavailable", None);
    }
}
