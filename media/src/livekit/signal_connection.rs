//! The WebSocket by which clients join a LiveKit room. LiveKit lists a participant as soon as the handshake is
//! complete, so this module sends and reads nothing afterwards: it performs the handshake through HTTP and keeps the
//! connection open.

use std::sync::Arc;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use conclave_model::Secret;
use conclave_model::secret::{BASE62, random_text};
use conclave_outbound::http::{HeaderValue, StatusCode};
use conclave_outbound::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport,
};
use conclave_outbound::{Agent, DefaultResolver, Error, config};
use parking_lot::Mutex;
use sha1::{Digest, Sha1};

use super::twirp::{describe_http, http_url};

/// String that a server hashes with the handshake's key (RFC 6455, section 1.3).
const ACCEPTED_WITH: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// An open signal connection. Dropping it makes the participant leave.
pub(super) struct SignalConnection(
    #[expect(dead_code, reason = "held open, not used")] TransportSlot,
);

/// Reason why no signal connection could be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConnectError {
    /// The server responded to the handshake with this HTTP status.
    #[error("the response to a WebSocket handshake was {0}: check the proxy in front of LiveKit")]
    Status(u16),
    /// The handshake had no response. Holds the description for the operator.
    #[error("{0}")]
    Failed(String),
}

/// Joins the room in `token` on the server at `url`.
pub(super) async fn connect(
    url: &str,
    token: Secret,
    timeout: Duration,
) -> Result<SignalConnection, ConnectError> {
    let signal_url = signal_url(url);
    let connected =
        // The HTTP client blocks.
        tokio::task::spawn_blocking(move || connect_blocking(&signal_url, &token, timeout));
    connected
        .await
        .unwrap_or_else(|_| Err(ConnectError::Failed("the websocket was cancelled".into())))
}

fn connect_blocking(
    signal_url: &str,
    token: &Secret,
    timeout: Duration,
) -> Result<SignalConnection, ConnectError> {
    let slot = TransportSlot::default();
    let connector = DefaultConnector::default().chain(RetainTransports(Arc::clone(&slot)));
    // Covers the handshake only: the open connection is not read.
    let config = config().timeout_global(Some(timeout)).build();
    // 16 random bytes in base64 (RFC 6455, section 4.1).
    let key = BASE64_STANDARD.encode(random_text(16, BASE62));
    let request = Agent::with_parts(config, connector, DefaultResolver::default())
        .get(signal_url)
        // In a header, unlike browsers' `access_token` parameter, so that no access log contains the token.
        .header("Authorization", format!("Bearer {}", token.reveal()))
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", &key);
    let response = request
        .call()
        .map_err(|error| ConnectError::Failed(describe_http(&error, timeout)))?;
    let accepted = response
        .headers()
        .get("Sec-WebSocket-Accept")
        .map(HeaderValue::as_bytes);
    // The hash proves that the server speaks WebSocket and did not merely echo the status (RFC 6455, section 4.1).
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS if accepted == Some(accept(&key).as_bytes()) => {
            Ok(SignalConnection(slot))
        }
        StatusCode::SWITCHING_PROTOCOLS => Err(ConnectError::Failed(
            "the server at media.url does not speak WebSocket".into(),
        )),
        // Includes 404, with which LiveKit refuses to create a room.
        status => Err(ConnectError::Status(status.as_u16())),
    }
}

/// Returns a server's accept value for this key.
fn accept(key: &str) -> String {
    BASE64_STANDARD.encode(
        Sha1::new()
            .chain_update(key)
            .chain_update(ACCEPTED_WITH)
            .finalize(),
    )
}

/// Returns the WebSocket's URL on the server at `url`: `https://host/rtc` for `wss://host/`. Every version of LiveKit
/// supports protocol 9.
fn signal_url(url: &str) -> String {
    format!("{}/rtc?protocol=9&auto_subscribe=0", http_url(url))
}

/// Receives a connection that its HTTP client drops: after a response that switches protocols, it is open and unused.
type TransportSlot = Arc<Mutex<Option<Box<dyn Transport>>>>;

