//! A room's recordings and broadcasts. The control plane, the sandbox, timers and the room's end change them.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_egress::EgressEvent;
use conclave_model::egress::{EgressSource, EgressState, EgressStatus};
use conclave_model::{EgressId, NamespacedRoom, Timestamp};

use super::Egress;
use super::inputs::EgressInputs;
use crate::embedded::common::{Common, RoomObject};
use crate::embedded::effect::JobEffect;
use crate::embedded::ids::unused_id;
use crate::embedded::room_state::deadlines::{Deadline, Deadlines};
use crate::embedded::room_state::outbox::Outbox;
use crate::embedded::room_state::roster::Roster;
use crate::port::MediaEvent;

/// A room's egresses.
#[derive(Debug)]
pub(in crate::embedded) struct RoomEgresses {
    room: NamespacedRoom,
    common: Arc<Common>,
    /// Egresses that have not ended.
    running: HashMap<EgressId, Egress>,
    /// Whether the egresses' inputs may have changed.
    is_changed: bool,
    /// Whether the clients must be notified because an egress started or stopped recording.
    is_capture_changed: bool,
}

impl RoomEgresses {
    pub fn new(room: NamespacedRoom, common: Arc<Common>) -> Self {
        Self {
            room,
            common,
            running: HashMap::new(),
            is_changed: false,
            is_capture_changed: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns whether an egress records the room's media, or is about to. A stopped egress no longer does.
    pub fn is_recorded(&self) -> bool {
        self.running
            .values()
            .any(|egress| is_capturing(egress.state().status))
    }

    /// Returns whether an egress started or stopped recording since the last call.
    pub fn take_capture_change(&mut self) -> bool {
        std::mem::take(&mut self.is_capture_changed)
    }

    /// Returns an id for a new egress.
    pub fn unused_id(&self) -> EgressId {
        // Checked against the plane's index, not against this room: ids are unique on the server, and include ended
        // egresses.
        unused_id("EG_", |id: &EgressId| {
            self.common
                .room_of(&RoomObject::Egress(id.clone()))
                .is_some()
        })
    }

    /// Starts a simulated egress.
    pub fn simulate(&mut self, deadlines: &mut Deadlines, now: Timestamp) -> EgressState {
        let (id, room) = (self.unused_id(), self.room.clone());
        let egress = Egress::new(id.clone(), room, now, deadlines.reading());
        deadlines.set(Deadline::Egress(id), egress.deadline());
        self.insert(egress)
    }

    /// Records an egress that was started with ffmpeg. It gets its inputs with the next effects.
    pub fn add_job(&mut self, id: EgressId, source: EgressSource, now: Timestamp) -> EgressState {
        let inputs = EgressInputs::new(source);
        self.record_change();
        self.insert(Egress::with_job(id, self.room.clone(), inputs, now))
    }

    fn insert(&mut self, egress: Egress) -> EgressState {
        let state = egress.state().clone();
        let id = state.egress_id.clone();
        self.common
            .insert(RoomObject::Egress(id.clone()), &self.room);
        self.running.insert(id, egress);
        // A starting egress may record before it is reported as active, so clients show it from now on.
        self.is_capture_changed = true;
        state
    }

    /// Returns an egress's state; ended egresses are kept for a while.
    pub fn get(&self, id: &EgressId) -> Option<EgressState> {
        let running = self.running.get(id).map(|egress| egress.state().clone());
        // Filtered by room: an id from another project's room must not be found.
        running.or_else(|| self.common.ended_egress(&self.room, id))
    }

    /// Returns the egresses that have not ended, with the room's name.
    pub fn running(&self) -> impl Iterator<Item = (NamespacedRoom, EgressState)> {
        self.running
            .values()
            .map(|egress| (self.room.clone(), egress.state().clone()))
    }

    /// Handles an event from an egress with ffmpeg.
    pub fn handle_job_event(
        &mut self,
        id: &EgressId,
        event: EgressEvent,
        now: Timestamp,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        let (status, error) = match event {
            EgressEvent::Active => (EgressStatus::Active, None),
            EgressEvent::Ended { status, error } => (status, error),
        };
        // Its thread has ended: packets from the media worker would fill a queue that nothing reads.
        if status.is_final()
            && let Some(inputs) = self.running.get_mut(id).and_then(Egress::inputs)
        {
            inputs.detach_all(id, outbox);
        }
        self.advance(id, (status, error), now, deadlines, outbox);
    }

    /// Stops an egress on the server's request. Returns its new state.
    pub fn stop(
        &mut self,
        id: &EgressId,
        now: Timestamp,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) -> Option<EgressState> {
        self.stop_job(id, outbox);
        // Only the status changes now. The final status follows when the file is complete.
        self.advance(id, (EgressStatus::Ending, None), now, deadlines, outbox);
        self.get(id)
    }

    /// Sets an egress's status for the sandbox. Returns its new state. An impossible transition is reported
    /// nevertheless, so that an integration can test that a record never goes backwards.
    pub fn set_status(
        &mut self,
        id: &EgressId,
        (status, error): (EgressStatus, Option<String>),
        now: Timestamp,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) -> Option<EgressState> {
        // Built first: an unknown egress ends the call here.
        let reported = EgressState {
            status,
            error: error.clone(),
            ..self.get(id)?
        };
        if !self.advance(id, (status, error), now, deadlines, outbox) {
            outbox.report(now, MediaEvent::Egress(reported));
        }
        self.get(id)
    }

    /// Pauses or resumes an egress. Its thread ignores a repeated request, and a simulated egress has no media to leave out.
    pub fn set_paused(
        &mut self,
        id: &EgressId,
        paused: bool,
        outbox: &mut Outbox,
    ) -> Option<EgressState> {
        let state = self.get(id)?;
        let has_job = self.running.get(id).is_some_and(Egress::has_job);
        if has_job && is_capturing(state.status) {
            outbox.inform_job(id, JobEffect::SetPaused(paused));
        }
        Some(state)
    }

    /// Ends all egresses, because the room was closed.
    pub fn end_all(&mut self, now: Timestamp, deadlines: &mut Deadlines, outbox: &mut Outbox) {
        let last: Vec<_> = self
            .running
            .iter()
            .map(|(id, egress)| (id.clone(), egress.status_without_room()))
            .collect();
        for (id, status) in last {
            // An egress with ffmpeg still has to finish its file; a simulated one ends at once.
            let is_ending = self.stop_job(&id, outbox);
            let status = if is_ending {
                EgressStatus::Ending
            } else {
                status
            };
            self.advance(&id, (status, None), now, deadlines, outbox);
        }
    }

    /// Stops an egress if it runs with ffmpeg. Returns whether it does.
    fn stop_job(&self, id: &EgressId, outbox: &mut Outbox) -> bool {
        let has_job = self.running.get(id).is_some_and(Egress::has_job);
        if has_job {
            outbox.inform_job(id, JobEffect::Stop);
        }
        has_job
    }

    /// Applies an egress's next timed transition, if it is due.
    pub fn apply_due_transition(
        &mut self,
        id: &EgressId,
        now: Timestamp,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        let reading = deadlines.reading();
        // The sandbox may have changed the status since the timer was set.
        let due = self
            .running
            .get(id)
            .and_then(|egress| egress.due_transition(reading));
        if let Some(status) = due {
            self.advance(id, (status, None), now, deadlines, outbox);
        }
    }

    /// Changes and reports an egress's status. Returns false if the transition is not allowed.
    fn advance(
        &mut self,
        id: &EgressId,
        (status, error): (EgressStatus, Option<String>),
        now: Timestamp,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(egress) = self.running.get_mut(id) else {
            return false;
        };
        let before = egress.state().status;
        // Events and requests can cross: a stop may arrive after the end.
        if !egress.advance(status, error, now, deadlines.reading()) {
            return false;
        }
        self.is_capture_changed |= is_capturing(before) != is_capturing(status);
        // If the new status has no deadline, this removes the old timer.
        deadlines.set(Deadline::Egress(id.clone()), egress.deadline());
        outbox.report(now, MediaEvent::Egress(egress.state().clone()));
        if status.is_final()
            && let Some(ended) = self.running.remove(id)
        {
            // The plane keeps ended egresses, since the room may be dropped before their state is read.
            self.common.keep_ended_egress(ended);
        }
        true
    }

    /// Records that participants or their tracks have changed, so that the egresses' inputs are updated.
    pub fn record_change(&mut self) {
        self.is_changed = true;
    }

    /// Updates the egresses' inputs if participants or tracks have changed.
    pub fn follow_changes(&mut self, roster: &Roster, outbox: &mut Outbox) {
        // Once per call on the room state, however many changes it made.
        if std::mem::take(&mut self.is_changed) {
            for (id, egress) in &mut self.running {
                if let Some(inputs) = egress.inputs() {
                    inputs.follow(id, roster, outbox);
                }
            }
        }
    }

    /// Returns a running egress.
    #[cfg(test)]
    pub fn egress_mut(&mut self, id: &EgressId) -> Option<&mut Egress> {
        self.running.get_mut(id)
    }
}

/// Returns whether an egress with this status records media. It may do so before it is reported as active.
fn is_capturing(status: EgressStatus) -> bool {
    matches!(status, EgressStatus::Starting | EgressStatus::Active)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::embedded::room_state::RoomState;
    use crate::embedded::room_state::tests::{NOW, reading, room};
    use crate::port::Report;

    fn reported(room_state: &mut RoomState) -> Vec<EgressStatus> {
        let statuses = room_state
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
        let (mut room_state, start) = (RoomState::default(), Timestamp::from_millis(0));
        let id = room_state.start_egress(start).egress_id;
        room_state.tick_at(start.after(Duration::from_millis(999)));
        assert_eq!(reported(&mut room_state), []);
        room_state.tick_at(start.after(Duration::from_secs(1)));
        assert_eq!(reported(&mut room_state), [EgressStatus::Active]);
        let stopped = start.after(Duration::from_secs(9));
        assert_eq!(
            room_state
                .at(stopped)
                .stop_egress(&id, stopped)
                .unwrap()
                .status,
            EgressStatus::Ending
        );
        assert_eq!(
            room_state.next_deadline(),
            Some(reading(stopped.after(Duration::from_secs(1))))
        );
        room_state.tick_at(stopped.after(Duration::from_secs(1)));
        assert_eq!(
            reported(&mut room_state),
            [EgressStatus::Ending, EgressStatus::Complete]
        );
        assert_eq!(room_state.next_deadline(), None);
        assert_eq!(
            room_state.stop_egress(&id, stopped).unwrap().status,
            EgressStatus::Complete
        );
    }

    #[test]
    fn closing_a_room_completes_active_egresses_and_aborts_starting_ones() {
        let (mut room_state, start) = (RoomState::default(), Timestamp::from_millis(0));
        let active = room_state.start_egress(start).egress_id;
        room_state.set_egress_status(&active, EgressStatus::Active, None, start);
        let starting = room_state.start_egress(start).egress_id;
        room_state.close(start);
        let status = |id| room_state.egress(id).unwrap().status;
        assert_eq!(
            (status(&active), status(&starting)),
            (EgressStatus::Complete, EgressStatus::Aborted)
        );
        assert_eq!(room_state.next_deadline(), None);
    }

    #[test]
    fn a_status_that_an_egress_cannot_change_to_is_reported_and_changes_nothing() {
        let (mut room_state, now) = (RoomState::default(), Timestamp::from_millis(0));
        let id = room_state.start_egress(now).egress_id;
        room_state
            .set_egress_status(&id, EgressStatus::Complete, None, now)
            .unwrap();
        room_state.take_reports();
        let error = Some("late".to_owned());
        let state = room_state
            .set_egress_status(&id, EgressStatus::Active, error.clone(), now)
            .unwrap();
        assert_eq!((state.status, state.error), (EgressStatus::Complete, None));
        let reports = room_state.take_reports();
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
        let (mut room_state, now) = (RoomState::default(), Timestamp::from_millis(0));
        let (running, ended) = (room_state.start_egress(now), room_state.start_egress(now));
        room_state.set_egress_status(&ended.egress_id, EgressStatus::Failed, None, now);
        assert_eq!(
            room_state.running_egresses().collect::<Vec<_>>(),
            [(room(), running)]
        );
    }

    #[test]
    fn the_egress_that_ended_first_is_dropped_at_capacity() {
        let (mut room_state, now) = (RoomState::default(), Timestamp::from_millis(0));
        let running = room_state.start_egress(now).egress_id;
        let mut ended = Vec::new();
        // One more than the capacity.
        for _ in 0..=1_000 {
            let id = room_state.start_egress(now).egress_id;
            room_state.set_egress_status(&id, EgressStatus::Failed, None, now);
            ended.push(id);
        }
        let is_kept = |id| room_state.egress(id).is_some();
        assert_eq!(
            ended.iter().map(is_kept).collect::<Vec<_>>(),
            [&[false][..], &[true; 1_000]].concat()
        );
        assert!(is_kept(&running));
    }

    #[test]
    fn an_egress_is_found_only_in_its_own_room() {
        let common = Arc::new(Common::new(100, false));
        let mut room_state = RoomState::new(room(), Arc::clone(&common));
        let id = room_state.start_egress(Timestamp::from_millis(0)).egress_id;
        let mut other = RoomState::new("prj_0123456789ab.other".parse().unwrap(), common);
        assert!(room_state.egress(&id).is_some() && other.egress(&id).is_none());
        room_state.set_egress_status(&id, EgressStatus::Failed, None, NOW);
        assert!(room_state.egress(&id).is_some() && other.egress(&id).is_none());
        assert_eq!(
            other.set_egress_status(&id, EgressStatus::Active, None, NOW),
            None
        );
    }

    proptest! {
        #[test]
        fn an_egress_never_goes_back(steps in prop::collection::vec((0usize..9, 0u64..3), 0..30)) {
            let (mut room_state, mut now) = (RoomState::default(), Timestamp::from_millis(0));
            let id = room_state.start_egress(now).egress_id;
            let mut before = EgressStatus::Starting;
            for (step, seconds) in steps {
                now = now.after(Duration::from_secs(seconds));
                room_state.at(now);
                match EgressStatus::ALL.get(step) {
                    Some(status) => drop(room_state.set_egress_status(&id, *status, None, now)),
                    // `ALL` has the positions 0 to 6: a stop is 7, and 8 only lets time pass.
                    None if step == 7 => drop(room_state.stop_egress(&id, now)),
                    None => room_state.tick_at(now),
                }
                let after = room_state.egress(&id).unwrap();
                prop_assert!(after.status == before || before.may_become(after.status));
                prop_assert_eq!(after.ended_at.is_some(), after.status.is_final());
                prop_assert!(!after.status.is_final() || room_state.next_deadline().is_none());
                before = after.status;
            }
        }
    }
}
