//! The state of participants' transports and tracks, for inspection.

use std::net::SocketAddr;
use std::time::Duration;

use conclave_model::{ParticipantSid, TrackSid};

use crate::codec::Codec;
use crate::dropped::Drops;
use crate::track::Quality;

/// The state of a participant's media.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerSnapshot {
    /// The sid of the participant.
    pub sid: ParticipantSid,
    /// Its connections: one, or publisher and subscriber.
    pub transports: Vec<TransportSnapshot>,
    /// The tracks it publishes, each once for every codec in which it is sent.
    pub published: Vec<PublishedSnapshot>,
    /// The tracks it receives.
    pub subscribed: Vec<SubscribedSnapshot>,
}

/// The state of one peer connection.
#[derive(Debug, Clone, PartialEq)]
pub struct TransportSnapshot {
    /// `publisher`, `subscriber` or `single`.
    pub role: &'static str,
    /// Whether ICE and DTLS are up.
    pub is_connected: bool,
    /// The protocol and the addresses of the selected candidate pair, ours first; `None` before there is one.
    pub candidate_pair: Option<CandidatePair>,
    /// Time since the last packet; `None` if none has arrived.
    pub silent_for: Option<Duration>,
    /// Round-trip time; `None` before it is measured.
    pub round_trip: Option<Duration>,
    /// Lost packets of what is sent to the client, 0 to 1.
    pub egress_loss: Option<f32>,
    /// Lost packets of what the client sends, 0 to 1.
    pub ingress_loss: Option<f32>,
    /// The estimated bandwidth to the client in kilobits a second; `None` without an estimate.
    pub estimate_kbps: Option<u32>,
    /// The bandwidth with which the client would get more, in kilobits a second; `None` if it gets all that it wants and may have.
    pub wanted_kbps: Option<u32>,
    /// Media sections of its session description.
    pub media_sections: usize,
    /// Packets of the client, and packets for it, that were not forwarded.
    pub dropped: Drops,
}

/// A selected ICE candidate pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CandidatePair {
    /// Whether the packets travel in a TCP connection.
    pub is_tcp: bool,
    /// The server's address as the client knows it.
    pub local: SocketAddr,
    /// The client's address.
    pub remote: SocketAddr,
}

/// The state of a published track.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedSnapshot {
    /// The sid that the control plane has given the track.
    pub sid: TrackSid,
    /// The codec; `None` before its section is negotiated.
    pub codec: Option<Codec>,
    /// Whether its forwarding is stopped.
    pub is_muted: bool,
    /// Its layers that have sent anything, worst first.
    pub layers: Vec<LayerSnapshot>,
    /// How many participants receive it.
    pub subscribers: usize,
}

/// The state of a layer of a published track.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSnapshot {
    /// The quality that the layer stands for.
    pub quality: Quality,
    /// Whether packets have arrived recently.
    pub is_live: bool,
    /// What arrives, in kilobits a second.
    pub kbps: u32,
    /// Packets of the layer that have arrived so far.
    pub packets: u64,
    /// Key frames of the layer that were requested from the publisher so far.
    pub key_frame_requests: u64,
    /// Time since the last key frame began; `None` for audio and before the first.
    pub last_key_frame: Option<Duration>,
}

/// The state of a track that a participant receives.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscribedSnapshot {
    /// The sid of the published track.
    pub sid: TrackSid,
    /// The codec in which it is sent; `None` until the client has negotiated one that the publisher sends.
    pub codec: Option<Codec>,
    /// The mid of the section that carries it; `None` until one is negotiated.
    pub mid: Option<String>,
    /// The quality that is forwarded now; `None` if nothing is.
    pub current: Option<Quality>,
    /// The quality that should be forwarded; `None` if nothing should.
    pub target: Option<Quality>,
    /// Its bitrate in kilobits a second.
    pub kbps: u32,
    /// Packets that were forwarded to the participant so far.
    pub packets: u64,
}
