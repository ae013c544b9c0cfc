//! Ingress endpoints, and the encoders that publish to them. An encoder joins as an ordinary participant: the control plane
//! may refuse its join, and may remove it.

use std::collections::BTreeMap;

use conclave_model::event::Departure;
use conclave_model::ingress::{IngressState, IngressStatus, StreamKeyHash};
use conclave_model::participant::{ParticipantKind, TrackKind, TrackSource};
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{IngressId, NamespacedRoom, ParticipantSid, Secret, Timestamp};

use super::{Machine, unused_id};
use crate::embedded::common::Owned;
use crate::embedded::effect::DisconnectCause;
use crate::embedded::error::MachineError;
use crate::embedded::ingress::endpoints::{IngressEndpoint, id_prefix};
use crate::embedded::publish::NewTrack;
use crate::port::{IngressRequest, KnownIngress};
use crate::token::{Claims, Grants};

/// Characters of a stream key, which give it 190 bits.
const KEY_LENGTH: usize = 32;

/// The result of an encoder's attempt to connect.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) enum EncoderConnection {
    /// The endpoint has an encoder already. Holds the endpoint's state.
    AlreadyConnected(IngressState),
    /// The encoder joins as this participant, if the control plane accepts it.
    Joining(ParticipantSid),
}

impl Machine {
    /// Creates an endpoint and its stream key.
    pub fn create_ingress(&mut self, request: IngressRequest) -> (IngressId, Secret) {
        let ingress_id: IngressId =
            unused_id(id_prefix(&request), |id| self.endpoints.get(id).is_some());
        let key = Secret::new(random_text(KEY_LENGTH, BASE62));
        self.ingress(&KnownIngress {
            ingress_id: ingress_id.clone(),
            room: request.room,
            identity: request.identity,
            name: request.name,
            input_type: request.input_type,
            key_hash: StreamKeyHash::from_key(key.reveal()),
        });
        (ingress_id, key)
    }

    /// Returns the state of an endpoint. Restores one that a restart of the process has lost.
    pub fn ingress(&mut self, known: &KnownIngress) -> IngressState {
        self.common
            .insert(Owned::Endpoint(known.ingress_id.clone()), &self.name);
        self.common
            .insert(Owned::StreamKey(known.key_hash), &self.name);
        self.endpoints.get_or_insert(known).state()
    }

    /// Deletes an endpoint and disconnects its encoder.
    pub fn delete_ingress(&mut self, id: &IngressId, now: Timestamp) {
        let Some(endpoint) = self.endpoints.get(id) else {
            return;
        };
        let (encoder, key) = (endpoint.encoder.clone(), endpoint.known.key_hash);
        if let Some(sid) = encoder {
            self.disconnect(&sid, Departure::Left, DisconnectCause::Left, now);
        }
        self.endpoints.remove(id);
        self.common.remove(&Owned::Endpoint(id.clone()));
        self.common.remove(&Owned::StreamKey(key));
    }

    /// An encoder connects: it begins to join, unless the endpoint has an encoder already.
    pub fn begin_connect(
        &mut self,
        key: &StreamKeyHash,
        now: Timestamp,
    ) -> Result<EncoderConnection, MachineError> {
        let endpoint = self
            .endpoints
            .get_by_key(key)
            .ok_or(MachineError::NoSuchIngress)?;
        if endpoint.encoder.is_some() {
            return Ok(EncoderConnection::AlreadyConnected(endpoint.state()));
        }
        let known = endpoint.known.clone();
        let ingress_id = known.ingress_id.clone();
        let sid = self.begin_join(encoder_claims(known, now), now)?;
        self.endpoints.attach(&ingress_id, sid.clone(), None);
        Ok(EncoderConnection::Joining(sid))
    }

