//! A proxy between a program and its server, which delays, stalls and cuts connections. Threads only, and no root.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// When connections end at bytes that a client sends: [`Proxy::cut_at`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Before the bytes reach the server.
    BeforeTheServer,
    /// After the server has processed the bytes; the client gets no response. The connection ends when the server has closed its side.
    AfterTheServer,
}

/// A proxy on a free port at 127.0.0.1, which runs until the process ends.
#[derive(Debug, Clone)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    network: Mutex<Network>,
    changed: Condvar,
}

/// State of the simulated network.
#[derive(Debug)]
struct Network {
    server: SocketAddr,
    /// Delay in each direction.
    delay: Duration,
    is_stalled: bool,
    is_refusing: bool,
    cut: Option<(Vec<u8>, Cut)>,
    /// Whether the server has the bytes from the last cut, and has not closed its side yet.
    is_cutting: bool,
    connections: HashMap<usize, Connection>,
    accepted: usize,
}

/// The two sockets of a connection.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// Whether the server's bytes are withheld from the client.
    is_muted: Arc<AtomicBool>,
}

impl Connection {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            client: self.client.try_clone()?,
            server: self.server.try_clone()?,
            is_muted: Arc::clone(&self.is_muted),
        })
    }

    fn is_muted(&self) -> bool {
        self.is_muted.load(Ordering::Acquire)
    }

    /// Sends the server its last bytes, and waits until it has processed them. The client gets no response.
    fn finish(&self, sent: &[u8]) -> io::Result<()> {
        self.is_muted.store(true, Ordering::Release);
        (&self.server).write_all(sent)?;
        // The server has read everything when it closes its side.
        self.server.shutdown(Shutdown::Write)?;
        io::copy(&mut &self.server, &mut io::sink()).map(|_| ())
    }

    fn cut(&self) {
        // Both may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Proxy {
    /// Starts a proxy in front of a server.
    ///
    /// # Panics
    /// No port is free.
    #[must_use]
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let network = Network {
            server,
            delay: Duration::ZERO,
            is_stalled: false,
            is_refusing: false,
            cut: None,
            is_cutting: false,
            connections: HashMap::new(),
            accepted: 0,
        };
        let shared = Arc::new(Shared {
            network: Mutex::new(network),
            changed: Condvar::new(),
        });
        let proxy = Self {
            address,
            shared: Arc::clone(&shared),
        };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A connection that breaks at its start counts as cut.
                thread::spawn(move || shared.connect(client));
            }
        });
        proxy
    }

    /// Returns the proxy's address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Redirects new connections to another server, for example after a restart on another port.
    pub fn lead_to(&self, server: SocketAddr) {
        self.shared.network.lock().server = server;
    }

    /// Adds this delay to each round trip.
    pub fn delay(&self, round_trip: Duration) {
        self.shared.network.lock().delay = round_trip / 2;
    }

    /// Holds all bytes, in both directions, and new connections. No connection ends.
    pub fn stall(&self) {
        self.shared.network.lock().is_stalled = true;
    }

    /// Releases everything that [`Proxy::stall`] holds.
    pub fn resume(&self) {
        self.shared.network.lock().is_stalled = false;
        self.shared.changed.notify_all();
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for (_, connection) in self.shared.network.lock().connections.drain() {
            connection.cut();
        }
        // Stalled bytes on these connections are dropped.
        self.shared.changed.notify_all();
    }

    /// Ends all connections, and new ones at once.
    pub fn refuse(&self) {
        self.refuse_new();
        self.cut();
    }

    /// Ends new connections at once. Existing connections continue.
    pub fn refuse_new(&self) {
        self.shared.network.lock().is_refusing = true;
    }

    /// Accepts new connections again.
    pub fn accept(&self) {
        self.shared.network.lock().is_refusing = false;
    }

    /// Ends the next connection on which a client sends these bytes in one write, such as `COMMIT`.
    pub fn cut_at(&self, sent: &str, cut: Cut) {
        self.shared.network.lock().cut = Some((sent.as_bytes().to_vec(), cut));
    }

    /// Returns whether the proxy still waits for the bytes of [`Proxy::cut_at`], or for the server to process them.
    #[must_use]
    pub fn waits_to_cut(&self) -> bool {
        let network = self.shared.network.lock();
        network.cut.is_some() || network.is_cutting
    }
}

impl Shared {
    fn connect(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        let (id, connection) = {
            let mut network = self.network.lock();
            self.changed
                .wait_while(&mut network, |network| network.is_stalled);
            if network.is_refusing {
                return Ok(());
            }
            let server = TcpStream::connect(network.server)?;
            let connection = Connection {
                server,
                client,
                is_muted: Arc::default(),
            };
            let id = network.accepted;
            network.accepted += 1;
            network.connections.insert(id, connection.try_clone()?);
            (id, connection)
        };
        let forwarded = self.forward_both(&connection);
        connection.cut();
        self.network.lock().connections.remove(&id);
        forwarded
    }

    fn forward_both(self: &Arc<Self>, connection: &Connection) -> io::Result<()> {
        connection.client.set_nodelay(true)?;
        connection.server.set_nodelay(true)?;
        let (shared, back) = (Arc::clone(self), connection.try_clone()?);
        thread::spawn(move || {
            let pass = |_: &[u8]| {
                if back.is_muted() {
                    Err(io::ErrorKind::ConnectionAborted.into())
                } else {
                    Ok(())
                }
            };
            shared.forward(&back.server, &back.client, pass);
            // A muted connection is ended by the other direction.
            if !back.is_muted() {
                back.cut();
            }
        });
        self.forward(&connection.client, &connection.server, |sent| {
            self.look(sent, connection)
        });
        Ok(())
    }

    /// Inspects a client's bytes, and may cut its connection instead of forwarding them.
    fn look(&self, sent: &[u8], connection: &Connection) -> io::Result<()> {
        let is_in_it = |text: &[u8]| sent.windows(text.len()).any(|part| part == text);
        let mut network = self.network.lock();
        let Some((_, cut)) = network.cut.take_if(|(text, _)| is_in_it(text)) else {
            return Ok(());
        };
        network.is_cutting = cut == Cut::AfterTheServer;
        drop(network);
        if cut == Cut::AfterTheServer {
            // The connection may already be closed.
            let _ = connection.finish(sent);
            self.network.lock().is_cutting = false;
        }
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Forwards one direction until it ends. A separate thread reads, so that each byte is delayed equally.
    fn forward(&self, from: &TcpStream, to: &TcpStream, look: impl Fn(&[u8]) -> io::Result<()>) {
        let Ok(mut reader) = from.try_clone() else {
            return;
        };
        let (read, chunks) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if read
                    .send((Instant::now(), buffer[..length].to_vec()))
                    .is_err()
                {
                    return;
                }
            }
        });
        let _ = self.write(&chunks, to, look);
    }

    fn write(
        &self,
        chunks: &Receiver<(Instant, Vec<u8>)>,
        mut to: &TcpStream,
        look: impl Fn(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for (read_at, chunk) in chunks {
            let delay = self.network.lock().delay;
            thread::sleep((read_at + delay).saturating_duration_since(Instant::now()));
            let mut network = self.network.lock();
            self.changed
                .wait_while(&mut network, |network| network.is_stalled);
            drop(network);
            look(&chunk)?;
            to.write_all(&chunk)?;
        }
        Ok(())
    }
}
