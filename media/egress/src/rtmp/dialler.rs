//! Connects to receivers: resolves their names, checks what is dialled, and verifies their certificates.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::address::AddressFilter;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::endpoint::Endpoint;
use super::eyeballs;

/// How long the connection to one address may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long nothing may be written, and how long a receiver may not take what was written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Finds the addresses of a name. Blocks.
type Resolve = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// What connects to receivers. Clones share it.
#[derive(Clone)]
pub struct Dialler {
    filter: AddressFilter,
    tls: Arc<ClientConfig>,
    resolve: Resolve,
}

impl Dialler {
    /// Returns what dials the addresses that `filter` permits, and trusts the built-in root certificates and `roots`.
    ///
    /// # Errors
    /// What is wrong with `roots`.
    pub fn new(filter: AddressFilter, roots: &[CertificateDer<'static>]) -> Result<Self, String> {
        let mut trusted = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        for certificate in roots {
            trusted
                .add(certificate.clone())
                .map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let tls = tls
            .map_err(|error| error.to_string())?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        Ok(Self {
            filter,
            tls: Arc::new(tls),
            resolve: Arc::new(system),
        })
    }

    /// Connects to a receiver, by TLS if its url says so. What is dialled is an address that was checked; the certificate has to be that
    /// of the name in the url. The handshake of TLS is made as the first bytes are written and read.
    ///
    /// # Errors
    /// Why it cannot be reached, without its address.
    pub fn connect(&self, endpoint: &Endpoint, deadline: Instant) -> Result<Stream, String> {
        let socket = self.dial(endpoint, deadline)?;
        if !endpoint.is_encrypted {
            return Ok(Stream::Plain(socket));
        }
        let name = ServerName::try_from(endpoint.host.trim_end_matches('.').to_owned());
        let name = name.map_err(|_| "the name of the receiver cannot be that of a certificate")?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name)
            .map_err(|error| error.to_string())?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(tls, socket))))
    }

    fn dial(&self, endpoint: &Endpoint, deadline: Instant) -> Result<TcpStream, String> {
        let found = (self.resolve)(&endpoint.host, endpoint.port).unwrap_or_default();
        // As with webhooks, one address that is not permitted refuses them all.
        if !found
            .iter()
            .all(|address| self.filter.permits(address.ip()))
        {
            return Err("the receiver has an address that is not public".into());
        }
        if found.is_empty() {
            return Err("the name of the receiver is not known".into());
        }
        let connected = eyeballs::connect(&found, CONNECT_TIMEOUT, deadline);
        connected
            .and_then(configured)
            .map_err(|error| describe(&error))
    }
}

#[cfg(test)]
impl Dialler {
    /// Returns a dialler that finds addresses with this function.
    #[must_use]
    pub fn with_resolver(
        self,
        resolve: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            resolve: Arc::new(resolve),
            ..self
        }
    }
}

fn system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

fn configured(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
    // Without it, the buffers of the system hide for minutes that a receiver does not read.
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(
        &socket,
        u32::try_from(WRITE_TIMEOUT.as_millis()).unwrap_or(u32::MAX),
    )?;
    Ok(socket)
}

/// A connection to a receiver.
pub enum Stream {
    /// A connection without TLS, for `rtmp://`.
    Plain(TcpStream),
    /// A connection with TLS, for `rtmps://`.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Returns the socket.
    pub const fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.sock,
        }
    }

    /// Lets the receiver know that nothing follows.
    pub fn end(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            tls.conn.send_close_notify();
            tls.flush()?;
        }
        self.socket().shutdown(std::net::Shutdown::Write)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

/// Says why a connection failed, in words without addresses and names.
pub fn describe(error: &io::Error) -> String {
    let tls = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match (tls, error.kind()) {
        (Some(rustls::Error::InvalidCertificate(cause)), _) => {
            format!("the receiver's certificate {}", certificate(cause))
        }
        (Some(_), _) => "the receiver does not speak TLS as this server understands it".into(),
        (None, io::ErrorKind::ConnectionRefused) => "the receiver refused the connection".into(),
        (None, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            "the receiver did not answer in time".into()
        }
        (
            None,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof,
        ) => "the receiver closed the connection".into(),
        (None, _) => "the receiver cannot be reached".into(),
    }
}

const fn certificate(cause: &CertificateError) -> &'static str {
    match cause {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is for another name"
        }
        CertificateError::UnknownIssuer => {
            "is of an issuer that is not trusted (egress.root_certs)"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        _ => "is not valid",
    }
}
