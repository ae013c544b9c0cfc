//! Requests from LiveKit, and from clients that pretend to be LiveKit.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use livekit_double::Double;
use livekit_protocol as proto;
use proto::DisconnectReason;
use serde_json::json;

use super::{livekit, livekit_app_with, livekit_webhook};
use crate::support::{Receiver, TestApp, WAIT_LIMIT, eventually};
use crate::tools::{answered, jwt};

/// Largest report, in bytes.
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
    // The server may respond before it has read everything.
    let _ = stream.write_all(&vec![b' '; sent]);
    stream
}

/// Returns whether an unfinished report has neither a response nor a closed connection.
fn is_being_received(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    stream
        .peek(&mut [0])
        .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Announces the largest report, sends its first byte, and returns the response.
fn announce_report(app: &TestApp, authorization: &str) -> String {
    let mut stream = begin_report(app, authorization, 1);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// Proves S-82.
#[test]
fn a_report_without_livekits_signature_is_refused_before_its_body_is_read() {
    let (app, double) = livekit();
    let mut forged = double.sign(b"{}").authorization;
    forged.replace_range(forged.len() - 8.., "AAAAAAAA");
    for authorization in ["", "Bearer x", forged.as_str()] {
        let answer = announce_report(&app, authorization);
        assert!(
            answer.starts_with("HTTP/1.1 401") && answer.contains("unauthorized"),
            "{answer}"
        );
    }
}

#[test]
fn a_signed_report_whose_body_does_not_arrive_is_408() {
    let double = Double::start();
    let app = livekit_app_with(&double, |config| {
        config.http.request_timeout = Duration::from_millis(300);
    });
    let answer = answered(|| announce_report(&app, &double.sign(b"{}").authorization));
    assert!(
        answer.starts_with("HTTP/1.1 408") && answer.contains("request_timeout"),
        "{answer}"
    );
}

/// Proves S-83.
#[test]
fn reports_have_64_mib_of_memory_and_further_ones_are_to_be_sent_again() {
    let (app, double) = livekit();
    let body = br#"{"event": "room_started", "id": "EV_1", "room": {"name": "somebody-elses"}}"#;
    let signed = double.sign(body);
    let report = || {
        livekit_webhook(&app)
            .header("authorization", &signed.authorization)
            .raw(body)
            .send()
    };
    assert_eq!(report().status, 200);
    let mut unfinished = Vec::new();
    eventually(|| {
        // A report may be refused if its last bytes arrive while the short report occupies memory; it is then sent again.
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
        calls
            .iter()
            .filter(|call| {
                call.names
                    .first()
                    .is_some_and(|name| name.contains("health"))
            })
            .count()
    };
    // The check of LiveKit's settings at startup lists rooms, too.
    let settings =
        || app.admin("GET", "/readyz").send().expect(200)["parts"]["media_settings"] == "ok";
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

/// Proves S-47.
#[test]
fn a_token_of_a_room_code_is_not_promoted_by_joining_livekit_again() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    app.room_with_roles(
        "stage",
        &json!({"guest": {}, "host": {"permissions": {"end_room": true}}, "listener": {"publish": {"allowed": []}}}),
    );
    let role_of_next_join = |given: &str, own: &str, identity: &str, sessions: usize| {
        let code = app
            .post("/v1/rooms/stage/codes")
            .json(json!({"role": own}))
            .send()
            .expect(201);
        let path = format!("/v1/codes/{}/exchange", code["code"].as_str().unwrap());
        let token = app
            .post(&path)
            .anonymous()
            .json(json!({"identity": identity}))
            .send()
            .expect(201);
        let token = token["token"].as_str().unwrap();
        double.connect(token).unwrap();
        app.wait_for_event("participant.joined", sessions);
        let change = app.post(&format!("/v1/rooms/stage/participants/{identity}/role"));
        change.json(json!({"role": given})).send().expect(200);
        double.leave(
            &format!("{}.stage", app.project),
            identity,
            DisconnectReason::ClientInitiated,
        );
        app.wait_for_event("participant.left", sessions);
        double.connect(token).unwrap();
        app.wait_for_event("participant.joined", sessions + 1);
        let session = app.get("/v1/sessions?active=true").send().expect(200)["sessions"][0].clone();
        double.leave(
            &format!("{}.stage", app.project),
            identity,
            DisconnectReason::ClientInitiated,
        );
        app.wait_for_event("participant.left", sessions + 1);
        session["role"].as_str().unwrap().to_owned()
    };
    assert_eq!(role_of_next_join("host", "guest", "bob", 1), "guest");
    assert_eq!(
        role_of_next_join("listener", "guest", "carol", 3),
        "listener"
    );
}

/// Proves S-44.
#[test]
fn no_token_for_livekit_lets_a_client_change_its_attributes_and_so_its_role() {
    let (app, _double) = livekit();
    app.room_with_roles(
        "stage",
        &json!({"speaker": {"permissions": {"update_own_metadata": true}}}),
    );
    let claims = jwt(&app.token("stage", "alice", "speaker"), 1);
    assert_eq!(claims["attributes"]["svc.role"], json!("speaker"));
    assert!(
        claims["video"].get("canUpdateOwnMetadata").is_none(),
        "{claims}"
    );
}
