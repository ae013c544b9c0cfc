//! A room token's payload as it stands in the JWT, with the names LiveKit gives its fields.
//!
//! Written by borrowing, so that minting copies nothing twice; read leniently, because absent is not false: without
//! `canPublish` everything may be published, and without `canPublishData` data follows `canPublish`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use conclave_model::NamespacedRoom;
use conclave_model::participant::TrackSource;
use serde::{Deserialize, Serialize};

use super::Grants;

/// The payload.
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
    #[serde(default)]
    pub video: Video<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_config: Option<Config>,
}

/// The `video` grant.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Video<'a> {
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

impl<'a> Video<'a> {
    /// The grant that lets its holder into a room.
    pub fn of(room: &'a NamespacedRoom, grants: &'a Grants) -> Self {
        Self {
            room: room.as_str().into(),
            room_join: true,
            can_publish: Some(grants.can_publish),
            can_subscribe: Some(grants.can_subscribe),
            can_publish_data: Some(grants.can_publish_data),
            can_publish_sources: grants.sources.as_slice().into(),
            hidden: grants.hidden,
        }
    }

    /// What the grant comes to once everything it leaves out is filled in.
    pub fn grants(&self) -> Grants {
        let can_publish = self.can_publish.unwrap_or(true);
        Grants {
            can_publish,
            can_subscribe: self.can_subscribe.unwrap_or(true),
            can_publish_data: self.can_publish_data.unwrap_or(can_publish),
            sources: self.can_publish_sources.to_vec(),
            hidden: self.hidden,
        }
    }
}

/// The room that this join opens, if it opens one.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Config {
    pub empty_timeout: u32,
    pub departure_timeout: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_participants: Option<u32>,
}
