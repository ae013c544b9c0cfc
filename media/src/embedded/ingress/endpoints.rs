//! Ingress endpoints on the embedded plane. An encoder that connects to an endpoint joins its room as an ordinary participant.
//! Only the hash of a stream key is kept.

use std::collections::HashMap;

use conclave_model::ingress::{IngressState, IngressStatus, InputType, StreamKeyHash};
use conclave_model::{IngressId, ParticipantSid};
use url::{Position, Url};

use super::admission::EncoderActivity;
use crate::port::{IngressRequest, KnownIngress};

/// How the ids of endpoints begin.
const PREFIX: &str = "IN_";
/// How the ids of endpoints begin whose video is transcoded in any case. The id is all that the records keep of it. No other id has a second
/// underscore.
const TRANSCODED_PREFIX: &str = "IN_T_";

/// Returns how the id of a new endpoint begins.
pub(in crate::embedded) fn id_prefix(request: &IngressRequest) -> &'static str {
    if request.enable_transcoding == Some(true) {
        TRANSCODED_PREFIX
    } else {
        PREFIX
    }
}

/// An ingress endpoint.
#[derive(Debug)]
pub(in crate::embedded) struct IngressEndpoint {
    pub known: KnownIngress,
    pub status: IngressStatus,
    /// Why the stream of the present or the last encoder cannot be published.
    error: Option<String>,
    /// The participant of the encoder that is connected or joining.
    pub encoder: Option<ParticipantSid>,
    /// When that encoder was last heard of; `None` for one of the sandbox.
    pub activity: Option<EncoderActivity>,
}

impl IngressEndpoint {
    /// Returns whether the video of its encoders is transcoded, also if receivers could play it.
    pub fn is_transcoded(&self) -> bool {
        self.known
            .ingress_id
            .as_str()
            .starts_with(TRANSCODED_PREFIX)
    }

    pub fn state(&self) -> IngressState {
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
}

/// The endpoints of a room.
#[derive(Debug, Default)]
pub(in crate::embedded) struct IngressEndpoints(HashMap<IngressId, IngressEndpoint>);

impl IngressEndpoints {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an endpoint, or inserts it without an encoder.
    pub fn get_or_insert(&mut self, known: &KnownIngress) -> &IngressEndpoint {
        self.0
            .entry(known.ingress_id.clone())
            .or_insert_with(|| IngressEndpoint {
                known: known.clone(),
                status: IngressStatus::Inactive,
                error: None,
                encoder: None,
                activity: None,
            })
    }

    /// Removes an endpoint.
    pub fn remove(&mut self, id: &IngressId) {
        self.0.remove(id);
    }

    pub fn get(&self, id: &IngressId) -> Option<&IngressEndpoint> {
        self.0.get(id)
    }

    /// Returns the endpoint with this stream key.
    pub fn get_by_key(&self, key: &StreamKeyHash) -> Option<&IngressEndpoint> {
        self.iter().find(|endpoint| endpoint.known.key_hash == *key)
    }

    /// Records the encoder that is joining by an endpoint.
    pub fn attach(
        &mut self,
        id: &IngressId,
        sid: ParticipantSid,
        activity: Option<EncoderActivity>,
    ) {
        if let Some(endpoint) = self.0.get_mut(id) {
            (endpoint.encoder, endpoint.activity) = (Some(sid), activity);
        }
    }

    /// Returns the endpoint of an encoder.
    pub fn get_by_encoder(&self, sid: &ParticipantSid) -> Option<&IngressEndpoint> {
        self.iter()
            .find(|endpoint| endpoint.encoder.as_ref() == Some(sid))
    }

    fn of_encoder(&mut self, sid: &ParticipantSid) -> Option<&mut IngressEndpoint> {
        self.0
            .values_mut()
            .find(|endpoint| endpoint.encoder.as_ref() == Some(sid))
    }

    /// Records that an encoder is connected, or publishes. Returns the state of its endpoint.
    pub fn set_status(
        &mut self,
        sid: &ParticipantSid,
        status: IngressStatus,
    ) -> Option<IngressState> {
        let endpoint = self.of_encoder(sid)?;
        endpoint.status = status;
        endpoint.error = None;
        Some(endpoint.state())
    }

    /// Records why the stream of an encoder cannot be published. The endpoint has that error once the encoder has left.
    pub fn set_error(&mut self, sid: &ParticipantSid, error: String) {
        if let Some(endpoint) = self.of_encoder(sid) {
            endpoint.error = Some(error);
        }
    }

    /// Records that a participant has left. Returns the state of its endpoint, if it was an encoder whose connection was
    /// reported.
    pub fn detach(&mut self, sid: &ParticipantSid) -> Option<IngressState> {
        let endpoint = self.of_encoder(sid)?;
        endpoint.encoder = None;
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

    pub fn iter(&self) -> impl Iterator<Item = &IngressEndpoint> {
        self.0.values()
    }
}

/// Where RTMP encoders connect, on the host of the public url.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtmpAddress {
    /// The TCP port.
    pub port: u16,
    /// Whether they have to speak TLS.
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

/// The publish urls of encoders, without the stream key.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) struct PublishUrls {
    rtmp: String,
    whip: String,
    rtmp_address: RtmpAddress,
}

impl PublishUrls {
    /// Derives the urls from the websocket url of clients: RTMP on the same host, WHIP on the same host and port.
    pub fn new(public_url: &str, address: RtmpAddress) -> Self {
        let public = Url::parse(public_url).ok();
        let (host, authority, is_secure) =
            public
                .as_ref()
                .map_or(("localhost", "localhost", false), |url| {
                    let authority = &url[Position::BeforeHost..Position::AfterPort];
                    (
                        url.host_str().unwrap_or("localhost"),
                        authority,
                        matches!(url.scheme(), "wss" | "https"),
                    )
                });
        let scheme = if is_secure { "https" } else { "http" };
        let rtmp_scheme = if address.is_secure { "rtmps" } else { "rtmp" };
        let rtmp = format!("{rtmp_scheme}://{host}:{}/live", address.port);
        Self {
            rtmp,
            whip: format!("{scheme}://{authority}/whip"),
            rtmp_address: address,
        }
    }

    /// Returns the same on the host of another websocket url.
    pub fn on(&self, public_url: &str) -> Self {
        Self::new(public_url, self.rtmp_address)
    }

    /// Returns the publish url of an input type.
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
        let elsewhere = urls.on("wss://meet.example.org");
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
