//! Participants of a room and their tracks, as the media plane reports them, and sessions: the record of each join.
//!
//! `svc` stands for "service". Names on the wire that clients rely on, such as the attribute `svc.role` and the header `X-Svc-Signature`,
//! have this neutral word instead of a product's name. They are fixed by the API's contract and by every issued token, so they do not
//! change with the product's name.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::schema::word_enum;
use crate::{
    Identity, ParticipantSid, ProjectId, RevocationId, RoleChangeId, RoleName, RoomName, SessionId,
    Timestamp, TrackSid,
};

/// Attribute with the participant's role.
pub const ROLE_ATTRIBUTE: &str = "svc.role";
/// Attribute with the participant's publishing limit, in kbit/s.
pub const MAX_KBPS_ATTRIBUTE: &str = "svc.publish.max_kbps";
/// Attribute with the id of the identity's last role change in the room, in tokens issued after it.
pub const ROLE_CHANGE_ATTRIBUTE: &str = "svc.role_change";
/// Attribute with a random text that identifies a room code's exchange, in tokens from a code that is not locked to an identity.
pub const EXCHANGE_ATTRIBUTE: &str = "svc.exchange";

/// Attribute with the id of the identity's last token revocation in the room, in tokens issued after it.
pub const REVOCATION_ATTRIBUTE: &str = "svc.revocation";

/// Returns whether only the server sets attributes with this name.
#[must_use]
pub fn is_reserved_attribute(name: &str) -> bool {
    // A prefix, so that further attributes of the server are reserved already.
    name.starts_with("svc.")
}

/// Omits attributes that only distinguish the server's own tokens.
fn serialize_attributes<S: Serializer>(
    attributes: &BTreeMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    // They mean nothing to API clients.
    let hidden = [
        ROLE_CHANGE_ATTRIBUTE,
        EXCHANGE_ATTRIBUTE,
        REVOCATION_ATTRIBUTE,
    ];
    let is_shown = |name: &str| !hidden.contains(&name);
    serializer.collect_map(attributes.iter().filter(|(name, _)| is_shown(name)))
}

/// A participant as the media plane reports it now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Participant {
    /// The media plane's id of this join.
    #[schema(value_type = String, example = "PA_8fK2mQ0aLx7c")]
    pub sid: ParticipantSid,
    /// The identity in the participant's token.
    #[schema(value_type = String, example = "alice")]
    pub identity: Identity,
    /// The display name in the token, unless its client has set another; empty if it has none.
    #[schema(example = "Alice")]
    pub name: String,
    /// The progress of the join.
    pub state: ParticipantState,
    /// The kind of client.
    pub kind: ParticipantKind,
    /// The metadata in the token, unless its client has set others.
    pub metadata: String,
    /// Attributes set by the server, such as `svc.role` and `svc.publish.max_kbps`, and attributes set by its client, if its role permits.
    #[serde(serialize_with = "serialize_attributes")]
    pub attributes: BTreeMap<String, String>,
    /// Whether it publishes at least one track.
    pub is_publisher: bool,
    /// The instant of the join; absent if the media plane does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    pub joined_at: Option<Timestamp>,
    /// The published tracks.
    pub tracks: Vec<Track>,
}

impl Participant {
    /// Returns the last role change of its identity before its token was issued, if there was one.
    pub fn known_role_change(&self) -> Option<RoleChangeId> {
        self.attributes
            .get(ROLE_CHANGE_ATTRIBUTE)
            .and_then(|id| id.parse().ok())
    }

    /// Returns the last revocation of its identity's tokens before its token was issued, if there was one.
    pub fn known_revocation(&self) -> Option<RevocationId> {
        self.attributes
            .get(REVOCATION_ATTRIBUTE)
            .and_then(|id| id.parse().ok())
    }

    /// Returns the room code exchange that issued its token; `None` for a token from a backend, or from a code that is locked to an
    /// identity.
    pub fn exchange(&self) -> Option<&str> {
        self.attributes.get(EXCHANGE_ATTRIBUTE).map(String::as_str)
    }

    /// Sets the attributes for a role and its bitrate limit.
    pub fn set_role(&mut self, role: &RoleName, max_kbps: Option<u32>) {
        self.attributes
            .insert(ROLE_ATTRIBUTE.to_owned(), role.to_string());
        match max_kbps {
            Some(kbps) => self
                .attributes
                .insert(MAX_KBPS_ATTRIBUTE.to_owned(), kbps.to_string()),
            // The previous role may have had a limit.
            None => self.attributes.remove(MAX_KBPS_ATTRIBUTE),
        };
    }

    /// Returns the role in its attributes, if there is one.
    pub fn role(&self) -> Option<RoleName> {
        self.attributes
            .get(ROLE_ATTRIBUTE)
            .and_then(|role| role.parse().ok())
    }
}

word_enum! {
    /// The state of a join.
    ParticipantState {
        /// The join was requested.
        Joining = "joining",
        /// The join was accepted; media is not connected yet.
        Joined = "joined",
        /// Media is connected.
        Active = "active",
        /// The participant has left.
        Disconnected = "disconnected",
    }
}

word_enum! {
    // The kinds of LiveKit's protocol.
    /// The kind of a participant.
    ParticipantKind {
        /// A browser or an app.
        Standard = "standard",
        /// The stream of an encoder.
        Ingress = "ingress",
        /// A recorder of the media plane.
        Egress = "egress",
        /// A telephone call.
        Sip = "sip",
        /// A server-side program.
        Agent = "agent",
    }
}

