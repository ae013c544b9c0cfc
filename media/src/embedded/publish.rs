//! What may be published: the grants of a token held against a track.

use conclave_model::participant::{TrackKind, TrackSource};

use crate::token::Grants;

/// A track somebody wants to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTrack {
    /// What it carries.
    pub kind: TrackKind,
    /// Where it comes from.
    pub source: TrackSource,
    /// What its publisher calls it.
    pub name: Option<String>,
    /// Starts silent or dark.
    pub muted: bool,
}

/// Why the media plane does not do what a participant asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// Nobody in any room has that sid.
    #[error("no such participant")]
    NoSuchParticipant,
    /// The participant publishes no track with that sid.
    #[error("no such track")]
    NoSuchTrack,
    /// Its grants do not allow it.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The room holds as many people as it may.
    #[error("the room is full")]
    RoomFull,
    /// No endpoint opens by that stream key.
    #[error("no such ingress endpoint")]
    NoSuchIngress,
}

/// Says whether the grants allow a track of that kind from that source.
pub(super) fn permit(grants: &Grants, kind: TrackKind, source: TrackSource) -> Result<(), MachineError> {
    let allowed = match kind {
        TrackKind::Data => permit_data(grants),
        TrackKind::Audio | TrackKind::Video => permit_media(grants, source),
    };
    if fits(kind, source) { allowed } else { Err(MachineError::Forbidden("the source does not fit the kind")) }
}

/// Says whether the grants allow data, as a track or as messages.
pub(super) fn permit_data(grants: &Grants) -> Result<(), MachineError> {
    if grants.can_publish_data { Ok(()) } else { Err(MachineError::Forbidden("publishing data is not granted")) }
}

fn permit_media(grants: &Grants, source: TrackSource) -> Result<(), MachineError> {
    if !grants.can_publish {
        Err(MachineError::Forbidden("publishing is not granted"))
    } else if grants.sources.is_empty() || grants.sources.contains(&source) {
        Ok(())
    } else {
        Err(MachineError::Forbidden("publishing from this source is not granted"))
    }
}

/// Data comes from nowhere in particular; everything else says what it carries or is not said.
fn fits(kind: TrackKind, source: TrackSource) -> bool {
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
        permit(grants, kind, source).is_ok()
    }

    #[test]
    fn a_source_must_fit_its_kind() {
        let all = Grants::default();
        assert!(allows(&all, TrackKind::Video, TrackSource::Camera));
        assert!(allows(&all, TrackKind::Audio, TrackSource::ScreenShareAudio));
        assert!(allows(&all, TrackKind::Audio, TrackSource::Unknown));
        assert!(!allows(&all, TrackKind::Audio, TrackSource::Camera));
        assert!(!allows(&all, TrackKind::Data, TrackSource::Microphone));
    }

    #[test]
    fn a_list_of_sources_admits_those_and_no_unknown_one() {
        let grants = Grants { sources: vec![TrackSource::Camera], ..Grants::default() };
        assert!(allows(&grants, TrackKind::Video, TrackSource::Camera));
        assert!(!allows(&grants, TrackKind::Audio, TrackSource::Microphone));
        assert!(!allows(&grants, TrackKind::Video, TrackSource::Unknown));
        assert!(allows(&grants, TrackKind::Data, TrackSource::Unknown), "data is a grant of its own");
    }

    #[test]
    fn media_and_data_are_granted_apart() {
        let data = Grants { can_publish: false, ..Grants::default() };
        assert!(!allows(&data, TrackKind::Audio, TrackSource::Microphone));
        assert!(allows(&data, TrackKind::Data, TrackSource::Unknown));
        let media = Grants { can_publish_data: false, ..Grants::default() };
        assert!(allows(&media, TrackKind::Audio, TrackSource::Microphone));
        assert!(!allows(&media, TrackKind::Data, TrackSource::Unknown));
    }
}
