//! Queues of the media plane's reports for the room actors, and the tickets that announce them.
//!
//! # Parts
//!
//! - [`ReportQueues`]: one queue per room, shared by the media plane's side ([`Tree`](crate::Tree), which pushes) and the room actors
//!   (`room/report_order.rs`, which takes). A mutex protects the map; it is held for a few map operations, never across an await.
//! - A *ticket*: a message without content (`Reports`) that travels from `Tree` through the project to the room. At most one per room is
//!   under way, which `has_ticket` records.
//! - A *mark*: the position of a message that must not overtake earlier reports, such as a barrier or the empty timer.
//! - `Flooders`: removes participants that fill their room's queue.
//!
//! # The usual course
//!
//! 1. The media plane reports an event while it holds the lock that orders the room's events. `push` appends the report, and the caller
//!    sends a ticket if none is under way.
//! 2. The room actor gets the ticket and takes one report: the first that may be handled now. While a role change is running, reports about
//!    its participant are skipped.
//! 3. The actor writes the report and sends the reply, which admits a joining participant.
//! 4. If more reports may be handled, the actor sends the ticket to itself, behind every message that has arrived since. So a removal or
//!    the end of the room waits for at most one report, however many are queued.
//!
//! A newer mute state of a track replaces the queued one, and its result is the reply to both.
//!
//! # Failures
//!
//! - A participant changes its tracks faster than they can be written: after [`MAX_WAITING`] queued reports about an identity, further ones
//!   are refused, and the participant is removed from the media plane, once. Reports about leaves and unpublished tracks are refused later
//!   or never, since they undo accepted ones.
//! - The actor fails with a ticket in its mailbox: the project renews the ticket when it rebuilds the actor (`renew_ticket`). The queue
//!   is not part of the actor, so queued reports are not lost.
//! - The tree stops: `clear` drops the reply channels, which the media plane treats as unavailable.
//! - A reporter stops waiting: its closed channel is dropped. It reports again, or reconciliation repairs the record.
//!
//! # Why not simpler
//!
//! With reports in the mailbox, a burst of track changes would delay the removal of the participant that causes them. A second mailbox per
//! room would need its own order and supervision. A priority between messages is not enough, because some messages must stay behind earlier
//! reports; these are the marks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use conclave_media::{MediaEvent, MediaPlane, Report, ReportError};
use conclave_model::{
    Clock, Counts, Identity, NamespacedRoom, ParticipantSid, ProjectId, RoomName, Throttle,
    TrackSid,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Maximum queued reports about one identity in one room.
const MAX_WAITING: usize = 1_000;

type ReplySender = oneshot::Sender<Result<(), ReportError>>;

/// Queues of all rooms. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct ReportQueues(Arc<Mutex<HashMap<NamespacedRoom, RoomQueue>>>);

/// Entry in a room's queue.
#[derive(Debug)]
pub(crate) enum QueueEntry {
    /// Report of the media plane.
    Report(QueuedReport),
    /// Position of a message, by the mark's number.
    Mark(u64),
}

/// Queued report.
#[derive(Debug)]
pub(crate) struct QueuedReport {
    /// Report, as the media plane sent it.
    pub report: Report,
    /// Receivers of its result.
    pub replies: ReportReplies,
}

/// Receivers of a report's result.
#[derive(Debug)]
pub(crate) struct ReportReplies {
    answer: ReplySender,
    /// Receivers for reports that this one replaced.
    replaced: Vec<ReplySender>,
}

/// Entry taken by a room's actor.
#[derive(Debug)]
pub(crate) struct TakenEntry {
    pub next: QueueEntry,
    /// Whether another entry may be handled, too, so that the ticket has to be sent again.
    pub goes_on: bool,
}

/// Outcome of a push.
#[derive(Debug, PartialEq, Eq)]
enum PushOutcome {
    /// Queued. A ticket is already on its way.
    Waits,
    /// Queued, and a ticket has to be sent.
    NeedsTicket,
    /// Refused: too many reports about its identity are queued. Contains the participant to remove, the first time.
    Refused(Option<ParticipantSid>),
}

/// Outcome of a push of several reports.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PushOutcomes {
    /// Whether a ticket has to be sent.
    pub needs_ticket: bool,
    /// An entry for each refused report, with the participant to remove, the first time.
    pub refused: Vec<Option<ParticipantSid>>,
}

#[derive(Default)]
struct RoomQueue {
    next: u64,
    waiting: BTreeMap<u64, QueueEntry>,
    /// Queued reports about a track's mute state.
    mutes: HashMap<(ParticipantSid, TrackSid), u64>,
    by_identity: Counts<Identity>,
    /// Participants whose removal has been requested.
    removing: HashSet<ParticipantSid>,
    /// Whether a ticket is on its way to the room's actor.
    has_ticket: bool,
}

