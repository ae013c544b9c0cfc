//! Recordings and broadcasts, which the control plane, the sandbox, time and the end of a room change.

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::{EgressId, NamespacedRoom, Timestamp};

use super::{Deadline, Machine};
use crate::embedded::common::Owned;
use crate::embedded::effect::{Effect, JobEffect};
use crate::embedded::egress::Egress;
use crate::port::MediaEvent;

impl Machine {
    /// Starts a simulated egress.
    pub fn start_egress(&mut self, now: Timestamp) -> EgressState {
        self.insert_egress(Egress::new(
            self.unused_egress_id(),
            self.name.clone(),
            now,
            self.reading,
        ))
    }

    pub(super) fn insert_egress(&mut self, egress: Egress) -> EgressState {
        let state = egress.state.clone();
        self.schedule_transition(&egress);
        self.common
            .insert(Owned::Egress(state.egress_id.clone()), &self.name);
        self.egresses.insert(state.egress_id.clone(), egress);
        state
    }

    /// Returns the state of an egress of the room, also for a while after it has ended.
    pub fn egress(&self, id: &EgressId) -> Option<EgressState> {
        let running = self.egresses.get(id).map(|egress| egress.state.clone());
        running.or_else(|| self.common.ended_egress(&self.name, id))
    }

    /// The server tells an egress to finish. Returns its state afterwards.
    pub fn stop_egress(&mut self, id: &EgressId, now: Timestamp) -> Option<EgressState> {
        self.stop_job(id);
        self.advance_egress(id, EgressStatus::Ending, None, now);
        self.egress(id)
    }

    /// The sandbox sets the status of an egress. Returns the state afterwards. A status that the egress cannot change to is
    /// reported nevertheless, so that an integration can test that a record never goes back.
    pub fn set_egress_status(
        &mut self,
        id: &EgressId,
        status: EgressStatus,
        error: Option<String>,
        now: Timestamp,
    ) -> Option<EgressState> {
        let reported = EgressState {
            status,
            error: error.clone(),
            ..self.egress(id)?
        };
        if !self.advance_egress(id, status, error, now) {
            self.report(now, MediaEvent::Egress(reported));
        }
        self.egress(id)
    }

    /// Returns the egresses that have not ended, with the name of the room.
    pub fn running_egresses(&self) -> impl Iterator<Item = (NamespacedRoom, EgressState)> {
        self.egresses
            .values()
            .map(|egress| (self.name.clone(), egress.state.clone()))
    }

    /// Ends the egresses, because the room was closed.
    pub(super) fn end_egresses(&mut self, now: Timestamp) {
        let last: Vec<_> = self
            .egresses
            .iter()
            .map(|(id, egress)| (id.clone(), egress.status_without_room()))
            .collect();
        for (id, status) in last {
            let is_ending = self.stop_job(&id);
            self.advance_egress(
                &id,
                if is_ending {
                    EgressStatus::Ending
                } else {
                    status
                },
                None,
                now,
            );
        }
    }

    /// Lets an egress with ffmpeg end; returns whether it is one.
    fn stop_job(&mut self, id: &EgressId) -> bool {
        let has_job = self
            .egresses
            .get(id)
            .is_some_and(|egress| egress.job.is_some());
        if has_job {
            self.effects.push(Effect::Job {
                egress: id.clone(),
                effect: JobEffect::Stop,
            });
        }
        has_job
    }

    /// Makes the next transition of an egress by time.
    pub(super) fn apply_due_transition(&mut self, id: &EgressId, now: Timestamp) {
        if let Some(status) = self
            .egresses
            .get(id)
            .and_then(|egress| egress.due_transition(self.reading))
        {
            self.advance_egress(id, status, None, now);
        }
    }

    /// Changes the status of an egress and reports it; returns whether the change is allowed.
    pub(super) fn advance_egress(
        &mut self,
        id: &EgressId,
        status: EgressStatus,
        error: Option<String>,
        now: Timestamp,
    ) -> bool {
        let Some(egress) = self.egresses.get_mut(id) else {
            return false;
        };
        let before = egress.deadline();
        if !egress.advance(status, error, now, self.reading) {
            return false;
        }
        let egress = egress.clone();
        before.map(|at| self.deadlines.remove(&(at, Deadline::Egress(id.clone()))));
        self.schedule_transition(&egress);
        self.report(now, MediaEvent::Egress(egress.state.clone()));
        if status.is_final() {
            self.egresses.remove(id);
            self.common.note_egress_ended(egress);
        }
        true
    }

