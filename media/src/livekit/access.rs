//! What a call to LiveKit proves about itself: a token for this call alone, with the one grant that it needs. And the token
//! of whoever looks around in a room.

use std::time::Duration;

use conclave_model::{Secret, Timestamp};
use serde::Serialize;

use crate::token::{TokenError, TokenSigner};

/// How long a call's token lives. Longer than any call may take, and than two clocks may differ.
const LIFE: Duration = Duration::from_secs(300);

/// The grant that a call needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
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

impl Grant {
    /// To make and delete rooms.
    pub fn room_create() -> Self {
        Self { room_create: true, ..Self::default() }
    }

    /// To list rooms.
    pub fn room_list() -> Self {
        Self { room_list: true, ..Self::default() }
    }

    /// To do something in one room.
    pub fn room_admin(room: &str) -> Self {
        Self { room_admin: true, room: Some(room.into()), ..Self::default() }
    }

    /// To start, read and stop egresses.
    pub fn room_record() -> Self {
        Self { room_record: true, ..Self::default() }
    }

    /// To make, read and delete ingress endpoints.
    pub fn ingress_admin() -> Self {
        Self { ingress_admin: true, ..Self::default() }
    }
}

#[derive(Serialize)]
struct Payload<'a> {
    iss: &'a str,
    nbf: i64,
    exp: i64,
    video: &'a Grant,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JoinPayload<'a> {
    iss: &'a str,
    sub: &'a str,
    nbf: i64,
    exp: i64,
    video: JoinGrant<'a>,
    room_config: JoinConfig,
}

/// To be in a room, unseen and without a word.
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
struct JoinConfig {
    empty_timeout: u32,
    departure_timeout: u32,
}

/// A token to be in a room with, from now on, which LiveKit keeps open for `seconds` when it is empty.
pub(super) fn join_token(
    signer: &TokenSigner,
    (room, identity): (&str, &str),
    seconds: u32,
    now: Timestamp,
) -> Result<Secret, TokenError> {
    let grant = JoinGrant {
        room,
        room_join: true,
        hidden: true,
        can_publish: false,
        can_subscribe: false,
        can_publish_data: false,
    };
    let room_config = JoinConfig { empty_timeout: seconds, departure_timeout: seconds };
    let (nbf, exp) = (now.millis() / 1_000, now.after(LIFE).millis() / 1_000);
    signer.seal(&JoinPayload { iss: signer.api_key(), sub: identity, nbf, exp, video: grant, room_config })
}

/// A token for one call that is made now.
pub(super) fn token(signer: &TokenSigner, grant: &Grant, now: Timestamp) -> Result<Secret, TokenError> {
    let (nbf, exp) = (now.millis() / 1_000, now.after(LIFE).millis() / 1_000);
    signer.seal(&Payload { iss: signer.api_key(), nbf, exp, video: grant })
}
