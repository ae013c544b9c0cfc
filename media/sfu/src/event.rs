//! Events that a media worker reports to the control side.
//!
//! A participant's events arrive in the order in which they happened, on its worker's thread.

use std::net::IpAddr;
use std::time::Duration;

use conclave_model::participant::DataKind;
use conclave_model::quality::{QualitySample, QualitySummary};
use conclave_model::{NamespacedRoom, ParticipantSid, TrackSid};

use crate::codec::Codec;
use crate::track::Quality;

/// Receives all workers' events. Called on the workers' threads between packets, so it must not block: normally it puts
/// the event into a channel.
pub trait EventSink: Send + Sync + 'static {
    /// Receives an event.
    fn handle(&self, event: Event);
}

impl<F: Fn(Event) + Send + Sync + 'static> EventSink for F {
    fn handle(&self, event: Event) {
        self(event);
    }
}

/// Event in a room.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Concerns one participant.
    Peer {
        /// The room's name.
        room: NamespacedRoom,
        /// The participant's sid.
        peer: ParticipantSid,
        /// Event of the participant.
        event: PeerEvent,
    },
    /// Concerns the room.
    Room {
        /// The room's name.
        room: NamespacedRoom,
        /// Event of the room.
        event: RoomEvent,
    },
    /// Quality of a participant's session: each ten seconds after [`PeerEvent::Connected`], and once at its end.
    Quality(Box<QualityReport>),
}

/// Measured quality of a participant's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualityReport {
    /// The room's name.
    pub room: NamespacedRoom,
    /// The participant's sid.
    pub peer: ParticipantSid,
    /// Client's address in the selected candidate pair; `None` without one.
    pub client_address: Option<IpAddr>,
    /// Measurements since the last report.
    pub sample: QualitySample,
    /// Sum of the session's samples, including this one: in the first report, then once a minute, and in the last one.
    pub summary: Option<QualitySummary>,
    /// Whether no report of the session follows.
    pub is_last: bool,
}

/// Event that concerns one participant.
#[derive(Debug, Clone, PartialEq)]
pub enum PeerEvent {
    /// Answer to a client's offer, to be sent as `SignalResponse.answer`. Participants whose tracks it contains for the
    /// first time were announced before [`PeerCommand::Subscribe`](crate::PeerCommand::Subscribe) was sent.
    Answered {
        /// `id` of the offer.
        offer_id: u32,
        /// SDP text.
        sdp: String,
        /// Mid and track sid for every section that the server sends on. Empty in dual mode.
        mid_to_track_id: Vec<(String, TrackSid)>,
    },
    /// Offer for the subscriber connection in dual mode, to be sent as `SignalResponse.offer`. At most one is
    /// unanswered.
    Offered {
        /// `id` of the offer: counts from 1 for each peer.
        offer_id: u32,
        /// SDP text.
        sdp: String,
        /// Mid and track sid for every section that the server sends on.
        mid_to_track_id: Vec<(String, TrackSid)>,
    },
    /// Single mode: the client should make an offer with this many more receiving sections; 0 and 0 requests any offer.
    /// To be sent as `SignalResponse.media_sections_requirement`.
    MediaSectionsRequired {
        /// Missing audio sections.
        num_audios: u32,
        /// Missing video sections.
        num_videos: u32,
    },
    /// ICE and DTLS of the primary connection are established for the first time: the participant is ACTIVE.
    Connected,
    /// No packet has arrived on a connection for 10 seconds.
    Interrupted,
    /// Packets arrive again after [`PeerEvent::Interrupted`].
    Recovered,
    /// The participant's media cannot continue. Its transports are closed, except after [`FailureReason::Silent`], from
    /// which a resume can still recover. The peer stays known until
    /// [`PeerCommand::Remove`](crate::PeerCommand::Remove).
    Failed(FailureReason),
    /// Answer to [`PeerCommand::Resume`](crate::PeerCommand::Resume).
    Resumed {
        /// Sequence number of the last reliable message from this client, for `ReconnectResponse.last_message_seq`; 0
        /// if none arrived.
        last_message_seq: u32,
    },
    /// This participant's track has a negotiated media section. It may not have sent anything yet.
    TrackPublished {
        /// The track's sid.
        track: TrackSid,
        /// Mid of its section, for `TrackInfo.mid`.
        mid: String,
        /// Codec that the answer requests.
        codec: Codec,
        /// Layers that the section announces, worst first; only `Low` without simulcast.
        layers: Vec<Quality>,
    },
    /// This participant's track has a negotiated media section in a backup codec, in addition to its first codec.
    BackupPublished {
        /// The track's sid.
        track: TrackSid,
        /// Mid of the section.
        mid: String,
        /// Codec that the answer requests.
        codec: Codec,
        /// Layers that the section announces, worst first; only `Low` without simulcast.
        layers: Vec<Quality>,
    },
    /// A backup codec of this participant's track was ended by the client's offer, or cannot be published. It can be announced again.
    BackupEnded {
        /// The track's sid.
        track: TrackSid,
        /// Backup codec that is no longer sent.
        codec: Codec,
    },
    /// The client's offer ended this participant's track: its section, or its first codec's section if it has several,
    /// no longer sends.
    TrackEnded(TrackSid),
    /// This participant's announced track cannot be published: its client offers it only with codecs that are not
    /// forwarded.
    TrackRefused(TrackSid),
    /// This participant's track got its first subscriber (`track_subscribed`).
    TrackSubscribed(TrackSid),
    /// A video's first frame is sent to this participant. Reported once per subscription, unless the track was muted in
    /// between.
    FirstFrame {
        /// Time since the track was published and subscribed.
        after: Duration,
    },
    /// This participant sent a user message, and [`Command::ReportMessages`](crate::Command::ReportMessages) is
    /// enabled.
    MessageSent(SentMessage),
    /// This participant's subscription cannot be served: it negotiated no matching codec (`SE_CODEC_UNSUPPORTED`), or
    /// the publisher does not send a codec that it could receive. That may change later.
    CodecUnsupported(TrackSid),
    /// Qualities of this participant's track that subscribers use (`subscribed_quality_update`). Publishers with
    /// dynacast follow it, and announce a backup codec that is used for the first time.
    SubscribedQuality {
        /// The track's sid.
        track: TrackSid,
        /// The track's first codec, and its backup codecs.
        codecs: Vec<CodecUse>,
    },
    /// A video that this participant receives was paused or resumed because of its bandwidth (`stream_state_update`).
    StreamStateChanged {
        /// The publisher's sid.
        publisher: ParticipantSid,
        /// The track's sid.
        track: TrackSid,
        /// Whether sending is paused.
        is_paused: bool,
    },
}