/// Puts an HTTP client's connections into a slot.
#[derive(Debug)]
struct RetainTransports(TransportSlot);

impl Connector<Box<dyn Transport>> for RetainTransports {
    type Out = RetainedTransport;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        opened: Option<Box<dyn Transport>>,
    ) -> Result<Option<RetainedTransport>, Error> {
        // Last in the chain of connectors, so it wraps the connection after TLS.
        Ok(opened.map(|transport| RetainedTransport {
            transport,
            slot: Arc::clone(&self.0),
        }))
    }
}

/// A connection that moves into the slot when it is dropped.
#[derive(Debug)]
struct RetainedTransport {
    transport: Box<dyn Transport>,
    slot: TransportSlot,
}

impl Drop for RetainedTransport {
    fn drop(&mut self) {
        // A closed transport takes its place, since `drop` cannot move a field out.
        let transport = std::mem::replace(&mut self.transport, Box::new(()));
        *self.slot.lock() = Some(transport);
    }
}

impl Transport for RetainedTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.transport.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.transport.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }

    fn is_tls(&self) -> bool {
        self.transport.is_tls()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_signal_url_is_derived_from_an_api_url() {
        assert_eq!(
            signal_url("http://127.0.0.1:7880"),
            "http://127.0.0.1:7880/rtc?protocol=9&auto_subscribe=0"
        );
        assert_eq!(
            signal_url("https://example.org/lk/"),
            "https://example.org/lk/rtc?protocol=9&auto_subscribe=0"
        );
        assert_eq!(
            signal_url("wss://example.org"),
            "https://example.org/rtc?protocol=9&auto_subscribe=0"
        );
    }

    #[test]
    fn a_server_answers_a_key_as_the_standard_says() {
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    /// Connects to a server that answers with this head, and returns its end of the connection beside the result.
    fn answered(head: &'static str) -> (Result<SignalConnection, ConnectError>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = signal_url(&format!("ws://{}", listener.local_addr().unwrap()));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let key = request
                .lines()
                .find_map(|line| line.strip_prefix("sec-websocket-key: "))
                .unwrap();
            write!(stream, "{}\r\n\r\n", head.replace("ACCEPT", &accept(key))).unwrap();
            stream
        });
        (
            connect_blocking(&url, &Secret::new("t"), Duration::from_secs(60)),
            server.join().unwrap(),
        )
    }

    #[test]
    fn the_connection_is_open_until_it_is_dropped() {
        let switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: ACCEPT";
        let (connection, mut server) = answered(switched);
        let connection = connection.unwrap();
        server.set_nonblocking(true).unwrap();
        assert_eq!(
            server.read(&mut [0]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        server.set_nonblocking(false).unwrap();
        drop(connection);
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn connecting_fails_if_the_server_does_not_switch_to_websockets() {
        let other_key = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        let (connected, _) = answered(other_key);
        assert!(
            matches!(connected, Err(ConnectError::Failed(text)) if text.contains("does not speak WebSocket"))
        );
        let (connected, _) = answered("HTTP/1.1 404 Not Found\r\nContent-Length: 0");
        assert!(matches!(connected, Err(ConnectError::Status(404))));
    }

    #[test]
    fn connecting_fails_if_the_server_closes_during_the_tls_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = signal_url(&format!("wss://{}", listener.local_addr().unwrap()));
        let server = std::thread::spawn(move || drop(listener.accept()));
        let connected =
            connect_blocking(&url, &Secret::new("t"), Duration::from_secs(60)).map(drop);
        assert!(
            matches!(connected, Err(ConnectError::Failed(_))),
            "{connected:?}"
        );
        server.join().unwrap();
    }

    #[test]
    fn connecting_fails_after_the_timeout_if_the_server_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = signal_url(&format!("ws://{}", listener.local_addr().unwrap()));
        let connected =
            connect_blocking(&url, &Secret::new("t"), Duration::from_millis(50)).map(drop);
        assert_eq!(
            connected,
            Err(ConnectError::Failed(
                "LiveKit did not answer within 50ms".into()
            ))
        );
    }
}
