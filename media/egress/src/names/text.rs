//! From a text to its picture.

use ab_glyph_rasterizer::{Point, Rasterizer, point};
use rustybuzz::ttf_parser::{GlyphId, OutlineBuilder};
use rustybuzz::{Direction, Face, UnicodeBuffer};
use unicode_bidi::{BidiInfo, Level};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory as _};
use unicode_script::{Script, UnicodeScript as _};

use super::fonts::Fonts;
use super::{Label, LineSize};

/// The size of the font, and the distance of the base line from the top, in parts of the height of the line. There is room for letters with two
/// marks above each other, as those of Vietnamese.
const FONT_SIZE: f32 = 0.75;
const BASE_LINE: f32 = 0.8;
const ELLIPSIS: char = '…';

/// A character with its marks: a part of the text.
struct Cluster<'a> {
    text: &'a str,
    script: Script,
    font: usize,
}

/// Neighbours in the order in which they are read, of one direction, font and script.
struct Segment {
    text: String,
    script: Script,
    font: usize,
    direction: Direction,
}

/// An outline of a line of text.
#[derive(Default)]
struct Line {
    /// In pixels, with the base line at 0 and upwards.
    strokes: Vec<Stroke>,
    width: f32,
}

enum Stroke {
    Line([Point; 2]),
    Quad([Point; 3]),
    Cubic([Point; 4]),
}

/// Draws a text. If it is too long, as much of its beginning as has room, and an ellipsis.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has a few thousand pixels"
)]
pub fn draw(fonts: &Fonts, text: &str, size: LineSize) -> Label {
    let pixels = size.height as f32 * FONT_SIZE;
    let mut line = set(fonts, text, pixels);
    if line.width > size.max_width as f32 {
        let ends: Vec<_> = clusters(text).into_iter().map(|(begin, _)| begin).collect();
        // The longest beginning with room: between one that fits and one that does not.
        let (mut fits, mut is_too_long) = (0, ends.len());
        line = Line::default();
        while fits + 1 < is_too_long {
            let middle = usize::midpoint(fits, is_too_long);
            let beginning = text.get(..ends[middle]).unwrap_or_default().trim_end();
            let cut = set(fonts, &format!("{beginning}{ELLIPSIS}"), pixels);
            if cut.width <= size.max_width as f32 {
                (fits, line) = (middle, cut);
            } else {
                is_too_long = middle;
            }
        }
    }
    line.draw(size)
}

/// Returns the clusters of a text, with where they begin.
fn clusters(text: &str) -> Vec<(usize, &str)> {
    let mut begins = Vec::new();
    let mut before = None;
    for (at, character) in text.char_indices() {
        if before.is_none() || !(is_extension(character) || before == Some('\u{200d}')) {
            begins.push(at);
        }
        before = Some(character);
    }
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    begins
        .iter()
        .zip(ends)
        .filter_map(|(begin, end)| Some((*begin, text.get(*begin..end)?)))
        .collect()
}

/// Returns whether a character belongs to the one before: marks, joiners, and selectors of variants.
fn is_extension(character: char) -> bool {
    character.general_category_group() == GeneralCategoryGroup::Mark
        || matches!(character, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Returns whether a font need not have a character, because nothing is seen of it.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0100}'..='\u{e01ef}')
}

/// Sets a line of text.
fn set(fonts: &Fonts, text: &str, pixels: f32) -> Line {
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
                segments.reverse();
            }
            segments
                .iter()
                .for_each(|segment| line.append(fonts, segment, pixels));
        }
    }
    line
}

/// Splits a run of one direction.
fn segments(fonts: &Fonts, run: &str, direction: Direction) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for (_, text) in clusters(run) {
        let Cluster { text, script, font } = choose(fonts, text, segments.last());
        match segments.last_mut() {
            Some(last) if last.font == font && (last.script == script || is_neutral(script)) => {
                last.text.push_str(text);
            }
            // What is neutral at the beginning takes the script of what follows.
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

/// Chooses the font of a cluster.
fn choose<'a>(fonts: &Fonts, text: &'a str, before: Option<&Segment>) -> Cluster<'a> {
    let script = text
        .chars()
        .next()
        .map_or(Script::Common, |first| first.script());
    let visible = || text.chars().filter(|character| !is_invisible(*character));
    // A space or full stop has the font of what is before it, so that words are not torn apart.
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
    // Marks that no font has together with their letter are left to the shaping.
    let font = fonts
        .having(visible())
        .or_else(|| fonts.having(visible().take(1)));
    match font {
        Some(font) => Cluster { text, script, font },
        None => Cluster {
            text: "?",
            script: Script::Common,
            font: fonts.having(std::iter::once('?')).unwrap_or(0),
        },
    }
}

fn is_neutral(script: Script) -> bool {
    matches!(script, Script::Common | Script::Inherited | Script::Unknown)
}

impl Line {
    /// Appends a segment, as it is shaped.
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
                    begin: origin,
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
        let place = |at: &Point| point(at.x, base - at.y);
        // Outlines may go over the edges, which the rasterizer does not expect at the left and above.
        let (margin, whole) = (size.height as f32, |pixels: u32| {
            (pixels + 2 * size.height) as usize
        });
        let shift = |at: &Point| point(place(at).x + margin, place(at).y + margin);
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
                // Letters as large as that are of no name.
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

/// Takes the outline of a glyph.
struct Pen<'a> {
    strokes: &'a mut Vec<Stroke>,
    origin: Point,
    scale: f32,
    /// Where the contour begins, and where the pen is.
    begin: Point,
    at: Point,
}

impl Pen<'_> {
    fn place(&self, x: f32, y: f32) -> Point {
        point(
            self.origin.x + x * self.scale,
            self.origin.y + y * self.scale,
        )
    }
}

impl OutlineBuilder for Pen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        (self.begin, self.at) = (self.place(x, y), self.place(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let end = self.place(x, y);
        self.strokes.push(Stroke::Line([self.at, end]));
        self.at = end;
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (control, end) = (self.place(x1, y1), self.place(x, y));
        self.strokes.push(Stroke::Quad([self.at, control, end]));
        self.at = end;
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (first, second, end) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.strokes
            .push(Stroke::Cubic([self.at, first, second, end]));
        self.at = end;
    }

    fn close(&mut self) {
        self.strokes.push(Stroke::Line([self.at, self.begin]));
        self.at = self.begin;
    }
}
