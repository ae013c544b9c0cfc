//! Recordings and broadcasts: both are egress, a job of the media plane that is tracked by its id (contract "Recording",
//! "Broadcast", "Recording and broadcast status").

use crate::filepath::FilePath;
use crate::schema::word_enum;
use crate::{
    DestinationId, DestinationName, EgressId, EgressRowId, ErrorCode, Identity, NamespacedRoom, Problem, ProjectId,
    RoomName, Timestamp, TrackSid,
};

word_enum! {
    /// The status of a recording or a broadcast. It only moves forward, and never leaves one of the last four.
    EgressStatus {
        /// Accepted; nothing is written or sent yet.
        Starting = "starting",
        /// Runs.
        Active = "active",
        /// Was told to stop, and finishes what it has.
        Ending = "ending",
        /// Final: finished well.
        Complete = "complete",
        /// Final: came to nothing; the record says why.
        Failed = "failed",
        /// Final: stopped before it had begun.
        Aborted = "aborted",
        /// Final: stopped at a limit of the media plane's.
        LimitReached = "limit_reached",
    }
}

impl EgressStatus {
    /// Whether nothing comes after it.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Starting | Self::Active | Self::Ending => false,
            Self::Complete | Self::Failed | Self::Aborted | Self::LimitReached => true,
        }
    }

    /// The statuses that a job may come from to this one: all that lie before it. One that it has already is a repeated
    /// report and no move.
    #[must_use]
    pub const fn predecessors(self) -> &'static [Self] {
        match self {
            Self::Starting => &[],
            Self::Active => &[Self::Starting],
            Self::Ending => &[Self::Starting, Self::Active],
            Self::Complete | Self::Failed | Self::Aborted | Self::LimitReached => {
                &[Self::Starting, Self::Active, Self::Ending]
            }
        }
    }

    /// Whether a job may move from this status to `next`.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        next.predecessors().contains(&self)
    }
}

word_enum! {
    /// What a job is for its project: one egress is one of the two, never both.
    EgressKind {
        /// Into a file.
        Recording = "recording",
        /// To RTMP receivers.
        Broadcast = "broadcast",
    }
}

impl EgressKind {
    /// 404: the project has no job of this kind by that id.
    #[must_use]
    pub fn not_found(self) -> Problem {
        match self {
            Self::Recording => Problem::new(ErrorCode::RecordingNotFound, "no recording by that egress id"),
            Self::Broadcast => Problem::new(ErrorCode::BroadcastNotFound, "no broadcast by that egress id"),
        }
    }

    /// 409: the media plane named an egress that has a record.
    #[must_use]
    pub fn already_exists(self) -> Problem {
        match self {
            Self::Recording => Problem::new(ErrorCode::RecordingExists, "that egress is already being recorded"),
            Self::Broadcast => Problem::new(ErrorCode::BroadcastExists, "that egress is already being broadcast"),
        }
    }
}

word_enum! {
    /// How people are arranged in a picture of the whole room.
    Layout {
        /// Whoever speaks, large.
        Speaker = "speaker",
        /// Everybody, the same size.
        Grid = "grid",
    }
}

/// What a picture of the whole room carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompositeMedia {
    /// Sound and picture.
    Both,
    /// Sound alone.
    AudioOnly,
    /// Picture alone.
    VideoOnly,
}

/// What a job takes from its room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressSource {
    /// The room as a whole.
    RoomComposite {
        /// Arranged so.
        layout: Layout,
        /// Carrying this.
        media: CompositeMedia,
    },
    /// One track.
    Track(TrackSid),
    /// Everything that one participant publishes.
    Participant(Identity),
}

word_enum! {
    /// What a recording records.
    RecordingType {
        /// The room as a whole.
        RoomComposite = "room_composite",
        /// One track.
        Track = "track",
        /// One participant.
        Participant = "participant",
    }
}

impl From<&EgressSource> for RecordingType {
    fn from(source: &EgressSource) -> Self {
        match source {
            EgressSource::RoomComposite { .. } => Self::RoomComposite,
            EgressSource::Track(_) => Self::Track,
            EgressSource::Participant(_) => Self::Participant,
        }
    }
}

/// What the media plane says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressState {
    /// Which.
    pub egress_id: EgressId,
    /// How far it has come.
    pub status: EgressStatus,
    /// Why it failed, or what it met on the way.
    pub error: Option<String>,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// A template's destination that a job was started with, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedDestination {
    /// Its id, which outlives a change of its configuration.
    pub id: DestinationId,
    /// Its name.
    pub name: DestinationName,
}

/// The part of a job's record that depends on its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressDetail {
    /// A recording.
    Recording {
        /// What it records.
        recording_type: RecordingType,
        /// Where the file lies, inside the project's recording directory or its destination.
        filepath: FilePath,
    },
    /// A broadcast.
    Broadcast {
        /// Where it goes, with the stream keys redacted.
        urls: Vec<String>,
    },
}

impl EgressDetail {
    /// Which kind it belongs to.
    #[must_use]
    pub const fn kind(&self) -> EgressKind {
        match self {
            Self::Recording { .. } => EgressKind::Recording,
            Self::Broadcast { .. } => EgressKind::Broadcast,
        }
    }
}

/// The record of a recording or a broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The row.
    pub id: EgressRowId,
    /// Whose it is.
    pub project_id: ProjectId,
    /// Its room.
    pub room: RoomName,
    /// The handle for every later call.
    pub egress_id: EgressId,
    /// What it is.
    pub detail: EgressDetail,
    /// The destination it was started with, if one was named.
    pub destination: Option<UsedDestination>,
    /// How far it has come.
    pub status: EgressStatus,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it became final.
    pub ended_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<String>,
    /// When the row was made.
    pub created_at: Timestamp,
}

impl Egress {
    /// The media plane's name for its room.
    #[must_use]
    pub fn namespaced_room(&self) -> NamespacedRoom {
        NamespacedRoom::new(&self.project_id, &self.room)
    }

    /// Recording or broadcast.
    #[must_use]
    pub const fn kind(&self) -> EgressKind {
        self.detail.kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_parses_from_its_word_and_its_word_is_in_the_list_of_words() {
        let words: Vec<_> = EgressStatus::WORDS.split(", ").collect();
        assert_eq!(words, EgressStatus::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>());
        assert!(EgressStatus::ALL.iter().all(|status| status.as_str().parse() == Ok(*status)));
    }

    #[test]
    fn a_job_moves_forward_or_not_at_all() {
        let rank = |status: EgressStatus| if status.is_final() { 3 } else { status as u8 };
        for from in EgressStatus::ALL.iter().copied() {
            for to in EgressStatus::ALL.iter().copied() {
                assert_eq!(from.may_become(to), rank(from) < rank(to), "{from:?} to {to:?}");
            }
        }
    }
}