    /// The control plane has accepted an encoder: it publishes a video and an audio track.
    pub fn complete_connect(
        &mut self,
        sid: &ParticipantSid,
        now: Timestamp,
    ) -> Result<IngressState, MachineError> {
        self.complete_join(sid, now);
        for (kind, source) in [
            (TrackKind::Video, TrackSource::Camera),
            (TrackKind::Audio, TrackSource::Microphone),
        ] {
            self.publish(
                sid,
                NewTrack {
                    kind,
                    source,
                    name: None,
                    muted: false,
                },
                now,
            )?;
        }
        self.report_encoder(sid, IngressStatus::Publishing, now)
            .ok_or(MachineError::NoSuchIngress)
    }

    /// An encoder disconnects. Has no effect if none is connected.
    pub fn disconnect_encoder(
        &mut self,
        key: &StreamKeyHash,
        now: Timestamp,
    ) -> Result<IngressState, MachineError> {
        let endpoint = self
            .endpoints
            .get_by_key(key)
            .ok_or(MachineError::NoSuchIngress)?;
        if let Some(sid) = endpoint.encoder.clone() {
            self.disconnect(&sid, Departure::Left, DisconnectCause::Left, now);
        }
        self.endpoints
            .get_by_key(key)
            .map(IngressEndpoint::state)
            .ok_or(MachineError::NoSuchIngress)
    }

    /// Returns the endpoints, with the name of the room.
    pub fn ingresses(&self) -> impl Iterator<Item = (NamespacedRoom, IngressState)> {
        self.endpoints
            .iter()
            .map(|endpoint| (self.name.clone(), endpoint.state()))
    }
}

