//! What LiveKit and those who pretend to be LiveKit can ask of the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use livekit_double::Double;
use livekit_protocol as proto;

use super::{livekit, livekit_app_with};
use crate::support::{TestApp, WAIT_LIMIT, eventually};

/// Announces a report of 16 MiB, sends its first byte, and returns the answer.
fn announce_report(app: &TestApp, authorization: &str) -> String {
    let mut stream = TcpStream::connect(app.api.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    let head = format!(
        "POST /media/livekit/webhook HTTP/1.1\r\nHost: h\r\nAuthorization: {authorization}\r\n\
         Content-Length: 16777216\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn a_report_without_livekits_signature_is_refused_before_its_body_is_read() {
    let (app, double) = livekit();
    let mut forged = double.sign(b"{}").authorization;
    forged.replace_range(forged.len() - 8.., "AAAAAAAA");
    for authorization in ["", "Bearer x", forged.as_str()] {
        let answer = announce_report(&app, authorization);
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("unauthorized"), "{answer}");
    }
}

#[test]
fn a_signed_report_whose_body_does_not_arrive_is_408() {
    let double = Double::start();
    let app = livekit_app_with(&double, |config| config.http.request_timeout = Duration::from_millis(300));
    let answer = announce_report(&app, &double.sign(b"{}").authorization);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("request_timeout"), "{answer}");
}

#[test]
fn readyz_asks_the_media_plane_once_a_second() {
    let (app, double) = livekit();
    let probes = || {
        let calls = double.calls::<proto::ListRoomsRequest>("ListRooms");
        calls.iter().filter(|call| call.names.first().is_some_and(|name| name.contains("health"))).count()
    };
    // The check of LiveKit's settings at the start asks too.
    let settings = || app.admin("GET", "/readyz").send().expect(200)["parts"]["media_settings"] == "ok";
    eventually(settings);
    app.advance(Duration::from_secs(1));
    let before = probes();
    for _ in 0..5 {
        app.admin("GET", "/readyz").send().expect(200);
    }
    assert_eq!(probes(), before + 1);
    app.advance(Duration::from_secs(1));
    app.admin("GET", "/readyz").send().expect(200);
    assert_eq!(probes(), before + 2);
}
