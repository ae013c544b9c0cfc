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
//! A character that no font has is a question mark. Without any font, there are the built-in bitmaps of Latin letters (`bitmap`).
//! Names are what strangers typed, so they are limited in length, and a panic in the shaping of a name costs its picture only.

mod bitmap;
mod fonts;
mod text;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

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
            return bitmap::draw(text, size);
        }
        let drawn = catch_unwind(AssertUnwindSafe(|| text::draw(&self.fonts, text, size)));
        drawn.unwrap_or_else(|_| {
            log::warn!("a name could not be drawn");
            bitmap::draw("?", size)
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

#[cfg(test)]
mod tests;
