//! Descriptions of network errors for the operator, shared by the API client and the websocket connection.

use std::io;
use std::time::Duration;

/// Describes why an HTTP request to LiveKit failed.
pub(super) fn describe_http(error: &ureq::Error, timeout: Duration) -> String {
    match error {
        ureq::Error::Timeout(_) => timed_out(timeout),
        ureq::Error::HostNotFound => "LiveKit's name is not resolved: check media.url".into(),
        ureq::Error::Io(error) => describe_io(error, timeout),
        ureq::Error::ConnectionFailed => "LiveKit is not reached: check media.url".into(),
        ureq::Error::Rustls(error) => format!("TLS with LiveKit failed: {error}"),
        ureq::Error::Tls(_) | ureq::Error::TlsRequired => "TLS with LiveKit failed".into(),
        ureq::Error::Protocol(_) => "what answers at media.url does not speak HTTP as LiveKit does".into(),
        ureq::Error::BodyExceedsLimit(_) => "LiveKit's answer is too large".into(),
        _ => "the call to LiveKit could not be made: check media.url".into(),
    }
}

/// Describes why a connection to LiveKit failed.
pub(super) fn describe_io(error: &io::Error, timeout: Duration) -> String {
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
