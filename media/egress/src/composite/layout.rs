//! Tile positions in a composed frame.
//!
//! Tiles fill the frame without overlaps. All coordinates are even, because 4:2:0 chroma planes
//! have half the resolution.

/// Rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rect {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

/// Maximum tiles beside the speaker's.
const MAX_SIDE_TILES: u32 = 6;
/// Maximum tiles in a grid.
const MAX_GRID_TILES: u32 = 36;

/// Returns about equally large tiles, row by row. Participants beyond the maximum have none.
pub fn grid(participants: usize, width: u32, height: u32) -> Vec<Rect> {
    let tiles = u32::try_from(participants)
        .unwrap_or(MAX_GRID_TILES)
        .min(MAX_GRID_TILES);
    let columns = (1..=tiles)
        // The smallest square that holds all tiles.
        .find(|columns| columns * columns >= tiles)
        .unwrap_or(1);
    let rows = tiles.div_ceil(columns);
    let mut rects = Vec::new();
    for row in 0..rows {
        // If the tiles do not fill all rows, some rows have one tile less, and wider ones.
        let (start, end) = (row * tiles / rows, (row + 1) * tiles / rows);
        let (y, bottom) = (
            even_part(height, row, rows),
            even_part(height, row + 1, rows),
        );
        for column in 0..end - start {
            let (x, right) = (
                even_part(width, column, end - start),
                even_part(width, column + 1, end - start),
            );
            rects.push(Rect {
                x,
                y,
                width: right - x,
                height: bottom - y,
            });
        }
    }
    rects
}

/// Returns a large tile for the first participant, and small ones in a column on its right for the
/// others.
pub fn speaker_and_others(participants: usize, width: u32, height: u32) -> Vec<Rect> {
    let others = u32::try_from(participants.saturating_sub(1))
        .unwrap_or(MAX_SIDE_TILES)
        .min(MAX_SIDE_TILES);
    if participants == 0 {
        return Vec::new();
    }
    let main = if others == 0 {
        width
    } else {
        even_part(width, 4, 5)
    };
    let mut rects = vec![Rect {
        x: 0,
        y: 0,
        width: main,
        height,
    }];
    for other in 0..others {
        let (y, bottom) = (
            even_part(height, other, others),
            even_part(height, other + 1, others),
        );
        rects.push(Rect {
            x: main,
            y,
            width: width - main,
            height: bottom - y,
        });
    }
    rects
}

/// Fits a frame of this size into a rectangle, centered and without distortion.
pub fn fit((width, height): (u32, u32), rect: Rect) -> Rect {
    let (width, height) = (u64::from(width.max(1)), u64::from(height.max(1)));
    let (whole_width, whole_height) = (u64::from(rect.width), u64::from(rect.height));
    // Multiplied crosswise, not divided: u64 holds the products, and there is no rounding.
    let (fitted_width, fitted_height) = if whole_width * height <= whole_height * width {
        (whole_width, whole_width * height / width)
    } else {
        (whole_height * width / height, whole_height)
    };
    // At least two pixels, so that an extremely wide or high video does not vanish.
    let even = |pixels: u64, whole: u32| {
        u32::try_from(pixels / 2 * 2)
            .unwrap_or(whole)
            .clamp(whole.min(2), whole)
    };
    let (width, height) = (
        even(fitted_width, rect.width),
        even(fitted_height, rect.height),
    );
    let (left, above) = ((rect.width - width) / 4 * 2, (rect.height - height) / 4 * 2);
    Rect {
        x: rect.x + left,
        y: rect.y + above,
        width,
        height,
    }
}

/// Returns the width that `count` out of `parts` equal parts take, rounded down to an even number.
fn even_part(pixels: u32, count: u32, parts: u32) -> u32 {
    // The last part ends at the edge, whatever rounding has left over.
    if count == parts {
        pixels
    } else {
        pixels * count / parts / 2 * 2
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overlaps(a: &Rect, b: &Rect) -> bool {
        a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
    }

    fn check(tiles: &[Rect], width: u32, height: u32) {
        let area: u32 = tiles.iter().map(|tile| tile.width * tile.height).sum();
        assert_eq!(
            area,
            width * height,
            "the tiles do not fill the picture: {tiles:?}"
        );
        for (index, tile) in tiles.iter().enumerate() {
            assert!(
                tile.x + tile.width <= width && tile.y + tile.height <= height,
                "{tile:?} is outside"
            );
            assert!(
                [tile.x, tile.y, tile.width, tile.height]
                    .iter()
                    .all(|number| number % 2 == 0),
                "{tile:?}"
            );
            assert!(tile.width > 0 && tile.height > 0, "{tile:?}");
            assert!(
                tiles[..index].iter().all(|other| !overlaps(tile, other)),
                "{tiles:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn tiles_do_not_overlap_and_fill_the_frame(
            participants in 1usize..60, half_width in 80u32..2_000, half_height in 80u32..2_000,
        ) {
            let (width, height) = (half_width * 2, half_height * 2);
            let (grid, speaker) = (grid(participants, width, height), speaker_and_others(participants, width, height));
            check(&grid, width, height);
            check(&speaker, width, height);
            prop_assert_eq!(grid.len(), participants.min(36));
            prop_assert_eq!(speaker.len(), participants.min(7));
        }
    }

    proptest! {
        #[test]
        fn a_fitted_rect_is_inside_and_keeps_its_shape(
            size in (1u32..5_000, 1u32..5_000), half in (1u32..1_000, 1u32..1_000), offset in (0u32..500, 0u32..500),
        ) {
            let rect = Rect { x: offset.0 * 2, y: offset.1 * 2, width: half.0 * 2, height: half.1 * 2 };
            let fitted = fit(size, rect);
            prop_assert!(fitted.x >= rect.x && fitted.x + fitted.width <= rect.x + rect.width, "{:?}", fitted);
            prop_assert!(fitted.y >= rect.y && fitted.y + fitted.height <= rect.y + rect.height, "{:?}", fitted);
            prop_assert!([fitted.x, fitted.y, fitted.width, fitted.height].iter().all(|number| number % 2 == 0));
            prop_assert!(fitted.width == rect.width || fitted.height == rect.height);
            let (is, was) = (fitted.width * size.1, fitted.height * size.0);
            // Rounding to even numbers may add an error: two pixels.
            prop_assert!(is.abs_diff(was) <= 2 * size.0.max(size.1) || fitted.width == 2 || fitted.height == 2);
        }
    }

    #[test]
    fn an_empty_room_has_no_tiles_and_four_participants_have_quarters() {
        assert!(grid(0, 1280, 720).is_empty() && speaker_and_others(0, 1280, 720).is_empty());
        let quarters: Vec<_> = grid(4, 1280, 720)
            .iter()
            .map(|tile| (tile.x, tile.y))
            .collect();
        assert_eq!(quarters, [(0, 0), (640, 0), (0, 360), (640, 360)]);
    }
}
