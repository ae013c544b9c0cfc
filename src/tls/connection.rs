//! The connections of the API listener: the handshake, and a connection with or without TLS.

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

/// A connection with or without TLS.
pub enum Socket {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Encrypted, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// The client's address.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp().peer_addr()
    }

    /// Waits for the first byte that the client sends, which stays to be read. `None` at the end.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn first_byte(&mut self) -> io::Result<Option<u8>> {
        match self {
            Self::Plain(tcp) => {
                let mut first = [0];
                Ok((tcp.peek(&mut first).await? > 0).then_some(first[0]))
            }
            Self::Tls(tls) => Ok(tls.fill_buf().await?.first().copied()),
        }
    }

    /// Sends each write at once, also while a smaller one before it is not acknowledged.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn set_nodelay(&self) -> io::Result<()> {
        self.tcp().set_nodelay(true)
    }

    /// Limits the bytes that the system keeps of a client until they are read.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        SockRef::from(self.tcp()).set_recv_buffer_size(bytes)
    }

    /// Bounds what the kernel keeps of a response that the client does not read. What is on its way to a client that reads is not bounded.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn bound_unsent(&self, bytes: u32) -> io::Result<()> {
        SockRef::from(self.tcp()).set_tcp_notsent_lowat(bytes)
    }

    /// Moves the connection to the runtime that this is called on, so that its events arrive there.
    ///
    /// # Errors
    /// The connection is closed, or the process has too many files open.
    pub fn into_current_runtime(mut self) -> io::Result<Self> {
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
