//! State machine for a connection to a receiver, without I/O: handshake, publish request, and
//! stream.

use std::borrow::Cow;
use std::sync::Arc;

use rml_rtmp::chunk_io::ChunkDeserializer;
use rml_rtmp::handshake::{Handshake, HandshakeProcessResult, PeerType};
use rml_rtmp::messages::MessagePayload;

use super::dialler::RtmpEndpoint;
use super::flv::{FlvTag, FlvTagKind};
use super::messages::{AmfValues, ChunkWriter, RtmpMessage, RtmpReply};

// Receivers only send short commands.
const MAX_MESSAGE: usize = 64 * 1024;
// Larger than the protocol's 128 bytes, so that a video frame has few chunk headers.
const CHUNK_SIZE: u16 = 4_096;
// At 1 Mbit/s, a receiver acknowledges every two seconds that it has read the stream.
const ACKNOWLEDGEMENT_WINDOW: u32 = 256 * 1024;
// Named like ffmpeg and OBS Studio, which are "compatible" with Flash Media Live Encoder.
const ENCODER: &str = concat!(
    "FMLE/3.0 (compatible; Conclave/",
    env!("CARGO_PKG_VERSION"),
    ")"
);

/// Chunk streams for control messages, commands, and media by type.
const CONTROL: u8 = 2;
const COMMANDS: u8 = 3;
const AUDIO: u8 = 4;
const DATA: u8 = 5;
const VIDEO: u8 = 6;

/// Message types (RTMP 1.0, sections 5.4 and 7.1).
const SET_CHUNK_SIZE: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 3;
const USER_CONTROL: u8 = 4;
const WINDOW_SIZE: u8 = 5;
const AUDIO_DATA: u8 = 8;
const AMF3_COMMAND: u8 = 17;
const AMF0_DATA: u8 = 18;
const AMF0_COMMAND: u8 = 20;

/// Transaction ids for commands with a reply.
const CONNECT: f64 = 1.0;
const RELEASE_STREAM: f64 = 2.0;
const FC_PUBLISH: f64 = 3.0;
const CREATE_STREAM: f64 = 4.0;
const PUBLISH: f64 = 5.0;

enum Phase {
    Handshake(Box<Handshake>),
    /// `connect` was sent.
    Connecting,
    /// The publish request is being prepared or was sent.
    Requesting,
    /// The receiver accepted the stream.
    Accepted,
}

/// Connection to a receiver.
pub struct RtmpClient {
    endpoint: Arc<RtmpEndpoint>,
    phase: Phase,
    reader: ChunkDeserializer,
    /// Bytes received since the last complete message.
    pending: usize,
    writer: ChunkWriter,
    output: Vec<u8>,
    /// Message stream id, assigned by the receiver.
    stream: u32,
    has_acknowledged: bool,
    /// First frame's time; times on this connection are relative to it.
    first_time: Option<u32>,
}

impl RtmpClient {
    /// Creates a connection, and the handshake's first bytes.
    ///
    /// # Errors
    /// Fails if the handshake cannot be created.
    pub fn new(endpoint: Arc<RtmpEndpoint>) -> Result<Self, String> {
        let mut handshake = Handshake::new(PeerType::Client);
        let output = handshake
            .generate_outbound_p0_and_p1()
            .map_err(|_| "the handshake cannot be made")?;
        Ok(Self {
            endpoint,
            phase: Phase::Handshake(Box::new(handshake)),
            reader: ChunkDeserializer::new(),
            pending: 0,
            writer: ChunkWriter::new(),
            output,
            stream: 0,
            has_acknowledged: false,
            first_time: None,
        })
    }

    pub const fn is_accepted(&self) -> bool {
        matches!(self.phase, Phase::Accepted)
    }

    /// Returns whether the receiver acknowledged that it reads the stream.
    pub const fn has_acknowledged(&self) -> bool {
        self.has_acknowledged
    }

