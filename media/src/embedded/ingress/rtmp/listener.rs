//! The listener of RTMP encoders.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::connection::Connection;
use super::limits::ConnectionLimits;
use super::tls::{EncoderStream, RtmpTls};
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
    /// Accepts RTMP encoders on a socket that listens, with TLS if it is given. Must be called on a runtime, which
    /// the connections stay on.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn serve_rtmp(
        &self,
        socket: std::net::TcpListener,
        tls: Option<RtmpTls>,
    ) -> io::Result<RtmpListener> {
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket)?;
        let address = listener.local_addr()?;
        Ok(RtmpListener {
            address,
            task: tokio::spawn(accept(self.clone(), listener, tls)),
        })
    }
}

async fn accept(plane: EmbeddedPlane, listener: TcpListener, tls: Option<RtmpTls>) {
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
        let (plane, tls) = (plane.clone(), tls.clone());
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
