//! Connects to receivers: reads their urls as media servers and their clients do, resolves names, checks what is dialled, and verifies
//! certificates.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::address::AddressFilter;
use conclave_model::rtmp::RtmpUrl;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::eyeballs;

/// How long the connection to one address may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long nothing may be written, and how long a receiver may not take what was written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The ports of urls without one.
const RTMP_PORT: u16 = 1935;
const RTMPS_PORT: u16 = 443;

/// The receiver that a url names. Not shown anywhere, since it has the stream key.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The name or address of the host, without brackets.
    pub host: String,
    /// The TCP port; 1935, or 443 with TLS, if the URL has none.
    pub port: u16,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// The url of the application, as `connect` has it.
    pub tc_url: String,
    /// The application, with its instance and query.
    pub application: String,
    /// The stream key, with its query; empty if the url has none.
    pub key: String,
}

impl Endpoint {
    /// Reads a url. A user name and a password in it are left out: they are for a kind of authentication that only some servers have.
    pub fn from_url(url: &RtmpUrl) -> Self {
        let (scheme, rest) = url.reveal().split_once("://").unwrap_or_default();
        let is_encrypted = scheme.eq_ignore_ascii_case("rtmps");
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let usual = if is_encrypted { RTMPS_PORT } else { RTMP_PORT };
        let port = port_of(authority).unwrap_or(usual);
        let (application, key) = match url.split_key() {
            Some(parts) => (parts.application, parts.key),
            None => (path.trim_start_matches('/'), ""),
        };
        let scheme = if is_encrypted { "rtmps" } else { "rtmp" };
        Self {
            host: url.host().trim_matches(['[', ']']).to_owned(),
            port,
            is_encrypted,
            tc_url: format!("{scheme}://{}:{port}/{application}", url.host()),
            application: application.to_owned(),
            key: key.to_owned(),
        }
    }
}

/// Returns the port of an authority, if it has one.
fn port_of(authority: &str) -> Option<u16> {
    let host = authority.rsplit('@').next()?;
    // The colons of an address in brackets are part of it.
    let behind = host.rsplit(']').next()?;
    behind.rsplit_once(':')?.1.parse().ok()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_media_servers_and_their_clients_do() {
        for (url, host, port, tc_url, key) in [
            (
                "rtmp://a.example.com/live/key",
                "a.example.com",
                1935,
                "rtmp://a.example.com:1935/live",
                "key",
            ),
            (
                "RTMPS://a.example.com/live/k?a=/b#c",
                "a.example.com",
                443,
                "rtmps://a.example.com:443/live",
                "k?a=/b#c",
            ),
            (
                "rtmp://a:01936/app/instance/key",
                "a",
                1936,
                "rtmp://a:1936/app/instance",
                "key",
            ),
            (
                "rtmp://a:/live?token=b/key",
                "a",
                1935,
                "rtmp://a:1935/live?token=b",
                "key",
            ),
            (
                "rtmp://me:pass:@[2606:4700::1]/app/key",
                "2606:4700::1",
                1935,
                "rtmp://[2606:4700::1]:1935/app",
                "key",
            ),
            (
                "rtmp://[2606:4700::1]:99/app/key",
                "2606:4700::1",
                99,
                "rtmp://[2606:4700::1]:99/app",
                "key",
            ),
            (
                "rtmp://a/app/mp4:b/c",
                "a",
                1935,
                "rtmp://a:1935/app",
                "mp4:b/c",
            ),
            ("rtmp://a/key", "a", 1935, "rtmp://a:1935/key", ""),
            ("rtmp://a", "a", 1935, "rtmp://a:1935/", ""),
        ] {
            let endpoint = Endpoint::from_url(&RtmpUrl::parse(url).unwrap());
            let read = (
                &*endpoint.host,
                endpoint.port,
                &*endpoint.tc_url,
                &*endpoint.key,
            );
            assert_eq!(read, (host, port, tc_url, key), "{url}");
            assert_eq!(endpoint.is_encrypted, url.starts_with("RTMPS"));
            assert!(endpoint.tc_url.ends_with(&endpoint.application));
        }
    }
}
