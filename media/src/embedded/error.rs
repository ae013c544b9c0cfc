//! Errors of the machine.

/// Why the machine does not do what a participant requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// No participant has that sid.
    #[error("no such participant")]
    NoSuchParticipant,
    /// The participant publishes no track with that sid.
    #[error("no such track")]
    NoSuchTrack,
    /// The participant's grants forbid it. Holds the reason.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The participant has as many tracks as one may have.
    #[error("the participant has as many tracks as one may have")]
    TooManyTracks,
    /// The server stops, and admits no participants.
    #[error("the server is stopping")]
    Stopping,
    /// The room has its maximum of participants.
    #[error("the room is full")]
    RoomFull,
    /// The token comes from a room code that is not locked to an identity, and another participant with its identity is connected.
    #[error("another participant with this identity is connected")]
    IdentityTaken,
    /// No ingress endpoint has that stream key.
    #[error("no such ingress endpoint")]
    NoSuchIngress,
    /// The ingress endpoint has an encoder already.
    #[error("an encoder is connected with this stream key")]
    EncoderConnected,
}
