//! TLS on the API listener.
//!
//! [`Certificates`] has the certificate for new connections, which changes while the server runs: [`files`] reads it from files and follows
//! their changes, [`acme`] obtains and renews it. [`TlsAcceptor`] does a connection's handshake, and returns a [`Socket`]. [`TlsStatus`]
//! serves requests about it: operators', and a CA's.

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

/// Current certificate, state of its renewal, and answer to a CA's challenge. Clones share all.
#[derive(Debug, Clone)]
pub struct TlsStatus {
    /// Answer to the current challenge.
    pub challenges: Challenges,
    certificates: Certificates,
    renewal: Option<watch::Receiver<RenewalStatus>>,
}

impl TlsStatus {
    /// Creates the status of certificates, with the renewal's state if the server renews them.
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

    /// Returns the current certificate's expiry, if there is one.
    pub fn expires(&self) -> Option<Timestamp> {
        self.certificates
            .current()
            .map(|certificate| certificate.not_after)
    }
}

impl fmt::Display for TlsStatus {
    /// Writes the certificate's names, its expiry, and the state of its renewal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Copied, so the lock is not held while the text is written.
        let renewal = self
            .renewal
            .as_ref()
            .map(|renewal| renewal.borrow().clone());
        match (self.certificates.current(), renewal) {
            (Some(present), None) => write!(f, "{}", present.summary()),
            (Some(present), Some(renewal)) if renewal.error.is_none() => {
                write!(
                    f,
                    "{}, due for renewal at {}",
                    present.summary(),
                    renewal.next
                )
            }
            (Some(present), Some(renewal)) => write!(f, "{}; {renewal}", present.summary()),
            // Until the first certificate, operators see why there is none.
            (None, Some(renewal)) => {
                write!(f, "no certificate for {} yet; {renewal}", renewal.domain)
            }
            (None, None) => f.write_str("no certificate"),
        }
    }
}
