//! What a failed HTTP request says to the user who supplied its url.

use std::io;

use super::resolver::AddressBlocked;

/// Describes why a request got no response, without its url, secrets or addresses. `timed_out` is said of a timeout.
pub(crate) fn describe(error: &ureq::Error, timed_out: &str) -> String {
    match error {
        ureq::Error::Timeout(_) => timed_out.to_owned(),
        ureq::Error::HostNotFound => "name not resolved".to_owned(),
        ureq::Error::Io(error) => describe_io(error, timed_out),
        ureq::Error::Rustls(error) => format!("TLS failed: {error}"),
        ureq::Error::Tls(_) | ureq::Error::TlsRequired => "TLS failed".to_owned(),
        ureq::Error::Protocol(_) => "the answer is not valid HTTP".to_owned(),
        ureq::Error::LargeResponseHeader(..) => "the answer's headers are too large".to_owned(),
        error if is_blocked(error) => "address blocked".to_owned(),
        _ => "the request could not be made".to_owned(),
    }
}

fn describe_io(error: &io::Error, timed_out: &str) -> String {
    use io::ErrorKind as Kind;
    let words = match error.kind() {
        Kind::TimedOut | Kind::WouldBlock => timed_out,
        // What rustls finds wrong with a certificate or a record comes wrapped this way.
        Kind::InvalidData => return format!("TLS failed: {error}"),
        Kind::ConnectionRefused => "connection refused",
        Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable => "address not reachable",
        kind if is_closed_kind(kind) => "connection closed before an answer",
        _ => "connection failed",
    };
    words.to_owned()
}

/// Returns whether the host is, or resolves to, an address that is not permitted.
pub(crate) fn is_blocked(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Other(error) if error.is::<AddressBlocked>())
}

/// Returns whether the other side has closed the connection.
pub(crate) fn is_closed(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(error) if is_closed_kind(error.kind()))
}

const fn is_closed_kind(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as Kind;
    matches!(kind, Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe | Kind::UnexpectedEof)
}
