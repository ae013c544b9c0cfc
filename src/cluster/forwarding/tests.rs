use proptest::prelude::*;

use super::*;

const HOLD: Duration = Duration::from_secs(10);

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn forwarding(repeat: Repeat) -> Forwarding {
    Forwarding::new(repeat, HOLD)
}

#[test]
fn a_request_is_sent_to_the_active_node_at_once() {
    let mut sent = forwarding(Repeat::UnlessReached);
    assert_eq!(sent.step(at(5), Some(1)), ForwardStep::Send);
    assert!(sent.counts(Some(1)) && sent.counts(None) && !sent.counts(Some(2)));
}

#[test]
fn a_request_is_held_for_ten_seconds_and_sent_when_a_node_is_active() {
    let mut held = forwarding(Repeat::UnlessReached);
    assert_eq!(held.step(at(0), None), ForwardStep::WaitUntil(at(10_000)));
    assert_eq!(
        held.step(at(9_999), None),
        ForwardStep::WaitUntil(at(10_000))
    );
    assert_eq!(held.step(at(9_999), Some(1)), ForwardStep::Send);
    let mut given_up = forwarding(Repeat::Always);
    assert_eq!(
        given_up.step(at(0), None),
        ForwardStep::WaitUntil(at(10_000))
    );
    assert_eq!(
        given_up.step(at(10_000), Some(1)),
        ForwardStep::GiveUp(ForwardFailure::NotTaken)
    );
}

#[test]
fn what_did_not_reach_the_node_is_sent_to_it_again_after_a_moment_and_to_the_next_one_at_once() {
    for outcome in [AttemptFailure::NotReached, AttemptFailure::Refused] {
        let mut sent = forwarding(Repeat::UnlessReached);
        assert_eq!(sent.step(at(0), Some(1)), ForwardStep::Send);
        sent.failed(at(10), outcome, true);
        assert_eq!(sent.step(at(10), Some(1)), ForwardStep::WaitUntil(at(35)));
        assert_eq!(sent.step(at(10), None), ForwardStep::WaitUntil(at(10_010)));
        assert_eq!(sent.step(at(35), Some(1)), ForwardStep::Send);
        sent.failed(at(40), outcome, true);
        assert_eq!(sent.step(at(40), Some(1)), ForwardStep::WaitUntil(at(90)));
        assert_eq!(sent.step(at(41), Some(2)), ForwardStep::Send);
    }
}

#[test]
fn a_node_that_stops_gets_nothing_more() {
    let mut sent = forwarding(Repeat::UnlessReached);
    assert_eq!(sent.step(at(0), Some(1)), ForwardStep::Send);
    sent.failed(at(1), AttemptFailure::Stopping, true);
    assert_eq!(
        sent.step(at(5_000), Some(1)),
        ForwardStep::WaitUntil(at(10_001))
    );
    assert_eq!(sent.step(at(5_000), Some(2)), ForwardStep::Send);
}

#[test]
fn a_change_that_may_have_happened_is_not_sent_again() {
    let mut change = forwarding(Repeat::UnlessReached);
    assert_eq!(change.step(at(0), Some(1)), ForwardStep::Send);
    change.failed(at(1), AttemptFailure::Broken, true);
    assert_eq!(
        change.step(at(1), Some(2)),
        ForwardStep::GiveUp(ForwardFailure::NodeLost)
    );
}

#[test]
fn a_request_that_breaks_off_at_three_nodes_is_given_up() {
    let mut poison = forwarding(Repeat::Always);
    for epoch in 1..=3 {
        assert_eq!(poison.step(at(0), Some(epoch)), ForwardStep::Send);
        poison.failed(at(0), AttemptFailure::Broken, true);
    }
    assert_eq!(
        poison.step(at(0), Some(4)),
        ForwardStep::GiveUp(ForwardFailure::BrokeOff)
    );
}

#[test]
fn a_node_that_breaks_off_each_attempt_is_tried_until_another_is_active_or_the_hold_ends() {
    for successor in [Some(2), None] {
        let mut sent = forwarding(Repeat::Always);
        let mut now = at(0);
        while now < at(9_000) {
            match sent.step(now, Some(1)) {
                ForwardStep::Send => sent.failed(now, AttemptFailure::Broken, true),
                ForwardStep::WaitUntil(until) => now = until,
                ForwardStep::GiveUp(failure) => panic!("given up after {now:?}: {failure:?}"),
            }
        }
        match successor {
            Some(_) => assert_eq!(sent.step(now, successor), ForwardStep::Send),
            None => assert_eq!(
                sent.step(at(10_000), successor),
                ForwardStep::GiveUp(ForwardFailure::BrokeOff)
            ),
        }
    }
}

#[test]
fn a_request_that_was_not_kept_is_not_sent_again() {
    for (outcome, failure) in [
        (AttemptFailure::Refused, ForwardFailure::NotTaken),
        (AttemptFailure::Broken, ForwardFailure::BrokeOff),
    ] {
        let mut large = forwarding(Repeat::Always);
        assert_eq!(large.step(at(0), Some(1)), ForwardStep::Send);
        large.failed(at(1), outcome, false);
        assert_eq!(large.step(at(1), Some(2)), ForwardStep::GiveUp(failure));
    }
}

