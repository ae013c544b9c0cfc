//! Misbehaving webhook receivers.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::json;

use crate::support::{Hanging, NEVER, Receiver, TestApp};

/// Starts a receiver that handles each request this way. Returns its URL.
fn receiver(treat: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    format!(
        "http://{}/hook",
        test_http_server::serve(move |_, stream| treat(stream))
    )
}

/// Starts a receiver that resets each connection, by closing it with the request unread.
fn resetting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.peek(&mut [0]);
        }
    });
    url
}

/// Writes one byte at a time until the sender or the test is gone.
fn drip(mut stream: TcpStream, test: &Weak<()>) {
    let head = b"HTTP/1.1 200 OK\r\nx-padding: "
        .iter()
        .chain(std::iter::repeat(&b'x'));
    for byte in head {
        if stream.write_all(&[*byte]).is_err() || test.strong_count() == 0 {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Responds with success and an endless body.
fn endless(mut stream: TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n");
    while stream.write_all(&[b'x'; 65_536]).is_ok() {}
}

/// Receivers that each misbehave in a different way, until this is dropped.
struct Misbehaving {
    /// Their URLs, and the error that a delivery to each has after a timeout of one second; empty if the delivery succeeds.
    faults: [(String, &'static str); 6],
    _hanging: Hanging,
    _dripping: Arc<()>,
}

impl Misbehaving {
    fn start() -> Self {
        let (hanging, dripping) = (Hanging::start(), Arc::new(()));
        let test = Arc::downgrade(&dripping);
        let garbage =
            receiver(|mut stream| drop(stream.write_all(b"\x16\x03\x01 220 no HTTP\r\n\r\n")));
        let endless_head =
            receiver(
                |mut stream| while stream.write_all(b"HTTP/1.1 200 OK\r\nx: y\r\n").is_ok() {},
            );
        let faults = [
            (resetting(), "connection closed before an answer"),
            (
                receiver(move |stream| drip(stream, &test)),
                "timed out after 1s",
            ),
            (hanging.url.clone(), "timed out after 1s"),
            (garbage, "the answer is not valid HTTP"),
            (endless_head, "the answer is not valid HTTP"),
            (receiver(endless), ""),
        ];
        Self {
            faults,
            _hanging: hanging,
            _dripping: dripping,
        }
    }
}

fn end_room(app: &TestApp, room: &str) {
    app.room(room);
    app.delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

/// Proves F-15.
#[test]
fn receivers_that_misbehave_in_any_way_delay_no_other() {
    let app = TestApp::start_with(|config| config.webhooks.timeout = NEVER);
    let (healthy, misbehaving) = (Receiver::start(), Misbehaving::start());
    for (url, _) in &misbehaving.faults {
        app.endpoint(url);
    }
    app.endpoint(&healthy.url);
    for room in ["one", "two"] {
        end_room(&app, room);
        assert_eq!(healthy.next().json()["room"], room);
    }
}

/// Proves F-15.
#[test]
fn deliveries_to_receivers_that_misbehave_in_any_way_end_and_are_tried_again() {
    let app = TestApp::start_with(|config| config.webhooks.timeout = Duration::from_secs(1));
    let misbehaving = Misbehaving::start();
    let ids = misbehaving
        .faults
        .each_ref()
        .map(|(url, _)| app.endpoint(url)["id"].clone());
    for room in ["one", "two"] {
        end_room(&app, room);
        app.deliver();
    }
    for ((url, error), id) in misbehaving.faults.iter().zip(&ids) {
        let deliveries = app.deliveries(&format!("endpoint_id={}", id.as_str().unwrap()));
        assert_eq!(deliveries.len(), 2, "{url}");
        for delivery in deliveries {
            let status = if error.is_empty() {
                "delivered"
            } else {
                "pending"
            };
            assert_eq!(
                (&delivery["status"], &delivery["last_error"]),
                (&json!(status), &json!(error)),
                "{delivery}"
            );
            assert!(
                delivery.get("next_attempt_at").is_some() != error.is_empty(),
                "{delivery}"
            );
        }
    }
    app.admin("GET", "/readyz").send().expect(200);
}
