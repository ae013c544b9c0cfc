//! Starts of recordings and broadcasts whose answer was lost: the media plane may run an egress that has no record and that no
//! client knows. It is found by its request, and stopped as soon as the media plane can be asked.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::MediaError;
use conclave_model::{EgressId, NamespacedRoom};

use super::ProjectActor;
use super::egresses::stop_on_plane;
use super::message::{ProjectMsg, UnansweredFound, UnansweredStart};
use super::state::ProjectState;
use crate::context::ActorContext;
use crate::mailbox::Mailbox;

/// Time within which an egress begins to run after its start was requested.
const LONGEST_START: Duration = Duration::from_secs(60);

impl ProjectActor {
    /// Asks the media plane in a spawned task what the starts without an answer have begun. While another start runs, its egress
    /// has no record either; its end asks again.
    pub(super) fn look_for_unanswered(&self, me: &Mailbox<ProjectMsg>, state: &ProjectState) {
        if state.unanswered.is_empty() || state.egresses.pending.len() > 0 {
            return;
        }
        let starts = state.unanswered.clone();
        let (context, me) = (Arc::clone(&self.context), me.clone());
        tokio::spawn(async move {
            let asked_at = context.clock.now();
            let found = find(&context, &starts).await;
            let _ = me.cast(ProjectMsg::UnansweredFound(Box::new(UnansweredFound {
                asked_at,
                found,
            })));
        });
    }

    /// Stops what was found, unless it has an actor: then it is the egress of another start.
    pub(super) fn unanswered_found(&self, state: &mut ProjectState, seen: UnansweredFound) {
        let UnansweredFound { asked_at, found } = seen;
        let found =
            found.inspect_err(|error| log::warn!("a lost start is looked for again: {error}"));
        let Ok(found) = found else { return };
        if state.egresses.pending.len() > 0 {
            return;
        }
        state
            .unanswered
            .retain(|start| start.at.after(LONGEST_START) > asked_at);
        for (room, id) in found
            .into_iter()
            .filter(|(_, id)| !state.egresses.children.contains(id))
        {
            log::warn!(egress_id = id.as_str(), room = room.as_str(); "an egress whose start lost its answer is stopped");
            let media = Arc::clone(&self.context.media);
            tokio::spawn(async move { stop_on_plane(&*media, &room, &id).await });
        }
    }
}

async fn find(
    context: &ActorContext,
    starts: &[Arc<UnansweredStart>],
) -> Result<Vec<(NamespacedRoom, EgressId)>, MediaError> {
    let mut found = Vec::new();
    for start in starts {
        let ids = context
            .media
            .egresses_started_by(&start.plan, start.at)
            .await?;
        found.extend(ids.into_iter().map(|id| (start.plan.room.clone(), id)));
    }
    Ok(found)
}
