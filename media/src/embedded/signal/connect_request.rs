//! A client's connect request: the `/rtc` query, and the join request in the `/rtc/v1` query.
//!
//! Until the token is verified, only the token is read.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use conclave_model::quality::ReconnectReason;
use conclave_model::{ClientAddress, ParticipantSid, Secret};
use conclave_sfu::ConnectionMode;
use flate2::read::GzDecoder;
use livekit_protocol as proto;
use prost::Message;
use proto::client_info::Sdk;
use proto::wrapped_join_request::Compression;
use proto::{
    AddTrackRequest, ClientInfo, ConnectionSettings, JoinRequest, SessionDescription, SyncState,
    WrappedJoinRequest,
};
use url::form_urlencoded;

use super::device::Device;
use super::shape;
use crate::embedded::own_metadata::{OwnMetadata, OwnMetadataError};

/// Oldest supported protocol version. Clients since then request their connection quality, and resume.
const OLDEST_PROTOCOL: i32 = 9;
/// Assumed version of a client whose join request names none: older clients send no join request.
const OLDEST_WITH_JOIN_REQUEST: i32 = 16;
/// Maximum tracks in a join request. Further ones are ignored.
const MAX_TRACKS: usize = 20;

/// Base64 for URLs, with or without padding.
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reason for rejecting a connect request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// No token.
    #[error("no token: send it as the query parameter access_token or as a bearer token")]
    NoToken,
    /// The join request is not a Base64-encoded message, or it is too large.
    #[error("the join_request cannot be decoded")]
    JoinRequest,
    /// The client's protocol version is too old.
    #[error("the client's protocol version must be {OLDEST_PROTOCOL} or higher")]
    Protocol,
    /// The client requests a connection that only publishes.
    #[error("connections that only publish are not supported")]
    PublishOnly,
    /// The participant to resume is not given by a sid.
    #[error("the sid of the participant to resume is not valid")]
    Participant,
    /// The attributes in the query are not a Base64-encoded JSON object with strings.
    #[error("the attributes cannot be decoded")]
    Attributes,
    /// The client sets own metadata that its token does not permit.
    #[error(transparent)]
    OwnMetadata(#[from] OwnMetadataError),
}

/// A connect request whose token has been read, and nothing else. `Debug` shows no token.
pub struct ConnectRequest {
    token: Secret,
    mode: ConnectionMode,
    query: Query,
    address: Option<ClientAddress>,
    user_agent: String,
}

/// A connect request's parameters.
#[derive(Clone)]
pub struct JoinParameters {
    /// Client address, if known.
    pub address: Option<ClientAddress>,
    /// One or two peer connections.
    pub mode: ConnectionMode,
    /// The client's protocol version.
    pub protocol: i32,
    /// Version for the protocol between clients.
    pub client_protocol: i32,
    /// Client capabilities, as `ClientInfo.Capability` numbers.
    pub capabilities: Vec<i32>,
    /// Connection settings, such as automatic subscription.
    pub settings: ConnectionSettings,
    /// Tracks that are announced with the join.
    pub tracks: Vec<AddTrackRequest>,
    /// First offer, if it is part of the join.
    pub offer: Option<SessionDescription>,
    /// The client's own metadata.
    pub own_metadata: OwnMetadata,
    /// Participant to resume; `None` for a new join.
    pub resume: Option<ParticipantSid>,
    /// The client's state, if it is part of a resume.
    pub sync_state: Option<SyncState>,
    /// Whether the client sends video with the codec in its request, whatever the server's response, and ignores the
    /// end of its track by the server.
    pub insists_on_codec: bool,
    /// Whether the client reads messages after the join response before it has set the offer from its join, and so
    /// discards an early answer.
    pub sets_offer_late: bool,
    /// The client's device and SDK.
    pub device: Device,
    /// Reason for a resume, if the client states one.
    pub reconnect_reason: Option<ReconnectReason>,
}

/// SDKs on LiveKit's Rust core, whose clients insist on their codec, with their names in `/rtc` queries.
const RUST_CORE: [(Sdk, &str); 6] = [
    (Sdk::Rust, "rust"),
    (Sdk::Python, "python"),
    (Sdk::Node, "node"),
    (Sdk::Cpp, "cpp"),
    (Sdk::Unity, "unity"),
    (Sdk::Unreal, "unreal"),
];

