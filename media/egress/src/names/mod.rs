//! Name drawing, for tags and initials in compositions.
//!
//! The system's fonts are loaded once, when the first composition with video starts (`fonts`). A
//! name is then drawn in four steps (`text`):
//!
//! 1. It is split into runs by direction, in visual order (Unicode Bidirectional Algorithm), and
//!    the runs into clusters: a character with its combining marks.
//! 2. Each cluster gets the first font that has all its characters. Neighbors with the same font
//!    and script form a segment.
//! 3. Each segment is shaped: Arabic letters join, marks are placed, Indic syllables are reordered.
//! 4. The outlines are filled into a coverage map, from 0 to 255 per pixel.
//!
//! A character without a font becomes a question mark. Without any font, built-in bitmaps are used,
//! which have Latin-1 and Latin Extended-A. Names are untrusted text, so their length is limited,
//! and if shaping panics, only that name is lost.

mod fonts;
mod text;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster};

pub use fonts::Fonts;

/// Maximum name length in characters; the rest is cut.
const MAX_CHARS: usize = 256;
/// Maximum cached names.
const CAPACITY: usize = 200;

/// Drawn text line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Pixel coverage, row by row.
    pub coverage: Vec<u8>,
}

impl Label {
    fn empty(width: u32, height: u32) -> Self {
        let pixels = u64::from(width) * u64::from(height);
        Self {
            width,
            height,
            coverage: vec![0; usize::try_from(pixels).unwrap_or_default()],
        }
    }

    /// Sets a pixel's coverage, if it is inside.
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

/// Text line size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineSize {
    /// Line height in pixels. The font takes three quarters.
    pub height: u32,
    /// Maximum width in pixels; longer text ends with an ellipsis.
    pub max_width: u32,
}

/// Cache for drawn names.
pub struct Labels {
    fonts: Arc<Fonts>,
    known: HashMap<(String, LineSize), Arc<Label>>,
}

impl Labels {
    /// Creates a cache for names in these fonts.
    pub fn new(fonts: Arc<Fonts>) -> Self {
        Self {
            fonts,
            known: HashMap::new(),
        }
    }

    /// Returns the drawn text.
    pub fn get(&mut self, text: &str, size: LineSize) -> Arc<Label> {
        // Before the lookup, so that names that look the same share an entry.
        let text = one_line(text);
        if let Some(label) = self.known.get(&(text.clone(), size)) {
            return Arc::clone(label);
        }
        // Participants choose their names, so the cache needs a bound.
        if self.known.len() >= CAPACITY {
            // Cleared as a whole: names change rarely, and redrawing the few in use is cheap.
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
        // Fonts are files and names come from clients; neither may end the egress.
        let drawn = catch_unwind(AssertUnwindSafe(|| text::draw(&self.fonts, text, size)));
        drawn.unwrap_or_else(|_| {
            log::warn!("drawing a participant's name failed; the recording shows a question mark");
            draw_built_in("?", size)
        })
    }
}

/// Replaces control characters with spaces and removes characters that change the text direction.
fn one_line(text: &str) -> String {
    let is_shown = |c: &char| !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let spaced = text.chars().filter(is_shown).map(|c| {
        // A line break or tab has no glyph.
        if c.is_control() || c.is_whitespace() {
            ' '
        } else {
            c
        }
    });
    let line: String = spaced.take(MAX_CHARS).collect();
    line.trim().to_owned()
}

/// Returns the built-in letters' raster height for a line, and their magnification.
fn letter_height(height: u32) -> (RasterHeight, u32) {
    if height < 32 {
        (RasterHeight::Size20, 1)
    } else {
        (RasterHeight::Size32, height / 32)
    }
}

/// Draws text with the built-in letters. Other characters become question marks.
fn draw_built_in(text: &str, size: LineSize) -> Label {
    let (raster_height, scale) = letter_height(size.height);
    let raster = |letter| get_raster(letter, FontWeight::Regular, raster_height);
    let glyphs: Vec<RasterizedChar> = text
        .chars()
        // The fonts have only Latin letters.
        .filter_map(|c| raster(c).or_else(|| raster('?')))
        .collect();
    let advance = glyphs
        .first()
        .map_or(1, |glyph| to_u32(glyph.width()).max(1))
        * scale;
    // All letters have the same width.
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
                // A raster pixel becomes a square.
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

    /// Tag-sized letters differ by a few pixels only; these are large.
    const LARGE: LineSize = LineSize {
        height: 100,
        max_width: 2_000,
    };

    fn draw(text: &str) -> Arc<Label> {
        labels().get(text, LARGE)
    }

    /// Returns the coverage in a range of columns.
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

    /// Counts the empty columns.
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
        // Lam is high and comes first; beh is flat.
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
        // Yod is small and follows shin.
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
    fn without_fonts_the_built_in_letters_are_used() {
        let mut labels = Labels::new(Arc::new(Fonts::new(Database::new())));
        let drawn = labels.get("Zoë", TAG);
        assert!(ink(&drawn, 0..drawn.width) > 1_000);
        assert_eq!(labels.get("Я", TAG), labels.get("?", TAG));
        assert!(labels.get(&"x".repeat(300), TAG).width <= TAG.max_width);
    }

    proptest! {
        /// Proves S-57.
        #[test]
        fn any_text_is_drawn_within_its_bounds(text in "\\PC{0,40}", height in 8_u32..200, max_width in 0_u32..500) {
            let label = labels().get(&text, LineSize { height, max_width });
            prop_assert!(label.width <= max_width && label.height == height);
            prop_assert_eq!(label.coverage.len(), usize::try_from(label.width * label.height).unwrap());
        }
    }
}
