//! People in a room, and what they publish, as the media plane sees them (contract "Participant", decisions "Track").

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::schema::word_enum;
use crate::{Identity, ParticipantSid, RoleName, Timestamp, TrackSid};

/// The attribute that names the role a participant holds.
pub const ROLE_ATTRIBUTE: &str = "svc.role";
/// The attribute that carries the ceiling of a participant's publishing, in kilobits a second.
pub const MAX_KBPS_ATTRIBUTE: &str = "svc.publish.max_kbps";

/// A participant's live state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Participant {
    /// The media plane's id of this join.
    #[schema(value_type = String, example = "PA_8fK2mQ0aLx7c")]
    pub sid: ParticipantSid,
    /// Who it is.
    #[schema(value_type = String, example = "alice")]
    pub identity: Identity,
    /// The display name its token carries; empty when it carries none.
    #[schema(example = "Alice")]
    pub name: String,
    /// How far the join has come.
    pub state: ParticipantState,
    /// What it is.
    pub kind: ParticipantKind,
    /// What its token carries.
    pub metadata: String,
    /// Set by the server, `svc.role` and `svc.publish.max_kbps` among them.
    pub attributes: BTreeMap<String, String>,
    /// Publishes at least one track.
    pub is_publisher: bool,
    /// When it joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    pub joined_at: Option<Timestamp>,
    /// Every track it publishes now.
    pub tracks: Vec<Track>,
}

impl Participant {
    /// The role it holds, if any.
    #[must_use]
    pub fn role(&self) -> Option<RoleName> {
        self.attributes.get(ROLE_ATTRIBUTE).and_then(|role| role.parse().ok())
    }
}

word_enum! {
    /// The state of a join.
    ParticipantState {
        /// Asked to be let in.
        Joining = "joining",
        /// Let in, media not connected yet.
        Joined = "joined",
        /// In the room.
        Active = "active",
        /// Gone.
        Disconnected = "disconnected",
    }
}

word_enum! {
    /// The kind of a participant.
    ParticipantKind {
        /// A person's client.
        Standard = "standard",
        /// An encoder's stream.
        Ingress = "ingress",
        /// A recorder.
        Egress = "egress",
        /// A telephone.
        Sip = "sip",
        /// A program that takes part.
        Agent = "agent",
    }
}

impl From<&str> for ParticipantKind {
    /// Reads a kind that the media plane reports. A kind that the contract does not know is standard.
    fn from(word: &str) -> Self {
        word.parse().unwrap_or(Self::Standard)
    }
}

impl ParticipantKind {
    /// Whether somebody of this kind starts a room and keeps it alive. Recorders and agents do neither.
    #[must_use]
    pub const fn keeps_room(self) -> bool {
        !matches!(self, Self::Egress | Self::Agent)
    }

    /// Whether a join of this kind is a session. Recorders make none.
    #[must_use]
    pub const fn makes_session(self) -> bool {
        !matches!(self, Self::Egress)
    }
}

word_enum! {
    /// What a track carries.
    TrackKind {
        /// Sound.
        Audio = "audio",
        /// Pictures.
        Video = "video",
        /// Data.
        Data = "data",
    }
}

word_enum! {
    /// How a data message travels.
    DataKind {
        /// Every message arrives, in order.
        Reliable = "reliable",
        /// Late messages are dropped rather than waited for.
        Lossy = "lossy",
    }
}

word_enum! {
    /// Where a track comes from.
    TrackSource {
        /// A camera.
        Camera = "camera",
        /// A microphone.
        Microphone = "microphone",
        /// A shared screen.
        ScreenShare = "screen_share",
        /// A shared screen's sound.
        ScreenShareAudio = "screen_share_audio",
        /// Not said.
        Unknown = "unknown",
    }
}

/// A published track.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Track {
    /// The media plane's id of the track.
    #[schema(value_type = String, example = "TR_3cD9xY1kQmZb")]
    pub sid: TrackSid,
    /// What it carries.
    pub kind: TrackKind,
    /// Where it comes from.
    pub source: TrackSource,
    /// Silent or dark for now.
    pub muted: bool,
    /// The name its publisher gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub width: Option<u32>,
    /// Pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub height: Option<u32>,
    /// Sent in several qualities.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub simulcast: Option<bool>,
    /// Media type of its codec.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub mime_type: Option<String>,
}
