//! The state machine of an RTMP connection, without I/O: the handshake, commands and messages of one encoder that publishes one
//! stream.
//!
//! The protocol is that of the crate `rml_rtmp`. Around it are the bounds that it lacks: of what an encoder may send before its
//! stream key is known, of a message, of a chunk and of the depth of values in commands, which the crate reads recursively.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use conclave_model::ingress::StreamKeyHash;
use rml_rtmp::chunk_io::ChunkDeserializer;
use rml_rtmp::handshake::{Handshake, HandshakeProcessResult, PeerType};
use rml_rtmp::messages::MessagePayload;
use rml_rtmp::sessions::{
    ServerSession, ServerSessionConfig, ServerSessionEvent, ServerSessionResult,
};

/// The application of the urls that encoders are given.
const APPLICATION: &str = "live";
/// Bytes that an encoder may send before its stream key is accepted.
const MAX_BEFORE_KEY: usize = 64 * 1024;
/// Bytes of the largest message: a key frame of 4K video.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;
/// Bytes of the largest command, and of the metadata of a stream.
const MAX_COMMAND: usize = 64 * 1024;
/// Objects and arrays in a command, at most, and so their depth.
const MAX_CONTAINERS: usize = 512;
/// Bytes of the chunks that the server sends.
const CHUNK_SIZE: u32 = 4_096;

/// What an encoder does.
#[derive(Debug, PartialEq, Eq)]
pub enum RtmpEvent {
    /// It wants to publish with this stream key. Nothing is read on before [`RtmpSession::accept`].
    Publish(StreamKeyHash),
    /// It sends a video message, with its time in milliseconds.
    Video(u32, Vec<u8>),
    /// It sends an audio message, with its time in milliseconds.
    Audio(u32, Vec<u8>),
    /// It ends its stream.
    Finished,
}

/// Why a connection is closed. The text contains nothing that the encoder has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RtmpError {
    /// The bytes are no RTMP.
    #[error("the encoder does not speak RTMP as the server understands it")]
    Protocol,
    /// A message or a command is too large.
    #[error("the encoder sent a message that is too large")]
    TooLarge,
    /// It sent too much before it named its stream key.
    #[error("the encoder did not publish")]
    NotPublishing,
    /// It wants to do something else than publish one stream to the application `live`.
    #[error("the encoder must publish one stream, to rtmp://HOST:PORT/live")]
    Unsupported,
}

/// The state of a connection.
enum State {
    Handshake(Box<Handshake>),
    Open(Box<Open>),
}

/// A connection whose handshake is complete.
struct Open {
    session: ServerSession,
    guard: Guard,
    /// The request to publish that is not answered.
    request: Option<u32>,
    /// Whether it was accepted.
    is_publishing: bool,
}

/// The RTMP connection of one encoder.
pub struct RtmpSession {
    state: State,
    /// Bytes received before the stream key was accepted.
    received: usize,
    output: Vec<u8>,
    events: VecDeque<RtmpEvent>,
}

