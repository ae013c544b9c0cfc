//! Recordings and broadcasts: both are egress, a job of the media plane that is tracked by its id (contract "Recording",
//! "Broadcast", "Recording and broadcast status").

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::filepath::FilePath;
use crate::{
    DestinationId, DestinationName, EgressId, EgressRowId, ErrorCode, Identity, NamespacedRoom, Problem, ProjectId,
    RoomName, Timestamp, TrackSid,
};

/// How far a job has come. It only ever moves forward, and never leaves one of the last four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EgressStatus {
    /// Accepted; nothing is written or sent yet.
    Starting,
    /// Runs.
    Active,
    /// Was told to stop, and finishes what it has.
    Ending,
    /// Final: finished well.
    Complete,
    /// Final: came to nothing; the record says why.
    Failed,
    /// Final: stopped before it had begun.
    Aborted,
    /// Final: stopped at a limit of the media plane's.
    LimitReached,
}

impl EgressStatus {
    /// Every status, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Starting, Self::Active, Self::Ending, Self::Complete, Self::Failed, Self::Aborted, Self::LimitReached];
    /// Their names, for messages.
    pub const WORDS: &'static str = "starting, active, ending, complete, failed, aborted, limit_reached";

    /// The status as it is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Active => "active",
            Self::Ending => "ending",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::LimitReached => "limit_reached",
        }
    }

    /// Reads the name back.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

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

/// What a job is for its project: one egress is one of the two, never both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EgressKind {
    /// Into a file.
    Recording,
    /// To RTMP receivers.
    Broadcast,
}

impl EgressKind {
    /// The kind as it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Broadcast => "broadcast",
        }
    }

    /// Reads the name back.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Recording, Self::Broadcast].into_iter().find(|kind| kind.as_str() == word)
    }

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

/// How people are arranged in a picture of the whole room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Whoever speaks, large.
    Speaker,
    /// Everybody, the same size.
    Grid,
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

/// What a recording records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingType {
    /// The room as a whole.
    RoomComposite,
    /// One track.
    Track,
    /// One participant.
    Participant,
}

impl RecordingType {
    /// The type as it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RoomComposite => "room_composite",
            Self::Track => "track",
            Self::Participant => "participant",
        }
    }

    /// Reads the name back.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::RoomComposite, Self::Track, Self::Participant].into_iter().find(|kind| kind.as_str() == word)
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
    fn a_status_reads_back_and_its_word_is_in_the_list_of_words() {
        let words: Vec<_> = EgressStatus::WORDS.split(", ").collect();
        assert_eq!(words, EgressStatus::ALL.map(EgressStatus::as_str));
        assert!(EgressStatus::ALL.into_iter().all(|status| EgressStatus::of(status.as_str()) == Some(status)));
    }

    #[test]
    fn a_job_moves_forward_or_not_at_all() {
        let rank = |status: EgressStatus| if status.is_final() { 3 } else { status as u8 };
        for from in EgressStatus::ALL {
            for to in EgressStatus::ALL {
                assert_eq!(from.may_become(to), rank(from) < rank(to), "{from:?} to {to:?}");
            }
        }
    }
}
