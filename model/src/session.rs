//! Sessions: one row per participant per join.

use crate::participant::{ParticipantKind, TrackKind, TrackSource};
use crate::{Identity, ParticipantSid, ProjectId, RoleName, RoomName, SessionId, Timestamp, TrackSid};

/// One participant's one join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The row.
    pub id: SessionId,
    /// Whose room it was in.
    pub project_id: ProjectId,
    /// The room.
    pub room: RoomName,
    /// Who.
    pub participant_identity: Identity,
    /// Which join.
    pub participant_sid: ParticipantSid,
    /// What joined.
    pub kind: ParticipantKind,
    /// The role held, the latest if it changed; `None` when the token carried none.
    pub role: Option<RoleName>,
    /// When it began.
    pub joined_at: Timestamp,
    /// When it ended; `None` while connected.
    pub left_at: Option<Timestamp>,
    /// Tracks published during it.
    pub track_count: u32,
}

impl Session {
    /// Whole seconds to its end, or to `now` while it is open.
    #[must_use]
    pub fn duration_seconds(&self, now: Timestamp) -> u64 {
        self.left_at.unwrap_or(now).since(self.joined_at).as_secs()
    }
}

/// A track published during a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionTrack {
    /// The media plane's id of it.
    pub track_sid: TrackSid,
    /// What it carried.
    pub kind: TrackKind,
    /// Where it came from.
    pub source: TrackSource,
    /// When it began.
    pub started_at: Timestamp,
    /// When it stopped; `None` while published.
    pub ended_at: Option<Timestamp>,
}
