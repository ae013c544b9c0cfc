//! Ingress endpoints, as they are asked of a media plane.

use conclave_model::ingress::{Ingress, InputType, StreamKeyHash};
use conclave_model::{Identity, IngressId, NamespacedRoom, Secret};

/// An endpoint to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressRequest {
    /// The room it publishes into.
    pub room: NamespacedRoom,
    /// The effective cap of that room, should the plane open its side now; `None` is no cap.
    pub max_participants: Option<u32>,
    /// How an encoder speaks to it.
    pub input_type: InputType,
    /// The identity that the stream joins as.
    pub identity: Identity,
    /// The display name that it joins with.
    pub name: Option<String>,
    /// Whether the stream is transcoded; `None` is the plane's default for the input type.
    pub enable_transcoding: Option<bool>,
}

/// An endpoint that was made.
#[derive(Debug, Clone)]
pub struct IngressCredentials {
    /// Its id.
    pub ingress_id: IngressId,
    /// Where an encoder publishes, without the stream key: that is appended as the last part of the path.
    pub url: String,
    /// What lets an encoder in. Shown once, and kept only as a hash.
    pub stream_key: Secret,
}

/// An endpoint as the records know it. A plane that keeps endpoints in memory alone takes it up again from this.
#[derive(Debug, Clone)]
pub struct KnownIngress {
    /// Its id.
    pub ingress_id: IngressId,
    /// The room it publishes into.
    pub room: NamespacedRoom,
    /// The identity that the stream joins as.
    pub identity: Identity,
    /// The display name that it joins with.
    pub name: Option<String>,
    /// How an encoder speaks to it.
    pub input_type: InputType,
    /// What is kept of the stream key.
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
