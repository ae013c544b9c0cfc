//! Messages of RTMP: the chunks in which they are sent, and the commands in them.
//!
//! Each message has a whole header, which every server understands: the crate `rml_rtmp` leaves out what has not changed, in forms that
//! servers read differently. Commands are in AMF0: those that are sent are written in the order of their arguments, and those of a
//! stranger are read within bounds.

use std::io::Cursor;

use rml_rtmp::rml_amf0::{Amf0Value, deserialize};

/// Bytes of the largest command that is read, and the objects and arrays in it, and so their depth.
const MAX_COMMAND: usize = 64 * 1024;
const MAX_CONTAINERS: usize = 512;
/// The most characters of a receiver's code in a message.
const MAX_CODE: usize = 64;
/// The times from which on a header has them behind it.
const EXTENDED: u32 = 0x00ff_ffff;
/// The bytes of a chunk before its sender says otherwise.
const INITIAL_SIZE: usize = 128;

/// A message to a server.
pub struct Message<'a> {
    /// The chunk stream: messages of one keep their order.
    pub channel: u8,
    /// The type of the message.
    pub kind: u8,
    /// The message stream: 0 for the connection itself.
    pub stream: u32,
    /// The time in milliseconds.
    pub time: u32,
    /// The payload, without its chunk headers.
    pub body: &'a [u8],
}

/// Writes messages as chunks.
pub struct ChunkWriter {
    size: usize,
}

impl ChunkWriter {
    pub const fn new() -> Self {
        Self { size: INITIAL_SIZE }
    }

    /// Sets the bytes of a chunk, once the message that says so has been written.
    pub const fn set_size(&mut self, size: usize) {
        self.size = size;
    }

    /// Appends a message. A body has at most 16 MiB, as that of an FLV tag.
    pub fn write(&self, message: &Message<'_>, output: &mut Vec<u8>) {
        let Message {
            channel,
            kind,
            stream,
            time,
            body,
        } = *message;
        let length = u32::try_from(body.len()).unwrap_or(EXTENDED);
        output.push(channel);
        output.extend(&time.min(EXTENDED).to_be_bytes()[1..]);
        output.extend(&length.to_be_bytes()[1..]);
        output.push(kind);
        output.extend(stream.to_le_bytes());
        let extended = (time >= EXTENDED).then(|| time.to_be_bytes());
        output.extend(extended.iter().flatten());
        for (index, piece) in body.chunks(self.size).enumerate() {
            if index > 0 {
                output.push(0xc0 | channel);
                output.extend(extended.iter().flatten());
            }
            output.extend(piece);
        }
    }
}

/// The values of a command or of data that is sent.
#[derive(Default)]
pub struct Values(Vec<u8>);

impl Values {
    /// Begins a command.
    pub fn command(name: &str, transaction: f64) -> Self {
        Self::default().string(name).number(transaction)
    }

    pub fn string(mut self, text: &str) -> Self {
        // Longer ones have another form.
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

    /// Adds an object of texts.
    pub fn object(mut self, properties: &[(&str, &str)]) -> Self {
        self.0.push(0x03);
        for (name, value) in properties {
            self = self.key(name).string(value);
        }
        self.0.extend([0, 0, 0x09]);
        self
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Adds a text behind the two bytes of its length. The bytes before those of a long one have been written.
    fn key(mut self, text: &str) -> Self {
        // A url is far shorter than what does not fit.
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_be_bytes());
        self.0.extend(&text.as_bytes()[..usize::from(length)]);
        self
    }
}

/// A command of a receiver.
pub struct Reply {
    pub name: String,
    pub transaction: f64,
    /// What follows the command's object.
    arguments: Vec<Amf0Value>,
}

impl Reply {
    /// Reads a command; `None` if it is none, or is too large, or has values of types that no answer has.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        // Each object and each array begins with one of these bytes.
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
        // ffmpeg answers `FCPublish` with a name alone.
        let transaction = values
            .next()
            .and_then(Amf0Value::get_number)
            .unwrap_or_default();
        Some(Self {
            name,
            transaction,
            arguments: values.skip(1).collect(),
        })
    }

    /// Returns the first argument, if it is a number.
    pub fn number(&self) -> Option<f64> {
        if let Some(Amf0Value::Number(number)) = self.arguments.first() {
            Some(*number)
        } else {
            None
        }
    }

    /// Returns the code of the first argument that has one. It says nothing that is not a word of the protocol.
    pub fn code(&self) -> &str {
        let is_word = |code: &&str| {
            code.len() <= MAX_CODE
                && code
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        };
        self.texts("code").find(is_word).unwrap_or_default()
    }

    /// Returns whether the receiver calls it an error.
    pub fn is_error(&self) -> bool {
        self.name == "_error" || self.texts("level").any(|level| level == "error")
    }

    /// Returns the texts of a name in the arguments.
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
    fn what_is_written_is_what_is_read() {
        let status = [
            ("level", "error"),
            ("code", "NetStream.Publish.BadName"),
            ("description", "hush"),
        ];
        let bytes = Values::command("onStatus", 0.0)
            .null()
            .object(&status)
            .into_bytes();
        let reply = Reply::read(&bytes).unwrap();
        assert_eq!(
            (&*reply.name, reply.transaction, reply.number()),
            ("onStatus", 0.0, None)
        );
        assert_eq!(
            (reply.code(), reply.is_error()),
            ("NetStream.Publish.BadName", true)
        );
        let bytes = Values::command("_result", 4.0)
            .null()
            .number(1.0)
            .into_bytes();
        let reply = Reply::read(&bytes).unwrap();
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
        assert!(Reply::read(&vec![0x03; MAX_CONTAINERS + 1]).is_none());
        assert!(Reply::read(&vec![0x05; MAX_COMMAND + 1]).is_none());
        assert_eq!(
            Reply::read(b"\x02\0\x01a").map(|reply| (reply.name, reply.transaction)),
            Some(("a".into(), 0.0))
        );
        let bytes = Values::command("onStatus", 0.0)
            .null()
            .object(&[("code", "rtmp://a/b/key")])
            .into_bytes();
        assert_eq!(Reply::read(&bytes).unwrap().code(), "");
    }

    #[test]
    fn what_is_written_is_read_whatever_the_size_and_the_time() {
        for (size, times) in [
            (128, [0, 40, 40]),
            (4_096, [EXTENDED - 1, EXTENDED, u32::MAX]),
        ] {
            let (mut writer, mut reader) = (ChunkWriter::new(), ChunkDeserializer::new());
            writer.set_size(size);
            reader.set_max_chunk_size(size).unwrap();
            for time in times {
                for length in [1, size, size + 1, size * 3] {
                    let (body, mut output) = (vec![7; length], Vec::new());
                    writer.write(
                        &Message {
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
