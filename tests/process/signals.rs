//! SIGTERM: what is in flight is finished, and clients that hang on do not hold the program up.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::deployment::Deployment;
use crate::support::{Receiver, Watcher, eventually};

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

#[test]
fn a_post_on_its_way_is_finished_and_not_made_again() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    running.endpoint(&format!("http://{}/hook", listener.local_addr().unwrap()));
    running.room("standup", 600);
    running.delete("/v1/rooms/standup").send().expect_empty(204);
    let (mut post, _) = listener.accept().unwrap();
    // The receiver takes its time: it answers when the program has been asked to stop for a while.
    let answering = std::thread::spawn(move || {
        let asked = Instant::now();
        eventually(|| asked.elapsed() > Duration::from_millis(500));
        let mut request = [0; 4_096];
        assert!(post.read(&mut request).unwrap() > 0);
        write!(post, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
    });
    let (code, took) = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    assert!(took < STOPPED_WITHIN, "{took:?}");
    answering.join().unwrap();
    let running = deployment.start();
    let deliveries = running.get("/v1/webhook-deliveries").send().expect(200);
    let delivery = &deliveries["webhook_deliveries"][0];
    assert_eq!((&delivery["status"], &delivery["attempts"]), (&json!("delivered"), &json!(1)), "{delivery}");
}

#[test]
fn a_receiver_that_never_answers_does_not_keep_the_program_from_stopping() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    running.endpoint(&format!("http://{}/hook", listener.local_addr().unwrap()));
    running.room("standup", 600);
    running.delete("/v1/rooms/standup").send().expect_empty(204);
    let hanging = listener.accept().unwrap();
    let (code, took) = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    // The post has ten seconds of its own, which began before the program was asked to stop.
    assert!(took < STOPPED_WITHIN + Duration::from_secs(2), "{took:?}");
    drop(hanging);
}
