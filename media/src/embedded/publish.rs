//! Checks of published tracks against a participant's grants.

use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::role::PublishCodec;
use conclave_sfu::{Codec, TrackMedium};

use super::error::RoomStateError;
use crate::token::Grants;

/// A track that a participant requests to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTrack {
    /// Audio, video or data.
    pub kind: TrackKind,
    /// The track's origin, such as a camera.
    pub source: TrackSource,
    /// The publisher's name for the track.
    pub name: Option<String>,
    /// Whether the track starts muted.
    pub muted: bool,
}

/// Checks whether the grants allow a track of this kind from this source.
pub(super) fn check_track(
    grants: &Grants,
    kind: TrackKind,
    source: TrackSource,
) -> Result<(), RoomStateError> {
    let allowed = match kind {
        TrackKind::Data => check_data(grants),
        TrackKind::Audio | TrackKind::Video => check_media(grants, source),
    };
    if is_source_of(kind, source) {
        allowed
    } else {
        Err(RoomStateError::Forbidden(
            "the source does not fit the kind",
        ))
    }
}

/// Returns the codecs that the grants allow for publishing, in order of preference.
pub(super) fn allowed_codecs(grants: &Grants) -> Vec<Codec> {
    Codec::ALL
        .into_iter()
        .filter(|codec| check_codec(grants, *codec).is_ok())
        .collect()
}

/// Checks whether the grants allow a codec.
pub(super) fn check_codec(grants: &Grants, codec: Codec) -> Result<(), RoomStateError> {
    let is_allowed = |allowed: &Vec<PublishCodec>| {
        // Roles list video codecs only.
        codec.medium() == TrackMedium::Audio
            || allowed
                .iter()
                .any(|allowed| Codec::from_mime_type(allowed.as_str()) == Some(codec))
    };
    if grants.video_codecs.as_ref().is_none_or(is_allowed) {
        Ok(())
    } else {
        Err(RoomStateError::Forbidden(
            "publishing with this codec is not granted",
        ))
    }
}

/// Checks whether the grants allow a published track's codec, given by MIME type.
pub(super) fn check_mime_type(grants: &Grants, mime_type: &str) -> Result<(), RoomStateError> {
    // An unknown or empty type is none of the codecs that a role can list.
    Codec::from_mime_type(mime_type).map_or(Ok(()), |codec| check_codec(grants, codec))
}

/// Checks whether the grants allow data tracks and messages.
pub(super) fn check_data(grants: &Grants) -> Result<(), RoomStateError> {
    if grants.can_publish_data {
        Ok(())
    } else {
        Err(RoomStateError::Forbidden("publishing data is not granted"))
    }
}

fn check_media(grants: &Grants, source: TrackSource) -> Result<(), RoomStateError> {
    if !grants.can_publish {
        Err(RoomStateError::Forbidden("publishing is not granted"))
    // An empty list allows every source, as in LiveKit's `canPublishSources`.
    } else if grants.sources.is_empty() || grants.sources.contains(&source) {
        Ok(())
    } else {
        Err(RoomStateError::Forbidden(
            "publishing from this source is not granted",
        ))
    }
}

/// Returns whether a source can have tracks of this kind. An unknown source can have any kind; data has no other
/// source.
fn is_source_of(kind: TrackKind, source: TrackSource) -> bool {
    match source {
        TrackSource::Camera | TrackSource::ScreenShare => kind == TrackKind::Video,
        TrackSource::Microphone | TrackSource::ScreenShareAudio => kind == TrackKind::Audio,
        TrackSource::Unknown => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(grants: &Grants, kind: TrackKind, source: TrackSource) -> bool {
        check_track(grants, kind, source).is_ok()
    }

    #[test]
    fn a_source_has_to_match_the_kind() {
        let all = Grants::default();
        assert!(allows(&all, TrackKind::Video, TrackSource::Camera));
        assert!(allows(
            &all,
            TrackKind::Audio,
            TrackSource::ScreenShareAudio
        ));
        assert!(allows(&all, TrackKind::Audio, TrackSource::Unknown));
        assert!(!allows(&all, TrackKind::Audio, TrackSource::Camera));
        assert!(!allows(&all, TrackKind::Data, TrackSource::Microphone));
    }

    #[test]
    fn a_list_of_sources_allows_only_these() {
        let grants = Grants {
            sources: vec![TrackSource::Camera],
            ..Grants::default()
        };
        assert!(allows(&grants, TrackKind::Video, TrackSource::Camera));
        assert!(!allows(&grants, TrackKind::Audio, TrackSource::Microphone));
        assert!(!allows(&grants, TrackKind::Video, TrackSource::Unknown));
        assert!(
            allows(&grants, TrackKind::Data, TrackSource::Unknown),
            "data has a grant of its own"
        );
    }

    #[test]
    fn a_role_names_each_codec_of_video() {
        let named = PublishCodec::ALL.iter().map(|codec| codec.as_str());
        let codecs = Codec::ALL
            .into_iter()
            .filter(|codec| codec.medium() == TrackMedium::Video);
        assert_eq!(
            named.map(Codec::from_mime_type).collect::<Vec<_>>(),
            codecs.map(Some).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_list_of_codecs_allows_only_these_and_audio() {
        let grants = Grants {
            video_codecs: Some(vec![PublishCodec::Av1, PublishCodec::Vp8]),
            ..Grants::default()
        };
        assert_eq!(
            allowed_codecs(&grants),
            [Codec::Vp8, Codec::Av1, Codec::Opus]
        );
        assert_eq!(allowed_codecs(&Grants::default()), Codec::ALL);
        assert!(
            check_mime_type(&grants, "video/AV1").is_ok() && check_mime_type(&grants, "").is_ok()
        );
        assert!(check_mime_type(&grants, "video/VP9").is_err());
    }

    #[test]
    fn media_and_data_have_separate_grants() {
        let data = Grants {
            can_publish: false,
            ..Grants::default()
        };
        assert!(!allows(&data, TrackKind::Audio, TrackSource::Microphone));
        assert!(allows(&data, TrackKind::Data, TrackSource::Unknown));
        let media = Grants {
            can_publish_data: false,
            ..Grants::default()
        };
        assert!(allows(&media, TrackKind::Audio, TrackSource::Microphone));
        assert!(!allows(&media, TrackKind::Data, TrackSource::Unknown));
    }
}
