//! The packets of Opus in an Ogg stream (RFC 3533, RFC 7845) that comes in pieces.

use ogg::reading::{BasePacketReader, PageParser};

/// Bytes of the header of a page, without the sizes of its segments.
const HEADER: usize = 27;
/// Packets before the sound: the header of Opus, and its tags.
const HEADER_PACKETS: u8 = 2;

/// Reads packets from an Ogg stream.
pub struct OggPackets {
    buffer: Vec<u8>,
    packets: BasePacketReader,
    headers: u8,
    is_broken: bool,
}

impl Default for OggPackets {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            packets: BasePacketReader::new(),
            headers: 0,
            is_broken: false,
        }
    }
}

impl OggPackets {
    /// Takes the next piece. Returns the packets of sound that are complete. A stream that is not Ogg has none.
    pub fn read(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        self.buffer.extend_from_slice(piece);
        let mut complete = Vec::new();
        while !self.is_broken && self.read_page().is_some() {
            while let Some(packet) = self.packets.read_packet() {
                if self.headers < HEADER_PACKETS {
                    self.headers += 1;
                } else {
                    complete.push(packet.data);
                }
            }
        }
        complete
    }

    /// Reads a page; `None` if it is not complete, or none.
    fn read_page(&mut self) -> Option<()> {
        let header = *self.buffer.first_chunk::<HEADER>()?;
        let Ok((mut page, segments)) = PageParser::new(header) else {
            self.is_broken = true;
            return None;
        };
        let sizes = self.buffer.get(HEADER..HEADER + segments)?.to_vec();
        let size = page.parse_segments(sizes);
        let contents = self
            .buffer
            .get(HEADER + segments..HEADER + segments + size)?
            .to_vec();
        self.buffer.drain(..HEADER + segments + size);
        let pushed = page
            .parse_packet_data(contents)
            .and_then(|page| self.packets.push_page(page));
        self.is_broken = pushed.is_err();
        pushed.ok()
    }
}

#[cfg(test)]
mod tests {
    use ogg::writing::{PacketWriteEndInfo, PacketWriter};
    use proptest::prelude::*;

    use super::*;

    fn stream(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut writer = PacketWriter::new(Vec::new());
        for packet in [b"OpusHead".to_vec(), b"OpusTags".to_vec()]
            .iter()
            .chain(packets)
        {
            writer
                .write_packet(packet.clone(), 7, PacketWriteEndInfo::EndPage, 0)
                .unwrap();
        }
        writer.into_inner()
    }

    proptest! {
        #[test]
        fn packets_are_read_from_pieces_of_any_size(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..700), 0..10),
            piece in 1_usize..300,
        ) {
            let mut reader = OggPackets::default();
            let read: Vec<_> = stream(&packets).chunks(piece).flat_map(|piece| reader.read(piece)).collect();
            prop_assert_eq!(read, packets);
        }

        #[test]
        fn bytes_that_are_no_ogg_have_no_packets(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(OggPackets::default().read(&bytes).is_empty());
        }
    }
}
