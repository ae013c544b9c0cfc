//! Pipelined requests: each is answered, in order, one at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::support::{TestApp, WAIT_LIMIT, eventually};

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// Returns a request that creates a room, with the body framed in one of several ways.
fn create_room(app: &TestApp, number: usize) -> Vec<u8> {
    let body = json!({"name": format!("room-{number}")}).to_string();
    let (framing, body) = match number % 4 {
        1 => (
            "Transfer-Encoding: chunked".into(),
            format!("{:x};a=\"b\"\r\n{body}\r\n0\r\n\r\n", body.len()),
        ),
        2 => {
            let (first, second) = body.split_at(7);
            let chunks = format!(
                "7\r\n{first}\r\n{:X}\r\n{second}\r\n000\r\nTrailer: a\r\nAnother: b\r\n\r\n",
                second.len()
            );
            ("Transfer-Encoding: chunked".into(), chunks)
        }
        _ => (format!("Content-Length: {}", body.len()), body),
    };
    let head = "POST /v1/rooms HTTP/1.1\r\nHost: h\r\nContent-Type: application/json";
    format!(
        "{head}\r\nAuthorization: Bearer {}\r\n{framing}\r\n\r\n{body}",
        app.key
    )
    .into_bytes()
}

fn get(app: &TestApp, path: &str, more: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n{more}\r\n",
        app.key
    )
    .into_bytes()
}

/// Returns statuses of all responses, and the room names in their bodies.
fn answers(text: &str) -> (Vec<u16>, Vec<String>) {
    let statuses = text
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| answer[..3].parse().unwrap());
    let names = text
        .split("\"name\":\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().to_owned());
    (statuses.collect(), names.collect())
}

#[test]
fn pipelined_requests_are_answered_in_order_however_their_bytes_arrive() {
    for size in [1, 7, 100, 100_000] {
        let app = TestApp::start();
        let mut sent = Vec::new();
        for number in 0..12 {
            sent.extend(create_room(&app, number));
            sent.extend(get(&app, &format!("/v1/rooms/room-{number}"), ""));
            // Empty lines before a request are ignored, and a line feed alone ends a line.
            sent.extend(b"\r\n\nHEAD /v1/rooms HTTP/1.1\nHost: h\n\n");
        }
        sent.extend(get(&app, "/healthz", "Connection: close\r\n"));
        let mut stream = connect(&app.api);
        stream.set_nodelay(true).unwrap();
        for part in sent.chunks(size) {
            stream.write_all(part).unwrap();
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let expected: Vec<u16> = (0..12).flat_map(|_| [201, 200, 401]).chain([200]).collect();
        let (statuses, names) = answers(&text);
        assert_eq!(statuses, expected, "in parts of {size}: {text}");
        let both: Vec<String> = (0..12)
            .flat_map(|number| [(); 2].map(|()| format!("room-{number}")))
            .collect();
        assert_eq!(names, both);
    }
}

#[test]
fn what_is_pipelined_behind_a_large_response_waits_until_it_was_read_and_is_handled_then() {
    let app = TestApp::start();
    let mut stream = connect(&app.api);
    let description = app.get("/openapi.json").send().body.len();
    // More than the buffers of both sockets.
    let large = 64 * 1024 * 1024 / description;
    stream
        .write_all(&get(&app, "/openapi.json", "").repeat(large))
        .unwrap();
    stream.write_all(&create_room(&app, 0)).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    app.get("/v1/rooms/room-0")
        .send()
        .expect_error(404, "room_not_found", None);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).unwrap();
    let text = String::from_utf8_lossy(&read);
    assert_eq!(
        (
            text.matches("HTTP/1.1 200").count(),
            text.matches("HTTP/1.1 201").count()
        ),
        (large - 1, 1)
    );
    app.get("/v1/rooms/room-0").send().expect(200);
}

#[test]
fn pipelined_changes_are_made_although_the_client_has_gone() {
    let app = TestApp::start();
    let mut stream = connect(&app.api);
    let sent: Vec<u8> = (0..8)
        .flat_map(|number| create_room(&app, number))
        .collect();
    stream.write_all(&sent).unwrap();
    drop(stream);
    eventually(|| app.get("/v1/rooms/room-7").send().status == 200);
}

/// Proves S-12.
#[test]
fn each_address_has_a_rate_of_what_is_the_same_for_everyone() {
    let app = TestApp::start();
    for (path, status) in [
        ("/healthz", 200),
        ("/openapi.json", 200),
        ("/call", 200),
        ("/call/main.js", 200),
    ] {
        assert_eq!(app.get(path).anonymous().send().status, status, "{path}");
    }
    let mut stream = connect(&app.api);
    let sent = [
        get(&app, "/healthz", "").repeat(1_997),
        get(&app, "/openapi.json", "Connection: close\r\n"),
    ]
    .concat();
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    stream.write_all(&sent).unwrap();
    let text = reading.join().unwrap();
    // With the 4 before, these 1,996 reach the burst of 2,000 per address.
    assert_eq!(
        (
            text.matches("HTTP/1.1 200").count(),
            text.matches("HTTP/1.1 429").count()
        ),
        (1_996, 2),
        "{text}"
    );
    assert!(
        text.to_ascii_lowercase().contains("retry-after: 1"),
        "{text}"
    );
    for path in ["/healthz", "/openapi.json", "/call", "/call/main.js"] {
        app.get(path).send().expect_error(429, "rate_limited", None);
    }
    for (method, path) in [
        ("POST", "/healthz"),
        ("POST", "/call/role"),
        ("POST", "/files/recordings/a"),
    ] {
        app.request(method, path)
            .send()
            .expect_error(429, "rate_limited", None);
    }
    app.get("/v1/rooms").send().expect(200);
    app.admin("GET", "/healthz").send().expect(200);
    app.advance(Duration::from_secs(1));
    app.get("/healthz").anonymous().send().expect(200);
}
