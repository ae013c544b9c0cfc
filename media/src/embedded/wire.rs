//! Participants and tracks as clients are told of them.

#![expect(deprecated, reason = "clients of older versions read and write these fields")]

use conclave_model::participant::{Participant, ParticipantKind, ParticipantState, Track, TrackKind, TrackSource};
use livekit_protocol as proto;
use proto::participant_info::{Kind, State};

use super::local_participant::LocalParticipant;
use crate::token::Grants;

/// Returns a participant as clients are told of it, with its permissions.
pub(super) fn participant_info(local: &LocalParticipant) -> proto::ParticipantInfo {
    let Participant { sid, identity, name, metadata, joined_at, .. } = local.participant().clone();
    let joined_at = joined_at.map_or(0, conclave_model::Timestamp::millis);
    proto::ParticipantInfo {
        sid: sid.to_string(),
        identity: identity.to_string(),
        name,
        state: state(local.participant().state).into(),
        tracks: local.participant().tracks.iter().map(|track| track_info(local, track)).collect(),
        metadata,
        attributes: local.participant().attributes.clone().into_iter().collect(),
        permission: Some(permission(&local.grants, local.participant().kind)),
        version: local.version(),
        is_publisher: local.participant().is_publisher,
        kind: kind(local.participant().kind).into(),
        joined_at: joined_at / 1_000,
        joined_at_ms: joined_at,
        client_protocol: local.client.as_ref().map_or(0, |client| client.client_protocol),
        capabilities: local.client.as_ref().map(|client| client.capabilities.clone()).unwrap_or_default(),
        ..proto::ParticipantInfo::default()
    }
}

/// Returns a track as clients are told of it: as its client announced it, or as the sandbox has it.
fn track_info(local: &LocalParticipant, track: &Track) -> proto::TrackInfo {
    if let Some(media) = local.client.as_ref().and_then(|client| client.tracks.get(&track.sid)) {
        return proto::TrackInfo { muted: track.muted, ..media.info.clone() };
    }
    proto::TrackInfo {
        sid: track.sid.to_string(),
        r#type: track_type(track.kind).into(),
        name: track.name.clone().unwrap_or_default(),
        muted: track.muted,
        source: source(track.source).into(),
        ..proto::TrackInfo::default()
    }
}

/// Returns what a participant may do, as its client is told.
fn permission(grants: &Grants, kind: ParticipantKind) -> proto::ParticipantPermission {
    proto::ParticipantPermission {
        can_subscribe: grants.can_subscribe,
        can_publish: grants.can_publish,
        can_publish_data: grants.can_publish_data,
        can_publish_sources: grants.sources.iter().map(|allowed| source(*allowed).into()).collect(),
        hidden: grants.hidden,
        agent: kind == ParticipantKind::Agent,
        ..proto::ParticipantPermission::default()
    }
}

/// Returns the type of a track that a client names; `None` for one that no client can add.
pub(super) fn track_kind(number: i32) -> Option<TrackKind> {
    match proto::TrackType::try_from(number) {
        Ok(proto::TrackType::Audio) => Some(TrackKind::Audio),
        Ok(proto::TrackType::Video) => Some(TrackKind::Video),
        Ok(proto::TrackType::Data) | Err(_) => None,
    }
}

/// Returns the source that a client names.
pub(super) fn track_source(number: i32) -> TrackSource {
    match proto::TrackSource::try_from(number) {
        Ok(proto::TrackSource::Camera) => TrackSource::Camera,
        Ok(proto::TrackSource::Microphone) => TrackSource::Microphone,
        Ok(proto::TrackSource::ScreenShare) => TrackSource::ScreenShare,
        Ok(proto::TrackSource::ScreenShareAudio) => TrackSource::ScreenShareAudio,
        Ok(proto::TrackSource::Unknown) | Err(_) => TrackSource::Unknown,
    }
}

fn source(source: TrackSource) -> proto::TrackSource {
    match source {
        TrackSource::Camera => proto::TrackSource::Camera,
        TrackSource::Microphone => proto::TrackSource::Microphone,
        TrackSource::ScreenShare => proto::TrackSource::ScreenShare,
        TrackSource::ScreenShareAudio => proto::TrackSource::ScreenShareAudio,
        TrackSource::Unknown => proto::TrackSource::Unknown,
    }
}

fn track_type(kind: TrackKind) -> proto::TrackType {
    match kind {
        TrackKind::Audio => proto::TrackType::Audio,
        TrackKind::Video => proto::TrackType::Video,
        TrackKind::Data => proto::TrackType::Data,
    }
}

fn state(state: ParticipantState) -> State {
    match state {
        ParticipantState::Joining => State::Joining,
        ParticipantState::Joined => State::Joined,
        ParticipantState::Active => State::Active,
        ParticipantState::Disconnected => State::Disconnected,
    }
}

fn kind(kind: ParticipantKind) -> Kind {
    match kind {
        ParticipantKind::Standard => Kind::Standard,
        ParticipantKind::Ingress => Kind::Ingress,
        ParticipantKind::Egress => Kind::Egress,
        ParticipantKind::Sip => Kind::Sip,
        ParticipantKind::Agent => Kind::Agent,
    }
}
