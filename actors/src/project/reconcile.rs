//! Reconciliation of a project's records with the media plane: at start, every `media.reconcile`, and after an outage.
//!
//! Actors that run poll by themselves. The survey of what is live finds what has no actor to poll for it: a hibernating room
//! whose join report was lost, a room that has ended and is open on the media plane, and an egress or ingress endpoint
//! without a record.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::{MediaError, Survey};
use conclave_model::egress::EgressState;
use conclave_model::ingress::{Ingress, IngressState};
use conclave_model::{NamespacedRoom, ProjectId, RoomName};

use super::ProjectActor;
use super::message::ProjectMsg;
use super::state::ProjectState;
use crate::egress::EgressMsg;
use crate::ingress::IngressMsg;
use crate::mailbox::Mailbox;
use crate::room::RoomMsg;
use crate::timer::Timer;

/// Time that the record of an egress or ingress endpoint may take to be written after the media plane has accepted it.
const ORPHANED_AFTER: Duration = Duration::from_secs(60);

impl ProjectActor {
    /// Lets every running actor poll, starts the survey, and arms the timer for the next reconciliation.
    pub(super) fn reconcile(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState) {
        // An actor that ends at this moment is rebuilt from its records, and polls then.
        state.rooms.running().for_each(|room| drop(room.cast(RoomMsg::Reconcile)));
        state.egresses.children.running().for_each(|egress| drop(egress.cast(EgressMsg::Poll)));
        state.ingresses.children.running().for_each(|ingress| drop(ingress.cast(IngressMsg::Poll)));
        let (media, project, survey_of) = (Arc::clone(&self.context.media), self.id.clone(), me.clone());
        tokio::spawn(async move {
            let survey = Box::new(media.survey(&project).await);
            let _ = survey_of.cast(ProjectMsg::Surveyed(survey));
        });
        let at = self.context.clock.now().after(spread(self.context.settings.reconcile, &self.id));
        state.reconcile = Some(Timer::arm(&self.context.clock, "reconcile", at, me, ProjectMsg::Reconcile));
    }

    /// Repairs what the survey found.
    pub(super) fn surveyed(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        survey: Result<Survey, MediaError>,
    ) {
        let survey = survey.inspect_err(|error| log::warn!(project = self.id.as_str(); "not reconciled: {error}"));
        let Ok(Survey { rooms, empty_rooms, egresses, ingresses }) = survey else { return };
        for room in &rooms {
            self.wake_missed(me, state, &room.split().1);
        }
        if state.pending_rooms == 0 {
            let ended = rooms.into_iter().chain(empty_rooms).filter(|room| !state.rooms.contains(&room.split().1));
            ended.for_each(|room| self.close_ended(room));
        }
        // What is being created now has no record yet, and must not be taken for an orphan.
        if state.ingresses.pending.len() == 0 {
            self.sweep_ingresses(me, state, ingresses);
        }
        if state.egresses.pending.len() == 0 {
            let orphans = egresses.into_iter().filter(|(_, seen)| self.is_orphan(state, seen));
            orphans.for_each(|(room, seen)| self.stop_orphan(room, seen));
        }
    }

    /// Wakes a hibernating room that has participants on the media plane.
    fn wake_missed(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, room: &RoomName) {
        let has_no_process = state.rooms.get(room).is_some_and(|child| child.mailbox().is_none());
        if has_no_process {
            self.send_to_room(me, state, room, RoomMsg::Reconcile);
        }
    }

    /// Closes a room on the media plane that has ended: the plane was unreachable when it ended.
    fn close_ended(&self, room: NamespacedRoom) {
        let media = Arc::clone(&self.context.media);
        tokio::spawn(async move {
            if let Err(error) = media.close_room(&room).await {
                log::warn!(room = room.as_str(); "an ended room was not closed on the media plane: {error}");
            }
        });
    }

    /// Looks up the records of ingress endpoints without an actor: at once if the room has ended, otherwise once their records
    /// must have been written.
    fn sweep_ingresses(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        seen: Vec<(NamespacedRoom, IngressState)>,
    ) {
        let (now, before) = (self.context.clock.now(), std::mem::take(&mut state.strays));
        for (room, IngressState { ingress_id: id, .. }) in seen {
            if state.ingresses.children.contains(&id) {
                continue;
            }
            let since = before.get(&id).copied().unwrap_or(now);
            state.strays.insert(id.clone(), since);
            if !state.rooms.contains(&room.split().1) || since.after(ORPHANED_AFTER) <= now {
                log::warn!(ingress_id = id.as_str(), room = room.as_str(); "the media plane has an ingress without an actor");
                self.load::<Ingress>(me, id);
            }
        }
    }

    fn is_orphan(&self, state: &ProjectState, seen: &EgressState) -> bool {
        let is_known = state.egresses.children.contains(&seen.egress_id);
        !is_known && seen.started_at.after(ORPHANED_AFTER) <= self.context.clock.now()
    }

    /// Stops an egress that was started and whose record could not be written.
    fn stop_orphan(&self, room: NamespacedRoom, seen: EgressState) {
        log::warn!(egress_id = seen.egress_id.as_str(), room = room.as_str(); "an egress without a record is stopped");
        let media = Arc::clone(&self.context.media);
        tokio::spawn(async move {
            if let Err(error) = media.stop_egress(&room, &seen.egress_id).await {
                log::warn!(egress_id = seen.egress_id.as_str(); "an egress without a record was not stopped: {error}");
            }
        });
    }
}

/// Returns the time to a project's next reconciliation: up to a tenth less than `interval`, by the project's id, so that
/// projects which started together do not ask the media plane in one moment.
fn spread(interval: Duration, project: &ProjectId) -> Duration {
    let digit = project.as_str().chars().last().and_then(|digit| digit.to_digit(16)).unwrap_or_default();
    interval - interval / 10 * digit / 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciliations_of_projects_drift_apart_and_are_never_later_than_the_interval() {
        let round = |project: &str| spread(Duration::from_secs(60), &project.parse().unwrap());
        assert_eq!(round("prj_000000000000"), Duration::from_secs(60));
        assert_eq!(round("prj_00000000000a"), Duration::from_secs(56));
        assert_eq!(round("prj_00000000000f"), Duration::from_secs(54));
    }
}
