//! RTMP messages: the chunks that carry them, and the AMF0 commands inside.
//!
//! Each message is written with a full header, which every server understands. `rml_rtmp` would
//! omit unchanged fields, in forms that servers read differently. Outgoing commands have their
//! values in argument order; incoming ones are untrusted and read within bounds.

use std::io::Cursor;

use rml_rtmp::rml_amf0::{Amf0Value, deserialize};

/// Command bounds: bytes, and objects and arrays, which also bound the depth.
const MAX_COMMAND: usize = 64 * 1024;
const MAX_CONTAINERS: usize = 512;
/// Maximum length for a status code in an error.
const MAX_CODE: usize = 64;
/// Timestamp from which on the header is followed by an extended one (RTMP 1.0, section 5.3.1.3).
const EXTENDED_TIMESTAMP: u32 = 0x00ff_ffff;
/// Chunk size until the sender announces another one.
const DEFAULT_CHUNK_SIZE: usize = 128;

/// Message to a receiver.
pub struct RtmpMessage<'a> {
    /// Chunk stream, within which messages keep their order.
    pub channel: u8,
    /// Message type.
    pub kind: u8,
    /// Message stream; 0 for the connection itself.
    pub stream: u32,
    /// Timestamp in milliseconds.
    pub time: u32,
    /// Payload without chunk headers.
    pub body: &'a [u8],
}

/// Writes messages as chunks.
pub struct ChunkWriter {
    size: usize,
}

impl ChunkWriter {
    pub const fn new() -> Self {
        Self {
            size: DEFAULT_CHUNK_SIZE,
        }
    }

    /// Sets the chunk size, once the message that announces it is written.
    pub const fn set_size(&mut self, size: usize) {
        self.size = size;
    }

    /// Appends a message. A body has up to 16 MiB, as in FLV.
    pub fn write(&self, message: &RtmpMessage<'_>, output: &mut Vec<u8>) {
        let RtmpMessage {
            channel,
            kind,
            stream,
            time,
            body,
        } = *message;
        let length = u32::try_from(body.len()).unwrap_or(EXTENDED_TIMESTAMP);
        output.push(channel);
        // The maximum announces the extended timestamp.
        output.extend(&time.min(EXTENDED_TIMESTAMP).to_be_bytes()[1..]);
        output.extend(&length.to_be_bytes()[1..]);
        output.push(kind);
        // The message stream id is the protocol's only little-endian field.
        output.extend(stream.to_le_bytes());
        let extended = (time >= EXTENDED_TIMESTAMP).then(|| time.to_be_bytes());
        output.extend(extended.iter().flatten());
        for (index, piece) in body.chunks(self.size).enumerate() {
            if index > 0 {
                // Continuation chunks (type 3) repeat the extended timestamp: section 5.3.1.3 asks for it.
                output.push(0xc0 | channel);
                output.extend(extended.iter().flatten());
            }
            output.extend(piece);
        }
    }
}

/// AMF0 values for an outgoing command or data message.
#[derive(Default)]
pub struct AmfValues(Vec<u8>);

impl AmfValues {
    /// Starts a command.
    pub fn command(name: &str, transaction: f64) -> Self {
        Self::default().string(name).number(transaction)
    }

    pub fn string(mut self, text: &str) -> Self {
        // Strings from 64 KiB on have another type, with a four-byte length.
        match u16::try_from(text.len()) {
            Ok(_) => self.0.push(0x02),
            Err(_) => self.0.extend([0x0c, 0, 0]),
        }
        self.key(text)
    }

    pub fn number(mut self, number: f64) -> Self {
        self.0.push(0x00);
        self.0.extend(number.to_be_bytes());
        self
    }

    pub fn null(mut self) -> Self {
        self.0.push(0x05);
        self
    }

    /// Appends an object with string values.
    pub fn object(mut self, properties: &[(&str, &str)]) -> Self {
        self.0.push(0x03);
        for (name, value) in properties {
            self = self.key(name).string(value);
        }
        // An empty name and the end marker.
        self.0.extend([0, 0, 0x09]);
        self
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Appends a string with a two-byte length. For a long string, the type and the length's upper
    /// bytes are there already.
    fn key(mut self, text: &str) -> Self {
        // URLs are far shorter, so the cut never happens.
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_be_bytes());
        self.0.extend(&text.as_bytes()[..usize::from(length)]);
        self
    }
}

/// Command from a receiver.
pub struct RtmpReply {
    pub name: String,
    pub transaction: f64,
    /// Arguments after the command object.
    arguments: Vec<Amf0Value>,
}

