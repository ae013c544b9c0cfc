//! Composition tiles, and the frame that they make at a moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::egress::Layout;
use conclave_model::participant::TrackSource;
use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::Codec;

use super::track_decoder::TrackDecoder;
use crate::composite::{
    Rect, VideoFrame, draw_initials, draw_tag, grid, initials, initials_size, speaker_and_others,
    tag_size,
};
use crate::names::{Fonts, Label, Labels};
use crate::pipeline::{InputParticipant, InputTrack};

/// Color behind and between the tiles, as Y, U and V (limited range).
const BLACK: [u8; 3] = [16, 128, 128];
/// Color behind a participant's initials.
const GREY: [u8; 3] = [60, 130, 126];

/// Tile arrangement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// All participants, in tiles with name tags.
    Room(Layout),
    /// One participant in the whole frame, without a name tag.
    Single,
}

/// Tile in a composed frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// Position and size.
    pub rect: Rect,
    /// Session shown in the tile.
    pub participant: ParticipantSid,
    /// Display name, or else the identity.
    pub name: String,
    /// Video sid; `None` if the participant has no unmuted one.
    pub video: Option<TrackSid>,
}

/// Returns a frame's tiles. Screen shares come first, then cameras in input order, which the room
/// sorts by identity. The `speaker` layout moves the active speaker's camera to the front.
pub fn arrange(
    arrangement: Arrangement,
    inputs: &[InputParticipant],
    speaker: Option<&ParticipantSid>,
    (width, height): (u32, u32),
) -> Vec<Tile> {
    let mut shown: Vec<(&InputParticipant, Option<&InputTrack>)> = Vec::new();
    let video = |participant: &'_ InputParticipant, is_screen: bool| {
        let is_shown = |track: &InputTrack| {
            track.codec != Codec::Opus
                && !track.is_muted
                // Any video that is not a screen share counts as a camera.
                && (track.source == TrackSource::ScreenShare) == is_screen
        };
        participant.tracks.iter().position(is_shown)
    };
    let screens = inputs
        .iter()
        .filter_map(|participant| Some((participant, video(participant, true)?)));
    let screens: Vec<_> = screens
        .map(|(participant, index)| (participant, participant.tracks.get(index)))
        .collect();
    let mut cameras: Vec<_> = inputs
        .iter()
        .map(|participant| {
            (
                participant,
                video(participant, false).and_then(|index| participant.tracks.get(index)),
            )
        })
        .collect();
    if let Some(speaking) = cameras
        .iter()
        .position(|(participant, _)| Some(&participant.sid) == speaker)
        && arrangement == Arrangement::Room(Layout::Speaker)
    {
        // A rotation rather than a swap: the other participants keep their order.
        cameras[..=speaking].rotate_right(1);
    }
    let rects = match arrangement {
        Arrangement::Single => {
            let camera = cameras.iter().find(|(_, video)| video.is_some());
            // A single participant without video is shown by its initials.
            shown.extend(camera.or(screens.first()).or(cameras.first()));
            grid(shown.len(), width, height)
        }
        Arrangement::Room(layout) => {
            shown.extend(screens);
            shown.extend(cameras);
            let arrange = if layout == Layout::Grid {
                grid
            } else {
                speaker_and_others
            };
            arrange(shown.len(), width, height)
        }
    };
    let tile =
        |((participant, video), rect): ((&InputParticipant, Option<&InputTrack>), Rect)| Tile {
            rect,
            participant: participant.sid.clone(),
            name: if participant.name.is_empty() {
                participant.identity.to_string()
            } else {
                participant.name.clone()
            },
            video: video.map(|track| track.sid.clone()),
        };
    // `zip` drops the participants for whom the layout has no tile.
    shown.into_iter().zip(rects).map(tile).collect()
}

/// Draws a composition's frames.
pub struct Compositor {
    arrangement: Arrangement,
    /// Tiles, each with its drawn name tag.
    tiles: Vec<(Tile, Option<Arc<Label>>)>,
    /// Everything but the videos: tile colors and initials.
    background: VideoFrame,
    /// Font source; replaced in tests.
    fonts: fn() -> Option<Arc<Fonts>>,
    /// Drawn names; `None` until the fonts are loaded, and then without names and initials.
    labels: Option<Labels>,
}

impl Compositor {
    /// Creates a compositor without tiles, and starts to load the fonts.
    pub fn new(arrangement: Arrangement, (width, height): (u32, u32)) -> Self {
        Self {
            arrangement,
            tiles: Vec::new(),
            background: VideoFrame::new(width, height, BLACK),
            fonts: Fonts::from_system,
            labels: None,
        }
    }

    /// Returns whether the fonts became available with this call. The first call starts to load the
    /// system's fonts.
    pub fn poll_fonts(&mut self) -> bool {
        if self.labels.is_some() {
            return false;
        }
        self.labels = (self.fonts)().map(Labels::new);
        self.labels.is_some()
    }

