//! RTMP receiver for tests.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rml_rtmp::handshake::{Handshake, HandshakeProcessResult, PeerType};
use rml_rtmp::sessions::{
    ServerSession, ServerSessionConfig, ServerSessionEvent, ServerSessionResult,
};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::flv::{FlvTag, FlvTagKind};

/// Stream key for all test streams; their application is `live`.
pub const KEY: &str = "key?token=hush";

/// Receiver's side of the protocol, in memory.
pub struct Protocol {
    handshake: Option<Handshake>,
    session: ServerSession,
    output: Vec<u8>,
    pub events: Vec<ServerSessionEvent>,
    pub is_publishing: bool,
}

impl Protocol {
    pub fn new() -> Self {
        let (session, results) = ServerSession::new(ServerSessionConfig::new()).unwrap();
        let handshake = Some(Handshake::new(PeerType::Server));
        let mut receiver = Self {
            handshake,
            session,
            output: Vec::new(),
            events: Vec::new(),
            is_publishing: false,
        };
        // Responses before the handshake are kept until it is complete.
        receiver.take(results);
        receiver
    }

    pub fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if let Some(handshake) = &mut self.handshake {
            match handshake.process_bytes(&bytes).unwrap() {
                HandshakeProcessResult::InProgress { response_bytes } => return response_bytes,
                HandshakeProcessResult::Completed {
                    response_bytes,
                    remaining_bytes,
                } => {
                    self.handshake = None;
                    // The handshake precedes the messages that the session has queued.
                    self.output.splice(0..0, response_bytes);
                    bytes = remaining_bytes;
                }
            }
        }
        let results = self.session.handle_input(&bytes).unwrap();
        self.take(results);
        std::mem::take(&mut self.output)
    }

    fn take(&mut self, results: Vec<ServerSessionResult>) {
        for result in results {
            match result {
                ServerSessionResult::OutboundResponse(packet) => self.output.extend(packet.bytes),
                ServerSessionResult::RaisedEvent(event) => self.events.push(event),
                ServerSessionResult::UnhandleableMessageReceived(_) => {}
            }
        }
    }

    /// Answers the oldest open request; `None` if there is none.
    pub fn reply(&mut self, is_accepted: bool) -> Option<Vec<u8>> {
        let is_request = |event: &ServerSessionEvent| {
            matches!(
                event,
                ServerSessionEvent::ConnectionRequested { .. }
                    | ServerSessionEvent::PublishStreamRequested { .. }
            )
        };
        let at = self.events.iter().position(is_request)?;
        let id = match self.events.remove(at) {
            ServerSessionEvent::ConnectionRequested {
                request_id,
                app_name,
            } => {
                assert_eq!(app_name, "live");
                request_id
            }
            ServerSessionEvent::PublishStreamRequested {
                request_id,
                stream_key,
                ..
            } => {
                assert_eq!(stream_key, KEY);
                self.is_publishing = is_accepted;
                request_id
            }
            other => panic!("{other:?}"),
        };
        let results = if is_accepted {
            self.session.accept_request(id).unwrap()
        } else {
            self.session
                // The description has a stream key, which errors must not repeat.
                .reject_request(id, "NetStream.Publish.BadName", "rtmp://a/live/hush")
                .unwrap()
        };
        self.take(results);
        Some(std::mem::take(&mut self.output))
    }
}

/// Creates a tag with a type, a time and a body.
pub fn tag(kind: FlvTagKind, (number, time): (u8, u32), body: &[u8]) -> FlvTag {
    let [top, high, middle, low] = time.to_be_bytes();
    let [_, long, medium, short] = u32::try_from(body.len()).unwrap().to_be_bytes();
    let head = [number, long, medium, short, high, middle, low, top, 0, 0, 0];
    FlvTag {
        kind,
        bytes: [
            &head,
            body,
            &(u32::try_from(body.len()).unwrap() + 11).to_be_bytes(),
        ]
        .concat(),
    }
}

/// Receiver behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Accepts streams.
    Accepts,
    /// Accepts connections, but sends nothing.
    Silent,
    /// Accepts a stream, then closes the connection.
    Closes,
    /// Accepts a stream, but never reads it.
    NeverReads,
    /// Rejects streams.
    Refuses,
}

/// Times and bodies.
type Media = Mutex<Vec<(u32, Vec<u8>)>>;

/// Receiver on a local port.
pub struct Receiver {
    pub address: SocketAddr,
    /// Connections so far.
    pub connections: Arc<AtomicUsize>,
    /// Received media.
    pub media: Arc<Media>,
}

trait Socket: Read + Write + Send {}

impl<T: Read + Write + Send> Socket for T {}

impl Receiver {
    pub fn start(behaviour: Behaviour, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, media) = (Arc::<AtomicUsize>::default(), Arc::<Media>::default());
        let (count, received) = (Arc::clone(&connections), Arc::clone(&media));
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
                let (tls, received) = (tls.clone(), Arc::clone(&received));
                // A broken connection does not fail the test.
                thread::spawn(move || serve(socket, tls, behaviour, &received).unwrap_or_default());
            }
        });
        Self {
            address,
            connections,
            media,
        }
    }
}

fn serve(
    socket: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    behaviour: Behaviour,
    media: &Media,
) -> io::Result<()> {
    let mut socket: Box<dyn Socket> = match tls {
        Some(tls) => Box::new(StreamOwned::new(
            ServerConnection::new(tls).unwrap(),
            socket,
        )),
        None => Box::new(socket),
    };
    let (mut protocol, mut buffer) = (Protocol::new(), vec![0; 64 * 1024]);
    loop {
        if behaviour == Behaviour::Silent
            || (behaviour == Behaviour::NeverReads && protocol.is_publishing)
        {
            loop {
                // In a loop, since `park` may return without reason.
                thread::park();
            }
        }
        let read = socket.read(&mut buffer)?;
        if read == 0 || (behaviour == Behaviour::Closes && protocol.is_publishing) {
            return Ok(());
        }
        socket.write_all(&protocol.receive(&buffer[..read]))?;
        // The connection itself is always accepted.
        while let Some(reply) =
            protocol.reply(behaviour != Behaviour::Refuses || !protocol.is_requested())
        {
            socket.write_all(&reply)?;
        }
        socket.flush()?;
        media
            .lock()
            .unwrap()
            .extend(protocol.events.drain(..).filter_map(|event| match event {
                ServerSessionEvent::VideoDataReceived {
                    data, timestamp, ..
                }
                | ServerSessionEvent::AudioDataReceived {
                    data, timestamp, ..
                } => Some((timestamp.value, data.to_vec())),
                _ => None,
            }));
    }
}

impl Protocol {
    fn is_requested(&self) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, ServerSessionEvent::PublishStreamRequested { .. }))
    }
}
