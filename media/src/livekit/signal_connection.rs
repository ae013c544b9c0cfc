//! The websocket by which clients join a LiveKit room. LiveKit lists a participant as soon as the handshake is complete, so
//! this module sends and reads nothing after it.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use conclave_model::Secret;
use thiserror::Error;
use tungstenite::client::uri_mode;
use tungstenite::http::Uri;
use tungstenite::stream::{MaybeTlsStream, Mode};
use tungstenite::{ClientRequestBuilder, Error, HandshakeError, WebSocket};

use super::transport_error::describe_io;

/// An open signal connection. The participant leaves when it is dropped.
pub(super) struct SignalConnection(
    #[expect(dead_code, reason = "held open, not used")] WebSocket<MaybeTlsStream<TcpStream>>,
);

/// Why no signal connection could be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ConnectError {
    /// The server answered the handshake with this HTTP status.
    #[error("{0} came back for a websocket: check what is in front of LiveKit")]
    Status(u16),
    /// There was no answer to the handshake. Holds the description for the operator.
    #[error("{0}")]
    Failed(String),
}

/// Joins the room that `token` names, on the server at `url`.
pub(super) async fn connect(url: &str, token: Secret, timeout: Duration) -> Result<SignalConnection, ConnectError> {
    let signal_url = signal_url(url);
    let connected = tokio::task::spawn_blocking(move || connect_blocking(&signal_url, &token, timeout));
    connected.await.unwrap_or_else(|_| Err(ConnectError::Failed("the websocket was cancelled".into())))
}

fn connect_blocking(signal_url: &str, token: &Secret, timeout: Duration) -> Result<SignalConnection, ConnectError> {
    let failed = |description: &str| ConnectError::Failed(description.into());
    let io_failed = |error: &io::Error| ConnectError::Failed(describe_io(error, timeout));
    let uri: Uri = signal_url.parse().map_err(|_| failed("media.url is no address: check it"))?;
    let stream = open_stream(&uri, timeout).map_err(|error| io_failed(&error))?;
    let request = ClientRequestBuilder::new(uri).with_header("Authorization", format!("Bearer {}", token.reveal()));
    match tungstenite::client_tls(request, stream) {
        Ok((socket, _)) => Ok(SignalConnection(socket)),
        Err(HandshakeError::Failure(Error::Http(response))) => Err(ConnectError::Status(response.status().as_u16())),
        Err(HandshakeError::Failure(Error::Io(error))) => Err(io_failed(&error)),
        Err(HandshakeError::Failure(Error::Tls(error))) => {
            Err(ConnectError::Failed(format!("TLS with LiveKit failed: {error}")))
        }
        Err(HandshakeError::Failure(_)) => Err(failed("what answers at media.url speaks no websocket")),
        // The read timeout of the stream expired.
        Err(HandshakeError::Interrupted(_)) => Err(io_failed(&io::ErrorKind::TimedOut.into())),
    }
}

/// Opens a TCP connection to the first address of the host that accepts one.
fn open_stream(uri: &Uri, timeout: Duration) -> io::Result<TcpStream> {
    let default_port = match uri_mode(uri) {
        Ok(Mode::Tls) => 443,
        _ => 80,
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let mut last_error = io::ErrorKind::AddrNotAvailable.into();
    for address in (host, uri.port_u16().unwrap_or(default_port)).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// Returns the websocket url of the server at `url`: `wss://host/rtc` for `https://host/`. Every version of LiveKit
/// supports protocol 9.
fn signal_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("ws", url));
    let scheme = match scheme {
        "http" => "ws",
        "https" => "wss",
        other => other,
    };
    format!("{scheme}://{}/rtc?protocol=9&auto_subscribe=0", rest.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_signal_url_is_derived_from_an_api_url() {
        assert_eq!(signal_url("http://127.0.0.1:7880"), "ws://127.0.0.1:7880/rtc?protocol=9&auto_subscribe=0");
        assert_eq!(signal_url("https://example.org/lk/"), "wss://example.org/lk/rtc?protocol=9&auto_subscribe=0");
        assert_eq!(signal_url("wss://example.org"), "wss://example.org/rtc?protocol=9&auto_subscribe=0");
    }

    #[test]
    fn connecting_fails_if_the_server_closes_during_the_tls_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("wss://{}/rtc", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || drop(listener.accept()));
        let connected = connect_blocking(&url, &Secret::new("t"), Duration::from_secs(5)).map(drop);
        assert!(matches!(connected, Err(ConnectError::Failed(_))), "{connected:?}");
        server.join().unwrap();
    }

    #[test]
    fn connecting_fails_after_the_timeout_if_the_server_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}/rtc", listener.local_addr().unwrap());
        let connected = connect_blocking(&url, &Secret::new("t"), Duration::from_millis(50)).map(drop);
        assert_eq!(connected, Err(ConnectError::Failed("LiveKit did not answer within 50ms".into())));
    }
}
