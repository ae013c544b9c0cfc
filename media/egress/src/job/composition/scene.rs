//! What is where in a composed picture.

use conclave_model::egress::Layout;
use conclave_model::participant::TrackSource;
use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::Codec;

use super::handle::{Attendee, AttendeeTrack};
use crate::composite::{Rect, grid, speaker_and_others};

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

#[cfg(test)]
mod tests {
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
}
