//! Snapshots of participants' transports and tracks, for inspection.

use std::net::SocketAddr;
use std::time::Duration;

use conclave_model::{ParticipantSid, TrackSid};

use crate::codec::Codec;
use crate::dropped::Drops;
use crate::track::Quality;

/// State of a participant's media.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerSnapshot {
    /// The participant's sid.
    pub sid: ParticipantSid,
    /// The participant's connections: one, or publisher and subscriber.
    pub transports: Vec<TransportSnapshot>,
    /// Published tracks, one entry per codec in which a track is sent.
    pub published: Vec<PublishedSnapshot>,
    /// Received tracks.
    pub subscribed: Vec<SubscribedSnapshot>,
}

/// State of one peer connection.
#[derive(Debug, Clone, PartialEq)]
pub struct TransportSnapshot {
    /// `publisher`, `subscriber` or `single`.
    pub role: &'static str,
    /// Whether ICE and DTLS are established.
    pub is_connected: bool,
    /// Selected candidate pair; `None` before one is selected.
    pub candidate_pair: Option<CandidatePair>,
    /// Time since the last packet; `None` if none has arrived.
    pub silent_for: Option<Duration>,
    /// Round-trip time; `None` before it is measured.
    pub round_trip: Option<Duration>,
    /// Loss of packets to the client, 0 to 1.
    pub egress_loss: Option<f32>,
    /// Loss of packets from the client, 0 to 1.
    pub ingress_loss: Option<f32>,
    /// Estimated bandwidth to the client in kilobits per second; `None` without an estimate.
    pub estimate_kbps: Option<u32>,
    /// Bandwidth with which the client would get a better layer, in kilobits per second; `None` if it gets everything
    /// that it requests and is allowed.
    pub wanted_kbps: Option<u32>,
    /// Media sections in its session description.
    pub media_sections: usize,
    /// Packets from and for the client that were not forwarded.
    pub dropped: Drops,
}

/// Selected ICE candidate pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CandidatePair {
    /// Whether packets travel through a TCP connection.
    pub is_tcp: bool,
    /// The server's address as known to the client.
    pub local: SocketAddr,
    /// The client's address.
    pub remote: SocketAddr,
}

/// State of a published track.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedSnapshot {
    /// Sid given by the control plane.
    pub sid: TrackSid,
    /// Codec; `None` before its section is negotiated.
    pub codec: Option<Codec>,
    /// Whether its forwarding is stopped.
    pub is_muted: bool,
    /// Layers that have sent packets, worst first.
    pub layers: Vec<LayerSnapshot>,
    /// Number of participants that receive it.
    pub subscribers: usize,
}

/// State of a published track's layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSnapshot {
    /// Quality that the layer represents.
    pub quality: Quality,
    /// Whether packets have arrived recently.
    pub is_live: bool,
    /// Received bitrate in kilobits per second.
    pub kbps: u32,
    /// Received packets.
    pub packets: u64,
    /// Key frames requested from the publisher.
    pub key_frame_requests: u64,
    /// Time since the last key frame started; `None` for audio and before the first one.
    pub last_key_frame: Option<Duration>,
}

/// State of a track that a participant receives.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscribedSnapshot {
    /// The published track's sid.
    pub sid: TrackSid,
    /// Codec in which it is sent; `None` until the client has negotiated a codec that the publisher sends.
    pub codec: Option<Codec>,
    /// Mid of its section; `None` until one is negotiated.
    pub mid: Option<String>,
    /// Quality that is forwarded now; `None` for none.
    pub current: Option<Quality>,
    /// Quality that should be forwarded; `None` for none.
    pub target: Option<Quality>,
    /// Its bitrate in kilobits per second.
    pub kbps: u32,
    /// Packets forwarded to the participant.
    pub packets: u64,
}
