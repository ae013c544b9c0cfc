//! Connections of the API listener: TLS handshake, and the stream with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use conclave_media::embedded::turn_server::TurnConnection;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use socket2::SockRef;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::Certificates;
use super::challenge::{ACME_TLS, Challenges};

/// Time limit for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts TLS 1.2 and 1.3 for HTTP/1.1. Clones share the configuration.
#[derive(Clone)]
pub struct TlsAcceptor(tokio_rustls::TlsAcceptor);

impl TlsAcceptor {
    /// Accepts connections with these certificates, and a CA's connections that validate a challenge.
    ///
    /// # Errors
    /// If the TLS library was built without these protocol versions.
    pub fn new(certificates: Certificates, challenges: Challenges) -> Result<Self, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::new(Resolver {
            certificates,
            challenges,
        }));
        // A client that offers only other protocols is rejected (RFC 7301, section 3.2).
        config.alpn_protocols = vec![b"http/1.1".to_vec(), ACME_TLS.to_vec()];
        Ok(Self(Arc::new(config).into()))
    }

    /// Does the handshake.
    ///
    /// # Errors
    /// If there is no certificate yet, or if the client does not use TLS, offers nothing acceptable, takes longer than five seconds, or is
    /// a CA that has validated a challenge.
    pub async fn accept(&self, tcp: TcpStream) -> io::Result<Socket> {
        // A client that never finishes would hold a connection slot.
        let handshake = timeout(HANDSHAKE_TIMEOUT, self.0.accept(tcp));
        let mut stream = handshake.await.map_err(|_| io::ErrorKind::TimedOut)??;
        if stream.get_ref().1.alpn_protocol() == Some(ACME_TLS) {
            // No data is exchanged: the handshake itself is the validation (RFC 8737, section 3).
            stream.shutdown().await?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(Socket::Tls(Box::new(stream)))
    }
}

/// Chooses a connection's certificate.
#[derive(Debug)]
struct Resolver {
    certificates: Certificates,
    challenges: Challenges,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A validating CA offers this protocol alone (RFC 8737, section 3). Other clients must never get the self-signed certificate.
        if hello.alpn().is_some_and(|offered| offered.eq([ACME_TLS])) {
            return self.challenges.certificate(hello.server_name()?);
        }
        // Whatever name the client requests, which may be an old one or none.
        Some(self.certificates.current()?.key)
    }
}

/// Connection with or without TLS.
pub enum Socket {
    /// Unencrypted.
    Plain(TcpStream),
    /// Encrypted, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Returns the client's address.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp().peer_addr()
    }

    /// Waits for the client's first byte, without consuming it. `None` at the end of the stream.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn first_byte(&mut self) -> io::Result<Option<u8>> {
        match self {
            Self::Plain(tcp) => {
                let mut first = [0];
                // Peeked, so HTTP and TURN both read their first byte themselves.
                Ok((tcp.peek(&mut first).await? > 0).then_some(first[0]))
            }
            Self::Tls(tls) => Ok(tls.fill_buf().await?.first().copied()),
        }
    }

    /// Limits the bytes from a client that the kernel buffers.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        SockRef::from(self.tcp()).set_recv_buffer_size(bytes)
    }

    /// Limits the unsent bytes that the kernel buffers for a client. Bytes in flight do not count.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn bound_unsent(&self, bytes: u32) -> io::Result<()> {
        SockRef::from(self.tcp()).set_tcp_notsent_lowat(bytes)
    }

    /// Moves the connection to the current runtime, which then receives its events.
    ///
    /// # Errors
    /// If the connection is closed, or the process has too many files open.
    pub fn into_current_runtime(mut self) -> io::Result<Self> {
        // tokio moves a socket to another runtime only by value, and the TLS stream owns this one. A duplicate descriptor is registered
        // here; replacing the original closes only that descriptor.
        let moved = std::net::TcpStream::from(self.tcp().as_fd().try_clone_to_owned()?);
        let moved = TcpStream::from_std(moved)?;
        match &mut self {
            Self::Plain(tcp) => *tcp = moved,
            Self::Tls(tls) => *tls.get_mut().0 = moved,
        }
        Ok(self)
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }
}

impl TurnConnection for Socket {
    fn has_closed(&self) -> bool {
        self.tcp().has_closed()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(context, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(context),
            Self::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }
}
