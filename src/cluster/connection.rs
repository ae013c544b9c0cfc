//! Connections to the active node. Each worker keeps its idle ones, for the current epoch only.
//!
//! They use actix-web's own HTTP/1.1 codec, so both ends agree on where a message ends. A connection has no task of its own, so its owner
//! always knows how much was sent, and whether the node may have read it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_codec::{Framed, FramedParts};
use actix_http::body::BodySize;
use actix_http::h1::{ClientCodec, ClientPayloadCodec, Message, MessageType};
use actix_http::{RequestHead, RequestHeadType, ResponseHead};
use actix_web::http::StatusCode;
use actix_web::web::{Bytes, BytesMut};
use futures_util::FutureExt;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::body::AttemptBody;
use super::node::{Node, NodeAddress};

/// Time limit for a node to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum idle connections per worker.
const MOST_IDLE: usize = 256;

/// Byte stream to a node, with or without TLS.
pub(super) trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// Connection to a node, between two messages. Dropping it closes it.
pub(super) struct Connection {
    framed: Framed<Box<dyn Io>, ClientCodec>,
    epoch: i64,
}

impl Connection {
    fn new(io: Box<dyn Io>, epoch: i64) -> Self {
        Self {
            framed: Framed::new(io, ClientCodec::default()),
            epoch,
        }
    }

    /// Sends a request, and returns the response's head, which may arrive before the whole request was sent.
    ///
    /// # Errors
    /// If the connection broke or the client disconnected, or if the node did not send an HTTP response.
    pub(super) async fn send(
        mut self,
        head: RequestHead,
        mut body: AttemptBody,
    ) -> io::Result<(ResponseHead, Incoming)> {
        let size = body.size();
        Pin::new(&mut self.framed).write(Message::Item((RequestHeadType::Owned(head), size)))?;
        let mut sending = Sending {
            is_open: true,
            has_body: !matches!(size, BodySize::None | BodySize::Sized(0)),
        };
        let head = poll_fn(|context| {
            // Both in one poll: a node may respond before it has read the body, and then reads no further.
            sending.poll(Pin::new(&mut self.framed), &mut body, context)?;
            self.poll_head(context)
        });
        let head = head.await?;
        Ok((head, Incoming::from_connection(self)))
    }

    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<ResponseHead>> {
        loop {
            let head = ready!(Pin::new(&mut self.framed).next_item(context));
            let head = head
                .ok_or(io::ErrorKind::UnexpectedEof)?
                .map_err(io::Error::other)?;
            // 100 (Continue) and 103 (Early Hints) precede the final response; 101 is final.
            if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Poll::Ready(Ok(head));
            }
        }
    }

    /// Returns whether the connection is open and has no unrequested bytes.
    fn is_idle(&mut self) -> bool {
        // Pending is the only good state: an item would be a response without a request, an end means that the node has closed it.
        poll_fn(|context| Pin::new(&mut self.framed).next_item(context))
            .now_or_never()
            .is_none()
    }
}

/// Send progress for one request.
struct Sending {
    /// Whether the node still reads.
    is_open: bool,
    /// Whether the body has unsent bytes.
    has_body: bool,
}

type Outgoing = Message<(RequestHeadType, BodySize)>;

impl Sending {
    /// Sends as much as the connection accepts. A write error is not a failure: the node may have responded before it closed its side.
    fn poll(
        &mut self,
        mut framed: Pin<&mut Framed<Box<dyn Io>, ClientCodec>>,
        body: &mut AttemptBody,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        while self.is_open {
            let mut waits_for_client = false;
            while self.has_body && !waits_for_client && !framed.is_write_buf_full() {
                match body.poll_chunk(context) {
                    Poll::Pending => waits_for_client = true,
                    Poll::Ready(chunk) => {
                        let chunk = chunk.transpose().map_err(io::Error::other)?;
                        self.has_body = chunk.is_some();
                        framed.as_mut().write(Outgoing::Chunk(chunk))?;
                    }
                }
            }
            match framed.as_mut().flush::<Outgoing>(context) {
                // The buffer is empty, and more of the body may be ready at once.
                Poll::Ready(Ok(())) if self.has_body && !waits_for_client => {}
                Poll::Ready(Ok(())) | Poll::Pending => return Ok(()),
                Poll::Ready(Err(_)) => self.is_open = false,
            }
        }
        Ok(())
    }
}

/// Response body, on its connection.
pub(super) struct Incoming {
    state: IncomingState,
    epoch: i64,
}

enum IncomingState {
    Arriving(Framed<Box<dyn Io>, ClientPayloadCodec>),
    Ended(Framed<Box<dyn Io>, ClientCodec>),
    Broken,
}

impl Incoming {
    fn from_connection(connection: Connection) -> Self {
        let Connection { framed, epoch } = connection;
        let state = match framed.codec_ref().message_type() {
            MessageType::None => IncomingState::Ended(framed),
            MessageType::Payload | MessageType::Stream => {
                IncomingState::Arriving(framed.into_map_codec(ClientCodec::into_payload_codec))
            }
        };
        Self { state, epoch }
    }

