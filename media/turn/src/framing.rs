//! Messages in a byte stream: STUN messages and channel data follow each other, each with its
//! length (RFC 8656, section 12.5).

use stun_types::message::MessageHeader;

/// Maximum message length in bytes. Messages with a WebRTC datagram are shorter.
pub const MAX_MESSAGE: usize = 4_096;

const CHANNEL_HEADER: usize = 4;

/// Returns whether a connection's first byte starts a STUN request. HTTP requests start with a letter or a line break, TLS with 0x16.
#[must_use]
pub const fn is_turn(first: u8) -> bool {
    // STUN requests have types below 0x100.
    first == 0
}

/// The stream is unusable: it has neither a STUN message nor channel data, or a message that is too
/// long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stream may contain only STUN messages and channel data, up to {MAX_MESSAGE} bytes each")]
pub struct InvalidMessage;

/// Splits a byte stream into messages.
#[derive(Debug, Default)]
pub struct MessageReader {
    bytes: Vec<u8>,
    /// Bytes at the start that were returned already.
    taken: usize,
}

impl MessageReader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        // Here rather than per message: moving the rest costs as much for one as for many.
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete message, without padding.
    ///
    /// # Errors
    ///
    /// [`InvalidMessage`], after which the stream is unusable.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, InvalidMessage> {
        let Some(length) = self.next_length()? else {
            return Ok(None);
        };
        let start = self.taken;
        // In a stream, all messages are padded to four bytes; STUN messages always are.
        self.taken += length.next_multiple_of(4);
        Ok(self.bytes.get(start..start + length))
    }

    /// Returns whether [`MessageReader::next_message`] would return a message or an error without
    /// another [`MessageReader::push`].
    pub fn has_message(&self) -> bool {
        !matches!(self.next_length(), Ok(None))
    }

    /// Returns the length, without padding, if the next message is complete.
    ///
    /// # Errors
    ///
    /// [`InvalidMessage`], after which the stream is unusable.
    pub fn next_length(&self) -> Result<Option<usize>, InvalidMessage> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some(length) = message_length(rest)? else {
            return Ok(None);
        };
        let padded = length.next_multiple_of(4);
        if padded > MAX_MESSAGE {
            return Err(InvalidMessage);
        }
        Ok((rest.len() >= padded).then_some(length))
    }
}

/// Returns the first message's length; `None` if more bytes are needed.
fn message_length(bytes: &[u8]) -> Result<Option<usize>, InvalidMessage> {
    let [first, _, high, low, ..] = bytes else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    // The first two bits distinguish STUN (0) and channel data (1).
    match first >> 6 {
        0 => Ok(Some(MessageHeader::LENGTH + length)),
        1 => Ok(Some(CHANNEL_HEADER + length)),
        _ => Err(InvalidMessage),
    }
}

/// Appends channel data with its header and, for streams, padding.
pub fn push_channel_data(out: &mut Vec<u8>, channel: u16, payload: &[u8], is_padded: bool) {
    let Ok(length) = u16::try_from(payload.len()) else {
        return;
    };
    out.extend(channel.to_be_bytes());
    out.extend(length.to_be_bytes());
    out.extend(payload);
    if is_padded {
        let padding = payload.len().next_multiple_of(4) - payload.len();
        out.extend([0; 3].iter().take(padding));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_survive_any_fragmentation(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20), cut in 1..50_usize,
        ) {
            let mut stream = Vec::new();
            for payload in &payloads {
                push_channel_data(&mut stream, 0x4001, payload, true);
            }
            let mut reader = MessageReader::default();
            let mut read = Vec::new();
            for bytes in stream.chunks(cut) {
                reader.push(bytes);
                // The four bytes of the header are cut off.
                while reader.has_message() {
                    read.push(reader.next_message().unwrap().unwrap()[4..].to_vec());
                }
            }
            prop_assert_eq!(read, payloads);
        }

        #[test]
        fn any_bytes_are_messages_or_end_the_stream_and_few_are_kept(
            reads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2_000), 0..20),
        ) {
            let mut reader = MessageReader::default();
            for bytes in reads {
                reader.push(&bytes);
                loop {
                    match reader.next_message() {
                        Ok(Some(message)) => prop_assert!(message.len() <= MAX_MESSAGE),
                        Ok(None) => break,
                        Err(InvalidMessage) => return Ok(()),
                    }
                }
                // An incomplete message is all that may be kept.
                prop_assert!(reader.bytes.len() - reader.taken < MAX_MESSAGE);
            }
        }
    }

    #[test]
    fn a_message_that_is_too_long_or_none_ends_the_stream() {
        for start in [
            [0x00, 0x03, 0x10, 0x00],
            [0x40, 0x00, 0xff, 0xff],
            [b'G' | 0x80, 0, 0, 0],
            [0xff; 4],
        ] {
            let mut reader = MessageReader::default();
            reader.push(&start);
            assert_eq!(reader.next_message(), Err(InvalidMessage), "{start:?}");
        }
    }

    #[test]
    fn no_http_request_starts_like_a_turn_request() {
        assert!(is_turn(0));
        assert!(
            (b'A'..=b'z')
                .chain([b'\r', b'\n', 0x16])
                .all(|first| !is_turn(first))
        );
    }
}
