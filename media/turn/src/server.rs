//! The TURN server, which callers start and pass connections to.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use conclave_model::ProjectId;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::admission::RelayAccess;
use crate::metrics::TurnMetrics;
use crate::shared::{SharedState, TurnSettings};
use crate::stream::{StreamClient, TurnConnection};
use crate::udp::UdpClients;

/// Desired buffer size for UDP sockets, which the system may reduce.
const BUFFER_BYTES: usize = 4 * 1_024 * 1_024;

/// Maximum time for which a connection may be without an allocation.
pub const ALLOCATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Threads for TCP and TLS clients.
const STREAM_THREADS: usize = 2;

/// TURN server. Clones share it.
#[derive(Clone)]
pub struct TurnServer {
    shared: Arc<SharedState>,
    streams: Arc<StreamThreads>,
}

impl TurnServer {
    /// Creates a server without admitted participants.
    #[must_use]
    pub fn new(settings: TurnSettings<'_>) -> Self {
        Self {
            shared: Arc::new(SharedState::new(settings)),
            streams: Arc::default(),
        }
    }

    /// Returns the server's counters.
    #[must_use]
    pub fn metrics(&self) -> Arc<TurnMetrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Admits a project's participant, with credentials for this name, until the result is dropped.
    #[must_use]
    pub fn admit(&self, name: &str, project: ProjectId) -> RelayAccess {
        self.shared.participants.admit(name, project)
    }

    /// Returns whether an admitted participant has an allocation.
    #[must_use]
    pub fn has_allocation(&self, name: &str) -> bool {
        self.shared.quotas.has_allocation(name)
    }

    /// Returns a client's state machine.
    #[cfg(feature = "fuzzing")]
    #[must_use]
    pub fn session(
        &self,
        client: SocketAddr,
        transport: crate::session::ClientTransport,
    ) -> crate::session::TurnSession {
        crate::session::TurnSession::new(Arc::clone(&self.shared), client, transport)
    }

    /// Serves a connected client until the connection ends or this future is dropped. `open` wraps
    /// the connection on a server thread, where it is also served: the caller's threads have other
    /// work than relaying.
    ///
    /// # Errors
    /// Fails if the threads cannot be started.
    pub async fn serve<S, F>(&self, client: SocketAddr, open: F) -> io::Result<()>
    where
        S: TurnConnection + 'static,
        F: FnOnce() -> io::Result<S> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let mut task = AbortOnDrop(self.streams.handle()?.spawn(async move {
            // A socket that cannot be registered with this runtime is closed.
            if let Ok(stream) = open() {
                StreamClient::new(shared, stream, client).run().await;
            }
        }));
        // The task fails if the threads end; its client goes with them.
        let _ = (&mut task.0).await;
        Ok(())
    }

    /// Serves clients by UDP on a separate thread, at a port on these addresses. If `port` is 0,
    /// the system chooses one, the same for all addresses.
    ///
    /// # Errors
    /// Fails if a socket cannot be bound or the thread cannot be started.
    pub fn serve_udp(&self, addresses: &[IpAddr], port: u16) -> io::Result<UdpRelay> {
        let sockets = bind_all(addresses, port)?;
        let bound = sockets
            .iter()
            .map(std::net::UdpSocket::local_addr)
            .collect::<io::Result<Vec<_>>>()?;
        // A separate runtime: packets must not wait for the API's tasks.
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("turn".into())
            .spawn(move || {
                if let Err(error) = serve_sockets(&runtime, &shared, sockets, stopped) {
                    log::error!(error:%; "TURN over UDP failed, and its clients are disconnected: restart the server");
                }
            })?;
        Ok(UdpRelay {
            bound,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl fmt::Debug for TurnServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TurnServer")
    }
}

/// Threads for TCP and TLS clients, started for the first one. They end when this is dropped.
#[derive(Default)]
struct StreamThreads(Mutex<Option<Runtime>>);

impl StreamThreads {
    fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.0.lock();
        let running = match &mut *runtime {
            Some(running) => running,
            none => none.insert(
                Builder::new_multi_thread()
                    .worker_threads(STREAM_THREADS)
                    .thread_name("turn-tcp")
                    .enable_io()
                    .enable_time()
                    .build()?,
            ),
        };
        Ok(running.handle().clone())
    }
}

impl Drop for StreamThreads {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which panics on another runtime's thread; this does not.
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

/// Task that is aborted when this is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Thread that serves clients by UDP. It ends when this is dropped.
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
        // Before joining, or the thread would never end.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the TURN thread for UDP panicked");
        }
    }
}

fn serve_sockets(
    runtime: &Runtime,
    shared: &Arc<SharedState>,
    sockets: Vec<std::net::UdpSocket>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    runtime.block_on(async {
        for socket in sockets {
            tokio::spawn(UdpClients::new(Arc::clone(shared), UdpSocket::from_std(socket)?).run());
        }
        // The sender is only ever dropped, which is an error and the signal.
        let _ = stopped.await;
        Ok(())
    })
}

fn bind_all(addresses: &[IpAddr], port: u16) -> io::Result<Vec<std::net::UdpSocket>> {
    let mut sockets = Vec::<std::net::UdpSocket>::new();
    for address in addresses {
        let port = match sockets.first() {
            // After the first address, the chosen port is reused: clients get one port for all
            // addresses.
            Some(first) => first.local_addr()?.port(),
            None => port,
        };
        sockets.push(bind((*address, port).into())?);
    }
    Ok(sockets)
}

fn bind(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        // IPv4 has its own socket at the same port, which would otherwise be in use.
        socket.set_only_v6(true)?;
    }
    // If the system refuses the size, it uses its maximum.
    let _ = (
        socket.set_recv_buffer_size(BUFFER_BYTES),
        socket.set_send_buffer_size(BUFFER_BYTES),
    );
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
