//! Names in pictures.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster};

use super::layout::Rect;
use super::picture::Picture;

/// The height of a name tag in pixels.
const TAG_HEIGHT: u32 = 24;
/// The distance of a name tag from the edges of its tile, and of the name from the edges of the tag.
const MARGIN: u32 = 8;
/// Behind the letters of a name tag.
const TAG_COLOR: [u8; 3] = [30, 128, 128];

/// Draws a name at the bottom left of a tile. A name that is too long is cut; letters without a bitmap are question marks.
pub fn draw_tag(picture: &mut Picture, tile: Rect, name: &str) {
    if name.is_empty() || tile.height < 3 * TAG_HEIGHT || tile.width < 4 * TAG_HEIGHT {
        return;
    }
    let glyphs = glyphs(name, RasterHeight::Size20);
    let room = tile.width - 4 * MARGIN;
    let fitting = glyphs.len().min(usize::try_from(room / glyph_width(&glyphs)).unwrap_or_default());
    let glyphs = &glyphs[..fitting];
    let width = text_width(glyphs) + 2 * MARGIN;
    let y = (tile.y + tile.height - TAG_HEIGHT - MARGIN) / 2 * 2;
    let tag = Rect { x: tile.x + MARGIN, y, width: width / 2 * 2, height: TAG_HEIGHT };
    picture.fill(tag, TAG_COLOR);
    draw(picture, glyphs, (tag.x + MARGIN, tag.y + 2), 1);
}

/// Draws the initials of a name in the middle of a tile: the first letters of its first and last word.
pub fn draw_initials(picture: &mut Picture, tile: Rect, name: &str) {
    let mut firsts = name.split_whitespace().filter_map(|word| word.chars().next());
    let initials: String = firsts.next().into_iter().chain(firsts.next_back()).flat_map(char::to_uppercase).collect();
    let glyphs = glyphs(&initials, RasterHeight::Size32);
    let scale = (tile.height / 3 / 32).clamp(1, 6);
    let (width, height) = (text_width(&glyphs) * scale, 32 * scale);
    let x = tile.x + tile.width.saturating_sub(width) / 2;
    let y = tile.y + tile.height.saturating_sub(height) / 2;
    draw(picture, &glyphs, (x, y), scale);
}

fn glyphs(text: &str, height: RasterHeight) -> Vec<RasterizedChar> {
    let raster = |letter| get_raster(letter, FontWeight::Regular, height);
    text.chars().filter_map(|letter| raster(letter).or_else(|| raster('?'))).collect()
}

fn glyph_width(glyphs: &[RasterizedChar]) -> u32 {
    glyphs.first().and_then(|glyph| u32::try_from(glyph.width()).ok()).unwrap_or(1).max(1)
}

fn text_width(glyphs: &[RasterizedChar]) -> u32 {
    glyph_width(glyphs) * u32::try_from(glyphs.len()).unwrap_or_default()
}

/// Draws letters, each of their pixels as a square of `scale` pixels.
fn draw(picture: &mut Picture, glyphs: &[RasterizedChar], (x, y): (u32, u32), scale: u32) {
    let advance = glyph_width(glyphs) * scale;
    for (glyph, left) in glyphs.iter().zip((x..).step_by(usize::try_from(advance).unwrap_or(1))) {
        for (row, top) in glyph.raster().iter().zip((y..).step_by(usize::try_from(scale).unwrap_or(1))) {
            for (intensity, pixel) in row.iter().zip((left..).step_by(usize::try_from(scale).unwrap_or(1))) {
                if *intensity > 0 {
                    (0..scale * scale)
                        .for_each(|at| picture.brighten(pixel + at % scale, top + at / scale, *intensity));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: [u8; 3] = [16, 128, 128];

    #[test]
    fn names_of_any_length_and_script_stay_in_their_tiles() {
        for name in ["", "A", "Zoë Ångström", "王小明", &"x".repeat(300), "a b c d"] {
            for (width, height) in [(640, 360), (96, 54), (16, 16)] {
                let mut picture = Picture::new(1280, 720, BLACK);
                let tile = Rect { x: 320, y: 180, width, height };
                draw_tag(&mut picture, tile, name);
                if width > 90 {
                    draw_initials(&mut picture, tile, name);
                }
                let luma = picture.data[..1280 * 720].iter().enumerate();
                for (at, _) in luma.filter(|(_, luma)| **luma != BLACK[0]) {
                    let (x, y) = (at as u32 % 1280, at as u32 / 1280);
                    assert!((320..320 + width).contains(&x) && (180..180 + height).contains(&y), "{name}: {x} {y}");
                }
            }
        }
    }

    #[test]
    fn initials_and_tags_are_seen() {
        let tile = Rect { x: 0, y: 0, width: 640, height: 360 };
        for draw in [draw_initials, draw_tag] {
            let mut picture = Picture::new(640, 360, BLACK);
            draw(&mut picture, tile, "Ada Lovelace");
            assert!(picture.data.iter().filter(|luma| **luma > 200).count() > 50);
        }
    }
}
