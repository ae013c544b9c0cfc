//! Recordings and broadcasts on the embedded plane. One of a room that only the sandbox has filled is simulated: a status that
//! time and the sandbox change, so that an integration can test each course that an egress can take.

mod end;
pub(super) mod jobs;
mod metrics;
mod start;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use conclave_egress::Attendee;
use conclave_model::egress::{EgressSource, EgressState, EgressStatus};
use conclave_model::{EgressId, NamespacedRoom, ParticipantSid, Timestamp, TrackSid};

/// How long an egress takes to become active, and to complete after a stop request.
const TRANSITION_TIME: Duration = Duration::from_secs(1);
/// Number of ended egresses that are kept; the one that ended first is dropped first.
const ENDED_CAPACITY: usize = 1_000;

/// A recording or broadcast.
#[derive(Debug, Clone)]
pub(super) struct Egress {
    pub room: NamespacedRoom,
    pub state: EgressState,
    /// What it contains; `None` if it is simulated.
    pub job: Option<Attendance>,
    /// The next transition by time, and at which monotonic reading it is due. Only a simulated one has any.
    next: Option<(Duration, EgressStatus)>,
}

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
    /// The tracks that it does not get because they are encrypted, as the log has them.
    pub encrypted: BTreeSet<TrackSid>,
}

impl Attendance {
    /// Starts without participants.
    pub const fn new(source: EgressSource) -> Self {
        Self {
            source,
            was_told: false,
            is_room_empty: false,
            attendees: Vec::new(),
            attached: BTreeMap::new(),
            encrypted: BTreeSet::new(),
        }
    }
}

impl Egress {
    /// Creates a simulated egress that is starting.
    pub fn new(
        egress_id: EgressId,
        room: NamespacedRoom,
        now: Timestamp,
        reading: Duration,
    ) -> Self {
        let state = EgressState {
            egress_id,
            status: EgressStatus::Starting,
            error: None,
            started_at: now,
            ended_at: None,
        };
        Self {
            room,
            state,
            job: None,
            next: Some((reading + TRANSITION_TIME, EgressStatus::Active)),
        }
    }

    /// Creates an egress that ffmpeg carries out.
    pub fn with_job(
        egress_id: EgressId,
        room: NamespacedRoom,
        job: Attendance,
        now: Timestamp,
    ) -> Self {
        Self {
            job: Some(job),
            next: None,
            ..Self::new(egress_id, room, now, Duration::ZERO)
        }
    }

    /// Returns the reading at which the next transition by time is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.next.map(|(at, _)| at)
    }

    /// Returns the status after the next transition, if that is due.
    pub fn due_transition(&self, reading: Duration) -> Option<EgressStatus> {
        self.next
            .filter(|(at, _)| *at <= reading)
            .map(|(_, status)| status)
    }

    /// Changes the status; returns whether the change is allowed.
    pub fn advance(
        &mut self,
        status: EgressStatus,
        error: Option<String>,
        now: Timestamp,
        reading: Duration,
    ) -> bool {
        if !self.state.status.may_become(status) {
            return false;
        }
        self.state.status = status;
        self.state.error = error;
        self.state.ended_at = status.is_final().then_some(now);
        let completes_by_time = status == EgressStatus::Ending && self.job.is_none();
        self.next = completes_by_time.then(|| (reading + TRANSITION_TIME, EgressStatus::Complete));
        true
    }

    /// Returns the final status if the room is closed now: an egress that had started is complete.
    pub fn status_without_room(&self) -> EgressStatus {
        if self.state.status == EgressStatus::Starting {
            EgressStatus::Aborted
        } else {
            EgressStatus::Complete
        }
    }
}

/// The egresses that ended last.
#[derive(Debug, Default)]
pub(super) struct EndedEgresses {
    egresses: HashMap<EgressId, Egress>,
    /// Their ids, in the order in which they ended.
    order: VecDeque<EgressId>,
}

impl EndedEgresses {
    pub fn get(&self, id: &EgressId) -> Option<&Egress> {
        self.egresses.get(id)
    }

    /// Adds an egress that has ended, and drops the one that ended first at capacity. Returns the id of that.
    pub fn push(&mut self, egress: Egress) -> Option<EgressId> {
        let id = egress.state.egress_id.clone();
        self.order.push_back(id.clone());
        self.egresses.insert(id, egress);
        let oldest = if self.order.len() > ENDED_CAPACITY {
            self.order.pop_front()
        } else {
            None
        };
        oldest.inspect(|id| drop(self.egresses.remove(id)))
    }
}
