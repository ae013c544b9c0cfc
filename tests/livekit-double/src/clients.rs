//! Clients, which join with a token, publish within its permissions and receive messages; and encoders, which connect with a stream key.

use std::collections::HashMap;

use livekit_protocol as proto;
use proto::participant_info::Kind;
use proto::{TrackSource, TrackType};
use serde_json::Value;

use crate::methods::read;
use crate::{Double, Joining, State};

/// Reason for refusing a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The token or the stream key is invalid.
    Credential,
    /// The room is full.
    RoomFull,
    /// The participant's permission does not cover the action.
    NotAllowed,
}

impl Double {
    /// Connects a client with a token, whose grants and room settings apply. Creates the room if it does not exist. Returns the sid.
    ///
    /// # Errors
    /// The token is not signed with the double's key, or the room is full.
    pub fn connect(&self, token: &str) -> Result<String, Refused> {
        let claims = self.claims(token).map_err(|_| Refused::Credential)?;
        let video = &claims["video"];
        let (Some(room), Some(identity), true) = (
            video["room"].as_str(),
            claims["sub"].as_str(),
            video["roomJoin"] == true,
        ) else {
            return Err(Refused::Credential);
        };
        self.lock()
            .admit(room, identity, &claims["roomConfig"], self)?;
        let attributes: HashMap<String, String> =
            serde_json::from_value(claims["attributes"].clone()).unwrap_or_default();
        let attributes: Vec<_> = attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let sid = self.join(
            room,
            &Joining {
                identity,
                name: claims["name"].as_str().unwrap_or_default(),
                metadata: claims["metadata"].as_str().unwrap_or_default(),
                attributes: &attributes,
                kind: Kind::Standard,
                permission: permission(video),
            },
        );
        Ok(sid)
    }

    /// Publishes a client's track, if its permission allows it. Returns the sid.
    ///
    /// # Errors
    /// The permission does not cover the track's source.
    pub fn publish_if_allowed(
        &self,
        room: &str,
        identity: &str,
        kind: TrackType,
        source: TrackSource,
    ) -> Result<String, Refused> {
        let allowed = {
            let mut state = self.lock();
            let participant = state
                .participant_mut(room, identity)
                .ok_or(Refused::NotAllowed)?;
            participant
                .permission
                .as_ref()
                .is_some_and(|permission| may_publish(permission, source as i32))
        };
        if allowed {
            Ok(self.publish(room, identity, kind, source))
        } else {
            Err(Refused::NotAllowed)
        }
    }

    /// Returns the data messages that the server sent to a participant, in order.
    #[must_use]
    pub fn messages_to(&self, room: &str, identity: &str) -> Vec<proto::SendDataRequest> {
        let sent = self
            .calls::<proto::SendDataRequest>("SendData")
            .into_iter()
            .filter(|message| message.room == room);
        sent.filter(|message| {
            let to = &message.destination_identities;
            to.is_empty() || to.iter().any(|meant| meant == identity)
        })
        .collect()
    }

    /// Connects an encoder with a stream key: it joins and publishes video and audio, and `ingress_started` is reported.
    ///
    /// # Errors
    /// No endpoint has that key.
    pub fn connect_encoder(&self, stream_key: &str) -> Result<(), Refused> {
        let endpoint = self.endpoint_of(stream_key)?;
        let (room, identity) = (
            endpoint.room_name.as_str(),
            endpoint.participant_identity.as_str(),
        );
        let name = endpoint.participant_name.as_str();
        self.join(
            room,
            &Joining {
                name,
                kind: Kind::Ingress,
                ..Joining::participant(identity)
            },
        );
        self.publish(room, identity, TrackType::Video, TrackSource::Camera);
        self.publish(room, identity, TrackType::Audio, TrackSource::Microphone);
        self.set_ingress_status(
            &endpoint.ingress_id,
            proto::ingress_state::Status::EndpointPublishing,
            "",
        );
        Ok(())
    }

