//! What a composition shows: tiles, what is in them, and their picture at a moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::egress::Layout;
use conclave_model::participant::TrackSource;
use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::Codec;

use super::input::TrackInput;
use crate::composite::{
    Picture, Rect, draw_initials, draw_tag, grid, initials, initials_size, speaker_and_others,
    tag_size,
};
use crate::job::{Attendee, AttendeeTrack};
use crate::names::{Fonts, Label, Labels};

/// Behind and between the tiles.
const BLACK: [u8; 3] = [16, 128, 128];
/// The colour behind a participant's initials.
const GREY: [u8; 3] = [60, 130, 126];

/// The arrangement of a composition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// Participants in tiles with their names.
    Room(Layout),
    /// One participant in the whole picture, without a name.
    Single,
}

/// A tile of a composed picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// Where it is.
    pub rect: Rect,
    /// The session that is shown.
    pub participant: ParticipantSid,
    /// What it is called: its name, or else its identity.
    pub name: String,
    /// The video; `None` if the participant has none that is not muted.
    pub video: Option<TrackSid>,
}

/// Returns the tiles of a picture. Screens come first, then participants in the order of their identities, with the speaker
/// first if the layout is that of a speaker.
pub fn arrange(
    arrangement: Arrangement,
    attendees: &[Attendee],
    speaker: Option<&ParticipantSid>,
    (width, height): (u32, u32),
) -> Vec<Tile> {
    let mut shown: Vec<(&Attendee, Option<&AttendeeTrack>)> = Vec::new();
    let video = |attendee: &'_ Attendee, is_screen: bool| {
        let is_shown = |track: &AttendeeTrack| {
            track.codec != Codec::Opus
                && !track.is_muted
                && (track.source == TrackSource::ScreenShare) == is_screen
        };
        attendee.tracks.iter().position(is_shown)
    };
    let screens = attendees
        .iter()
        .filter_map(|attendee| Some((attendee, video(attendee, true)?)));
    let screens: Vec<_> = screens
        .map(|(attendee, index)| (attendee, attendee.tracks.get(index)))
        .collect();
    let mut cameras: Vec<_> = attendees
        .iter()
        .map(|attendee| {
            (
                attendee,
                video(attendee, false).and_then(|index| attendee.tracks.get(index)),
            )
        })
        .collect();
    if let Some(speaking) = cameras
        .iter()
        .position(|(attendee, _)| Some(&attendee.sid) == speaker)
        && arrangement == Arrangement::Room(Layout::Speaker)
    {
        cameras[..=speaking].rotate_right(1);
    }
    let rects = match arrangement {
        Arrangement::Single => {
            let camera = cameras.iter().find(|(_, video)| video.is_some());
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
    let tile = |((attendee, video), rect): ((&Attendee, Option<&AttendeeTrack>), Rect)| Tile {
        rect,
        participant: attendee.sid.clone(),
        name: if attendee.name.is_empty() {
            attendee.identity.to_string()
        } else {
            attendee.name.clone()
        },
        video: video.map(|track| track.sid.clone()),
    };
    shown.into_iter().zip(rects).map(tile).collect()
}

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

    use super::*;

    fn attendee(identity: &str, tracks: &[(&str, TrackSource, bool)]) -> Attendee {
        let track = |(sid, source, is_muted): &(&str, TrackSource, bool)| AttendeeTrack {
            sid: sid.parse().unwrap(),
            source: *source,
            codec: if *source == TrackSource::Microphone {
                Codec::Opus
            } else {
                Codec::Vp8
            },
            is_muted: *is_muted,
        };
        Attendee {
            sid: format!("PA_{identity}").parse().unwrap(),
            identity: identity.parse().unwrap(),
            name: String::new(),
            tracks: tracks.iter().map(track).collect(),
        }
    }

    fn room() -> Vec<Attendee> {
        vec![
            attendee(
                "alice",
                &[
                    ("TR_a", TrackSource::Camera, false),
                    ("TR_am", TrackSource::Microphone, false),
                ],
            ),
            attendee("bob", &[("TR_b", TrackSource::Camera, true)]),
            attendee(
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
        attendees: &[Attendee],
        speaker: Option<&str>,
    ) -> Vec<(String, Option<String>)> {
        let speaker = speaker.map(|sid| sid.parse().unwrap());
        let tiles = arrange(arrangement, attendees, speaker.as_ref(), (1280, 720));
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
        let single =
            |attendee: &Attendee| tiles(Arrangement::Single, std::slice::from_ref(attendee), None);
        let shown: Vec<_> = room()
            .iter()
            .flat_map(single)
            .map(|(name, video)| video.unwrap_or(name))
            .collect();
        assert_eq!(shown, ["TR_a", "bob", "TR_c"]);
        let screen = attendee(
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
