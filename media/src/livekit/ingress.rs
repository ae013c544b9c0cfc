//! Endpoints that encoders publish to.

use conclave_model::ingress::{IngressState, InputType};
use conclave_model::{IngressId, Secret};
use livekit_protocol as proto;

use super::calls;
use super::convert;
use super::plane::Inner;
use crate::port::{IngressCredentials, IngressRequest, KnownIngress, MediaError};

impl Inner {
    /// Makes an endpoint.
    pub async fn create_ingress(&self, new: &IngressRequest) -> Result<IngressCredentials, MediaError> {
        let input_type = match new.input_type {
            InputType::Rtmp => proto::IngressInput::RtmpInput,
            InputType::Whip => proto::IngressInput::WhipInput,
        };
        let request = proto::CreateIngressRequest {
            input_type: input_type as i32,
            name: new.identity.to_string(),
            room_name: new.room.to_string(),
            participant_identity: new.identity.to_string(),
            participant_name: new.name.clone().unwrap_or_default(),
            enable_transcoding: new.enable_transcoding,
            ..Default::default()
        };
        // Or an encoder would open it, with LiveKit's own settings.
        self.open_room(&new.room, new.max_participants).await?;
        let made = self.twirp.call(calls::create_ingress(&request)).await?;
        let ingress_id = made.ingress_id.parse();
        let ingress_id: IngressId =
            ingress_id.map_err(|_| MediaError::Unavailable("LiveKit made an ingress that has no id".into()))?;
        if made.url.is_empty() {
            self.delete_ingress(&ingress_id).await?;
            let missing = "LiveKit does not say where encoders publish: set ingress.rtmp_base_url and \
                           ingress.whip_base_url in its configuration";
            return Err(MediaError::Refused(missing.into()));
        }
        Ok(IngressCredentials { ingress_id, url: without_key(&made), stream_key: Secret::new(made.stream_key) })
    }

    /// How an endpoint stands.
    pub async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        let request = proto::ListIngressRequest { ingress_id: known.ingress_id.to_string(), ..Default::default() };
        let listed = match self.twirp.call(calls::list_ingress(&request)).await {
            Err(failure) if failure.is_not_found() => return Ok(None),
            listed => listed?.items,
        };
        let mut ours = listed.iter().filter_map(convert::ingress);
        Ok(ours
            .find(|(room, state)| *room == known.room && state.ingress_id == known.ingress_id)
            .map(|(_, state)| state))
    }

    /// Takes an endpoint away. None to take away is a success.
    pub async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        match self.twirp.call(calls::delete_ingress(&proto::DeleteIngressRequest { ingress_id: id.to_string() })).await
        {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_not_found() => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// The address without the key, should it end in it.
fn without_key(made: &proto::IngressInfo) -> String {
    let url = made.url.trim_end_matches('/');
    let bare = url.strip_suffix(made.stream_key.as_str()).and_then(|url| url.strip_suffix('/'));
    bare.filter(|_| !made.stream_key.is_empty()).unwrap_or(url).to_owned()
}
