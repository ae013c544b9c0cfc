//! Sequence numbers that go on across changes of the source.

use std::collections::VecDeque;

/// Maps the sequence numbers of changing sources to one series without gaps at the changes, and at packets of a source that are not
/// sent on purpose.
#[derive(Debug, Clone)]
pub struct SequenceNumbers {
    /// One above the highest number handed out.
    next: u64,
    /// The source's first accepted number, and the number it was mapped to.
    anchor: Option<(u64, u64)>,
    /// One above the highest number of the source that was rewritten or skipped.
    source_next: u64,
    skipped: Skipped,
}

/// Numbers of a source that are not in the series.
#[derive(Debug, Clone, Default)]
struct Skipped {
    /// The last ones, ascending.
    recent: VecDeque<u64>,
    /// How many there were before these.
    forgotten: u64,
    /// The last one of those.
    last_forgotten: u64,
}

/// How many skipped numbers are remembered. Packets that come later than all of them are dropped.
const REMEMBERED: usize = 512;

impl Skipped {
    fn push(&mut self, number: u64) {
        if self.recent.len() == REMEMBERED
            && let Some(oldest) = self.recent.pop_front()
        {
            self.forgotten += 1;
            self.last_forgotten = oldest;
        }
        self.recent.push_back(number);
    }

    /// Returns how many there are before a number; `None` if it is one of them, or if that is forgotten.
    fn before(&self, number: u64) -> Option<u64> {
        if self.forgotten > 0 && number <= self.last_forgotten {
            return None;
        }
        let position = self.recent.binary_search(&number).err()?;
        Some(self.forgotten + u64::try_from(position).ok()?)
    }
}

impl SequenceNumbers {
    /// Starts a series with this number.
    pub const fn new(first: u16) -> Self {
        let skipped = Skipped {
            recent: VecDeque::new(),
            forgotten: 0,
            last_forgotten: 0,
        };
        Self {
            next: first as u64,
            anchor: None,
            source_next: 0,
            skipped,
        }
    }

    /// Continues the series with a source whose first packet has this number.
    pub fn switch(&mut self, first: u64) {
        self.anchor = Some((first, self.next));
        self.source_next = first;
        self.skipped = Skipped::default();
    }

    /// Returns the number of a packet that is of no source. After it, the series goes on with the next change of the source.
    pub const fn insert(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.anchor = None;
        number
    }

    /// Notes that a packet of the source is not sent, so that the series has no gap for it. One that comes late has left a gap: returns its
    /// number in the series, which nothing else gets if each packet comes once.
    pub fn skip(&mut self, sequence: u64) -> Option<u64> {
        let (first, mapped) = self.anchor?;
        if sequence < self.source_next {
            return Some(mapped + sequence.checked_sub(first)? - self.skipped.before(sequence)?);
        }
        self.source_next = sequence + 1;
        self.skipped.push(sequence);
        None
    }

    /// Returns the number of a packet of the source in the series; `None` for one from before the source was chosen, and for one
    /// that was skipped.
    pub fn rewrite(&mut self, sequence: u64) -> Option<u64> {
        let (first, mapped) = self.anchor?;
        let number = mapped + sequence.checked_sub(first)? - self.skipped.before(sequence)?;
        self.source_next = self.source_next.max(sequence + 1);
        self.next = self.next.max(number + 1);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Packets of a source as they arrive: shuffled within some packets, some twice, some never.
    fn arrivals() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0..5_u64, 0..8_u8), 1..1_500).prop_map(|packets| {
            let mut arrivals = Vec::new();
            for (number, (delay, fate)) in (10..).zip(packets) {
                let copies = match fate {
                    0 => 0,
                    1 => 2,
                    _ => 1,
                };
                arrivals.extend(std::iter::repeat_n((number + delay, number), copies));
            }
            arrivals.sort_unstable();
            arrivals.into_iter().map(|(_, number)| number).collect()
        })
    }

    proptest! {
        #[test]
        fn the_series_is_that_of_the_source_without_what_is_skipped(
            arrivals in arrivals(), is_skipped in prop::collection::vec(any::<bool>(), 1_600),
        ) {
            let mut numbers = SequenceNumbers::new(100);
            numbers.switch(10);
            let (mut sent, mut skipped, mut gaps) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
            for arrival in arrivals {
                if is_skipped[usize::try_from(arrival).unwrap()] {
                    if skipped.insert(arrival) && let Some(gap) = numbers.skip(arrival) {
                        prop_assert!(gaps.insert(gap), "no gap is named twice");
                    }
                } else if let Some(number) = numbers.rewrite(arrival) {
                    let before = sent.insert(arrival, number);
                    prop_assert!(before.is_none_or(|before| before == number), "a copy has the number of the packet");
                }
            }
            let distinct: BTreeSet<_> = sent.values().collect();
            prop_assert_eq!(distinct.len(), sent.len(), "no number is given twice");
            prop_assert!(distinct.iter().all(|number| !gaps.contains(number)), "a gap has no packet");
            for ((before, first), (after, second)) in sent.iter().zip(sent.iter().skip(1)) {
                prop_assert!(first < second && second - first <= after - before, "in the order of the source");
            }
            let next = sent.values().last().map_or(100, |last| last + 1);
            numbers.switch(5_000);
            prop_assert_eq!(numbers.rewrite(5_000), Some(next));
        }

        #[test]
        fn what_arrives_late_leaves_no_gap_that_is_not_named(
            delays in prop::collection::vec(0..5_u64, 1..1_500), is_skipped in prop::collection::vec(any::<bool>(), 1_500),
        ) {
            let mut numbers = SequenceNumbers::new(100);
            numbers.switch(10);
            let mut arrivals: Vec<_> = (10..).zip(delays).map(|(number, delay)| (number + delay, number)).collect();
            arrivals.sort_unstable();
            let mut series = BTreeSet::new();
            for (_, arrival) in arrivals {
                let is_skipped = is_skipped[usize::try_from(arrival - 10).unwrap()];
                series.extend(if is_skipped { numbers.skip(arrival) } else { numbers.rewrite(arrival) });
            }
            let end = series.last().map_or(100, |last| last + 1);
            prop_assert!(series.into_iter().eq(100..end));
        }

        #[test]
        fn what_arrives_in_order_has_no_gaps(is_skipped in prop::collection::vec(any::<bool>(), 1..2_000)) {
            let mut numbers = SequenceNumbers::new(1);
            numbers.switch(0);
            let mut next = 1;
            for (sequence, is_skipped) in (0..).zip(is_skipped) {
                if is_skipped {
                    numbers.skip(sequence);
                } else {
                    prop_assert_eq!(numbers.rewrite(sequence), Some(next));
                    next += 1;
                }
            }
        }
    }
}
