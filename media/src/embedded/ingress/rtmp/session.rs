//! State machine of an RTMP connection, without I/O: the handshake, commands and messages of an encoder that publishes one stream.
//!
//! The crate `rml_rtmp` implements the protocol. This module adds the limits that the crate lacks: bytes before the stream key, message
//! size, chunk size, and the depth of values in commands, which the crate parses recursively.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use conclave_model::ingress::StreamKeyHash;
use rml_rtmp::chunk_io::ChunkDeserializer;
use rml_rtmp::handshake::{Handshake, HandshakeProcessResult, PeerType};
use rml_rtmp::messages::MessagePayload;
use rml_rtmp::sessions::{
    ServerSession, ServerSessionConfig, ServerSessionEvent, ServerSessionResult,
};

/// Application name in the publish URL.
const APPLICATION: &str = "live";
/// Maximum bytes before the stream key is accepted.
const MAX_BEFORE_KEY: usize = 64 * 1024;
/// Maximum message size in bytes, enough for a 4K key frame.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;
/// Maximum size of a command or stream metadata, in bytes.
const MAX_COMMAND: usize = 64 * 1024;
/// Maximum number of objects and arrays in a command, which bounds their depth.
const MAX_CONTAINERS: usize = 512;
/// The server's chunk size, in bytes.
const CHUNK_SIZE: u32 = 4_096;

/// An encoder's action.
#[derive(Debug, PartialEq, Eq)]
pub enum RtmpEvent {
    /// Request to publish with this stream key. Input waits until [`RtmpSession::accept`].
    Publish(StreamKeyHash),
    /// Video message, with its time in milliseconds.
    Video(u32, Vec<u8>),
    /// Audio message, with its time in milliseconds.
    Audio(u32, Vec<u8>),
    /// End of the stream.
    Finished,
}

/// Reason for closing a connection. The text contains nothing from the encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RtmpError {
    /// Not RTMP.
    #[error("the encoder does not follow the RTMP protocol")]
    Protocol,
    /// A message or command is too large.
    #[error("the encoder sent a message that is too large")]
    TooLarge,
    /// Too many bytes before the stream key.
    #[error("the encoder did not publish")]
    NotPublishing,
    /// Anything other than publishing one stream to the application `live`.
    #[error("the encoder must publish one stream, to rtmp://HOST:PORT/live")]
    Unsupported,
}

/// A connection's state.
enum RtmpState {
    Handshake(Box<Handshake>),
    Open(Box<OpenConnection>),
}

/// A connection after its handshake.
struct OpenConnection {
    session: ServerSession,
    guard: MessageGuard,
    /// Pending request to publish.
    request: Option<u32>,
    /// Whether it was accepted.
    is_publishing: bool,
}

/// One encoder's RTMP connection.
pub struct RtmpSession {
    state: RtmpState,
    /// Bytes received before the stream key was accepted.
    received: usize,
    output: Vec<u8>,
    events: VecDeque<RtmpEvent>,
}

impl RtmpSession {
    /// Creates a connection in its handshake.
    pub fn new() -> Self {
        Self {
            state: RtmpState::Handshake(Box::new(Handshake::new(PeerType::Server))),
            received: 0,
            output: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Processes bytes from the encoder.
    ///
    /// # Errors
    /// If the connection must be closed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), RtmpError> {
        self.received = self.received.saturating_add(bytes.len());
        if self.received > MAX_BEFORE_KEY && !self.is_publishing() {
            return Err(RtmpError::NotPublishing);
        }
        // The crate trusts numbers from the encoder, and panics for some inconsistent ones. The connection is closed
        // then, so its state does not matter.
        catch_unwind(AssertUnwindSafe(|| self.handle(bytes))).unwrap_or(Err(RtmpError::Protocol))
    }

    /// Accepts the request to publish.
    ///
    /// # Errors
    /// If the connection must be closed.
    pub fn accept(&mut self) -> Result<(), RtmpError> {
        let RtmpState::Open(open) = &mut self.state else {
            return Err(RtmpError::Protocol);
        };
        let request = open.request.take().ok_or(RtmpError::Protocol)?;
        let results = open
            .session
            .accept_request(request)
            .map_err(|_| RtmpError::Protocol)?;
        open.is_publishing = true;
        self.handle_results(results)
    }

    /// Rejects the request to publish. The connection must be closed after the output.
    pub fn refuse(&mut self, reason: &str) {
        let RtmpState::Open(open) = &mut self.state else {
            return;
        };
        let Some(request) = open.request.take() else {
            return;
        };
        // `BadName` is the usual code for a rejected stream key.
        let results = open
            .session
            .reject_request(request, "NetStream.Publish.BadName", reason);
        // Ignored: the encoder still notices that the connection is closed.
        let _ = results.map(|results| self.handle_results(results));
    }

    /// Returns the bytes for the encoder since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    pub fn next_event(&mut self) -> Option<RtmpEvent> {
        self.events.pop_front()
    }

