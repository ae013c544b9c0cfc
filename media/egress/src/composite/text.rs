//! Name tags and initials on frames.

use super::layout::Rect;
use super::video_frame::VideoFrame;
use crate::names::{Label, LineSize};

const TAG_HEIGHT: u32 = 24;
const NAME_HEIGHT: u32 = 20;
/// Distance between a tag and its tile's edges, and between the name and the tag's edges.
const MARGIN: u32 = 8;
/// Name tag background.
const TAG_COLOR: [u8; 3] = [30, 128, 128];

/// Returns the name's size in a tile's tag; `None` if the tile is too small for a tag.
pub fn tag_size(tile: Rect) -> Option<LineSize> {
    // In a smaller tile, the tag would cover a third.
    let has_room = tile.height >= 3 * TAG_HEIGHT && tile.width >= 4 * TAG_HEIGHT;
    has_room.then(|| LineSize {
        height: NAME_HEIGHT,
        max_width: tile.width - 4 * MARGIN,
    })
}

/// Draws a name at a tile's bottom left. `name` must have the size from [`tag_size`].
pub fn draw_tag(frame: &mut VideoFrame, tile: Rect, name: &Label) {
    // A name with invisible characters only would leave an empty tag.
    if name.width == 0 {
        return;
    }
    let width = name.width + 2 * MARGIN;
    // Even, as chroma planes need.
    let y = (tile.y + tile.height - TAG_HEIGHT - MARGIN) / 2 * 2;
    let tag = Rect {
        x: tile.x + MARGIN,
        y,
        width: (width / 2 * 2).min(tile.width - 2 * MARGIN),
        height: TAG_HEIGHT,
    };
    frame.fill(tag, TAG_COLOR);
    draw(frame, name, (tag.x + MARGIN, tag.y + 2));
}

pub fn initials_size(tile: Rect) -> LineSize {
    LineSize {
        // Multiples of 32 pixels, the built-in letters' larger raster size.
        height: 32 * (tile.height / 3 / 32).clamp(1, 6),
        max_width: tile.width,
    }
}

/// Returns the first letters of a name's first and last word, in upper case and with their marks.
pub fn initials(name: &str) -> String {
    let first = |word: &str| {
        let marks = word
            .chars()
            .skip(1)
            .take_while(|character| is_mark(*character));
        word.chars()
            .take(1)
            .chain(marks)
            .flat_map(char::to_uppercase)
            .collect::<String>()
    };
    let mut words = name.split_whitespace().map(first);
    // A zero-width non-joiner: without it, two Arabic initials would join to one word.
    words
        .next()
        .into_iter()
        .chain(words.next_back())
        .collect::<Vec<_>>()
        .join("\u{200c}")
}

fn is_mark(character: char) -> bool {
    use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory as _};

    character.general_category_group() == GeneralCategoryGroup::Mark
}

/// Draws initials at a tile's center.
pub fn draw_initials(frame: &mut VideoFrame, tile: Rect, initials: &Label) {
    let x = tile.x + tile.width.saturating_sub(initials.width) / 2;
    let y = tile.y + tile.height.saturating_sub(initials.height) / 2;
    draw(frame, initials, (x, y));
}

fn draw(frame: &mut VideoFrame, label: &Label, (x, y): (u32, u32)) {
    let rows = label
        .coverage
        .chunks(usize::try_from(label.width).unwrap_or_default().max(1));
    for (row, y) in rows.zip(y..) {
        for (coverage, x) in row.iter().zip(x..).filter(|(coverage, _)| **coverage > 0) {
            frame.brighten(x, y, *coverage);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::names::{Fonts, Labels};

    const BLACK: [u8; 3] = [16, 128, 128];

    fn labels() -> [Labels; 2] {
        [Fonts::new(fontdb::Database::new()), Fonts::for_tests()]
            .map(|fonts| Labels::new(Arc::new(fonts)))
    }

    fn tag(labels: &mut Labels, frame: &mut VideoFrame, tile: Rect, name: &str) {
        if let Some(size) = tag_size(tile) {
            draw_tag(frame, tile, &labels.get(name, size));
        }
    }

    fn middle(labels: &mut Labels, frame: &mut VideoFrame, tile: Rect, name: &str) {
        draw_initials(
            frame,
            tile,
            &labels.get(&initials(name), initials_size(tile)),
        );
    }

    #[test]
    fn names_of_any_length_and_script_stay_in_their_tiles() {
        for mut labels in labels() {
            for name in [
                "",
                "A",
                "Zoë Ångström",
                "王小明",
                "محمد علي",
                "Nguyễn",
                &"x".repeat(300),
                "a b c d",
            ] {
                for (width, height) in [(640, 360), (96, 54), (96, 72), (16, 16)] {
                    let mut frame = VideoFrame::new(1280, 720, BLACK);
                    let tile = Rect {
                        x: 320,
                        y: 180,
                        width,
                        height,
                    };
                    tag(&mut labels, &mut frame, tile, name);
                    if width > 90 {
                        middle(&mut labels, &mut frame, tile, name);
                    }
                    let luma = frame.data[..1280 * 720].iter().enumerate();
                    for (at, _) in luma.filter(|(_, luma)| **luma != BLACK[0]) {
                        let (x, y) = (at as u32 % 1280, at as u32 / 1280);
                        let is_inside =
                            (320..320 + width).contains(&x) && (180..180 + height).contains(&y);
                        assert!(is_inside, "{name}: {x} {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn initials_and_tags_are_seen() {
        let tile = Rect {
            x: 0,
            y: 0,
            width: 640,
            height: 360,
        };
        for mut labels in labels() {
            for draw in [tag, middle] {
                let mut frame = VideoFrame::new(640, 360, BLACK);
                draw(&mut labels, &mut frame, tile, "Ada Lovelace");
                assert!(frame.data.iter().filter(|luma| **luma > 200).count() > 50);
            }
        }
    }

    #[test]
    fn initials_are_the_first_letters_with_their_marks() {
        for (name, expected) in [
            ("Ada Lovelace", "A\u{200c}L"),
            ("ada of lovelace", "A\u{200c}L"),
            ("bob", "B"),
            ("e\u{302}lie", "E\u{302}"),
            ("محمد علي", "م\u{200c}ع"),
            ("", ""),
        ] {
            assert_eq!(initials(name), expected);
        }
    }
}
