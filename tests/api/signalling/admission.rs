//! `/rtc`: WebRTC clients are admitted or turned away before their websocket is opened. Their media is tested elsewhere.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::write::GzEncoder;
use livekit_protocol as proto;
use prost::Message as _;
use proto::signal_request::Message as SignalRequest;
use proto::signal_response::Message as SignalResponse;
use serde_json::json;
use tungstenite::{HandshakeError, Message, WebSocket};

use crate::frame::connections::assert_is_not_read_for_ever;
use crate::support::{Request, Response, TestApp, WAIT_LIMIT, eventually};

/// A websocket of a client.
struct Client(WebSocket<Connection>);

/// The connection of a client. One that the server has closed can still be read to its end: a write, such as the answer to a
/// ping, does not fail then, because tungstenite would read nothing more.
struct Connection(TcpStream);

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Client {
    fn connect(app: &TestApp, path: &str) -> Result<Self, Box<tungstenite::Error>> {
        let url = format!("{}{path}", app.api.replacen("http", "ws", 1));
        let stream = TcpStream::connect(app.api.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        match tungstenite::client(url, Connection(stream)) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(HandshakeError::Failure(error)) => Err(Box::new(error)),
            Err(HandshakeError::Interrupted(_)) => panic!("no answer"),
        }
    }

    fn send(&mut self, message: SignalRequest) {
        let frame = proto::SignalRequest { message: Some(message) }.encode_to_vec();
        self.0.send(Message::binary(frame)).unwrap();
    }

    /// The next message; `None` once the websocket is closed.
    fn next(&mut self) -> Option<SignalResponse> {
        loop {
            match self.0.read() {
                Ok(Message::Binary(frame)) => return proto::SignalResponse::decode(frame).unwrap().message,
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    fn until<T>(&mut self, wanted: impl Fn(SignalResponse) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next().expect("a message")) {
                return found;
            }
        }
    }
}

fn query(token: &str) -> String {
    format!("?access_token={token}&protocol=16&sdk=js")
}

fn status_of(error: &tungstenite::Error) -> u16 {
    match error {
        tungstenite::Error::Http(response) => response.status().as_u16(),
        other => panic!("{other}"),
    }
}

#[track_caller]
fn assert_refused(response: &Response, status: u16, text: &str) {
    let body = String::from_utf8_lossy(&response.body);
    assert_eq!((response.status, response.headers["access-control-allow-origin"].as_str()), (status, "*"), "{body}");
    assert!(body.contains(text), "{body}");
}

impl TestApp {
    fn validate(&self, token: &str) -> Response {
        self.get(&format!("/rtc/validate{}", query(token))).anonymous().send()
    }

    /// How many clients have exceeded a limit.
    fn excesses(&self, limit: &str) -> u64 {
        let metrics = self.admin("GET", "/metrics").send().text();
        let name = format!("conclave_rtc_excesses_total{{limit=\"{limit}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.expect("the metric is shown before there is one").parse().unwrap()
    }
}

#[test]
fn a_client_is_answered_and_leaves_without_a_session_while_its_media_is_not_connected() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    let Some(SignalResponse::Join(join)) = client.next() else { panic!("the first message answers the join") };
    assert_eq!(join.participant.unwrap().identity, "alice");
    assert!(matches!(client.next(), Some(SignalResponse::RefreshToken(_))));
    let offer = client.until(|response| if let SignalResponse::Offer(offer) = response { Some(offer) } else { None });
    assert!(offer.sdp.contains("m=application"), "{}", offer.sdp);
    client.send(SignalRequest::PingReq(proto::Ping { timestamp: 7, rtt: 0 }));
    let pong = client.until(|response| if let SignalResponse::PongResp(pong) = response { Some(pong) } else { None });
    assert_eq!(pong.last_ping_timestamp, 7);
    assert_eq!(app.get("/v1/rooms/standup/participants").send().expect(200)["participants"], json!([]));

    client.send(SignalRequest::Leave(proto::LeaveRequest::default()));
    assert!(client.next().is_none(), "the server closes the websocket");
    assert_eq!(app.get("/v1/sessions").send().expect(200)["sessions"], json!([]));
}

#[test]
fn a_refusal_has_the_same_status_at_the_websocket_and_at_its_dry_run() {
    let app = TestApp::start_with_webrtc();
    app.room_with_roles("full", &json!({"host": {"max_peer_count": 1}}));
    app.room("over");
    let (first, second) = (app.token("full", "alice", "host"), app.token("full", "bob", "host"));
    let ended = app.token("over", "alice", "host");
    app.delete("/v1/rooms/over").send().expect_empty(204);
    assert_eq!(app.validate(&first).status, 200);
    let _alice = Client::connect(&app, &format!("/rtc{}", query(&first))).unwrap();

    let cases = [
        (second.as_str(), 403, "the role is full"),
        (ended.as_str(), 404, "requested room does not exist"),
        ("not-a-token", 401, "the token is malformed"),
    ];
    for (token, status, text) in cases {
        assert_refused(&app.validate(token), status, text);
        let error = Client::connect(&app, &format!("/rtc{}", query(token))).err().unwrap();
        assert_eq!(status_of(&error), status);
    }
    assert_refused(&app.get("/rtc/v1/validate").anonymous().send(), 401, "no token");
    app.room("open");
    let path = format!("/rtc/v1/validate?access_token={}", app.token("open", "alice", "host"));
    assert_refused(&app.get(&path).anonymous().send(), 400, "join_request");
    assert_refused(&app.get("/rtc/v1").anonymous().send(), 404, "websockets");
}

/// Returns a join request for a url, with this many tracks.
fn join_request(tracks: usize) -> String {
    let client_info = Some(proto::ClientInfo { protocol: 16, ..Default::default() });
    let add_track_requests = vec![proto::AddTrackRequest::default(); tracks];
    let join = proto::JoinRequest { client_info, add_track_requests, ..Default::default() };
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&join.encode_to_vec()).unwrap();
    let compression = proto::wrapped_join_request::Compression::Gzip.into();
    let wrapped = proto::WrappedJoinRequest { compression, join_request: encoder.finish().unwrap() };
    URL_SAFE_NO_PAD.encode(wrapped.encode_to_vec())
}

