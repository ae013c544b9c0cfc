//! Raw video frames in I420: Y, U and V planes, with chroma at half the width and height.

use super::layout::{Rect, fit};

/// Color as Y, U and V.
pub type Color = [u8; 3];

/// Raw video frame. Its width and height are even.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VideoFrame {
    pub width: u32,
    pub height: u32,
    /// Y, U and V planes, back to back.
    pub data: Vec<u8>,
}

struct Plane {
    /// First byte in the frame's data.
    offset: usize,
    width: usize,
    /// Divisor from frame coordinates to plane coordinates.
    divisor: u32,
}

impl VideoFrame {
    /// Creates a frame in one color.
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

    /// Wraps a frame's planes; `None` if their length does not match its size.
    pub fn from_planes(width: u32, height: u32, data: Vec<u8>) -> Option<Self> {
        let pixels = to_usize(width) * to_usize(height);
        // A damaged stream may yield a block with another size.
        (data.len() == pixels + pixels / 2).then_some(Self {
            width,
            height,
            data,
        })
    }

    fn planes(&self) -> [Plane; 3] {
        // Both are even, so the chroma planes have whole numbers of pixels.
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

    /// Fills a rectangle with a color.
    pub fn fill(&mut self, rect: Rect, color: Color) {
        for (plane, value) in self.planes().into_iter().zip(color) {
            for row in plane.rows(rect) {
                self.data[row].fill(value);
            }
        }
    }

    /// Returns the whole frame's rectangle.
    pub const fn whole(&self) -> Rect {
        Rect {
            x: 0,
            y: 0,
            width: self.width,
            height: self.height,
        }
    }

    /// Copies another frame's rectangle `part` to `rect`, stretching it if their sizes differ.
    pub fn copy(&mut self, from: &Self, part: Rect, rect: Rect) {
        for (to_plane, from_plane) in self.planes().into_iter().zip(from.planes()) {
            let (rows, sources): (Vec<_>, Vec<_>) = (
                to_plane.rows(rect).collect(),
                from_plane.rows(part).collect(),
            );
            for (index, row) in rows.iter().enumerate() {
                // Nearest neighbor: stretching lasts only until a decoder for the new tile size has
                // started.
                let Some(source) = sources.get(index * sources.len() / rows.len()) else {
                    break;
                };
                let source = &from.data[source.clone()];
                let target = &mut self.data[row.clone()];
                // The usual case, without scaling: a row is one memcpy.
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

    /// Brightens a pixel: 0 changes nothing, 255 makes it white.
    pub fn brighten(&mut self, x: u32, y: u32, intensity: u8) {
        if x < self.width && y < self.height {
            let pixel = &mut self.data[to_usize(y) * to_usize(self.width) + to_usize(x)];
            // White in limited range (BT.601). Only luma changes, so letters take the background's
            // tint.
            let (old, white) = (u16::from(*pixel), 235);
            let mixed = (old * (255 - u16::from(intensity)) + white * u16::from(intensity)) / 255;
            *pixel = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
    }
}

impl Plane {
    /// Returns each row's byte range in a rectangle.
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

/// Converts a pixel count. All supported platforms have at least 32 bits.
fn to_usize(pixels: u32) -> usize {
    usize::try_from(pixels).unwrap_or(usize::MAX)
}

/// Decoded frame for a tile. If the video has another shape than the tile, it has bars.
#[derive(Debug)]
pub struct TileFrame {
    frame: VideoFrame,
    /// Video position between the bars.
    video: Rect,
}

impl TileFrame {
    /// Wraps a decoded frame from a video with this size. If the size is unknown, the bars count as
    /// video.
    pub fn new(frame: VideoFrame, source: Option<(u32, u32)>) -> Self {
        let whole = frame.whole();
        Self {
            video: source.map_or(whole, |size| fit(size, whole)),
            frame,
        }
    }

    /// Draws the frame into a tile. If the tile has another size, the video keeps its shape.
    pub fn draw(&self, canvas: &mut VideoFrame, tile: Rect) {
        if (self.frame.width, self.frame.height) == (tile.width, tile.height) {
            // The usual case: ffmpeg has scaled and padded the frame for this tile.
            canvas.copy(&self.frame, self.frame.whole(), tile);
        } else {
            canvas.copy(
                &self.frame,
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

    fn at(frame: &VideoFrame, x: usize, y: usize) -> Color {
        let (width, height) = (frame.width as usize, frame.height as usize);
        let chroma = y / 2 * width / 2 + x / 2;
        [
            frame.data[y * width + x],
            frame.data[width * height + chroma],
            frame.data[width * height * 5 / 4 + chroma],
        ]
    }

    #[test]
    fn a_frame_is_copied_into_its_rect_alone_and_stretched_if_needed() {
        for (width, height) in [(8, 4), (32, 18), (4, 2)] {
            let mut canvas = VideoFrame::new(32, 18, BLACK);
            let frame = VideoFrame::new(width, height, RED);
            canvas.copy(
                &frame,
                frame.whole(),
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
    fn planes_of_another_size_are_refused() {
        assert!(VideoFrame::from_planes(4, 2, vec![0; 12]).is_some());
        assert!(VideoFrame::from_planes(4, 2, vec![0; 11]).is_none());
    }

    #[test]
    fn a_video_keeps_its_shape_in_a_tile_of_another_size() {
        // A 320x180 video in a 160x180 tile has 160x90 pixels, and bars above and below.
        let mut frame = VideoFrame::new(160, 180, BLACK);
        frame.fill(
            Rect {
                x: 0,
                y: 44,
                width: 160,
                height: 90,
            },
            RED,
        );
        let shown = TileFrame::new(frame, Some((320, 180)));
        let mut canvas = VideoFrame::new(320, 180, BLACK);
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
