//! The payload of a room token in the JWT, with LiveKit's field names.
//!
//! An absent grant does not mean false: without `canPublish` everything may be published, and `canPublishData` defaults to
//! `canPublish`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use conclave_model::NamespacedRoom;
use conclave_model::non_null::{Object, object};
use conclave_model::participant::TrackSource;
use conclave_model::role::PublishCodec;
use serde::{Deserialize, Serialize};

use super::Grants;

/// The payload of a token. Borrows its texts when it is signed.
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
    /// Not known to LiveKit's server, which ignores it.
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

/// The settings of a room that the join opens, in LiveKit's `roomConfig`.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RoomConfigClaim {
    pub empty_timeout: u32,
    pub departure_timeout: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_participants: Option<u32>,
}
