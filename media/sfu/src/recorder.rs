//! Recorders: receivers of a track in this process, without a transport.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use conclave_model::TrackSid;
use str0m::rtp::rtcp::SenderInfo;

use crate::codec::Codec;

/// Takes the packets of recorded tracks. Called on a worker's thread between packets, so it must not block: it normally
/// puts the packet into a bounded queue.
pub trait PacketSink: Send + Sync + 'static {
    /// Takes a packet. Returns whether there was room for it. If not, the packet is lost, and a video goes on with its next key
    /// frame, which is requested.
    fn try_send(&self, packet: RecordedPacket) -> bool;
}

/// A packet of a recorded track, as the publisher sent it. Packets arrive in the order in which they came from the network.
#[derive(Debug, Clone)]
pub struct RecordedPacket {
    /// The track that is recorded.
    pub track: TrackSid,
    /// The layer, 0 for the worst. Sequence numbers and timestamps are those of the layer.
    pub layer: usize,
    /// The codec of its packets.
    pub codec: Codec,
    /// The sequence number, extended so that it never wraps.
    pub sequence: u64,
    /// The RTP timestamp.
    pub timestamp: u32,
    /// The marker bit of the RTP header: the last packet of a frame of video.
    pub is_marked: bool,
    /// Whether a receiver can start with this packet: it begins a key frame, or is audio.
    pub is_entry_point: bool,
    /// The payload without redundancy and without RTP header.
    pub payload: Arc<[u8]>,
    /// When the packet arrived.
    pub arrived: Instant,
    /// The last sender report of the layer, if one has arrived.
    pub report: Option<SenderReport>,
}

/// Which moment of the publisher's clock an RTP timestamp stands for (RFC 3550, section 6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderReport {
    /// The RTP timestamp.
    pub timestamp: u32,
    /// The moment by the publisher's clock, which all its tracks share.
    pub at: SystemTime,
}

impl From<&SenderInfo> for SenderReport {
    fn from(info: &SenderInfo) -> Self {
        // The lowest 32 bits are those of the report.
        let timestamp =
            u32::try_from(info.rtp_time.numer() & u64::from(u32::MAX)).unwrap_or_default();
        Self {
            timestamp,
            at: info.ntp_time,
        }
    }
}
