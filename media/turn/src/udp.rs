//! Clients that reach the server by datagrams.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::members::Pace;
use crate::relay::{MAX_DATAGRAM, Relay, receive, send};
use crate::session::{Reaction, Session, Transport};
use crate::shared::Shared;

/// The longest datagram of a client that is read whole.
const BUFFER_BYTES: usize = 64 * 1_024;

/// How many datagrams are handled before other tasks have their turn.
const BATCH: usize = 64;

/// How often allocations whose time is over are looked for.
const TICK: Duration = Duration::from_secs(1);

/// The clients of a socket. Nothing is kept of one without an allocation.
pub struct UdpClients {
    shared: Arc<Shared>,
    socket: Arc<UdpSocket>,
    clients: HashMap<SocketAddr, UdpClient>,
}

/// A client with an allocation.
struct UdpClient {
    session: Arc<Mutex<Session>>,
    relay: Arc<UdpSocket>,
    /// Passes on what media workers send.
    task: JoinHandle<()>,
}

impl Drop for UdpClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl UdpClients {
    /// Nobody has an allocation.
    pub fn new(shared: Arc<Shared>, socket: UdpSocket) -> Self {
        Self {
            shared,
            socket: Arc::new(socket),
            clients: HashMap::new(),
        }
    }

    /// Serves the clients of the socket, for ever.
    pub async fn run(mut self) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut tick = interval(TICK);
        let socket = Arc::clone(&self.socket);
        loop {
            tokio::select! {
                (length, client) = receive(&socket, &mut buffer) => {
                    self.handle(client, buffer.get(..length).unwrap_or_default());
                    for _ in 1..BATCH {
                        let Ok((length, client)) = socket.try_recv_from(&mut buffer) else { break };
                        self.handle(client, buffer.get(..length).unwrap_or_default());
                    }
                }
                _ = tick.tick() => self.forget_expired(),
            }
        }
    }

    fn handle(&mut self, client: SocketAddr, bytes: &[u8]) {
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        match self.clients.get(&client).filter(|known| known.is_active()) {
            Some(known) => known.handle(&self.shared, &self.socket, client, bytes),
            None => self.handle_stranger(client, bytes),
        }
    }

    /// Handles what a client without an allocation has sent, and keeps it once it has one.
    fn handle_stranger(&mut self, client: SocketAddr, bytes: &[u8]) {
        let mut session = Session::new(Arc::clone(&self.shared), client, Transport::Udp);
        let mut relay = Relay::default();
        if let Reaction::Reply(response) =
            session.receive(bytes, &mut |address| relay.open(address))
        {
            send(&self.socket, &response, client);
        }
        let Some(relay) = relay.take().filter(|_| session.has_allocation()) else {
            return;
        };
        let (session, relay) = (Arc::new(Mutex::new(session)), Arc::new(relay));
        let passing = Passing {
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
                task: tokio::spawn(passing.run()),
            },
        );
    }

    fn forget_expired(&mut self) {
        self.clients.retain(|_, client| client.is_active());
    }
}

impl UdpClient {
    /// Returns whether it still has its allocation.
    fn is_active(&self) -> bool {
        let mut session = self.session.lock();
        session.expire();
        session.has_allocation()
    }

    fn handle(&self, shared: &Shared, socket: &UdpSocket, client: SocketAddr, bytes: &[u8]) {
        let mut session = self.session.lock();
        if session
            .member()
            .is_some_and(|member| member.pace(bytes.len()) != Pace::Handle)
        {
            return shared.metrics.note_from_client(bytes.len(), false);
        }
        // Its socket is open already.
        let reaction =
            session.receive(
                bytes,
                &mut |_| Err(std::io::ErrorKind::AlreadyExists.into()),
            );
        drop(session);
        match reaction {
            Reaction::Nothing => {}
            Reaction::Reply(response) => drop(send(socket, &response, client)),
            Reaction::Relay { to, payload } => {
                shared
                    .metrics
                    .note_from_client(payload.len(), send(&self.relay, payload, to));
            }
        }
    }
}

/// Passes datagrams of media workers on to a client.
struct Passing {
    shared: Arc<Shared>,
    session: Arc<Mutex<Session>>,
    relay: Arc<UdpSocket>,
    socket: Arc<UdpSocket>,
    client: SocketAddr,
}

impl Passing {
    async fn run(self) {
        let (mut buffer, mut out) = (vec![0; MAX_DATAGRAM], Vec::new());
        loop {
            let (length, from) = receive(&self.relay, &mut buffer).await;
            let payload = buffer.get(..length).unwrap_or_default();
            out.clear();
            let is_permitted = self.session.lock().push_relayed(from, payload, &mut out);
            if is_permitted {
                self.shared
                    .metrics
                    .note_to_client(length, send(&self.socket, &out, self.client));
            }
        }
    }
}
