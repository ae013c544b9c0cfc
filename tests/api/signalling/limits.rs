//! Limits on clients' messages and connection rate.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use livekit_protocol as proto;
use prost::Message as _;
use proto::signal_request::Message as SignalRequest;
use proto::signal_response::Message as SignalResponse;
use tungstenite::Message;

use super::client::{Client, query};
use crate::frame::connections::assert_is_not_read_for_ever;
use crate::support::{TestApp, WAIT_LIMIT};

/// Returns an offer that the server answers: a client with an unreadable offer is disconnected.
fn data_channel_offer() -> String {
    let fingerprint = ["00"; 32].join(":");
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
         a=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 {fingerprint}\r\na=setup:actpass\r\n\
         a=mid:0\r\na=sctp-port:5000\r\na=max-message-size:262144\r\n"
    )
}

/// Sends messages until the server closes the WebSocket. Returns the reasons in `leave` and in the Close frame.
fn sent_until_closed(
    client: &mut Client,
    message: &SignalRequest,
) -> (proto::DisconnectReason, String) {
    let frame = proto::SignalRequest {
        message: Some(message.clone()),
    }
    .encode_to_vec();
    let mut reason = None;
    let end = Instant::now() + WAIT_LIMIT;
    while Instant::now() < end {
        // The server may have closed it already, or be busy with earlier messages.
        let _ = client.0.send(Message::binary(frame.clone()));
        client.0.get_ref().0.set_nonblocking(true).unwrap();
        loop {
            match client.0.read() {
                Ok(Message::Binary(frame)) => {
                    let message = proto::SignalResponse::decode(frame).unwrap().message;
                    if let Some(SignalResponse::Leave(leave)) = message {
                        assert_eq!(leave.action(), proto::leave_request::Action::Disconnect);
                        reason = Some(leave.reason());
                    }
                }
                Ok(Message::Close(Some(close))) => {
                    assert_eq!(u16::from(close.code), 1_008);
                    return (
                        reason.expect("a leave before the end"),
                        close.reason.to_string(),
                    );
                }
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    panic!("the server closes it");
}

/// Proves S-52.
#[test]
fn a_client_that_sends_more_than_it_may_is_disconnected_with_a_reason_and_counted() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let mute = SignalRequest::Mute(proto::MuteTrackRequest {
        sid: "TR_1".into(),
        muted: true,
    });
    let offer = proto::SessionDescription {
        r#type: "offer".into(),
        sdp: data_channel_offer(),
        ..Default::default()
    };
    let entries = vec![proto::TrackPermission::default(); 100_000];
    let permission = proto::SubscriptionPermission {
        track_permissions: entries,
        ..Default::default()
    };
    let name = "n".repeat(100_000);
    for (message, limit, reason) in [
        (mute, "changes", "too many changes a second"),
        (
            SignalRequest::Offer(offer),
            "changes",
            "too many changes a second",
        ),
        (
            SignalRequest::Ping(1),
            "messages",
            "too many messages a second",
        ),
        (
            SignalRequest::SubscriptionPermission(permission),
            "message_size",
            "a message is too large",
        ),
        (
            SignalRequest::AddTrack(proto::AddTrackRequest {
                name,
                ..Default::default()
            }),
            "message_size",
            "a message is too large",
        ),
    ] {
        let count = || app.excesses(limit);
        let (before, token) = (count(), app.token("standup", "mallory", "host"));
        let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
        let closed = sent_until_closed(&mut client, &message);
        assert_eq!(
            closed,
            (
                proto::DisconnectReason::ParticipantRemoved,
                reason.to_owned()
            )
        );
        assert_eq!(count(), before + 1);
    }
    // Other clients are unaffected.
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    client.send(SignalRequest::Ping(1));
    client.until(|response| matches!(response, SignalResponse::Pong(_)).then_some(()));
}

#[test]
fn a_frame_that_is_too_large_closes_the_websocket_and_says_so() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    // The server may close the connection before everything is written.
    let _ = client.0.send(Message::binary(vec![0; 3 * 1024 * 1024]));
    let code = loop {
        match client.0.read() {
            Ok(Message::Close(close)) => break close.map(|close| u16::from(close.code)),
            Ok(_) => {}
            Err(error) => panic!("a close frame, not {error}"),
        }
    };
    assert_eq!(code, Some(1_009));
}

/// Proves S-14.
#[test]
fn refusals_over_the_rate_are_sent_after_a_while_one_after_another_and_may_be_read_by_pages() {
    let app = TestApp::start_with_webrtc();
    let address = app.api.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    let begun = Instant::now();
    // The rate allows a burst of 200, whatever is wrong with the requests.
    for path in ["/rtc/v1/validate?access_token=none", "/rtc"]
        .iter()
        .cycle()
        .take(210)
    {
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes())
            .unwrap();
    }
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let count = |text: &str| answers.matches(text).count();
    assert_eq!(
        ["401", "404", "429", "200"].map(|status| count(&format!("HTTP/1.1 {status} "))),
        [100, 100, 10, 1]
    );
    assert_eq!(
        (
            count("access-control-allow-origin: *"),
            count("retry-after: 1\r\n")
        ),
        (210, 10)
    );
    assert!(
        begun.elapsed() >= 10 * Duration::from_millis(100),
        "{:?}",
        begun.elapsed()
    );
}

/// Proves S-15.
#[test]
fn a_client_that_sends_on_after_the_end_of_its_session_is_closed() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let path = format!("/rtc{}", query(&app.token("standup", "mallory", "host")));
    let mut client = Client::connect(&app, &path).unwrap();
    client.send(SignalRequest::Leave(proto::LeaveRequest::default()));
    while client.next().is_some() {}
    assert_is_not_read_for_ever(&client.0.get_ref().0, &[0; 0x1_0000]);
}

#[test]
fn clients_of_one_address_that_connect_too_often_are_refused() {
    let app = TestApp::start_with_webrtc();
    let limited = (0..300)
        .map(|_| app.validate("a"))
        .find(|response| response.status == 429);
    let limited = limited.expect("the burst is smaller");
    assert_eq!(limited.headers["access-control-allow-origin"], "*");
    assert!(limited.headers.contains_key("retry-after"));
    app.advance(Duration::from_secs(60));
    assert_eq!(app.validate("a").status, 401);
}
