//! Packets in a TCP connection (RFC 4571): each behind its length in two bytes.

/// The longest packet that is accepted, in bytes. Those of WebRTC fit into a datagram.
const MAX_PACKET: usize = 4096;

/// A packet is empty, or longer than any of WebRTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a packet in a TCP connection must be 1 to {MAX_PACKET} bytes long")]
pub struct InvalidLength;

/// Takes packets out of a stream of bytes.
#[derive(Debug, Default)]
pub struct PacketReader {
    bytes: Vec<u8>,
    /// How many of the bytes have been taken.
    taken: usize,
}

impl PacketReader {
    /// Adds bytes that were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next packet that is complete.
    ///
    /// # Errors
    ///
    /// [`InvalidLength`], after which the stream is of no use.
    pub fn next_packet(&mut self) -> Result<Option<&[u8]>, InvalidLength> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let [high, low, packet @ ..] = rest else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length == 0 || length > MAX_PACKET {
            return Err(InvalidLength);
        }
        let packet = packet.get(..length);
        if packet.is_some() {
            self.taken += 2 + length;
        }
        Ok(packet)
    }
}

/// Returns the length that goes before a packet; `None` if it is too long to be framed.
pub fn frame_header(packet: &[u8]) -> Option<[u8; 2]> {
    u16::try_from(packet.len()).ok().map(u16::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_survive_any_fragmentation(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..20), cut in 1..50_usize,
        ) {
            let mut stream = Vec::new();
            for packet in &packets {
                stream.extend(frame_header(packet).unwrap());
                stream.extend(packet);
            }
            let mut reader = PacketReader::default();
            let mut read = Vec::new();
            for bytes in stream.chunks(cut) {
                reader.push(bytes);
                while let Some(packet) = reader.next_packet().unwrap() {
                    read.push(packet.to_vec());
                }
            }
            prop_assert_eq!(read, packets);
        }
    }

    #[test]
    fn a_packet_that_is_empty_or_too_long_ends_the_stream() {
        for length in [[0xff, 0xff], [0, 0]] {
            let mut reader = PacketReader::default();
            reader.push(&length);
            assert_eq!(reader.next_packet(), Err(InvalidLength));
        }
    }
}
