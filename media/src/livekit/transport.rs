//! What the API client and the websocket connection share: where they call, and their descriptions of network errors for the
//! operator.

use std::io;
use std::time::Duration;

use conclave_outbound::Error;

/// Returns where the server at `url` is called: `http://host:7880` for `ws://host:7880/`.
pub(super) fn http_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    };
    format!("{scheme}://{}", rest.trim_end_matches('/'))
}

/// Describes why an HTTP request to LiveKit failed.
pub(super) fn describe_http(error: &Error, timeout: Duration) -> String {
    match error {
        Error::Timeout(_) => timed_out(timeout),
        Error::HostNotFound => "LiveKit's name is not resolved: check media.url".into(),
        Error::Io(error) => describe_io(error, timeout),
        Error::ConnectionFailed => "LiveKit is not reached: check media.url".into(),
        Error::Rustls(error) => format!("TLS with LiveKit failed: {error}"),
        Error::Tls(_) | Error::TlsRequired => "TLS with LiveKit failed".into(),
        Error::Protocol(_) => "what answers at media.url does not speak HTTP as LiveKit does".into(),
        Error::BodyExceedsLimit(_) => "LiveKit's answer is too large".into(),
        _ => "the call to LiveKit could not be made: check media.url".into(),
    }
}

/// Describes why a connection to LiveKit failed.
fn describe_io(error: &io::Error, timeout: Duration) -> String {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::TimedOut | Kind::WouldBlock => timed_out(timeout),
        Kind::InvalidData => format!("TLS with LiveKit failed: {error}"),
        Kind::ConnectionRefused => "LiveKit refuses connections: is it running, and is media.url right?".into(),
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe | Kind::UnexpectedEof => {
            "the connection to LiveKit was closed before an answer".into()
        }
        Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable => {
            "LiveKit's address is not reachable: check media.url".into()
        }
        _ => "the connection to LiveKit failed".into(),
    }
}

fn timed_out(timeout: Duration) -> String {
    format!("LiveKit did not answer within {timeout:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_calls_is_derived_from_a_websocket_url() {
        assert_eq!(http_url("ws://127.0.0.1:7880"), "http://127.0.0.1:7880");
        assert_eq!(http_url("wss://live.example.org/"), "https://live.example.org");
        assert_eq!(http_url("https://example.org/lk/"), "https://example.org/lk");
    }
}
