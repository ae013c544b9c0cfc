//! The survey of what is live on the media plane: made once for the server, and shared out to the projects.

use std::sync::Arc;

use conclave_media::{MediaError, Survey};

use super::{SystemActor, SystemMsg, SystemState};
use crate::mailbox::Mailbox;
use crate::project::ProjectMsg;
use crate::timer::Timer;

impl SystemActor {
    /// Lets every project reconcile its records now.
    pub(super) fn reconcile(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        state.projects.send_all(|| ProjectMsg::Reconcile);
        self.survey(me, state);
    }

    /// Asks the media plane what is live, in a spawned task, and arms the timer for the next time.
    pub(super) fn survey(&self, me: &Mailbox<SystemMsg>, state: &mut SystemState) {
        let clock = &self.context.clock;
        let at = clock.now().after(self.context.settings.reconcile);
        state.survey = Some(Timer::arm(clock, "survey", at, me, SystemMsg::Survey));
        let (media, me) = (Arc::clone(&self.context.media), me.clone());
        tokio::spawn(async move {
            let survey = Box::new(media.survey().await);
            let _ = me.cast(SystemMsg::Surveyed(survey));
        });
    }

    /// Gives each project that runs its share. One that does not run has nothing to compare it with.
    pub(super) fn surveyed(state: &mut SystemState, survey: Result<Survey, MediaError>) {
        let survey =
            survey.inspect_err(|error| log::warn!("the records were not reconciled: {error}"));
        for (project, share) in survey.map(Survey::by_project).unwrap_or_default() {
            state
                .projects
                .send(&project, ProjectMsg::Surveyed(Box::new(share)));
        }
    }
}
