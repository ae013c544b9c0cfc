//! Clients that send too slowly, too much or invalid data.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::deployment::{Deployment, Running};
use crate::support::{WAIT_LIMIT, eventually};

/// Opens a connection and sends bytes.
fn send(address: &str, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

/// Opens connections whose requests announce a body that never comes.
fn hanging_bodies(running: &Running, count: usize) -> Vec<TcpStream> {
    let head = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{{",
        running.key
    );
    (0..count).map(|_| send(&running.api, &head)).collect()
}

#[test]
fn health_answers_on_both_listeners_while_300_bodies_hang() {
    // A shell's default limit for open files; the process may raise its own limit.
    let deployment = Deployment::new().with_open_files("-Sn", 256);
    let running = deployment.start();
    let hanging = hanging_bodies(&running, 300);
    running.get("/healthz").anonymous().send().expect(200);
    running.admin("GET", "/healthz").send().expect(200);
    drop(hanging);
}

#[test]
fn where_files_are_few_connections_are_closed_and_the_admin_listener_answers() {
    let deployment = Deployment::new().with_open_files("-n", 256);
    let running = deployment.start();
    let hanging = hanging_bodies(&running, 300);
    running.admin("GET", "/healthz").send().expect(200);
    running.admin("GET", "/readyz").send().expect(200);
    // The log is written beside the requests.
    eventually(|| {
        let log = deployment.log();
        log.contains("WARN") && log.contains("http.max_connections")
    });
    let log = deployment.log();
    assert!(!log.contains("Too many open files"), "{log}");
    drop(hanging);
    eventually(|| {
        running
            .get("/healthz")
            .anonymous()
            .try_send()
            .is_some_and(|answer| answer.status == 200)
    });
}

#[test]
fn refusals_of_a_server_that_is_full_are_logged_once_and_not_each() {
    let deployment = Deployment::new().with("CONCLAVE_HTTP__MAX_REQUESTS", "1");
    let mut running = deployment.start();
    let lock = deployment.records().lock();
    std::thread::scope(|scope| {
        let room = scope.spawn(|| running.post("/v1/rooms").json(json!({"name": "a"})).send());
        let is_running = "conclave_http_requests_admitted{state=\"running\"} 1\n";
        eventually(|| {
            running
                .admin("GET", "/metrics")
                .send()
                .text()
                .contains(is_running)
        });
        for _ in 0..5 {
            running
                .get("/v1/rooms")
                .send()
                .expect_error(503, "database_unavailable", None);
        }
        drop(lock);
        room.join().unwrap().expect(201);
    });
    // All lines are written by then.
    assert_eq!(running.terminate(), Some(0));
    let log = deployment.log();
    assert_eq!(
        (
            log.matches("http.max_requests").count(),
            log.matches("list_rooms").count()
        ),
        (1, 0),
        "{log}"
    );
}

#[test]
fn a_malformed_request_is_logged_for_debugging_only() {
    for (level, is_logged) in [("info", false), ("debug", true)] {
        let deployment = Deployment::new().with("RUST_LOG", level);
        let mut running = deployment.start();
        for malformed in [
            "GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        ] {
            let mut answer = String::new();
            let _ = send(&running.api, malformed).read_to_string(&mut answer);
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        }
        assert_eq!(running.terminate(), Some(0));
        let log = deployment.log();
        assert!(!log.contains("ERROR"), "{log}");
        assert_eq!(log.contains("DEBUG actix_http"), is_logged, "{log}");
    }
}
