//! A TLS client that trusts one certificate, with the test's clock.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use conclave_model::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::WAIT_LIMIT;

/// A connection after its handshake.
pub type Connection = StreamOwned<ClientConnection, TcpStream>;

/// A fixed clock.
#[derive(Debug)]
struct Standing(Timestamp);

impl TimeProvider for Standing {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(
            self.0.millis().unsigned_abs(),
        )))
    }
}

/// Connects to a local port under a name, trusting this certificate only.
pub fn connect(port: u16, name: &str, trusted: &[u8], now: Timestamp) -> io::Result<Connection> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(trusted).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_details(provider, Arc::new(Standing(now)));
    let config = config.with_safe_default_protocol_versions().unwrap();
    shake_hands(
        ([127, 0, 0, 1], port).into(),
        name,
        config.with_root_certificates(roots).with_no_client_auth(),
    )
}

/// Connects to an address under a name.
pub fn shake_hands(
    address: SocketAddr,
    name: &str,
    config: ClientConfig,
) -> io::Result<Connection> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(WAIT_LIMIT))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(tls, tcp))
}