impl fmt::Debug for JoinParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinParameters")
            .field("mode", &self.mode)
            .field("resume", &self.resume)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl ConnectRequest {
    /// Reads the token from the `authorization` header, if there is one, or else from the query. `mode` is the peer
    /// connection mode of the path's clients.
    ///
    /// # Errors
    /// [`JoinError::NoToken`]
    pub fn new(
        mode: ConnectionMode,
        query: &str,
        authorization: Option<&str>,
    ) -> Result<Self, JoinError> {
        // Only split here: a client without a valid token must not cause decoding work.
        let query = Query::parse(query);
        let bearer = authorization
            .and_then(|value| value.strip_prefix("Bearer "))
            .map(str::to_owned);
        // A browser cannot set headers for a WebSocket, so its token is in the query.
        let token = bearer
            .or_else(|| query.text("access_token"))
            .filter(|token| !token.is_empty());
        let token = Secret::new(token.ok_or(JoinError::NoToken)?);
        Ok(Self {
            token,
            mode,
            query,
            address: None,
            user_agent: String::new(),
        })
    }

    /// Sets the client's address. Clients from one address share a budget.
    #[must_use]
    pub fn with_address(self, address: Option<ClientAddress>) -> Self {
        Self { address, ..self }
    }

    /// Sets the `user-agent` header, which identifies a browser whose client information is empty.
    #[must_use]
    pub fn with_user_agent(self, user_agent: Option<&str>) -> Self {
        Self {
            user_agent: user_agent.unwrap_or_default().to_owned(),
            ..self
        }
    }

    /// Returns the room token.
    pub(super) const fn token(&self) -> &Secret {
        &self.token
    }

    /// Reads the parameters, once the token is verified. A client with a join request has one peer connection on either
    /// path: LiveKit's SDK for Go sends it to `/rtc`.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub(super) fn parameters(&self) -> Result<JoinParameters, JoinError> {
        let has_join_request = self
            .query
            .text("join_request")
            .is_some_and(|text| !text.is_empty());
        // An empty parameter counts as absent: it is no join request.
        let parameters = if self.mode == ConnectionMode::Single || has_join_request {
            from_join_request(self.query.join_request()?)?
        } else {
            from_query(&self.query)?
        };
        // The client's own information has priority.
        let device = parameters.device.clone().or_user_agent(&self.user_agent);
        let parameters = JoinParameters {
            address: self.address,
            device,
            ..parameters
        };
        if parameters.protocol < OLDEST_PROTOCOL {
            Err(JoinError::Protocol)
        } else {
            Ok(parameters)
        }
    }
}

