//! What becomes of recordings and broadcasts: by the server, by the sandbox, by time, by the end of their room.

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::{EgressId, NamespacedRoom, ProjectId, Timestamp};

use super::{Due, Machine, fresh};
use crate::embedded::job::Job;
use crate::port::MediaEvent;

impl Machine {
    /// Accepts a job.
    pub fn start_egress(&mut self, room: NamespacedRoom, now: Timestamp) -> EgressState {
        let id: EgressId = fresh("EG_", |id| self.jobs.contains(id));
        let job = Job::accepted(id, room, now);
        let state = job.state.clone();
        self.arm(&job);
        self.jobs.insert(job);
        state
    }

    /// How a job stands.
    pub fn egress(&self, room: &NamespacedRoom, id: &EgressId) -> Option<EgressState> {
        self.jobs.get(id).filter(|job| job.room == *room).map(|job| job.state.clone())
    }

    /// The server tells a job to finish.
    pub fn stop_egress(&mut self, room: &NamespacedRoom, id: &EgressId, now: Timestamp) -> Option<EgressState> {
        self.egress(room, id)?;
        self.move_job(id, EgressStatus::Ending, None, now);
        self.egress(room, id)
    }

    /// The sandbox says how a job stands. It is reported whatever it is, also what a sound plane would not say, so that
    /// an integration sees that a record does not go backwards.
    pub fn drive_egress(
        &mut self,
        id: &EgressId,
        status: EgressStatus,
        error: Option<String>,
        now: Timestamp,
    ) -> Option<EgressState> {
        let job = self.jobs.get(id)?;
        let (room, said) = (job.room.clone(), EgressState { status, error: error.clone(), ..job.state.clone() });
        if !self.move_job(id, status, error, now) {
            self.report(&room, now, MediaEvent::Egress(said));
        }
        self.egress(&room, id)
    }

    /// Jobs of a project that have not ended, with their rooms.
    pub fn running_egresses(&self, project: &ProjectId) -> Vec<(NamespacedRoom, EgressState)> {
        let own = self.jobs.running().filter(|job| job.room.split().0 == *project);
        own.map(|job| (job.room.clone(), job.state.clone())).collect()
    }

    /// A room was closed: its jobs have nothing left to take.
    pub(super) fn end_jobs_of(&mut self, room: &NamespacedRoom, now: Timestamp) {
        let running = self.jobs.running().filter(|job| job.room == *room);
        let fates: Vec<_> = running.map(|job| (job.state.egress_id.clone(), job.without_room())).collect();
        for (id, status) in fates {
            self.move_job(&id, status, None, now);
        }
    }

    /// A job's deadline has come.
    pub(super) fn job_due(&mut self, id: &EgressId, now: Timestamp) {
        if let Some(status) = self.jobs.get(id).and_then(|job| job.fate(now)) {
            self.move_job(id, status, None, now);
        }
    }

    /// Moves a job forward and reports it; says whether that was a move.
    fn move_job(&mut self, id: &EgressId, status: EgressStatus, error: Option<String>, now: Timestamp) -> bool {
        let Some(job) = self.jobs.get_mut(id) else { return false };
        let before = job.deadline();
        if !job.advance(status, error, now) {
            return false;
        }
        let job = job.clone();
        before.map(|at| self.deadlines.remove(&(at, Due::Job(id.clone()))));
        self.arm(&job);
        if status.is_final() {
            self.jobs.has_ended(id);
        }
        self.report(&job.room, now, MediaEvent::Egress(job.state));
        true
    }

    fn arm(&mut self, job: &Job) {
        if let Some(at) = job.deadline() {
            self.deadlines.insert((at, Due::Job(job.state.egress_id.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn room() -> NamespacedRoom {
        "prj_0123456789ab.standup".parse().unwrap()
    }

    fn reported(machine: &mut Machine) -> Vec<EgressStatus> {
        let statuses = machine.take_reports().into_iter().map(|report| match report.event {
            MediaEvent::Egress(state) => state.status,
            other => panic!("{other:?}"),
        });
        statuses.collect()
    }

    #[test]
    fn left_alone_a_job_begins_after_a_second_and_ends_a_second_after_it_was_stopped() {
        let (mut machine, start) = (Machine::default(), Timestamp::from_millis(0));
        let id = machine.start_egress(room(), start).egress_id;
        machine.tick(start.after(Duration::from_millis(999)));
        assert_eq!(reported(&mut machine), []);
        machine.tick(start.after(Duration::from_secs(1)));
        assert_eq!(reported(&mut machine), [EgressStatus::Active]);
        let stopped = start.after(Duration::from_secs(9));
        assert_eq!(machine.stop_egress(&room(), &id, stopped).unwrap().status, EgressStatus::Ending);
        assert_eq!(machine.next_deadline(), Some(stopped.after(Duration::from_secs(1))));
        machine.tick(stopped.after(Duration::from_secs(1)));
        assert_eq!(reported(&mut machine), [EgressStatus::Ending, EgressStatus::Complete]);
        assert_eq!(machine.next_deadline(), None);
        assert_eq!(machine.stop_egress(&room(), &id, stopped).unwrap().status, EgressStatus::Complete);
    }

    #[test]
    fn a_room_that_is_closed_completes_what_had_begun_and_aborts_what_had_not() {
        let (mut machine, start) = (Machine::default(), Timestamp::from_millis(0));
        let begun = machine.start_egress(room(), start).egress_id;
        machine.drive_egress(&begun, EgressStatus::Active, None, start);
        let waiting = machine.start_egress(room(), start).egress_id;
        machine.close_room(&room(), start);
        let status = |id| machine.egress(&room(), id).unwrap().status;
        assert_eq!((status(&begun), status(&waiting)), (EgressStatus::Complete, EgressStatus::Aborted));
        assert_eq!(machine.next_deadline(), None);
    }

    #[test]
    fn a_job_is_found_in_its_own_room_alone() {
        let mut machine = Machine::default();
        let id = machine.start_egress(room(), Timestamp::from_millis(0)).egress_id;
        let other: NamespacedRoom = "prj_0123456789ab.other".parse().unwrap();
        assert!(machine.egress(&other, &id).is_none() && machine.egress(&room(), &id).is_some());
    }

    proptest! {
        #[test]
        fn whatever_is_said_a_job_only_moves_forward(steps in prop::collection::vec((0usize..9, 0u64..3), 0..30)) {
            let (mut machine, mut now) = (Machine::default(), Timestamp::from_millis(0));
            let id = machine.start_egress(room(), now).egress_id;
            let mut before = EgressStatus::Starting;
            for (step, seconds) in steps {
                now = now.after(Duration::from_secs(seconds));
                match EgressStatus::ALL.get(step) {
                    Some(status) => drop(machine.drive_egress(&id, *status, None, now)),
                    None if step == 7 => drop(machine.stop_egress(&room(), &id, now)),
                    None => machine.tick(now),
                }
                let after = machine.egress(&room(), &id).unwrap();
                prop_assert!(after.status == before || before.may_become(after.status));
                prop_assert_eq!(after.ended_at.is_some(), after.status.is_final());
                prop_assert!(!after.status.is_final() || machine.next_deadline().is_none());
                before = after.status;
            }
        }
    }
}
