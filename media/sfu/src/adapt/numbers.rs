//! Numbers that continue when the source changes: sequence numbers, timestamps, and counters with a few bits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maps changing sources' sequence numbers to one series without gaps, neither at a change nor at skipped packets.
#[derive(Debug, Clone)]
pub struct SequenceNumbers {
    /// One above the highest number handed out.
    next: u64,
    /// The source's first accepted number, and the number it was mapped to.
    anchor: Option<(u64, u64)>,
    /// One above the source's highest number that was rewritten or skipped.
    source_next: u64,
    skipped: Skipped,
}

/// A source's numbers that are not in the series.
#[derive(Debug, Clone, Default)]
struct Skipped {
    /// Most recent ones, ascending.
    recent: VecDeque<u64>,
    /// Number of older ones.
    forgotten: u64,
    /// Last older one.
    last_forgotten: u64,
}

/// Skipped numbers that are remembered. Packets that arrive later than all these are dropped.
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

    /// Returns how many come before `number`; `None` if it was skipped itself, or is too old to know.
    fn before(&self, number: u64) -> Option<u64> {
        if self.forgotten > 0 && number <= self.last_forgotten {
            return None;
        }
        // `Ok` is a skipped number itself, which has no place in the series.
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
        // Numbers skipped before the switch belong to another source.
        self.skipped = Skipped::default();
    }

    /// Numbers a packet without a source. After it, the series continues when the source changes.
    pub const fn insert(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        // The source's next packet would map to the number that was just handed out.
        self.anchor = None;
        number
    }

    /// Skips a source's packet, so that the series has no gap for it. A late packet has left a gap already: returns its
    /// number in the series, which no other packet gets if each arrives once.
    pub fn skip(&mut self, sequence: u64) -> Option<u64> {
        let (first, mapped) = self.anchor?;
        // A later packet was forwarded with a number that left room for this one, which was missing then.
        if sequence < self.source_next {
            return Some(mapped + sequence.checked_sub(first)? - self.skipped.before(sequence)?);
        }
        self.source_next = sequence + 1;
        self.skipped.push(sequence);
        None
    }

    /// Numbers a packet from the source; `None` if it is older than the source's choice, or was skipped.
    pub fn rewrite(&mut self, sequence: u64) -> Option<u64> {
        let (first, mapped) = self.anchor?;
        // Reordered packets keep their distance to the anchor, so they fill the gap that they left.
        let number = mapped + sequence.checked_sub(first)? - self.skipped.before(sequence)?;
        self.source_next = self.source_next.max(sequence + 1);
        self.next = self.next.max(number + 1);
        Some(number)
    }
}

/// Maps changing sources' values to one series.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter {
    /// Added to the source's values.
    offset: u16,
    /// Newest value handed out.
    last: u16,
}

impl Counter {
    /// Starts with a source's values unchanged; `value` is the first one.
    pub const fn at(value: u16) -> Self {
        Self {
            offset: 0,
            last: value,
        }
    }

    /// Continues after the last value with a source whose first value this is.
    pub const fn switch(&mut self, value: u16) {
        self.offset = self.last.wrapping_add(1).wrapping_sub(value);
    }

    /// Returns whether a source's value is newer than all that were handed out, modulo `mask` + 1, which is a power of
    /// two.
    pub const fn is_newest(self, value: u16, mask: u16) -> bool {
        // Serial number arithmetic: values up to half the range ahead are newer (RFC 1982).
        let ahead = value.wrapping_add(self.offset).wrapping_sub(self.last) & mask;
        ahead != 0 && ahead <= mask / 2
    }

    /// Returns the value in the series, within `mask`.
    pub const fn rewrite(&mut self, value: u16, mask: u16) -> u16 {
        let mapped = value.wrapping_add(self.offset) & mask;
        // A reordered packet must not move the series back, or the next switch would repeat values.
        if self.is_newest(value, mask) {
            self.last = mapped;
        }
        mapped
    }
}

/// Maps changing sources' RTP timestamps to one time line, which follows the clock at each change.
#[derive(Debug, Clone)]
pub struct Timestamps {
    /// Added to the source's timestamps.
    offset: u32,
    /// Newest timestamp handed out, and when its first packet arrived.
    last: Option<(u32, Instant)>,
    /// Timestamp at which the time line starts.
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

    /// Returns the timestamp for a packet without a source that is sent now.
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

    /// Maps a timestamp from the source.
    pub fn rewrite(&mut self, timestamp: u32, now: Instant) -> u32 {
        let mapped = timestamp.wrapping_add(self.offset);
        // A frame's packets share a timestamp; its first arrival counts. Late packets must not move the time line back.
        if self.last.is_none_or(|(last, _)| is_newer(mapped, last)) {
            self.last = Some((mapped, now));
        }
        mapped
    }
}

/// Converts to ticks, at least one: two sources never share a timestamp, which would merge their frames. Gaps longer
/// than hours wrap, as the timestamp does.
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

/// Maps changing sources' frame numbers to one series. libwebrtc numbers the frames of all simulcast streams together,
/// so most numbers stay unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameNumbers {
    /// `None` before the first number.
    counter: Option<Counter>,
}

impl FrameNumbers {
    /// Continues with a source whose first frame has this number, after the newest one.
    pub const fn switch(&mut self, first: u16) {
        // A number ahead is kept as it is: a gap in frame numbers only looks like skipped frames.
        if let Some(counter) = &mut self.counter
            && !counter.is_newest(first, u16::MAX)
        {
            counter.switch(first);
        }
    }

    /// Returns the frame's number in the series.
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

    /// A source's packets as they arrive: shuffled within a few packets, some twice, some never.
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

    /// Returns whether a number is behind another one, given that they wrap.
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
