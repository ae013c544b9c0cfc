use livekit_protocol as proto;
use proptest::prelude::*;
use prost::Message as _;
use proto::signal_request::Message as Request;

use super::*;

fn encoded(message: Request) -> Vec<u8> {
    proto::SignalRequest {
        message: Some(message),
    }
    .encode_to_vec()
}

fn sids(number: usize) -> Vec<String> {
    (0..number)
        .map(|at| format!("TR_AMab12cd34e{at}"))
        .collect()
}

fn subscription(tracks: usize) -> proto::UpdateSubscription {
    let by_participant = |sid: String| proto::ParticipantTracks {
        participant_sid: sid.clone(),
        track_sids: vec![sid],
    };
    let participant_tracks = sids(tracks).into_iter().map(by_participant).collect();
    proto::UpdateSubscription {
        track_sids: sids(tracks),
        subscribe: true,
        participant_tracks,
    }
}

fn permission(participants: usize) -> proto::SubscriptionPermission {
    let entry = |at: usize| proto::TrackPermission {
        participant_identity: format!("participant-of-the-company-{at}"),
        track_sids: sids(1),
        ..Default::default()
    };
    proto::SubscriptionPermission {
        track_permissions: (0..participants).map(entry).collect(),
        ..Default::default()
    }
}

fn state(tracks: usize) -> proto::SyncState {
    let received = |sid: String| proto::DataChannelReceiveState {
        publisher_sid: sid,
        last_seq: 7,
    };
    let published = proto::TrackPublishedResponse {
        cid: "camera".into(),
        track: Some(proto::TrackInfo::default()),
    };
    proto::SyncState {
        subscription: Some(subscription(tracks)),
        track_sids_disabled: sids(tracks),
        datachannel_receive_states: sids(tracks).into_iter().map(received).collect(),
        publish_tracks: vec![published; tracks.min(50)],
        offer: Some(proto::SessionDescription {
            sdp: "m".repeat(tracks * 1_000),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Proves S-52.
#[test]
fn what_a_client_of_a_thousand_tracks_sends_is_within_the_limits() {
    let settings = proto::UpdateTrackSettings {
        track_sids: sids(1_000),
        width: 1_280,
        ..Default::default()
    };
    let mid_to_track_id = sids(1_000)
        .into_iter()
        .map(|sid| (sid.clone(), sid))
        .collect();
    let sdp = "m".repeat(1_500_000);
    for message in [
        Request::Subscription(subscription(1_000)),
        Request::SubscriptionPermission(permission(1_000)),
        Request::SyncState(state(1_000)),
        Request::TrackSetting(settings),
        Request::Offer(proto::SessionDescription {
            sdp,
            mid_to_track_id,
            ..Default::default()
        }),
        Request::Leave(proto::LeaveRequest::default()),
        Request::Ping(1),
    ] {
        let bytes = encoded(message);
        assert!(REQUEST.check(&bytes).is_ok(), "{} bytes", bytes.len());
    }
}

#[test]
fn lists_that_are_longer_and_messages_that_are_larger_are_refused() {
    let entries = |count: usize| proto::SubscriptionPermission {
        track_permissions: vec![proto::TrackPermission::default(); count],
        ..Default::default()
    };
    let published = vec![proto::TrackPublishedResponse::default(); 257];
    let layers = vec![proto::VideoLayer::default(); 17];
    for message in [
        Request::Subscription(subscription(1_001)),
        Request::SubscriptionPermission(entries(1_001)),
        Request::SyncState(proto::SyncState {
            publish_tracks: published,
            ..Default::default()
        }),
        Request::AddTrack(proto::AddTrackRequest {
            layers,
            ..Default::default()
        }),
        Request::AddTrack(proto::AddTrackRequest {
            name: "n".repeat(20_000),
            ..Default::default()
        }),
        Request::Trickle(proto::TrickleRequest {
            candidate_init: "c".repeat(5_000),
            ..Default::default()
        }),
        Request::Mute(proto::MuteTrackRequest {
            sid: "s".repeat(5_000),
            muted: true,
        }),
    ] {
        assert_eq!(REQUEST.check(&encoded(message)), Err(ShapeError::TooLarge));
    }
}

#[test]
fn a_join_of_a_million_empty_entries_is_refused() {
    let tracks = vec![proto::AddTrackRequest::default(); 65];
    let join = proto::JoinRequest {
        add_track_requests: tracks,
        ..Default::default()
    };
    assert_eq!(JOIN.check(&join.encode_to_vec()), Err(ShapeError::TooLarge));
    // Field 5, an empty message, again and again.
    let many = [0x2a, 0].repeat(100_000);
    assert_eq!(JOIN.check(&many), Err(ShapeError::TooLarge));
}

#[test]
fn fields_that_end_early_and_groups_are_malformed() {
    for bytes in [
        &[0x0a, 5, 1][..],
        &[0x08],
        &[0x80; 11],
        &[0x0b],
        &[0x09, 1, 2],
        &[0x0d, 1],
    ] {
        assert_eq!(JOIN.check(bytes), Err(ShapeError::Malformed), "{bytes:?}");
    }
}

#[test]
fn every_shape_has_room_for_the_counts_of_its_parts() {
    fn walk(shape: &Shape) {
        assert!(shape.parts.len() <= MAX_PARTS);
        shape.parts.iter().for_each(|part| walk(part.shape));
    }
    walk(&REQUEST);
    walk(&JOIN);
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = REQUEST.check(&bytes);
        let _ = JOIN.check(&bytes);
    }
}
