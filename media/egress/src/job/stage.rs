//! What a composition shows: tiles, their names, and the videos in them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::TrackSid;

use super::input::TrackInput;
use super::scene::{Arrangement, Tile};
use crate::composite::{Picture, draw_initials, draw_tag, initials, initials_size, tag_size};
use crate::names::{Fonts, Label, Labels};

/// Behind and between the tiles.
const BLACK: [u8; 3] = [16, 128, 128];
/// The colour behind a participant's initials.
const GREY: [u8; 3] = [60, 130, 126];

/// The tiles of a composition, and their pictures without videos.
pub struct Stage {
    arrangement: Arrangement,
    /// With the pictures of the names in their tags.
    tiles: Vec<(Tile, Option<Arc<Label>>)>,
    /// The picture without videos: initials.
    background: Picture,
    /// The fonts, once they are loaded.
    fonts: fn() -> Option<Arc<Fonts>>,
    /// `None` until the fonts are loaded. There are no names and initials before.
    labels: Option<Labels>,
}

impl Stage {
    /// Creates a stage without tiles.
    pub fn new(arrangement: Arrangement, (width, height): (u32, u32)) -> Self {
        Self {
            arrangement,
            tiles: Vec::new(),
            background: Picture::new(width, height, BLACK),
            fonts: Fonts::of_system,
            labels: None,
        }
    }

    /// Takes the fonts, and returns whether it did: they are taken once, when they are loaded. The first call starts to load those of the
    /// system.
    pub fn take_fonts(&mut self) -> bool {
        if self.labels.is_some() {
            return false;
        }
        self.labels = (self.fonts)().map(Labels::new);
        self.labels.is_some()
    }

    /// Shows other tiles from now on.
    pub fn arrange(&mut self, tiles: Vec<Tile>) {
        self.take_fonts();
        self.draw(tiles);
    }

    fn draw(&mut self, tiles: Vec<Tile>) {
        self.background.fill(self.background.whole(), BLACK);
        let mut labelled = Vec::new();
        for tile in tiles {
            self.background
                .fill(tile.rect, if tile.video.is_some() { BLACK } else { GREY });
            let mut tag = None;
            if let Some(labels) = &mut self.labels {
                if tile.video.is_none() {
                    let label = labels.get(&initials(&tile.name), initials_size(tile.rect));
                    draw_initials(&mut self.background, tile.rect, &label);
                }
                tag = tag_size(tile.rect)
                    .filter(|_| self.arrangement != Arrangement::Single && !tile.name.is_empty())
                    .map(|size| labels.get(&tile.name, size));
            }
            labelled.push((tile, tag));
        }
        self.tiles = labelled;
    }

    /// Composes the picture of a moment.
    pub fn compose(&mut self, tracks: &mut HashMap<TrackSid, TrackInput>, at: Duration) -> Picture {
        if self.take_fonts() {
            let tiles = std::mem::take(&mut self.tiles);
            self.draw(tiles.into_iter().map(|(tile, _)| tile).collect());
        }
        let mut canvas = self.background.clone();
        for (tile, tag) in &self.tiles {
            let input = tile.video.as_ref().and_then(|sid| tracks.get_mut(sid));
            if let Some(shown) = input.and_then(|input| input.picture(at)) {
                shown.draw(&mut canvas, tile.rect);
            }
            if let Some(tag) = tag {
                draw_tag(&mut canvas, tile.rect, tag);
            }
        }
        canvas
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use conclave_model::egress::Layout;

    use super::*;

    #[test]
    fn pictures_do_not_wait_for_the_fonts_and_have_names_once_they_are_loaded() {
        static LOADED: OnceLock<Arc<Fonts>> = OnceLock::new();
        let mut stage = Stage {
            fonts: || LOADED.get().cloned(),
            ..Stage::new(Arrangement::Room(Layout::Grid), (640, 360))
        };
        let tile = Tile {
            rect: stage.background.whole(),
            participant: "PA_ada".parse().unwrap(),
            name: "Ada".into(),
            video: None,
        };
        let compose = |stage: &mut Stage| stage.compose(&mut HashMap::new(), Duration::ZERO).data;
        stage.arrange(vec![tile.clone()]);
        let without = compose(&mut stage);
        LOADED.get_or_init(|| Arc::new(Fonts::for_tests()));
        let with = compose(&mut stage);
        assert_ne!(without, with, "the name is shown");
        stage.arrange(vec![tile]);
        assert_eq!(
            compose(&mut stage),
            with,
            "as if the fonts had been there from the beginning"
        );
    }
}
