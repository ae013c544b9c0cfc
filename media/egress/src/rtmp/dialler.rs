//! Dialling RTMP receivers: reads URLs as media servers do, resolves names, checks addresses, and
//! verifies certificates.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::address::AddressFilter;
use conclave_model::rtmp::RtmpUrl;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::eyeballs;

/// Timeout for connecting to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a write, and for the receiver's system to acknowledge it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Default ports.
const RTMP_PORT: u16 = 1935;
const RTMPS_PORT: u16 = 443;

/// Receiver as named by a URL. Has no `Debug`, since it holds the stream key.
#[derive(Clone, PartialEq, Eq)]
pub struct RtmpEndpoint {
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port; 1935, or 443 with TLS, if the URL has none.
    pub port: u16,
    /// Whether to use TLS.
    pub is_encrypted: bool,
    /// Application URL, for the `connect` command.
    pub tc_url: String,
    /// Application, including its instance and query.
    pub application: String,
    /// Stream key, including its query; empty if the URL has none.
    pub key: String,
}

impl RtmpEndpoint {
    /// Parses a URL. A user name and a password are ignored: only some servers support such
    /// authentication.
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

fn port_of(authority: &str) -> Option<u16> {
    let host = authority.rsplit('@').next()?;
    // The colons inside brackets belong to an IPv6 address.
    let behind = host.rsplit(']').next()?;
    behind.rsplit_once(':')?.1.parse().ok()
}

/// Host name resolver. Blocks.
type Resolve = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Dialler for RTMP receivers. Clones share it.
#[derive(Clone)]
pub struct RtmpDialler {
    filter: AddressFilter,
    tls: Arc<ClientConfig>,
    resolve: Resolve,
}

impl RtmpDialler {
    /// Creates a dialler for addresses that `filter` permits. It trusts the built-in root
    /// certificates and `roots`.
    ///
    /// # Errors
    /// Fails if a certificate in `roots` is malformed.
    pub fn new(filter: AddressFilter, roots: &[CertificateDer<'static>]) -> Result<Self, String> {
        let mut trusted = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        for certificate in roots {
            trusted
                .add(certificate.clone())
                .map_err(|error| error.to_string())?;
        }
        // Named explicitly: no default provider is installed in this process.
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
            resolve: Arc::new(system_resolver),
        })
    }

    /// Connects to a receiver, with TLS if its URL demands it. Only checked addresses are dialled,
    /// and the certificate must be valid for the URL's host name. The TLS handshake happens with
    /// the first write and read.
    ///
    /// # Errors
    /// Fails with the reason if the receiver cannot be reached, without its address.
    pub fn connect(
        &self,
        endpoint: &RtmpEndpoint,
        deadline: Instant,
    ) -> Result<RtmpSocket, String> {
        let socket = self.dial(endpoint, deadline)?;
        if !endpoint.is_encrypted {
            return Ok(RtmpSocket::Plain(socket));
        }
        // Certificates name hosts without the root's dot.
        let name = ServerName::try_from(endpoint.host.trim_end_matches('.').to_owned());
        let name = name.map_err(|_| "the receiver's name is not valid in a certificate")?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name)
            .map_err(|error| error.to_string())?;
        Ok(RtmpSocket::Tls(Box::new(StreamOwned::new(tls, socket))))
    }

    fn dial(&self, endpoint: &RtmpEndpoint, deadline: Instant) -> Result<TcpStream, String> {
        // A failed lookup is reported like an unknown name.
        let found = (self.resolve)(&endpoint.host, endpoint.port).unwrap_or_default();
        // As for webhooks, one forbidden address rejects the whole name: it must not reach the
        // operator's network by chance.
        if !found
            .iter()
            .all(|address| self.filter.permits(address.ip()))
        {
            return Err("the receiver has an address that is not public".into());
        }
        if found.is_empty() {
            return Err("the receiver's name cannot be resolved".into());
        }
        let connected = eyeballs::connect(&found, CONNECT_TIMEOUT, deadline);
        connected
            .and_then(configure)
            .map_err(|error| describe(&error))
    }
}

#[cfg(test)]
impl RtmpDialler {
    /// Replaces name resolution by `resolve`.
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

fn system_resolver(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

fn configure(socket: TcpStream) -> io::Result<TcpStream> {
    // Each batch is written at once, so Nagle's algorithm would only add delay.
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
    // Otherwise the system's buffers hide for minutes that a receiver no longer reads.
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(
        &socket,
        u32::try_from(WRITE_TIMEOUT.as_millis()).unwrap_or(u32::MAX),
    )?;
    Ok(socket)
}

/// Socket to a receiver.
pub enum RtmpSocket {
    /// Plain TCP, for `rtmp://`.
    Plain(TcpStream),
    /// TLS, for `rtmps://`.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl RtmpSocket {
    pub const fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.sock,
        }
    }

    /// Signals the end of the stream.
    pub fn end(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            // Without it, the receiver would take the end for a truncation attack.
            tls.conn.send_close_notify();
            tls.flush()?;
        }
        self.socket().shutdown(std::net::Shutdown::Write)
    }
}

impl Read for RtmpSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for RtmpSocket {
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

/// Describes a failed connection without addresses and names.
pub fn describe(error: &io::Error) -> String {
    // Never the raw text: it may contain addresses in the operator's network.
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
            let endpoint = RtmpEndpoint::from_url(&RtmpUrl::parse(url).unwrap());
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
