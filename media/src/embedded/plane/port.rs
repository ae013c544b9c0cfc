//! The calls of the media port on the embedded plane.
//!
//! They never await the answers to the reports that they cause: their caller is the actor that has to give them.

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
use crate::embedded::common::Owned;
use crate::embedded::egress::start;
use crate::embedded::error::MachineError;
use crate::embedded::inspection;
use crate::embedded::machine::Machine;
use crate::port::{
    IngressCredentials, IngressRequest, KnownIngress, MediaError, MediaPlane, MuteOutcome,
    RoleGrant, ServerData, Survey,
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
        self.await_joins(room, None).await;
        self.0
            .call_by_port(room, |machine, _| machine.participants())
    }

    async fn participant(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
    ) -> Result<Option<Participant>, MediaError> {
        self.await_joins(room, Some(identity)).await;
        self.0
            .call_by_port(room, |machine, _| machine.participant(identity))
    }

    async fn remove_participant(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
    ) -> Result<bool, MediaError> {
        self.0
            .call_by_port(room, |machine, now| machine.remove_participant(sid, now))
    }

    async fn mute_track(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        track: &TrackSid,
        muted: bool,
    ) -> Result<MuteOutcome, MediaError> {
        self.await_joins(room, Some(identity)).await;
        let result = self.0.call_by_port(room, |machine, now| {
            machine.mute_by_server(identity, track, muted, now)
        })?;
        Ok(match result {
            Ok(track) => MuteOutcome::Done(track),
            Err(MachineError::NoSuchTrack) => MuteOutcome::NoSuchTrack,
            Err(_) => MuteOutcome::NoSuchParticipant,
        })
    }

    async fn send_data(
        &self,
        room: &NamespacedRoom,
        message: ServerData,
    ) -> Result<(), MediaError> {
        self.0
            .call_by_port(room, |machine, now| machine.send_server_data(message, now))
    }

    async fn set_role(
        &self,
        room: &NamespacedRoom,
        identity: &Identity,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        Ok(self
            .0
            .call_by_port(room, |machine, now| machine.set_role(identity, role, now))?
            .ok())
    }

    async fn set_role_of_join(
        &self,
        room: &NamespacedRoom,
        participant: &Participant,
        role: RoleGrant,
    ) -> Result<Option<Participant>, MediaError> {
        self.0.call_by_port(room, |machine, now| {
            machine.set_role_of_join(&participant.sid, role, now)
        })
    }

    async fn close_room(&self, room: &NamespacedRoom) -> Result<(), MediaError> {
        self.0.call_by_port(room, Machine::close)
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
        self.0.call_by_port(room, |machine, _| machine.egress(id))
    }

    async fn stop_egress(
        &self,
        room: &NamespacedRoom,
        id: &EgressId,
    ) -> Result<Option<EgressState>, MediaError> {
        self.0
            .call_by_port(room, |machine, now| machine.stop_egress(id, now))
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
            None => self.0.urls.get(request.input_type),
        };
        let room = request.room.clone();
        let (ingress_id, stream_key) = self
            .0
            .call_by_port(&room, |machine, _| machine.create_ingress(request))?;
        Ok(IngressCredentials {
            ingress_id,
            url,
            stream_key,
        })
    }

    async fn ingress(&self, known: &KnownIngress) -> Result<Option<IngressState>, MediaError> {
        self.0
            .call_by_port(&known.room, |machine, _| Some(machine.ingress(known)))
    }

    async fn delete_ingress(&self, id: &IngressId) -> Result<(), MediaError> {
        self.0.faults.check_outage(&self.0.clock)?;
        if let Some(room) = self.0.common.room_of(&Owned::Endpoint(id.clone())) {
            self.0
                .call(&room, |machine, now| machine.delete_ingress(id, now));
        }
        Ok(())
    }

    async fn survey(&self) -> Result<Survey, MediaError> {
        self.0.faults.check_outage(&self.0.clock)?;
        // A room without participants is not live on this plane, so it is not among the empty ones.
        let mut survey = Survey::default();
        for room in self.0.rooms.all() {
            let state = room.lock();
            survey.rooms.extend(
                state
                    .machine
                    .members()
                    .iter()
                    .next()
                    .map(|_| room.name().clone()),
            );
            survey.egresses.extend(state.machine.running_egresses());
            survey.ingresses.extend(state.machine.ingresses());
        }
        Ok(survey)
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
        self.0
            .call_by_port(room, |machine, _| machine.set_subscription_rules(rules))
    }
}