    /// Returns the next part of the body; `None` at its end.
    ///
    /// # Errors
    /// If the connection broke before the end of the body.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        // `Broken` stays an error: a second read must not look like the end of the body.
        let IncomingState::Arriving(framed) = &mut self.state else {
            return if matches!(self.state, IncomingState::Ended(_)) {
                Ok(None)
            } else {
                Err(io::ErrorKind::BrokenPipe.into())
            };
        };
        let item = poll_fn(|context| Pin::new(&mut *framed).next_item(context)).await;
        let chunk = item
            .ok_or(io::ErrorKind::UnexpectedEof)?
            .map_err(io::Error::other)?;
        if chunk.is_none()
            && let IncomingState::Arriving(framed) =
                mem::replace(&mut self.state, IncomingState::Broken)
        {
            self.state =
                IncomingState::Ended(framed.into_map_codec(ClientPayloadCodec::into_message_codec));
        }
        Ok(chunk)
    }

    /// Returns the connection for the next request, if the body has ended and the node keeps the connection open.
    pub(super) fn into_connection(self) -> Option<Connection> {
        let IncomingState::Ended(framed) = self.state else {
            return None;
        };
        framed.codec_ref().keep_alive().then_some(Connection {
            framed,
            epoch: self.epoch,
        })
    }

    /// Returns the stream after a protocol switch, with the bytes of the new protocol that were read already.
    pub(super) fn into_upgraded(self) -> Option<(Box<dyn Io>, BytesMut)> {
        match self.state {
            // The codec treats the bytes after a 101 response as a body without end.
            IncomingState::Arriving(framed) => {
                let FramedParts { io, read_buf, .. } = framed.into_parts();
                Some((io, read_buf))
            }
            IncomingState::Ended(framed) => {
                let FramedParts { io, read_buf, .. } = framed.into_parts();
                Some((io, read_buf))
            }
            IncomingState::Broken => None,
        }
    }
}

/// A worker's idle connections.
pub(super) struct Pool {
    idle: RefCell<Vec<(Connection, Instant)>>,
    /// Idle time after which a connection is not reused.
    longest_idle: Duration,
}

impl Pool {
    /// Creates an empty pool.
    pub(super) const fn new(longest_idle: Duration) -> Self {
        Self {
            idle: RefCell::new(Vec::new()),
            longest_idle,
        }
    }

    /// Removes and returns an idle connection to a node, if one is still open as far as this end knows.
    pub(super) fn take(&self, node: &Node) -> Option<Connection> {
        let (mut idle, now) = (self.idle.borrow_mut(), Instant::now());
        // A takeover makes the previous node's connections useless.
        idle.retain(|(connection, since)| {
            connection.epoch == node.epoch && now - *since < self.longest_idle
        });
        // The most recently used one first: it is the least likely to be closed by now.
        loop {
            let (mut connection, _) = idle.pop()?;
            if connection.is_idle() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose last response has ended.
    pub(super) fn put(&self, connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        // Otherwise the connection is dropped, and thereby closed.
        if idle.len() < MOST_IDLE {
            idle.push((connection, Instant::now()));
        }
    }
}

/// Connects to nodes.
#[derive(Default)]
pub(super) struct Connector {
    /// Built at the first connection to a node with TLS, since it reads the system's certificates.
    tls: OnceCell<TlsConnector>,
}

impl Connector {
    /// Connects to a node.
    ///
    /// # Errors
    /// If it is not reached in time, or if its certificate is not from an authority that this system trusts.
    pub(super) async fn connect(&self, node: &Node) -> io::Result<Connection> {
        let address = node
            .address
            .as_ref()
            .ok_or_else(|| io::Error::other("its url is none"))?;
        let connected = timeout(CONNECT_TIMEOUT, async {
            let tcp = TcpStream::connect((address.host.as_str(), address.port)).await?;
            // Small requests must not wait for the node's delayed acknowledgements.
            tcp.set_nodelay(true)?;
            if !address.is_tls {
                return Ok(Connection::new(Box::new(tcp), node.epoch));
            }
            let tls = self.tls.get_or_try_init(tls_connector).await?;
            let stream = tls.connect(server_name(address)?, tcp).await?;
            Ok(Connection::new(Box::new(stream), node.epoch))
        });
        // The time limit includes name resolution and the TLS handshake.
        connected.await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

fn server_name(address: &NodeAddress) -> io::Result<ServerName<'static>> {
    ServerName::try_from(address.host.clone()).map_err(io::Error::other)
}

/// Trusts the system's authorities, to which operators add their own.
async fn tls_connector() -> io::Result<TlsConnector> {
    // Reads files, which must not block the worker's other requests.
    let config = spawn_blocking(|| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        // The only protocol that this codec speaks.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok::<_, io::Error>(config)
    });
    Ok(Arc::new(config.await.map_err(io::Error::other)??).into())
}