impl RtmpReply {
    /// Parses a command; `None` if it is too large, malformed, or has value types that no reply
    /// uses.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        // Such a byte may start an object or array. The parser is recursive, so its depth must be
        // bounded before it runs.
        let containers = bytes
            .iter()
            .filter(|byte| matches!(byte, 0x03 | 0x08 | 0x0a))
            .count();
        if bytes.len() > MAX_COMMAND || containers > MAX_CONTAINERS {
            return None;
        }
        let mut values = deserialize(&mut Cursor::new(bytes)).ok()?.into_iter();
        let Some(Amf0Value::Utf8String(name)) = values.next() else {
            return None;
        };
        // ffmpeg's server answers `FCPublish` with a name alone.
        let transaction = values
            .next()
            .and_then(Amf0Value::get_number)
            .unwrap_or_default();
        Some(Self {
            name,
            transaction,
            // The command object comes first; no reply needs it.
            arguments: values.skip(1).collect(),
        })
    }

    pub fn number(&self) -> Option<f64> {
        if let Some(Amf0Value::Number(number)) = self.arguments.first() {
            Some(*number)
        } else {
            None
        }
    }

    /// Returns the first argument's status code. Codes with other characters than letters, digits,
    /// `.`, `_` and `-` are ignored, so that a receiver cannot put its URL into an error.
    pub fn code(&self) -> &str {
        let is_word = |code: &&str| {
            code.len() <= MAX_CODE
                && code
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        };
        self.texts("code").find(is_word).unwrap_or_default()
    }

    /// Returns whether the receiver reports an error.
    pub fn is_error(&self) -> bool {
        self.name == "_error" || self.texts("level").any(|level| level == "error")
    }

    /// Returns the string properties with this name in all arguments.
    pub fn texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.arguments
            .iter()
            .filter_map(move |argument| match argument {
                Amf0Value::Object(properties) => match properties.get(name) {
                    Some(Amf0Value::Utf8String(text)) => Some(text.as_str()),
                    _ => None,
                },
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use rml_rtmp::chunk_io::ChunkDeserializer;

    use super::*;

    #[test]
    fn written_messages_are_read_back() {
        let status = [
            ("level", "error"),
            ("code", "NetStream.Publish.BadName"),
            ("description", "hush"),
        ];
        let bytes = AmfValues::command("onStatus", 0.0)
            .null()
            .object(&status)
            .into_bytes();
        let reply = RtmpReply::read(&bytes).unwrap();
        assert_eq!(
            (&*reply.name, reply.transaction, reply.number()),
            ("onStatus", 0.0, None)
        );
        assert_eq!(
            (reply.code(), reply.is_error()),
            ("NetStream.Publish.BadName", true)
        );
        let bytes = AmfValues::command("_result", 4.0)
            .null()
            .number(1.0)
            .into_bytes();
        let reply = RtmpReply::read(&bytes).unwrap();
        assert_eq!(
            (
                &*reply.name,
                reply.transaction,
                reply.number(),
                reply.is_error()
            ),
            ("_result", 4.0, Some(1.0), false)
        );
    }

    #[test]
    fn commands_that_are_too_large_or_too_deep_and_codes_that_are_no_words_are_not_read() {
        assert!(RtmpReply::read(&vec![0x03; MAX_CONTAINERS + 1]).is_none());
        assert!(RtmpReply::read(&vec![0x05; MAX_COMMAND + 1]).is_none());
        assert_eq!(
            RtmpReply::read(b"\x02\0\x01a").map(|reply| (reply.name, reply.transaction)),
            Some(("a".into(), 0.0))
        );
        let bytes = AmfValues::command("onStatus", 0.0)
            .null()
            .object(&[("code", "rtmp://a/b/key")])
            .into_bytes();
        assert_eq!(RtmpReply::read(&bytes).unwrap().code(), "");
    }

    #[test]
    fn messages_of_any_size_and_time_are_read_back() {
        for (size, times) in [
            (128, [0, 40, 40]),
            (
                4_096,
                [EXTENDED_TIMESTAMP - 1, EXTENDED_TIMESTAMP, u32::MAX],
            ),
        ] {
            let (mut writer, mut reader) = (ChunkWriter::new(), ChunkDeserializer::new());
            writer.set_size(size);
            reader.set_max_chunk_size(size).unwrap();
            for time in times {
                for length in [1, size, size + 1, size * 3] {
                    let (body, mut output) = (vec![7; length], Vec::new());
                    writer.write(
                        &RtmpMessage {
                            channel: 6,
                            kind: 9,
                            stream: 1,
                            time,
                            body: &body,
                        },
                        &mut output,
                    );
                    let read = reader.get_next_message(&output).unwrap().unwrap();
                    assert_eq!(
                        (read.type_id, read.message_stream_id, read.timestamp.value),
                        (9, 1, time)
                    );
                    assert_eq!(read.data[..], body, "{time} {length}");
                }
            }
        }
    }
}
