//! How a client is turned away before its websocket is opened.

use super::budget::Excess;
use super::join::JoinError;
use crate::embedded::error::MachineError;
use crate::embedded::own_metadata::OwnMetadataError;
use crate::port::ReportError;
use crate::token::TokenError;

/// Why a client may not connect. The text is for the client; it contains nothing of its token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request cannot be read: 400.
    #[error("{0}")]
    BadRequest(JoinError),
    /// The token is missing or invalid, or does not permit what the request asks for: 401.
    #[error("{0}")]
    Unauthorized(String),
    /// The room does not exist, or has ended: 404. Clients look for this very text, and for others fall back to an
    /// older path.
    #[error("requested room does not exist")]
    NoRoom,
    /// The room or the role is full, the role was removed, or the identity is another participant's: 403.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The participant has sent as much as it may: 429.
    #[error("{0}")]
    TooMuch(Excess),
    /// The join could not be written: 503. The client may try again.
    #[error("the server cannot take joins now")]
    Unavailable,
}

impl From<JoinError> for Refusal {
    fn from(error: JoinError) -> Self {
        match error {
            error @ JoinError::OwnMetadata(OwnMetadataError::TooLong) => Self::BadRequest(error),
            JoinError::NoToken | JoinError::OwnMetadata(_) => Self::Unauthorized(error.to_string()),
            error => Self::BadRequest(error),
        }
    }
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        Self::Unauthorized(error.to_string())
    }
}

impl From<Excess> for Refusal {
    fn from(excess: Excess) -> Self {
        Self::TooMuch(excess)
    }
}

impl From<MachineError> for Refusal {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::RoomFull => Self::Forbidden("the room is full"),
            MachineError::IdentityTaken => {
                Self::Forbidden("another participant with this identity is connected")
            }
            MachineError::Stopping => Self::Unavailable,
            // It was removed, or its room ended, while the control plane was asked.
            _ => Self::NoRoom,
        }
    }
}

impl From<ReportError> for Refusal {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::NoRoom,
            ReportError::RoleFull => Self::Forbidden("the role is full for this room"),
            ReportError::RoleRemoved => Self::Forbidden("the room has no such role any more"),
            ReportError::InvalidIdentity => Self::Forbidden("the identity is not allowed"),
            ReportError::Unavailable => Self::Unavailable,
        }
    }
}
