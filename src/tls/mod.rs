//! TLS on the API listener.
//!
//! [`Certificates`] holds the certificate of new connections, which changes while the server runs: [`files`] reads it from
//! files and follows their changes, [`acme`] obtains and renews it. [`TlsAcceptor`] does the handshake of a connection, and
//! [`Socket`] is what becomes of it.

mod acceptor;
pub mod acme;
mod certificate;
pub mod challenge;
mod connection;
pub mod files;
mod status;

pub use acceptor::TlsAcceptor;
pub use certificate::{Certificate, CertificateError, Certificates};
pub use connection::Socket;
pub use status::TlsStatus;
