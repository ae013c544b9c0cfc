//! Connections to the active node. Each worker keeps those that are idle, of one epoch only.
//!
//! They speak HTTP/1.1 by the codec with which actix-web serves clients. So both ends of a node agree about where a message ends, and a
//! connection has no task of its own: what was sent, and whether it may have been read, is known at each moment.

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

/// Time that a node has to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The most idle connections that a worker keeps.
const MOST_IDLE: usize = 256;

/// Bytes from and to a node, with or without TLS.
pub(super) trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// A connection to a node, between two messages. It is closed when this is dropped.
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

    /// Sends a request, and returns the head of its response, which may come before the whole request was sent.
    ///
    /// # Errors
    /// The connection has ended, the client broke off, or what came is no response.
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
            sending.poll(Pin::new(&mut self.framed), &mut body, context)?;
            self.poll_head(context)
        });
        let head = head.await?;
        Ok((head, Incoming::of(self)))
    }

    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<ResponseHead>> {
        loop {
            let head = ready!(Pin::new(&mut self.framed).next_item(context));
            let head = head
                .ok_or(io::ErrorKind::UnexpectedEof)?
                .map_err(io::Error::other)?;
            // 100 and 103 come before the response.
            if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Poll::Ready(Ok(head));
            }
        }
    }

    /// Whether the node has neither closed the connection nor sent what it was not asked for.
    fn is_idle(&mut self) -> bool {
        poll_fn(|context| Pin::new(&mut self.framed).next_item(context))
            .now_or_never()
            .is_none()
    }
}

/// A request on its way.
struct Sending {
    /// Whether the node reads on.
    is_open: bool,
    /// Whether a part of the body is left.
    has_body: bool,
}

type Outgoing = Message<(RequestHeadType, BodySize)>;

impl Sending {
    /// Sends as much as the connection takes. A node that reads no further may have answered all the same.
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
                Poll::Ready(Ok(())) if self.has_body && !waits_for_client => {}
                Poll::Ready(Ok(())) | Poll::Pending => return Ok(()),
                Poll::Ready(Err(_)) => self.is_open = false,
            }
        }
        Ok(())
    }
}

/// The body of a response, on its connection.
pub(super) struct Incoming {
    state: State,
    epoch: i64,
}

enum State {
    Arriving(Framed<Box<dyn Io>, ClientPayloadCodec>),
    Ended(Framed<Box<dyn Io>, ClientCodec>),
    Broken,
}

impl Incoming {
    fn of(connection: Connection) -> Self {
        let Connection { framed, epoch } = connection;
        let state = match framed.codec_ref().message_type() {
            MessageType::None => State::Ended(framed),
            MessageType::Payload | MessageType::Stream => {
                State::Arriving(framed.into_map_codec(ClientCodec::into_payload_codec))
            }
        };
        Self { state, epoch }
    }

    /// Returns the next part of the body; `None` at its end.
    ///
    /// # Errors
    /// The node broke off.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        let State::Arriving(framed) = &mut self.state else {
            return if matches!(self.state, State::Ended(_)) {
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
            && let State::Arriving(framed) = mem::replace(&mut self.state, State::Broken)
        {
            self.state =
                State::Ended(framed.into_map_codec(ClientPayloadCodec::into_message_codec));
        }
        Ok(chunk)
    }

    /// Returns the connection for the next request, if the body has ended and the node keeps the connection.
    pub(super) fn into_connection(self) -> Option<Connection> {
        let State::Ended(framed) = self.state else {
            return None;
        };
        framed.codec_ref().keep_alive().then_some(Connection {
            framed,
            epoch: self.epoch,
        })
    }

    /// Returns what has become of the connection after a switch of protocols, with the bytes that were read of the other one.
    pub(super) fn into_upgraded(self) -> Option<(Box<dyn Io>, BytesMut)> {
        match self.state {
            State::Arriving(framed) => {
                let FramedParts { io, read_buf, .. } = framed.into_parts();
                Some((io, read_buf))
            }
            State::Ended(framed) => {
                let FramedParts { io, read_buf, .. } = framed.into_parts();
                Some((io, read_buf))
            }
            State::Broken => None,
        }
    }
}

/// The idle connections of a worker.
pub(super) struct Pool {
    idle: RefCell<Vec<(Connection, Instant)>>,
    /// How long a connection may have been idle to be used again.
    longest_idle: Duration,
}

impl Pool {
    /// An empty pool.
    pub(super) const fn new(longest_idle: Duration) -> Self {
        Self {
            idle: RefCell::new(Vec::new()),
            longest_idle,
        }
    }

    /// Takes a connection to a node that has been idle and is open, as far as that is known.
    pub(super) fn take(&self, node: &Node) -> Option<Connection> {
        let (mut idle, now) = (self.idle.borrow_mut(), Instant::now());
        idle.retain(|(connection, since)| {
            connection.epoch == node.epoch && now - *since < self.longest_idle
        });
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
        if idle.len() < MOST_IDLE {
            idle.push((connection, Instant::now()));
        }
    }
}

/// Makes connections to nodes.
#[derive(Default)]
pub(super) struct Connector {
    /// Made when a node with TLS is called for the first time.
    tls: OnceCell<TlsConnector>,
}

impl Connector {
    /// Connects to a node.
    ///
    /// # Errors
    /// It is not reached in time, or its certificate is not of an authority that this system trusts.
    pub(super) async fn connect(&self, node: &Node) -> io::Result<Connection> {
        let address = node
            .address
            .as_ref()
            .ok_or_else(|| io::Error::other("its url is none"))?;
        let connected = timeout(CONNECT_TIMEOUT, async {
            let tcp = TcpStream::connect((address.host.as_str(), address.port)).await?;
            tcp.set_nodelay(true)?;
            if !address.is_tls {
                return Ok(Connection::new(Box::new(tcp), node.epoch));
            }
            let tls = self.tls.get_or_try_init(tls_connector).await?;
            let stream = tls.connect(server_name(address)?, tcp).await?;
            Ok(Connection::new(Box::new(stream), node.epoch))
        });
        connected.await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

fn server_name(address: &NodeAddress) -> io::Result<ServerName<'static>> {
    ServerName::try_from(address.host.clone()).map_err(io::Error::other)
}

/// Trusts the authorities that the system trusts, to which operators add their own.
async fn tls_connector() -> io::Result<TlsConnector> {
    let config = spawn_blocking(|| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok::<_, io::Error>(config)
    });
    Ok(Arc::new(config.await.map_err(io::Error::other)??).into())
}
