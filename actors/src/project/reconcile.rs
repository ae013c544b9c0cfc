//! Reconciliation of a project's records with the media plane: at start, every `media.reconcile`, and after an outage.
//!
//! Running actors poll by themselves. The live object inventory, which the system actor requests for all projects, finds objects without an
//! actor: a hibernating room whose join report was lost, and ended rooms, egresses and ingress endpoints that are still live on the
//! media plane. Objects without a record are left alone, since others may use the same media plane.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::MediaInventory;
use conclave_model::{NamespacedRoom, ProjectId};

use super::LiveProject;
use super::context::ProjectContext;
use super::message::ProjectMsg;
use crate::mailbox::Timer;

impl LiveProject {
    /// Makes every running actor poll, and arms the timer for the next reconciliation.
    pub(super) fn reconcile(&mut self) {
        self.rooms.reconcile();
        self.egresses.poll();
        self.ingresses.poll();
        self.unanswered.look(&self.context, &self.egresses);
        let ProjectContext { shared, me, id, .. } = &self.context;
        let at = shared
            .clock
            .now()
            .after(spread(shared.settings.reconcile, id));
        let timer = Timer::arm(&shared.clock, "reconcile", at, me, ProjectMsg::Reconcile);
        self.reconcile_timer = Some(timer);
    }

    /// Repairs differences that the inventory shows in this project's rooms.
    pub(super) fn surveyed(&mut self, survey: MediaInventory) {
        let (context, rooms) = (&self.context, &mut self.rooms);
        for room in &survey.rooms {
            rooms.wake_missed(context, &room.split().1);
        }
        let live = survey.rooms.into_iter().chain(survey.empty_rooms);
        // A room with an actor is open. For another room, the records decide.
        let without_actor = live.filter(|room| !rooms.contains(&room.split().1));
        close_ended(context, without_actor.collect());
        let ingresses = survey.ingresses.into_iter();
        self.ingresses
            .load_strays(context, ingresses.map(|(_, seen)| seen.ingress_id));
        let egresses = survey.egresses.into_iter();
        self.egresses
            .load_strays(context, egresses.map(|(_, seen)| seen.egress_id));
    }
}

/// Closes rooms whose record has ended, in a spawned task: the media plane was unavailable when they ended.
fn close_ended(project: &ProjectContext, rooms: Vec<NamespacedRoom>) {
    if rooms.is_empty() {
        return;
    }
    let (context, project) = (Arc::clone(&project.shared), project.id.clone());
    tokio::spawn(async move {
        let names = rooms.iter().map(|room| room.split().1).collect();
        // One query for all of them. Rooms without a record are not among the results.
        let ended = context.store.rooms().ended(project, names).await;
        let ended = ended
            .inspect_err(|error| log::warn!("ended rooms were not closed: {error}"))
            .unwrap_or_default();
        for room in rooms.iter().filter(|room| ended.contains(&room.split().1)) {
            if let Err(error) = context.media.close_room(room).await {
                log::warn!(room = room.as_str(); "an ended room was not closed on the media plane: {error}");
            }
        }
    });
}

/// Returns the time to a project's next reconciliation: up to a tenth less than `interval`, depending on the project's id, so that projects
/// which started together do not all query the media plane at once.
fn spread(interval: Duration, project: &ProjectId) -> Duration {
    let digit = project
        .as_str()
        .chars()
        .last()
        .and_then(|digit| digit.to_digit(16))
        .unwrap_or_default();
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
