//! The claims of a verified token.

use std::collections::BTreeMap;

use conclave_model::non_null::Object;
use conclave_model::participant::{
    EXCHANGE_ATTRIBUTE, MAX_KBPS_ATTRIBUTE, ParticipantKind, ROLE_ATTRIBUTE, ROLE_CHANGE_ATTRIBUTE,
};
use conclave_model::{Identity, NamespacedRoom, RoleChangeId, RoleName, Timestamp};

use super::wire::{Payload, RoomConfigClaim};
use super::{Grants, TokenError, from_seconds};

/// The claims of a verified token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The room that it allows to join.
    pub room: NamespacedRoom,
    /// The identity to join as.
    pub identity: Identity,
    /// Display name; empty if there is none.
    pub name: String,
    /// The participant's metadata; empty if there is none.
    pub metadata: String,
    /// The participant's attributes, including `svc.role` and `svc.publish.max_kbps`.
    pub attributes: BTreeMap<String, String>,
    /// The kind of the participant.
    pub kind: ParticipantKind,
    /// What the participant may do.
    pub grants: Grants,
    /// Settings for the room, used if this join opens it.
    pub room_config: Option<RoomConfig>,
    /// When the token expires, a whole second.
    pub expires_at: Timestamp,
}

/// Settings of a room that a join opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomConfig {
    /// How long the media plane keeps the room before the first join.
    pub empty_timeout_seconds: u32,
    /// How long the media plane keeps the room after the last leave.
    pub departure_timeout_seconds: u32,
    /// The maximum of participants; `None` means no limit.
    pub max_participants: Option<u32>,
}

impl Claims {
    /// Returns the role to join with; `None` if the attribute is absent or invalid.
    pub fn role(&self) -> Option<RoleName> {
        self.attributes
            .get(ROLE_ATTRIBUTE)
            .and_then(|role| role.parse().ok())
    }

    /// Returns the last role change of the identity in the room that the token was minted after, if there was one.
    pub fn role_change(&self) -> Option<RoleChangeId> {
        self.attributes
            .get(ROLE_CHANGE_ATTRIBUTE)
            .and_then(|id| id.parse().ok())
    }

    /// Returns the exchange of a room code that the token comes from; `None` for a token from a backend, or from a code that is locked
    /// to an identity.
    pub fn exchange(&self) -> Option<&str> {
        self.attributes.get(EXCHANGE_ATTRIBUTE).map(String::as_str)
    }

    /// Returns the limit of everything published together, in kilobits per second; `None` means no limit.
    pub fn max_kbps(&self) -> Option<u32> {
        self.attributes
            .get(MAX_KBPS_ATTRIBUTE)
            .and_then(|kbps| kbps.parse().ok())
    }

    /// Returns the maximum of participants of a room that this join opens; `None` means no limit.
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
            grants: Grants::from(&payload.video),
            name: payload.name.into_owned(),
            metadata: payload.metadata.into_owned(),
            attributes: payload
                .attributes
                .into_iter()
                .map(|(k, v)| (k.into_owned(), v.into_owned()))
                .collect(),
            kind: payload.kind.map_or(ParticipantKind::Standard, |kind| {
                ParticipantKind::from(&*kind)
            }),
            room_config: payload.room_config.map(|Object(config)| config.into()),
            expires_at: from_seconds(payload.exp),
        })
    }
}

impl From<RoomConfigClaim> for RoomConfig {
    fn from(config: RoomConfigClaim) -> Self {
        Self {
            empty_timeout_seconds: config.empty_timeout,
            departure_timeout_seconds: config.departure_timeout,
            max_participants: config.max_participants.filter(|cap| *cap > 0),
        }
    }
}

impl From<RoomConfig> for RoomConfigClaim {
    fn from(config: RoomConfig) -> Self {
        Self {
            empty_timeout: config.empty_timeout_seconds,
            departure_timeout: config.departure_timeout_seconds,
            max_participants: config.max_participants,
        }
    }
}
