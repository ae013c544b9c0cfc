//! Reasons for refusing an encoder.

use std::time::Duration;

use crate::embedded::error::RoomStateError;
use crate::port::ReportError;

/// Reason for refusing an encoder. The text is sent to the encoder; it contains nothing from its stream key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncoderRefusal {
    /// No ingress endpoint for this protocol has the stream key, or it was deleted.
    #[error("no ingress endpoint has this stream key")]
    UnknownKey,
    /// Too many stream keys from this address, or too many attempts with this key.
    #[error("too many stream keys were tried")]
    TooManyTries {
        /// Time until the next attempt may succeed.
        retry_after: Duration,
    },
    /// Another encoder is connected to the endpoint.
    #[error("an encoder is connected with this stream key already")]
    AlreadyConnected,
    /// The room has ended.
    #[error("the room has ended")]
    RoomEnded,
    /// The endpoint's identity is banned from the room.
    #[error("the identity is banned from this room")]
    Banned,
    /// The room has its maximum number of participants.
    #[error("the room is full")]
    RoomFull,
    /// The stream cannot be published.
    #[error("{0}")]
    BadStream(&'static str),
    /// The control plane is unavailable, or no media worker replied. The encoder may retry.
    #[error("the server cannot accept encoders now")]
    Unavailable,
}

impl From<RoomStateError> for EncoderRefusal {
    fn from(error: RoomStateError) -> Self {
        match error {
            RoomStateError::RoomFull => Self::RoomFull,
            RoomStateError::EncoderConnected => Self::AlreadyConnected,
            RoomStateError::Stopping => Self::Unavailable,
            // The endpoint was deleted during the request to the control plane.
            RoomStateError::NoSuchIngress
            | RoomStateError::NoSuchParticipant
            | RoomStateError::NoSuchTrack
            | RoomStateError::Forbidden(_)
            | RoomStateError::TooManyTracks
            // Impossible: only tokens from room codes have this conflict, and an encoder has no token.
            | RoomStateError::IdentityTaken => Self::UnknownKey,
        }
    }
}

impl From<ReportError> for EncoderRefusal {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::RoomEnded,
            ReportError::RoleFull => Self::RoomFull,
            ReportError::Banned => Self::Banned,
            // An encoder has no role and no token, and its identity was checked when its endpoint was created.
            ReportError::RoleRemoved
            | ReportError::TokenRevoked
            | ReportError::InvalidIdentity
            | ReportError::Unavailable => Self::Unavailable,
        }
    }
}
