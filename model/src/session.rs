//! Sessions: one row per participant per join.

use crate::participant::{ParticipantKind, TrackKind, TrackSource};
use crate::{
    Identity, ParticipantSid, ProjectId, RoleName, RoomName, SessionId, Timestamp, TrackSid,
};

/// One join of one participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The id of the record.
    pub id: SessionId,
    /// The project that owns the room.
    pub project_id: ProjectId,
    /// The room that was joined.
    pub room: RoomName,
    /// The identity of the participant.
    pub participant_identity: Identity,
    /// The media plane's id of the join.
    pub participant_sid: ParticipantSid,
    /// The kind of client.
    pub kind: ParticipantKind,
    /// The last role of the participant; `None` if the token contained none.
    pub role: Option<RoleName>,
    /// The instant of the join.
    pub joined_at: Timestamp,
    /// The instant of the leave; `None` while connected.
    pub left_at: Option<Timestamp>,
    /// Number of tracks published during the session.
    pub track_count: u32,
}

impl Session {
    /// Returns the whole seconds to its end, or to `now` while it is open.
    pub fn duration_seconds(&self, now: Timestamp) -> u64 {
        self.left_at.unwrap_or(now).since(self.joined_at).as_secs()
    }
}

/// A track published during a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionTrack {
    /// The media plane's id of the track.
    pub track_sid: TrackSid,
    /// Audio, video or data.
    pub kind: TrackKind,
    /// The device or screen that the track captures.
    pub source: TrackSource,
    /// The instant at which publishing began.
    pub started_at: Timestamp,
    /// The instant at which publishing ended; `None` before.
    pub ended_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_until_its_end_or_until_now() {
        let at = |millis: i64| Timestamp::from_millis(1_000_000 + millis);
        let session = |left_at| Session {
            id: SessionId::new(),
            project_id: ProjectId::new(),
            room: "standup".parse().unwrap(),
            participant_identity: "alice".parse().unwrap(),
            participant_sid: "PA_1".parse().unwrap(),
            kind: ParticipantKind::Standard,
            role: None,
            joined_at: at(0),
            left_at,
            track_count: 0,
        };
        assert_eq!(session(None).duration_seconds(at(9_999)), 9);
        assert_eq!(session(Some(at(5_000))).duration_seconds(at(9_999)), 5);
    }
}
