//! Encrypts the load's plain traffic, so that neither its requests nor its media need TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::BenchError;

/// A certificate for this machine, trusted only here.
pub struct Identity(rcgen::CertifiedKey<rcgen::KeyPair>);

impl Identity {
    pub fn new() -> Result<Self, BenchError> {
        Ok(Self(rcgen::generate_simple_self_signed([
            "localhost".to_owned()
        ])?))
    }

    /// Writes the certificate and its key.
    pub fn write(&self, certificate: &Path, key: &Path) -> Result<(), BenchError> {
        std::fs::write(certificate, self.0.cert.pem())?;
        Ok(std::fs::write(key, self.0.signing_key.serialize_pem())?)
    }

    /// Forwards connections over TLS to a server that has the certificate. Returns the listening address.
    pub fn connect_to(&self, server: SocketAddr) -> Result<SocketAddr, BenchError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.0.cert.der().to_vec()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let connector = TlsConnector::from(Arc::new(
            config.with_root_certificates(roots).with_no_client_auth(),
        ));
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // The thread ends with the process; a measurement has only a few servers.
        std::thread::spawn(move || runtime.block_on(serve(listener, server, connector)));
        Ok(address)
    }
}

async fn serve(listener: std::net::TcpListener, server: SocketAddr, connector: TlsConnector) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((plain, _)) = listener.accept().await {
        let connector = connector.clone();
        // Users of a failed connection notice the failure themselves.
        tokio::spawn(async move { pass_on(plain, server, connector).await.ok() });
    }
}

async fn pass_on(
    mut plain: TcpStream,
    server: SocketAddr,
    connector: TlsConnector,
) -> Result<(), BenchError> {
    let tcp = TcpStream::connect(server).await?;
    plain.set_nodelay(true)?;
    tcp.set_nodelay(true)?;
    let mut encrypted = connector
        .connect(ServerName::try_from("localhost")?, tcp)
        .await?;
    copy_bidirectional(&mut plain, &mut encrypted).await?;
    Ok(())
}
