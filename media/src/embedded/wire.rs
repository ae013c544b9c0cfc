//! Participants and tracks as clients see them.

#![expect(
    deprecated,
    reason = "clients of older versions read and write these fields"
)]

use conclave_model::participant::{Participant, ParticipantKind, Track, TrackKind};
use livekit_protocol as proto;

use super::local_participant::LocalParticipant;
use crate::protocol::{
    kind_to_proto, permission_to_proto, source_to_proto, state_to_proto, track_kind_to_proto,
};
use crate::token::Grants;

/// Returns a participant as clients see it, with its permissions.
pub(super) fn participant_info(local: &LocalParticipant) -> proto::ParticipantInfo {
    let Participant {
        sid,
        identity,
        name,
        metadata,
        joined_at,
        ..
    } = local.participant().clone();
    let joined_at = joined_at.map_or(0, conclave_model::Timestamp::millis);
    proto::ParticipantInfo {
        sid: sid.to_string(),
        identity: identity.to_string(),
        name,
        state: state_to_proto(local.participant().state).into(),
        tracks: shown_tracks(local)
            .map(|track| track_info(local, track))
            .collect(),
        data_tracks: local
            .client
            .iter()
            .flat_map(|client| client.data_tracks.iter().cloned())
            .collect(),
        metadata,
        attributes: local.participant().attributes.clone().into_iter().collect(),
        permission: Some(permission(&local.grants, local.participant().kind)),
        // Clients drop updates that arrive out of order.
        version: local.version(),
        is_publisher: local.participant().is_publisher,
        kind: kind_to_proto(local.participant().kind).into(),
        // Older clients read seconds, newer ones milliseconds.
        joined_at: joined_at / 1_000,
        joined_at_ms: joined_at,
        client_protocol: local
            .client
            .as_ref()
            .map_or(0, |client| client.client_protocol),
        capabilities: local
            .client
            .as_ref()
            .map(|client| client.capabilities.clone())
            .unwrap_or_default(),
        ..proto::ParticipantInfo::default()
    }
}

/// Returns the tracks without clients' data tracks, which have a separate list in the protocol.
fn shown_tracks(local: &LocalParticipant) -> impl Iterator<Item = &Track> {
    local
        .participant()
        .tracks
        .iter()
        // Sandbox data tracks have no data track info, so they are listed as ordinary tracks.
        .filter(|track| local.client.is_none() || track.kind != TrackKind::Data)
}

/// Returns a track as clients see it: as its client announced it, or as the sandbox describes it.
fn track_info(local: &LocalParticipant, track: &Track) -> proto::TrackInfo {
    if let Some(info) = local
        .client
        .as_ref()
        .and_then(|client| client.tracks.info(&track.sid))
    {
        return proto::TrackInfo {
            // The server may have muted the track since the client announced it.
            muted: track.muted,
            ..info.clone()
        };
    }
    proto::TrackInfo {
        sid: track.sid.to_string(),
        r#type: track_kind_to_proto(track.kind).into(),
        name: track.name.clone().unwrap_or_default(),
        muted: track.muted,
        source: source_to_proto(track.source).into(),
        ..proto::TrackInfo::default()
    }
}

/// Returns a participant's permissions for its client.
fn permission(grants: &Grants, kind: ParticipantKind) -> proto::ParticipantPermission {
    let agent = kind == ParticipantKind::Agent;
    permission_to_proto(
        proto::ParticipantPermission {
            agent,
            ..proto::ParticipantPermission::default()
        },
        grants,
    )
}
