//! One node is active at a time, and no other node writes.

use std::collections::{BTreeMap, BTreeSet};

use super::Evidence;
use crate::cluster::{Round, Takeovers};
use crate::records::{Records, text};

/// All writes in an epoch come from one process.
pub fn each_epoch_has_one_writer(evidence: &Evidence) -> Vec<String> {
    let mut writers: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
    for writer in &evidence.writers {
        writers
            .entry(writer.epoch)
            .or_default()
            .insert(&writer.name);
    }
    let several = writers.iter().filter(|(_, names)| names.len() > 1);
    several
        .map(|(epoch, names)| format!("{names:?} have written in the epoch {epoch}"))
        .collect()
}

/// A replaced node neither performs requests nor acknowledges them.
pub fn a_replaced_node_does_nothing(evidence: &Evidence, records: &Records) -> Vec<String> {
    let rooms: BTreeSet<&str> = records
        .rooms
        .iter()
        .map(|room| text(room, "name"))
        .collect();
    let late = evidence.late.iter();
    late.filter_map(|request| {
        let is_there = rooms.contains(request.room.as_str());
        let is_acknowledged = request
            .status
            .is_some_and(|status| (200..300).contains(&status));
        let status = request.status;
        (is_there || is_acknowledged).then(|| {
            format!(
                "the room {} of a replaced node was answered with {status:?}, is there: {is_there}",
                request.room
            )
        })
    })
    .collect()
}

/// The lease moves as often as the scenario expects.
pub fn the_lease_moves_as_expected(evidence: &Evidence) -> Vec<String> {
    let expected = match evidence.scenario.takeovers() {
        Takeovers::None => 0,
        Takeovers::One => 1,
        Takeovers::Any => return Vec::new(),
    };
    let unexpected = evidence
        .rounds
        .iter()
        .filter(|round| round.epochs.1 - round.epochs.0 != expected);
    unexpected
        .map(|round| {
            format!(
                "the epochs of round {} are {:?}",
                round.number, round.epochs
            )
        })
        .collect()
}

/// Only the processes that a scenario ends exit, once in each round.
pub fn no_process_ends_by_itself(evidence: &Evidence) -> Vec<String> {
    let of_round = |round: &Round| {
        let expected = |node| {
            let ends = evidence.scenario.ends_process(round.failed.contains(&node));
            usize::from(ends) + usize::from(round.ends_again == Some(node))
        };
        let wrong = round
            .exits
            .iter()
            .enumerate()
            .filter(|(node, exits)| **exits != expected(*node));
        let number = round.number;
        let describe = |(node, exits)| {
            format!("{exits} processes of node {node} have ended by the end of round {number}")
        };
        wrong.map(describe).collect::<Vec<_>>()
    };
    evidence.rounds.iter().flat_map(of_round).collect()
}

/// No delivery is marked as delivered twice.
pub fn deliveries_are_marked_once(evidence: &Evidence) -> Vec<String> {
    evidence
        .marked_twice
        .iter()
        .map(|id| format!("the delivery {id} was marked as delivered twice"))
        .collect()
}

/// Violations recorded during the rounds.
pub fn rounds_saw_nothing_wrong(evidence: &Evidence) -> Vec<String> {
    let of_round = |round: &Round| {
        let number = round.number;
        round
            .violations
            .iter()
            .map(move |violation| format!("round {number}: {violation}"))
            .collect::<Vec<_>>()
    };
    evidence.rounds.iter().flat_map(of_round).collect()
}
