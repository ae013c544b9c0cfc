//! Names as pictures: for name tags and initials in compositions.
//!
//! The fonts are those of the system. They are loaded once, beside the first composition with pictures (`fonts`): of each font with outlines,
//! which characters it has. A name then goes through these steps (`text`):
//!
//! 1. It is split into runs of one direction, in the order in which they are seen (Unicode's bidirectional algorithm), and those into
//!    clusters of a character with its combining marks.
//! 2. Each cluster gets the first font that has all of it. Neighbours with the same font and script are a segment.
//! 3. A segment is shaped: Arabic letters join, marks are put on their letters, Indic syllables are ordered.
//! 4. Outlines become one picture of coverage, from 0 to 255 for each pixel.
//!
//! A character that no font has is a question mark. Without any font, there are built-in bitmaps: the letters of Latin-1 and Extended-A.
//! Names are what strangers typed, so they are limited in length, and a panic in the shaping of a name costs its picture only.

mod fonts;
mod text;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster};

pub use fonts::Fonts;

/// The longest name in characters; the rest is cut.
const MAX_CHARS: usize = 256;
/// Names that are kept as pictures.
const CAPACITY: usize = 200;

/// A line of text as a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// How much of each pixel is covered, row by row.
    pub coverage: Vec<u8>,
}

impl Label {
    /// Returns a picture of nothing.
    fn empty(width: u32, height: u32) -> Self {
        let pixels = u64::from(width) * u64::from(height);
        Self {
            width,
            height,
            coverage: vec![0; usize::try_from(pixels).unwrap_or_default()],
        }
    }

    /// Sets how much of a pixel is covered, if it is in the picture.
    fn cover(&mut self, x: u32, y: u32, coverage: u8) {
        let at = u64::from(y) * u64::from(self.width) + u64::from(x);
        if x < self.width
            && y < self.height
            && let Some(pixel) = self
                .coverage
                .get_mut(usize::try_from(at).unwrap_or(usize::MAX))
        {
            *pixel = coverage;
        }
    }
}

/// The size of a line of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineSize {
    /// The height of the picture in pixels; that of the font is three quarters of it.
    pub height: u32,
    /// The most width in pixels. Longer text ends with an ellipsis.
    pub max_width: u32,
}

/// Makes pictures of names, and keeps them.
pub struct Labels {
    fonts: Arc<Fonts>,
    known: HashMap<(String, LineSize), Arc<Label>>,
}

impl Labels {
    /// Creates pictures with these fonts.
    pub fn new(fonts: Arc<Fonts>) -> Self {
        Self {
            fonts,
            known: HashMap::new(),
        }
    }

    /// Returns the picture of a text.
    pub fn get(&mut self, text: &str, size: LineSize) -> Arc<Label> {
        let text = one_line(text);
        if let Some(label) = self.known.get(&(text.clone(), size)) {
            return Arc::clone(label);
        }
        if self.known.len() >= CAPACITY {
            self.known.clear();
        }
        let label = Arc::new(self.draw(&text, size));
        self.known.insert((text, size), Arc::clone(&label));
        label
    }

    fn draw(&self, text: &str, size: LineSize) -> Label {
        if self.fonts.is_empty() {
            return draw_built_in(text, size);
        }
        let drawn = catch_unwind(AssertUnwindSafe(|| text::draw(&self.fonts, text, size)));
        drawn.unwrap_or_else(|_| {
            log::warn!("a name could not be drawn");
            draw_built_in("?", size)
        })
    }
}

/// Returns a text without what has no place in a line: control characters, and characters that turn the direction of what follows.
fn one_line(text: &str) -> String {
    let is_shown = |c: &char| !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let spaced = text.chars().filter(is_shown).map(|c| {
        if c.is_control() || c.is_whitespace() {
            ' '
        } else {
            c
        }
    });
    let line: String = spaced.take(MAX_CHARS).collect();
    line.trim().to_owned()
}

/// The raster heights of the letters, with the scale at which they are used.
fn letter_height(height: u32) -> (RasterHeight, u32) {
    if height < 32 {
        (RasterHeight::Size20, 1)
    } else {
        (RasterHeight::Size32, height / 32)
    }
}

