//! An egress's state, and the egresses that ended recently.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::{EgressId, NamespacedRoom, Timestamp};

use super::inputs::EgressInputs;

/// Time that a simulated egress takes to become active, and to complete after it is stopped.
const TRANSITION_TIME: Duration = Duration::from_secs(1);
/// Maximum number of ended egresses that are kept. The oldest is dropped first.
const ENDED_CAPACITY: usize = 1_000;

/// A recording or broadcast.
#[derive(Debug, Clone)]
pub(in crate::embedded) struct Egress {
    room: NamespacedRoom,
    state: EgressState,
    /// Inputs; `None` for a simulated egress.
    job: Option<EgressInputs>,
    /// Next timed transition, and the monotonic reading at which it is due. Only for simulated egresses.
    next: Option<(Duration, EgressStatus)>,
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

    /// Creates an egress that runs with ffmpeg.
    pub fn with_job(
        egress_id: EgressId,
        room: NamespacedRoom,
        job: EgressInputs,
        now: Timestamp,
    ) -> Self {
        // Its thread's events change its status, so no timer does; the reading does not matter.
        Self {
            job: Some(job),
            next: None,
            ..Self::new(egress_id, room, now, Duration::ZERO)
        }
    }

    pub const fn room(&self) -> &NamespacedRoom {
        &self.room
    }

    /// Returns its state as reports and lists show it.
    pub const fn state(&self) -> &EgressState {
        &self.state
    }

    /// Returns whether it runs with ffmpeg.
    pub const fn has_job(&self) -> bool {
        self.job.is_some()
    }

    /// Returns its inputs; `None` if it is simulated.
    pub const fn inputs(&mut self) -> Option<&mut EgressInputs> {
        self.job.as_mut()
    }

    /// Returns the reading at which the next timed transition is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.next.map(|(at, _)| at)
    }

    /// Returns the status after the next timed transition, if that is due.
    pub fn due_transition(&self, reading: Duration) -> Option<EgressStatus> {
        self.next
            // A timer may have been replaced by a later one since it was set.
            .filter(|(at, _)| *at <= reading)
            .map(|(_, status)| status)
    }

    /// Changes the status. Returns false if the transition is not allowed.
    pub fn advance(
        &mut self,
        status: EgressStatus,
        error: Option<String>,
        now: Timestamp,
        reading: Duration,
    ) -> bool {
        // A final status stays, whatever arrives afterwards.
        if !self.state.status.may_become(status) {
            return false;
        }
        self.state.status = status;
        self.state.error = error;
        // Ending is not the end: the file is still being completed.
        self.state.ended_at = status.is_final().then_some(now);
        let completes_by_time = status == EgressStatus::Ending && self.job.is_none();
        self.next = completes_by_time.then(|| (reading + TRANSITION_TIME, EgressStatus::Complete));
        true
    }

    /// Returns the final status if the room closes now: complete if it had started recording.
    pub fn status_without_room(&self) -> EgressStatus {
        if self.state.status == EgressStatus::Starting {
            // It has recorded nothing.
            EgressStatus::Aborted
        } else {
            EgressStatus::Complete
        }
    }
}

/// Egresses that ended recently.
#[derive(Debug, Default)]
pub(in crate::embedded) struct EndedEgresses {
    egresses: HashMap<EgressId, Egress>,
    /// Ids in the order in which the egresses ended.
    order: VecDeque<EgressId>,
}

impl EndedEgresses {
    pub fn get(&self, id: &EgressId) -> Option<&Egress> {
        self.egresses.get(id)
    }

    /// Adds an ended egress. If there are too many, drops the oldest and returns its id.
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

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(0);

    fn egress() -> Egress {
        let room = "prj_0123456789ab.room".parse().unwrap();
        Egress::new("EG_1".parse().unwrap(), room, START, Duration::ZERO)
    }

    #[test]
    fn a_simulated_egress_becomes_active_by_time_and_completes_by_time_once_it_is_stopped() {
        let mut egress = egress();
        assert_eq!(egress.due_transition(Duration::from_millis(999)), None);
        let second = Duration::from_secs(1);
        assert_eq!(egress.due_transition(second), Some(EgressStatus::Active));
        assert!(egress.advance(EgressStatus::Active, None, START, second));
        assert_eq!(egress.deadline(), None);
        assert!(egress.advance(EgressStatus::Ending, None, START, second));
        assert_eq!(
            egress.due_transition(2 * second),
            Some(EgressStatus::Complete)
        );
        assert!(egress.advance(EgressStatus::Complete, None, START, 2 * second));
        assert!(
            !egress.advance(EgressStatus::Active, None, START, 2 * second),
            "an ended egress stays ended"
        );
        assert_eq!(egress.state().ended_at, Some(START));
    }

    #[test]
    fn an_egress_that_has_not_started_is_aborted_with_its_room() {
        let mut egress = egress();
        assert_eq!(egress.status_without_room(), EgressStatus::Aborted);
        egress.advance(EgressStatus::Active, None, START, Duration::ZERO);
        assert_eq!(egress.status_without_room(), EgressStatus::Complete);
    }
}
