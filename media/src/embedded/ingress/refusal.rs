//! Why an encoder may not connect.

use std::time::Duration;

use crate::embedded::error::RoomStateError;
use crate::port::ReportError;

/// Why an encoder may not connect. The text is for the encoder; it contains nothing of its stream key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncoderRefusal {
    /// No ingress endpoint of this protocol has the stream key, or it was deleted.
    #[error("no ingress endpoint has this stream key")]
    UnknownKey,
    /// Too many stream keys came from this address, or this one came too often.
    #[error("too many stream keys were tried")]
    TooManyTries {
        /// When it is worth another try.
        retry_after: Duration,
    },
    /// Another encoder is connected to the endpoint.
    #[error("an encoder is connected with this stream key already")]
    AlreadyConnected,
    /// The room has ended.
    #[error("the room has ended")]
    RoomEnded,
    /// The room has its maximum of participants.
    #[error("the room is full")]
    RoomFull,
    /// The stream cannot be published.
    #[error("{0}")]
    BadStream(&'static str),
    /// The join could not be written, or no media worker answered. The encoder may try again.
    #[error("the server cannot take encoders now")]
    Unavailable,
}

impl From<RoomStateError> for EncoderRefusal {
    fn from(error: RoomStateError) -> Self {
        match error {
            RoomStateError::RoomFull => Self::RoomFull,
            RoomStateError::EncoderConnected => Self::AlreadyConnected,
            RoomStateError::Stopping => Self::Unavailable,
            // The endpoint was deleted while the control plane was asked.
            RoomStateError::NoSuchIngress
            | RoomStateError::NoSuchParticipant
            | RoomStateError::NoSuchTrack
            | RoomStateError::Forbidden(_)
            | RoomStateError::TooManyTracks
            // An encoder has no token.
            | RoomStateError::IdentityTaken => Self::UnknownKey,
        }
    }
}

impl From<ReportError> for EncoderRefusal {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::RoomEnded,
            ReportError::RoleFull => Self::RoomFull,
            // An encoder has no role, and its identity was checked when its endpoint was created.
            ReportError::RoleRemoved | ReportError::InvalidIdentity | ReportError::Unavailable => {
                Self::Unavailable
            }
        }
    }
}
