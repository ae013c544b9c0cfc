//! Holding a project's records against the media plane: at start, every `media.reconcile`, and after an outage.
//!
//! Rooms with somebody in them, jobs and ingress endpoints ask for themselves. The survey finds what has nobody to ask: a
//! room at rest that somebody is in, because the report of it was lost, and a job or an endpoint without a record, and
//! a room that has ended and is open there.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::{MediaError, Survey};
use conclave_model::egress::EgressState;
use conclave_model::ingress::IngressState;
use conclave_model::{NamespacedRoom, ProjectId, RoomName};

use super::{ProjectActor, ProjectMsg, ProjectState};
use crate::egress::EgressMsg;
use crate::ingress::IngressMsg;
use crate::mailbox::Mailbox;
use crate::room::RoomMsg;
use crate::timer::Timer;

/// How long a job or an endpoint may be on its way into the records after the media plane has accepted it.
const ORPHANED: Duration = Duration::from_secs(60);

impl ProjectActor {
    /// Starts a round, and arms the timer for the next one.
    pub(super) fn reconcile(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState) {
        // One that ends at this moment is taken up again from its records, and asks then.
        state.rooms.running().for_each(|room| drop(room.cast(RoomMsg::Reconcile)));
        state.jobs.running().for_each(|job| drop(job.cast(EgressMsg::Poll)));
        state.ingresses.running().for_each(|ingress| drop(ingress.cast(IngressMsg::Poll)));
        let (media, project, survey_of) = (Arc::clone(&self.context.media), self.id.clone(), me.clone());
        tokio::spawn(async move {
            let survey = Box::new(media.survey(&project).await);
            let _ = survey_of.cast(ProjectMsg::Surveyed(survey));
        });
        let at = self.context.clock.now().after(spread(self.context.settings.reconcile, &self.id));
        state.reconcile = Some(Timer::arm(&self.context.clock, "reconcile", at, me, ProjectMsg::Reconcile));
    }

    /// What is live on the media plane.
    pub(super) fn surveyed(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        survey: Result<Survey, MediaError>,
    ) {
        let seen = survey.inspect_err(|error| log::warn!(project = self.id.as_str(); "not reconciled: {error}"));
        let Ok(Survey { rooms, empty_rooms, egresses, ingresses }) = seen else { return };
        for room in &rooms {
            self.wake_missed(me, state, &room.split().1);
        }
        if state.pending_rooms == 0 {
            let ended = rooms.into_iter().chain(empty_rooms).filter(|room| !state.rooms.contains(&room.split().1));
            ended.for_each(|room| self.close_ended(room));
        }
        // What is being started now has no record yet, and must not be taken for an orphan.
        if state.pending_ingresses.len() == 0 {
            self.sweep(me, state, ingresses);
        }
        if state.pending_egresses.len() == 0 {
            let orphans = egresses.into_iter().filter(|(_, seen)| self.is_orphan(state, seen));
            orphans.for_each(|(room, seen)| self.stop_orphan(room, seen));
        }
    }

    /// Somebody is in a room that the records think empty.
    fn wake_missed(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, room: &RoomName) {
        let rests = state.rooms.get(room).is_some_and(|child| child.mailbox().is_none());
        if rests {
            self.send_to_room(me, state, room, RoomMsg::Reconcile);
        }
    }

    /// A room that has ended is open on the media plane, which was away when it was told.
    fn close_ended(&self, room: NamespacedRoom) {
        let media = Arc::clone(&self.context.media);
        tokio::spawn(async move {
            if let Err(error) = media.close_room(&room).await {
                log::warn!(room = room.as_str(); "the live side of an ended room was not closed: {error}");
            }
        });
    }

    /// Endpoints that no actor knows are held against the records: those whose room has ended at once, the others once they
    /// cannot be on their way into the records any more.
    fn sweep(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, seen: Vec<(NamespacedRoom, IngressState)>) {
        let (now, before) = (self.context.clock.now(), std::mem::take(&mut state.strays));
        for (room, IngressState { ingress_id: id, .. }) in seen {
            if state.ingresses.contains(&id) {
                continue;
            }
            let since = before.get(&id).copied().unwrap_or(now);
            state.strays.insert(id.clone(), since);
            if !state.rooms.contains(&room.split().1) || since.after(ORPHANED) <= now {
                log::warn!(ingress_id = id.as_str(), room = room.as_str(); "the media plane has an ingress that nobody follows");
                self.take_up_ingress_again(me, id);
            }
        }
    }

    fn is_orphan(&self, state: &ProjectState, seen: &EgressState) -> bool {
        !state.jobs.contains(&seen.egress_id) && seen.started_at.after(ORPHANED) <= self.context.clock.now()
    }

    /// Ends a job that nobody will ever ask about: it was started, and its record could not be written.
    fn stop_orphan(&self, room: NamespacedRoom, seen: EgressState) {
        log::warn!(egress_id = seen.egress_id.as_str(), room = room.as_str(); "a job without a record is stopped");
        let media = Arc::clone(&self.context.media);
        tokio::spawn(async move {
            if let Err(error) = media.stop_egress(&room, &seen.egress_id).await {
                log::warn!(egress_id = seen.egress_id.as_str(); "a job without a record was not stopped: {error}");
            }
        });
    }
}

/// The time to a project's next round: up to a tenth less than what is set, by its id. Projects that started together drift
/// apart, so that a media plane is not asked by all of them in one moment.
fn spread(set: Duration, project: &ProjectId) -> Duration {
    let digit = project.as_str().chars().last().and_then(|digit| digit.to_digit(16)).unwrap_or_default();
    set - set / 10 * digit / 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_projects_drift_apart_and_come_no_later_than_is_set() {
        let round = |project: &str| spread(Duration::from_secs(60), &project.parse().unwrap());
        assert_eq!(round("prj_000000000000"), Duration::from_secs(60));
        assert_eq!(round("prj_00000000000a"), Duration::from_secs(56));
        assert_eq!(round("prj_00000000000f"), Duration::from_secs(54));
    }
}
