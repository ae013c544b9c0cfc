//! Order in which a room's actor handles reports, and the messages that must not overtake them.
//!
//! One report is handled per ticket, which is then sent again: messages that came in the meantime, such as a removal or the end of the
//! room, are handled in between. The media plane's replies, barriers and the empty timer wait for earlier reports: they are marked in the
//! room's queue, and stored here by the numbers of their marks.

use std::collections::BTreeMap;

use conclave_media::ReportError;
use conclave_model::NamespacedRoom;

use super::commands::MediaCalls;
use super::message::RoomMsg;
use crate::report_queue::{QueueEntry, QueuedReport, ReportQueues, TakenEntry};

/// A room's queue of reports, and the messages behind them.
pub(super) struct ReportOrder {
    queues: ReportQueues,
    room: NamespacedRoom,
    /// Messages that wait for reports, by the numbers of their marks in the queue.
    behind: BTreeMap<u64, RoomMsg>,
}

/// Next item to handle.
pub(super) enum NextItem {
    Report(QueuedReport),
    /// A mark's message; absent if an earlier actor of this room has set the mark.
    Message(Option<RoomMsg>),
}

impl ReportOrder {
    /// Creates the order of a room without waiting messages.
    pub fn new(queues: ReportQueues, room: NamespacedRoom) -> Self {
        Self {
            queues,
            room,
            behind: BTreeMap::new(),
        }
    }

    /// Removes and returns the first report or marked message that may be handled while these calls are running. The second value is
    /// whether there are
    /// more, so that the ticket has to be sent again.
    pub fn take(&mut self, calls: &MediaCalls) -> Option<(NextItem, bool)> {
        let may_handle = |waiting: &QueueEntry, is_first| match waiting {
            QueueEntry::Report(waiting) => !calls.defers_report(&waiting.report.event),
            QueueEntry::Mark(number) => {
                self.behind.get(number).is_none_or(|message| match message {
                    // Its track states may already be an effect of the role change.
                    RoomMsg::Observed(_) => !calls.is_changing_role(),
                    // A mark waits until it is the first: that is its purpose.
                    _ => is_first,
                })
            }
        };
        // `None` also if an earlier ticket has already led to the last entry.
        let TakenEntry { next, goes_on } = self.queues.take(&self.room, may_handle)?;
        let next = match next {
            QueueEntry::Report(report) => NextItem::Report(report),
            QueueEntry::Mark(number) => NextItem::Message(self.behind.remove(&number)),
        };
        Some((next, goes_on))
    }

    /// Marks and stores a message if reports precede it; returns it otherwise.
    pub fn wait_behind_reports(&mut self, message: RoomMsg, calls: &MediaCalls) -> Option<RoomMsg> {
        // An observation waits for a role change even if no report is queued.
        let waits_for_role = matches!(message, RoomMsg::Observed(_)) && calls.is_changing_role();
        if !waits_for_role && !self.is_waiting() {
            return Some(message);
        }
        // The mark lasts if this actor fails, its message does not. The successor finds a mark without a message.
        self.behind.insert(self.queues.mark(&self.room), message);
        None
    }

    /// Returns whether anything is queued for the room.
    pub fn is_waiting(&self) -> bool {
        self.queues.is_waiting(&self.room)
    }

    /// Returns whether a ticket has to be sent for reports that a running call has kept back.
    pub fn claim_ticket(&self) -> bool {
        self.queues.claim_ticket(&self.room)
    }

    /// Replies to everything queued on behalf of a room that has ended.
    pub fn reply_as_ended(&mut self) {
        // Reports first: they arrived before the messages that wait for them.
        for waiting in self.queues.take_all(&self.room) {
            waiting.replies.send(Err(ReportError::RoomEnded));
        }
        std::mem::take(&mut self.behind)
            .into_values()
            .for_each(RoomMsg::reply_as_ended);
    }
}

#[cfg(test)]
mod tests {
    use conclave_media::{MediaEvent, Report};
    use conclave_model::Timestamp;
    use tokio::sync::oneshot;

