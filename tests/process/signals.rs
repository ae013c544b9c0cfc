//! SIGTERM: what is in flight is finished, and clients that hang on do not hold the program up.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::deployment::Deployment;
use crate::support::{Receiver, Watcher};

/// As long as stopping may take.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// A client that has had its answer and keeps the connection.
fn idle_client(address: &str) -> TcpStream {
    let address = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    stream
}

#[test]
fn an_idle_client_does_not_keep_the_program_from_stopping() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let clients = [idle_client(&running.api), idle_client(&running.admin)];
    let (code, took) = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    assert!(took < STOPPED_WITHIN, "{took:?}");
    assert_eq!(running.rest_of_stdout(), "", "the ready line is all there is on stdout");
    drop(clients);
}

#[test]
fn a_watcher_of_events_does_not_keep_the_program_from_stopping() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let watcher = Watcher::open(&running.admin, "");
    running.room("standup", 600);
    running.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(watcher.next().event, "room.finished");
    let (code, took) = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    assert!(took < STOPPED_WITHIN, "{took:?}");
}

#[test]
fn a_program_with_people_inside_stops_and_picks_up_where_it_was() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let mut running = deployment.start();
    running.endpoint(&receiver.url);
    running.room("standup", 600);
    running.join(&running.token("standup", "alice", "host"));
    let (code, took) = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    assert!(took < STOPPED_WITHIN, "{took:?}");
    let running = deployment.start();
    let seen = receiver.types(3);
    assert_eq!(seen, ["room.started", "participant.joined", "participant.connection_aborted"]);
    let sessions = running.get("/v1/sessions?active=true").send().expect(200);
    assert_eq!(sessions["sessions"], json!([]));
}