impl From<&str> for ParticipantKind {
    /// Converts a kind from the media plane. An unknown kind becomes standard.
    fn from(word: &str) -> Self {
        // A newer LiveKit may report kinds that the API does not have.
        word.parse().unwrap_or(Self::Standard)
    }
}

impl ParticipantKind {
    /// Returns whether a participant of this kind starts a room and keeps it open. Recorders and agents do not.
    pub const fn keeps_room(self) -> bool {
        // Otherwise a recorder would keep its own room open for ever.
        !matches!(self, Self::Egress | Self::Agent)
    }

    /// Returns whether a join of this kind is recorded as a session. Recorders' joins are not.
    pub const fn makes_session(self) -> bool {
        !matches!(self, Self::Egress)
    }
}

word_enum! {
    /// The media type of a track.
    TrackKind {
        /// Audio from a microphone or a screen.
        Audio = "audio",
        /// Video from a camera or a screen.
        Video = "video",
        /// A track of data messages.
        Data = "data",
    }
}

word_enum! {
    /// The delivery of a data message.
    DataKind {
        /// Every message is delivered, in order.
        Reliable = "reliable",
        /// Lost messages are not sent again.
        Lossy = "lossy",
    }
}

word_enum! {
    /// The source of a track.
    TrackSource {
        /// Video from a camera.
        Camera = "camera",
        /// Audio from a microphone.
        Microphone = "microphone",
        /// A shared screen.
        ScreenShare = "screen_share",
        /// The audio of a shared screen.
        ScreenShareAudio = "screen_share_audio",
        /// A source that the media plane does not report.
        Unknown = "unknown",
    }
}

/// A published track.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Track {
    /// The media plane's id of the track.
    #[schema(value_type = String, example = "TR_3cD9xY1kQmZb")]
    pub sid: TrackSid,
    /// Audio, video or data.
    pub kind: TrackKind,
    /// The device or screen that the track captures.
    pub source: TrackSource,
    /// Whether the publisher or a moderator has muted it.
    pub muted: bool,
    /// The name that the publisher gave it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Width in pixels; absent for audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub width: Option<u32>,
    /// Height in pixels; absent for audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub height: Option<u32>,
    /// Whether video is sent in several qualities; absent for audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub simulcast: Option<bool>,
    /// The MIME type of the codec.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub mime_type: Option<String>,
}

/// One join of one participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Record id.
    pub id: SessionId,
    /// The project that owns the room.
    pub project_id: ProjectId,
    /// The room that was joined.
    pub room: RoomName,
    /// The identity of the participant.
    pub participant_identity: Identity,
    /// The media plane's id of the join.
    pub participant_sid: ParticipantSid,
    /// The kind of client.
    pub kind: ParticipantKind,
    /// The last role of the participant; `None` if the token contained none.
    pub role: Option<RoleName>,
    /// The instant of the join.
    pub joined_at: Timestamp,
    /// The instant of the leave; `None` while connected.
    pub left_at: Option<Timestamp>,
    /// Number of tracks published during the session.
    pub track_count: u32,
}

impl Session {
    /// Returns the whole seconds until its end, or until `now` while it is open.
    pub fn duration_seconds(&self, now: Timestamp) -> u64 {
        // `since` is 0 if the clock was set back.
        self.left_at.unwrap_or(now).since(self.joined_at).as_secs()
    }
}

/// A track published during a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionTrack {
    /// The media plane's id of the track.
    pub track_sid: TrackSid,
    /// Audio, video or data.
    pub kind: TrackKind,
    /// The device or screen that the track captures.
    pub source: TrackSource,
    /// The instant at which publishing started.
    pub started_at: Timestamp,
    /// The instant at which publishing ended; `None` before.
    pub ended_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorders_and_agents_keep_no_room_open_and_recorders_have_no_session() {
        use ParticipantKind as K;
        let kinds = |rule: fn(K) -> bool| {
            K::ALL
                .iter()
                .copied()
                .filter(|kind| rule(*kind))
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(K::keeps_room), [K::Standard, K::Ingress, K::Sip]);
        assert_eq!(
            kinds(K::makes_session),
            [K::Standard, K::Ingress, K::Sip, K::Agent]
        );
    }

    #[test]
    fn a_role_is_read_from_its_attribute() {
        let participant = |role: &str| Participant {
            sid: "PA_1".parse().unwrap(),
            identity: "alice".parse().unwrap(),
            name: String::new(),
            state: ParticipantState::Active,
            kind: ParticipantKind::from("standard"),
            metadata: String::new(),
            attributes: BTreeMap::from([(ROLE_ATTRIBUTE.to_owned(), role.to_owned())]),
            is_publisher: false,
            joined_at: None,
            tracks: vec![],
        };
        assert_eq!(participant("host").role(), Some("host".parse().unwrap()));
        assert_eq!(participant("not a role").role(), None);
    }

    #[test]
    fn a_session_lasts_until_its_end_or_until_now() {
        let at = |millis: i64| Timestamp::from_millis(1_000_000 + millis);
        let session = |left_at| Session {
            id: SessionId::new(),
            project_id: ProjectId::new(),
            room: "standup".parse().unwrap(),
            participant_identity: "alice".parse().unwrap(),
            participant_sid: "PA_1".parse().unwrap(),
            kind: ParticipantKind::Standard,
            role: None,
            joined_at: at(0),
            left_at,
            track_count: 0,
        };
        assert_eq!(session(None).duration_seconds(at(9_999)), 9);
        assert_eq!(session(Some(at(5_000))).duration_seconds(at(9_999)), 5);
    }
}