    use super::super::commands::Target;
    use super::super::commands::tests::{begin, left};
    use super::super::message::RoomObservation;
    use super::*;
    use crate::mailbox::barrier;

    fn room() -> NamespacedRoom {
        "prj_0123456789ab.standup".parse().unwrap()
    }

    fn order() -> ReportOrder {
        ReportOrder::new(ReportQueues::default(), room())
    }

    fn report(
        order: &ReportOrder,
        event: MediaEvent,
    ) -> oneshot::Receiver<Result<(), ReportError>> {
        let (answer, result) = oneshot::channel();
        let report = Report {
            room: room(),
            at: Timestamp::from_millis(0),
            event,
        };
        let room = report.room.clone();
        order.queues.push_all(&room, [(report, answer)].into_iter());
        result
    }

    fn observed() -> RoomMsg {
        RoomMsg::Observed(Box::new(RoomObservation {
            asked_at: Timestamp::from_millis(0),
            known: Vec::new(),
            tracks: Vec::new(),
            participants: Vec::new(),
        }))
    }

    fn barrier_message() -> RoomMsg {
        RoomMsg::Barrier(barrier().0)
    }

    /// Names of the items taken until none may be handled.
    fn take_all(order: &mut ReportOrder, calls: &MediaCalls) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some((next, _)) = order.take(calls) {
            taken.push(match next {
                NextItem::Report(waiting) => waiting.report.event.identity().unwrap().to_string(),
                NextItem::Message(message) => {
                    message.map_or("none", |message| (&message).into()).into()
                }
            });
        }
        taken
    }

    #[test]
    fn a_message_waits_only_for_the_reports_that_came_before_it() {
        let (mut order, calls) = (order(), MediaCalls::default());
        assert!(
            order
                .wait_behind_reports(barrier_message(), &calls)
                .is_some()
        );
        let _alice = report(&order, left("alice"));
        assert!(
            order
                .wait_behind_reports(barrier_message(), &calls)
                .is_none()
        );
        let _bob = report(&order, left("bob"));
        assert_eq!(take_all(&mut order, &calls), ["alice", "barrier", "bob"]);
        assert!(!order.is_waiting());
    }

    #[test]
    fn while_a_role_is_changed_an_observation_and_the_reports_about_its_participant_wait() {
        let (mut order, mut calls) = (order(), MediaCalls::default());
        let change = begin(&mut calls, Target::RoleOf("alice".parse().unwrap()));
        assert!(order.wait_behind_reports(observed(), &calls).is_none());
        let _alice = report(&order, left("alice"));
        assert!(
            order
                .wait_behind_reports(barrier_message(), &calls)
                .is_none()
        );
        let _bob = report(&order, left("bob"));
        assert_eq!(take_all(&mut order, &calls), ["bob"]);
        calls.end(change);
        assert!(order.claim_ticket());
        assert_eq!(
            take_all(&mut order, &calls),
            ["observed", "alice", "barrier"]
        );
    }

    #[test]
    fn the_mark_of_an_earlier_actor_has_no_message() {
        let (mut order, calls) = (order(), MediaCalls::default());
        let _alice = report(&order, left("alice"));
        assert!(order.wait_behind_reports(observed(), &calls).is_none());
        let mut rebuilt = ReportOrder::new(order.queues.clone(), room());
        assert_eq!(take_all(&mut rebuilt, &calls), ["alice", "none"]);
    }

    #[test]
    fn the_end_of_the_room_answers_what_waits() {
        let (mut order, calls) = (order(), MediaCalls::default());
        let mut answer = report(&order, left("alice"));
        assert!(
            order
                .wait_behind_reports(barrier_message(), &calls)
                .is_none()
        );
        order.reply_as_ended();
        assert_eq!(answer.try_recv(), Ok(Err(ReportError::RoomEnded)));
        assert!(order.behind.is_empty());
        assert!(!order.is_waiting());
    }
}