impl ReportReplies {
    /// Sends the result for the report, and for the reports that it replaced.
    pub fn send(self, result: Result<(), ReportError>) {
        for answer in self.replaced.into_iter().chain([self.answer]) {
            // A reporter that has stopped waiting reports again, or reconciles.
            let _ = answer.send(result);
        }
    }

    /// Adds the receiver of a report that replaces the previous one.
    fn add(&mut self, answer: ReplySender) {
        // Otherwise receivers that gave up would pile up while the store is unavailable.
        self.replaced.retain(|waiting| !waiting.is_closed());
        let replaced = std::mem::replace(&mut self.answer, answer);
        if !replaced.is_closed() {
            self.replaced.push(replaced);
        }
    }
}

impl RoomQueue {
    fn push(&mut self, report: Report, answer: ReplySender) -> PushOutcome {
        // Only the last mute state counts, so a client that toggles quickly occupies a single entry.
        // Other reports are never merged: each is an event.
        let mute = mute_key(&report.event);
        let replaced = mute
            .as_ref()
            .and_then(|key| self.mutes.get(key))
            .and_then(|at| self.waiting.get_mut(at));
        if let Some(QueueEntry::Report(waiting)) = replaced {
            waiting.report = report;
            waiting.replies.add(answer);
            return self.pushed();
        }
        if let Some(identity) = report.event.identity() {
            // Checked per identity: one participant must not fill the queue for the others.
            if self.by_identity.get(identity) >= most_waiting(&report.event) {
                let _ = answer.send(Err(ReportError::Unavailable));
                return self.refused(&report.event);
            }
            self.by_identity.add(identity.clone());
        }
        let at = self.append(QueueEntry::Report(QueuedReport {
            report,
            replies: ReportReplies {
                answer,
                replaced: Vec::new(),
            },
        }));
        if let Some(key) = mute {
            self.mutes.insert(key, at);
        }
        self.pushed()
    }

    fn append(&mut self, waiting: QueueEntry) -> u64 {
        let at = self.next;
        self.next += 1;
        self.waiting.insert(at, waiting);
        at
    }

    fn pushed(&mut self) -> PushOutcome {
        if std::mem::replace(&mut self.has_ticket, true) {
            PushOutcome::Waits
        } else {
            PushOutcome::NeedsTicket
        }
    }

    fn refused(&mut self, event: &MediaEvent) -> PushOutcome {
        PushOutcome::Refused(
            publisher(event)
                // At most once per join: further refusals must not repeat the removal.
                .filter(|sid| self.removing.insert((*sid).clone()))
                .cloned(),
        )
    }

    /// Removes and returns the first entry that may be handled. Keeps the ticket if another one may be handled, too.
    fn take(&mut self, may_handle: impl Fn(&QueueEntry, bool) -> bool) -> Option<TakenEntry> {
        // Entries are numbered in order of arrival.
        let first = self.waiting.keys().next().copied();
        let can = |(at, waiting): &(&u64, &QueueEntry)| may_handle(waiting, Some(**at) == first);
        let next = self.waiting.iter().find(can).map(|(at, _)| *at);
        let taken = next.and_then(|at| self.waiting.remove(&at));
        if let Some(QueueEntry::Report(QueuedReport { report, .. })) = &taken {
            self.forget(&report.event);
        }
        let first = self.waiting.keys().next().copied();
        let can = |(at, waiting): (&u64, &QueueEntry)| may_handle(waiting, Some(*at) == first);
        // The ticket is given up only if nothing else is ready. Otherwise the rest would never be announced.
        self.has_ticket = taken.is_some() && self.waiting.iter().any(can);
        taken.map(|next| TakenEntry {
            next,
            goes_on: self.has_ticket,
        })
    }

    /// Updates the counts after a report has left the queue.
    fn forget(&mut self, event: &MediaEvent) {
        if let Some(key) = mute_key(event) {
            self.mutes.remove(&key);
        }
        if let Some(identity) = event.identity() {
            self.by_identity.subtract(identity);
        }
    }
}

impl ReportQueues {
    /// Appends reports to a room's queue, with nothing in between.
    pub(crate) fn push_all(
        &self,
        room: &NamespacedRoom,
        reports: impl Iterator<Item = (Report, ReplySender)>,
    ) -> PushOutcomes {
        let (mut queues, mut outcomes) = (self.0.lock(), PushOutcomes::default());
        for (report, answer) in reports {
            // The name is cloned only for a room without a queue.
            let outcome = match queues.get_mut(room) {
                Some(queue) => queue.push(report, answer),
                None => queues.entry(room.clone()).or_default().push(report, answer),
            };
            match outcome {
                PushOutcome::Waits => {}
                PushOutcome::NeedsTicket => outcomes.needs_ticket = true,
                PushOutcome::Refused(flooder) => outcomes.refused.push(flooder),
            }
        }
        outcomes
    }