    fn is_publishing(&self) -> bool {
        matches!(&self.state, RtmpState::Open(open) if open.is_publishing)
    }

    fn handle(&mut self, bytes: &[u8]) -> Result<(), RtmpError> {
        match &mut self.state {
            RtmpState::Handshake(handshake) => match handshake.process_bytes(bytes) {
                Ok(HandshakeProcessResult::InProgress { response_bytes }) => {
                    self.output.extend(response_bytes);
                    Ok(())
                }
                Ok(HandshakeProcessResult::Completed {
                    response_bytes,
                    remaining_bytes,
                }) => {
                    self.output.extend(response_bytes);
                    self.open(&remaining_bytes)
                }
                Err(_) => Err(RtmpError::Protocol),
            },
            RtmpState::Open(open) => {
                // Before the crate parses the same bytes.
                open.guard.check(bytes)?;
                let results = open
                    .session
                    .handle_input(bytes)
                    .map_err(|_| RtmpError::Protocol)?;
                self.handle_results(results)
            }
        }
    }

    fn open(&mut self, remaining: &[u8]) -> Result<(), RtmpError> {
        let config = ServerSessionConfig {
            // The default, 128 bytes, would cost a header each.
            chunk_size: CHUNK_SIZE,
            ..ServerSessionConfig::new()
        };
        let (session, results) = ServerSession::new(config).map_err(|_| RtmpError::Protocol)?;
        let open = OpenConnection {
            session,
            guard: MessageGuard::new(),
            request: None,
            is_publishing: false,
        };
        self.state = RtmpState::Open(Box::new(open));
        self.handle_results(results)?;
        // The encoder may have sent its first command together with the last handshake message.
        self.handle(remaining)
    }

