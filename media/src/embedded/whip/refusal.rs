//! Why requests of encoders are refused.

use crate::embedded::error::MachineError;
use crate::port::ReportError;

/// Why an encoder may not connect. The text is for the encoder; it contains nothing of its stream key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncoderRefusal {
    /// No ingress endpoint of this protocol has the stream key, or it was deleted.
    #[error("no ingress endpoint has this stream key")]
    UnknownKey,
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

impl From<MachineError> for EncoderRefusal {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::RoomFull => Self::RoomFull,
            MachineError::EncoderConnected => Self::AlreadyConnected,
            // The endpoint was deleted while the control plane was asked.
            MachineError::NoSuchIngress
            | MachineError::NoSuchParticipant
            | MachineError::NoSuchTrack
            | MachineError::Forbidden(_) => Self::UnknownKey,
        }
    }
}

impl From<ReportError> for EncoderRefusal {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::RoomEnded | ReportError::UnknownRoom => Self::RoomEnded,
            ReportError::RoleFull => Self::RoomFull,
            // An encoder has no role, and its identity was checked when its endpoint was created.
            ReportError::RoleRemoved | ReportError::InvalidIdentity | ReportError::Unavailable => Self::Unavailable,
        }
    }
}

/// Why a change of a session's ICE parameters is refused (RFC 9725, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WhipPatchError {
    /// There is no such session, or it is over: 404.
    #[error("no such session")]
    NoSession,
    /// The request names no entity tag: 428.
    #[error("the request must name the entity tag of the ICE session in If-Match, or * to restart ICE")]
    NoCondition,
    /// The request is about earlier ICE credentials: 412.
    #[error("ICE was restarted: the entity tag is not that of the session now")]
    Stale,
    /// The body is no fragment with ICE credentials: 400.
    #[error("{0}")]
    BadFragment(&'static str),
    /// The media worker did not answer: 503.
    #[error("the media worker did not answer")]
    Unavailable,
}
