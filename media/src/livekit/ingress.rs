//! Ingress endpoints, through which encoders publish into a room.

use std::sync::Arc;

use conclave_model::ingress::{IngressState, InputType};
use conclave_model::{IngressId, NamespacedRoom, Secret};
use livekit_protocol as proto;

use super::convert;
use super::rooms::Rooms;
use super::twirp::{self, TwirpClient, empty_without_redis};
use crate::port::{IngressCredentials, IngressRequest, KnownIngress, MediaError};

/// Calls for ingress endpoints.
#[derive(Debug, Clone)]
pub(super) struct IngressEndpoints {
    client: Arc<TwirpClient>,
    rooms: Rooms,
}

impl IngressEndpoints {
    pub fn new(client: Arc<TwirpClient>, rooms: Rooms) -> Self {
        Self { client, rooms }
    }

    /// Creates an endpoint. Opens its room first: otherwise the encoder would open it, with LiveKit's default settings.
    pub async fn create(&self, request: &IngressRequest) -> Result<IngressCredentials, MediaError> {
        self.rooms
            .open(&request.room, request.max_participants)
            .await?;
        let created = self
            .client
            .call(twirp::create_ingress(&to_proto(request)))
            .await?;
        let ingress_id: Result<IngressId, _> = created.ingress_id.parse();
        let ingress_id = ingress_id.map_err(|_| {
            MediaError::Unavailable("LiveKit created an ingress without an id".into())
        })?;
        // Encoders cannot use an endpoint without a URL, so it must not remain.
        if created.url.is_empty() {
            self.delete(&ingress_id).await?;
            let missing = "LiveKit returned no publish URL: set ingress.rtmp_base_url and \
                           ingress.whip_base_url in its configuration";
            return Err(MediaError::Refused(missing.into()));
        }
        let url = url_without_key(&created);
        Ok(IngressCredentials {
            ingress_id,
            url,
            stream_key: Secret::new(created.stream_key),
        })
    }

    /// Returns an endpoint's state; `None` if LiveKit does not know it in this room.
    pub async fn get(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        let request = proto::ListIngressRequest {
            ingress_id: known.ingress_id.to_string(),
            ..Default::default()
        };
        let listed = match self.client.call(twirp::list_ingress(&request)).await {
            Err(error) if error.is_not_found() => return Ok(None),
            listed => listed?.items,
        };
        // LiveKit finds an endpoint by its id alone, so a match in another room is dropped.
        let mut states = listed.iter().filter_map(convert::ingress);
        let found = states
            .find(|(room, state)| *room == known.room && state.ingress_id == known.ingress_id);
        Ok(found.map(|(_, state)| state))
    }

    /// Deletes an endpoint. Succeeds if there is none.
    pub async fn delete(&self, id: &IngressId) -> Result<(), MediaError> {
        let request = proto::DeleteIngressRequest {
            ingress_id: id.to_string(),
        };
        match self.client.call(twirp::delete_ingress(&request)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns all projects' endpoints, with their rooms.
    pub async fn list(&self) -> Result<Vec<(NamespacedRoom, IngressState)>, MediaError> {
        let request = proto::ListIngressRequest::default();
        let listed =
            empty_without_redis(self.client.call(twirp::list_ingress(&request)).await)?.items;
        Ok(listed.iter().filter_map(convert::ingress).collect())
    }
}

fn to_proto(request: &IngressRequest) -> proto::CreateIngressRequest {
    let input_type = match request.input_type {
        InputType::Rtmp => proto::IngressInput::RtmpInput,
        InputType::Whip => proto::IngressInput::WhipInput,
    };
    proto::CreateIngressRequest {
        input_type: input_type as i32,
        name: request.identity.to_string(),
        room_name: request.room.to_string(),
        participant_identity: request.identity.to_string(),
        participant_name: request.name.clone().unwrap_or_default(),
        enable_transcoding: request.enable_transcoding,
        ..Default::default()
    }
}

/// Returns the publish URL without the stream key, which LiveKit may append to it.
fn url_without_key(created: &proto::IngressInfo) -> String {
    let url = created.url.trim_end_matches('/');
    let base = url
        .strip_suffix(created.stream_key.as_str())
        .and_then(|url| url.strip_suffix('/'));
    base.filter(|_| !created.stream_key.is_empty())
        .unwrap_or(url)
        .to_owned()
}
