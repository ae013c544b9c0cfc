//! Names in pictures.

use super::layout::Rect;
use super::picture::Picture;
use crate::names::{Label, LineSize};

/// The height of a name tag in pixels, and of the name in it.
const TAG_HEIGHT: u32 = 24;
const NAME_HEIGHT: u32 = 20;
/// The distance of a name tag from the edges of its tile, and of the name from the edges of the tag.
const MARGIN: u32 = 8;
/// Behind the letters of a name tag.
const TAG_COLOR: [u8; 3] = [30, 128, 128];

/// Returns the size of the name in the tag of a tile; `None` if the tile is too small for a tag.
pub fn tag_size(tile: Rect) -> Option<LineSize> {
    let has_room = tile.height >= 3 * TAG_HEIGHT && tile.width >= 4 * TAG_HEIGHT;
    has_room.then(|| LineSize {
        height: NAME_HEIGHT,
        max_width: tile.width - 4 * MARGIN,
    })
}

/// Draws a name of that size at the bottom left of a tile.
pub fn draw_tag(picture: &mut Picture, tile: Rect, name: &Label) {
    if name.width == 0 {
        return;
    }
    let width = name.width + 2 * MARGIN;
    let y = (tile.y + tile.height - TAG_HEIGHT - MARGIN) / 2 * 2;
    let tag = Rect {
        x: tile.x + MARGIN,
        y,
        width: (width / 2 * 2).min(tile.width - 2 * MARGIN),
        height: TAG_HEIGHT,
    };
    picture.fill(tag, TAG_COLOR);
    draw(picture, name, (tag.x + MARGIN, tag.y + 2));
}

/// Returns the size of the initials in a tile.
pub fn initials_size(tile: Rect) -> LineSize {
    LineSize {
        height: 32 * (tile.height / 3 / 32).clamp(1, 6),
        max_width: tile.width,
    }
}

/// Returns the initials of a name: the first letters of its first and last word, with their marks.
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
    // Two letters of Arabic would join to one word without what keeps them apart.
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

/// Draws initials in the middle of a tile.
pub fn draw_initials(picture: &mut Picture, tile: Rect, initials: &Label) {
    let x = tile.x + tile.width.saturating_sub(initials.width) / 2;
    let y = tile.y + tile.height.saturating_sub(initials.height) / 2;
    draw(picture, initials, (x, y));
}

fn draw(picture: &mut Picture, label: &Label, (x, y): (u32, u32)) {
    let rows = label
        .coverage
        .chunks(usize::try_from(label.width).unwrap_or_default().max(1));
    for (row, y) in rows.zip(y..) {
        for (coverage, x) in row.iter().zip(x..).filter(|(coverage, _)| **coverage > 0) {
            picture.brighten(x, y, *coverage);
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

    fn tag(labels: &mut Labels, picture: &mut Picture, tile: Rect, name: &str) {
        if let Some(size) = tag_size(tile) {
            draw_tag(picture, tile, &labels.get(name, size));
        }
    }

    fn middle(labels: &mut Labels, picture: &mut Picture, tile: Rect, name: &str) {
        draw_initials(
            picture,
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
                    let mut picture = Picture::new(1280, 720, BLACK);
                    let tile = Rect {
                        x: 320,
                        y: 180,
                        width,
                        height,
                    };
                    tag(&mut labels, &mut picture, tile, name);
                    if width > 90 {
                        middle(&mut labels, &mut picture, tile, name);
                    }
                    let luma = picture.data[..1280 * 720].iter().enumerate();
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
                let mut picture = Picture::new(640, 360, BLACK);
                draw(&mut labels, &mut picture, tile, "Ada Lovelace");
                assert!(picture.data.iter().filter(|luma| **luma > 200).count() > 50);
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
