//! Recordings and broadcasts on the embedded plane. One of a room that only the sandbox has filled is simulated: a status that
//! time and the sandbox change, so that an integration can test each course that an egress can take.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::{EgressId, NamespacedRoom, Timestamp};

use super::attendance::Attendance;

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

impl Egress {
    /// Creates a simulated egress that is starting.
    pub fn new(egress_id: EgressId, room: NamespacedRoom, now: Timestamp, reading: Duration) -> Self {
        let state =
            EgressState { egress_id, status: EgressStatus::Starting, error: None, started_at: now, ended_at: None };
        Self { room, state, job: None, next: Some((reading + TRANSITION_TIME, EgressStatus::Active)) }
    }

    /// Creates an egress that ffmpeg carries out.
    pub fn with_job(egress_id: EgressId, room: NamespacedRoom, job: Attendance, now: Timestamp) -> Self {
        Self { job: Some(job), next: None, ..Self::new(egress_id, room, now, Duration::ZERO) }
    }

    /// Returns the reading at which the next transition by time is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.next.map(|(at, _)| at)
    }

    /// Returns the status after the next transition, if that is due.
    pub fn due_transition(&self, reading: Duration) -> Option<EgressStatus> {
        self.next.filter(|(at, _)| *at <= reading).map(|(_, status)| status)
    }

    /// Changes the status; returns whether the change is allowed.
    pub fn advance(&mut self, status: EgressStatus, error: Option<String>, now: Timestamp, reading: Duration) -> bool {
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
        if self.state.status == EgressStatus::Starting { EgressStatus::Aborted } else { EgressStatus::Complete }
    }
}

/// The rooms of egresses, and the egresses that ended last.
#[derive(Debug, Default)]
pub(super) struct EgressIndex {
    running: HashMap<EgressId, NamespacedRoom>,
    ended: HashMap<EgressId, Egress>,
    /// The ids of ended egresses, in the order in which they ended.
    order: VecDeque<EgressId>,
}

impl EgressIndex {
    /// Records the room of an egress that has started.
    pub fn insert(&mut self, id: EgressId, room: NamespacedRoom) {
        self.running.insert(id, room);
    }

    /// Returns the room of an egress.
    pub fn room(&self, id: &EgressId) -> Option<&NamespacedRoom> {
        self.running.get(id).or_else(|| self.ended.get(id).map(|egress| &egress.room))
    }

    /// Returns an egress that has ended.
    pub fn ended(&self, id: &EgressId) -> Option<&Egress> {
        self.ended.get(id)
    }

    /// Records an egress that has ended, and drops the one that ended first at capacity.
    pub fn end(&mut self, egress: Egress) {
        if self.order.len() == ENDED_CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        let id = egress.state.egress_id.clone();
        self.running.remove(&id);
        self.order.push_back(id.clone());
        self.ended.insert(id, egress);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_egress_is_found_by_its_id_also_when_it_has_ended() {
        let (one, other): (EgressId, EgressId) = ("EG_1".parse().unwrap(), "EG_2".parse().unwrap());
        let mut index = EgressIndex::default();
        let room: NamespacedRoom = "prj_0123456789ab.standup".parse().unwrap();
        index.insert(one.clone(), room.clone());
        assert_eq!((index.room(&one), index.room(&other)), (Some(&room), None));
        assert!(index.ended(&one).is_none());
        index.end(Egress::new(one.clone(), room.clone(), Timestamp::from_millis(0), Duration::ZERO));
        assert_eq!(index.room(&one), Some(&room));
        assert!(index.ended(&one).is_some());
    }
}
