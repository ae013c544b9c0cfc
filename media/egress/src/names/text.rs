//! Drawing a text line.

use ab_glyph_rasterizer::{Point, Rasterizer, point};
use rustybuzz::ttf_parser::{GlyphId, OutlineBuilder};
use rustybuzz::{Direction, Face, UnicodeBuffer};
use unicode_bidi::{BidiInfo, Level};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory as _};
use unicode_script::{Script, UnicodeScript as _};

use super::fonts::Fonts;
use super::{Label, LineSize};

/// Font size and baseline, relative to the line's height. They leave room for letters with two
/// stacked marks, as in Vietnamese.
const FONT_SIZE: f32 = 0.75;
const BASE_LINE: f32 = 0.8;
const ELLIPSIS: char = '…';

/// Character with its marks.
struct Cluster<'a> {
    text: &'a str,
    script: Script,
    font: usize,
}

/// Consecutive clusters with the same direction, font and script, in logical order.
struct Segment {
    text: String,
    script: Script,
    font: usize,
    direction: Direction,
}

/// Text line outline.
#[derive(Default)]
struct Line {
    /// In pixels, upwards from the baseline.
    strokes: Vec<Stroke>,
    width: f32,
}

enum Stroke {
    Line([Point; 2]),
    Quad([Point; 3]),
    Cubic([Point; 4]),
}

/// Draws a text. A text that is too long is cut and ends with an ellipsis.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has a few thousand pixels"
)]
pub fn draw(fonts: &Fonts, text: &str, size: LineSize) -> Label {
    let pixels = size.height as f32 * FONT_SIZE;
    let mut line = shape_line(fonts, text, pixels);
    if line.width > size.max_width as f32 {
        let ends: Vec<_> = clusters(text).into_iter().map(|(start, _)| start).collect();
        // Binary search for the longest prefix that fits. Widths cannot be added up, since letters
        // change their shape at a cut.
        let (mut fits, mut is_too_long) = (0, ends.len());
        line = Line::default();
        while fits + 1 < is_too_long {
            let middle = usize::midpoint(fits, is_too_long);
            let prefix = text.get(..ends[middle]).unwrap_or_default().trim_end();
            let cut = shape_line(fonts, &format!("{prefix}{ELLIPSIS}"), pixels);
            if cut.width <= size.max_width as f32 {
                (fits, line) = (middle, cut);
            } else {
                is_too_long = middle;
            }
        }
    }
    line.draw(size)
}

/// Returns a text's clusters with their offsets.
fn clusters(text: &str) -> Vec<(usize, &str)> {
    let mut starts = Vec::new();
    let mut before = None;
    for (at, character) in text.char_indices() {
        if before.is_none() || !(is_extension(character) || before == Some('\u{200d}')) {
            starts.push(at);
        }
        before = Some(character);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .filter_map(|(start, end)| Some((*start, text.get(*start..end)?)))
        .collect()
}

/// Returns whether a character extends the previous one: marks, joiners, and variation selectors.
fn is_extension(character: char) -> bool {
    character.general_category_group() == GeneralCategoryGroup::Mark
        || matches!(character, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Returns whether a character is invisible, so that no font needs to have it.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0100}'..='\u{e01ef}')
}

/// Shapes a text line.
fn shape_line(fonts: &Fonts, text: &str, pixels: f32) -> Line {
    let mut line = Line::default();
    let info = BidiInfo::new(text, None);
    for paragraph in &info.paragraphs {
        let (levels, runs) = info.visual_runs(paragraph, paragraph.range.clone());
        for run in runs {
            let is_rtl = levels.get(run.start).is_some_and(Level::is_rtl);
            let direction = if is_rtl {
                Direction::RightToLeft
            } else {
                Direction::LeftToRight
            };
            let mut segments = segments(fonts, text.get(run).unwrap_or_default(), direction);
            if is_rtl {
                // Segments are appended from left to right.
                segments.reverse();
            }
            segments
                .iter()
                .for_each(|segment| line.append(fonts, segment, pixels));
        }
    }
    line
}

/// Splits a run into segments.
fn segments(fonts: &Fonts, run: &str, direction: Direction) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for (_, text) in clusters(run) {
        let Cluster { text, script, font } = choose_font(fonts, text, segments.last());
        match segments.last_mut() {
            Some(last) if last.font == font && (last.script == script || is_neutral(script)) => {
                last.text.push_str(text);
            }
            // Neutral characters at the start take the next ones' script.
            Some(last) if last.font == font && is_neutral(last.script) => {
                last.text.push_str(text);
                last.script = script;
            }
            _ => segments.push(Segment {
                text: text.to_owned(),
                script,
                font,
                direction,
            }),
        }
    }
    segments
}

/// Chooses a cluster's font.
fn choose_font<'a>(fonts: &Fonts, text: &'a str, before: Option<&Segment>) -> Cluster<'a> {
    let script = text
        .chars()
        .next()
        .map_or(Script::Common, |first| first.script());
    let visible = || text.chars().filter(|character| !is_invisible(*character));
    // Spaces and punctuation take the preceding font, so that words are not torn apart.
    let is_neutral_ascii = text
        .chars()
        .all(|character| character.is_ascii() && !character.is_ascii_alphanumeric());
    if let Some(before) = before.filter(|_| is_neutral_ascii)
        && fonts.has(before.font, visible())
    {
        return Cluster {
            text,
            script,
            font: before.font,
        };
    }
    // If no font has a letter together with its marks, the shaper combines them.
    let font = fonts
        .find(visible())
        .or_else(|| fonts.find(visible().take(1)));
    match font {
        Some(font) => Cluster { text, script, font },
        None => Cluster {
            // The question mark has a font, the character itself none.
            text: "?",
            script: Script::Common,
            font: fonts.find(std::iter::once('?')).unwrap_or(0),
        },
    }
}

