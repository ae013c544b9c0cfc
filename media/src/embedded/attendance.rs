//! Who and what an egress with ffmpeg contains.

use std::collections::BTreeMap;

use conclave_egress::Attendee;
use conclave_model::egress::EgressSource;
use conclave_model::{ParticipantSid, TrackSid};

/// What an egress with ffmpeg is of, and what it has.
#[derive(Debug, Clone)]
pub(super) struct Attendance {
    pub source: EgressSource,
    /// Whether it was told who attends.
    pub was_told: bool,
    /// Whether the room has no participants, as it was told.
    pub is_room_empty: bool,
    /// Who attends, as it was told.
    pub attendees: Vec<Attendee>,
    /// The tracks that it gets, with their publishers.
    pub attached: BTreeMap<TrackSid, ParticipantSid>,
}

impl Attendance {
    /// Starts without participants.
    pub const fn new(source: EgressSource) -> Self {
        Self { source, was_told: false, is_room_empty: false, attendees: Vec::new(), attached: BTreeMap::new() }
    }
}
