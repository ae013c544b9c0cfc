use std::io::Write;

use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use flate2::Compression as Level;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use proto::ClientInfo;

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn request() -> JoinRequest {
    JoinRequest {
        client_info: Some(ClientInfo {
            protocol: 17,
            client_protocol: 1,
            ..ClientInfo::default()
        }),
        connection_settings: Some(ConnectionSettings {
            auto_subscribe: true,
            ..ConnectionSettings::default()
        }),
        publisher_offer: Some(SessionDescription {
            sdp: "v=0".into(),
            id: 1,
            ..SessionDescription::default()
        }),
        ..JoinRequest::default()
    }
}

fn query(compression: Compression, bytes: Vec<u8>) -> String {
    let wrapped = WrappedJoinRequest {
        compression: compression.into(),
        join_request: bytes,
    };
    let text = URL_SAFE.encode(wrapped.encode_to_vec()).replace('=', "%3D");
    format!("access_token=jwt&join_request={text}")
}

fn parse(
    mode: ConnectionMode,
    query: &str,
    authorization: Option<&str>,
) -> Result<JoinParameters, JoinError> {
    ConnectRequest::new(mode, query, authorization)?.parameters()
}

fn parse_v1(query: &str) -> Result<JoinParameters, JoinError> {
    parse(ConnectionMode::Single, query, None)
}

#[test]
fn a_join_request_is_read_plain_and_compressed() {
    let bytes = request().encode_to_vec();
    for query in [
        query(Compression::Gzip, gzip(&bytes)),
        query(Compression::None, bytes),
    ] {
        let join = parse_v1(&query).unwrap();
        assert_eq!((join.protocol, join.client_protocol), (17, 1));
        assert!(join.settings.auto_subscribe && join.resume.is_none());
        assert_eq!(join.offer.unwrap().sdp, "v=0");
        assert!(!join.insists_on_codec);
    }
    let client_info = Some(ClientInfo {
        sdk: Sdk::Rust.into(),
        ..request().client_info.unwrap()
    });
    let of_rust = JoinRequest {
        client_info,
        ..request()
    }
    .encode_to_vec();
    assert!(
        parse_v1(&query(Compression::None, of_rust))
            .unwrap()
            .insists_on_codec
    );
    let without_version = JoinRequest {
        client_info: None,
        ..request()
    }
    .encode_to_vec();
    assert_eq!(
        parse_v1(&query(Compression::None, without_version))
            .unwrap()
            .protocol,
        16
    );
    let wrapped = WrappedJoinRequest {
        compression: 0,
        join_request: request().encode_to_vec(),
    };
    let unpadded = URL_SAFE_NO_PAD.encode(wrapped.encode_to_vec());
    assert!(parse_v1(&format!("join_request={unpadded}&access_token=jwt")).is_ok());
}

#[test]
fn a_join_request_that_inflates_to_more_than_it_may_or_has_too_many_entries_is_refused() {
    let large = JoinRequest {
        participant_sid: "s".repeat(300 * 1024),
        ..request()
    }
    .encode_to_vec();
    assert_eq!(
        parse_v1(&query(Compression::Gzip, gzip(&large))).unwrap_err(),
        JoinError::JoinRequest
    );
    let tracks = JoinRequest {
        add_track_requests: vec![AddTrackRequest::default(); 1_000],
        ..request()
    };
    let state = SyncState {
        publish_tracks: vec![proto::TrackPublishedResponse::default(); 1_000],
        ..SyncState::default()
    };
    let state = JoinRequest {
        sync_state: Some(state),
        ..request()
    };
    for long in [tracks, state] {
        let bytes = long.encode_to_vec();
        for query in [
            query(Compression::Gzip, gzip(&bytes)),
            query(Compression::None, bytes),
        ] {
            assert_eq!(parse_v1(&query).unwrap_err(), JoinError::JoinRequest);
        }
    }
}

