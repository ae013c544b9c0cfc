use conclave_model::Timestamp;
use conclave_model::event::Departure;
use conclave_model::event::{ParticipantRef, TrackSummary};
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

fn push(queues: &ReportQueues, event: MediaEvent) -> (Pushed, Result) {
    let (answer, result) = oneshot::channel();
    let report = Report {
        room: room(),
        at: Timestamp::from_millis(0),
        event,
    };
    (queues.push(report, answer), result)
}

fn take(queues: &ReportQueues) -> Option<MediaEvent> {
    let taken = queues.take(&room(), |_, _| true)?;
    taken.next.into_report().map(|waiting| {
        let event = waiting.report.event.clone();
        waiting.answers.send(Ok(()));
        event
    })
}

#[test]
fn reports_are_taken_in_their_order_and_one_ticket_is_on_its_way() {
    let queues = ReportQueues::default();
    assert_eq!(
        push(&queues, published("alice", "TR_1")).0,
        Pushed::NeedsTicket
    );
    assert_eq!(push(&queues, left("alice")).0, Pushed::Waits);
    let Taken { goes_on, .. } = queues.take(&room(), |_, _| true).unwrap();
    assert!(goes_on && queues.is_waiting(&room()) && !queues.claim_ticket(&room()));
    assert_eq!(take(&queues), Some(left("alice")));
    assert!(!queues.is_waiting(&room()) && take(&queues).is_none());
    assert_eq!(push(&queues, left("bob")).0, Pushed::NeedsTicket);
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
    // The one that is being handled is not replaced.
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
            Pushed::Refused(None)
        );
    }
    let (pushed, mut result) = push(&queues, published("alice", "TR_x"));
    assert_eq!(pushed, Pushed::Refused(Some("PA_alice".parse().unwrap())));
    assert_eq!(result.try_recv(), Ok(Err(ReportError::Unavailable)));
    assert_eq!(
        push(&queues, muted("alice", "TR_x", true)).0,
        Pushed::Refused(None),
        "the removal is on its way"
    );
    assert_eq!(
        push(&queues, left("alice")).0,
        Pushed::Waits,
        "an end is always taken"
    );
    assert_eq!(push(&queues, published("bob", "TR_b")).0, Pushed::Waits);
    while take(&queues).is_some() {}
    assert_eq!(
        push(&queues, published("alice", "TR_x")).0,
        Pushed::NeedsTicket
    );
}

#[test]
fn what_may_not_be_handled_yet_waits_without_a_ticket_and_a_mark_waits_behind_it() {
    let queues = ReportQueues::default();
    push(&queues, left("alice"));
    let mark = queues.mark(&room());
    push(&queues, left("bob"));
    let is_held = |waiting: &Waiting, is_first: bool| match waiting {
        Waiting::Report(waiting) => waiting.report.event == left("alice"),
        Waiting::Mark(_) => !is_first,
    };
    let Taken { next, goes_on } = queues
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
    let Taken { next, goes_on } = queues.take(&room(), |_, is_first| is_first).unwrap();
    assert!(matches!(next, Waiting::Mark(number) if number == mark) && !goes_on);
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
