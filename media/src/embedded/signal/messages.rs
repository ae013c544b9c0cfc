//! Messages to clients, if they need more than naming their fields.

#![expect(
    deprecated,
    reason = "clients of older versions read and write these fields"
)]

use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::{Codec, CodecUse, ConnectionQuality, PeerQuality, Quality, Speaker};
use livekit_protocol as proto;
use proto::leave_request::Action;
use proto::request_response::{Reason, Request};
use proto::signal_response::Message;
use proto::{DisconnectReason, ParticipantInfo};

use crate::embedded::data_track::DataTrackError;
use crate::embedded::effect::DisconnectCause;
use crate::embedded::own_metadata::OwnMetadataError;
use crate::embedded::publish::allowed_codecs;
use crate::embedded::room_state::RoomState;
use crate::embedded::room_state::media_tracks::AnnounceError;
use crate::token::Grants;

/// LiveKit version whose behaviour clients may expect.
const SERVER_VERSION: &str = "1.9.0";
/// Protocol version. From 18 on, clients would expect data channels with negotiated ids.
const SERVER_PROTOCOL: i32 = 17;

/// Returns the server's description for clients.
pub fn server_info() -> proto::ServerInfo {
    proto::ServerInfo {
        version: SERVER_VERSION.to_owned(),
        protocol: SERVER_PROTOCOL,
        node_id: "ND_conclave".to_owned(),
        ..proto::ServerInfo::default()
    }
}

/// Returns the room's description for clients.
pub fn room_info(room_state: &RoomState) -> proto::Room {
    let seats = room_state.seats();
    // 0 before the first participant has joined.
    let opened_at = seats
        .opened_at()
        .map_or(0, conclave_model::Timestamp::millis);
    proto::Room {
        sid: seats.sid().to_owned(),
        // Without the project: the room's name in the API and in links.
        name: room_state.name().split().1.to_string(),
        // Seconds, for clients from before the field in milliseconds.
        creation_time: opened_at / 1_000,
        creation_time_ms: opened_at,
        num_participants: u32::try_from(seats.iter().count()).unwrap_or(u32::MAX),
        active_recording: room_state.is_recorded(),
        ..proto::Room::default()
    }
}

/// Returns the codecs that a client may publish. Video codecs first: an old Flutter SDK takes the first
/// one for video.
pub fn publish_codecs(grants: &Grants) -> Vec<proto::Codec> {
    let codecs = allowed_codecs(grants);
    let codec = |codec: Codec| proto::Codec {
        mime: codec.mime_type().to_owned(),
        ..proto::Codec::default()
    };
    codecs.into_iter().map(codec).collect()
}

/// Creates an update with changed participants.
pub fn update(participants: Vec<ParticipantInfo>) -> Message {
    Message::Update(proto::ParticipantUpdate { participants })
}

/// Creates a session description with its sections' track ids.
pub fn description(
    kind: &str,
    id: u32,
    sdp: String,
    tracks: Vec<(String, TrackSid)>,
) -> proto::SessionDescription {
    let mid_to_track_id = tracks
        .into_iter()
        .map(|(mid, track)| (mid, track.to_string()))
        .collect();
    proto::SessionDescription {
        r#type: kind.to_owned(),
        sdp,
        id,
        mid_to_track_id,
    }
}

/// Creates the message that ends a session, or requests a new connection.
pub fn leave(reason: DisconnectReason, action: Action) -> Message {
    let leave = proto::LeaveRequest {
        reason: reason.into(),
        action: action.into(),
        ..proto::LeaveRequest::default()
    };
    Message::Leave(leave)
}

/// Creates the message for a participant that the server disconnected; `None` if the client has left by itself.
pub fn leave_for(cause: DisconnectCause) -> Option<Message> {
    let reason = match cause {
        DisconnectCause::Removed => DisconnectReason::ParticipantRemoved,
        DisconnectCause::RoomEnded => DisconnectReason::RoomDeleted,
        DisconnectCause::Replaced => DisconnectReason::DuplicateIdentity,
        DisconnectCause::JoinRefused | DisconnectCause::JoinTimeout => {
            DisconnectReason::JoinFailure
        }
        // Clients join again by themselves, as soon as another process accepts them.
        DisconnectCause::ServerStopped => {
            return Some(leave(DisconnectReason::ServerShutdown, Action::Reconnect));
        }
        // The client knows, and may have closed its WebSocket.
        DisconnectCause::Left => return None,
    };
    // No reconnection: two clients with one identity would replace each other endlessly.
    Some(leave(reason, Action::Disconnect))
}

/// Creates the refusal for a request with an id, or for an announced track. `request` contains only the fields by which
/// the client recognizes it.
pub fn refusal(request_id: u32, reason: Reason, request: impl Into<Option<Request>>) -> Message {
    response(request_id, reason, request.into())
}

fn response(request_id: u32, reason: Reason, request: Option<Request>) -> Message {
    let response = proto::RequestResponse {
        request_id,
        reason: reason.into(),
        request,
        ..proto::RequestResponse::default()
    };
    Message::RequestResponse(response)
}