/// Query parameters. The first occurrence counts.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    }

    fn is_set(&self, name: &str) -> Option<bool> {
        self.text(name)
            // SDKs write booleans in either way.
            .map(|value| matches!(value.as_str(), "1" | "true"))
    }

    // Malformed numbers are 0. For the protocol version, that is too old.
    fn number(&self, name: &str) -> i32 {
        self.text(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or_default()
    }

    fn attributes(&self) -> Result<BTreeMap<String, String>, JoinError> {
        // Clients without attributes send an empty parameter.
        let Some(text) = self.text("attributes").filter(|text| !text.is_empty()) else {
            return Ok(BTreeMap::new());
        };
        let json = BASE64_URL.decode(text).map_err(|_| JoinError::Attributes)?;
        serde_json::from_slice(&json).map_err(|_| JoinError::Attributes)
    }

    fn join_request(&self) -> Result<JoinRequest, JoinError> {
        let text = self.text("join_request").ok_or(JoinError::JoinRequest)?;
        let bytes = BASE64_URL
            .decode(text)
            .map_err(|_| JoinError::JoinRequest)?;
        let wrapped = WrappedJoinRequest::decode(&*bytes).map_err(|_| JoinError::JoinRequest)?;
        let bytes = match Compression::try_from(wrapped.compression) {
            Ok(Compression::None) => wrapped.join_request,
            Ok(Compression::Gzip) => inflate(&wrapped.join_request)?,
            Err(_) => return Err(JoinError::JoinRequest),
        };
        // Before decoding, which allocates memory for each list entry.
        shape::JOIN
            .check(&bytes)
            .map_err(|_| JoinError::JoinRequest)?;
        JoinRequest::decode(&*bytes).map_err(|_| JoinError::JoinRequest)
    }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, JoinError> {
    let most = shape::JOIN.bytes();
    let mut inflated = Vec::new();
    // One byte more than allowed, which distinguishes a stream at the limit from a longer one. A few kB of gzip could inflate to
    // gigabytes.
    let mut limited = GzDecoder::new(bytes).take(most as u64 + 1);
    limited
        .read_to_end(&mut inflated)
        .map_err(|_| JoinError::JoinRequest)?;
    if inflated.len() > most {
        Err(JoinError::JoinRequest)
    } else {
        Ok(inflated)
    }
}

fn from_join_request(request: JoinRequest) -> Result<JoinParameters, JoinError> {
    let client = request.client_info.unwrap_or_default();
    let device = Device::new(&client);
    Ok(JoinParameters {
        address: None,
        // On either path: only clients with one peer connection send a join request.
        mode: ConnectionMode::Single,
        protocol: if client.protocol == 0 {
            OLDEST_WITH_JOIN_REQUEST
        } else {
            client.protocol
        },
        client_protocol: client.client_protocol,
        capabilities: capabilities(client.capabilities),
        settings: request.connection_settings.unwrap_or_default(),
        tracks: request
            .add_track_requests
            .into_iter()
            // The others can be announced by requests after the join.
            .take(MAX_TRACKS)
            .collect(),
        offer: request.publisher_offer,
        own_metadata: OwnMetadata {
            metadata: request.metadata,
            attributes: request.participant_attributes.into_iter().collect(),
            ..OwnMetadata::default()
        },
        resume: resumed(request.reconnect, request.participant_sid)?,
        sync_state: request.sync_state,
        insists_on_codec: RUST_CORE
            .iter()
            .any(|(sdk, _)| client.sdk == i32::from(*sdk)),
        // By the SDK alone: no field in the request reveals it.
        sets_offer_late: client.sdk == i32::from(Sdk::Go),
        device,
        reconnect_reason: reconnect_reason(request.reconnect_reason),
    })
}

fn from_query(query: &Query) -> Result<JoinParameters, JoinError> {
    // Set by old SDKs that used a second connection for publishing. A participant has one session here.
    if query
        .text("publish")
        .is_some_and(|publish| !publish.is_empty())
    {
        return Err(JoinError::PublishOnly);
    }
    let settings = ConnectionSettings {
        // Clients before this parameter expected to receive all tracks.
        auto_subscribe: query.is_set("auto_subscribe").unwrap_or(true),
        adaptive_stream: query.is_set("adaptive_stream").unwrap_or_default(),
        subscriber_allow_pause: query.is_set("subscriber_allow_pause"),
        auto_subscribe_data_track: query.is_set("auto_subscribe_data_track"),
        disable_ice_lite: query.is_set("disable_ice_lite").unwrap_or_default(),
    };
    let named = query.text("capabilities").unwrap_or_default();
    let is_resume = query.is_set("reconnect").unwrap_or_default();
    let [os, device_model, browser] =
        ["os", "device_model", "browser"].map(|name| query.text(name).unwrap_or_default());
    let sdk = query
        .text("sdk")
        .and_then(|sdk| Sdk::from_str_name(&sdk.to_ascii_uppercase()))
        .unwrap_or(Sdk::Unknown);
    let client = ClientInfo {
        sdk: sdk.into(),
        version: query.text("version").unwrap_or_default(),
        os,
        device_model,
        browser,
        ..ClientInfo::default()
    };
    Ok(JoinParameters {
        address: None,
        mode: ConnectionMode::Dual,
        protocol: query.number("protocol"),
        client_protocol: query.number("client_protocol"),
        capabilities: capabilities(
            named
                .split(',')
                .filter_map(|number| number.trim().parse().ok())
                .collect(),
        ),
        settings,
        tracks: Vec::new(),
        offer: None,
        own_metadata: OwnMetadata {
            attributes: query.attributes()?,
            ..OwnMetadata::default()
        },
        resume: resumed(is_resume, query.text("sid").unwrap_or_default())?,
        sync_state: None,
        insists_on_codec: query
            .text("sdk")
            .is_some_and(|sdk| RUST_CORE.iter().any(|(_, name)| *name == sdk)),
        // This query cannot contain an offer.
        sets_offer_late: false,
        device: Device::new(&client),
        reconnect_reason: reconnect_reason(query.number("reconnect_reason")),
    })
}

/// Reads the reason for a resume; `None` if it is unknown.
fn reconnect_reason(number: i32) -> Option<ReconnectReason> {
    match proto::ReconnectReason::try_from(number).ok()? {
        proto::ReconnectReason::RrUnknown => None,
        proto::ReconnectReason::RrSignalDisconnected => Some(ReconnectReason::Signal),
        proto::ReconnectReason::RrPublisherFailed => Some(ReconnectReason::Publisher),
        proto::ReconnectReason::RrSubscriberFailed => Some(ReconnectReason::Subscriber),
        proto::ReconnectReason::RrSwitchCandidate => Some(ReconnectReason::Candidate),
    }
}

fn capabilities(mut named: Vec<i32>) -> Vec<i32> {
    // Far more than LiveKit defines. Others are sent the list.
    named.truncate(16);
    named
}

fn resumed(is_resume: bool, sid: String) -> Result<Option<ParticipantSid>, JoinError> {
    if is_resume {
        sid.parse().map(Some).map_err(|_| JoinError::Participant)
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
    use conclave_model::quality::ClientProgram;
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
        // Compresses to far less than the limit.
        let large = JoinRequest {
            participant_sid: "s".repeat(300 * 1024),
            ..request()
        }
        .encode_to_vec();
        assert_eq!(
            parse_v1(&query(Compression::Gzip, gzip(&large))).unwrap_err(),
            JoinError::JoinRequest
        );
        // Empty entries: few bytes, but many structures once decoded.
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
    fn a_query_of_the_older_path_is_read_and_subscribes_to_all_tracks_by_default() {
        let parse = |query: &str| parse(ConnectionMode::Dual, query, Some("Bearer jwt"));
        let join =
            parse("protocol=16&client_protocol=2&capabilities=1,2&adaptive_stream=1").unwrap();
        assert!(
            join.settings.auto_subscribe
                && join.settings.adaptive_stream
                && !join.settings.disable_ice_lite
        );
        assert_eq!(
            (join.capabilities, join.settings.subscriber_allow_pause),
            (vec![1, 2], None)
        );
        let join =
            parse("protocol=16&auto_subscribe=0&subscriber_allow_pause=1&reconnect=1&sid=PA_1")
                .unwrap();
        assert!(
            !join.settings.auto_subscribe && join.settings.subscriber_allow_pause == Some(true)
        );
        assert_eq!(join.resume, Some("PA_1".parse().unwrap()));
        assert_eq!(join.reconnect_reason, None);
        let reasons = (0..=5).map(|reason| {
            let query = format!("protocol=16&reconnect=1&sid=PA_1&reconnect_reason={reason}");
            parse(&query).unwrap().reconnect_reason
        });
        assert_eq!(
            reasons.collect::<Vec<_>>(),
            [
                None,
                Some(ReconnectReason::Signal),
                Some(ReconnectReason::Publisher),
                Some(ReconnectReason::Subscriber),
                Some(ReconnectReason::Candidate),
                None
            ]
        );
        let join = parse("protocol=16&sdk=python&version=1.0.17&os=linux").unwrap();
        assert_eq!(
            join.device.program(),
            Some(ClientProgram {
                sdk: "python".into(),
                version: "1.0.17".into(),
                browser: String::new(),
                os: "linux".into(),
            })
        );
        let join = parse("protocol=16").unwrap();
        assert_eq!(join.device.program(), None);
        assert!(
            !join.insists_on_codec && parse("protocol=16&sdk=python").unwrap().insists_on_codec
        );
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
}