    /// Shows these tiles from now on.
    pub fn set_tiles(&mut self, tiles: Vec<Tile>) {
        self.poll_fonts();
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
                // Not for a single participant, who is alone in the frame.
                tag = tag_size(tile.rect)
                    .filter(|_| self.arrangement != Arrangement::Single && !tile.name.is_empty())
                    .map(|size| labels.get(&tile.name, size));
            }
            // Drawn names are kept with the tiles, since each frame needs them.
            labelled.push((tile, tag));
        }
        self.tiles = labelled;
    }

    /// Drops the decoders' frames up to a moment without composing them, so that the queues do not fill.
    pub fn skip(&self, tracks: &mut HashMap<TrackSid, TrackDecoder>, at: Duration) {
        for sid in self
            .tiles
            .iter()
            .filter_map(|(tile, _)| tile.video.as_ref())
        {
            if let Some(input) = tracks.get_mut(sid) {
                input.frame_at(at);
            }
        }
    }

    /// Composes the frame for a moment.
    pub fn compose(
        &mut self,
        tracks: &mut HashMap<TrackSid, TrackDecoder>,
        at: Duration,
    ) -> VideoFrame {
        // Loading takes up to a minute on a busy machine. Until then, frames have no names rather
        // than not being composed.
        if self.poll_fonts() {
            let tiles = std::mem::take(&mut self.tiles);
            self.draw(tiles.into_iter().map(|(tile, _)| tile).collect());
        }
        // The background changes only with the tiles, so initials and colors are not drawn for each
        // frame.
        let mut canvas = self.background.clone();
        for (tile, tag) in &self.tiles {
            let input = tile.video.as_ref().and_then(|sid| tracks.get_mut(sid));
            if let Some(shown) = input.and_then(|input| input.frame_at(at)) {
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

    use super::*;

    fn participant(identity: &str, tracks: &[(&str, TrackSource, bool)]) -> InputParticipant {
        let track = |(sid, source, is_muted): &(&str, TrackSource, bool)| InputTrack {
            sid: sid.parse().unwrap(),
            source: *source,
            codec: if *source == TrackSource::Microphone {
                Codec::Opus
            } else {
                Codec::Vp8
            },
            is_muted: *is_muted,
        };
        InputParticipant {
            sid: format!("PA_{identity}").parse().unwrap(),
            identity: identity.parse().unwrap(),
            name: String::new(),
            tracks: tracks.iter().map(track).collect(),
        }
    }

    fn room() -> Vec<InputParticipant> {
        vec![
            participant(
                "alice",
                &[
                    ("TR_a", TrackSource::Camera, false),
                    ("TR_am", TrackSource::Microphone, false),
                ],
            ),
            participant("bob", &[("TR_b", TrackSource::Camera, true)]),
            participant(
                "carol",
                &[
                    ("TR_c", TrackSource::Camera, false),
                    ("TR_cs", TrackSource::ScreenShare, false),
                ],
            ),
        ]
    }

    fn tiles(
        arrangement: Arrangement,
        inputs: &[InputParticipant],
        speaker: Option<&str>,
    ) -> Vec<(String, Option<String>)> {
        let speaker = speaker.map(|sid| sid.parse().unwrap());
        let tiles = arrange(arrangement, inputs, speaker.as_ref(), (1280, 720));
        tiles
            .into_iter()
            .map(|tile| (tile.name, tile.video.map(|sid| sid.to_string())))
            .collect()
    }

    fn names(arrangement: Arrangement, speaker: Option<&str>) -> Vec<String> {
        tiles(arrangement, &room(), speaker)
            .into_iter()
            .map(|(name, video)| video.unwrap_or(name))
            .collect()
    }

    #[test]
    fn screens_come_first_and_participants_without_video_have_a_tile() {
        assert_eq!(
            names(Arrangement::Room(Layout::Grid), None),
            ["TR_cs", "TR_a", "bob", "TR_c"]
        );
        assert_eq!(
            names(Arrangement::Room(Layout::Grid), Some("PA_carol")),
            ["TR_cs", "TR_a", "bob", "TR_c"]
        );
        assert_eq!(
            names(Arrangement::Room(Layout::Speaker), Some("PA_bob")),
            ["TR_cs", "bob", "TR_a", "TR_c"]
        );
    }

    #[test]
    fn a_single_participant_is_shown_by_its_camera_else_its_screen_else_its_initials() {
        let single = |participant: &InputParticipant| {
            tiles(Arrangement::Single, std::slice::from_ref(participant), None)
        };
        let shown: Vec<_> = room()
            .iter()
            .flat_map(single)
            .map(|(name, video)| video.unwrap_or(name))
            .collect();
        assert_eq!(shown, ["TR_a", "bob", "TR_c"]);
        let screen = participant(
            "dave",
            &[
                ("TR_d", TrackSource::Camera, true),
                ("TR_ds", TrackSource::ScreenShare, false),
            ],
        );
        assert_eq!(single(&screen), [("dave".into(), Some("TR_ds".into()))]);
        assert_eq!(tiles(Arrangement::Single, &[], None), []);
    }

    #[test]
    fn frames_do_not_wait_for_the_fonts_and_have_names_once_they_are_loaded() {
        static LOADED: OnceLock<Arc<Fonts>> = OnceLock::new();
        let mut compositor = Compositor {
            fonts: || LOADED.get().cloned(),
            ..Compositor::new(Arrangement::Room(Layout::Grid), (640, 360))
        };
        let tile = Tile {
            rect: compositor.background.whole(),
            participant: "PA_ada".parse().unwrap(),
            name: "Ada".into(),
            video: None,
        };
        let compose = |compositor: &mut Compositor| {
            compositor.compose(&mut HashMap::new(), Duration::ZERO).data
        };
        compositor.set_tiles(vec![tile.clone()]);
        let without = compose(&mut compositor);
        LOADED.get_or_init(|| Arc::new(Fonts::for_tests()));
        let with = compose(&mut compositor);
        assert_ne!(without, with, "the name is shown");
        compositor.set_tiles(vec![tile]);
        assert_eq!(
            compose(&mut compositor),
            with,
            "as if the fonts had been there from the beginning"
        );
    }
}
