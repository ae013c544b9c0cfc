//! TLS on the API listener.
//!
//! [`Certificates`] holds the certificate of new connections, which changes while the server runs; [`files`] reads it from
//! files and follows their changes. [`TlsAcceptor`] does the handshake of a connection, and [`Socket`] is what becomes of it.

mod acceptor;
mod certificate;
pub mod files;
mod socket;

pub use acceptor::TlsAcceptor;
pub use certificate::{Certificate, CertificateError, Certificates};
pub use socket::Socket;
