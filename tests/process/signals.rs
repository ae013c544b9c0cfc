//! SIGTERM: requests and deliveries in flight finish, and idle connections do not delay the exit.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::json;

use crate::deployment::Deployment;
use crate::support::{Receiver, TestApp, Watcher, eventually};

/// Opens a keep-alive connection that has received one response.
fn idle_client(address: &str) -> TcpStream {
    let address = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(crate::support::WAIT_LIMIT))
        .unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    stream
}

#[test]
fn an_idle_connection_does_not_delay_the_exit() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let clients = [idle_client(&running.api), idle_client(&running.admin)];
    let code = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    assert_eq!(
        running.rest_of_stdout(),
        "",
        "stdout contains only the ready line"
    );
    drop(clients);
}

#[test]
fn an_open_event_stream_does_not_delay_the_exit() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let watcher = Watcher::open(&running.admin, "");
    running.room("standup", 600);
    running.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(watcher.next().event, "room.finished");
    let code = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
}

/// Pipelines requests, and reads all responses.
fn pipeline(address: &str, count: usize) {
    let address = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(crate::support::WAIT_LIMIT))
        .unwrap();
    let sent = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(count - 1);
    stream.write_all(sent.as_bytes()).unwrap();
    write!(
        stream,
        "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), count);
}

/// Proves S-11.
#[test]
fn a_log_that_nobody_reads_delays_neither_requests_nor_the_exit() {
    let fifos = tempfile::tempdir().unwrap();
    let fifo = fifos.path().join("stderr").display().to_string();
    // Open for reading, too, so that the pipe accepts bytes up to its buffer and never breaks.
    let deployment = Deployment::new()
        .with("RUST_LOG", "debug")
        .with_setup(format!("mkfifo {fifo} && exec 2<>{fifo}"));
    let mut running = deployment.start();
    // A line for each: far more than a pipe's buffer.
    pipeline(&running.api, 1_900);
    running.room("standup", 600);
    running.get("/v1/rooms/standup").send().expect(200);
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_hang_up_does_not_end_the_process() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    for _ in 0..3 {
        rustix::process::kill_process(running.pid(), rustix::process::Signal::HUP).unwrap();
        running.get("/healthz").send().expect(200);
    }
    eventually(|| deployment.log().contains("SIGHUP is ignored"));
    assert_eq!(running.terminate(), Some(0), "{}", deployment.log());
}

#[test]
fn participants_connected_at_a_stop_are_reported_as_aborted_after_the_next_start() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let mut running = deployment.start();
    running.endpoint(&receiver.url);
    running.room("standup", 600);
    running.join(&running.token("standup", "alice", "host"));
    let code = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    assert_eq!(
        deployment
            .records()
            .value("SELECT count(*) FROM sessions WHERE left_at IS NULL")
            .trim(),
        "0"
    );
    let running = deployment.start();
    let seen = receiver.types(3);
    assert_eq!(
        seen,
        [
            "room.started",
            "participant.joined",
            "participant.connection_aborted"
        ]
    );
    let sessions = running.get("/v1/sessions?active=true").send().expect(200);
    assert_eq!(sessions["sessions"], json!([]));
}

#[test]
fn a_delivery_in_flight_finishes_and_is_not_repeated() {
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    running.endpoint(&format!("http://{}/hook", listener.local_addr().unwrap()));
    running.room("standup", 600);
    running.delete("/v1/rooms/standup").send().expect_empty(204);
    let (mut post, _) = listener.accept().unwrap();
    // The receiver responds after the server has started to stop.
    let api = running.api.clone();
    let answering = std::thread::spawn(move || {
        TestApp::stop_begins(&api);
        let mut request = [0; 4_096];
        assert!(post.read(&mut request).unwrap() > 0);
        write!(post, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
    });
    let code = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    answering.join().unwrap();
    let running = deployment.start();
    let deliveries = running.get("/v1/webhook-deliveries").send().expect(200);
    let delivery = &deliveries["webhook_deliveries"][0];
    assert_eq!(
        (&delivery["status"], &delivery["attempts"]),
        (&json!("delivered"), &json!(1)),
        "{delivery}"
    );
}

#[test]
fn a_receiver_that_never_answers_does_not_prevent_the_exit() {
    let deployment = Deployment::new().with("CONCLAVE_WEBHOOKS__TIMEOUT", "1s");
    let mut running = deployment.start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    running.endpoint(&format!("http://{}/hook", listener.local_addr().unwrap()));
    running.room("standup", 600);
    running.delete("/v1/rooms/standup").send().expect_empty(204);
    let hanging = listener.accept().unwrap();
    let code = running.terminate();
    assert_eq!(code, Some(0), "{}", deployment.log());
    drop(hanging);
}
