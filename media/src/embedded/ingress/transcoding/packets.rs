//! RTP packets with H.264 and Opus: from a transcoder's output, and from RTMP messages that need no transcoding. A
//! transcoder writes Opus in an Ogg stream (RFC 3533, RFC 7845), which arrives in pieces.

use std::sync::Arc;

use conclave_sfu::{SourcePacket, packetize};
use ogg::reading::{BasePacketReader, PageParser};

use super::flv::{self, AvcParameters, VideoTag};
use super::timeline::MediaTime;

/// RTP clock rate for video, per millisecond.
const VIDEO_TICKS: u128 = 90;
/// RTP clock rate for Opus, per millisecond.
const AUDIO_TICKS: u128 = 48;

const UNIT_TYPE: u8 = 0x1f;
/// Unit type of a key frame's slice.
pub const KEY_SLICE: u8 = 5;
const SEQUENCE_PARAMETERS: u8 = 7;

/// Packetizer for a transcoder's video output.
#[derive(Debug, Default)]
pub struct VideoPackets {
    /// The latest codec parameters.
    parameters: Option<AvcParameters>,
}

impl VideoPackets {
    /// Returns a frame's packets. Stores codec parameters, which have no packets of their own.
    pub fn read(&mut self, time: MediaTime, body: &[u8]) -> Vec<SourcePacket> {
        if let Some(VideoTag::Parameters(parameters)) = flv::read_video(body) {
            self.parameters = Some(parameters);
            return Vec::new();
        }
        self.parameters
            .as_ref()
            .map_or_else(Vec::new, |parameters| video_packets(parameters, time, body))
    }
}

/// Returns an Opus frame's packet.
pub fn audio_packet(time: MediaTime, packet: Vec<u8>) -> SourcePacket {
    SourcePacket {
        timestamp: time.rtp(AUDIO_TICKS),
        captured: time.captured,
        payload: packet.into(),
        is_last: false,
    }
}

/// Returns a frame's packets. A key frame contains its parameters.
pub fn video_packets(
    parameters: &AvcParameters,
    time: MediaTime,
    body: &[u8],
) -> Vec<SourcePacket> {
    let Some(VideoTag::Frame { units, .. }) = flv::read_video(body) else {
        return Vec::new();
    };
    let units: Vec<_> = flv::units(units, parameters.length_size).collect();
    let has = |kind| units.iter().any(|unit| unit_type(unit) == Some(kind));
    // A receiver may join at any key frame. RTMP sends the parameters only once, at the start.
    let sets = if has(KEY_SLICE) && !has(SEQUENCE_PARAMETERS) {
        parameters.sets.as_slice()
    } else {
        &[]
    };
    let payloads = packetize::h264(sets.iter().map(Vec::as_slice).chain(units));
    // RTP marks the last packet of a frame, by which receivers recognize a complete one.
    let last = payloads.len().saturating_sub(1);
    let packet = |(index, payload): (usize, Arc<[u8]>)| SourcePacket {
        timestamp: time.rtp(VIDEO_TICKS),
        captured: time.captured,
        payload,
        is_last: index == last,
    };
    payloads.into_iter().enumerate().map(packet).collect()
}

pub fn unit_type(unit: &[u8]) -> Option<u8> {
    unit.first().map(|header| header & UNIT_TYPE)
}

/// Size of a page header, without the segment sizes.
const HEADER: usize = 27;
/// Number of packets before the audio: the Opus header and its tags.
const HEADER_PACKETS: u8 = 2;

/// Parser for packets in an Ogg stream.
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
    /// Parses the next piece. Returns complete audio packets. A stream that is not Ogg has none.
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

    /// Parses a page; `None` if it is incomplete or invalid.
    fn read_page(&mut self) -> Option<()> {
        // A page that is incomplete stays in the buffer.
        let header = *self.buffer.first_chunk::<HEADER>()?;
        let Ok((mut page, segments)) = PageParser::new(header) else {
            // Not retried: the same bytes would fail again, and the buffer would grow.
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
