//! The way by which clients come in: a websocket. Only the door is opened, since a participant exists from then on; nothing
//! is ever said or listened to.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use conclave_model::Secret;
use tungstenite::client::uri_mode;
use tungstenite::http::Uri;
use tungstenite::stream::{MaybeTlsStream, Mode};
use tungstenite::{ClientRequestBuilder, Error, HandshakeError, WebSocket};

use super::twirp::describe_io;

/// An open door. Whoever drops it has left.
pub(super) struct Door(#[expect(dead_code, reason = "held open, not used")] WebSocket<MaybeTlsStream<TcpStream>>);

/// Why a door stayed shut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unopened {
    /// It was answered, with a status that is no door.
    Status(u16),
    /// It was not answered; says why.
    Failed(String),
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status} came back for a websocket: check what is in front of LiveKit"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Comes in at `url`, by a token that says where to and as whom.
pub(super) async fn enter(url: &str, token: Secret, timeout: Duration) -> Result<Door, Unopened> {
    let address = address(url);
    let opened = tokio::task::spawn_blocking(move || open(&address, &token, timeout));
    opened.await.unwrap_or_else(|_| Err(Unopened::Failed("the websocket was given up".into())))
}

fn open(address: &str, token: &Secret, timeout: Duration) -> Result<Door, Unopened> {
    let failed = |why: &str| Unopened::Failed(why.into());
    let uri: Uri = address.parse().map_err(|_| failed("media.url is no address: check it"))?;
    let stream = connect(&uri, timeout).map_err(|error| Unopened::Failed(describe_io(&error, timeout)))?;
    let request = ClientRequestBuilder::new(uri).with_header("Authorization", format!("Bearer {}", token.reveal()));
    match tungstenite::client_tls(request, stream) {
        Ok((socket, _)) => Ok(Door(socket)),
        Err(HandshakeError::Failure(Error::Http(answer))) => Err(Unopened::Status(answer.status().as_u16())),
        Err(HandshakeError::Failure(Error::Io(error))) => Err(Unopened::Failed(describe_io(&error, timeout))),
        Err(HandshakeError::Failure(Error::Tls(error))) => {
            Err(Unopened::Failed(format!("TLS with LiveKit failed: {error}")))
        }
        Err(HandshakeError::Failure(_)) => Err(failed("what answers at media.url speaks no websocket")),
        // Reading ran into the time limit.
        Err(HandshakeError::Interrupted(_)) => {
            Err(Unopened::Failed(describe_io(&io::ErrorKind::TimedOut.into(), timeout)))
        }
    }
}

fn connect(uri: &Uri, timeout: Duration) -> io::Result<TcpStream> {
    let port = match uri_mode(uri) {
        Ok(Mode::Tls) => 443,
        _ => 80,
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let mut last = io::ErrorKind::AddrNotAvailable.into();
    for address in (host, uri.port_u16().unwrap_or(port)).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// `https://host/` is `wss://host/rtc`. A protocol that every LiveKit knows.
fn address(url: &str) -> String {
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
    fn an_api_address_leads_to_the_websocket_beside_it() {
        assert_eq!(address("http://127.0.0.1:7880"), "ws://127.0.0.1:7880/rtc?protocol=9&auto_subscribe=0");
        assert_eq!(address("https://example.org/lk/"), "wss://example.org/lk/rtc?protocol=9&auto_subscribe=0");
        assert_eq!(address("wss://example.org"), "wss://example.org/rtc?protocol=9&auto_subscribe=0");
    }

    #[test]
    fn a_door_behind_which_nobody_speaks_tls_stays_shut() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("wss://{}/rtc", listener.local_addr().unwrap());
        let closes = std::thread::spawn(move || drop(listener.accept()));
        let opened = open(&url, &Secret::new("t"), Duration::from_secs(5)).map(drop);
        assert!(matches!(opened, Err(Unopened::Failed(_))), "{opened:?}");
        closes.join().unwrap();
    }

    #[test]
    fn a_door_that_nobody_answers_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}/rtc", listener.local_addr().unwrap());
        let opened = open(&url, &Secret::new("t"), Duration::from_millis(50)).map(drop);
        assert_eq!(opened, Err(Unopened::Failed("LiveKit did not answer within 50ms".into())));
    }
}