    /// Disconnects an encoder, and reports `ingress_ended`.
    ///
    /// # Errors
    /// No endpoint has that key.
    pub fn disconnect_encoder(&self, stream_key: &str) -> Result<(), Refused> {
        let endpoint = self.endpoint_of(stream_key)?;
        self.leave(
            &endpoint.room_name,
            &endpoint.participant_identity,
            proto::DisconnectReason::ClientInitiated,
        );
        self.set_ingress_status(
            &endpoint.ingress_id,
            proto::ingress_state::Status::EndpointInactive,
            "",
        );
        Ok(())
    }

    fn endpoint_of(&self, stream_key: &str) -> Result<proto::IngressInfo, Refused> {
        let state = self.lock();
        state
            .ingresses
            .values()
            .find(|info| info.stream_key == stream_key)
            .cloned()
            .ok_or(Refused::Credential)
    }
}

impl State {
    /// Creates a room with the token's settings, unless it is live, and checks that it is not full.
    fn admit(
        &mut self,
        room: &str,
        identity: &str,
        config: &Value,
        double: &Double,
    ) -> Result<(), Refused> {
        if !self.rooms.contains_key(room) {
            self.open(room, double);
            let info = &mut self.rooms.entry(room.to_owned()).or_default().info;
            let number = |name: &str| {
                config[name]
                    .as_u64()
                    .and_then(|number| u32::try_from(number).ok())
            };
            info.empty_timeout = number("emptyTimeout").unwrap_or(info.empty_timeout);
            info.departure_timeout = number("departureTimeout").unwrap_or(info.departure_timeout);
            info.max_participants = number("maxParticipants").unwrap_or(info.max_participants);
        }
        let room = &self.rooms[room];
        let cap = room.info.max_participants as usize;
        let full =
            cap > 0 && room.participants.len() >= cap && !room.participants.contains_key(identity);
        if full { Err(Refused::RoomFull) } else { Ok(()) }
    }

    /// Deletes an endpoint and disconnects its encoder.
    pub(crate) fn delete_ingress(
        &mut self,
        body: &[u8],
        double: &Double,
    ) -> Option<proto::IngressInfo> {
        let gone = self
            .ingresses
            .remove(&read::<proto::DeleteIngressRequest>(body).ingress_id)?;
        let encoder = self.participant_mut(&gone.room_name, &gone.participant_identity);
        if encoder.is_some_and(|participant| participant.kind == Kind::Ingress as i32) {
            let reason = proto::DisconnectReason::ClientInitiated;
            self.remove_participant(&gone.room_name, &gone.participant_identity, reason, double);
        }
        Some(gone)
    }
}

/// Returns the permission that a token grants. Absent grants are allowed; the data grant defaults to the publishing grant.
fn permission(video: &Value) -> proto::ParticipantPermission {
    let grant = |name: &str, otherwise: bool| video[name].as_bool().unwrap_or(otherwise);
    let can_publish = grant("canPublish", true);
    let sources = video["canPublishSources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    proto::ParticipantPermission {
        can_publish,
        can_subscribe: grant("canSubscribe", true),
        can_publish_data: grant("canPublishData", can_publish),
        can_publish_sources: sources.map(|source| source_number(source) as i32).collect(),
        hidden: grant("hidden", false),
        ..Default::default()
    }
}

fn source_number(name: &str) -> TrackSource {
    match name {
        "camera" => TrackSource::Camera,
        "microphone" => TrackSource::Microphone,
        "screen_share" => TrackSource::ScreenShare,
        "screen_share_audio" => TrackSource::ScreenShareAudio,
        _ => TrackSource::Unknown,
    }
}

/// Returns whether a permission covers a source. An empty source list means every source.
pub(crate) fn may_publish(permission: &proto::ParticipantPermission, source: i32) -> bool {
    let sources = &permission.can_publish_sources;
    permission.can_publish && (sources.is_empty() || sources.contains(&source))
}
