//! Clients see no more errors than a scenario allows, and not for longer.

use std::time::Duration;

use super::Evidence;
use crate::cluster::{Round, Tolerance, median};
use crate::journal::{Action, Entry};

/// p99 latency limit while nodes are replaced.
const P99_LIMIT: Duration = Duration::from_secs(3);

/// No request fails outside a scenario's tolerance. Without a fault no request may fail; during one, requests to the failed nodes may, and
/// all requests may if nodes do not forward.
pub fn requests_succeed(evidence: &Evidence) -> Vec<String> {
    let failed = evidence
        .entries
        .iter()
        .filter(|entry| entry.has_failed() && !is_allowed(entry, evidence));
    failed.map(|entry| describe(entry, evidence)).collect()
}

fn is_allowed(entry: &Entry, evidence: &Evidence) -> bool {
    // An erasure waits for LiveKit's report that the participant has left, and is then repeated.
    if matches!(entry.action, Action::Erase { .. }) && entry.was_refused_with("media_unavailable") {
        return true;
    }
    let tolerance = if evidence.passes_on {
        evidence.scenario.tolerance()
    } else {
        Tolerance::Anything
    };
    let is_allowed = |round: &Round| {
        let is_tolerated = match tolerance {
            Tolerance::Nothing => false,
            Tolerance::Unrepeatable => !entry.is_repeatable(),
            Tolerance::Anything => true,
        };
        is_tolerated || round.failed.contains(&entry.node)
    };
    let aftermath = evidence.scenario.aftermath();
    let is_within =
        |round: &&Round| entry.ended >= round.began && entry.sent <= round.ended + aftermath;
    evidence.rounds.iter().filter(is_within).any(is_allowed)
}

fn describe(entry: &Entry, evidence: &Evidence) -> String {
    let round = evidence
        .rounds
        .iter()
        .find(|round| round.overlaps(entry.sent, entry.ended));
    let when = round.map_or_else(
        || "without a fault".to_owned(),
        |round| {
            let after = entry
                .sent
                .saturating_duration_since(round.began)
                .as_secs_f64();
            format!("{after:.1} s after the start of round {}", round.number)
        },
    );
    let answer = entry.answer.as_ref().map_or_else(
        || "not answered".to_owned(),
        |answer| format!("{}: {}", answer.status, answer.body),
    );
    let took = (entry.ended - entry.sent).as_secs_f64();
    format!(
        "{:?}, sent to node {} {when}, was after {took:.1} s {answer}",
        entry.action, entry.node
    )
}

/// Every node finds a room whose creation was acknowledged.
pub fn reads_find_what_was_written(evidence: &Evidence) -> Vec<String> {
    let missed = evidence
        .entries
        .iter()
        .filter(|entry| entry.is_read_that_missed());
    missed.map(|entry| describe(entry, evidence)).collect()
}

/// Changes succeed again within the scenario's limits.
pub fn changes_return_in_time(evidence: &Evidence) -> Vec<String> {
    let mut violations: Vec<_> = evidence
        .rounds
        .iter()
        .filter(|round| round.writes_after.is_none())
        .map(|round| {
            format!(
                "no change succeeded after the fault of round {}",
                round.number
            )
        })
        .collect();
    let Some(limit) = evidence.scenario.limit().filter(|_| evidence.is_timed) else {
        return violations;
    };
    let mut times: Vec<_> = evidence
        .rounds
        .iter()
        .filter_map(|round| round.writes_after)
        .collect();
    times.sort_unstable();
    let late = evidence.rounds.iter().filter(|round| {
        round
            .writes_after
            .is_some_and(|after| after >= limit.longest)
    });
    violations.extend(late.map(|round| {
        format!(
            "changes succeeded only after {:?} in round {}",
            round.writes_after.unwrap_or_default(),
            round.number
        )
    }));
    let half = median(&times);
    if half >= limit.median {
        violations.push(format!("the median until changes succeeded is {half:?}"));
    }
    violations
}

/// While nodes are replaced, the p99 latency stays within its limit.
pub fn replacements_are_hardly_noticed(evidence: &Evidence) -> Vec<String> {
    let p99 = p99(evidence);
    let is_judged = evidence.is_timed && evidence.passes_on;
    let is_slow =
        is_judged && evidence.scenario.tolerance() == Tolerance::Nothing && p99 >= P99_LIMIT;
    is_slow
        .then(|| format!("the p99 of all requests during the rounds is {p99:?}"))
        .into_iter()
        .collect()
}

/// Returns the p99 latency of requests that were sent or answered during a round.
pub fn p99(evidence: &Evidence) -> Duration {
    let during = |entry: &&Entry| {
        evidence
            .rounds
            .iter()
            .any(|round| round.overlaps(entry.sent, entry.ended))
    };
    let requests = evidence
        .entries
        .iter()
        .filter(|entry| entry.action.is_request());
    let mut times: Vec<_> = requests
        .filter(during)
        .map(|entry| entry.ended - entry.sent)
        .collect();
    times.sort_unstable();
    times
        .get(times.len() * 99 / 100)
        .copied()
        .unwrap_or_default()
}
