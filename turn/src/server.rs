//! The TURN server: what its users start, and hand connections to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use conclave_model::{Clock, MediaAddress, Secret};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::metrics::TurnMetrics;
use crate::peers::Peers;
use crate::shared::Shared;
use crate::stream::StreamClient;
use crate::udp::UdpClients;

/// How large the buffers of the UDP sockets should be. The system may limit them to less.
const BUFFER_BYTES: usize = 4 * 1_024 * 1_024;

/// How long a connection may be without an allocation.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What a TURN server needs to know.
pub struct TurnSettings<'a> {
    /// Signs the credentials of participants, see [`crate::credentials`].
    pub secret: Secret,
    /// The sockets that may be relayed to.
    pub peers: &'a [MediaAddress],
    /// The time by which credentials and allocations end.
    pub clock: Clock,
    /// How long a connection may be without an allocation; [`PATIENCE`] outside of tests.
    pub patience: Duration,
}

/// A TURN server. Clones share it.
#[derive(Clone)]
pub struct TurnServer(Arc<Shared>);

impl TurnServer {
    /// A server without clients.
    #[must_use]
    pub fn new(settings: TurnSettings<'_>) -> Self {
        let TurnSettings { secret, peers, clock, patience } = settings;
        Self(Arc::new(Shared::new(secret, Peers::new(peers), clock, patience)))
    }

    /// Returns what it counts.
    #[must_use]
    pub fn metrics(&self) -> Arc<TurnMetrics> {
        Arc::clone(&self.0.metrics)
    }

    /// Returns the state machine of a client.
    #[cfg(feature = "fuzzing")]
    #[must_use]
    pub fn session(&self, client: SocketAddr, transport: crate::session::Transport) -> crate::session::Session {
        crate::session::Session::new(Arc::clone(&self.0), client, transport)
    }

    /// Serves a client that has connected, until the connection ends. Must be called on a runtime.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, client: SocketAddr) {
        StreamClient::new(Arc::clone(&self.0), stream, client).run().await;
    }

    /// Serves clients by UDP on a thread of its own, at a port of these addresses. With port 0 the system chooses one, the same for all.
    ///
    /// # Errors
    /// A socket cannot be bound, or the thread cannot be started.
    pub fn serve_udp(&self, addresses: &[IpAddr], port: u16) -> io::Result<UdpRelay> {
        let sockets = bind_all(addresses, port)?;
        let bound = sockets.iter().map(std::net::UdpSocket::local_addr).collect::<io::Result<Vec<_>>>()?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("turn".into()).spawn(move || {
            if let Err(error) = serve_sockets(&runtime, &shared, sockets, stopped) {
                log::error!(error:%; "TURN over UDP has ended");
            }
        })?;
        Ok(UdpRelay { bound, stop: Some(stop), thread: Some(thread) })
    }
}

/// The thread that serves clients by UDP. It ends when this is dropped.
pub struct UdpRelay {
    bound: Vec<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl UdpRelay {
    /// Returns the addresses at which clients are served.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.bound
    }
}

impl Drop for UdpRelay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread of TURN over UDP panicked");
        }
    }
}

fn serve_sockets(
    runtime: &Runtime,
    shared: &Arc<Shared>,
    sockets: Vec<std::net::UdpSocket>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    runtime.block_on(async {
        for socket in sockets {
            tokio::spawn(UdpClients::new(Arc::clone(shared), UdpSocket::from_std(socket)?).run());
        }
        // An error says that the other end is gone, which is what is waited for.
        let _ = stopped.await;
        Ok(())
    })
}

fn bind_all(addresses: &[IpAddr], port: u16) -> io::Result<Vec<std::net::UdpSocket>> {
    let mut sockets = Vec::<std::net::UdpSocket>::new();
    for address in addresses {
        let port = match sockets.first() {
            Some(first) => first.local_addr()?.port(),
            None => port,
        };
        sockets.push(bind((*address, port).into())?);
    }
    Ok(sockets)
}

fn bind(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A system that refuses the size uses its largest.
    let _ = (socket.set_recv_buffer_size(BUFFER_BYTES), socket.set_send_buffer_size(BUFFER_BYTES));
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
