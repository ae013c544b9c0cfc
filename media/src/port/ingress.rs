//! Requests for ingress endpoints, and how the media plane describes one.

use conclave_model::ingress::{Ingress, InputType, StreamKeyHash};
use conclave_model::{Identity, IngressId, NamespacedRoom, Secret};

/// A request to create an ingress endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressRequest {
    /// The room that the encoder publishes into.
    pub room: NamespacedRoom,
    /// The room's effective maximum of participants, used if the media plane opens it; `None` means no limit.
    pub max_participants: Option<u32>,
    /// The protocol of the encoder.
    pub input_type: InputType,
    /// The identity that the encoder joins as.
    pub identity: Identity,
    /// The display name that the encoder joins with.
    pub name: Option<String>,
    /// The websocket URL by which the client reaches the embedded plane, if that depends on the client: encoders connect to its host.
    pub public_url: Option<String>,
    /// Whether the stream is transcoded; `None` means the media plane's default for the input type.
    pub enable_transcoding: Option<bool>,
}

/// What an encoder needs to publish to a new ingress endpoint.
#[derive(Debug, Clone)]
pub struct IngressCredentials {
    /// The endpoint's id.
    pub ingress_id: IngressId,
    /// The publish url, without the stream key, which is appended as the last path segment.
    pub url: String,
    /// The stream key. It is shown once, and only its hash is stored.
    pub stream_key: Secret,
}

/// An ingress endpoint as recorded in the database. The embedded plane restores an endpoint from it after a restart.
#[derive(Debug, Clone)]
pub struct KnownIngress {
    /// The endpoint's id.
    pub ingress_id: IngressId,
    /// The room that the encoder publishes into.
    pub room: NamespacedRoom,
    /// The identity that the encoder joins as.
    pub identity: Identity,
    /// The display name that the encoder joins with.
    pub name: Option<String>,
    /// The protocol of the encoder.
    pub input_type: InputType,
    /// The hash of the stream key.
    pub key_hash: StreamKeyHash,
}

impl From<&Ingress> for KnownIngress {
    fn from(ingress: &Ingress) -> Self {
        Self {
            ingress_id: ingress.ingress_id.clone(),
            room: ingress.namespaced_room(),
            identity: ingress.participant_identity.clone(),
            name: ingress.participant_name.clone(),
            input_type: ingress.input_type,
            key_hash: ingress.key_hash,
        }
    }
}