    /// Returns the bytes to send since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Processes bytes from the receiver.
    ///
    /// # Errors
    /// Fails with the reason if the connection is unusable, without the URL.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        if let Phase::Handshake(handshake) = &mut self.phase {
            return match handshake.process_bytes(bytes).map_err(|_| not_rtmp())? {
                HandshakeProcessResult::InProgress { response_bytes } => {
                    self.output.extend(response_bytes);
                    Ok(())
                }
                HandshakeProcessResult::Completed {
                    response_bytes,
                    remaining_bytes,
                } => {
                    self.output.extend(response_bytes);
                    self.connect();
                    // The receiver may have sent messages right after its handshake.
                    self.receive(&remaining_bytes)
                }
            };
        }
        self.pending += bytes.len();
        let mut input = bytes;
        while let Some(message) = self
            .reader
            .get_next_message(input)
            .map_err(|_| not_rtmp())?
        {
            input = &[];
            self.pending = 0;
            self.handle(&message)?;
        }
        // The deserializer buffers incomplete messages without limit.
        if self.pending > MAX_MESSAGE {
            Err(not_rtmp())
        } else {
            Ok(())
        }
    }

    /// Sends a tag.
    pub fn send(&mut self, tag: &FlvTag) {
        let [
            kind,
            _,
            _,
            _,
            high,
            middle,
            low,
            top,
            _,
            _,
            _,
            body @ ..,
            _,
            _,
            _,
            _,
        ] = &tag.bytes[..]
        else {
            return;
        };
        // FLV stores a timestamp's upper eight bits after the lower 24.
        let time = u32::from_be_bytes([*top, *high, *middle, *low]);
        let first_time = if tag.kind == FlvTagKind::Header {
            self.first_time.unwrap_or(time)
        } else {
            *self.first_time.get_or_insert(time)
        };
        let (channel, body) = match *kind {
            // `@setDataFrame` asks the receiver to keep the metadata for later viewers.
            AMF0_DATA => {
                let mut data = AmfValues::default().string("@setDataFrame").into_bytes();
                data.extend(body);
                (DATA, Cow::Owned(data))
            }
            AUDIO_DATA => (AUDIO, Cow::Borrowed(body)),
            _ => (VIDEO, Cow::Borrowed(body)),
        };
        // Audio may be slightly older than the first video frame; its time is 0, not a wrapped one.
        let time = time.saturating_sub(first_time);
        let message = RtmpMessage {
            channel,
            kind: *kind,
            stream: self.stream,
            time,
            body: &body,
        };
        self.writer.write(&message, &mut self.output);
    }

    /// Sends the end of the stream.
    pub fn finish(&mut self) {
        if self.is_accepted() {
            // Replies to these commands are not awaited.
            let end = AmfValues::command("FCUnpublish", 6.0)
                .null()
                .string(&self.endpoint.key);
            self.command(0, end);
            self.command(
                0,
                AmfValues::command("deleteStream", 7.0)
                    .null()
                    .number(self.stream.into()),
            );
        }
    }

    fn connect(&mut self) {
        self.phase = Phase::Connecting;
        let endpoint = Arc::clone(&self.endpoint);
        let properties = [
            ("app", &*endpoint.application),
            ("type", "nonprivate"),
            ("flashVer", ENCODER),
            ("tcUrl", &*endpoint.tc_url),
        ];
        self.command(
            0,
            AmfValues::command("connect", CONNECT).object(&properties),
        );
    }

    /// Requests a stream as encoders do: some servers learn the key only from the first two
    /// commands, which others do not answer.
    fn create_stream(&mut self) {
        self.phase = Phase::Requesting;
        self.control(SET_CHUNK_SIZE, u32::from(CHUNK_SIZE));
        // After the message that announces it, which still has the old chunk size.
        self.writer.set_size(CHUNK_SIZE.into());
        self.control(WINDOW_SIZE, ACKNOWLEDGEMENT_WINDOW);
        let endpoint = Arc::clone(&self.endpoint);
        self.command(
            0,
            AmfValues::command("releaseStream", RELEASE_STREAM)
                .null()
                .string(&endpoint.key),
        );
        self.command(
            0,
            AmfValues::command("FCPublish", FC_PUBLISH)
                .null()
                .string(&endpoint.key),
        );
        self.command(0, AmfValues::command("createStream", CREATE_STREAM).null());
    }

    fn handle(&mut self, message: &MessagePayload) -> Result<(), String> {
        match (message.type_id, &message.data[..]) {
            (SET_CHUNK_SIZE, [a, b, c, d, ..]) => {
                let size = u32::from_be_bytes([*a, *b, *c, *d]);
                let size = usize::try_from(size)
                    .ok()
                    .filter(|size| *size > 0)
                    .ok_or_else(not_rtmp)?;
                self.reader.set_max_chunk_size(size).map_err(|_| not_rtmp())
            }
            (ACKNOWLEDGEMENT, _) => {
                self.has_acknowledged |= self.is_accepted();
                Ok(())
            }
            // Ping request, answered with its own timestamp.
            (USER_CONTROL, [0, 6, time @ ..]) => {
                let reply: Vec<_> = [0, 7].iter().chain(time.iter().take(4)).copied().collect();
                self.message((CONTROL, USER_CONTROL, 0), &reply);
                Ok(())
            }
            // An AMF3 command has a zero byte before its AMF0 values.
            (AMF0_COMMAND, command) | (AMF3_COMMAND, [0, command @ ..]) => {
                RtmpReply::read(command).map_or(Ok(()), |reply| self.handle_reply(&reply))
            }
            _ => Ok(()),
        }
    }

    fn handle_reply(&mut self, reply: &RtmpReply) -> Result<(), String> {
        // AMF0 numbers are doubles, so ids are compared with a tolerance.
        let is_reply_to = |number: f64| (reply.transaction - number).abs() < 0.5;
        match (&*reply.name, &self.phase) {
            ("_result", Phase::Connecting) if is_reply_to(CONNECT) => self.create_stream(),
            ("_error", Phase::Connecting) => return Err(refused(reply)),
            ("_result", Phase::Requesting) if is_reply_to(CREATE_STREAM) => self.publish(reply)?,
            // Servers need not know `releaseStream` and `FCPublish`.
            ("_error", Phase::Requesting)
                if !is_reply_to(RELEASE_STREAM) && !is_reply_to(FC_PUBLISH) =>
            {
                return Err(refused(reply));
            }
            ("onStatus", Phase::Requesting) if reply.code() == "NetStream.Publish.Start" => {
                self.phase = Phase::Accepted;
            }
            ("onStatus", _) if reply.is_error() || is_end(reply.code()) => {
                return Err(refused(reply));
            }
            ("close", _) => return Err("the receiver closed the connection".into()),
            _ => {}
        }
        Ok(())
    }

    fn publish(&mut self, reply: &RtmpReply) -> Result<(), String> {
        let number = reply
            .number()
            .filter(|number| (0.0..=f64::from(u32::MAX)).contains(number));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is in range"
        )]
        let number = number.map(|number| number as u32);
        self.stream = number.ok_or_else(not_rtmp)?;
        let endpoint = Arc::clone(&self.endpoint);
        let publish = AmfValues::command("publish", PUBLISH)
            .null()
            .string(&endpoint.key)
            // Asks the receiver not to record the stream.
            .string("live");
        self.command(self.stream, publish);
        Ok(())
    }

    fn command(&mut self, stream: u32, values: AmfValues) {
        self.message((COMMANDS, AMF0_COMMAND, stream), &values.into_bytes());
    }

    fn control(&mut self, kind: u8, value: u32) {
        self.message((CONTROL, kind, 0), &value.to_be_bytes());
    }

    fn message(&mut self, (channel, kind, stream): (u8, u8, u32), body: &[u8]) {
        self.writer.write(
            &RtmpMessage {
                channel,
                kind,
                stream,
                time: 0,
                body,
            },
            &mut self.output,
        );
    }
}

