//! What a media worker reports to the control side.
//!
//! Events of one participant arrive in the order in which they happened, on its worker's thread.

use std::time::Duration;

use conclave_model::participant::DataKind;
use conclave_model::{NamespacedRoom, ParticipantSid, TrackSid};

use crate::codec::Codec;
use crate::track::Quality;

/// Receives the events of all workers. Called on the workers' threads between packets: it must not block, so it normally
/// puts the event into a channel.
pub trait EventSink: Send + Sync + 'static {
    /// Takes an event.
    fn handle(&self, event: Event);
}

impl<F: Fn(Event) + Send + Sync + 'static> EventSink for F {
    fn handle(&self, event: Event) {
        self(event);
    }
}

/// Something that happened in a room.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It concerns one participant.
    Peer {
        /// The name of the room.
        room: NamespacedRoom,
        /// The sid of the participant.
        peer: ParticipantSid,
        /// What happened to the participant.
        event: PeerEvent,
    },
    /// It concerns the room.
    Room {
        /// The name of the room.
        room: NamespacedRoom,
        /// What happened in the room.
        event: RoomEvent,
    },
}

/// Something that happened to one participant.
#[derive(Debug, Clone, PartialEq)]
pub enum PeerEvent {
    /// The answer to a client's offer, to be sent as `SignalResponse.answer`. Participants whose tracks it brings for the
    /// first time have been announced before [`PeerCommand::Subscribe`](crate::PeerCommand::Subscribe) was sent.
    Answered {
        /// The `id` of the offer.
        offer_id: u32,
        /// The SDP text.
        sdp: String,
        /// For every section that the server sends on: its mid and the track's sid. Empty in dual mode.
        mid_to_track_id: Vec<(String, TrackSid)>,
    },
    /// An offer of the subscriber connection in dual mode, to be sent as `SignalResponse.offer`. At most one is unanswered.
    Offered {
        /// The `id` of the offer: 1 and up for each peer.
        offer_id: u32,
        /// The SDP text.
        sdp: String,
        /// For every section that the server sends on: its mid and the track's sid.
        mid_to_track_id: Vec<(String, TrackSid)>,
    },
    /// Single mode: the client is to make an offer with this many more receiving sections; 0 and 0 asks for any offer. To be
    /// sent as `SignalResponse.media_sections_requirement`.
    MediaSectionsRequired {
        /// Missing audio sections.
        num_audios: u32,
        /// Missing video sections.
        num_videos: u32,
    },
    /// ICE and DTLS of the primary connection are up for the first time: the participant is ACTIVE.
    Connected,
    /// Nothing has arrived on a connection for 10 seconds.
    Interrupted,
    /// Packets arrive again after [`PeerEvent::Interrupted`].
    Recovered,
    /// The participant's media cannot continue. Its transports are closed, except after [`FailureReason::Silent`], where a
    /// resume can still save them. The peer stays known until [`PeerCommand::Remove`](crate::PeerCommand::Remove).
    Failed(FailureReason),
    /// The answer to [`PeerCommand::Resume`](crate::PeerCommand::Resume).
    Resumed {
        /// The last sequence number of a reliable message that arrived from this client, for
        /// `ReconnectResponse.last_message_seq`; 0 if none did.
        last_message_seq: u32,
    },
    /// A track of this participant has a negotiated media section. It may not have sent anything yet.
    TrackPublished {
        /// The sid of the track.
        track: TrackSid,
        /// The mid of its section, for `TrackInfo.mid`.
        mid: String,
        /// The codec that the answer asks for.
        codec: Codec,
        /// The layers that the section announces, worst first; only `Low` without simulcast.
        layers: Vec<Quality>,
    },
    /// A track of this participant has a negotiated media section in a backup codec, besides that in its first codec.
    BackupPublished {
        /// The sid of the track.
        track: TrackSid,
        /// The mid of the section.
        mid: String,
        /// The codec that the answer asks for.
        codec: Codec,
        /// The layers that the section announces, worst first; only `Low` without simulcast.
        layers: Vec<Quality>,
    },
    /// A backup codec of this participant's track was ended by the client's offer, or cannot be published. It can be announced again.
    BackupEnded {
        /// The sid of the track.
        track: TrackSid,
        /// The backup codec that is not sent any more.
        codec: Codec,
    },
    /// A track of this participant was ended by the client's offer: its section sends no more, that of its first codec if it has several.
    TrackEnded(TrackSid),
    /// An announced track of this participant cannot be published: its client offers it only with codecs that are not forwarded.
    TrackRefused(TrackSid),
    /// A participant subscribed to this participant's track, for the first time (`track_subscribed`).
    TrackSubscribed(TrackSid),
    /// The first frame of a video is sent to this participant. Reported once for each time that a track is subscribed, unless
    /// the track was muted in between.
    FirstFrame {
        /// Time since the track was published and subscribed.
        after: Duration,
    },
    /// This participant sent a user message, and [`Command::ReportMessages`](crate::Command::ReportMessages) asks for it.
    MessageSent(SentMessage),
    /// A subscription of this participant cannot be served: it negotiated no matching codec (`SE_CODEC_UNSUPPORTED`), or the publisher
    /// does not send the one that it could have. That may still come.
    CodecUnsupported(TrackSid),
    /// The qualities of this participant's track that subscribers use (`subscribed_quality_update`). Publishers with dynacast follow
    /// that, and announce a backup codec that is used for the first time.
    SubscribedQuality {
        /// The sid of the track.
        track: TrackSid,
        /// The first codec of the track, and its backup codecs.
        codecs: Vec<CodecUse>,
    },
    /// A video that this participant receives was paused or resumed for want of bandwidth (`stream_state_update`).
    StreamStateChanged {
        /// The sid of the publisher.
        publisher: ParticipantSid,
        /// The sid of the track.
        track: TrackSid,
        /// Whether nothing is sent.
        is_paused: bool,
    },
}

