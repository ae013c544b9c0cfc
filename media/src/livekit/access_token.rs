//! Access tokens for LiveKit: one for each API call, with only the grant that the call needs, and one for the
//! configuration check's join.

use std::time::Duration;

use conclave_model::{Secret, Timestamp};
use serde::Serialize;

use crate::token::{TokenError, TokenSigner};

/// Lifetime of a token. Longer than the longest call timeout plus the expected difference between two clocks.
const LIFETIME: Duration = Duration::from_secs(300);

/// The `video` grant of an API call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGrant {
    #[serde(skip_serializing_if = "Option::is_none")]
    room: Option<Box<str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    room_create: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    room_list: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    room_admin: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    room_record: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ingress_admin: bool,
}

impl ApiGrant {
    /// Allows creating and deleting rooms.
    pub fn room_create() -> Self {
        Self {
            room_create: true,
            ..Self::default()
        }
    }

    /// Allows listing rooms.
    pub fn room_list() -> Self {
        Self {
            room_list: true,
            ..Self::default()
        }
    }

    /// Allows reading and moderating one room.
    pub fn room_admin(room: &str) -> Self {
        Self {
            room_admin: true,
            room: Some(room.into()),
            ..Self::default()
        }
    }

    /// Allows starting, reading and stopping egresses.
    pub fn room_record() -> Self {
        Self {
            room_record: true,
            ..Self::default()
        }
    }

    /// Allows creating, reading and deleting ingress endpoints.
    pub fn ingress_admin() -> Self {
        Self {
            ingress_admin: true,
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
struct ApiPayload<'a> {
    iss: &'a str,
    nbf: i64,
    exp: i64,
    video: &'a ApiGrant,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JoinPayload<'a> {
    iss: &'a str,
    sub: &'a str,
    nbf: i64,
    exp: i64,
    video: JoinGrant<'a>,
    room_config: JoinRoomConfig,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JoinGrant<'a> {
    room: &'a str,
    room_join: bool,
    hidden: bool,
    can_publish: bool,
    can_subscribe: bool,
    can_publish_data: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JoinRoomConfig {
    empty_timeout: u32,
    departure_timeout: u32,
}

/// Signs a token for one API call at `now`.
pub(super) fn api_token(
    signer: &TokenSigner,
    grant: &ApiGrant,
    now: Timestamp,
) -> Result<Secret, TokenError> {
    let (nbf, exp) = validity(now);
    signer.encode(&ApiPayload {
        iss: signer.api_key(),
        nbf,
        exp,
        video: grant,
    })
}

/// Signs a token for a hidden participant that neither publishes nor subscribes. If the join opens the room, LiveKit
/// keeps it open for `empty_seconds` while it is empty.
pub(super) fn join_token(
    signer: &TokenSigner,
    (room, identity): (&str, &str),
    empty_seconds: u32,
    now: Timestamp,
) -> Result<Secret, TokenError> {
    // The check needs a participant in the room, not its media.
    let grant = JoinGrant {
        room,
        room_join: true,
        hidden: true,
        can_publish: false,
        can_subscribe: false,
        can_publish_data: false,
    };
    let room_config = JoinRoomConfig {
        empty_timeout: empty_seconds,
        departure_timeout: empty_seconds,
    };
    let (nbf, exp) = validity(now);
    signer.encode(&JoinPayload {
        iss: signer.api_key(),
        sub: identity,
        nbf,
        exp,
        video: grant,
        room_config,
    })
}

/// Returns `nbf` and `exp` for a token signed at `now`, in seconds since the epoch.
fn validity(now: Timestamp) -> (i64, i64) {
    (now.millis() / 1_000, now.after(LIFETIME).millis() / 1_000)
}
