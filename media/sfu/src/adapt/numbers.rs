//! Numbers that go on across changes of the source: sequence numbers, timestamps, and counters of some bits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

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

/// Maps the values of changing sources to one series.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter {
    /// What is added to the source's values.
    offset: u16,
    /// The newest value handed out.
    last: u16,
}

impl Counter {
    /// Starts with the values of a source as they are, of which this is the first.
    pub const fn at(value: u16) -> Self {
        Self {
            offset: 0,
            last: value,
        }
    }

    /// Continues behind the last value with a source whose first value this is.
    pub const fn switch(&mut self, value: u16) {
        self.offset = self.last.wrapping_add(1).wrapping_sub(value);
    }

    /// Returns whether a value of the source comes behind all that were handed out, within `mask`, which is one less than a power of two.
    pub const fn is_newest(self, value: u16, mask: u16) -> bool {
        let ahead = value.wrapping_add(self.offset).wrapping_sub(self.last) & mask;
        ahead != 0 && ahead <= mask / 2
    }

    /// Returns the value in the series, within `mask`.
    pub const fn rewrite(&mut self, value: u16, mask: u16) -> u16 {
        let mapped = value.wrapping_add(self.offset) & mask;
        if self.is_newest(value, mask) {
            self.last = mapped;
        }
        mapped
    }
}

/// Maps the RTP timestamps of changing sources to one time line, which follows the wall clock at each change.
#[derive(Debug, Clone)]
pub struct Timestamps {
    /// What is added to the source's timestamps.
    offset: u32,
    /// The newest timestamp handed out, and when its first packet arrived.
    last: Option<(u32, Instant)>,
    /// The timestamp that the time line starts with.
    first: u32,
}

impl Timestamps {
    /// Starts a time line with this timestamp.
    pub const fn new(first: u32) -> Self {
        Self {
            offset: 0,
            last: None,
            first,
        }
    }

    /// Continues the time line with a source whose first packet has this timestamp and arrived now.
    pub fn switch(&mut self, timestamp: u32, now: Instant, clock_rate: u32) {
        self.offset = self.continued(now, clock_rate).wrapping_sub(timestamp);
    }

    /// Returns the timestamp of a packet that is of no source, and is sent now.
    pub fn insert(&mut self, now: Instant, clock_rate: u32) -> u32 {
        let timestamp = self.continued(now, clock_rate);
        self.last = Some((timestamp, now));
        timestamp
    }

    fn continued(&self, now: Instant, clock_rate: u32) -> u32 {
        match self.last {
            Some((last, at)) => {
                last.wrapping_add(elapsed_ticks(now.saturating_duration_since(at), clock_rate))
            }
            None => self.first,
        }
    }

    /// Returns the timestamp of a packet of the source on the time line.
    pub fn rewrite(&mut self, timestamp: u32, now: Instant) -> u32 {
        let mapped = timestamp.wrapping_add(self.offset);
        if self.last.is_none_or(|(last, _)| is_newer(mapped, last)) {
            self.last = Some((mapped, now));
        }
        mapped
    }
}

/// Returns the time in ticks, at least one: two sources never share a timestamp, which would join their frames. Gaps of
/// hours wrap, as the timestamp does.
fn elapsed_ticks(elapsed: Duration, clock_rate: u32) -> u32 {
    let ticks = elapsed.as_micros().wrapping_mul(u128::from(clock_rate)) / 1_000_000;
    u32::try_from(ticks & u128::from(u32::MAX))
        .unwrap_or_default()
        .max(1)
}

fn is_newer(timestamp: u32, than: u32) -> bool {
    let ahead = timestamp.wrapping_sub(than);
    ahead != 0 && ahead < 1 << 31
}

/// Maps the frame numbers of changing sources to one series. libwebrtc counts the frames of all streams of simulcast together, so that most
/// numbers stay as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameNumbers {
    /// `None` before the first number.
    counter: Option<Counter>,
}

impl FrameNumbers {
    /// Continues with a source whose first frame has this number: behind the newest one.
    pub const fn switch(&mut self, first: u16) {
        if let Some(counter) = &mut self.counter
            && !counter.is_newest(first, u16::MAX)
        {
            counter.switch(first);
        }
    }

    /// Returns the number of a frame in the series.
    pub fn rewrite(&mut self, number: u16) -> u16 {
        self.counter
            .get_or_insert(Counter::at(number))
            .rewrite(number, u16::MAX)
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

    /// Whether a number comes behind another one. They wrap.
    const fn is_behind(number: u16, other: u16) -> bool {
        let ahead = number.wrapping_sub(other);
        ahead != 0 && ahead <= u16::MAX / 2
    }

    #[test]
    fn numbers_that_are_counted_together_stay_as_they_are() {
        let mut numbers = FrameNumbers::default();
        for (number, is_switch) in [
            (65_530, true),
            (65_533, false),
            (65_535, true),
            (2, false),
            (1, false),
            (7, true),
        ] {
            if is_switch {
                numbers.switch(number);
            }
            assert_eq!(numbers.rewrite(number), number);
        }
    }

    proptest! {
        #[test]
        fn each_source_goes_on_behind_the_one_before(
            sources in prop::collection::vec((any::<u16>(), prop::collection::vec(0..50_u16, 1..30)), 1..20),
        ) {
            let mut numbers = FrameNumbers::default();
            let mut newest: Option<u16> = None;
            for (first, steps) in sources {
                numbers.switch(first);
                let begin = numbers.rewrite(first);
                prop_assert!(newest.is_none_or(|newest| is_behind(begin, newest)), "{:?} {}", newest, begin);
                for step in steps {
                    let number = numbers.rewrite(first.wrapping_add(step));
                    prop_assert_eq!(number.wrapping_sub(begin), step, "references of frames are distances");
                    newest = Some(newest.filter(|newest| !is_behind(number, *newest) && is_behind(*newest, begin)).unwrap_or(number));
                }
            }
        }
    }
}
