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
    /// `None` before the first name.
    labels: Option<Labels>,
}

impl Stage {
    /// Creates a stage without tiles.
    pub fn new(arrangement: Arrangement, (width, height): (u32, u32)) -> Self {
        Self {
            arrangement,
            tiles: Vec::new(),
            background: Picture::new(width, height, BLACK),
            labels: None,
        }
    }

    /// Shows other tiles from now on. The first ones wait for the fonts of the system.
    pub fn arrange(&mut self, tiles: Vec<Tile>) {
        self.background.fill(self.background.whole(), BLACK);
        let labels = self
            .labels
            .get_or_insert_with(|| Labels::new(Fonts::of_system()));
        let mut labelled = Vec::new();
        for tile in tiles {
            self.background
                .fill(tile.rect, if tile.video.is_some() { BLACK } else { GREY });
            if tile.video.is_none() {
                let label = labels.get(&initials(&tile.name), initials_size(tile.rect));
                draw_initials(&mut self.background, tile.rect, &label);
            }
            let size = tag_size(tile.rect)
                .filter(|_| self.arrangement != Arrangement::Single && !tile.name.is_empty());
            let tag = size.map(|size| labels.get(&tile.name, size));
            labelled.push((tile, tag));
        }
        self.tiles = labelled;
    }

    /// Composes the picture of a moment.
    pub fn compose(&self, tracks: &mut HashMap<TrackSid, TrackInput>, at: Duration) -> Picture {
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
