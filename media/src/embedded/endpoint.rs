//! Ingress endpoints on the embedded plane. Nothing is decoded: an encoder that connects is an ordinary participant, and the
//! endpoint is what it may come in by. Of a stream key only its hash is kept.

use std::collections::HashMap;

use conclave_model::ingress::{IngressState, IngressStatus, InputType, StreamKeyHash};
use conclave_model::{IngressId, ParticipantSid};
use url::{Position, Url};

use crate::port::KnownIngress;

/// One endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// What it was made with.
    pub known: KnownIngress,
    /// How it stands.
    pub status: IngressStatus,
    /// The join of the encoder that is connected, or about to be.
    pub encoder: Option<ParticipantSid>,
}

impl Endpoint {
    /// What the plane says of it.
    pub fn state(&self) -> IngressState {
        IngressState { ingress_id: self.known.ingress_id.clone(), status: self.status, error: None }
    }
}

/// Every endpoint, by id, by key and by who came in.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    endpoints: HashMap<IngressId, Endpoint>,
    by_key: HashMap<StreamKeyHash, IngressId>,
    by_encoder: HashMap<ParticipantSid, IngressId>,
}

impl Endpoints {
    /// Finds an endpoint, or takes it up: nobody is connected to it then.
    pub fn open(&mut self, known: &KnownIngress) -> &Endpoint {
        self.by_key.entry(known.key_hash).or_insert_with(|| known.ingress_id.clone());
        self.endpoints.entry(known.ingress_id.clone()).or_insert_with(|| Endpoint {
            known: known.clone(),
            status: IngressStatus::Inactive,
            encoder: None,
        })
    }

    /// Takes an endpoint away; its key opens nothing from then on.
    pub fn remove(&mut self, id: &IngressId) -> Option<Endpoint> {
        let endpoint = self.endpoints.remove(id)?;
        self.by_key.remove(&endpoint.known.key_hash);
        if let Some(encoder) = &endpoint.encoder {
            self.by_encoder.remove(encoder);
        }
        Some(endpoint)
    }

    /// Finds an endpoint.
    pub fn get(&self, id: &IngressId) -> Option<&Endpoint> {
        self.endpoints.get(id)
    }

    /// The endpoint that a key opens.
    pub fn of_key(&self, key: &StreamKeyHash) -> Option<&Endpoint> {
        self.endpoints.get(self.by_key.get(key)?)
    }

    /// Notes that an encoder is about to come in.
    pub fn connecting(&mut self, id: &IngressId, sid: ParticipantSid) {
        if let Some(endpoint) = self.endpoints.get_mut(id) {
            endpoint.encoder = Some(sid.clone());
            self.by_encoder.insert(sid, id.clone());
        }
    }

    /// Notes that an encoder publishes.
    pub fn publishing(&mut self, sid: &ParticipantSid) -> Option<&Endpoint> {
        let endpoint = self.endpoints.get_mut(self.by_encoder.get(sid)?)?;
        endpoint.status = IngressStatus::Publishing;
        Some(endpoint)
    }

    /// Notes that somebody is gone. If it was an encoder that published, gives what the plane says of its endpoint now.
    pub fn let_go(&mut self, sid: &ParticipantSid) -> Option<IngressState> {
        let endpoint = self.endpoints.get_mut(&self.by_encoder.remove(sid)?)?;
        endpoint.encoder = None;
        let published = endpoint.status == IngressStatus::Publishing;
        endpoint.status = IngressStatus::Inactive;
        published.then(|| endpoint.state())
    }

    /// Every endpoint.
    pub fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.values()
    }
}

/// Where encoders publish, without the stream key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublishUrls {
    rtmp: String,
    whip: String,
}

impl PublishUrls {
    /// On the host of a websocket url: RTMP on its own port, WHIP where the websocket is.
    pub fn at(public_url: &str) -> Self {
        let public = Url::parse(public_url).ok();
        let (host, place, secure) = public.as_ref().map_or(("localhost", "localhost", false), |url| {
            let place = &url[Position::BeforeHost..Position::AfterPort];
            (url.host_str().unwrap_or("localhost"), place, matches!(url.scheme(), "wss" | "https"))
        });
        let scheme = if secure { "https" } else { "http" };
        Self { rtmp: format!("rtmp://{host}/live"), whip: format!("{scheme}://{place}/whip") }
    }

    /// Where an encoder that speaks this publishes.
    pub fn of(&self, input: InputType) -> String {
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
    fn encoders_publish_on_the_host_that_clients_reach() {
        for (public, rtmp, whip) in [
            ("ws://127.0.0.1:8080", "rtmp://127.0.0.1/live", "http://127.0.0.1:8080/whip"),
            ("wss://media.example.com/rtc", "rtmp://media.example.com/live", "https://media.example.com/whip"),
            ("ws://[::1]:7880", "rtmp://[::1]/live", "http://[::1]:7880/whip"),
            ("nonsense", "rtmp://localhost/live", "http://localhost/whip"),
        ] {
            let urls = PublishUrls::at(public);
            assert_eq!((urls.of(InputType::Rtmp).as_str(), urls.of(InputType::Whip).as_str()), (rtmp, whip));
        }
    }
}