/// Returns the claims that an encoder joins with. It has no token, so they expire at once.
pub(super) fn encoder_claims(known: KnownIngress, now: Timestamp) -> Claims {
    Claims {
        room: known.room,
        identity: known.identity,
        name: known.name.unwrap_or_default(),
        metadata: String::new(),
        attributes: BTreeMap::new(),
        kind: ParticipantKind::Ingress,
        grants: Grants {
            can_subscribe: false,
            ..Grants::default()
        },
        room_config: None,
        expires_at: now,
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::ingress::InputType;

    use super::*;
    use crate::embedded::machine::tests::room;
    use crate::port::{MediaEvent, Report};

    fn now() -> Timestamp {
        Timestamp::from_millis(0)
    }

    /// Returns a machine with one endpoint, and the hash of its key.
    fn machine() -> (Machine, IngressId, StreamKeyHash) {
        let mut machine = Machine::default();
        let (id, key) = machine.create_ingress(IngressRequest {
            room: room(),
            max_participants: None,
            input_type: InputType::Rtmp,
            identity: "encoder".parse().unwrap(),
            name: Some("Encoder".into()),
            enable_transcoding: None,
            public_url: None,
        });
        assert!(
            key.reveal().len() >= 24 && key.reveal().bytes().all(|b| b.is_ascii_alphanumeric())
        );
        (machine, id, StreamKeyHash::from_key(key.reveal()))
    }

    fn connect(machine: &mut Machine, key: &StreamKeyHash) -> ParticipantSid {
        let Ok(EncoderConnection::Joining(sid)) = machine.begin_connect(key, now()) else {
            panic!("it joins")
        };
        machine.complete_connect(&sid, now()).unwrap();
        sid
    }

    fn event_names(machine: &mut Machine) -> Vec<&'static str> {
        let name = |Report { event, .. }| match event {
            MediaEvent::ParticipantJoined(_) => "joined",
            MediaEvent::TrackPublished { .. } => "published",
            MediaEvent::TrackUnpublished { .. } => "unpublished",
            MediaEvent::ParticipantLeft {
                departure: Departure::Left,
                ..
            } => "left",
            MediaEvent::Ingress(state) => state.status.as_str(),
            other => panic!("{other:?}"),
        };
        machine.take_reports().into_iter().map(name).collect()
    }

    const LEFT: [&str; 4] = ["unpublished", "unpublished", "left", "inactive"];

    #[test]
    fn an_encoder_is_a_participant_that_publishes_video_and_audio() {
        let (mut machine, id, key) = machine();
        let sid = connect(&mut machine, &key);
        assert_eq!(
            event_names(&mut machine),
            ["joined", "published", "published", "publishing"]
        );
        let encoder = machine.participant(&"encoder".parse().unwrap()).unwrap();
        assert_eq!(
            (&encoder.sid, encoder.kind, encoder.name.as_str()),
            (&sid, ParticipantKind::Ingress, "Encoder")
        );
        assert!(
            !machine
                .active_or_left(&sid)
                .unwrap()
                .claims
                .grants
                .can_subscribe,
            "an encoder receives nothing"
        );
        assert_eq!(machine.encoder_of(&key), Some(sid));
        let again = machine.begin_connect(&key, now());
        assert!(
            matches!(again, Ok(EncoderConnection::AlreadyConnected(state)) if state.status == IngressStatus::Publishing)
        );
        assert_eq!(
            machine.disconnect_encoder(&key, now()).unwrap().status,
            IngressStatus::Inactive
        );
        assert_eq!(event_names(&mut machine), LEFT);
        assert_eq!(machine.encoder_of(&key), None);
        machine.disconnect_encoder(&key, now()).unwrap();
        assert_eq!(event_names(&mut machine), [""; 0]);
        assert_eq!(machine.ingresses().next().unwrap().1.ingress_id, id);
    }

    #[test]
    fn an_endpoint_is_reported_inactive_after_its_encoder_has_left() {
        let departures: [fn(&mut Machine, &ParticipantSid); 3] = [
            |machine, sid| assert!(machine.remove_participant(sid, now())),
            |machine, sid| machine.leave(sid, Departure::Lost, now()).unwrap(),
            |machine, _| machine.close(now()),
        ];
        for depart in departures {
            let (mut machine, _, key) = machine();
            let sid = connect(&mut machine, &key);
            machine.take_reports();
            depart(&mut machine, &sid);
            let last = machine.take_reports().pop().unwrap();
            assert!(
                matches!(last.event, MediaEvent::Ingress(state) if state.status == IngressStatus::Inactive)
            );
            connect(&mut machine, &key);
        }
    }

    #[test]
    fn a_refused_encoder_may_connect_again_and_its_endpoint_was_not_reported() {
        let (mut machine, _, key) = machine();
        let Ok(EncoderConnection::Joining(sid)) = machine.begin_connect(&key, now()) else {
            panic!("it joins")
        };
        machine.abort_join(&sid, now());
        assert_eq!(event_names(&mut machine), ["joined"]);
        connect(&mut machine, &key);
    }

    #[test]
    fn deleting_an_endpoint_disconnects_its_encoder_and_invalidates_its_key() {
        let (mut machine, id, key) = machine();
        connect(&mut machine, &key);
        machine.take_reports();
        machine.delete_ingress(&id, now());
        assert_eq!(event_names(&mut machine), LEFT);
        assert_eq!(
            machine.begin_connect(&key, now()),
            Err(MachineError::NoSuchIngress)
        );
        assert_eq!(
            machine.disconnect_encoder(&key, now()),
            Err(MachineError::NoSuchIngress)
        );
        machine.delete_ingress(&id, now());
    }

    #[test]
    fn an_endpoint_deleted_while_its_encoder_joins_accepts_no_encoder() {
        let (mut machine, id, key) = machine();
        let Ok(EncoderConnection::Joining(sid)) = machine.begin_connect(&key, now()) else {
            panic!("it joins")
        };
        machine.delete_ingress(&id, now());
        assert!(machine.complete_connect(&sid, now()).is_err());
        assert!(machine.participants().is_empty());
    }

    #[test]
    fn an_endpoint_is_restored_from_its_record() {
        let known = KnownIngress {
            ingress_id: "IN_1".parse().unwrap(),
            room: room(),
            identity: "encoder".parse().unwrap(),
            name: None,
            input_type: InputType::Whip,
            key_hash: StreamKeyHash::from_key("key"),
        };
        let mut machine = Machine::default();
        assert_eq!(machine.ingress(&known).status, IngressStatus::Inactive);
        connect(&mut machine, &known.key_hash);
        assert_eq!(machine.ingress(&known).status, IngressStatus::Publishing);
    }
}
