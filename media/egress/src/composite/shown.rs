//! The picture of a video that is shown in a tile.

use super::layout::{Rect, fit};
use super::picture::Picture;

/// A picture that was made for a tile, with bars around the video if that has another shape.
#[derive(Debug)]
pub struct Shown {
    picture: Picture,
    /// Where the video is in it.
    video: Rect,
}

impl Shown {
    /// Wraps a picture of a video with this width and height. If they are unknown, the bars count as part of the video.
    pub fn new(picture: Picture, source: Option<(u32, u32)>) -> Self {
        let whole = picture.whole();
        Self {
            video: source.map_or(whole, |size| fit(size, whole)),
            picture,
        }
    }

    /// Draws the picture into a tile. In one of another size, for which it was not made, the video keeps its shape.
    pub fn draw(&self, canvas: &mut Picture, tile: Rect) {
        if (self.picture.width, self.picture.height) == (tile.width, tile.height) {
            canvas.copy(&self.picture, self.picture.whole(), tile);
        } else {
            canvas.copy(
                &self.picture,
                self.video,
                fit((self.video.width, self.video.height), tile),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: [u8; 3] = [82, 90, 240];
    const BLACK: [u8; 3] = [16, 128, 128];

    #[test]
    fn a_video_keeps_its_shape_in_a_tile_for_which_its_picture_was_not_made() {
        // 320x180 in a tile of 160x180: bars above and below 160x90.
        let mut picture = Picture::new(160, 180, BLACK);
        picture.fill(
            Rect {
                x: 0,
                y: 44,
                width: 160,
                height: 90,
            },
            RED,
        );
        let shown = Shown::new(picture, Some((320, 180)));
        let mut canvas = Picture::new(320, 180, BLACK);
        for (tile, video) in [
            (
                Rect {
                    x: 0,
                    y: 0,
                    width: 320,
                    height: 90,
                },
                Rect {
                    x: 80,
                    y: 0,
                    width: 160,
                    height: 90,
                },
            ),
            (
                Rect {
                    x: 160,
                    y: 0,
                    width: 160,
                    height: 180,
                },
                Rect {
                    x: 160,
                    y: 44,
                    width: 160,
                    height: 90,
                },
            ),
            (
                Rect {
                    x: 0,
                    y: 0,
                    width: 320,
                    height: 180,
                },
                Rect {
                    x: 0,
                    y: 0,
                    width: 320,
                    height: 180,
                },
            ),
        ] {
            canvas.fill(canvas.whole(), BLACK);
            shown.draw(&mut canvas, tile);
            let red = canvas
                .data
                .iter()
                .take(320 * 180)
                .filter(|luma| **luma == RED[0])
                .count();
            assert_eq!(red, (video.width * video.height) as usize, "{tile:?}");
            let corner = |x: u32, y: u32| canvas.data[(y * 320 + x) as usize] == RED[0];
            assert!(
                corner(video.x, video.y)
                    && corner(video.x + video.width - 1, video.y + video.height - 1),
                "{tile:?}"
            );
        }
    }
}
