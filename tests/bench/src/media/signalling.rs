//! A client's WebSocket: LiveKit's signalling, version 0.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use livekit_protocol::signal_request::Message as Request;
use livekit_protocol::signal_response::Message as Response;
use livekit_protocol::{SignalRequest, SignalResponse};
use prost::Message as _;
use socket2::{Domain, Socket, Type};
use tungstenite::{Error, Message, WebSocket};

use crate::BenchError;

/// Protocol version: the last one before data channels are negotiated.
const PROTOCOL: u32 = 16;

/// Time limit for the handshake.
const PATIENCE: Duration = Duration::from_secs(8);

/// A client's WebSocket.
pub struct Signalling {
    websocket: WebSocket<TcpStream>,
}

/// Opens a WebSocket from an address, without making it non-blocking.
pub fn open(
    server: SocketAddr,
    token: &str,
    from: IpAddr,
) -> Result<WebSocket<TcpStream>, BenchError> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect(&server.into())?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let url = format!(
        "ws://{server}/rtc?access_token={token}&auto_subscribe=1&sdk=rust&protocol={PROTOCOL}"
    );
    let (websocket, _) =
        tungstenite::client(url, TcpStream::from(socket)).map_err(|error| error.to_string())?;
    Ok(websocket)
}

impl Signalling {
    /// Connects from an address, so that each client can have its own.
    pub fn connect(server: SocketAddr, token: &str, from: IpAddr) -> Result<Self, BenchError> {
        let websocket = open(server, token, from)?;
        websocket.get_ref().set_nonblocking(true)?;
        Ok(Self { websocket })
    }

    pub fn stream(&self) -> &TcpStream {
        self.websocket.get_ref()
    }

    /// Sends a message.
    pub fn send(&mut self, message: Request) -> Result<(), BenchError> {
        let request = SignalRequest {
            message: Some(message),
        };
        ignore_busy(
            self.websocket
                .send(Message::binary(request.encode_to_vec())),
        )
    }

    /// Sends data that a busy connection left unsent.
    pub fn flush(&mut self) -> Result<(), BenchError> {
        ignore_busy(self.websocket.flush())
    }

    /// Waits for the next message.
    pub fn wait(&mut self) -> Result<Response, BenchError> {
        self.websocket.get_ref().set_nonblocking(false)?;
        let message = self.receive()?.ok_or("the server sent no message")?;
        self.websocket.get_ref().set_nonblocking(true)?;
        Ok(message)
    }

    /// Returns the next message; `None` if there is none.
    pub fn receive(&mut self) -> Result<Option<Response>, BenchError> {
        loop {
            match self.websocket.read() {
                Ok(Message::Binary(bytes)) => {
                    if let Some(message) = SignalResponse::decode(&*bytes)?.message {
                        return Ok(Some(message));
                    }
                }
                Ok(Message::Close(_)) => return Err("the server closed the websocket".into()),
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn ignore_busy(result: Result<(), Error>) -> Result<(), BenchError> {
    match result {
        Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        other => Ok(other?),
    }
}