/// Which qualities of a track subscribers use in one of its codecs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecUse {
    /// One of the codecs that the publisher has offered.
    pub codec: Codec,
    /// For each quality from the lowest, whether it is used.
    pub enabled: [bool; 3],
}

/// A user message of a participant, which was forwarded to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// Reliable or lossy.
    pub kind: DataKind,
    /// The topic, if any.
    pub topic: Option<String>,
    /// The content of the user packet.
    pub payload: Vec<u8>,
    /// Who receives it.
    pub to: Receivers,
}

/// The participants that a message is for; all of the room if none is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receivers {
    /// The identities of the participants.
    pub identities: Vec<String>,
    /// Their sids, by which old clients name them.
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

/// Why a participant's media cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// An offer or answer could not be used.
    Negotiation,
    /// The client did not answer an offer within 15 seconds.
    AnswerTimeout,
    /// Nothing has arrived for 15 seconds. The transports are kept for a resume.
    Silent,
    /// The client closed the connection, or DTLS failed.
    Closed,
    /// The worker has no capacity for the peer.
    Capacity,
    /// The client caused more commands than wait for a worker.
    TooManyCommands,
    /// The client opened more data channels than it may, or one with a name that is too long.
    Channels,
}

/// Something that happened in a room.
#[derive(Debug, Clone, PartialEq)]
pub enum RoomEvent {
    /// Participants whose speaking changed; nothing is said of the others. Every 400 ms at most.
    SpeakersChanged(Vec<Speaker>),
    /// Connection qualities that changed. Every 5 seconds at most.
    ConnectionQuality(Vec<PeerQuality>),
    /// What the participants' publications sent in the last second, measured from the packets. Participants that sent
    /// nothing in this and in the previous second are left out.
    PublishRates(Vec<PublishRate>),
}

/// A participant that began or ceased to speak, or speaks at another level.
#[derive(Debug, Clone, PartialEq)]
pub struct Speaker {
    /// The sid of the participant.
    pub peer: ParticipantSid,
    /// Loudness from 0 to 1, in steps of 1/8.
    pub level: f32,
    /// Whether the participant is speaking.
    pub is_active: bool,
}

/// The quality of a participant's connection.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerQuality {
    /// The sid of the participant.
    pub peer: ParticipantSid,
    /// The class of its quality.
    pub quality: ConnectionQuality,
    /// An estimate of the mean opinion score, 1 to 4.5.
    pub score: f32,
}

/// Classes of connection quality, as LiveKit has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionQuality {
    /// Media that should arrive does not.
    Lost,
    /// Loss or delay disturb the call.
    Poor,
    /// Loss or delay are noticeable.
    Good,
    /// Nothing is noticeable.
    Excellent,
}

/// What a participant's publications sent in one second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishRate {
    /// The sid of the publisher.
    pub peer: ParticipantSid,
    /// Received RTP bytes of all its published tracks and layers, in kilobits a second.
    pub kbps: u32,
}