/// Creates the response to an accepted request.
pub fn acceptance(request_id: u32, request: Request) -> Message {
    response(request_id, Reason::Ok, Some(request))
}

/// Converts an own metadata error.
pub fn own_metadata_reason(error: OwnMetadataError) -> Reason {
    match error {
        OwnMetadataError::NotPermitted | OwnMetadataError::Reserved | OwnMetadataError::Gone => {
            Reason::NotAllowed
        }
        OwnMetadataError::TooLong => Reason::LimitExceeded,
    }
}

/// Converts a data track error.
pub fn data_track_reason(error: DataTrackError) -> Reason {
    match error {
        DataTrackError::NotAllowed => Reason::NotAllowed,
        DataTrackError::InvalidHandle => Reason::InvalidHandle,
        DataTrackError::InvalidName => Reason::InvalidName,
        DataTrackError::InvalidRequest => Reason::InvalidRequest,
        DataTrackError::DuplicateHandle => Reason::DuplicateHandle,
        DataTrackError::DuplicateName => Reason::DuplicateName,
        DataTrackError::LimitExceeded => Reason::LimitExceeded,
    }
}

/// Converts a track announcement error.
pub fn announce_reason(error: AnnounceError) -> Reason {
    match error {
        AnnounceError::NotAllowed => Reason::NotAllowed,
        // For an announced backup codec whose track does not exist.
        AnnounceError::UnknownTrack => Reason::NotFound,
        AnnounceError::Queued => Reason::Queued,
        AnnounceError::LimitExceeded => Reason::LimitExceeded,
        AnnounceError::UnsupportedType => Reason::UnsupportedType,
    }
}

/// Creates the message about the qualities that subscribers use from a publisher's track.
pub fn subscribed_quality(track: &TrackSid, codecs: &[CodecUse]) -> Message {
    let subscribed: Vec<_> = codecs.iter().map(subscribed_codec).collect();
    Message::SubscribedQualityUpdate(proto::SubscribedQualityUpdate {
        track_sid: track.to_string(),
        // For older clients, which know one codec per track.
        subscribed_qualities: subscribed
            .first()
            .map_or_else(Vec::new, |first| first.qualities.clone()),
        subscribed_codecs: subscribed,
    })
}

/// Creates the message that the client can decode no codec in a publisher's track.
pub fn codec_unsupported(track: &TrackSid) -> Message {
    Message::SubscriptionResponse(proto::SubscriptionResponse {
        track_sid: track.to_string(),
        err: proto::SubscriptionError::SeCodecUnsupported.into(),
    })
}

fn subscribed_codec(usage: &CodecUse) -> proto::SubscribedCodec {
    let quality = |quality: Quality| proto::SubscribedQuality {
        quality: i32::try_from(quality.index()).unwrap_or_default(),
        enabled: usage.enabled[quality.index()],
    };
    // Clients compare the name without `video/`, in lower case.
    let name = usage
        .codec
        .mime_type()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_lowercase();
    proto::SubscribedCodec {
        codec: name,
        qualities: Quality::ALL.into_iter().map(quality).collect(),
    }
}

/// Creates the message about a paused or resumed video.
pub fn stream_state(publisher: &ParticipantSid, track: &TrackSid, is_paused: bool) -> Message {
    let state = if is_paused {
        proto::StreamState::Paused
    } else {
        proto::StreamState::Active
    };
    let info = proto::StreamStateInfo {
        participant_sid: publisher.to_string(),
        track_sid: track.to_string(),
        state: state.into(),
    };
    Message::StreamStateUpdate(proto::StreamStateUpdate {
        stream_states: vec![info],
    })
}

/// Creates the message about changed speakers.
pub fn speakers<'a>(speakers: impl Iterator<Item = &'a Speaker>) -> Option<Message> {
    let info = |speaker: &Speaker| proto::SpeakerInfo {
        sid: speaker.peer.to_string(),
        level: speaker.level,
        active: speaker.is_active,
    };
    let speakers: Vec<_> = speakers.map(info).collect();
    // No message at all if none of them concerns the client.
    (!speakers.is_empty()).then_some(Message::SpeakersChanged(proto::SpeakersChanged {
        speakers,
    }))
}

/// Creates the message about connection qualities.
pub fn qualities<'a>(qualities: impl Iterator<Item = &'a PeerQuality>) -> Option<Message> {
    let info = |quality: &PeerQuality| proto::ConnectionQualityInfo {
        participant_sid: quality.peer.to_string(),
        quality: connection_quality(quality.quality).into(),
        score: quality.score,
    };
    let updates: Vec<_> = qualities.map(info).collect();
    (!updates.is_empty()).then_some(Message::ConnectionQuality(proto::ConnectionQualityUpdate {
        updates,
    }))
}

fn connection_quality(quality: ConnectionQuality) -> proto::ConnectionQuality {
    match quality {
        ConnectionQuality::Lost => proto::ConnectionQuality::Lost,
        ConnectionQuality::Poor => proto::ConnectionQuality::Poor,
        ConnectionQuality::Good => proto::ConnectionQuality::Good,
        ConnectionQuality::Excellent => proto::ConnectionQuality::Excellent,
    }
}
