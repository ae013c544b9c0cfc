//! What LiveKit and those who pretend to be LiveKit can ask of the server.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use livekit_double::Double;
use livekit_protocol as proto;
use serde_json::json;

use super::{livekit, livekit_app_with, livekit_webhook};
use crate::support::{TestApp, WAIT_LIMIT, eventually};
use crate::tools::jwt;

/// The largest report, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

/// Announces the largest report and sends its first bytes.
fn begin_report(app: &TestApp, authorization: &str, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(app.api.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    let head = format!(
        "POST /media/livekit/webhook HTTP/1.1\r\nHost: h\r\nAuthorization: {authorization}\r\n\
         Content-Length: {LARGEST}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server may answer before it has read all of it.
    let _ = stream.write_all(&vec![b' '; sent]);
    stream
}

/// Says whether a report that is unfinished has neither been answered nor lost its connection.
fn is_being_received(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Announces the largest report, sends its first byte, and returns the answer.
fn announce_report(app: &TestApp, authorization: &str) -> String {
    let mut stream = begin_report(app, authorization, 1);
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
fn reports_have_64_mib_of_memory_and_further_ones_are_to_be_sent_again() {
    let (app, double) = livekit();
    let body = br#"{"event": "room_started", "id": "EV_1", "room": {"name": "somebody-elses"}}"#;
    let signed = double.sign(body);
    let report = || livekit_webhook(&app).header("authorization", &signed.authorization).raw(body).send();
    assert_eq!(report().status, 200);
    let mut unfinished = Vec::new();
    eventually(|| {
        // One whose last bytes arrive while the short report holds memory is refused instead of that: it is begun again.
        unfinished.retain(is_being_received);
        unfinished.resize_with(4, || begin_report(&app, &signed.authorization, LARGEST - 1));
        report().status == 503
    });
    app.room("standup");
    drop(unfinished);
    eventually(|| report().status == 200);
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

#[test]
fn no_token_for_livekit_lets_a_client_change_its_attributes_and_so_its_role() {
    let (app, _double) = livekit();
    app.room_with_roles("stage", &json!({"speaker": {"permissions": {"update_own_metadata": true}}}));
    let claims = jwt(&app.token("stage", "alice", "speaker"), 1);
    assert_eq!(claims["attributes"]["svc.role"], json!("speaker"));
    assert!(claims["video"].get("canUpdateOwnMetadata").is_none(), "{claims}");
}
