//! The handshake of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::challenge::{ACME_TLS, Challenges};
use super::{Certificates, Socket};

/// Time that a client has for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts TLS 1.2 and 1.3 for HTTP/1.1. Clones share the configuration.
#[derive(Clone)]
pub struct TlsAcceptor(tokio_rustls::TlsAcceptor);

impl TlsAcceptor {
    /// Accepts connections with these certificates, and those by which a CA verifies a challenge.
    ///
    /// # Errors
    /// The library was built without the versions of the protocol.
    pub fn new(certificates: Certificates, challenges: Challenges) -> Result<Self, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::new(Resolver {
            certificates,
            challenges,
        }));
        config.alpn_protocols = vec![b"http/1.1".to_vec(), ACME_TLS.to_vec()];
        Ok(Self(Arc::new(config).into()))
    }

    /// Does the handshake.
    ///
    /// # Errors
    /// There is no certificate yet. The client does not speak TLS, offers nothing that is accepted, takes longer than five
    /// seconds, or is a CA that has verified a challenge.
    pub async fn accept(&self, tcp: TcpStream) -> io::Result<Socket> {
        let handshake = timeout(HANDSHAKE_TIMEOUT, self.0.accept(tcp));
        let mut stream = handshake.await.map_err(|_| io::ErrorKind::TimedOut)??;
        if stream.get_ref().1.alpn_protocol() == Some(ACME_TLS) {
            // No data is exchanged (RFC 8737).
            stream.shutdown().await?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(Socket::Tls(Box::new(stream)))
    }
}

/// Chooses the certificate of a connection.
#[derive(Debug)]
struct Resolver {
    certificates: Certificates,
    challenges: Challenges,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A CA offers nothing else.
        if hello.alpn().is_some_and(|offered| offered.eq([ACME_TLS])) {
            return self.challenges.certificate(hello.server_name()?);
        }
        Some(self.certificates.current()?.key)
    }
}
