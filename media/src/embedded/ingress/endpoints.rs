//! Ingress endpoints on the embedded plane. An encoder that connects to an endpoint joins its room as an ordinary
//! participant. Only a stream key's hash is stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use conclave_model::ingress::{IngressState, IngressStatus, InputType, StreamKeyHash};
use conclave_model::participant::ParticipantKind;
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{IngressId, NamespacedRoom, ParticipantSid, Secret, Timestamp};
use url::{Position, Url};

use super::stream_keys::EncoderActivity;
use crate::embedded::common::{Common, RoomObject};
use crate::embedded::error::RoomStateError;
use crate::embedded::ids::unused_id;
use crate::port::{IngressRequest, KnownIngress};
use crate::token::{Claims, Grants};

/// Stream key length: 32 Base62 characters have 190 bits.
const KEY_LENGTH: usize = 32;

/// Prefix for endpoint ids.
const PREFIX: &str = "IN_";
/// Prefix for endpoints whose video is always transcoded. The setting is part of the id, since the control plane records
/// nothing else about an endpoint. No other id has a second underscore.
const TRANSCODED_PREFIX: &str = "IN_T_";

fn id_prefix(request: &IngressRequest) -> &'static str {
    if request.enable_transcoding == Some(true) {
        TRANSCODED_PREFIX
    } else {
        PREFIX
    }
}

/// An ingress endpoint.
#[derive(Debug)]
pub(in crate::embedded) struct IngressEndpoint {
    known: KnownIngress,
    status: IngressStatus,
    /// Reason why the current or last encoder's stream cannot be published.
    error: Option<String>,
    /// The connected or joining encoder's participant.
    encoder: Option<ParticipantSid>,
    /// Time of that encoder's last data; `None` for a sandbox encoder.
    activity: Option<EncoderActivity>,
}

impl IngressEndpoint {
    pub const fn id(&self) -> &IngressId {
        &self.known.ingress_id
    }

    /// Returns whether all video is transcoded, even if receivers could play it.
    pub fn is_transcoded(&self) -> bool {
        self.id().as_str().starts_with(TRANSCODED_PREFIX)
    }

    /// Returns the connected or joining encoder's participant.
    pub const fn encoder(&self) -> Option<&ParticipantSid> {
        self.encoder.as_ref()
    }

    pub fn state(&self) -> IngressState {
        // An error may be recorded while the encoder is still connected. It is shown once the stream has ended.
        let error = self
            .error
            .clone()
            .filter(|_| self.status == IngressStatus::Error);
        IngressState {
            ingress_id: self.known.ingress_id.clone(),
            status: self.status,
            error,
        }
    }

    /// Returns an encoder's claims for its join. There is no token, so they expire at once.
    pub fn claims(&self, now: Timestamp) -> Claims {
        let known = self.known.clone();
        Claims {
            room: known.room,
            identity: known.identity,
            name: known.name.unwrap_or_default(),
            metadata: String::new(),
            attributes: BTreeMap::new(),
            kind: ParticipantKind::Ingress,
            grants: Grants {
                // An encoder receives no media.
                can_subscribe: false,
                ..Grants::default()
            },
            room_config: None,
            expires_at: now,
        }
    }
}

/// A room's endpoints.
#[derive(Debug)]
pub(in crate::embedded) struct IngressEndpoints {
    room: NamespacedRoom,
    common: Arc<Common>,
    endpoints: HashMap<IngressId, IngressEndpoint>,
}

