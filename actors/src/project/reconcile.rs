//! Reconciliation of a project's records with the media plane: at start, every `media.reconcile`, and after an outage.
//!
//! Actors that run poll by themselves. The survey of what is live, which the system actor makes for all projects, finds what
//! has no actor to poll for it: a hibernating room whose join report was lost; and a room, an egress or an ingress endpoint
//! that has ended and is live on the media plane. What is in no record is left alone: others may use the same media plane.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::RunningEgress;
use conclave_media::Survey;
use conclave_model::ingress::Ingress;
use conclave_model::{NamespacedRoom, ProjectId, RoomName};

use super::ProjectActor;
use super::followed::Followed;
use super::message::ProjectMsg;
use super::state::ProjectState;
use crate::egress::EgressMsg;
use crate::ingress::IngressMsg;
use crate::mailbox::{Mailbox, Timer};
use crate::room::RoomMsg;

impl ProjectActor {
    /// Lets every running actor poll, and arms the timer for the next reconciliation.
    pub(super) fn reconcile(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState) {
        // An actor that ends at this moment is rebuilt from its records, and polls then.
        state
            .rooms
            .running()
            .for_each(|room| drop(room.cast(RoomMsg::Reconcile)));
        state
            .egresses
            .children
            .running()
            .for_each(|egress| drop(egress.cast(EgressMsg::Poll)));
        state
            .ingresses
            .children
            .running()
            .for_each(|ingress| drop(ingress.cast(IngressMsg::Poll)));
        self.look_for_unanswered(me, state);
        let at = self
            .context
            .clock
            .now()
            .after(spread(self.context.settings.reconcile, &self.id));
        state.reconcile = Some(Timer::arm(
            &self.context.clock,
            "reconcile",
            at,
            me,
            ProjectMsg::Reconcile,
        ));
    }

    /// Repairs what the survey found in the rooms of this project.
    pub(super) fn surveyed(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        survey: Survey,
    ) {
        let Survey {
            rooms,
            empty_rooms,
            egresses,
            ingresses,
        } = survey;
        for room in &rooms {
            self.wake_missed(me, state, &room.split().1);
        }
        let without_actor = |room: &NamespacedRoom| !state.rooms.contains(&room.split().1);
        self.close_ended(
            rooms
                .into_iter()
                .chain(empty_rooms)
                .filter(without_actor)
                .collect(),
        );
        self.load_strays::<Ingress>(
            me,
            state,
            ingresses.into_iter().map(|(_, seen)| seen.ingress_id),
        );
        self.load_strays::<RunningEgress>(
            me,
            state,
            egresses.into_iter().map(|(_, seen)| seen.egress_id),
        );
    }

    /// Wakes a hibernating room that has participants on the media plane.
    fn wake_missed(&self, me: &Mailbox<ProjectMsg>, state: &mut ProjectState, room: &RoomName) {
        let has_no_process = state
            .rooms
            .get(room)
            .is_some_and(|child| child.mailbox().is_none());
        if has_no_process {
            self.send_to_room(me, state, room, RoomMsg::Reconcile);
        }
    }

    /// Closes those of the rooms whose record has ended, in a spawned task: the media plane was unreachable when they ended.
    fn close_ended(&self, rooms: Vec<NamespacedRoom>) {
        if rooms.is_empty() {
            return;
        }
        let (context, project) = (Arc::clone(&self.context), self.id.clone());
        tokio::spawn(async move {
            let names = rooms.iter().map(|room| room.split().1).collect();
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

    /// Reads the records of what is live without an actor. One that is final is cleaned up, one that is not gets its actor.
    fn load_strays<F: Followed>(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        ids: impl Iterator<Item = F::Id>,
    ) {
        let set = F::set(state);
        // What is being created now has no record yet.
        if set.pending.len() == 0 {
            ids.filter(|id| !set.children.contains(id))
                .for_each(|id| self.load::<F>(me, id));
        }
    }
}

/// Returns the time to a project's next reconciliation: up to a tenth less than `interval`, by the project's id, so that
/// projects which started together do not ask the media plane in one moment.
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