    /// Marks the end of a room's queue, for a message that has to stay behind the reports. Returns the mark's number.
    pub(crate) fn mark(&self, room: &NamespacedRoom) -> u64 {
        let mut queues = self.0.lock();
        let queue = queues.entry(room.clone()).or_default();
        let number = queue.next;
        queue.append(QueueEntry::Mark(number))
    }

    /// Removes and returns the first entry for which `may_handle` returns true. Its second argument is whether the entry is the first of
    /// the queue.
    pub(crate) fn take(
        &self,
        room: &NamespacedRoom,
        may_handle: impl Fn(&QueueEntry, bool) -> bool,
    ) -> Option<TakenEntry> {
        let mut queues = self.0.lock();
        let queue = queues.get_mut(room)?;
        let taken = queue.take(may_handle);
        // So that ended and idle rooms leave nothing behind.
        if queue.waiting.is_empty() {
            queues.remove(room);
        }
        taken
    }

    /// Removes and returns all reports queued for a room, and drops the marks.
    pub(crate) fn take_all(&self, room: &NamespacedRoom) -> Vec<QueuedReport> {
        let queue = self.0.lock().remove(room);
        queue
            .into_iter()
            .flat_map(|queue| queue.waiting.into_values())
            .filter_map(QueueEntry::into_report)
            .collect()
    }

    /// Returns whether anything is queued for a room.
    pub(crate) fn is_waiting(&self, room: &NamespacedRoom) -> bool {
        self.0.lock().contains_key(room)
    }

    /// Returns whether a ticket has to be sent to a room, because an entry may have become ready and none is on its way.
    pub(crate) fn claim_ticket(&self, room: &NamespacedRoom) -> bool {
        self.0
            .lock()
            .get_mut(room)
            .is_some_and(|queue| !std::mem::replace(&mut queue.has_ticket, true))
    }

    /// Returns whether a ticket has to be sent to a room whose last one may be lost.
    pub(crate) fn renew_ticket(&self, room: &NamespacedRoom) -> bool {
        self.0
            .lock()
            .get_mut(room)
            .map(|queue| queue.has_ticket = true)
            .is_some()
    }

    /// Returns a project's rooms with queued entries, whose tickets may be lost.
    pub(crate) fn renew_tickets(&self, project: &ProjectId) -> Vec<RoomName> {
        let mut queues = self.0.lock();
        let of_project = queues.iter_mut().map(|(room, queue)| (room.split(), queue));
        let of_project = of_project.filter(|((of, _), _)| of == project);
        of_project
            .map(|((_, room), queue)| {
                queue.has_ticket = true;
                room
            })
            .collect()
    }

    /// Drops all entries, whose reporters treat the closed channels as unavailable.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Returns the number of queued entries.
    pub fn waiting(&self) -> usize {
        self.0
            .lock()
            .values()
            .map(|queue| queue.waiting.len())
            .sum()
    }
}

impl QueueEntry {
    fn into_report(self) -> Option<QueuedReport> {
        match self {
            Self::Report(report) => Some(report),
            Self::Mark(_) => None,
        }
    }
}

/// Returns how many reports about one identity may be queued before this one. Reports about leaves and unpublished tracks are refused
/// last: they follow accepted reports, and a removal causes more of them.
const fn most_waiting(event: &MediaEvent) -> usize {
    match event {
        // If one were refused, its session would stay open.
        MediaEvent::ParticipantLeft { .. } | MediaEvent::JoinAborted { .. } => usize::MAX,
        // Each follows an accepted publication, and these are limited.
        MediaEvent::TrackUnpublished { .. } => 2 * MAX_WAITING,
        _ => MAX_WAITING,
    }
}

/// Returns the participant to remove when a report of this event is refused; `None` if it is not in the room yet.
const fn publisher(event: &MediaEvent) -> Option<&ParticipantSid> {
    match event {
        MediaEvent::TrackPublished { participant, .. }
        | MediaEvent::TrackUnpublished { participant, .. }
        | MediaEvent::TrackMuted { participant, .. }
        | MediaEvent::PublishLimit { participant, .. } => Some(&participant.sid),
        _ => None,
    }
}

