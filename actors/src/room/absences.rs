//! Participants with an open session whom the media plane does not list.

use std::collections::HashMap;
use std::time::Duration;

use conclave_model::{ParticipantSid, Timestamp};

/// The participants that the last list lacked, each with the time of the first list in a row that did.
#[derive(Debug, Default)]
pub(super) struct Absences(HashMap<ParticipantSid, Timestamp>);

impl Absences {
    /// Records the participants that a list of the time `at` lacks. Returns those who have been absent for `grace` or longer, and
    /// forgets all others that were absent before.
    pub fn record(
        &mut self,
        absent: Vec<ParticipantSid>,
        at: Timestamp,
        grace: Duration,
    ) -> Vec<ParticipantSid> {
        let before = std::mem::take(&mut self.0);
        let mut lost = Vec::new();
        for sid in absent {
            // Later than `at` if the clock was set back.
            let since = before.get(&sid).map_or(at, |since| at.min(*since));
            if since.after(grace) <= at {
                lost.push(sid);
            } else {
                self.0.insert(sid, since);
            }
        }
        lost
    }

    /// Returns when the participant that is absent for longest has been so for `grace`; `None` if no participant is absent.
    pub fn next_verdict(&self, grace: Duration) -> Option<Timestamp> {
        self.0.values().min().map(|since| since.after(grace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(10);

    fn record(absences: &mut Absences, absent: &[&str], at: i64, grace: Duration) -> Vec<String> {
        let absent = absent.iter().map(|sid| sid.parse().unwrap()).collect();
        let lost = absences.record(absent, Timestamp::from_millis(at), grace);
        lost.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_participant_is_lost_when_two_lists_in_a_row_lack_it_that_are_far_enough_apart() {
        let mut absences = Absences::default();
        assert!(record(&mut absences, &["PA_1"], 0, GRACE).is_empty());
        assert!(
            record(&mut absences, &["PA_1", "PA_2"], 9, GRACE).is_empty(),
            "the lists are too close"
        );
        assert_eq!(
            absences.next_verdict(GRACE),
            Some(Timestamp::from_millis(10))
        );
        assert_eq!(
            record(&mut absences, &["PA_1", "PA_2"], 10, GRACE),
            ["PA_1"]
        );
        assert_eq!(
            absences.next_verdict(GRACE),
            Some(Timestamp::from_millis(19))
        );
        assert!(record(&mut absences, &[], 20, GRACE).is_empty());
        assert_eq!(absences.next_verdict(GRACE), None);
        assert!(
            record(&mut absences, &["PA_2"], 30, GRACE).is_empty(),
            "it was listed in between"
        );
        assert_eq!(record(&mut absences, &["PA_2"], 40, GRACE), ["PA_2"]);
    }

    #[test]
    fn an_absence_that_a_clock_ahead_recorded_counts_from_the_next_list() {
        let mut absences = Absences::default();
        assert!(record(&mut absences, &["PA_1"], 1_000, GRACE).is_empty());
        assert!(record(&mut absences, &["PA_1"], 0, GRACE).is_empty());
        assert_eq!(record(&mut absences, &["PA_1"], 10, GRACE), ["PA_1"]);
    }

    #[test]
    fn without_a_grace_the_first_absence_counts() {
        assert_eq!(
            record(&mut Absences::default(), &["PA_1"], 0, Duration::ZERO),
            ["PA_1"]
        );
    }
}
