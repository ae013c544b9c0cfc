//! A token's claims: verified [`Claims`] with their [`Grants`], and their form in the JWT ([`Payload`]), with LiveKit's
//! field names.
//!
//! An absent grant does not mean false: without `canPublish`, everything may be published, and `canPublishData`
//! defaults to `canPublish`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use conclave_model::non_null::{Object, object};
use conclave_model::participant::{
    EXCHANGE_ATTRIBUTE, MAX_KBPS_ATTRIBUTE, ParticipantKind, REVOCATION_ATTRIBUTE, ROLE_ATTRIBUTE,
    ROLE_CHANGE_ATTRIBUTE, TrackSource,
};
use conclave_model::role::{PublishCodec, Role};
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{Identity, NamespacedRoom, RevocationId, RoleChangeId, RoleName, Timestamp};
use serde::{Deserialize, Serialize};

use super::{TokenError, from_seconds};

/// Claims of a verified token.
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
    /// The participant's kind.
    pub kind: ParticipantKind,
    /// The participant's permissions.
    pub grants: Grants,
    /// Settings for the room, used if this join opens it.
    pub room_config: Option<RoomConfig>,
    /// Expiry, in whole seconds.
    pub expires_at: Timestamp,
}

/// Settings of a room that a join opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomConfig {
    /// Time that the media plane keeps the room before the first join, in seconds.
    pub empty_timeout_seconds: u32,
    /// Time that the media plane keeps the room after the last leave, in seconds.
    pub departure_timeout_seconds: u32,
    /// Maximum number of participants; `None` for no limit.
    pub max_participants: Option<u32>,
}

impl Claims {
    /// Returns the role to join with; `None` if the attribute is absent or invalid.
    pub fn role(&self) -> Option<RoleName> {
        self.attributes
            .get(ROLE_ATTRIBUTE)
            .and_then(|role| role.parse().ok())
    }

    /// Returns the identity's last role change in the room before the token was minted, if there was one.
    pub fn role_change(&self) -> Option<RoleChangeId> {
        self.attributes
            .get(ROLE_CHANGE_ATTRIBUTE)
            .and_then(|id| id.parse().ok())
    }

    /// Returns the last revocation of the identity's tokens before the token was minted, if there was one.
    pub fn revocation(&self) -> Option<RevocationId> {
        self.attributes
            .get(REVOCATION_ATTRIBUTE)
            .and_then(|id| id.parse().ok())
    }

    /// Returns the room code exchange that issued the token; `None` for a token from a backend, or from a code that is
    /// locked to an identity.
    pub fn exchange(&self) -> Option<&str> {
        self.attributes.get(EXCHANGE_ATTRIBUTE).map(String::as_str)
    }

    /// Returns the limit for the total published bitrate, in kbit/s; `None` for no limit.
    pub fn max_kbps(&self) -> Option<u32> {
        self.attributes
            .get(MAX_KBPS_ATTRIBUTE)
            .and_then(|kbps| kbps.parse().ok())
    }

    /// Returns the maximum number of participants in a room that this join opens; `None` for no limit.
    pub fn max_participants(&self) -> Option<u32> {
        self.room_config.and_then(|config| config.max_participants)
    }
}

impl TryFrom<Payload<'_>> for Claims {
    type Error = TokenError;

    fn try_from(payload: Payload<'_>) -> Result<Self, TokenError> {
        if !payload.video.room_join {
            // A token for the server API, for example, has no `roomJoin`.
            return Err(TokenError::NoRoom);
        }
        Ok(Self {
            room: payload.video.room.parse().map_err(|_| TokenError::NoRoom)?,
            // Identities from a LiveKit backend's own tokens may not fit the API's pattern; such tokens open no room
            // here.
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
                // LiveKit's agents and SIP service name their kind in the token.
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
            // In LiveKit, 0 means no limit.
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

/// A participant's permissions in its room. The default allows everything except changing its own metadata, and does
/// not hide it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// Allows publishing audio and video.
    pub can_publish: bool,
    /// Allows receiving other participants.
    pub can_subscribe: bool,
    /// Allows publishing data.
    pub can_publish_data: bool,
    /// Sources that may be published; empty for all. Without effect if `can_publish` is false.
    pub sources: Vec<TrackSource>,
    /// Codecs with which video may be published; `None` for all.
    pub video_codecs: Option<Vec<PublishCodec>>,
    /// Hides the participant from the others.
    pub hidden: bool,
    /// Allows the participant's client to change its name, metadata and attributes.
    pub can_update_own_metadata: bool,
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            can_publish: true,
            can_subscribe: true,
            can_publish_data: true,
            sources: Vec::new(),
            video_codecs: None,
            hidden: false,
            can_update_own_metadata: false,
        }
    }
}

