//! Conversion between LiveKit's enumerations and Conclave's types, for both media planes. An unknown value becomes the
//! nearest value that claims least.

use conclave_model::participant::{ParticipantKind, ParticipantState, TrackKind, TrackSource};
use livekit_protocol as proto;
use proto::participant_info::{Kind, State};

use crate::token::Grants;

pub(crate) const fn state_from_proto(state: State) -> ParticipantState {
    match state {
        State::Joining => ParticipantState::Joining,
        State::Joined => ParticipantState::Joined,
        State::Active => ParticipantState::Active,
        State::Disconnected => ParticipantState::Disconnected,
    }
}

pub(crate) const fn state_to_proto(state: ParticipantState) -> State {
    match state {
        ParticipantState::Joining => State::Joining,
        ParticipantState::Joined => State::Joined,
        ParticipantState::Active => State::Active,
        ParticipantState::Disconnected => State::Disconnected,
    }
}

pub(crate) const fn kind_from_proto(kind: Kind) -> ParticipantKind {
    match kind {
        Kind::Ingress => ParticipantKind::Ingress,
        Kind::Egress => ParticipantKind::Egress,
        Kind::Sip => ParticipantKind::Sip,
        Kind::Agent => ParticipantKind::Agent,
        // The API has no kind for connectors and bridges, and shows them as standard participants.
        Kind::Standard | Kind::Connector | Kind::Bridge => ParticipantKind::Standard,
    }
}

pub(crate) const fn kind_to_proto(kind: ParticipantKind) -> Kind {
    match kind {
        ParticipantKind::Standard => Kind::Standard,
        ParticipantKind::Ingress => Kind::Ingress,
        ParticipantKind::Egress => Kind::Egress,
        ParticipantKind::Sip => Kind::Sip,
        ParticipantKind::Agent => Kind::Agent,
    }
}

pub(crate) const fn track_kind_from_proto(kind: proto::TrackType) -> TrackKind {
    match kind {
        proto::TrackType::Audio => TrackKind::Audio,
        proto::TrackType::Video => TrackKind::Video,
        proto::TrackType::Data => TrackKind::Data,
    }
}

pub(crate) const fn track_kind_to_proto(kind: TrackKind) -> proto::TrackType {
    match kind {
        TrackKind::Audio => proto::TrackType::Audio,
        TrackKind::Video => proto::TrackType::Video,
        TrackKind::Data => proto::TrackType::Data,
    }
}

pub(crate) const fn source_from_proto(source: proto::TrackSource) -> TrackSource {
    match source {
        proto::TrackSource::Unknown => TrackSource::Unknown,
        proto::TrackSource::Camera => TrackSource::Camera,
        proto::TrackSource::Microphone => TrackSource::Microphone,
        proto::TrackSource::ScreenShare => TrackSource::ScreenShare,
        proto::TrackSource::ScreenShareAudio => TrackSource::ScreenShareAudio,
    }
}

pub(crate) const fn source_to_proto(source: TrackSource) -> proto::TrackSource {
    match source {
        TrackSource::Unknown => proto::TrackSource::Unknown,
        TrackSource::Camera => proto::TrackSource::Camera,
        TrackSource::Microphone => proto::TrackSource::Microphone,
        TrackSource::ScreenShare => proto::TrackSource::ScreenShare,
        TrackSource::ScreenShareAudio => proto::TrackSource::ScreenShareAudio,
    }
}

/// Returns a participant's `current` permission changed to `grants`. Fields without a grant keep their value, since
/// LiveKit replaces the whole permission.
pub(crate) fn permission_to_proto(
    current: proto::ParticipantPermission,
    grants: &Grants,
) -> proto::ParticipantPermission {
    proto::ParticipantPermission {
        can_subscribe: grants.can_subscribe,
        can_publish: grants.can_publish,
        can_publish_data: grants.can_publish_data,
        can_publish_sources: grants
            .sources
            .iter()
            .map(|source| source_to_proto(*source) as i32)
            .collect(),
        hidden: grants.hidden,
        can_update_metadata: grants.can_update_own_metadata,
        // Other permissions, such as an agent's, stay.
        ..current
    }
}
