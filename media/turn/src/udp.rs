//! Clients that send datagrams.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::admission::Pace;
use crate::relay::{MAX_DATAGRAM, RelaySocket, receive, send};
use crate::session::{ClientTransport, TurnReaction, TurnSession};
use crate::shared::SharedState;

/// Larger than any datagram, so that none is cut.
const BUFFER_BYTES: usize = 64 * 1_024;

/// Maximum datagrams handled before other tasks are scheduled.
const BATCH: usize = 64;

/// Interval between checks for ended allocations.
const TICK: Duration = Duration::from_secs(1);

/// A socket's clients. Only clients with an allocation have state.
pub struct UdpClients {
    shared: Arc<SharedState>,
    socket: Arc<UdpSocket>,
    clients: HashMap<SocketAddr, UdpClient>,
}

/// Client with an allocation.
struct UdpClient {
    session: Arc<Mutex<TurnSession>>,
    relay: Arc<UdpSocket>,
    /// Forwards packets from media workers.
    task: JoinHandle<()>,
}

impl Drop for UdpClient {
    fn drop(&mut self) {
        // The task would otherwise wait for the relay socket forever, and keep it open.
        self.task.abort();
    }
}

impl UdpClients {
    pub fn new(shared: Arc<SharedState>, socket: UdpSocket) -> Self {
        Self {
            shared,
            socket: Arc::new(socket),
            clients: HashMap::new(),
        }
    }

    /// Serves the socket's clients, forever.
    pub async fn run(mut self) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut tick = interval(TICK);
        let socket = Arc::clone(&self.socket);
        loop {
            tokio::select! {
                (length, client) = receive(&socket, &mut buffer) => {
                    self.handle(client, buffer.get(..length).unwrap_or_default());
                    // More datagrams are read without waiting: each wait costs a system call.
                    for _ in 1..BATCH {
                        let Ok((length, client)) = socket.try_recv_from(&mut buffer) else { break };
                        self.handle(client, buffer.get(..length).unwrap_or_default());
                    }
                }
                _ = tick.tick() => self.remove_expired(),
            }
        }
    }

    fn handle(&mut self, client: SocketAddr, bytes: &[u8]) {
        // One client must not have two keys, as IPv4 and as mapped IPv6 address.
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        match self.clients.get(&client).filter(|known| known.is_active()) {
            Some(known) => known.handle(&self.shared, &self.socket, client, bytes),
            None => self.handle_unallocated(client, bytes),
        }
    }

    /// Handles a datagram from a client without an allocation, and keeps the client if it gets one.
    fn handle_unallocated(&mut self, client: SocketAddr, bytes: &[u8]) {
        let mut session = TurnSession::new(Arc::clone(&self.shared), client, ClientTransport::Udp);
        let mut relay = RelaySocket::default();
        if let TurnReaction::Reply(response) =
            session.receive(bytes, &mut |address| relay.open(address))
        {
            send(&self.socket, &response, client);
        }
        // Without an allocation, the session is dropped: a forged address costs no memory.
        let Some(relay) = relay.take().filter(|_| session.has_allocation()) else {
            return;
        };
        let (session, relay) = (Arc::new(Mutex::new(session)), Arc::new(relay));
        let forwarder = ClientForwarder {
            shared: Arc::clone(&self.shared),
            session: Arc::clone(&session),
            relay: Arc::clone(&relay),
            socket: Arc::clone(&self.socket),
            client,
        };
        self.clients.insert(
            client,
            UdpClient {
                session,
                relay,
                task: tokio::spawn(forwarder.run()),
            },
        );
    }

    fn remove_expired(&mut self) {
        self.clients.retain(|_, client| client.is_active());
    }
}

impl UdpClient {
    /// Returns whether the client still has its allocation.
    fn is_active(&self) -> bool {
        let mut session = self.session.lock();
        session.expire();
        session.has_allocation()
    }

    fn handle(&self, shared: &SharedState, socket: &UdpSocket, client: SocketAddr, bytes: &[u8]) {
        let mut session = self.session.lock();
        if session
            .participant()
            // A datagram cannot wait, so a participant above its rate loses it.
            .is_some_and(|participant| participant.pace(bytes.len()) != Pace::Handle)
        {
            return shared.metrics.record_from_client(bytes.len(), false);
        }
        // The relay socket is already open.
        let reaction =
            session.receive(
                bytes,
                &mut |_| Err(std::io::ErrorKind::AlreadyExists.into()),
            );
        // Sending does not need the lock, which the forwarding task may be waiting for.
        drop(session);
        match reaction {
            TurnReaction::Nothing => {}
            TurnReaction::Reply(response) => drop(send(socket, &response, client)),
            TurnReaction::Relay { to, payload } => {
                shared
                    .metrics
                    .record_from_client(payload.len(), send(&self.relay, payload, to));
            }
        }
    }
}

/// Forwards datagrams from media workers to a client.
struct ClientForwarder {
    shared: Arc<SharedState>,
    session: Arc<Mutex<TurnSession>>,
    relay: Arc<UdpSocket>,
    socket: Arc<UdpSocket>,
    client: SocketAddr,
}

impl ClientForwarder {
    async fn run(self) {
        let (mut buffer, mut out) = (vec![0; MAX_DATAGRAM], Vec::new());
        loop {
            let (length, from) = receive(&self.relay, &mut buffer).await;
            let payload = buffer.get(..length).unwrap_or_default();
            out.clear();
            // The lock is released before sending.
            let is_permitted = self.session.lock().push_relayed(from, payload, &mut out);
            if is_permitted {
                self.shared
                    .metrics
                    .record_to_client(length, send(&self.socket, &out, self.client));
            }
        }
    }
}