impl Grants {
    /// Returns a role's grants. A token cannot express `to_roles`, except for an empty list, which forbids subscribing.
    /// The media plane enforces other lists (see [`crate::MediaPlane::set_subscription_rules`]).
    pub fn from_role(role: &Role) -> Self {
        Self {
            // True if any source is allowed; `sources` has the details.
            can_publish: role.publish.allows_media(),
            // An empty list: LiveKit has no other way to express that a role receives nobody.
            can_subscribe: !role.subscribe.to_roles.as_ref().is_some_and(Vec::is_empty),
            can_publish_data: role.publish.allows_data(),
            sources: role.publish.sources(),
            video_codecs: role.publish.video_codecs.clone(),
            hidden: role.hidden,
            can_update_own_metadata: role.permissions.update_own_metadata,
        }
    }
}

/// Length of an exchange id, in characters with 62 values each.
const EXCHANGE_ID_LENGTH: usize = 16;

/// Random id of a room code exchange. A participant that joins again with the same token has the same id. It is not
/// secret: all participants in the room see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeId(Box<str>);

impl ExchangeId {
    /// Creates a new random id.
    #[allow(clippy::new_without_default, reason = "a random name is no default")]
    #[must_use]
    pub fn new() -> Self {
        Self(random_text(EXCHANGE_ID_LENGTH, BASE62).into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A token's payload. Borrows its texts for signing.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Payload<'a> {
    pub iss: Cow<'a, str>,
    pub sub: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    pub exp: i64,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub jti: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub metadata: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(default, deserialize_with = "object")]
    pub video: VideoGrant<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_config: Option<Object<RoomConfigClaim>>,
}

/// The `video` grant.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VideoGrant<'a> {
    pub room: Cow<'a, str>,
    pub room_join: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_publish: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_subscribe: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_publish_data: Option<bool>,
    #[serde(skip_serializing_if = "<[TrackSource]>::is_empty")]
    pub can_publish_sources: Cow<'a, [TrackSource]>,
    /// LiveKit's server does not know it and ignores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_publish_codecs: Option<Cow<'a, [PublishCodec]>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// False if it is absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub can_update_own_metadata: bool,
}

impl<'a> VideoGrant<'a> {
    /// Creates the grant to join a room.
    pub fn new(room: &'a NamespacedRoom, grants: &'a Grants) -> Self {
        Self {
            room: room.as_str().into(),
            room_join: true,
            can_publish: Some(grants.can_publish),
            can_subscribe: Some(grants.can_subscribe),
            can_publish_data: Some(grants.can_publish_data),
            can_publish_sources: grants.sources.as_slice().into(),
            can_publish_codecs: grants.video_codecs.as_deref().map(Into::into),
            hidden: grants.hidden,
            can_update_own_metadata: grants.can_update_own_metadata,
        }
    }
}

impl From<&VideoGrant<'_>> for Grants {
    fn from(grant: &VideoGrant<'_>) -> Self {
        // LiveKit's defaults for absent grants.
        let can_publish = grant.can_publish.unwrap_or(true);
        Self {
            can_publish,
            can_subscribe: grant.can_subscribe.unwrap_or(true),
            can_publish_data: grant.can_publish_data.unwrap_or(can_publish),
            sources: grant.can_publish_sources.to_vec(),
            video_codecs: grant
                .can_publish_codecs
                .as_deref()
                .map(<[PublishCodec]>::to_vec),
            hidden: grant.hidden,
            can_update_own_metadata: grant.can_update_own_metadata,
        }
    }
}

/// Settings of the room that the join opens, in LiveKit's `roomConfig`.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RoomConfigClaim {
    pub empty_timeout: u32,
    pub departure_timeout: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_participants: Option<u32>,
}

#[cfg(test)]
mod tests {
    use conclave_model::role::RoleInput;

    use super::*;

    fn grants(input: &str) -> Grants {
        let input: RoleInput = serde_json::from_str(input).unwrap();
        let role = input.with_defaults("host".parse().unwrap()).unwrap();
        Grants::from_role(&role)
    }

    #[test]
    fn a_role_that_receives_nobody_cannot_subscribe() {
        assert!(grants("{}").can_subscribe);
        assert!(grants(r#"{"subscribe":{"to_roles":["host"]}}"#).can_subscribe);
        assert!(!grants(r#"{"subscribe":{"to_roles":[]}}"#).can_subscribe);
    }

    #[test]
    fn a_role_that_publishes_data_alone_publishes_no_media() {
        let grants = grants(r#"{"publish":{"allowed":["data"]},"hidden":true}"#);
        assert_eq!(
            (grants.can_publish, grants.can_publish_data, grants.hidden),
            (false, true, true)
        );
        assert!(grants.sources.is_empty());
    }

    #[test]
    fn a_role_changes_its_own_metadata_only_if_it_says_so() {
        assert!(
            !grants("{}").can_update_own_metadata && !Grants::default().can_update_own_metadata
        );
        assert!(grants(r#"{"permissions":{"update_own_metadata":true}}"#).can_update_own_metadata);
    }
}
