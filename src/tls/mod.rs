//! TLS on the API listener.
//!
//! [`Certificates`] holds the certificate of new connections, which changes while the server runs: [`files`] reads it from
//! files and follows their changes, [`acme`] obtains and renews it. [`TlsAcceptor`] does the handshake of a connection, and
//! [`Socket`] is what becomes of it. [`TlsStatus`] is what requests are answered about it: those of operators, and those of a CA.

pub mod acme;
mod certificate;
pub mod challenge;
mod connection;
pub mod files;

use std::fmt;

use conclave_model::Timestamp;
use tokio::sync::watch;

pub use certificate::{Certificate, CertificateError, Certificates};
pub use connection::{Socket, TlsAcceptor};

use acme::RenewalStatus;
use challenge::Challenges;

/// The present certificate, the state of its renewal, and the answer to the challenge of a CA. Clones share all.
#[derive(Debug, Clone)]
pub struct TlsStatus {
    /// The answer to the challenge under way.
    pub challenges: Challenges,
    certificates: Certificates,
    renewal: Option<watch::Receiver<RenewalStatus>>,
}

impl TlsStatus {
    /// The status of certificates, which the server renews if `renewal` is given.
    pub fn new(
        certificates: Certificates,
        challenges: Challenges,
        renewal: Option<watch::Receiver<RenewalStatus>>,
    ) -> Self {
        Self {
            challenges,
            certificates,
            renewal,
        }
    }

    /// Returns when the present certificate expires, if there is one.
    pub fn expires(&self) -> Option<Timestamp> {
        self.certificates
            .current()
            .map(|certificate| certificate.not_after)
    }
}

impl fmt::Display for TlsStatus {
    /// Writes the names of the certificate, until when it is valid, and the state of its renewal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renewal = self
            .renewal
            .as_ref()
            .map(|renewal| renewal.borrow().clone());
        match (self.certificates.current(), renewal) {
            (Some(present), None) => write!(f, "{}", present.summary()),
            (Some(present), Some(renewal)) if renewal.error.is_none() => {
                write!(
                    f,
                    "{}, to be renewed at {}",
                    present.summary(),
                    renewal.next
                )
            }
            (Some(present), Some(renewal)) => write!(f, "{}; {renewal}", present.summary()),
            (None, Some(renewal)) => {
                write!(f, "no certificate for {} yet; {renewal}", renewal.domain)
            }
            (None, None) => f.write_str("no certificate"),
        }
    }
}
