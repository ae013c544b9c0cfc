//! Recordings and broadcasts on the embedded plane. Nothing is encoded: a job is its status and the clock, so that whoever
//! integrates sees every story that a job can tell (surface, "Sandbox").

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::{EgressId, NamespacedRoom, Timestamp};

/// How long a job takes to begin, and to finish once it was told to stop.
const PACE: Duration = Duration::from_secs(1);
/// Jobs that have ended and can still be asked about; the first to have ended give way.
const REMEMBERED: usize = 1_000;

/// One job.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// In which room.
    pub room: NamespacedRoom,
    /// How it stands.
    pub state: EgressState,
    /// What becomes of it by itself, and when.
    due: Option<(Timestamp, EgressStatus)>,
}

impl Job {
    /// A job that was just accepted.
    pub fn accepted(egress_id: EgressId, room: NamespacedRoom, now: Timestamp) -> Self {
        let state =
            EgressState { egress_id, status: EgressStatus::Starting, error: None, started_at: now, ended_at: None };
        Self { room, state, due: Some((now.after(PACE), EgressStatus::Active)) }
    }

    /// When something becomes of it by itself.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.due.map(|(at, _)| at)
    }

    /// What becomes of it by itself, once that is due.
    pub fn fate(&self, now: Timestamp) -> Option<EgressStatus> {
        self.due.filter(|(at, _)| *at <= now).map(|(_, status)| status)
    }

    /// Moves forward; says whether that was a move.
    pub fn advance(&mut self, status: EgressStatus, error: Option<String>, now: Timestamp) -> bool {
        if !self.state.status.may_become(status) {
            return false;
        }
        self.state.status = status;
        self.state.error = error;
        self.state.ended_at = status.is_final().then_some(now);
        self.due = (status == EgressStatus::Ending).then(|| (now.after(PACE), EgressStatus::Complete));
        true
    }

    /// What the end of its room makes of it: there is a file once it had begun.
    pub fn without_room(&self) -> EgressStatus {
        if self.state.status == EgressStatus::Starting { EgressStatus::Aborted } else { EgressStatus::Complete }
    }
}

/// Every job, and for a while those that have ended.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    jobs: HashMap<EgressId, Job>,
    ended: VecDeque<EgressId>,
}

impl Jobs {
    /// Files a job.
    pub fn insert(&mut self, job: Job) {
        self.jobs.insert(job.state.egress_id.clone(), job);
    }

    /// Whether an id is taken.
    pub fn contains(&self, id: &EgressId) -> bool {
        self.jobs.contains_key(id)
    }

    /// Finds a job.
    pub fn get(&self, id: &EgressId) -> Option<&Job> {
        self.jobs.get(id)
    }

    /// Finds a job, to change it.
    pub fn get_mut(&mut self, id: &EgressId) -> Option<&mut Job> {
        self.jobs.get_mut(id)
    }

    /// Those that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(|job| !job.state.status.is_final())
    }

    /// Notes that a job has ended, and forgets the one that ended longest ago when there are too many.
    pub fn has_ended(&mut self, id: &EgressId) {
        if self.ended.len() == REMEMBERED
            && let Some(first) = self.ended.pop_front()
        {
            self.jobs.remove(&first);
        }
        self.ended.push_back(id.clone());
    }
}
