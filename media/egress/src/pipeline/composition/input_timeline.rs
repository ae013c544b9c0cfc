//! Composition inputs over time.
//!
//! The composition runs behind the call. An input change therefore waits until the composition
//! reaches its moment, so that audio and video sent before a leave or mute are still composed.

use std::collections::VecDeque;
use std::time::Duration;

use crate::pipeline::InputParticipant;

// One frame at 30 frames per second. A client that toggles its tracks in a loop cannot make the
// list grow faster than that.
const MERGE_WINDOW: Duration = Duration::from_millis(30);

/// Current and scheduled inputs.
#[derive(Debug, Default)]
pub struct InputTimeline {
    current: Vec<InputParticipant>,
    has_started: bool,
    scheduled: VecDeque<(Duration, Vec<InputParticipant>)>,
}

impl InputTimeline {
    /// Schedules inputs from `at` on, since the egress's start. The first inputs apply from the
    /// start. `at` never decreases.
    pub fn schedule(&mut self, at: Duration, inputs: Vec<InputParticipant>) {
        // The file starts with the egress, and its first frames must not be empty.
        let at = if std::mem::replace(&mut self.has_started, true) {
            at
        } else {
            Duration::ZERO
        };
        // A merged change keeps the earlier moment, so a steady stream of changes cannot delay it.
        match self.scheduled.back_mut() {
            Some((start, latest)) if at.saturating_sub(*start) < MERGE_WINDOW => *latest = inputs,
            _ => self.scheduled.push_back((at, inputs)),
        }
    }

    /// Advances to a moment. Returns whether the inputs changed.
    pub fn advance(&mut self, to: Duration) -> bool {
        let mut has_changed = false;
        while self.scheduled.front().is_some_and(|(at, _)| *at <= to) {
            if let Some((_, inputs)) = self.scheduled.pop_front() {
                self.current = inputs;
                has_changed = true;
            }
        }
        has_changed
    }

    pub fn current(&self) -> &[InputParticipant] {
        &self.current
    }

    /// Returns all known inputs, the latest scheduled ones first and the current ones last.
    pub fn latest_first(&self) -> impl Iterator<Item = &[InputParticipant]> {
        self.scheduled
            .iter()
            .rev()
            .map(|(_, inputs)| inputs.as_slice())
            .chain([self.current.as_slice()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(identity: &str) -> Vec<InputParticipant> {
        let (sid, identity) = (
            format!("PA_{identity}").parse().unwrap(),
            identity.parse().unwrap(),
        );
        vec![InputParticipant {
            sid,
            identity,
            name: String::new(),
            tracks: Vec::new(),
        }]
    }

    #[test]
    fn changes_apply_at_their_time_and_close_ones_are_merged() {
        let millis = Duration::from_millis;
        let mut timeline = InputTimeline::default();
        timeline.schedule(millis(7), only("alice"));
        assert!(timeline.advance(Duration::ZERO));
        (0..1_000).for_each(|change| timeline.schedule(millis(100 + change), only("bob")));
        timeline.schedule(millis(1_099), only("carol"));
        assert!(
            timeline.scheduled.len() < 40,
            "{}",
            timeline.scheduled.len()
        );
        assert!(!timeline.advance(millis(99)) && timeline.current() == only("alice"));
        assert!(timeline.advance(millis(100)) && timeline.current() == only("bob"));
        assert_eq!(
            timeline.latest_first().next(),
            Some(only("carol").as_slice())
        );
        assert!(timeline.advance(millis(1_099)) && timeline.current() == only("carol"));
    }
}