    fn handle_results(&mut self, results: Vec<ServerSessionResult>) -> Result<(), RtmpError> {
        for result in results {
            match result {
                ServerSessionResult::OutboundResponse(packet) => self.output.extend(packet.bytes),
                ServerSessionResult::RaisedEvent(event) => self.handle_event(event)?,
                // Messages for particular servers.
                ServerSessionResult::UnhandleableMessageReceived(_) => {}
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, event: ServerSessionEvent) -> Result<(), RtmpError> {
        match event {
            ServerSessionEvent::ConnectionRequested {
                request_id,
                app_name,
            } => {
                // Some encoders append a slash to the application.
                // Accepted for every encoder: its stream key comes with the later request to publish.
                if app_name.trim_matches('/') != APPLICATION {
                    return Err(RtmpError::Unsupported);
                }
                let RtmpState::Open(open) = &mut self.state else {
                    return Err(RtmpError::Protocol);
                };
                let results = open
                    .session
                    .accept_request(request_id)
                    .map_err(|_| RtmpError::Protocol)?;
                self.handle_results(results)
            }
            ServerSessionEvent::PublishStreamRequested {
                request_id,
                stream_key,
                ..
            } => self.request_publishing(request_id, &stream_key),
            ServerSessionEvent::PublishStreamFinished { .. } => {
                self.events.push_back(RtmpEvent::Finished);
                Ok(())
            }
            ServerSessionEvent::VideoDataReceived {
                data, timestamp, ..
            // Media before the request was accepted has no stream, and the crate raises no event for it.
            } => {
                self.events
                    .push_back(RtmpEvent::Video(timestamp.value, data.into()));
                Ok(())
            }
            ServerSessionEvent::AudioDataReceived {
                data, timestamp, ..
            } => {
                self.events
                    .push_back(RtmpEvent::Audio(timestamp.value, data.into()));
                Ok(())
            }
            // Playback is by WebRTC only.
            ServerSessionEvent::PlayStreamRequested { .. } => Err(RtmpError::Unsupported),
            // Metadata is in the media as well. Commands for particular servers, such as `FCPublish` and
            // `releaseStream`, need no reply.
            _ => Ok(()),
        }
    }

    /// Records the request to publish. Encoders may append parameters to the key, as in a URL, such as
    /// `?bandwidthtest=true` for Twitch.
    fn request_publishing(&mut self, request: u32, stream_key: &str) -> Result<(), RtmpError> {
        let RtmpState::Open(open) = &mut self.state else {
            return Err(RtmpError::Protocol);
        };
        // One stream per connection.
        if open.is_publishing || open.request.replace(request).is_some() {
            return Err(RtmpError::Unsupported);
        }
        let key = stream_key.split('?').next().unwrap_or_default();
        self.events
            .push_back(RtmpEvent::Publish(StreamKeyHash::from_key(key)));
        Ok(())
    }
}

/// Second parser of an encoder's messages, which rejects them before they reach the session.
struct MessageGuard {
    chunks: ChunkDeserializer,
    /// Bytes since the last complete message.
    pending: usize,
}

/// Message types that are checked.
const SET_CHUNK_SIZE: u8 = 1;
const AMF3_DATA: u8 = 15;
const AMF3_COMMAND: u8 = 17;
const AMF0_DATA: u8 = 18;
const AMF0_COMMAND: u8 = 20;

impl MessageGuard {
    fn new() -> Self {
        Self {
            chunks: ChunkDeserializer::new(),
            pending: 0,
        }
    }

    fn check(&mut self, bytes: &[u8]) -> Result<(), RtmpError> {
        // Limits a message that never completes.
        self.pending += bytes.len();
        let mut input = bytes;
        while let Some(message) = self
            .chunks
            .get_next_message(input)
            .map_err(|_| RtmpError::Protocol)?
        {
            // The parser has all the bytes now; further calls only return what is complete.
            input = &[];
            self.pending = 0;
            self.check_message(&message)?;
        }
        if self.pending > MAX_MESSAGE {
            Err(RtmpError::TooLarge)
        } else {
            Ok(())
        }
    }

    fn check_message(&mut self, message: &MessagePayload) -> Result<(), RtmpError> {
        // `pending` is reset by a message that arrives in one piece, so it does not cover these.
        if message.data.len() > MAX_MESSAGE {
            return Err(RtmpError::TooLarge);
        }
        match message.type_id {
            // Followed here as well, or this parser would lose the message boundaries.
            SET_CHUNK_SIZE => self.set_chunk_size(&message.data),
            AMF0_COMMAND | AMF0_DATA | AMF3_COMMAND | AMF3_DATA => check_values(&message.data),
            _ => Ok(()),
        }
    }

    fn set_chunk_size(&mut self, data: &[u8]) -> Result<(), RtmpError> {
        let size = data
            .first_chunk()
            .map(|size| u32::from_be_bytes(*size))
            .ok_or(RtmpError::Protocol)?;
        // With chunk size 0, no message would ever be complete.
        match usize::try_from(size) {
            Ok(size @ 1..=MAX_MESSAGE) => self
                .chunks
                .set_max_chunk_size(size)
                .map_err(|_| RtmpError::Protocol),
            _ => Err(RtmpError::TooLarge),
        }
    }
}

/// Rejects values that are too large or possibly too deep: each object and each array starts with one of these bytes.
fn check_values(data: &[u8]) -> Result<(), RtmpError> {
    // Counts bytes of texts and numbers, too, so it overestimates. Real commands have a few objects.
    let containers = data
        .iter()
        .filter(|byte| matches!(byte, 0x03 | 0x08 | 0x0a))
        .count();
    if data.len() > MAX_COMMAND || containers > MAX_CONTAINERS {
        Err(RtmpError::TooLarge)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Connections with the crate's own client, and with bytes that are no RTMP.

    use proptest::prelude::*;
    use rml_rtmp::sessions::{
        ClientSession, ClientSessionConfig, ClientSessionEvent, ClientSessionResult,
        PublishRequestType,
    };
    use rml_rtmp::time::RtmpTimestamp;

    use super::*;

    /// An encoder and a server that exchange bytes in memory.
    struct Exchange {
        server: RtmpSession,
        client: ClientSession,
        client_events: Vec<ClientSessionEvent>,
    }

    fn shake_hands() -> RtmpSession {
        let (mut server, mut client) = (RtmpSession::new(), Handshake::new(PeerType::Client));
        let mut sent = client.generate_outbound_p0_and_p1().unwrap();
        loop {
            server.receive(&sent).unwrap();
            match client.process_bytes(&server.take_output()).unwrap() {
                HandshakeProcessResult::InProgress { response_bytes } => sent = response_bytes,
                HandshakeProcessResult::Completed { response_bytes, .. } => {
                    server.receive(&response_bytes).unwrap();
                    return server;
                }
            }
        }
    }

    impl Exchange {
        /// Connects an encoder to an application.
        fn connect(application: &str) -> Result<Self, RtmpError> {
            let (client, first) = ClientSession::new(ClientSessionConfig::new()).unwrap();
            let mut exchange = Self {
                server: shake_hands(),
                client,
                client_events: Vec::new(),
            };
            exchange.exchange(first)?;
            let request = exchange
                .client
                .request_connection(application.into())
                .unwrap();
            exchange.exchange(vec![request])?;
            Ok(exchange)
        }

        fn request(&mut self, key: &str) -> Result<(), RtmpError> {
            let request = self
                .client
                .request_publishing(key.into(), PublishRequestType::Live)
                .unwrap();
            self.exchange(vec![request])
        }

        /// Sends the client's output, and the server's replies, until there is none left.
        fn exchange(&mut self, results: Vec<ClientSessionResult>) -> Result<(), RtmpError> {
            let mut results = results;
            loop {
                for result in results {
                    match result {
                        ClientSessionResult::OutboundResponse(packet) => {
                            self.server.receive(&packet.bytes)?;
                        }
                        ClientSessionResult::RaisedEvent(event) => self.client_events.push(event),
                        ClientSessionResult::UnhandleableMessageReceived(_) => {}
                    }
                }
                let output = self.server.take_output();
                if output.is_empty() {
                    return Ok(());
                }
                results = self.client.handle_input(&output).unwrap();
            }
        }

        fn accept(&mut self) {
            self.server.accept().unwrap();
            self.exchange(Vec::new()).unwrap();
        }

        fn send_video(&mut self, timestamp: u32, body: Vec<u8>) -> Result<(), RtmpError> {
            let sent = self
                .client
                .publish_video_data(body.into(), RtmpTimestamp::new(timestamp), false)
                .unwrap();
            self.exchange(vec![sent])
        }
    }

    #[test]
    fn an_encoder_publishes_with_its_key_and_its_messages_arrive() {
        let mut exchange = Exchange::connect("live").unwrap();
        exchange.request("key?bandwidthtest=true").unwrap();
        assert_eq!(
            exchange.server.next_event(),
            Some(RtmpEvent::Publish(StreamKeyHash::from_key("key")))
        );
        assert!(
            !exchange
                .client_events
                .contains(&ClientSessionEvent::PublishRequestAccepted)
        );
        exchange.accept();
        assert!(
            exchange
                .client_events
                .contains(&ClientSessionEvent::PublishRequestAccepted)
        );
        exchange.send_video(40, vec![7; 100_000]).unwrap();
        let audio = exchange
            .client
            .publish_audio_data(vec![9].into(), RtmpTimestamp::new(60), false)
            .unwrap();
        exchange.exchange(vec![audio]).unwrap();
        let events: Vec<_> = std::iter::from_fn(|| exchange.server.next_event()).collect();
        assert_eq!(
            events,
            [
                RtmpEvent::Video(40, vec![7; 100_000]),
                RtmpEvent::Audio(60, vec![9])
            ]
        );
        let stopped = exchange.client.stop_publishing().unwrap();
        exchange.exchange(stopped).unwrap();
        assert_eq!(exchange.server.next_event(), Some(RtmpEvent::Finished));
    }

    #[test]
    fn an_encoder_that_may_not_publish_gets_an_error() {
        let mut exchange = Exchange::connect("live/").unwrap();
        exchange.request("key").unwrap();
        exchange
            .server
            .refuse("no ingress endpoint has this stream key");
        let output = exchange.server.take_output();
        assert!(String::from_utf8_lossy(&output).contains("NetStream.Publish.BadName"));
    }

    #[test]
    fn other_applications_and_a_second_stream_are_unsupported() {
        assert_eq!(Exchange::connect("vod").err(), Some(RtmpError::Unsupported));
        let mut exchange = Exchange::connect("live").unwrap();
        exchange.request("key").unwrap();
        exchange.accept();
        let RtmpState::Open(open) = &mut exchange.server.state else {
            panic!("it is open")
        };
        open.request = None;
        assert_eq!(
            exchange.server.request_publishing(9, "other"),
            Err(RtmpError::Unsupported)
        );
    }

    /// Proves S-79.
    #[test]
    fn what_an_encoder_sends_before_its_key_is_bounded() {
        let mut exchange = Exchange::connect("live").unwrap();
        // Audio of a stream that is not published.
        let audio = [&[0x04, 0, 0, 0, 0, 0, 100, 8, 1, 0, 0, 0][..], &[0; 100]].concat();
        let sent: Result<Vec<()>, _> = (0..1_000)
            .map(|_| exchange.server.receive(&audio))
            .collect();
        assert_eq!(sent.err(), Some(RtmpError::NotPublishing));
        assert_eq!(exchange.server.next_event(), None);
    }

    #[test]
    fn a_message_is_bounded_also_for_an_encoder_that_publishes() {
        let mut exchange = Exchange::connect("live").unwrap();
        exchange.request("key").unwrap();
        exchange.accept();
        let result = exchange.send_video(0, vec![0; MAX_MESSAGE + 1]);
        assert_eq!(result, Err(RtmpError::TooLarge));
        // A message without end.
        let (mut server, header) = (
            shake_hands(),
            [0x04, 0, 0, 0, 0xff, 0xff, 0xff, 9, 1, 0, 0, 0],
        );
        let RtmpState::Open(open) = &mut server.state else {
            panic!("it is open")
        };
        open.is_publishing = true;
        server
            .receive(&[2, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
            .unwrap();
        server.receive(&header).unwrap();
        let sent: Result<Vec<()>, _> = (0..100)
            .map(|_| server.receive(&[0xc4; 64 * 1_024]))
            .collect();
        assert_eq!(sent.err(), Some(RtmpError::TooLarge));
    }

    #[test]
    fn chunks_of_no_size_and_values_that_are_deep_are_refused() {
        let header =
            |kind: u8, length: u8| [&[0x02, 0, 0, 0, 0, 0, length, kind], &[0; 4][..]].concat();
        let mut server = shake_hands();
        assert_eq!(
            server.receive(&[&header(1, 4)[..], &[0, 0, 0, 0]].concat()),
            Err(RtmpError::TooLarge)
        );
        assert_eq!(
            check_values(&[3, 0, 1, b'a'].repeat(MAX_CONTAINERS + 1)),
            Err(RtmpError::TooLarge)
        );
        assert_eq!(
            check_values(&vec![2; MAX_COMMAND + 1]),
            Err(RtmpError::TooLarge)
        );
        assert_eq!(check_values(&[3, 0, 1, b'a'].repeat(16)), Ok(()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes_are_taken_or_refused(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..8)) {
            let mut fresh = RtmpSession::new();
            let mut open = shake_hands();
            for piece in pieces {
                let _ = fresh.receive(&piece);
                if open.receive(&piece).is_err() {
                    break;
                }
            }
        }

        #[test]
        fn chunks_with_any_headers_are_taken_or_refused(
            chunks in prop::collection::vec((0_u8..4, 2_u8..6, any::<[u8; 3]>(), 0_u8..3, 1_u8..25, 0_usize..140), 1..20),
        ) {
            let mut open = shake_hands();
            for (format, stream, time, length, kind, bytes) in chunks {
                let header = [&time[..], &[0, length, 0x40, kind], &[1, 0, 0, 0]].concat();
                let size = [11, 7, 3, 0][usize::from(format)];
                let chunk = [&[format << 6 | stream], &header[..size], &vec![3; bytes][..]].concat();
                if open.receive(&chunk).is_err() {
                    break;
                }
            }
        }
    }
}
