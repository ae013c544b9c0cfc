//! TLS of RTMP encoders (RTMPS), which the server does with the certificate of its API.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The bytes of an encoder, encrypted on their way or not.
pub trait EncoderStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> EncoderStream for T {}

/// The result of a handshake, in time.
pub type Handshake = Pin<Box<dyn Future<Output = io::Result<Box<dyn EncoderStream>>> + Send>>;

/// Shakes hands with encoders.
pub type RtmpTls = Arc<dyn Fn(TcpStream) -> Handshake + Send + Sync>;
