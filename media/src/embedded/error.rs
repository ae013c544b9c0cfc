//! Errors of the room state.

/// Reason why the room state rejects a participant's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RoomStateError {
    /// No participant has this sid.
    #[error("no such participant")]
    NoSuchParticipant,
    /// The participant publishes no track with this sid.
    #[error("no such track")]
    NoSuchTrack,
    /// Not granted. Holds the reason.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The participant has the maximum number of tracks.
    #[error("the participant has the maximum number of tracks")]
    TooManyTracks,
    /// The server is stopping and admits no participants.
    #[error("the server is stopping")]
    Stopping,
    /// The room has its maximum number of participants.
    #[error("the room is full")]
    RoomFull,
    /// The token comes from a room code that is not locked to an identity, and another participant with its identity is
    /// connected.
    #[error("another participant with this identity is connected")]
    IdentityTaken,
    /// No ingress endpoint has this stream key.
    #[error("no such ingress endpoint")]
    NoSuchIngress,
    /// The ingress endpoint already has an encoder.
    #[error("an encoder is connected with this stream key")]
    EncoderConnected,
}