#[test]
fn metadata_and_attributes_of_ones_own_are_read_on_both_paths() {
    let attributes = BTreeMap::from([("hand".to_owned(), "up".to_owned())]);
    let participant_attributes = attributes.clone().into_iter().collect();
    let request = JoinRequest {
        metadata: "{}".into(),
        participant_attributes,
        ..request()
    };
    let join = parse_v1(&query(Compression::None, request.encode_to_vec())).unwrap();
    let expected = OwnMetadata {
        metadata: "{}".into(),
        attributes: attributes.clone(),
        ..OwnMetadata::default()
    };
    assert_eq!(join.own_metadata, expected);
    let older = |json: &str| {
        let text = URL_SAFE.encode(json).replace('=', "%3D");
        parse(
            ConnectionMode::Dual,
            &format!("access_token=jwt&protocol=16&attributes={text}"),
            None,
        )
    };
    assert_eq!(
        older(r#"{"hand":"up"}"#).unwrap().own_metadata.attributes,
        attributes
    );
    assert!(older("{}").unwrap().own_metadata.is_empty());
    for wrong in ["[]", r#"{"hand":1}"#, "{"] {
        assert_eq!(older(wrong).unwrap_err(), JoinError::Attributes, "{wrong}");
    }
}

#[test]
fn a_query_of_the_older_path_is_read_and_all_tracks_are_received_unless_it_says_otherwise() {
    let parse = |query: &str| parse(ConnectionMode::Dual, query, Some("Bearer jwt"));
    let join = parse("protocol=16&client_protocol=2&capabilities=1,2&adaptive_stream=1").unwrap();
    assert!(
        join.settings.auto_subscribe
            && join.settings.adaptive_stream
            && !join.settings.disable_ice_lite
    );
    assert_eq!(
        (join.capabilities, join.settings.subscriber_allow_pause),
        (vec![1, 2], None)
    );
    let join = parse("protocol=16&auto_subscribe=0&subscriber_allow_pause=1&reconnect=1&sid=PA_1")
        .unwrap();
    assert!(!join.settings.auto_subscribe && join.settings.subscriber_allow_pause == Some(true));
    assert_eq!(join.resume, Some("PA_1".parse().unwrap()));
    assert!(!join.insists_on_codec && parse("protocol=16&sdk=python").unwrap().insists_on_codec);
    assert_eq!(parse("protocol=8").unwrap_err(), JoinError::Protocol);
    assert_eq!(
        parse("protocol=16&publish=1").unwrap_err(),
        JoinError::PublishOnly
    );
    assert_eq!(
        parse("protocol=16&reconnect=1").unwrap_err(),
        JoinError::Participant
    );
    let bare = super::ConnectRequest::new(ConnectionMode::Dual, "protocol=16", None);
    assert_eq!(bare.unwrap_err(), JoinError::NoToken);
}

#[test]
fn a_join_request_on_the_older_path_asks_for_one_peer_connection_too() {
    let parse = |query: &str| parse(ConnectionMode::Dual, query, Some("Bearer jwt"));
    let join = parse(&query(Compression::Gzip, gzip(&request().encode_to_vec()))).unwrap();
    assert_eq!((join.mode, join.protocol), (ConnectionMode::Single, 17));
    assert_eq!(join.offer.unwrap().sdp, "v=0");
    assert_eq!(
        parse("protocol=16&join_request=").unwrap().mode,
        ConnectionMode::Dual
    );
    assert_eq!(
        parse("protocol=16&join_request=!").unwrap_err(),
        JoinError::JoinRequest
    );
}

#[test]
fn what_is_shown_of_a_join_contains_no_token() {
    let request = ConnectRequest::new(ConnectionMode::Dual, "access_token=jwt", None).unwrap();
    assert_eq!(request.token().reveal(), "jwt");
    assert!(!format!("{request:?}").contains("jwt"));
}

proptest! {
    #[test]
    fn no_query_causes_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), text in ".{0,200}") {
        let _ = parse_v1(&query(Compression::Gzip, bytes.clone()));
        let _ = parse_v1(&query(Compression::Gzip, gzip(&bytes)));
        let _ = parse_v1(&query(Compression::None, bytes));
        let _ = parse(ConnectionMode::Dual, &text, None);
        let _ = parse_v1(&format!("access_token=a&join_request={text}"));
    }
}
