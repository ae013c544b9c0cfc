//! Encoders that send packets. They join in the two phases of clients, and their endpoints follow: buffering while an encoder's
//! media connects, publishing once its tracks are published, and inactive or failed after it has left.

use conclave_model::event::Departure;
use conclave_model::ingress::{IngressState, IngressStatus, InputType, StreamKeyHash};
use conclave_model::{Identity, ParticipantSid, Timestamp};

use super::Machine;
use super::ingress::encoder_claims;
use crate::embedded::client::Client;
use crate::embedded::effect::DisconnectCause;
use crate::embedded::error::MachineError;
use crate::embedded::ingress::admission::EncoderActivity;
use crate::embedded::ingress::endpoints::IngressEndpoint;
use crate::port::MediaEvent;

/// An encoder that asks to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::embedded) struct EncoderJoin {
    /// The participant that it will be.
    pub sid: ParticipantSid,
    /// The identity of its endpoint.
    pub identity: Identity,
    /// When the encoder was last heard of.
    pub activity: EncoderActivity,
    /// Whether its video is transcoded, also if receivers could play it.
    pub is_transcoded: bool,
}

impl Machine {
    /// Returns the endpoint with this stream key, if an encoder that speaks this protocol may connect to it.
    pub fn vacant_endpoint(
        &self,
        key: &StreamKeyHash,
        input: InputType,
    ) -> Result<&IngressEndpoint, MachineError> {
        let endpoint = self
            .endpoints
            .get_by_key(key)
            .filter(|endpoint| endpoint.known.input_type == input);
        let endpoint = endpoint.ok_or(MachineError::NoSuchIngress)?;
        if endpoint.encoder.is_some() {
            Err(MachineError::EncoderConnected)
        } else {
            Ok(endpoint)
        }
    }

    /// Returns whether the endpoint with this stream key transcodes all video.
    pub fn transcodes(&self, key: &StreamKeyHash) -> bool {
        self.endpoints
            .get_by_key(key)
            .is_some_and(IngressEndpoint::is_transcoded)
    }

    /// Asks the control plane whether an encoder may join. [`Machine::admit_encoder`] or [`Machine::cancel_request`] follows.
    pub fn request_encoder(
        &mut self,
        key: &StreamKeyHash,
        input: InputType,
        now: Timestamp,
    ) -> Result<EncoderJoin, MachineError> {
        let endpoint = self.vacant_endpoint(key, input)?;
        let (known, is_transcoded) = (endpoint.known.clone(), endpoint.is_transcoded());
        let (id, identity) = (known.ingress_id.clone(), known.identity.clone());
        let sid = self.request_join(encoder_claims(known, now), Client::default(), now)?;
        let activity = EncoderActivity::new();
        self.endpoints
            .attach(&id, sid.clone(), Some(activity.clone()));
        Ok(EncoderJoin {
            sid,
            identity,
            activity,
            is_transcoded,
        })
    }

    /// Returns the encoder of an endpoint that speaks this protocol, and when it was last heard of. `None` without one that sends packets.
    pub fn connected_encoder(
        &self,
        key: &StreamKeyHash,
        input: InputType,
    ) -> Option<(ParticipantSid, EncoderActivity)> {
        let endpoint = self
            .endpoints
            .get_by_key(key)
            .filter(|endpoint| endpoint.known.input_type == input)?;
        endpoint.encoder.clone().zip(endpoint.activity.clone())
    }

    /// Disconnects an encoder that has been silent for too long, since another one has come with its stream key. Has no effect for other
    /// participants.
    pub fn give_way(&mut self, sid: &ParticipantSid, now: Timestamp) {
        if self.endpoints.get_by_encoder(sid).is_some() {
            self.disconnect(sid, Departure::Lost, DisconnectCause::Replaced, now);
        }
    }

    /// Admits an encoder that the control plane has let in. Its endpoint is buffering from now on.
    pub fn admit_encoder(
        &mut self,
        sid: &ParticipantSid,
        now: Timestamp,
    ) -> Result<(), MachineError> {
        self.admit(sid, now)?;
        self.report_encoder(sid, IngressStatus::Buffering, now);
        Ok(())
    }

    /// Returns the encoder of an endpoint.
    pub fn encoder_of(&self, key: &StreamKeyHash) -> Option<ParticipantSid> {
        self.endpoints.get_by_key(key)?.encoder.clone()
    }

    /// Disconnects an encoder whose stream cannot be published. Its endpoint has the status `error` with this text.
    pub fn fail_encoder(&mut self, sid: &ParticipantSid, error: impl Into<String>, now: Timestamp) {
        self.endpoints.set_error(sid, error.into());
        self.disconnect(sid, Departure::Lost, DisconnectCause::Left, now);
    }

    /// Reports a new status of an encoder's endpoint. `None` if the participant is no encoder.
    pub(super) fn report_encoder(
        &mut self,
        sid: &ParticipantSid,
        status: IngressStatus,
        now: Timestamp,
    ) -> Option<IngressState> {
        let state = self.endpoints.set_status(sid, status)?;
        self.report(now, MediaEvent::Ingress(state.clone()));
        Some(state)
    }

    /// Reports that an encoder publishes, once it is active with a track.
    pub(super) fn note_publishing(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let is_buffering = self
            .endpoints
            .get_by_encoder(sid)
            .is_some_and(|endpoint| endpoint.status == IngressStatus::Buffering);
        let publishes = self
            .active(sid)
            .is_ok_and(|encoder| encoder.participant().is_publisher);
        if is_buffering && publishes {
            self.report_encoder(sid, IngressStatus::Publishing, now);
        }
    }

    /// Reports that an encoder has left its endpoint. Has no effect for other participants.
    pub(super) fn detach_encoder(&mut self, sid: &ParticipantSid, now: Timestamp) {
        if let Some(state) = self.endpoints.detach(sid) {
            self.report(now, MediaEvent::Ingress(state));
        }
    }
}
