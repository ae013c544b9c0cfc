//! Why a request has no response.

use std::io;

use rustls::CertificateError;
use ureq::Error;

use crate::resolver::AddressBlocked;

/// Why a request has no response, in words without its url, secrets or addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A deadline has passed.
    #[error("timed out")]
    TimedOut,
    /// The host's name has no address.
    #[error("name not resolved")]
    NameNotResolved,
    /// The host is, or resolves to, an address that is not permitted.
    #[error("address blocked")]
    AddressBlocked,
    /// The host refuses connections.
    #[error("connection refused")]
    Refused,
    /// There is no route to the address.
    #[error("address not reachable")]
    Unreachable,
    /// The other side has closed the connection.
    #[error("connection closed before an answer")]
    Closed,
    /// The connection failed for another reason.
    #[error("connection failed")]
    ConnectionFailed,
    /// The certificate is of an issuer that is not trusted.
    #[error("TLS failed: the certificate is of an issuer that is not trusted")]
    UnknownIssuer,
    /// What else is wrong with the certificate or the encryption.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The response does not follow HTTP.
    #[error("the answer is not valid HTTP")]
    NotHttp,
    /// The response has more headers than are read.
    #[error("the answer's headers are too large")]
    LargeHead,
    /// The response's body is longer than what is read.
    #[error("the answer's body is too large")]
    LargeBody,
    /// The request is not one that can be sent.
    #[error("the request could not be made")]
    NotSent,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            Error::Timeout(_) => Self::TimedOut,
            Error::HostNotFound => Self::NameNotResolved,
            Error::Other(error) if error.is::<AddressBlocked>() => Self::AddressBlocked,
            Error::Io(error) => Self::from(error),
            Error::ConnectionFailed => Self::ConnectionFailed,
            Error::Rustls(error) => Self::from(error),
            Error::Tls(reason) => Self::Tls((*reason).to_owned()),
            Error::Protocol(_) => Self::NotHttp,
            Error::LargeResponseHeader(..) => Self::LargeHead,
            Error::BodyExceedsLimit(_) => Self::LargeBody,
            _ => Self::NotSent,
        }
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::TimedOut | Kind::WouldBlock => Self::TimedOut,
            // What rustls finds wrong with a certificate or a record comes wrapped this way.
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

impl From<&rustls::Error> for Failure {
    fn from(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                Self::UnknownIssuer
            }
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
            (Error::HostNotFound, Failure::NameNotResolved),
            (
                Error::Other(
                    AddressBlocked {
                        host: "internal".to_owned(),
                    }
                    .into(),
                ),
                Failure::AddressBlocked,
            ),
            (Error::Other("another error".into()), Failure::NotSent),
            (Error::Io(refused), Failure::Refused),
            (Error::ConnectionFailed, Failure::ConnectionFailed),
            (
                Error::Rustls(rustls::Error::DecryptError),
                Failure::Tls(rustls::Error::DecryptError.to_string()),
            ),
            (
                Error::Rustls(CertificateError::UnknownIssuer.into()),
                Failure::UnknownIssuer,
            ),
            (
                Error::Io(io::Error::new(
                    io::ErrorKind::InvalidData,
                    rustls::Error::from(CertificateError::UnknownIssuer),
                )),
                Failure::UnknownIssuer,
            ),
            (
                Error::Tls("no certificate"),
                Failure::Tls("no certificate".to_owned()),
            ),
            (Error::LargeResponseHeader(2, 1), Failure::LargeHead),
            (Error::BodyExceedsLimit(1), Failure::LargeBody),
            (Error::TooManyRedirects, Failure::NotSent),
        ] {
            assert_eq!(Failure::from(&error), expected, "{error}");
        }
    }

    #[test]
    fn each_error_of_a_socket_has_its_reason() {
        use io::ErrorKind as Kind;
        for (kinds, expected) in [
            (&[Kind::TimedOut, Kind::WouldBlock][..], Failure::TimedOut),
            (
                &[Kind::InvalidData],
                Failure::Tls("invalid data".to_owned()),
            ),
            (&[Kind::ConnectionRefused], Failure::Refused),
            (
                &[
                    Kind::HostUnreachable,
                    Kind::NetworkUnreachable,
                    Kind::AddrNotAvailable,
                ],
                Failure::Unreachable,
            ),
            (
                &[
                    Kind::ConnectionReset,
                    Kind::ConnectionAborted,
                    Kind::BrokenPipe,
                    Kind::UnexpectedEof,
                ],
                Failure::Closed,
            ),
            (&[Kind::PermissionDenied], Failure::ConnectionFailed),
        ] {
            for kind in kinds {
                assert_eq!(Failure::from(&io::Error::from(*kind)), expected, "{kind}");
            }
        }
    }
}
