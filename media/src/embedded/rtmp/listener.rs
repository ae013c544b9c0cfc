//! The listener of RTMP encoders.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::connection::Connection;
use super::limits::ConnectionLimits;
use crate::embedded::plane::EmbeddedPlane;

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
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RtmpListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EmbeddedPlane {
    /// Accepts RTMP encoders on a socket that listens. Must be called on a runtime, which the connections stay on.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn serve_rtmp(&self, socket: std::net::TcpListener) -> io::Result<RtmpListener> {
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket)?;
        let address = listener.local_addr()?;
        // The listener is started once.
        let _ = self.inner().rtmp_port.set(address.port());
        Ok(RtmpListener { address, task: tokio::spawn(accept(self.clone(), listener)) })
    }
}

async fn accept(plane: EmbeddedPlane, listener: TcpListener) {
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
        let Some(permit) = limits.admit(address.ip()) else { continue };
        let connection = Connection::new(plane.clone(), stream);
        tokio::spawn(async move {
            let _permit = permit;
            connection.run().await;
        });
    }
}
