//! Reasons why a request has no response.

use std::io;

use rustls::CertificateError;
use ureq::Error;

use crate::resolver::AddressBlocked;

/// Reason why a request has no response, without URL, secrets or addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFailure {
    /// A timeout expired.
    #[error("timed out")]
    TimedOut,
    /// The host name has no address.
    #[error("name not resolved")]
    NameNotResolved,
    /// The host is, or resolves to, a forbidden address.
    #[error("address blocked")]
    AddressBlocked,
    /// The host refuses connections.
    #[error("connection refused")]
    Refused,
    /// There is no route to the address.
    #[error("address not reachable")]
    Unreachable,
    /// The peer closed the connection.
    #[error("connection closed before an answer")]
    Closed,
    /// The connection failed for another reason.
    #[error("connection failed")]
    ConnectionFailed,
    /// The certificate's issuer is not trusted.
    #[error("TLS failed: the certificate is of an issuer that is not trusted")]
    UnknownIssuer,
    /// Another TLS failure.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The response is not valid HTTP.
    #[error("the answer is not valid HTTP")]
    NotHttp,
    /// The response headers exceed the maximum.
    #[error("the answer's headers are too large")]
    LargeHead,
    /// The response body exceeds the maximum.
    #[error("the answer's body is too large")]
    LargeBody,
    /// The request is invalid.
    #[error("the request could not be made")]
    NotSent,
}

impl From<&Error> for RequestFailure {
    fn from(error: &Error) -> Self {
        match error {
            Error::Timeout(_) => Self::TimedOut,
            Error::HostNotFound => Self::NameNotResolved,
            // From the resolver in this crate.
            Error::Other(error) if error.is::<AddressBlocked>() => Self::AddressBlocked,
            // ureq returns errors of the socket and of rustls unchanged.
            Error::Io(error) => Self::from(error),
            Error::ConnectionFailed => Self::ConnectionFailed,
            Error::Rustls(error) => Self::from(error),
            Error::Tls(reason) => Self::Tls((*reason).to_owned()),
            Error::Protocol(_) => Self::NotHttp,
            Error::LargeResponseHeader(..) => Self::LargeHead,
            Error::BodyExceedsLimit(_) => Self::LargeBody,
            // Errors in building the request, such as an invalid header.
            _ => Self::NotSent,
        }
    }
}

impl From<&io::Error> for RequestFailure {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            // A socket's read timeout is reported as either, depending on the platform.
            Kind::TimedOut | Kind::WouldBlock => Self::TimedOut,
            // rustls wraps certificate and record errors like this.
            Kind::InvalidData => match error
                .get_ref()
                .and_then(|cause| cause.downcast_ref::<rustls::Error>())
            {
                Some(error) => Self::from(error),
                None => Self::Tls(error.to_string()),
            },
            Kind::ConnectionRefused => Self::Refused,
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable => {
                Self::Unreachable
            }
            Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::UnexpectedEof => Self::Closed,
            _ => Self::ConnectionFailed,
        }
    }
}

impl From<&rustls::Error> for RequestFailure {
    fn from(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                Self::UnknownIssuer
            }
            // rustls's texts name no hosts.
            _ => Self::Tls(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_http_client_has_its_reason() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        for (error, expected) in [
            (Error::HostNotFound, RequestFailure::NameNotResolved),
            (
                Error::Other(
                    AddressBlocked {
                        host: "internal".to_owned(),
                    }
                    .into(),
                ),
                RequestFailure::AddressBlocked,
            ),
            (
                Error::Other("another error".into()),
                RequestFailure::NotSent,
            ),
            (Error::Io(refused), RequestFailure::Refused),
            (Error::ConnectionFailed, RequestFailure::ConnectionFailed),
            (
                Error::Rustls(rustls::Error::DecryptError),
                RequestFailure::Tls(rustls::Error::DecryptError.to_string()),
            ),
            (
                Error::Rustls(CertificateError::UnknownIssuer.into()),
                RequestFailure::UnknownIssuer,
            ),
            (
                Error::Io(io::Error::new(
                    io::ErrorKind::InvalidData,
                    rustls::Error::from(CertificateError::UnknownIssuer),
                )),
                RequestFailure::UnknownIssuer,
            ),
            (
                Error::Tls("no certificate"),
                RequestFailure::Tls("no certificate".to_owned()),
            ),
            (Error::LargeResponseHeader(2, 1), RequestFailure::LargeHead),
            (Error::BodyExceedsLimit(1), RequestFailure::LargeBody),
            (Error::TooManyRedirects, RequestFailure::NotSent),
        ] {
            assert_eq!(RequestFailure::from(&error), expected, "{error}");
        }
    }

    #[test]
    fn each_error_of_a_socket_has_its_reason() {
        use io::ErrorKind as Kind;
        for (kinds, expected) in [
            (
                &[Kind::TimedOut, Kind::WouldBlock][..],
                RequestFailure::TimedOut,
            ),
            (
                &[Kind::InvalidData],
                RequestFailure::Tls("invalid data".to_owned()),
            ),
            (&[Kind::ConnectionRefused], RequestFailure::Refused),
            (
                &[
                    Kind::HostUnreachable,
                    Kind::NetworkUnreachable,
                    Kind::AddrNotAvailable,
                ],
                RequestFailure::Unreachable,
            ),
            (
                &[
                    Kind::ConnectionReset,
                    Kind::ConnectionAborted,
                    Kind::BrokenPipe,
                    Kind::UnexpectedEof,
                ],
                RequestFailure::Closed,
            ),
            (&[Kind::PermissionDenied], RequestFailure::ConnectionFailed),
        ] {
            for kind in kinds {
                assert_eq!(
                    RequestFailure::from(&io::Error::from(*kind)),
                    expected,
                    "{kind}"
                );
            }
        }
    }
}
