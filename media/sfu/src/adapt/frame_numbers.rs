//! The frame numbers of dependency descriptors, which go on across changes of the source.

use super::counter::Counter;

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
    use proptest::prelude::*;

    use super::*;

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