#[test]
fn a_join_request_is_read_only_with_a_valid_token_and_refused_if_it_inflates_to_much() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let large = join_request(500_000);
    assert!(large.len() < 2_000, "it is small in the url");
    for path in ["/rtc", "/rtc/v1"] {
        for (token, join, status, text) in [
            ("not-a-token", large.as_str(), 401, "the token is malformed"),
            ("not-a-token", "%21", 401, "the token is malformed"),
            (token.as_str(), large.as_str(), 400, "join_request"),
            (token.as_str(), "%21", 400, "join_request"),
        ] {
            let query = format!("access_token={token}&join_request={join}");
            assert_refused(&app.get(&format!("{path}/validate?{query}")).anonymous().send(), status, text);
            let error = Client::connect(&app, &format!("{path}?{query}")).err().unwrap();
            assert_eq!(status_of(&error), status);
        }
        let query = format!("access_token={token}&join_request={}", join_request(3));
        assert_eq!(app.get(&format!("{path}/validate?{query}")).anonymous().send().status, 200);
    }
}

/// Returns an offer that the server answers: it disconnects a client whose offer it cannot read.
fn data_channel_offer() -> String {
    let fingerprint = ["00"; 32].join(":");
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
         a=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 {fingerprint}\r\na=setup:actpass\r\n\
         a=mid:0\r\na=sctp-port:5000\r\na=max-message-size:262144\r\n"
    )
}