fn is_neutral(script: Script) -> bool {
    matches!(script, Script::Common | Script::Inherited | Script::Unknown)
}

impl Line {
    /// Appends a shaped segment.
    #[expect(
        clippy::cast_precision_loss,
        reason = "units of fonts are a few thousand"
    )]
    fn append(&mut self, fonts: &Fonts, segment: &Segment, pixels: f32) {
        fonts.with(segment.font, |data, index| {
            let Some(face) = Face::from_slice(data, index) else {
                return;
            };
            let scale = pixels / face.units_per_em().max(1) as f32;
            let mut buffer = UnicodeBuffer::new();
            buffer.push_str(&segment.text);
            buffer.set_direction(segment.direction);
            if let Ok(script) = segment.script.short_name().parse() {
                buffer.set_script(script);
            }
            // Fills in the language, which is unknown; direction and script are set.
            buffer.guess_segment_properties();
            let shaped = rustybuzz::shape(&face, &[], buffer);
            for (glyph, position) in shaped.glyph_infos().iter().zip(shaped.glyph_positions()) {
                let origin = point(
                    self.width + position.x_offset as f32 * scale,
                    position.y_offset as f32 * scale,
                );
                let mut pen = Pen {
                    strokes: &mut self.strokes,
                    origin,
                    scale,
                    start: origin,
                    at: origin,
                };
                if let Ok(id) = u16::try_from(glyph.glyph_id) {
                    face.outline_glyph(GlyphId(id), &mut pen);
                }
                self.width += position.x_advance as f32 * scale;
            }
        });
    }

    /// Fills the outlines.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a picture has a few thousand pixels"
    )]
    fn draw(&self, size: LineSize) -> Label {
        let width = (self.width.max(0.).ceil() as u32).min(size.max_width);
        let mut label = Label::empty(width, size.height);
        let base = size.height as f32 * BASE_LINE;
        let to_pixels = |at: &Point| point(at.x, base - at.y);
        // Outlines may exceed the edges, which the rasterizer does not support at the left and top.
        let (margin, whole) = (size.height as f32, |pixels: u32| {
            (pixels + 2 * size.height) as usize
        });
        let shift = |at: &Point| point(to_pixels(at).x + margin, to_pixels(at).y + margin);
        let mut rasterizer = Rasterizer::new(whole(width), whole(size.height));
        let is_inside = |at: &Point| {
            let at = shift(at);
            at.x >= 0.
                && at.y >= 0.
                && at.x < whole(width) as f32
                && at.y < whole(size.height) as f32
        };
        for stroke in &self.strokes {
            match stroke {
                Stroke::Line(points) if points.iter().all(is_inside) => {
                    let [a, b] = points.each_ref().map(shift);
                    rasterizer.draw_line(a, b);
                }
                Stroke::Quad(points) if points.iter().all(is_inside) => {
                    let [a, b, c] = points.each_ref().map(shift);
                    rasterizer.draw_quad(a, b, c);
                }
                Stroke::Cubic(points) if points.iter().all(is_inside) => {
                    let [a, b, c, d] = points.each_ref().map(shift);
                    rasterizer.draw_cubic(a, b, c, d);
                }
                // No real name has strokes that far outside.
                _ => {}
            }
        }
        rasterizer.for_each_pixel_2d(|x, y, coverage| {
            if let (Some(x), Some(y)) = (x.checked_sub(size.height), y.checked_sub(size.height)) {
                label.cover(x, y, (coverage.abs().min(1.) * 255.) as u8);
            }
        });
        label
    }
}

/// Receives a glyph's outline.
struct Pen<'a> {
    strokes: &'a mut Vec<Stroke>,
    origin: Point,
    scale: f32,
    /// Contour start, and current position.
    start: Point,
    at: Point,
}

impl Pen<'_> {
    fn to_pixels(&self, x: f32, y: f32) -> Point {
        point(
            self.origin.x + x * self.scale,
            self.origin.y + y * self.scale,
        )
    }
}

impl OutlineBuilder for Pen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        (self.start, self.at) = (self.to_pixels(x, y), self.to_pixels(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let end = self.to_pixels(x, y);
        self.strokes.push(Stroke::Line([self.at, end]));
        self.at = end;
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (control, end) = (self.to_pixels(x1, y1), self.to_pixels(x, y));
        self.strokes.push(Stroke::Quad([self.at, control, end]));
        self.at = end;
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (first, second, end) = (
            self.to_pixels(x1, y1),
            self.to_pixels(x2, y2),
            self.to_pixels(x, y),
        );
        self.strokes
            .push(Stroke::Cubic([self.at, first, second, end]));
        self.at = end;
    }

    fn close(&mut self) {
        self.strokes.push(Stroke::Line([self.at, self.start]));
        self.at = self.start;
    }
}
