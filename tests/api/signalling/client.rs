//! A client for LiveKit's signalling, without media.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use livekit_protocol as proto;
use prost::Message as _;
use proto::signal_request::Message as SignalRequest;
use proto::signal_response::Message as SignalResponse;
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{HandshakeError, Message, WebSocket};

use crate::support::{Response, TestApp, WAIT_LIMIT};

/// A client's WebSocket.
pub struct Client(pub WebSocket<Connection>);

/// A client's connection. After the server closes it, it can still be read to its end: a write, such as the response to a ping, does not
/// fail then, because tungstenite would stop reading.
pub struct Connection(pub TcpStream);

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                ) =>
            {
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Client {
    pub fn connect(app: &TestApp, path: &str) -> Result<Self, Box<tungstenite::Error>> {
        Self::connect_as(app, path, "tests")
    }

    /// Connects with this `user-agent`.
    pub fn connect_as(
        app: &TestApp,
        path: &str,
        user_agent: &'static str,
    ) -> Result<Self, Box<tungstenite::Error>> {
        let url = format!("{}{path}", app.api.replacen("http", "ws", 1));
        let mut request = url.into_client_request().unwrap();
        request
            .headers_mut()
            .insert("user-agent", HeaderValue::from_static(user_agent));
        let stream = TcpStream::connect(app.api.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        match tungstenite::client(request, Connection(stream)) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(HandshakeError::Failure(error)) => Err(Box::new(error)),
            Err(HandshakeError::Interrupted(_)) => panic!("no answer"),
        }
    }

    pub fn send(&mut self, message: SignalRequest) {
        let frame = proto::SignalRequest {
            message: Some(message),
        }
        .encode_to_vec();
        self.0.send(Message::binary(frame)).unwrap();
    }

    /// Returns the next message; `None` once the WebSocket is closed.
    pub fn next(&mut self) -> Option<SignalResponse> {
        loop {
            match self.0.read() {
                Ok(Message::Binary(frame)) => {
                    return proto::SignalResponse::decode(frame).unwrap().message;
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub fn until<T>(&mut self, wanted: impl Fn(SignalResponse) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next().expect("a message")) {
                return found;
            }
        }
    }
}

impl Client {
    /// Returns the participant's sid from the first message.
    pub fn sid(&mut self) -> String {
        self.until(|response| match response {
            SignalResponse::Join(join) => join.participant.map(|participant| participant.sid),
            _ => None,
        })
    }

    /// Expects an answer to a ping: the client's session continues.
    pub fn expect_pong(&mut self) {
        self.send(SignalRequest::PingReq(proto::Ping {
            timestamp: 7,
            rtt: 0,
        }));
        self.until(|response| matches!(response, SignalResponse::PongResp(_)).then_some(()));
    }

    /// Expects that the client may resume.
    pub fn expect_resume(&mut self) {
        self.until(|response| matches!(response, SignalResponse::Reconnect(_)).then_some(()));
    }

    /// Expects that the client must join anew.
    #[track_caller]
    pub fn expect_no_resume(&mut self) {
        let Some(SignalResponse::Leave(leave)) = self.next() else {
            panic!("a leave")
        };
        assert_eq!(leave.action(), proto::leave_request::Action::Reconnect);
    }

    /// Expects a disconnect because the client's identity has joined again.
    #[track_caller]
    pub fn expect_leave(&mut self) {
        let leave = self.until(|response| {
            if let SignalResponse::Leave(leave) = response {
                Some(leave)
            } else {
                None
            }
        });
        assert_eq!(leave.reason(), proto::DisconnectReason::DuplicateIdentity);
    }
}

pub fn query(token: &str) -> String {
    format!("?access_token={token}&protocol=16&sdk=js")
}

pub fn status_of(error: &tungstenite::Error) -> u16 {
    match error {
        tungstenite::Error::Http(response) => response.status().as_u16(),
        other => panic!("{other}"),
    }
}

#[track_caller]
pub fn assert_refused(response: &Response, status: u16, text: &str) {
    let body = String::from_utf8_lossy(&response.body);
    assert_eq!(
        (
            response.status,
            response.headers["access-control-allow-origin"].as_str()
        ),
        (status, "*"),
        "{body}"
    );
    assert!(body.contains(text), "{body}");
}

impl TestApp {
    pub fn validate(&self, token: &str) -> Response {
        self.get(&format!("/rtc/validate{}", query(token)))
            .anonymous()
            .send()
    }

    /// Returns the number of clients that exceeded a limit.
    pub fn excesses(&self, limit: &str) -> u64 {
        let metrics = self.admin("GET", "/metrics").send().text();
        let name = format!("conclave_rtc_excesses_total{{limit=\"{limit}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.expect("the metric is shown before there is one")
            .parse()
            .unwrap()
    }
}
