//! Listener for RTMP encoders, with its limits and TLS (RTMPS). TLS uses the certificate of the server's API.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::{ClientAddress, Counts};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::connection::{Connection, EncoderStream};
use crate::embedded::plane::core::PlaneCore;

/// Pause after a failed accept, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listener for RTMP encoders. It is closed on drop; open connections stay.
#[derive(Debug)]
pub struct RtmpListener {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl RtmpListener {
    /// Returns the address for encoders.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RtmpListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts RTMP encoders on a listening socket, with TLS if given. Must be called on a runtime, which then runs the
/// connections.
///
/// # Errors
/// If the socket cannot be used.
pub(in crate::embedded) fn serve(
    plane: Arc<PlaneCore>,
    socket: std::net::TcpListener,
    tls: Option<RtmpTls>,
) -> io::Result<RtmpListener> {
    socket.set_nonblocking(true)?;
    let listener = TcpListener::from_std(socket)?;
    let address = listener.local_addr()?;
    Ok(RtmpListener {
        address,
        task: tokio::spawn(accept(plane, listener, tls)),
    })
}

async fn accept(plane: Arc<PlaneCore>, listener: TcpListener, tls: Option<RtmpTls>) {
    let limits = ConnectionLimits::default();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Without the pause, a process without file descriptors would spin here.
                log::warn!("accepting an RTMP connection failed: {error}");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Above the limit, the new connection is closed: an established stream is worth more.
        let Some(permit) = limits.admit(address.ip()) else {
            continue;
        };
        let (plane, tls) = (Arc::clone(&plane), tls.clone());
        tokio::spawn(async move {
            let _permit = permit;
            // Closed without a message if TLS fails or takes too long.
            if let Some(stream) = open(stream, tls).await {
                Connection::new(plane, stream, address.ip().into())
                    .run()
                    .await;
            }
        });
    }
}

async fn open(stream: TcpStream, tls: Option<RtmpTls>) -> Option<Box<dyn EncoderStream>> {
    // Responses are small.
    let _ = stream.set_nodelay(true);
    match tls {
        Some(tls) => tls(stream).await.ok(),
        None => Some(Box::new(stream)),
    }
}

/// Maximum number of connections.
const CONNECTIONS: usize = 512;
/// Maximum number of connections per address, except loopback addresses.
const CONNECTIONS_PER_ADDRESS: usize = 16;

/// Numbers of open connections from RTMP encoders, per address or IPv6 network, and in total.
#[derive(Debug, Clone, Default)]
pub struct ConnectionLimits(Arc<Mutex<Counts<ClientAddress>>>);

/// Counts a connection until dropped.
#[derive(Debug)]
pub struct Permit {
    limits: ConnectionLimits,
    client: ClientAddress,
}

impl ConnectionLimits {
    /// Counts a connection; `None` at the limit.
    pub fn admit(&self, address: IpAddr) -> Option<Permit> {
        let (client, is_local) = (
            ClientAddress::from(address),
            address.to_canonical().is_loopback(),
        );
        // Encoders on this host, such as a relay's, share the loopback address.
        let mut counts = self.0.lock();
        if counts.total() >= CONNECTIONS
            || (counts.get(&client) >= CONNECTIONS_PER_ADDRESS && !is_local)
        {
            return None;
        }
        counts.add(client);
        Some(Permit {
            limits: self.clone(),
            client,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limits.0.lock().subtract(&self.client);
    }
}

/// TLS handshake with a time limit.
pub type Handshake = Pin<Box<dyn Future<Output = io::Result<Box<dyn EncoderStream>>> + Send>>;

/// Performs TLS handshakes with encoders.
pub type RtmpTls = Arc<dyn Fn(TcpStream) -> Handshake + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-79.
    #[test]
    fn connections_are_limited_by_network_and_in_all() {
        let limits = ConnectionLimits::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut permits: Vec<_> = (1..=16)
            .map(|host| limits.admit(address(&format!("2001:db8::{host}"))).unwrap())
            .collect();
        assert!(limits.admit(address("2001:db8::ffff")).is_none());
        assert!(limits.admit(address("2001:db8:0:1::1")).is_some());
        permits.pop();
        permits.push(limits.admit(address("2001:db8::ffff")).unwrap());
        let local: Vec<_> = std::iter::from_fn(|| limits.admit(address("127.0.0.1"))).collect();
        assert_eq!(permits.len() + local.len(), CONNECTIONS);
        drop((permits, local));
        assert!(limits.0.lock().is_empty());
    }
}