/// Returns whether a status code ends the stream.
fn is_end(code: &str) -> bool {
    matches!(
        code,
        "NetStream.Unpublish.Success"
            | "NetConnection.Connect.Closed"
            | "NetStream.Publish.BadName"
    )
}

fn not_rtmp() -> String {
    "the receiver does not speak RTMP as this server understands it".into()
}

fn refused(reply: &RtmpReply) -> String {
    let code = reply.code();
    if code.is_empty() {
        "the receiver refused the stream".into()
    } else {
        format!("the receiver refused the stream: {code}")
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::rtmp::RtmpUrl;
    use proptest::prelude::*;
    use rml_rtmp::sessions::ServerSessionEvent;

    use super::*;
    use crate::rtmp::double::{KEY, Protocol, tag};

    fn client() -> RtmpClient {
        let url = RtmpUrl::parse(&format!("rtmp://a/live/{KEY}")).unwrap();
        RtmpClient::new(Arc::new(RtmpEndpoint::from_url(&url))).unwrap()
    }

    /// Exchanges bytes until neither side has any left.
    fn exchange(client: &mut RtmpClient, receiver: &mut Protocol) -> Result<(), String> {
        loop {
            let sent = client.take_output();
            if sent.is_empty() {
                return Ok(());
            }
            let reply = receiver.receive(&sent);
            client.receive(&reply)?;
        }
    }

    /// Returns a client whose stream was accepted.
    fn accepted() -> (RtmpClient, Protocol) {
        let (mut client, mut receiver) = (client(), Protocol::new());
        for _ in 0..2 {
            exchange(&mut client, &mut receiver).unwrap();
            assert!(!client.is_accepted());
            let reply = receiver.reply(true).unwrap();
            client.receive(&reply).unwrap();
        }
        assert!(client.is_accepted());
        (client, receiver)
    }

    #[test]
    fn a_stream_is_published_with_its_times_from_the_first_frame_on() {
        let (mut client, mut receiver) = accepted();
        let script = AmfValues::default()
            .string("onMetaData")
            .object(&[("encoder", "test")])
            .into_bytes();
        client.send(&tag(FlvTagKind::Header, (18, 0), &script));
        client.send(&tag(FlvTagKind::Header, (9, 0), &[0x17, 0]));
        client.send(&tag(FlvTagKind::KeyFrame, (9, 0x0123_4567), &[0x17, 1]));
        client.send(&tag(FlvTagKind::Audio, (8, 0x0123_4560), &[0xaf, 1]));
        client.send(&tag(
            FlvTagKind::InterFrame,
            (9, 0x0123_4567 + 40),
            &[0x27, 1],
        ));
        exchange(&mut client, &mut receiver).unwrap();
        let has_metadata = receiver.events.iter().any(|event| {
            matches!(event, ServerSessionEvent::StreamMetadataChanged { metadata, .. } if metadata.encoder.as_deref() == Some("test"))
        });
        assert!(has_metadata, "{:?}", receiver.events);
        let media = receiver.events.iter().filter_map(|event| match event {
            ServerSessionEvent::VideoDataReceived {
                data, timestamp, ..
            }
            | ServerSessionEvent::AudioDataReceived {
                data, timestamp, ..
            } => Some((timestamp.value, data.to_vec())),
            _ => None,
        });
        let expected = [
            (0, [0x17, 0]),
            (0, [0x17, 1]),
            (0, [0xaf, 1]),
            (40, [0x27, 1]),
        ];
        assert_eq!(
            media.collect::<Vec<_>>(),
            expected.map(|(time, body)| (time, body.to_vec()))
        );
        client.finish();
        exchange(&mut client, &mut receiver).unwrap();
        assert!(
            receiver
                .events
                .iter()
                .any(|event| matches!(event, ServerSessionEvent::PublishStreamFinished { .. }))
        );
    }

    #[test]
    fn a_refusal_is_reported_by_its_code_alone() {
        let (mut client, mut receiver) = (client(), Protocol::new());
        exchange(&mut client, &mut receiver).unwrap();
        let reply = receiver.reply(true).unwrap();
        client.receive(&reply).unwrap();
        exchange(&mut client, &mut receiver).unwrap();
        let reply = receiver.reply(false).unwrap();
        let refusal = client.receive(&reply).unwrap_err();
        assert_eq!(
            refusal,
            "the receiver refused the stream: NetStream.Publish.BadName"
        );
    }

    #[test]
    fn a_ping_is_answered_and_an_acknowledgement_is_recorded() {
        let (mut client, _) = accepted();
        client.take_output();
        let mut bytes = Vec::new();
        let writer = ChunkWriter::new();
        let ping = RtmpMessage {
            channel: 2,
            kind: USER_CONTROL,
            stream: 0,
            time: 0,
            body: &[0, 6, 1, 2, 3, 4],
        };
        writer.write(&ping, &mut bytes);
        client.receive(&bytes).unwrap();
        assert!(client.take_output().ends_with(&[0, 7, 1, 2, 3, 4]) && !client.has_acknowledged());
        bytes.clear();
        writer.write(
            &RtmpMessage {
                kind: ACKNOWLEDGEMENT,
                body: &[0, 0, 1, 0],
                ..ping
            },
            &mut bytes,
        );
        client.receive(&bytes).unwrap();
        assert!(client.has_acknowledged());
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_receiver_make_it_accepted_or_keep_memory(bytes in prop::collection::vec(any::<u8>(), 0..4_000)) {
            let mut client = client();
            let first: Vec<_> = [&[3][..], &[0; 3_072], &bytes].concat();
            // `rml_rtmp` may panic, which only ends the connection.
            let received = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.receive(&first)));
            prop_assert!(received.is_err() || !client.is_accepted());
        }
    }
}
