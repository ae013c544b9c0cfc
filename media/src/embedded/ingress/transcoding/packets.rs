//! RTP packets of H.264 and Opus: from a transcoder's output, and from RTMP messages that need no transcoding.

use std::sync::Arc;

use conclave_sfu::{SourcePacket, packetize};

use super::flv::{self, AvcParameters, VideoTag};
use super::timeline::MediaTime;

/// Ticks of the RTP clock of video in a millisecond.
const VIDEO_TICKS: u128 = 90;
/// Ticks of the RTP clock of Opus in a millisecond.
const SOUND_TICKS: u128 = 48;

const UNIT_TYPE: u8 = 0x1f;
/// Unit type of a key frame's slice.
pub const KEY_SLICE: u8 = 5;
const SEQUENCE_PARAMETERS: u8 = 7;

/// Packetizes the video output of a transcoder.
#[derive(Debug, Default)]
pub struct VideoPackets {
    /// The latest codec parameters.
    parameters: Option<AvcParameters>,
}

impl VideoPackets {
    /// Returns the packets of a frame. Stores codec parameters, which have no packets of their own.
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

/// Returns the packet of an Opus frame.
pub fn sound_packet(time: MediaTime, packet: Vec<u8>) -> SourcePacket {
    SourcePacket {
        timestamp: time.rtp(SOUND_TICKS),
        captured: time.captured,
        payload: packet.into(),
        is_last: false,
    }
}

/// Returns the packets of a frame. A key frame comes with its parameters.
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
    let sets = if has(KEY_SLICE) && !has(SEQUENCE_PARAMETERS) {
        parameters.sets.as_slice()
    } else {
        &[]
    };
    let payloads = packetize::h264(sets.iter().map(Vec::as_slice).chain(units));
    let last = payloads.len().saturating_sub(1);
    let packet = |(index, payload): (usize, Arc<[u8]>)| SourcePacket {
        timestamp: time.rtp(VIDEO_TICKS),
        captured: time.captured,
        payload,
        is_last: index == last,
    };
    payloads.into_iter().enumerate().map(packet).collect()
}

/// Returns the type of a unit.
pub fn unit_type(unit: &[u8]) -> Option<u8> {
    unit.first().map(|header| header & UNIT_TYPE)
}
