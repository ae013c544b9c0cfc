//! A picture of planes of Y, U and V, the latter two at half the width and height, and one that is shown in a tile.

use super::layout::{Rect, fit};

/// A color: Y, U and V.
pub type Color = [u8; 3];

/// A picture. Its width and height are even.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    /// The planes, one behind the other.
    pub data: Vec<u8>,
}

/// One plane of a picture.
struct Plane {
    /// Where it begins.
    offset: usize,
    width: usize,
    /// By how much its coordinates are smaller than those of the picture.
    divisor: u32,
}

impl Picture {
    /// Creates a picture of one color.
    pub fn new(width: u32, height: u32, color: Color) -> Self {
        let pixels = to_usize(width) * to_usize(height);
        let mut data = vec![color[0]; pixels];
        data.resize(pixels + pixels / 4, color[1]);
        data.resize(pixels + pixels / 2, color[2]);
        Self {
            width,
            height,
            data,
        }
    }

    /// Wraps the planes of a picture; `None` if their size is another one.
    pub fn from_planes(width: u32, height: u32, data: Vec<u8>) -> Option<Self> {
        let pixels = to_usize(width) * to_usize(height);
        (data.len() == pixels + pixels / 2).then_some(Self {
            width,
            height,
            data,
        })
    }

    fn planes(&self) -> [Plane; 3] {
        let (width, height) = (to_usize(self.width), to_usize(self.height));
        [
            Plane {
                offset: 0,
                width,
                divisor: 1,
            },
            Plane {
                offset: width * height,
                width: width / 2,
                divisor: 2,
            },
            Plane {
                offset: width * height * 5 / 4,
                width: width / 2,
                divisor: 2,
            },
        ]
    }

    /// Fills a part with a color.
    pub fn fill(&mut self, rect: Rect, color: Color) {
        for (plane, value) in self.planes().into_iter().zip(color) {
            for row in plane.rows(rect) {
                self.data[row].fill(value);
            }
        }
    }

    /// Returns the whole of the picture.
    pub const fn whole(&self) -> Rect {
        Rect {
            x: 0,
            y: 0,
            width: self.width,
            height: self.height,
        }
    }

    /// Copies a part of a picture into a part of this one. One of another size is stretched.
    pub fn copy(&mut self, from: &Self, part: Rect, rect: Rect) {
        for (to_plane, from_plane) in self.planes().into_iter().zip(from.planes()) {
            let (rows, sources): (Vec<_>, Vec<_>) = (
                to_plane.rows(rect).collect(),
                from_plane.rows(part).collect(),
            );
            for (index, row) in rows.iter().enumerate() {
                let Some(source) = sources.get(index * sources.len() / rows.len()) else {
                    break;
                };
                let source = &from.data[source.clone()];
                let target = &mut self.data[row.clone()];
                if target.len() == source.len() {
                    target.copy_from_slice(source);
                } else if !source.is_empty() {
                    let width = target.len();
                    for (x, pixel) in target.iter_mut().enumerate() {
                        *pixel = source[x * source.len() / width];
                    }
                }
            }
        }
    }

    /// Makes a pixel brighter: 0 changes nothing, 255 makes it white.
    pub fn brighten(&mut self, x: u32, y: u32, intensity: u8) {
        if x < self.width && y < self.height {
            let pixel = &mut self.data[to_usize(y) * to_usize(self.width) + to_usize(x)];
            let (old, white) = (u16::from(*pixel), 235);
            let mixed = (old * (255 - u16::from(intensity)) + white * u16::from(intensity)) / 255;
            *pixel = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
    }
}

impl Plane {
    /// Returns the bytes of each row of a part.
    fn rows(&self, rect: Rect) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let scaled = |pixels: u32| to_usize(pixels / self.divisor);
        let (x, y, width, height) = (
            scaled(rect.x),
            scaled(rect.y),
            scaled(rect.width),
            scaled(rect.height),
        );
        let (offset, stride) = (self.offset + y * self.width + x, self.width);
        (0..height).map(move |row| offset + row * stride..offset + row * stride + width)
    }
}

/// Every platform of this server has at least 32 bits.
fn to_usize(pixels: u32) -> usize {
    usize::try_from(pixels).unwrap_or(usize::MAX)
}

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

    const RED: Color = [82, 90, 240];
    const BLACK: Color = [16, 128, 128];

    fn at(picture: &Picture, x: usize, y: usize) -> Color {
        let (width, height) = (picture.width as usize, picture.height as usize);
        let chroma = y / 2 * width / 2 + x / 2;
        [
            picture.data[y * width + x],
            picture.data[width * height + chroma],
            picture.data[width * height * 5 / 4 + chroma],
        ]
    }

    #[test]
    fn a_picture_is_copied_into_its_part_alone_and_stretched_if_need_be() {
        for (width, height) in [(8, 4), (32, 18), (4, 2)] {
            let mut canvas = Picture::new(32, 18, BLACK);
            let picture = Picture::new(width, height, RED);
            canvas.copy(
                &picture,
                picture.whole(),
                Rect {
                    x: 8,
                    y: 4,
                    width: 8,
                    height: 4,
                },
            );
            for y in 0..18 {
                for x in 0..32 {
                    let is_inside = (8..16).contains(&x) && (4..8).contains(&y);
                    assert_eq!(
                        at(&canvas, x, y),
                        if is_inside { RED } else { BLACK },
                        "{x} {y}"
                    );
                }
            }
        }
    }

    #[test]
    fn planes_of_another_size_are_no_picture() {
        assert!(Picture::from_planes(4, 2, vec![0; 12]).is_some());
        assert!(Picture::from_planes(4, 2, vec![0; 11]).is_none());
    }

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