/// Change in a request's environment: the active node, an attempt's outcome, or elapsed time.
#[derive(Debug, Clone)]
enum Event {
    Active(Option<i64>),
    Ends(AttemptFailure),
    Passes(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        prop_oneof![Just(None), (1..5_i64).prop_map(Some)].prop_map(Event::Active),
        prop_oneof![
            Just(AttemptFailure::NotReached),
            Just(AttemptFailure::Refused),
            Just(AttemptFailure::Stopping),
            Just(AttemptFailure::Broken)
        ]
        .prop_map(Event::Ends),
        (0..4_000_u64).prop_map(Event::Passes),
    ]
}

/// A request with its caller's state.
struct Run {
    forwarding: Forwarding,
    now: Duration,
    active: Option<i64>,
    /// Start of its wait, ignoring attempts that did not reach a node.
    waits_since: Option<Duration>,
    /// Last attempt's epoch.
    sent_to: Option<i64>,
    /// Number of nodes whose connection broke while they had the request, and the last one's epoch.
    breaks: u32,
    broken_in: Option<i64>,
}

impl Run {
    fn new(repeat: Repeat) -> Self {
        let (now, active) = (Duration::ZERO, None);
        let forwarding = forwarding(repeat);
        Self {
            forwarding,
            now,
            active,
            waits_since: None,
            sent_to: None,
            breaks: 0,
            broken_in: None,
        }
    }

    /// Returns whether it has waited for the whole buffer time.
    fn has_waited(&self) -> bool {
        self.waits_since
            .is_some_and(|since| self.now >= since + HOLD)
    }

    /// Makes one step, and checks the invariants. Returns whether a node has it, and the failure if it was given up.
    fn step(&mut self) -> (bool, Option<ForwardFailure>) {
        match self.forwarding.step(self.now, self.active) {
            ForwardStep::Send => {
                assert!(
                    self.active.is_some(),
                    "nothing is sent while no node is active"
                );
                self.sent_to = self.active;
                (true, None)
            }
            ForwardStep::WaitUntil(until) => {
                assert!(until > self.now, "a wait has an end in the future");
                let since = *self.waits_since.get_or_insert(self.now);
                assert!(
                    until <= since + HOLD,
                    "no request waits for longer than the hold"
                );
                (false, None)
            }
            ForwardStep::GiveUp(failure) => (false, Some(failure)),
        }
    }
}

proptest! {
    #[test]
    fn no_change_is_sent_twice_no_request_waits_for_ever_and_none_is_given_up_without_cause(
        repeats in any::<bool>(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut run = Run::new(if repeats { Repeat::Always } else { Repeat::UnlessReached });
        let mut is_sent = false;
        for event in events {
            match event {
                Event::Active(active) => run.active = active,
                Event::Passes(millis) => run.now += at(millis),
                Event::Ends(outcome) if is_sent => {
                    is_sent = false;
                    run.forwarding.failed(run.now, outcome, true);
                    let breaks_anew = outcome == AttemptFailure::Broken && run.broken_in != run.sent_to;
                    if breaks_anew {
                        run.breaks += 1;
                        run.broken_in = run.sent_to;
                    }
                    run.waits_since = if breaks_anew { Some(run.now) } else { run.waits_since.or(Some(run.now)) };
                }
                Event::Ends(_) => {}
            }
            if is_sent {
                continue;
            }
            let (sent, failure) = run.step();
            is_sent = sent;
            let most_breaks = if repeats { MOST_BREAKS } else { 1 };
            match failure {
                None => prop_assert!(run.breaks < most_breaks),
                Some(ForwardFailure::NodeLost) => prop_assert!(!repeats && run.breaks == 1),
                Some(ForwardFailure::BrokeOff) => prop_assert!(repeats && (run.breaks == MOST_BREAKS || run.has_waited())),
                Some(ForwardFailure::NotTaken) => prop_assert!(run.breaks == 0 && run.has_waited()),
            }
            if failure.is_some() {
                break;
            }
        }
    }

    #[test]
    fn a_request_without_a_break_is_sent_to_each_next_node_within_the_hold(
        gaps in prop::collection::vec(0..9_000_u64, 1..20),
    ) {
        let mut forwarding = forwarding(Repeat::UnlessReached);
        let (mut now, mut held) = (Duration::ZERO, Duration::ZERO);
        for (epoch, gap) in (1..).zip(gaps) {
            if held + at(gap) >= HOLD {
                break;
            }
            prop_assert!(matches!(forwarding.step(now, None), ForwardStep::WaitUntil(_)));
            (now, held) = (now + at(gap), held + at(gap));
            prop_assert_eq!(forwarding.step(now, Some(epoch)), ForwardStep::Send);
            forwarding.failed(now, AttemptFailure::Stopping, true);
        }
    }
}
