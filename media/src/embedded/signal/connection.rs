//! The channels between a websocket and a session.

use tokio::sync::mpsc;

/// Number of frames from a client that wait for its session.
const FRAMES: usize = 64;
/// Number of frames that wait for a client. A room of thousands of participants is one frame.
const REPLIES: usize = 1_024;

/// A frame of a websocket: a `SignalRequest` of the client, or a `SignalResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalFrame {
    /// In the binary format of protocol buffers.
    Binary(Vec<u8>),
    /// In their JSON format. A client that sends it is answered in it from then on.
    Text(String),
}

impl SignalFrame {
    /// Returns a frame of a client without a request. Its session learns by it that the client is there.
    #[must_use]
    pub const fn sign_of_life() -> Self {
        Self::Binary(Vec::new())
    }
}

/// A session's side of a websocket, for the one that has the websocket.
#[derive(Debug)]
pub struct SignalConnection {
    /// Takes the client's frames. Dropped when the websocket is closed.
    pub frames: mpsc::Sender<SignalFrame>,
    /// Gives the frames for the client. After the last one, the websocket is to be closed.
    pub replies: mpsc::Receiver<SignalFrame>,
}

/// The other side of a [`SignalConnection`].
#[derive(Debug)]
pub(in crate::embedded) struct Socket {
    /// Gives the client's frames, until the websocket is closed.
    pub frames: mpsc::Receiver<SignalFrame>,
    /// Takes the frames for the client. Dropped to close the websocket.
    pub replies: mpsc::Sender<SignalFrame>,
}

/// Returns both sides of a connection.
pub(super) fn connection() -> (SignalConnection, Socket) {
    let ((frames, from_client), (to_client, replies)) = (mpsc::channel(FRAMES), mpsc::channel(REPLIES));
    (SignalConnection { frames, replies }, Socket { frames: from_client, replies: to_client })
}
