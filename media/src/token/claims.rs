//! What a verified token says, in the house's own types.

use std::collections::BTreeMap;

use conclave_model::participant::{MAX_KBPS_ATTRIBUTE, ParticipantKind, ROLE_ATTRIBUTE};
use conclave_model::{Identity, NamespacedRoom, RoleName, Timestamp};

use super::wire::{Config, Payload};
use super::{Grants, TokenError, instant};

/// A token that was verified: who may enter which room, and what it may do there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The room it opens.
    pub room: NamespacedRoom,
    /// Who carries it.
    pub identity: Identity,
    /// Display name; empty when it carries none.
    pub name: String,
    /// The participant's metadata; empty when it carries none.
    pub metadata: String,
    /// `svc.role` and `svc.publish.max_kbps` among them.
    pub attributes: BTreeMap<String, String>,
    /// What carries it.
    pub kind: ParticipantKind,
    /// What its holder may do.
    pub grants: Grants,
    /// What the room is like if this join opens it.
    pub room_config: Option<RoomConfig>,
    /// When it ends to be valid.
    pub expires_at: Timestamp,
}

/// What a room is like that the media plane opens by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomConfig {
    /// How long the media plane keeps it before anybody joined.
    pub empty_timeout_seconds: u32,
    /// How long the media plane keeps it after everybody left.
    pub departure_timeout_seconds: u32,
    /// The most people in it; `None` is no cap.
    pub max_participants: Option<u32>,
}

impl Claims {
    /// The role it gives, if any.
    #[must_use]
    pub fn role(&self) -> Option<RoleName> {
        self.attributes.get(ROLE_ATTRIBUTE).and_then(|role| role.parse().ok())
    }

    /// The ceiling over everything its holder publishes, in kilobits a second.
    #[must_use]
    pub fn max_kbps(&self) -> Option<u32> {
        self.attributes.get(MAX_KBPS_ATTRIBUTE).and_then(|kbps| kbps.parse().ok())
    }

    /// The cap of the room that this join opens.
    #[must_use]
    pub fn max_participants(&self) -> Option<u32> {
        self.room_config.and_then(|config| config.max_participants)
    }
}

impl TryFrom<Payload<'_>> for Claims {
    type Error = TokenError;

    fn try_from(payload: Payload<'_>) -> Result<Self, TokenError> {
        if !payload.video.room_join {
            return Err(TokenError::NoRoom);
        }
        Ok(Self {
            room: payload.video.room.parse().map_err(|_| TokenError::NoRoom)?,
            identity: payload.sub.parse().map_err(|_| TokenError::NoRoom)?,
            grants: payload.video.grants(),
            name: payload.name.into_owned(),
            metadata: payload.metadata.into_owned(),
            attributes: payload.attributes.into_iter().map(|(k, v)| (k.into_owned(), v.into_owned())).collect(),
            kind: payload.kind.map_or(ParticipantKind::Standard, |kind| ParticipantKind::of(&kind)),
            room_config: payload.room_config.map(RoomConfig::from),
            expires_at: instant(payload.exp),
        })
    }
}

impl From<Config> for RoomConfig {
    fn from(config: Config) -> Self {
        Self {
            empty_timeout_seconds: config.empty_timeout,
            departure_timeout_seconds: config.departure_timeout,
            max_participants: config.max_participants.filter(|cap| *cap > 0),
        }
    }
}

impl From<RoomConfig> for Config {
    fn from(config: RoomConfig) -> Self {
        Self {
            empty_timeout: config.empty_timeout_seconds,
            departure_timeout: config.departure_timeout_seconds,
            max_participants: config.max_participants,
        }
    }
}