fn mute_key(event: &MediaEvent) -> Option<(ParticipantSid, TrackSid)> {
    match event {
        MediaEvent::TrackMuted { participant, track } => {
            Some((participant.sid.clone(), track.sid.clone()))
        }
        _ => None,
    }
}

/// Minimum interval between two log lines about removed participants.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Removes participants that fill their room's queue. Not an actor, since the removal would be queued behind its messages.
pub(crate) struct Flooders {
    media: Arc<dyn MediaPlane>,
    clock: Clock,
    runtime: Handle,
    warnings: Throttle<(), Duration>,
}

impl Flooders {
    /// Creates a remover that spawns its tasks on this runtime.
    pub fn new(media: Arc<dyn MediaPlane>, clock: Clock, runtime: Handle) -> Self {
        Self {
            media,
            clock,
            runtime,
            warnings: Throttle::new(WARN_INTERVAL),
        }
    }

    /// Removes a participant from the media plane, in a spawned task.
    pub fn remove(&self, room: NamespacedRoom, sid: ParticipantSid) {
        if self.warnings.allow(self.clock.monotonic()) {
            log::warn!(
                room = room.as_str(), participant = sid.as_str();
                "removing a participant that changes its tracks faster than they can be written"
            );
        }
        let media = Arc::clone(&self.media);
        self.runtime.spawn(async move {
            // The participant may have left by itself. If not, it is removed when a report is refused after the queue was emptied.
            if let Err(error) = media.remove_participant(&room, &sid).await {
                log::debug!(room = room.as_str(), participant = sid.as_str(); "removing the participant failed: {error}");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Timestamp;
    use conclave_model::event::{Departure, ParticipantRef, TrackSummary};
    use conclave_model::participant::{TrackKind, TrackSource};

    use super::*;

    fn room() -> NamespacedRoom {
        "prj_0123456789ab.standup".parse().unwrap()
    }

    fn participant(name: &str) -> ParticipantRef {
        ParticipantRef {
            identity: name.parse().unwrap(),
            sid: format!("PA_{name}").parse().unwrap(),
            role: None,
        }
    }

    fn track(sid: &str, muted: bool) -> TrackSummary {
        TrackSummary {
            sid: sid.parse().unwrap(),
            kind: TrackKind::Audio,
            source: TrackSource::Microphone,
            muted,
        }
    }

    fn muted(name: &str, sid: &str, muted: bool) -> MediaEvent {
        MediaEvent::TrackMuted {
            participant: participant(name),
            track: track(sid, muted),
        }
    }

    fn published(name: &str, sid: &str) -> MediaEvent {
        MediaEvent::TrackPublished {
            participant: participant(name),
            track: track(sid, false),
        }
    }

    fn left(name: &str) -> MediaEvent {
        MediaEvent::ParticipantLeft {
            participant: participant(name),
            departure: Departure::Left,
        }
    }

    type Result = oneshot::Receiver<std::result::Result<(), ReportError>>;

    fn report(event: MediaEvent) -> Report {
        Report {
            room: room(),
            at: Timestamp::from_millis(0),
            event,
        }
    }

    fn push(queues: &ReportQueues, event: MediaEvent) -> (PushOutcome, Result) {
        let (answer, result) = oneshot::channel();
        let report = report(event);
        let mut outcome = queues.push_all(&room(), [(report, answer)].into_iter());
        let pushed = match outcome.refused.pop() {
            Some(flooder) => PushOutcome::Refused(flooder),
            None if outcome.needs_ticket => PushOutcome::NeedsTicket,
            None => PushOutcome::Waits,
        };
        (pushed, result)
    }

    fn take(queues: &ReportQueues) -> Option<MediaEvent> {
        let taken = queues.take(&room(), |_, _| true)?;
        taken.next.into_report().map(|waiting| {
            let event = waiting.report.event.clone();
            waiting.replies.send(Ok(()));
            event
        })
    }

    #[test]
    fn whoever_takes_the_first_report_of_a_change_finds_the_others_queued() {
        for _ in 0..200 {
            let queues = ReportQueues::default();
            let taker = queues.clone();
            let taken = std::thread::spawn(move || {
                while taker.take(&room(), |_, _| true).is_none() {
                    std::thread::yield_now();
                }
                taker.is_waiting(&room())
            });
            let change = ["alice", "bob"].map(|name| (report(left(name)), oneshot::channel().0));
            queues.push_all(&room(), change.into_iter());
            assert!(taken.join().unwrap(), "the second one is not queued");
        }
    }

    #[test]
    fn reports_are_taken_in_their_order_and_one_ticket_is_on_its_way() {
        let queues = ReportQueues::default();
        assert_eq!(
            push(&queues, published("alice", "TR_1")).0,
            PushOutcome::NeedsTicket
        );
        assert_eq!(push(&queues, left("alice")).0, PushOutcome::Waits);
        let TakenEntry { goes_on, .. } = queues.take(&room(), |_, _| true).unwrap();
        assert!(goes_on && queues.is_waiting(&room()) && !queues.claim_ticket(&room()));
        assert_eq!(take(&queues), Some(left("alice")));
        assert!(!queues.is_waiting(&room()) && take(&queues).is_none());
        assert_eq!(push(&queues, left("bob")).0, PushOutcome::NeedsTicket);
    }

    /// Proves S-49.
    #[test]
    fn a_report_of_a_tracks_mute_state_replaces_the_one_that_waits_and_answers_for_it() {
        let queues = ReportQueues::default();
        let mut results: Vec<_> = (0..10_000)
            .map(|at| push(&queues, muted("alice", "TR_1", at % 2 == 0)).1)
            .collect();
        push(&queues, muted("alice", "TR_2", true));
        assert_eq!(queues.waiting(), 2);
        assert_eq!(
            take(&queues),
            Some(muted("alice", "TR_1", false)),
            "the newest state"
        );
        assert!(
            results
                .iter_mut()
                .all(|result| result.try_recv() == Ok(Ok(())))
        );
        // A report that is being handled is not replaced.
        push(&queues, muted("alice", "TR_1", true));
        assert_eq!(
            (take(&queues), take(&queues)),
            (
                Some(muted("alice", "TR_2", true)),
                Some(muted("alice", "TR_1", true))
            )
        );
    }

    #[test]
    fn who_fills_the_queue_is_refused_and_to_be_removed_once_and_others_are_not() {
        let queues = ReportQueues::default();
        for number in 0..MAX_WAITING {
            assert_ne!(
                push(&queues, published("alice", &format!("TR_{number}"))).0,
                PushOutcome::Refused(None)
            );
        }
        let (pushed, mut result) = push(&queues, published("alice", "TR_x"));
        assert_eq!(
            pushed,
            PushOutcome::Refused(Some("PA_alice".parse().unwrap()))
        );
        assert_eq!(result.try_recv(), Ok(Err(ReportError::Unavailable)));
        assert_eq!(
            push(&queues, muted("alice", "TR_x", true)).0,
            PushOutcome::Refused(None),
            "the removal is on its way"
        );
        assert_eq!(
            push(&queues, left("alice")).0,
            PushOutcome::Waits,
            "a leave is always queued"
        );
        assert_eq!(
            push(&queues, published("bob", "TR_b")).0,
            PushOutcome::Waits
        );
        while take(&queues).is_some() {}
        assert_eq!(
            push(&queues, published("alice", "TR_x")).0,
            PushOutcome::NeedsTicket
        );
    }

    #[test]
    fn what_may_not_be_handled_yet_waits_without_a_ticket_and_a_mark_waits_behind_it() {
        let queues = ReportQueues::default();
        push(&queues, left("alice"));
        let mark = queues.mark(&room());
        push(&queues, left("bob"));
        let is_held = |waiting: &QueueEntry, is_first: bool| match waiting {
            QueueEntry::Report(waiting) => waiting.report.event == left("alice"),
            QueueEntry::Mark(_) => !is_first,
        };
        let TakenEntry { next, goes_on } = queues
            .take(&room(), |waiting, is_first| !is_held(waiting, is_first))
            .unwrap();
        assert!(
            next.into_report()
                .is_some_and(|waiting| waiting.report.event == left("bob"))
                && !goes_on
        );
        assert!(
            queues
                .take(&room(), |waiting, is_first| !is_held(waiting, is_first))
                .is_none()
        );
        assert!(queues.claim_ticket(&room()) && !queues.claim_ticket(&room()));
        assert_eq!(take(&queues), Some(left("alice")));
        let TakenEntry { next, goes_on } = queues.take(&room(), |_, is_first| is_first).unwrap();
        assert!(matches!(next, QueueEntry::Mark(number) if number == mark) && !goes_on);
    }

    #[test]
    fn what_waits_outlives_an_actor_and_its_ticket() {
        let queues = ReportQueues::default();
        assert!(!queues.renew_ticket(&room()));
        push(&queues, left("alice"));
        assert!(queues.renew_ticket(&room()));
        assert_eq!(queues.renew_tickets(&room().split().0), [room().split().1]);
        assert_eq!(
            queues.renew_tickets(&"prj_ffffffffffff".parse().unwrap()),
            []
        );
        assert_eq!((queues.take_all(&room()).len(), queues.waiting()), (1, 0));
    }
}
