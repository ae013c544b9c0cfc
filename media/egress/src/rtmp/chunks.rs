//! Messages as the chunks in which they are sent.
//!
//! Each message has a whole header, which every server understands: the crate `rml_rtmp` leaves out what has not changed, in forms that
//! servers read differently.

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

#[cfg(test)]
mod tests {
    use rml_rtmp::chunk_io::ChunkDeserializer;

    use super::*;

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