impl IngressEndpoints {
    /// Creates an empty list.
    pub fn new(room: NamespacedRoom, common: Arc<Common>) -> Self {
        Self {
            room,
            common,
            endpoints: HashMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }

    /// Creates an endpoint and its stream key.
    pub fn create(&mut self, request: IngressRequest) -> (IngressId, Secret) {
        let ingress_id: IngressId =
            unused_id(id_prefix(&request), |id| self.endpoints.contains_key(id));
        let key = Secret::new(random_text(KEY_LENGTH, BASE62));
        self.get_or_insert(&KnownIngress {
            ingress_id: ingress_id.clone(),
            room: request.room,
            identity: request.identity,
            name: request.name,
            input_type: request.input_type,
            // The key itself is in the response and nowhere else.
            key_hash: StreamKeyHash::from_key(key.reveal()),
        });
        (ingress_id, key)
    }

    /// Returns an endpoint's state. An endpoint that was lost when the process restarted is restored, without an
    /// encoder.
    pub fn get_or_insert(&mut self, known: &KnownIngress) -> IngressState {
        // Repeated for a known endpoint, which has no effect: the first entry counts.
        let id = RoomObject::Endpoint(known.ingress_id.clone());
        self.common.insert(id, &self.room);
        self.common
            .insert(RoomObject::StreamKey(known.key_hash), &self.room);
        self.endpoints
            .entry(known.ingress_id.clone())
            .or_insert_with(|| IngressEndpoint {
                known: known.clone(),
                status: IngressStatus::Inactive,
                error: None,
                encoder: None,
                activity: None,
            })
            .state()
    }

    pub fn remove(&mut self, id: &IngressId) {
        // The caller has disconnected the encoder.
        if let Some(removed) = self.endpoints.remove(id) {
            self.common.remove(&RoomObject::Endpoint(id.clone()));
            self.common
                .remove(&RoomObject::StreamKey(removed.known.key_hash));
        }
    }

    pub fn get(&self, id: &IngressId) -> Option<&IngressEndpoint> {
        self.endpoints.get(id)
    }

    /// Returns the endpoint with this stream key.
    pub fn get_by_key(&self, key: &StreamKeyHash) -> Result<&IngressEndpoint, RoomStateError> {
        // A search is fast enough: a room has few endpoints, and attempts have rate limits.
        self.iter()
            .find(|endpoint| endpoint.known.key_hash == *key)
            .ok_or(RoomStateError::NoSuchIngress)
    }

    /// Returns the endpoint with this stream key, if an encoder may connect to it with this protocol.
    pub fn get_vacant(
        &self,
        key: &StreamKeyHash,
        input: InputType,
    ) -> Result<&IngressEndpoint, RoomStateError> {
        let endpoint = self.get_by_key(key)?;
        // Reported like an unknown key: an endpoint exists only for its own protocol.
        if endpoint.known.input_type != input {
            Err(RoomStateError::NoSuchIngress)
        } else if endpoint.encoder.is_some() {
            Err(RoomStateError::EncoderConnected)
        } else {
            Ok(endpoint)
        }
    }

    /// Returns an endpoint's connected encoder and the time of its last data. `None` without an encoder, or for a
    /// sandbox encoder.
    pub fn connected_encoder(
        &self,
        key: &StreamKeyHash,
        input: InputType,
    ) -> Option<(ParticipantSid, EncoderActivity)> {
        let endpoint = self
            .get_by_key(key)
            .ok()
            .filter(|endpoint| endpoint.known.input_type == input)?;
        endpoint.encoder.clone().zip(endpoint.activity.clone())
    }

    /// Records an endpoint's joining encoder.
    pub fn attach(
        &mut self,
        id: &IngressId,
        sid: ParticipantSid,
        activity: Option<EncoderActivity>,
    ) {
        if let Some(endpoint) = self.endpoints.get_mut(id) {
            // The status changes later, with the admission: until then, the control plane may refuse the join.
            (endpoint.encoder, endpoint.activity) = (Some(sid), activity);
        }
    }

    /// Returns whether the participant is an endpoint's encoder.
    pub fn is_encoder(&self, sid: &ParticipantSid) -> bool {
        self.by_encoder(sid).is_some()
    }

    /// Returns whether an encoder's media is still connecting, so that it does not publish yet.
    pub fn is_buffering(&self, sid: &ParticipantSid) -> bool {
        self.by_encoder(sid)
            .is_some_and(|endpoint| endpoint.status == IngressStatus::Buffering)
    }

    fn by_encoder(&self, sid: &ParticipantSid) -> Option<&IngressEndpoint> {
        self.iter()
            .find(|endpoint| endpoint.encoder.as_ref() == Some(sid))
    }

    fn by_encoder_mut(&mut self, sid: &ParticipantSid) -> Option<&mut IngressEndpoint> {
        self.endpoints
            .values_mut()
            .find(|endpoint| endpoint.encoder.as_ref() == Some(sid))
    }

    /// Sets an endpoint's status and returns the endpoint's state.
    pub fn set_status(
        &mut self,
        sid: &ParticipantSid,
        status: IngressStatus,
    ) -> Option<IngressState> {
        let endpoint = self.by_encoder_mut(sid)?;
        endpoint.status = status;
        // A new stream starts without the last one's error.
        endpoint.error = None;
        Some(endpoint.state())
    }

    /// Records why an encoder's stream cannot be published. The endpoint shows the error once the encoder has left.
    pub fn set_error(&mut self, sid: &ParticipantSid, error: String) {
        if let Some(endpoint) = self.by_encoder_mut(sid) {
            endpoint.error = Some(error);
        }
    }

    /// Records that an encoder has left. Returns the endpoint's state if the participant was an encoder whose connection
    /// was reported.
    pub fn detach(&mut self, sid: &ParticipantSid) -> Option<IngressState> {
        let endpoint = self.by_encoder_mut(sid)?;
        endpoint.encoder = None;
        // A join that was refused before it was reported must not cause an event.
        let was_reported = matches!(
            endpoint.status,
            IngressStatus::Buffering | IngressStatus::Publishing
        );
        endpoint.status = if endpoint.error.is_some() {
            IngressStatus::Error
        } else {
            IngressStatus::Inactive
        };
        was_reported.then(|| endpoint.state())
    }

    /// Returns the endpoints' states, each with the room's name.
    pub fn states(&self) -> impl Iterator<Item = (NamespacedRoom, IngressState)> {
        self.iter()
            .map(|endpoint| (self.room.clone(), endpoint.state()))
    }

    fn iter(&self) -> impl Iterator<Item = &IngressEndpoint> {
        self.endpoints.values()
    }
}

/// Address for RTMP encoders, on the public URL's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtmpAddress {
    /// TCP port.
    pub port: u16,
    /// Whether encoders must use TLS.
    pub is_secure: bool,
}