/// Use of a track's qualities in one of its codecs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecUse {
    /// Codec that the publisher has offered.
    pub codec: Codec,
    /// Whether each quality is used, from the lowest.
    pub enabled: [bool; 3],
}

/// A participant's user message that was forwarded to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// Reliable or lossy.
    pub kind: DataKind,
    /// Topic, if any.
    pub topic: Option<String>,
    /// Payload of the user packet.
    pub payload: Vec<u8>,
    /// Receivers of the message.
    pub to: Receivers,
}

/// Receivers of a message; the whole room if none is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receivers {
    /// The participants' identities.
    pub identities: Vec<String>,
    /// The participants' sids, which old clients use instead.
    pub sids: Vec<String>,
}

impl Receivers {
    /// Returns whether a participant is among them.
    #[must_use]
    pub fn include(&self, identity: &str, sid: &str) -> bool {
        let are_all = self.identities.is_empty() && self.sids.is_empty();
        are_all
            || self.identities.iter().any(|to| to == identity)
            || self.sids.iter().any(|to| to == sid)
    }
}

/// Reason why a participant's media cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// An offer or answer was invalid.
    Negotiation,
    /// The client did not answer an offer within 15 seconds.
    AnswerTimeout,
    /// No packet has arrived for 15 seconds. The transports are kept for a resume.
    Silent,
    /// The client closed the connection, or DTLS failed.
    Closed,
    /// The worker has no capacity for the peer.
    Capacity,
    /// The client caused more commands than a worker queues.
    TooManyCommands,
    /// The client opened too many data channels, or used too long a name.
    Channels,
}

impl FailureReason {
    /// Returns the word by which session records name the reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Negotiation => "negotiation",
            Self::AnswerTimeout => "answer_timeout",
            Self::Silent => "silent",
            Self::Closed => "closed",
            Self::Capacity => "capacity",
            Self::TooManyCommands => "too_many_commands",
            Self::Channels => "channels",
        }
    }
}

/// Event that concerns a room.
#[derive(Debug, Clone, PartialEq)]
pub enum RoomEvent {
    /// Participants whose speaking changed; all others are unchanged. At most every 400 ms.
    SpeakersChanged(Vec<Speaker>),
    /// Connection qualities that changed. At most every 5 seconds.
    ConnectionQuality(Vec<PeerQuality>),
    /// Bitrates of the participants' publications in the last second, measured from the packets. Participants that sent
    /// nothing in this and in the previous second are left out.
    PublishRates(Vec<PublishRate>),
}

/// Participant that started or stopped speaking, or speaks at another level.
#[derive(Debug, Clone, PartialEq)]
pub struct Speaker {
    /// The participant's sid.
    pub peer: ParticipantSid,
    /// Loudness from 0 to 1, in steps of 1/8.
    pub level: f32,
    /// Whether the participant is speaking.
    pub is_active: bool,
}

/// A participant's connection quality.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerQuality {
    /// The participant's sid.
    pub peer: ParticipantSid,
    /// Quality class.
    pub quality: ConnectionQuality,
    /// Estimated mean opinion score, 1 to 4.5.
    pub score: f32,
}

/// Classes of connection quality, as in LiveKit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionQuality {
    /// Expected media does not arrive.
    Lost,
    /// Loss or delay disturb the call.
    Poor,
    /// Loss or delay are noticeable.
    Good,
    /// Neither is noticeable.
    Excellent,
}

/// Bitrate of a participant's publications in one second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishRate {
    /// The publisher's sid.
    pub peer: ParticipantSid,
    /// Received RTP bitrate of all its published tracks and layers, in kilobits per second.
    pub kbps: u32,
}
