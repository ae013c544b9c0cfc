//! The TURN server: what its users start, and hand connections to.

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

use crate::members::RelayAccess;
use crate::metrics::TurnMetrics;
use crate::shared::{Shared, TurnSettings};
use crate::stream::{Connection, StreamClient};
use crate::udp::UdpClients;

/// How large the buffers of the UDP sockets should be. The system may limit them to less.
const BUFFER_BYTES: usize = 4 * 1_024 * 1_024;

/// How long a connection may be without an allocation.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The threads that serve clients by TCP and TLS.
const STREAM_THREADS: usize = 2;

/// A TURN server. Clones share it.
#[derive(Clone)]
pub struct TurnServer {
    shared: Arc<Shared>,
    streams: Arc<StreamThreads>,
}

impl TurnServer {
    /// A server without clients, and without participants that may be clients.
    #[must_use]
    pub fn new(settings: TurnSettings<'_>) -> Self {
        Self {
            shared: Arc::new(Shared::new(settings)),
            streams: Arc::default(),
        }
    }

    /// Returns what it counts.
    #[must_use]
    pub fn metrics(&self) -> Arc<TurnMetrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Lets a participant in a room of a project use the server, by credentials with this name, until the result is dropped.
    #[must_use]
    pub fn admit(&self, name: &str, project: ProjectId) -> RelayAccess {
        self.shared.members.admit(name, project)
    }

    /// Returns the state machine of a client.
    #[cfg(feature = "fuzzing")]
    #[must_use]
    pub fn session(
        &self,
        client: SocketAddr,
        transport: crate::session::Transport,
    ) -> crate::session::Session {
        crate::session::Session::new(Arc::clone(&self.shared), client, transport)
    }

    /// Serves a client that has connected, until the connection ends or this is dropped. The connection is made by `open` on a thread
    /// of the server, and handled there: callers have other things to do than to relay.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub async fn serve<S, F>(&self, client: SocketAddr, open: F) -> io::Result<()>
    where
        S: Connection + 'static,
        F: FnOnce() -> io::Result<S> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let mut task = AbortOnDrop(self.streams.handle()?.spawn(async move {
            // A socket that cannot be opened anew has ended.
            if let Ok(stream) = open() {
                StreamClient::new(shared, stream, client).run().await;
            }
        }));
        // The task fails if the threads end, and its client with them.
        let _ = (&mut task.0).await;
        Ok(())
    }

    /// Serves clients by UDP on a thread of its own, at a port of these addresses. With port 0 the system chooses one, the same for all.
    ///
    /// # Errors
    /// A socket cannot be bound, or the thread cannot be started.
    pub fn serve_udp(&self, addresses: &[IpAddr], port: u16) -> io::Result<UdpRelay> {
        let sockets = bind_all(addresses, port)?;
        let bound = sockets
            .iter()
            .map(std::net::UdpSocket::local_addr)
            .collect::<io::Result<Vec<_>>>()?;
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
                    log::error!(error:%; "TURN over UDP has ended");
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

/// The threads that serve clients by TCP and TLS, started for the first of them. They end when this is dropped.
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
        // Unlike the drop of a runtime, this may be called on a thread of another one.
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

/// A task that ends with its handle.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
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
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A system that refuses the size uses its largest.
    let _ = (
        socket.set_recv_buffer_size(BUFFER_BYTES),
        socket.set_send_buffer_size(BUFFER_BYTES),
    );
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
