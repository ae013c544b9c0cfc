//! The order in which a room's actor handles reports, and what must not overtake them.
//!
//! One report is handled for each ticket, and the ticket sent on: messages that came in the meantime, such as a removal or the
//! end of the room, are handled in between. The media plane's answers, barriers and the empty timer wait for the reports before
//! them.

use conclave_media::ReportError;

use super::roster::RoomState;
use super::{RoomActor, RoomMsg};
use crate::mailbox::Mailbox;
use crate::report_queue::{Taken, Waiting};

impl RoomActor {
    /// Handles the first report, or marked message, that may be handled, and sends the ticket on if there are more.
    pub(super) async fn handle_next_report(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState) {
        let may_handle = |waiting: &Waiting, is_first| match waiting {
            Waiting::Report(waiting) => !state.calls.holds_report(&waiting.report.event),
            Waiting::Mark(number) => {
                state
                    .behind_reports
                    .get(number)
                    .is_none_or(|message| match message {
                        // What it says of a participant's tracks may be what a change of its role caused.
                        RoomMsg::Observed(_) => !state.calls.is_changing_role(),
                        _ => is_first,
                    })
            }
        };
        let Some(Taken { next, goes_on }) = self.context.reports.take(&self.room, may_handle)
        else {
            return;
        };
        match next {
            Waiting::Report(waiting) => {
                let result = self.handle_report(me, state, waiting.report).await;
                waiting.answers.send(result);
            }
            Waiting::Mark(number) => {
                if let Some(message) = state.behind_reports.remove(&number) {
                    self.handle_in_order(me, state, message).await;
                }
            }
        }
        if goes_on {
            self.send_ticket(me);
        }
    }

    /// Lets a message wait if reports came before it, or gives it back.
    pub(super) fn wait_behind_reports(
        &self,
        state: &mut RoomState,
        message: RoomMsg,
    ) -> Option<RoomMsg> {
        let waits_for_role =
            matches!(message, RoomMsg::Observed(_)) && state.calls.is_changing_role();
        if !waits_for_role && !self.context.reports.is_waiting(&self.room) {
            return Some(message);
        }
        state
            .behind_reports
            .insert(self.context.reports.mark(&self.room), message);
        None
    }

    /// Lets a change of role wait if the participant is not connected and its join may be among the reports, or gives it back.
    pub(super) fn wait_for_join(&self, state: &mut RoomState, message: RoomMsg) -> Option<RoomMsg> {
        match &message {
            RoomMsg::ChangeRole { request, .. } if state.is_connected(&request.identity) => {
                Some(message)
            }
            _ => self.wait_behind_reports(state, message),
        }
    }

    /// Sends the ticket for what a running call may have held.
    pub(super) fn resume_reports(&self, me: &Mailbox<RoomMsg>) {
        if self.context.reports.claim_ticket(&self.room) {
            self.send_ticket(me);
        }
    }

    /// Answers what waits on behalf of a room that has ended.
    pub(super) fn answer_waiting_as_ended(&self, state: &mut RoomState) {
        for waiting in self.context.reports.take_all(&self.room) {
            waiting.answers.send(Err(ReportError::RoomEnded));
        }
        std::mem::take(&mut state.behind_reports)
            .into_values()
            .for_each(RoomMsg::answer_as_ended);
    }

    fn send_ticket(&self, me: &Mailbox<RoomMsg>) {
        // An actor that is about to stop leaves the rest to the one that is started in its place.
        if me.cast(RoomMsg::Reports).is_err() {
            self.path.send(RoomMsg::Reports);
        }
    }
}