/// Sends messages until the server closes the websocket. Returns why, as `leave` and the Close frame say.
fn sent_until_closed(client: &mut Client, message: &SignalRequest) -> (proto::DisconnectReason, String) {
    let frame = proto::SignalRequest { message: Some(message.clone()) }.encode_to_vec();
    let mut reason = None;
    let end = Instant::now() + WAIT_LIMIT;
    while Instant::now() < end {
        // The server may have closed it already, or be busy with what it has got.
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
                    return (reason.expect("a leave before the end"), close.reason.to_string());
                }
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    panic!("the server closes it");
}

#[test]
fn a_client_that_sends_more_than_it_may_is_disconnected_with_a_reason_and_counted() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let mute = SignalRequest::Mute(proto::MuteTrackRequest { sid: "TR_1".into(), muted: true });
    let offer = proto::SessionDescription { r#type: "offer".into(), sdp: data_channel_offer(), ..Default::default() };
    let entries = vec![proto::TrackPermission::default(); 100_000];
    let permission = proto::SubscriptionPermission { track_permissions: entries, ..Default::default() };
    let name = "n".repeat(100_000);
    for (message, limit, reason) in [
        (mute, "changes", "too many changes a second"),
        (SignalRequest::Offer(offer), "changes", "too many changes a second"),
        (SignalRequest::Ping(1), "messages", "too many messages a second"),
        (SignalRequest::SubscriptionPermission(permission), "message_size", "a message is too large"),
        (
            SignalRequest::AddTrack(proto::AddTrackRequest { name, ..Default::default() }),
            "message_size",
            "a message is too large",
        ),
    ] {
        let count = || app.excesses(limit);
        let (before, token) = (count(), app.token("standup", "mallory", "host"));
        let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
        let closed = sent_until_closed(&mut client, &message);
        assert_eq!(closed, (proto::DisconnectReason::ParticipantRemoved, reason.to_owned()));
        assert_eq!(count(), before + 1);
    }
    // Others are not concerned.
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    client.send(SignalRequest::Ping(1));
    client.until(|response| matches!(response, SignalResponse::Pong(_)).then_some(()));
}

#[test]
fn refusals_over_the_rate_are_sent_after_a_while_one_after_another_and_may_be_read_by_pages() {
    let app = TestApp::start_with_webrtc();
    let address = app.api.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    let begun = Instant::now();
    // The rate allows 200 at once, whatever is wrong with them.
    for path in ["/rtc/v1/validate?access_token=none", "/rtc"].iter().cycle().take(210) {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
    }
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let count = |text: &str| answers.matches(text).count();
    assert_eq!(["401", "404", "429", "200"].map(|status| count(&format!("HTTP/1.1 {status} "))), [100, 100, 10, 1]);
    assert_eq!((count("access-control-allow-origin: *"), count("retry-after: 1\r\n")), (210, 10));
    assert!(begun.elapsed() >= 10 * Duration::from_millis(100), "{:?}", begun.elapsed());
}

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
fn a_refusal_does_not_repeat_the_request() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    let metadata = "m".repeat(50_000);
    client.send(SignalRequest::UpdateMetadata(proto::UpdateParticipantMetadata {
        metadata,
        request_id: 7,
        ..Default::default()
    }));
    let refusal = client.until(|response| match response {
        SignalResponse::RequestResponse(refusal) => Some(refusal),
        _ => None,
    });
    assert_eq!((refusal.request_id, refusal.reason()), (7, proto::request_response::Reason::NotAllowed));
    assert!(refusal.encoded_len() < 100);
}

#[test]
fn a_client_gets_the_turn_servers_that_are_configured() {
    let app = TestApp::start_with_webrtc_and(|config| {
        config.media.rtc.turn.urls = vec!["turn:turn.example.com:3478".to_owned()];
        config.media.rtc.turn.secret = Some(conclave_model::Secret::new("shared"));
    });
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    let Some(SignalResponse::Join(join)) = client.next() else { panic!("the first message answers the join") };
    let server = &join.ice_servers[0];
    assert_eq!(server.urls, ["turn:turn.example.com:3478"]);
    let (expiry, identity) = server.username.split_once(':').unwrap();
    let in_twelve_hours = app.clock.now().after(Duration::from_secs(12 * 3_600));
    assert_eq!((expiry.parse(), identity), (Ok(in_twelve_hours.millis() / 1_000), "alice"));
    assert!(!server.credential.is_empty() && server.credential != "shared");
}