/// Draws a text with the built-in letters. One that is not built in is a question mark.
fn draw_built_in(text: &str, size: LineSize) -> Label {
    let (raster_height, scale) = letter_height(size.height);
    let raster = |letter| get_raster(letter, FontWeight::Regular, raster_height);
    let glyphs: Vec<RasterizedChar> = text
        .chars()
        .filter_map(|c| raster(c).or_else(|| raster('?')))
        .collect();
    let advance = glyphs
        .first()
        .map_or(1, |glyph| to_u32(glyph.width()).max(1))
        * scale;
    let count = to_u32(glyphs.len()).min(size.max_width / advance);
    let mut label = Label::empty(advance * count, size.height);
    for (glyph, left) in glyphs
        .iter()
        .zip(0..count)
        .map(|(glyph, index)| (glyph, index * advance))
    {
        for (row, top) in glyph.raster().iter().zip((0..).map(|row: u32| row * scale)) {
            for (intensity, x) in row
                .iter()
                .zip((0..).map(|column: u32| left + column * scale))
            {
                // Each of its pixels is a square.
                (0..scale * scale)
                    .for_each(|at| label.cover(x + at % scale, top + at / scale, *intensity));
            }
        }
    }
    label
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use fontdb::Database;
    use proptest::prelude::*;

    use super::*;

    const TAG: LineSize = LineSize {
        height: 20,
        max_width: 600,
    };

    fn labels() -> Labels {
        Labels::new(Arc::new(Fonts::for_tests()))
    }

    /// Large letters: those of tags differ by single pixels.
    const LARGE: LineSize = LineSize {
        height: 100,
        max_width: 2_000,
    };

    fn draw(text: &str) -> Arc<Label> {
        labels().get(text, LARGE)
    }

    /// How much of the columns from one part of the width to another is covered.
    fn ink(label: &Label, columns: std::ops::Range<u32>) -> u64 {
        let is_inside = |at: &usize| columns.contains(&(u32::try_from(*at).unwrap() % label.width));
        label
            .coverage
            .iter()
            .enumerate()
            .filter(|(at, _)| is_inside(at))
            .map(|(_, ink)| u64::from(*ink))
            .sum()
    }

    #[test]
    fn letters_of_many_scripts_are_drawn_and_what_no_font_has_is_a_question_mark() {
        let question_mark = draw("?");
        for letter in ["ễ", "Я", "Ω", "ש", "م", "’"] {
            let drawn = draw(letter);
            assert!(
                ink(&drawn, 0..drawn.width) > 500 && drawn != question_mark,
                "{letter}"
            );
        }
        for missing in ["王", "👍", "👩\u{200d}👩"] {
            assert_eq!(draw(missing), question_mark, "{missing}");
        }
        assert_eq!(draw("О王"), draw("О?"));
    }

    #[test]
    fn marks_are_on_their_letters_however_they_are_written() {
        assert_eq!(draw("Nguy\u{1ec5}n"), draw("Nguye\u{302}\u{303}n"));
        assert_eq!(
            draw("я\u{303}").width,
            draw("я").width,
            "a mark has no room of its own"
        );
    }

    /// The columns inside a picture in which there is nothing.
    fn gaps(label: &Label) -> usize {
        (0..label.width)
            .filter(|column| ink(label, *column..column + 1) < 50)
            .count()
    }

    fn is_near(one: u64, other: u64) -> bool {
        one.abs_diff(other) < other / 3
    }

    #[test]
    fn arabic_letters_join_and_are_read_from_the_right() {
        let (joined, apart) = (draw("محمد"), draw("م\u{200c}ح\u{200c}م\u{200c}د"));
        assert!(
            gaps(&joined) + 4 < gaps(&apart),
            "{} and {}",
            gaps(&joined),
            gaps(&apart)
        );
        // Lam is high, and the first letter; beh is flat.
        let word = draw("لبب");
        let high: Vec<_> = (0..word.width * 50)
            .filter(|at| word.coverage[*at as usize] > 0)
            .map(|at| at % word.width)
            .collect();
        assert!(
            !high.is_empty() && high.iter().all(|column| *column > word.width / 2),
            "{high:?} of {}",
            word.width
        );
    }

    /// Proves S-57.
    #[test]
    fn names_with_both_directions_have_each_part_in_its_own() {
        // Yod is small, and after shin.
        let (shin, yod, hebrew, latin) = (draw("ש"), draw("י"), draw("שי"), draw("Wi"));
        let all = |label: &Label| ink(label, 0..label.width);
        assert!(
            is_near(ink(&hebrew, 0..yod.width), all(&yod)),
            "{} of {}",
            ink(&hebrew, 0..yod.width),
            all(&yod)
        );
        assert!(is_near(
            ink(&hebrew, hebrew.width - shin.width..hebrew.width),
            all(&shin)
        ));
        let mixed = draw("Wi שי");
        assert!(is_near(ink(&mixed, 0..latin.width), all(&latin)));
        assert!(is_near(
            ink(&mixed, mixed.width - hebrew.width..mixed.width),
            all(&hebrew)
        ));
        assert!(
            is_near(
                ink(&mixed, mixed.width - shin.width..mixed.width),
                all(&shin)
            ),
            "shin is at the right"
        );
        assert_eq!(
            draw("\u{202e}Wi\u{2066}\n"),
            latin,
            "nothing turns what follows"
        );
    }

    #[test]
    fn a_name_that_is_too_long_ends_with_an_ellipsis() {
        let mut labels = labels();
        let size = LineSize {
            height: 20,
            max_width: 100,
        };
        let cut = labels.get(&"W".repeat(300), size);
        assert!((80..=100).contains(&cut.width), "{}", cut.width);
        let fitting = (1..300).map(|count| labels.get(&format!("{}…", "W".repeat(count)), TAG));
        assert_eq!(
            Some(cut),
            fitting.take_while(|label| label.width <= 100).last()
        );
    }

    #[test]
    fn without_fonts_there_are_the_letters_that_are_built_in() {
        let mut labels = Labels::new(Arc::new(Fonts::new(Database::new())));
        let drawn = labels.get("Zoë", TAG);
        assert!(ink(&drawn, 0..drawn.width) > 1_000);
        assert_eq!(labels.get("Я", TAG), labels.get("?", TAG));
        assert!(labels.get(&"x".repeat(300), TAG).width <= TAG.max_width);
    }

    proptest! {
        /// Proves S-57.
        #[test]
        fn any_text_has_a_picture_within_its_bounds(text in "\\PC{0,40}", height in 8_u32..200, max_width in 0_u32..500) {
            let label = labels().get(&text, LineSize { height, max_width });
            prop_assert!(label.width <= max_width && label.height == height);
            prop_assert_eq!(label.coverage.len(), usize::try_from(label.width * label.height).unwrap());
        }
    }
}
