//! What the media plane answers when a room actor asks it for the room's participants.

use conclave_db::OpenTrack;
use conclave_model::participant::Participant;
use conclave_model::{ParticipantSid, Timestamp};

/// A room on the media plane, and in the records at the moment when the plane was asked.
#[derive(Debug)]
pub struct RoomObservation {
    /// The instant at which the plane was asked.
    pub(super) asked_at: Timestamp,
    /// Joins in the records that had had the time to complete.
    pub(super) known: Vec<ParticipantSid>,
    /// Open tracks in the records.
    pub(super) tracks: Vec<OpenTrack>,
    /// Participants on the media plane.
    pub(super) participants: Vec<Participant>,
}
