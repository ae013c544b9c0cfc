//! What a call to LiveKit proves about itself: a token for this call alone, with the one grant that it needs.

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

/// A token for one call that is made now.
pub(super) fn token(signer: &TokenSigner, grant: &Grant, now: Timestamp) -> Result<Secret, TokenError> {
    let (nbf, exp) = (now.millis() / 1_000, now.after(LIFE).millis() / 1_000);
    signer.seal(&Payload { iss: signer.api_key(), nbf, exp, video: grant })
}
