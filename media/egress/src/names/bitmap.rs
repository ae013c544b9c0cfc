//! The built-in letters, for systems without fonts: those of Latin-1 and Extended-A.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster};

use super::{Label, LineSize};

/// The raster heights of the letters, with the scale at which they are used.
fn letter_height(height: u32) -> (RasterHeight, u32) {
    if height < 32 {
        (RasterHeight::Size20, 1)
    } else {
        (RasterHeight::Size32, height / 32)
    }
}

/// Draws a text. A letter that is not built in is a question mark.
pub fn draw(text: &str, size: LineSize) -> Label {
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
