//! The media port's calls on the embedded plane.
//!
//! They never await replies to the reports that they cause: their caller is the actor that would have to give them.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use conclave_model::destination::RecordingConfig;
use conclave_model::egress::{EgressPlan, EgressState, StartedEgress};
use conclave_model::ingress::IngressState;
use conclave_model::participant::Participant;
use conclave_model::role::RoleSubscribe;
use conclave_model::{
    EgressId, Identity, IngressId, NamespacedRoom, ParticipantSid, RoleName, TrackSid,
};
use serde_json::Value;

use super::EmbeddedPlane;
use crate::embedded::common::RoomObject;
use crate::embedded::egress::start;
use crate::embedded::error::RoomStateError;
use crate::embedded::inspection;
use crate::embedded::room_state::RoomState;
use crate::port::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaInventory, MediaPlane,
    MuteOutcome, RoleGrant, ServerData,
};

#[async_trait]
impl MediaPlane for EmbeddedPlane {
    fn kind(&self) -> &'static str {
        "embedded"
    }

    async fn health(&self) -> Result<(), MediaError> {
        self.0.faults.check_outage(&self.0.clock)
    }

    async fn participants(&self, room: &NamespacedRoom) -> Result<Vec<Participant>, MediaError> {
        // A client that has just connected expects to be listed, although its join is still being written.
        self.await_joins(room, None).await;
        self.0
            .call_by_port(room, |room_state, _| room_state.participants())
    }

    async fn participant(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<Participant>, MediaError> {
        self.await_joins(room, Some(identity)).await;
        self.0
            .call_by_port(room, |room_state, _| room_state.participant(identity))
    }

    async fn remove_participant(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError> {
        self.0.call_by_port(room, |room_state, now| {
            room_state.remove_participant(sid, now)
        })
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        // Awaits pending joins, since a moderator may mute a participant as soon as it joins.
        self.await_joins(room, Some(identity)).await;
        let result = self.0.call_by_port(room, |room_state, now| {
            room_state.mute_by_server(identity, track, muted, now)
        })?;
        Ok(match result {
            Ok(track) => MuteOutcome::Done(track),
            Err(RoomStateError::NoSuchTrack) => MuteOutcome::NoSuchTrack,
            // `mute_by_server` has no other errors.
            Err(_) => MuteOutcome::NoSuchParticipant,
        })
    }

    async fn send_data(
        &self,
        room: &NamespacedRoom,
        message: ServerData,
    ) -> Result<(), MediaError> {
        self.0.call_by_port(room, |room_state, now| {
            room_state.send_server_data(message, now);
        })
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        Ok(self
            .0
            .call_by_port(room, |room_state, now| {
                room_state.set_role(identity, role, now)
            })?
            .ok())
    }

    async fn set_role_of_join(
        &self,
        room: &NamespacedRoom,
        participant: &Participant,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.0.call_by_port(room, |room_state, now| {
            room_state.set_role_of_join(&participant.sid, role, now)
        })
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.0.call_by_port(room, RoomState::close)
    }

    async fn start_egress(
        &self,
        plan: Arc<EgressPlan>,
        _: Option<RecordingConfig>,
    ) -> Result<StartedEgress, MediaError> {
        start::start(&self.0, plan).await
    }

    async fn egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.0
            .call_by_port(room, |room_state, _| room_state.egress(id))
    }

    async fn stop_egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.0
            .call_by_port(room, |room_state, now| room_state.stop_egress(id, now))
    }

    async fn set_egress_paused(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
        paused: bool,
    ) -> Result<Option<EgressState>, MediaError> {
        self.0.call_by_port(room, |room_state, _| {
            room_state.set_egress_paused(id, paused)
        })
    }

    async fn create_ingress(
        &self,
        request: IngressRequest,
    ) -> Result<IngressCredentials, MediaError> {
        let url = match &request.public_url {
            Some(public_url) => self
                .0
                .urls
                .with_public_url(public_url)
                .get(request.input_type),
            // Encoders use the configured public URL's host unless the request came through another one.
            None => self.0.urls.get(request.input_type),
        };
        let room = request.room.clone();
        let (ingress_id, stream_key) = self
            .0
            .call_by_port(&room, |room_state, _| room_state.create_ingress(request))?;
        Ok(IngressCredentials {
            ingress_id,
            url,
            stream_key,
        })
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.0
            .call_by_port(&known.room, |room_state, _| Some(room_state.ingress(known)))
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.0.faults.check_outage(&self.0.clock)?;
        // The call names no room, so the index finds it. Deleting twice succeeds.
        if let Some(room) = self.0.common.room_of(&RoomObject::Endpoint(id.clone())) {
            self.0
                .call(&room, |room_state, now| room_state.delete_ingress(id, now));
        }
        Ok(())
    }

    async fn inventory(&self) -> Result<MediaInventory, MediaError> {
        self.0.faults.check_outage(&self.0.clock)?;
        // A room without participants is not live on this plane, so it is not listed as empty either.
        let mut inventory = MediaInventory::default();
        for room in self.0.rooms.all() {
            let state = room.lock();
            inventory.rooms.extend(
                state
                    .room_state
                    .seats()
                    .iter()
                    .next()
                    .map(|_| room.name().clone()),
            );
            inventory
                .egresses
                .extend(state.room_state.running_egresses());
            inventory.ingresses.extend(state.room_state.ingresses());
        }
        Ok(inventory)
    }

    async fn inspect_egress(&self, id: &EgressId) -> Option<Value> {
        self.0.jobs.as_ref()?.inspect(id)
    }

    async fn inspect_room(&self, room: &NamespacedRoom) -> Option<Value> {
        inspection::inspect(&*self.0.rooms.get(room)?).await
    }

    async fn set_subscription_rules(
        &self,
        room: &NamespacedRoom,
        rules: BTreeMap<RoleName, RoleSubscribe>,
    ) -> Result<(), MediaError> {
        self.0.call_by_port(room, |room_state, _| {
            room_state.set_subscription_rules(rules);
        })
    }
}
