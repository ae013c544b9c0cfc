//! The listener of RTMP encoders, with its limits and its TLS (RTMPS), which the server does with the certificate of its API.

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

/// Pause after a connection could not be accepted, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener of RTMP encoders. It is closed when this is dropped; connections that are open stay.
#[derive(Debug)]
pub struct RtmpListener {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl RtmpListener {
    /// Returns the address that encoders connect to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RtmpListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts RTMP encoders on a socket that listens, with TLS if it is given. Must be called on a runtime, which
/// the connections stay on.
///
/// # Errors
/// The socket cannot be used.
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
                log::warn!("an RTMP connection cannot be accepted: {error}");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // One too many is closed.
        let Some(permit) = limits.admit(address.ip()) else {
            continue;
        };
        let (plane, tls) = (Arc::clone(&plane), tls.clone());
        tokio::spawn(async move {
            let _permit = permit;
            // One that does not speak TLS, or not in time, is closed.
            if let Some(stream) = open(stream, tls).await {
                Connection::new(plane, stream, address.ip().into())
                    .run()
                    .await;
            }
        });
    }
}

async fn open(stream: TcpStream, tls: Option<RtmpTls>) -> Option<Box<dyn EncoderStream>> {
    // Answers are small.
    let _ = stream.set_nodelay(true);
    match tls {
        Some(tls) => tls(stream).await.ok(),
        None => Some(Box::new(stream)),
    }
}

/// The most connections.
const CONNECTIONS: usize = 512;
/// The most connections from one address that is not a loopback address.
const CONNECTIONS_PER_ADDRESS: usize = 16;

/// Counts open connections of RTMP encoders, by network and in all.
#[derive(Debug, Clone, Default)]
pub struct ConnectionLimits(Arc<Mutex<Counts<ClientAddress>>>);

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub struct Permit {
    limits: ConnectionLimits,
    client: ClientAddress,
}

impl ConnectionLimits {
    /// Counts a connection; `None` if there are too many.
    pub fn admit(&self, address: IpAddr) -> Option<Permit> {
        let (client, is_local) = (
            ClientAddress::from(address),
            address.to_canonical().is_loopback(),
        );
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

/// The result of a handshake, in time.
pub type Handshake = Pin<Box<dyn Future<Output = io::Result<Box<dyn EncoderStream>>> + Send>>;

/// Shakes hands with encoders.
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