impl Default for RtmpAddress {
    fn default() -> Self {
        Self {
            port: 1935,
            is_secure: false,
        }
    }
}

/// Publish URLs for encoders, without the stream key.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) struct PublishUrls {
    rtmp: String,
    whip: String,
    rtmp_address: RtmpAddress,
}

impl PublishUrls {
    /// Derives the URLs from the clients' WebSocket URL: RTMP on the same host, WHIP on the same host and port.
    pub fn new(public_url: &str, address: RtmpAddress) -> Self {
        let public = Url::parse(public_url).ok();
        // TLS for WHIP follows the public URL, since both use the API's listener. RTMPS has its own setting.
        let (host, authority, is_secure) =
            public
                .as_ref()
                .map_or(("localhost", "localhost", false), |url| {
                    let authority = &url[Position::BeforeHost..Position::AfterPort];
                    (
                        // Without the port, since RTMP has its own. The authority, for WHIP, includes it.
                        url.host_str().unwrap_or("localhost"),
                        authority,
                        matches!(url.scheme(), "wss" | "https"),
                    )
                });
        let scheme = if is_secure { "https" } else { "http" };
        let rtmp_scheme = if address.is_secure { "rtmps" } else { "rtmp" };
        // `live` is the application that the RTMP session requires.
        let rtmp = format!("{rtmp_scheme}://{host}:{}/live", address.port);
        Self {
            rtmp,
            whip: format!("{scheme}://{authority}/whip"),
            rtmp_address: address,
        }
    }