    fn schedule_transition(&mut self, egress: &Egress) {
        if let Some(at) = egress.deadline() {
            self.deadlines
                .insert((at, Deadline::Egress(egress.state.egress_id.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::embedded::machine::tests::{NOW, reading, room};
    use crate::port::Report;

    fn reported(machine: &mut Machine) -> Vec<EgressStatus> {
        let statuses = machine
            .take_reports()
            .into_iter()
            .map(|report| match report.event {
                MediaEvent::Egress(state) => state.status,
                other => panic!("{other:?}"),
            });
        statuses.collect()
    }

    #[test]
    fn an_egress_becomes_active_after_a_second_and_completes_a_second_after_it_was_stopped() {
        let (mut machine, start) = (Machine::default(), Timestamp::from_millis(0));
        let id = machine.start_egress(start).egress_id;
        machine.tick_at(start.after(Duration::from_millis(999)));
        assert_eq!(reported(&mut machine), []);
        machine.tick_at(start.after(Duration::from_secs(1)));
        assert_eq!(reported(&mut machine), [EgressStatus::Active]);
        let stopped = start.after(Duration::from_secs(9));
        assert_eq!(
            machine
                .at(stopped)
                .stop_egress(&id, stopped)
                .unwrap()
                .status,
            EgressStatus::Ending
        );
        assert_eq!(
            machine.next_deadline(),
            Some(reading(stopped.after(Duration::from_secs(1))))
        );
        machine.tick_at(stopped.after(Duration::from_secs(1)));
        assert_eq!(
            reported(&mut machine),
            [EgressStatus::Ending, EgressStatus::Complete]
        );
        assert_eq!(machine.next_deadline(), None);
        assert_eq!(
            machine.stop_egress(&id, stopped).unwrap().status,
            EgressStatus::Complete
        );
    }

    #[test]
    fn closing_a_room_completes_active_egresses_and_aborts_starting_ones() {
        let (mut machine, start) = (Machine::default(), Timestamp::from_millis(0));
        let active = machine.start_egress(start).egress_id;
        machine.set_egress_status(&active, EgressStatus::Active, None, start);
        let starting = machine.start_egress(start).egress_id;
        machine.close(start);
        let status = |id| machine.egress(id).unwrap().status;
        assert_eq!(
            (status(&active), status(&starting)),
            (EgressStatus::Complete, EgressStatus::Aborted)
        );
        assert_eq!(machine.next_deadline(), None);
    }

    #[test]
    fn a_status_that_an_egress_cannot_change_to_is_reported_and_changes_nothing() {
        let (mut machine, now) = (Machine::default(), Timestamp::from_millis(0));
        let id = machine.start_egress(now).egress_id;
        machine
            .set_egress_status(&id, EgressStatus::Complete, None, now)
            .unwrap();
        machine.take_reports();
        let error = Some("late".to_owned());
        let state = machine
            .set_egress_status(&id, EgressStatus::Active, error.clone(), now)
            .unwrap();
        assert_eq!((state.status, state.error), (EgressStatus::Complete, None));
        let reports = machine.take_reports();
        let [
            Report {
                event: MediaEvent::Egress(reported),
                ..
            },
        ] = &reports[..]
        else {
            panic!("{reports:?}")
        };
        assert_eq!(
            (reported.status, &reported.error),
            (EgressStatus::Active, &error)
        );
    }

    #[test]
    fn only_egresses_that_have_not_ended_are_running() {
        let (mut machine, now) = (Machine::default(), Timestamp::from_millis(0));
        let (running, ended) = (machine.start_egress(now), machine.start_egress(now));
        machine.set_egress_status(&ended.egress_id, EgressStatus::Failed, None, now);
        assert_eq!(
            machine.running_egresses().collect::<Vec<_>>(),
            [(room(), running)]
        );
    }

    #[test]
    fn the_egress_that_ended_first_is_dropped_at_capacity() {
        let (mut machine, now) = (Machine::default(), Timestamp::from_millis(0));
        let running = machine.start_egress(now).egress_id;
        let mut ended = Vec::new();
        for _ in 0..=1_000 {
            let id = machine.start_egress(now).egress_id;
            machine.set_egress_status(&id, EgressStatus::Failed, None, now);
            ended.push(id);
        }
        let is_kept = |id| machine.egress(id).is_some();
        assert_eq!(
            ended.iter().map(is_kept).collect::<Vec<_>>(),
            [&[false][..], &[true; 1_000]].concat()
        );
        assert!(is_kept(&running));
    }

    #[test]
    fn an_egress_is_found_only_in_its_own_room() {
        let mut machine = Machine::default();
        let id = machine.start_egress(Timestamp::from_millis(0)).egress_id;
        let mut other = Machine::new(
            "prj_0123456789ab.other".parse().unwrap(),
            Arc::clone(&machine.common),
        );
        assert!(machine.egress(&id).is_some() && other.egress(&id).is_none());
        machine.set_egress_status(&id, EgressStatus::Failed, None, NOW);
        assert!(machine.egress(&id).is_some() && other.egress(&id).is_none());
        assert_eq!(
            other.set_egress_status(&id, EgressStatus::Active, None, NOW),
            None
        );
    }

    proptest! {
        #[test]
        fn an_egress_never_goes_back(steps in prop::collection::vec((0usize..9, 0u64..3), 0..30)) {
            let (mut machine, mut now) = (Machine::default(), Timestamp::from_millis(0));
            let id = machine.start_egress(now).egress_id;
            let mut before = EgressStatus::Starting;
            for (step, seconds) in steps {
                now = now.after(Duration::from_secs(seconds));
                machine.at(now);
                match EgressStatus::ALL.get(step) {
                    Some(status) => drop(machine.set_egress_status(&id, *status, None, now)),
                    None if step == 7 => drop(machine.stop_egress(&id, now)),
                    None => machine.tick_at(now),
                }
                let after = machine.egress(&id).unwrap();
                prop_assert!(after.status == before || before.may_become(after.status));
                prop_assert_eq!(after.ended_at.is_some(), after.status.is_final());
                prop_assert!(!after.status.is_final() || machine.next_deadline().is_none());
                before = after.status;
            }
        }
    }
}
