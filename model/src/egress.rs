//! Recordings and broadcasts: both are egress, which the media plane runs and the server tracks by its id. A status
//! moves forward only.

use crate::filepath::FilePath;
use crate::rtmp::RtmpUrl;
use crate::schema::word_enum;
use crate::{
    DestinationId, DestinationName, EgressId, EgressRowId, ErrorCode, Identity, NamespacedRoom,
    Problem, ProjectId, RoomId, RoomName, Timestamp, TrackSid,
};

word_enum! {
    /// The status of a recording or a broadcast. It only moves forward, and never leaves one of the last four.
    EgressStatus {
        /// Accepted; nothing is written or sent yet.
        Starting = "starting",
        /// Media is written or sent.
        Active = "active",
        /// A stop was requested; the remaining media is finished.
        Ending = "ending",
        /// Final: finished without an error.
        Complete = "complete",
        /// Final: failed; the record has the error.
        Failed = "failed",
        /// Final: stopped before it became active.
        Aborted = "aborted",
        /// Final: stopped by a limit of the media plane.
        LimitReached = "limit_reached",
    }
}

impl EgressStatus {
    /// Returns whether no other status can follow.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Starting | Self::Active | Self::Ending => false,
            Self::Complete | Self::Failed | Self::Aborted | Self::LimitReached => true,
        }
    }

    /// Returns the statuses from which an egress may move to this one. Reporting the current status
    /// again is not a move.
    pub const fn predecessors(self) -> &'static [Self] {
        match self {
            // No move leads back to the start.
            Self::Starting => &[],
            // Never from `ending`: a late report must not revive an egress that is being stopped.
            Self::Active => &[Self::Starting],
            // A recording may be stopped before its first packet.
            Self::Ending => &[Self::Starting, Self::Active],
            Self::Complete | Self::Failed | Self::Aborted | Self::LimitReached => {
                // Reports can be lost, so an egress may become final without the statuses in between.
                &[Self::Starting, Self::Active, Self::Ending]
            }
        }
    }

    /// Returns whether an egress may move from this status to `next`.
    pub fn may_become(self, next: Self) -> bool {
        // The database's updates name the same predecessors, so both decide alike.
        next.predecessors().contains(&self)
    }
}

word_enum! {
    /// Whether an egress is a recording or a broadcast; it is never both.
    EgressKind {
        /// Written to a file.
        Recording = "recording",
        /// Sent to RTMP servers.
        Broadcast = "broadcast",
    }
}

impl EgressKind {
    /// 404: the project has no egress of this kind with that id.
    pub fn not_found(self) -> Problem {
        match self {
            Self::Recording => Problem::new(
                ErrorCode::RecordingNotFound,
                "no recording by that egress id",
            ),
            Self::Broadcast => Problem::new(
                ErrorCode::BroadcastNotFound,
                "no broadcast by that egress id",
            ),
        }
    }

    /// 409: a recording that has ended, or is ending, cannot be paused or resumed.
    pub fn recording_ended() -> Problem {
        Problem::new(
            ErrorCode::RecordingEnded,
            "the recording has ended; only a running one can be paused or resumed",
        )
    }

    /// 409: the media plane returned the id of an egress that has a record.
    pub fn already_exists(self) -> Problem {
        match self {
            Self::Recording => Problem::new(
                ErrorCode::RecordingExists,
                "that egress is already being recorded",
            ),
            Self::Broadcast => Problem::new(
                ErrorCode::BroadcastExists,
                "that egress is already being broadcast",
            ),
        }
    }
}

word_enum! {
    // The contract has these two.
    /// The arrangement of the participants in a composite video of the room.
    Layout {
        /// The active speaker large, the other participants small.
        Speaker = "speaker",
        /// All participants in the same size.
        Grid = "grid",
    }
}

/// Media in a room composite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompositeMedia {
    /// Audio and video.
    Both,
    /// Audio without video.
    AudioOnly,
    /// Video without audio.
    VideoOnly,
}

/// Media that an egress records or sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressSource {
    /// All participants in one composite.
    RoomComposite {
        /// Arrangement of the participants.
        layout: Layout,
        /// Whether audio, video or both are included.
        media: CompositeMedia,
    },
    /// A single track.
    Track(TrackSid),
    /// All tracks of one participant.
    Participant(Identity),
}

word_enum! {
    /// The part of a room that a recording contains.
    RecordingType {
        /// All participants in one composite.
        RoomComposite = "room_composite",
        /// A single track, as it was published.
        Track = "track",
        /// All tracks of one participant.
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

/// Egress as the media plane reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressState {
    /// Id on the media plane.
    pub egress_id: EgressId,
    /// Current status.
    pub status: EgressStatus,
    /// Failure reason, or a warning.
    pub error: Option<String>,
    /// Time at which the media plane accepted it.
    pub started_at: Timestamp,
    /// End time; absent while it runs.
    pub ended_at: Option<Timestamp>,
}

/// Template destination with which an egress was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedDestination {
    /// Id, which does not change with the configuration.
    pub id: DestinationId,
    /// Name in the template.
    pub name: DestinationName,
}

/// Recording or broadcast to start: the media plane's input and the record's content. It has no
/// storage credentials.
#[derive(Debug, Clone)]
pub struct EgressPlan {
    /// Room id.
    pub room_id: RoomId,
    /// Room name on the media plane, which opens the room if it is not live.
    pub room: NamespacedRoom,
    /// Effective maximum number of participants, used if the media plane opens the room; `None`
    /// means no limit.
    pub max_participants: Option<u32>,
    /// Media that it contains.
    pub source: EgressSource,
    /// File or receivers.
    pub output: EgressOutput,
    /// Destination named in the request, if any.
    pub destination: Option<UsedDestination>,
    /// Whether it is refused if the room's automatic composite was started, or the participant is being recorded: it starts by itself
    /// ([`AutoRecord`](crate::template::AutoRecord)), or for each participant by one request.
    pub is_automatic: bool,
}

