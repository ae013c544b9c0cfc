//! Recorders: receivers of a track in this process, without a transport.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use conclave_model::TrackSid;
use str0m::rtp::rtcp::SenderInfo;

use crate::codec::Codec;

/// Receives recorded tracks' packets. Called on a worker's thread between packets, so it must not block: normally it
/// puts the packet into a bounded queue.
pub trait PacketSink: Send + Sync + 'static {
    /// Offers a packet. Returns false if there was no room. Then the packet is lost, and a video continues at its next
    /// key frame, which is requested.
    fn try_send(&self, packet: RecordedPacket) -> bool;
}

/// A recorded track's packet as the publisher sent it. Packets are in the order of their arrival from the network.
#[derive(Debug, Clone)]
pub struct RecordedPacket {
    /// Recorded track.
    pub track: TrackSid,
    /// Layer; 0 for the worst. Each layer has its own sequence numbers and timestamps.
    pub layer: usize,
    /// Codec.
    pub codec: Codec,
    /// Extended sequence number, which never wraps.
    pub sequence: u64,
    /// RTP timestamp.
    pub timestamp: u32,
    /// RTP marker bit: the last packet of a video frame.
    pub is_marked: bool,
    /// Whether a receiver can start with this packet: it starts a key frame, or contains audio.
    pub is_entry_point: bool,
    /// Payload without redundancy and RTP header.
    pub payload: Arc<[u8]>,
    /// Arrival time.
    pub arrived: Instant,
    /// The layer's last sender report, if one has arrived.
    pub report: Option<SenderReport>,
}

/// RTP timestamp with the matching time of the publisher's clock (RFC 3550, section 6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderReport {
    /// RTP timestamp.
    pub timestamp: u32,
    /// Time of the publisher's clock, which all its tracks share.
    pub at: SystemTime,
}

impl From<&SenderInfo> for SenderReport {
    fn from(info: &SenderInfo) -> Self {
        // str0m extends the timestamp; the report has the lowest 32 bits.
        let timestamp =
            u32::try_from(info.rtp_time.numer() & u64::from(u32::MAX)).unwrap_or_default();
        Self {
            timestamp,
            at: info.ntp_time,
        }
    }
}
