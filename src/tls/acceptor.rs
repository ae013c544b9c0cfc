//! The handshake of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Certificates, Socket};

/// Time that a client has for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts TLS 1.2 and 1.3 for HTTP/1.1. Clones share the configuration.
#[derive(Clone)]
pub struct TlsAcceptor(tokio_rustls::TlsAcceptor);

impl TlsAcceptor {
    /// Accepts connections with these certificates.
    ///
    /// # Errors
    /// The library was built without the versions of the protocol.
    pub fn new(certificates: Certificates) -> Result<Self, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config).into()))
    }

    /// Does the handshake.
    ///
    /// # Errors
    /// The client does not speak TLS, offers nothing that is accepted, or takes longer than five seconds.
    pub async fn accept(&self, tcp: TcpStream) -> io::Result<Socket> {
        let stream = timeout(HANDSHAKE_TIMEOUT, self.0.accept(tcp)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        Ok(Socket::Tls(Box::new(stream)))
    }
}
