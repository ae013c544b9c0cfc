//! Conversion between LiveKit's messages and Conclave's types. A message without a valid id is skipped.

use conclave_model::egress::{EgressState, EgressStatus};
use conclave_model::ingress::{IngressState, IngressStatus};
use conclave_model::participant::{DataKind, Participant, Track, TrackKind};
use conclave_model::{Identity, NamespacedRoom, Timestamp};
use livekit_protocol as proto;

use super::twirp::sanitized;
use crate::protocol::{
    kind_from_proto, source_from_proto, state_from_proto, track_kind_from_proto,
};

const NANOS_PER_MILLI: i64 = 1_000_000;

/// Converts a participant; `None` if its sid or identity is invalid.
pub(super) fn participant(info: &proto::ParticipantInfo) -> Option<Participant> {
    let tracks: Vec<Track> = info.tracks.iter().filter_map(track).collect();
    Some(Participant {
        sid: info.sid.parse().ok()?,
        identity: info.identity.parse().ok()?,
        name: info.name.clone(),
        state: state_from_proto(info.state()),
        kind: kind_from_proto(info.kind()),
        metadata: info.metadata.clone(),
        attributes: info.attributes.clone().into_iter().collect(),
        is_publisher: info.is_publisher || !tracks.is_empty(),
        joined_at: joined_at(info),
        tracks,
    })
}

/// Returns whether the API does not allow an identity. LiveKit itself generates such identities, for clients that
/// connect with `?publish=`. An absent identity does not count.
pub(super) fn is_invalid_identity(identity: &str) -> bool {
    !identity.is_empty() && identity.parse::<Identity>().is_err()
}

/// Returns a participant's time of joining; `None` if LiveKit does not report it. Older versions report whole seconds
/// only.
pub(super) fn joined_at(info: &proto::ParticipantInfo) -> Option<Timestamp> {
    let millis = if info.joined_at_ms > 0 {
        info.joined_at_ms
    } else {
        info.joined_at.saturating_mul(1_000)
    };
    (millis > 0).then(|| Timestamp::from_millis(millis))
}

/// Converts a track; `None` if its sid is invalid.
pub(super) fn track(info: &proto::TrackInfo) -> Option<Track> {
    let kind = track_kind_from_proto(info.r#type());
    // The track's own MIME type may be empty while its codecs have one.
    let mime_type = Some(&info.mime_type)
        .into_iter()
        .chain(info.codecs.iter().map(|codec| &codec.mime_type));
    Some(Track {
        sid: info.sid.parse().ok()?,
        kind,
        source: source_from_proto(info.source()),
        muted: info.muted,
        name: Some(info.name.clone()).filter(|name| !name.is_empty()),
        // In protobuf, 0 means absent.
        width: Some(info.width).filter(|pixels| *pixels > 0),
        height: Some(info.height).filter(|pixels| *pixels > 0),
        simulcast: (kind == TrackKind::Video).then(|| is_simulcast(info)),
        mime_type: mime_type.into_iter().find(|mime| !mime.is_empty()).cloned(),
    })
}

/// Returns whether a video track is simulcast. LiveKit's flag is deprecated and not always set, so several layers in
/// one codec count too.
#[allow(deprecated)]
fn is_simulcast(info: &proto::TrackInfo) -> bool {
    info.simulcast
        || info.layers.len() > 1
        || info.codecs.iter().any(|codec| codec.layers.len() > 1)
}

/// Converts a data message's delivery kind.
pub(super) const fn data_kind(kind: DataKind) -> i32 {
    match kind {
        DataKind::Reliable => proto::data_packet::Kind::Reliable as i32,
        DataKind::Lossy => proto::data_packet::Kind::Lossy as i32,
    }
}

/// Converts an egress, with its room; `None` if its id is invalid or its room is not owned by this server. `now`
/// replaces a missing start time.
pub(super) fn egress(
    info: &proto::EgressInfo,
    now: Timestamp,
) -> Option<(NamespacedRoom, EgressState)> {
    let error = match (info.error.as_str(), info.error_code) {
        ("", 0) => None,
        ("", code) => Some(format!("LiveKit reported error code {code}")),
        // The text may quote a broadcast's URL with its stream key.
        (text, _) => Some(sanitized(text)),
    };
    let status = egress_status(info.status());
    let state = EgressState {
        egress_id: info.egress_id.parse().ok()?,
        status,
        error,
        started_at: nanos(info.started_at).unwrap_or(now),
        ended_at: nanos(info.ended_at).filter(|_| status.is_final()),
    };
    Some((info.room_name.parse().ok()?, state))
}

/// Converts an egress's status. A newer LiveKit's unknown status arrives here as `starting`, which never replaces a
/// later status.
const fn egress_status(status: proto::EgressStatus) -> EgressStatus {
    match status {
        proto::EgressStatus::EgressStarting => EgressStatus::Starting,
        proto::EgressStatus::EgressActive => EgressStatus::Active,
        proto::EgressStatus::EgressEnding => EgressStatus::Ending,
        proto::EgressStatus::EgressComplete => EgressStatus::Complete,
        proto::EgressStatus::EgressFailed => EgressStatus::Failed,
        proto::EgressStatus::EgressAborted => EgressStatus::Aborted,
        proto::EgressStatus::EgressLimitReached => EgressStatus::LimitReached,
    }
}

/// Converts an ingress endpoint, with its room; `None` if its id is invalid or its room is not owned by this server.
pub(super) fn ingress(info: &proto::IngressInfo) -> Option<(NamespacedRoom, IngressState)> {
    use proto::ingress_state::Status;
    let reported = info.state.clone().unwrap_or_default();
    let status = match reported.status() {
        Status::EndpointInactive => IngressStatus::Inactive,
        Status::EndpointBuffering => IngressStatus::Buffering,
        Status::EndpointPublishing => IngressStatus::Publishing,
        Status::EndpointError => IngressStatus::Error,
        // A reusable endpoint waits for the next encoder. It is complete only when its room ends.
        Status::EndpointComplete if is_reusable(info) => IngressStatus::Inactive,
        Status::EndpointComplete => IngressStatus::Complete,
    };
    let error = Some(reported.error)
        .filter(|error| !error.is_empty())
        .map(|error| sanitized(&error));
    Some((
        info.room_name.parse().ok()?,
        IngressState {
            ingress_id: info.ingress_id.parse().ok()?,
            status,
            error,
        },
    ))
}

fn is_reusable(info: &proto::IngressInfo) -> bool {
    // Only an endpoint that pulls a URL is used up by one stream.
    info.reusable || info.input_type() != proto::IngressInput::UrlInput
}

/// Converts nanoseconds since the epoch; `None` for 0, LiveKit's absent time.
pub(super) fn nanos(at: i64) -> Option<Timestamp> {
    (at > 0).then(|| Timestamp::from_millis(at / NANOS_PER_MILLI))
}