    /// Returns the URLs for another public WebSocket URL.
    pub fn with_public_url(&self, public_url: &str) -> Self {
        Self::new(public_url, self.rtmp_address)
    }

    pub fn get(&self, input: InputType) -> String {
        match input {
            InputType::Rtmp => self.rtmp.clone(),
            InputType::Whip => self.whip.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::room_state::tests::room;

    #[test]
    fn an_endpoint_has_one_encoder_and_then_the_error_of_its_stream() {
        let common = Arc::new(Common::new(100, false));
        let mut endpoints = IngressEndpoints::new(room(), Arc::clone(&common));
        let (id, key) = endpoints.create(IngressRequest {
            room: room(),
            max_participants: None,
            input_type: InputType::Rtmp,
            identity: "studio".parse().unwrap(),
            name: None,
            enable_transcoding: None,
            public_url: None,
        });
        let key = StreamKeyHash::from_key(key.reveal());
        assert_eq!(common.room_of_key(&key), Ok(room()));
        let vacant = |endpoints: &IngressEndpoints, input| {
            let vacant = endpoints.get_vacant(&key, input);
            vacant.map(|endpoint| endpoint.id().clone())
        };
        assert_eq!(vacant(&endpoints, InputType::Rtmp), Ok(id.clone()));
        let other_input = vacant(&endpoints, InputType::Whip);
        assert_eq!(other_input, Err(RoomStateError::NoSuchIngress));

        let encoder: ParticipantSid = "PA_1".parse().unwrap();
        endpoints.attach(&id, encoder.clone(), None);
        let second = vacant(&endpoints, InputType::Rtmp);
        assert_eq!(second, Err(RoomStateError::EncoderConnected));
        assert_eq!(endpoints.detach(&encoder), None, "it was not reported");

        endpoints.attach(&id, encoder.clone(), None);
        endpoints.set_status(&encoder, IngressStatus::Buffering);
        assert!(endpoints.is_encoder(&encoder) && endpoints.is_buffering(&encoder));
        endpoints.set_error(&encoder, "no H.264".into());
        let left = endpoints.detach(&encoder).unwrap();
        let error = left.error.as_deref();
        assert_eq!(
            (left.status, error),
            (IngressStatus::Error, Some("no H.264"))
        );
        assert!(!endpoints.is_encoder(&encoder));

        endpoints.remove(&id);
        assert!(endpoints.is_empty() && common.room_of_key(&key).is_err());
    }

    #[test]
    fn publish_urls_have_the_host_of_the_public_url() {
        for (public, rtmp, whip) in [
            (
                "ws://127.0.0.1:8080",
                "rtmp://127.0.0.1:1935/live",
                "http://127.0.0.1:8080/whip",
            ),
            (
                "wss://media.example.com/rtc",
                "rtmp://media.example.com:1935/live",
                "https://media.example.com/whip",
            ),
            (
                "ws://[::1]:7880",
                "rtmp://[::1]:1935/live",
                "http://[::1]:7880/whip",
            ),
            (
                "nonsense",
                "rtmp://localhost:1935/live",
                "http://localhost/whip",
            ),
        ] {
            let urls = PublishUrls::new(public, RtmpAddress::default());
            let shown = [InputType::Rtmp, InputType::Whip].map(|input| urls.get(input));
            assert_eq!(shown, [rtmp, whip]);
        }
        let urls = PublishUrls::new(
            "ws://127.0.0.1:8080",
            RtmpAddress {
                port: 2935,
                is_secure: true,
            },
        );
        assert_eq!(urls.get(InputType::Rtmp), "rtmps://127.0.0.1:2935/live");
        let elsewhere = urls.with_public_url("wss://meet.example.org");
        let shown = [InputType::Rtmp, InputType::Whip].map(|input| elsewhere.get(input));
        assert_eq!(
            shown,
            [
                "rtmps://meet.example.org:2935/live",
                "https://meet.example.org/whip"
            ]
        );
    }
}