impl RtmpSession {
    /// Begins a connection.
    pub fn new() -> Self {
        Self {
            state: State::Handshake(Box::new(Handshake::new(PeerType::Server))),
            received: 0,
            output: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes bytes of the encoder.
    ///
    /// # Errors
    /// The connection has to be closed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), RtmpError> {
        self.received = self.received.saturating_add(bytes.len());
        if self.received > MAX_BEFORE_KEY && !self.is_publishing() {
            return Err(RtmpError::NotPublishing);
        }
        // The crate trusts the numbers that an encoder sends, and panics for some that do not fit together.
        catch_unwind(AssertUnwindSafe(|| self.handle(bytes))).unwrap_or(Err(RtmpError::Protocol))
    }

    /// Lets the encoder publish.
    ///
    /// # Errors
    /// The connection has to be closed.
    pub fn accept(&mut self) -> Result<(), RtmpError> {
        let State::Open(open) = &mut self.state else {
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

    /// Tells the encoder that it may not publish. The connection is to be closed once the output is sent.
    pub fn refuse(&mut self, reason: &str) {
        let State::Open(open) = &mut self.state else {
            return;
        };
        let Some(request) = open.request.take() else {
            return;
        };
        let results = open
            .session
            .reject_request(request, "NetStream.Publish.BadName", reason);
        // An encoder that cannot be told sees that the connection is closed.
        let _ = results.map(|results| self.handle_results(results));
    }

    /// Returns the bytes for the encoder since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<RtmpEvent> {
        self.events.pop_front()
    }

    fn is_publishing(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.is_publishing)
    }

    fn handle(&mut self, bytes: &[u8]) -> Result<(), RtmpError> {
        match &mut self.state {
            State::Handshake(handshake) => match handshake.process_bytes(bytes) {
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
            State::Open(open) => {
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
            chunk_size: CHUNK_SIZE,
            ..ServerSessionConfig::new()
        };
        let (session, results) = ServerSession::new(config).map_err(|_| RtmpError::Protocol)?;
        let open = Open {
            session,
            guard: Guard::new(),
            request: None,
            is_publishing: false,
        };
        self.state = State::Open(Box::new(open));
        self.handle_results(results)?;
        self.handle(remaining)
    }

    fn handle_results(&mut self, results: Vec<ServerSessionResult>) -> Result<(), RtmpError> {
        for result in results {
            match result {
                ServerSessionResult::OutboundResponse(packet) => self.output.extend(packet.bytes),
                ServerSessionResult::RaisedEvent(event) => self.handle_event(event)?,
                // Messages that encoders send for servers of a certain kind.
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
                if app_name.trim_matches('/') != APPLICATION {
                    return Err(RtmpError::Unsupported);
                }
                let State::Open(open) = &mut self.state else {
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
            ServerSessionEvent::PlayStreamRequested { .. } => Err(RtmpError::Unsupported),
            // Metadata is in the media as well; the rest asks for nothing.
            _ => Ok(()),
        }
    }

    /// Notes the request to publish. Encoders may add parameters to the key, like those of a url.
    fn request_publishing(&mut self, request: u32, stream_key: &str) -> Result<(), RtmpError> {
        let State::Open(open) = &mut self.state else {
            return Err(RtmpError::Protocol);
        };
        if open.is_publishing || open.request.replace(request).is_some() {
            return Err(RtmpError::Unsupported);
        }
        let key = stream_key.split('?').next().unwrap_or_default();
        self.events
            .push_back(RtmpEvent::Publish(StreamKeyHash::from_key(key)));
        Ok(())
    }
}

/// Reads the messages of an encoder beside the session, and refuses those that it must not get.
struct Guard {
    chunks: ChunkDeserializer,
    /// Bytes since the last complete message.
    pending: usize,
}

/// The types of messages that are looked at.
const SET_CHUNK_SIZE: u8 = 1;
const AMF3_DATA: u8 = 15;
const AMF3_COMMAND: u8 = 17;
const AMF0_DATA: u8 = 18;
const AMF0_COMMAND: u8 = 20;

impl Guard {
    fn new() -> Self {
        Self {
            chunks: ChunkDeserializer::new(),
            pending: 0,
        }
    }

    fn check(&mut self, bytes: &[u8]) -> Result<(), RtmpError> {
        self.pending += bytes.len();
        let mut input = bytes;
        while let Some(message) = self
            .chunks
            .get_next_message(input)
            .map_err(|_| RtmpError::Protocol)?
        {
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
        if message.data.len() > MAX_MESSAGE {
            return Err(RtmpError::TooLarge);
        }
        match message.type_id {
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
        match usize::try_from(size) {
            Ok(size @ 1..=MAX_MESSAGE) => self
                .chunks
                .set_max_chunk_size(size)
                .map_err(|_| RtmpError::Protocol),
            _ => Err(RtmpError::TooLarge),
        }
    }
}

/// Refuses values that are too large, or may be too deep: each object and each array begins with one of these bytes.
fn check_values(data: &[u8]) -> Result<(), RtmpError> {
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
mod tests;