#[test]
fn a_client_that_sends_text_is_answered_in_it() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    client.until(|response| matches!(response, SignalResponse::Offer(_)).then_some(()));
    client.0.send(Message::text(r#"{"pingReq": {"timestamp": "7"}}"#)).unwrap();
    client.0.send(Message::text("no request")).unwrap();
    let answer = loop {
        if let Message::Text(text) = client.0.read().unwrap() {
            break serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
    };
    assert_eq!(answer["pongResp"]["lastPingTimestamp"], "7");
}

#[test]
fn the_same_identity_again_replaces_the_first_client() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let path = format!("/rtc{}", query(&app.token("standup", "alice", "host")));
    let mut first = Client::connect(&app, &path).unwrap();
    let _second = Client::connect(&app, &path).unwrap();
    let leave = first.until(|response| if let SignalResponse::Leave(leave) = response { Some(leave) } else { None });
    assert_eq!(leave.reason(), proto::DisconnectReason::DuplicateIdentity);
    assert!(first.next().is_none(), "the server closes the websocket");
}

#[test]
fn a_participant_that_is_not_known_cannot_be_resumed_and_is_told_to_join_anew() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let path = format!("/rtc{}&reconnect=1&sid=PA_unknown", query(&token));
    let mut client = Client::connect(&app, &path).unwrap();
    let Some(SignalResponse::Leave(leave)) = client.next() else { panic!("a leave") };
    assert_eq!(leave.action(), proto::leave_request::Action::Reconnect);
    assert!(client.next().is_none());
}

#[test]
fn a_join_whose_media_never_connects_is_aborted_after_a_minute() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    let mut client = Client::connect(&app, &format!("/rtc{}", query(&token))).unwrap();
    client.until(|response| matches!(response, SignalResponse::Offer(_)).then_some(()));
    for _ in 0..5 {
        app.advance(Duration::from_secs(10));
        client
            .0
            .send(Message::binary(proto::SignalRequest { message: Some(SignalRequest::Ping(1)) }.encode_to_vec()))
            .unwrap();
        // Heard before the clock goes on: a client that is silent for 15 s has lost its signalling.
        client.until(|response| matches!(response, SignalResponse::Pong(_)).then_some(()));
    }
    app.advance(Duration::from_secs(10));
    let leave = client.until(|response| if let SignalResponse::Leave(leave) = response { Some(leave) } else { None });
    assert_eq!(leave.reason(), proto::DisconnectReason::JoinFailure);
    eventually(|| app.get("/v1/sessions").send().expect(200)["sessions"] == json!([]));
}

#[test]
fn clients_of_one_address_that_connect_too_often_are_refused() {
    let app = TestApp::start_with_webrtc();
    let limited = (0..300).map(|_| app.validate("a")).find(|response| response.status == 429);
    let limited = limited.expect("the burst is smaller");
    assert_eq!(limited.headers["access-control-allow-origin"], "*");
    assert!(limited.headers.contains_key("retry-after"));
    app.advance(Duration::from_secs(60));
    assert_eq!(app.validate("a").status, 401);
}

#[test]
fn pages_of_any_origin_may_probe_the_server() {
    let app = TestApp::start_with_webrtc();
    let probe = Request::new("HEAD", format!("{}/", app.api)).send();
    assert_eq!((probe.status, probe.headers["access-control-allow-origin"].as_str()), (200, "*"));
    let preflight = Request::new("OPTIONS", format!("{}/rtc/v1/validate", app.api)).send();
    assert_eq!((preflight.status, preflight.headers["access-control-allow-headers"].as_str()), (204, "Authorization"));
}

#[test]
fn without_webrtc_there_is_no_signalling() {
    let app = TestApp::start();
    app.get("/rtc/validate").anonymous().send().expect_error(404, "not_found", None);
}