/// Egress output.
#[derive(Debug, Clone)]
pub enum EgressOutput {
    /// File at a path in the destination.
    File {
        /// Path within the project's directory, or after the destination's prefix.
        filepath: FilePath,
        /// Paths of earlier recordings at the destination, which are not reused.
        taken: Vec<FilePath>,
    },
    /// RTMP receivers, 1 to 8, with their stream keys.
    Streams(Vec<RtmpUrl>),
}

/// Egress accepted by the media plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedEgress {
    /// Id and state.
    pub state: EgressState,
    /// File path, if it differs from the requested one.
    pub filepath: Option<FilePath>,
    /// Whether the file stays in the project's local directory, so that the server must upload it.
    pub is_uploaded_by_server: bool,
}

impl From<EgressState> for StartedEgress {
    fn from(state: EgressState) -> Self {
        Self {
            state,
            filepath: None,
            is_uploaded_by_server: false,
        }
    }
}

/// Fields that depend on the egress's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressDetail {
    /// Egress to a file.
    Recording {
        /// Recorded part.
        recording_type: RecordingType,
        /// File path in the project's recording directory or in its destination.
        filepath: FilePath,
    },
    /// Egress to RTMP servers.
    Broadcast {
        /// RTMP URLs with redacted stream keys.
        urls: Vec<String>,
    },
}

impl EgressDetail {
    fn new(plan: &EgressPlan, chosen: Option<&FilePath>) -> Self {
        match &plan.output {
            EgressOutput::File { filepath, .. } => Self::Recording {
                recording_type: (&plan.source).into(),
                // The media plane chooses another name if the requested one is taken.
                filepath: chosen.unwrap_or(filepath).clone(),
            },
            // A record must not contain stream keys.
            EgressOutput::Streams(urls) => Self::Broadcast {
                urls: urls.iter().map(|url| url.redacted().to_owned()).collect(),
            },
        }
    }

    /// Returns the kind.
    pub const fn kind(&self) -> EgressKind {
        match self {
            Self::Recording { .. } => EgressKind::Recording,
            Self::Broadcast { .. } => EgressKind::Broadcast,
        }
    }
}

/// Egress record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// Record id.
    pub id: EgressRowId,
    /// Owning project.
    pub project_id: ProjectId,
    /// Room that it records or sends.
    pub room: RoomName,
    /// Id on the media plane, which clients use.
    pub egress_id: EgressId,
    /// Fields for this kind.
    pub detail: EgressDetail,
    /// Destination named in the request, if any.
    pub destination: Option<UsedDestination>,
    /// Current status.
    pub status: EgressStatus,
    /// Time at which the media plane accepted it.
    pub started_at: Timestamp,
    /// Time at which it became final; absent before.
    pub ended_at: Option<Timestamp>,
    /// Failure reason.
    pub error: Option<String>,
    /// Record creation time.
    pub created_at: Timestamp,
    /// Participant of a `participant` recording; absent for all others.
    pub identity: Option<Identity>,
    /// Whether it is paused; absent if it has never been paused.
    pub paused: Option<bool>,
}

impl Egress {
    /// Creates the record for an egress that has just started.
    pub fn new(plan: &EgressPlan, started: &StartedEgress, now: Timestamp) -> Self {
        // The media plane knows only the combined name.
        let (project_id, room) = plan.room.split();
        Self {
            id: EgressRowId::new(),
            project_id,
            room,
            // Taken from the media plane's answer, as it chooses the id.
            egress_id: started.state.egress_id.clone(),
            detail: EgressDetail::new(plan, started.filepath.as_ref()),
            destination: plan.destination.clone(),
            // Reports that arrive later move it forward, so the start of each record looks the same.
            status: EgressStatus::Starting,
            started_at: started.state.started_at,
            ended_at: None,
            error: None,
            created_at: now,
            identity: match &plan.source {
                EgressSource::Participant(identity) => Some(identity.clone()),
                EgressSource::RoomComposite { .. } | EgressSource::Track(_) => None,
            },
            paused: None,
        }
    }

    /// Returns whether media is written or sent, as far as the record shows.
    pub const fn is_running(&self) -> bool {
        matches!(self.status, EgressStatus::Starting | EgressStatus::Active)
    }

    /// Returns the room's name on the media plane.
    pub fn namespaced_room(&self) -> NamespacedRoom {
        NamespacedRoom::new(&self.project_id, &self.room)
    }

    /// Returns whether it is a recording or a broadcast.
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
        assert_eq!(
            words,
            EgressStatus::ALL
                .iter()
                .map(|status| status.as_str())
                .collect::<Vec<_>>()
        );
        assert!(
            EgressStatus::ALL
                .iter()
                .all(|status| status.as_str().parse() == Ok(*status))
        );
    }

    #[test]
    fn an_egress_moves_forward_or_not_at_all() {
        let rank = |status: EgressStatus| if status.is_final() { 3 } else { status as u8 };
        for from in EgressStatus::ALL.iter().copied() {
            for to in EgressStatus::ALL.iter().copied() {
                assert_eq!(
                    from.may_become(to),
                    rank(from) < rank(to),
                    "{from:?} to {to:?}"
                );
            }
        }
    }
}
