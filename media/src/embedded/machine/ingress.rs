//! Ingress endpoints and the encoders that come in by them. An encoder is an ordinary participant: the control plane may
//! refuse its join, and whoever may remove people may remove it.

use std::collections::BTreeMap;

use conclave_model::ingress::{IngressState, StreamKeyHash};
use conclave_model::participant::{ParticipantKind, TrackKind, TrackSource};
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{IngressId, NamespacedRoom, ParticipantSid, ProjectId, Secret, Timestamp};

use super::{Machine, fresh};
use crate::embedded::endpoint::Endpoint;
use crate::embedded::publish::{MachineError, NewTrack};
use crate::port::{IngressRequest, KnownIngress, MediaEvent};
use crate::token::{Claims, Grants};

/// Characters of a stream key: 190 bits.
const KEY_LENGTH: usize = 32;

/// What comes of an encoder that connects.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Connecting {
    /// Its endpoint has an encoder already.
    Connected(IngressState),
    /// It joins, and is let in or not.
    Joining(ParticipantSid),
}

impl Machine {
    /// Makes an endpoint, and the key that opens it.
    pub fn create_ingress(&mut self, new: IngressRequest) -> (IngressId, Secret) {
        let ingress_id: IngressId = fresh("IN_", |id| self.endpoints.get(id).is_some());
        let key = Secret::new(random_text(KEY_LENGTH, BASE62));
        self.endpoints.open(&KnownIngress {
            ingress_id: ingress_id.clone(),
            room: new.room,
            identity: new.identity,
            name: new.name,
            input_type: new.input_type,
            key_hash: StreamKeyHash::from_key(key.reveal()),
        });
        (ingress_id, key)
    }

    /// How an endpoint stands. One that is not there any more, since the process was restarted, is taken up again.
    pub fn ingress(&mut self, known: &KnownIngress) -> IngressState {
        self.endpoints.open(known).state()
    }

    /// Takes an endpoint away, and whoever came in by it with it.
    pub fn delete_ingress(&mut self, id: &IngressId, now: Timestamp) {
        let Some(encoder) = self.endpoints.get(id).map(|endpoint| endpoint.encoder.clone()) else { return };
        if let Some(sid) = encoder {
            self.let_out(&sid, now);
        }
        self.endpoints.remove(id);
    }

    /// An encoder connects: the join of a participant begins, unless there is one already.
    pub fn begin_connect(&mut self, key: &StreamKeyHash, now: Timestamp) -> Result<Connecting, MachineError> {
        let endpoint = self.endpoints.of_key(key).ok_or(MachineError::NoSuchIngress)?;
        if endpoint.encoder.is_some() {
            return Ok(Connecting::Connected(endpoint.state()));
        }
        let known = endpoint.known.clone();
        let claims = Claims {
            room: known.room,
            identity: known.identity,
            name: known.name.unwrap_or_default(),
            metadata: String::new(),
            attributes: BTreeMap::new(),
            kind: ParticipantKind::Ingress,
            grants: Grants { can_subscribe: false, ..Grants::default() },
            room_config: None,
            expires_at: now,
        };
        let sid = self.begin_join(claims, now)?;
        self.endpoints.connecting(&known.ingress_id, sid.clone());
        Ok(Connecting::Joining(sid))
    }

    /// An encoder was let in: it publishes a picture and a sound.
    pub fn complete_connect(&mut self, sid: &ParticipantSid, now: Timestamp) -> Result<IngressState, MachineError> {
        self.complete_join(sid);
        for (kind, source) in [(TrackKind::Video, TrackSource::Camera), (TrackKind::Audio, TrackSource::Microphone)] {
            self.publish(sid, NewTrack { kind, source, name: None, muted: false }, now)?;
        }
        let endpoint = self.endpoints.publishing(sid).ok_or(MachineError::NoSuchIngress)?;
        let (room, state) = (endpoint.known.room.clone(), endpoint.state());
        self.report(&room, now, MediaEvent::Ingress(state.clone()));
        Ok(state)
    }

    /// An encoder goes away. One that is not there has gone.
    pub fn disconnect_encoder(&mut self, key: &StreamKeyHash, now: Timestamp) -> Result<IngressState, MachineError> {
        let endpoint = self.endpoints.of_key(key).ok_or(MachineError::NoSuchIngress)?;
        if let Some(sid) = endpoint.encoder.clone() {
            self.let_out(&sid, now);
        }
        self.endpoints.of_key(key).map(Endpoint::state).ok_or(MachineError::NoSuchIngress)
    }

    /// A project's endpoints, with their rooms.
    pub fn ingresses(&self, project: &ProjectId) -> Vec<(NamespacedRoom, IngressState)> {
        let own = self.endpoints.iter().filter(|endpoint| endpoint.known.room.split().0 == *project);
        own.map(|endpoint| (endpoint.known.room.clone(), endpoint.state())).collect()
    }

    /// Somebody goes with a goodbye, also one who was not let in yet.
    fn let_out(&mut self, sid: &ParticipantSid, now: Timestamp) {
        let Some(person) = self.people.get(sid) else { return };
        let (room, identity) = (person.room.clone(), person.identity().clone());
        self.retire(sid, true, None, now);
        self.vacate(&room, &identity);
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::ingress::{IngressStatus, InputType};

    use super::*;
    use crate::port::Report;

    fn room() -> NamespacedRoom {
        "prj_0123456789ab.standup".parse().unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(0)
    }

    /// A machine with an endpoint, and the hash of its key.
    fn machine() -> (Machine, IngressId, StreamKeyHash) {
        let mut machine = Machine::default();
        let (id, key) = machine.create_ingress(IngressRequest {
            room: room(),
            max_participants: None,
            input_type: InputType::Rtmp,
            identity: "encoder".parse().unwrap(),
            name: Some("Encoder".into()),
            enable_transcoding: None,
        });
        assert!(key.reveal().len() >= 24 && key.reveal().bytes().all(|b| b.is_ascii_alphanumeric()));
        (machine, id, StreamKeyHash::from_key(key.reveal()))
    }

    fn connect(machine: &mut Machine, key: &StreamKeyHash) -> ParticipantSid {
        let Ok(Connecting::Joining(sid)) = machine.begin_connect(key, now()) else { panic!("it joins") };
        machine.complete_connect(&sid, now()).unwrap();
        sid
    }

    fn told(machine: &mut Machine) -> Vec<&'static str> {
        let word = |Report { event, .. }| match event {
            MediaEvent::ParticipantJoined(_) => "joined",
            MediaEvent::TrackPublished { .. } => "published",
            MediaEvent::TrackUnpublished { .. } => "unpublished",
            MediaEvent::ParticipantLeft { clean: true, .. } => "left",
            MediaEvent::Ingress(state) => state.status.as_str(),
            other => panic!("{other:?}"),
        };
        machine.take_reports().into_iter().map(word).collect()
    }

    const GONE: [&str; 4] = ["unpublished", "unpublished", "left", "inactive"];

    #[test]
    fn an_encoder_is_a_participant_that_publishes_a_picture_and_a_sound() {
        let (mut machine, id, key) = machine();
        let sid = connect(&mut machine, &key);
        assert_eq!(told(&mut machine), ["joined", "published", "published", "publishing"]);
        let person = machine.participant(&room(), &"encoder".parse().unwrap()).unwrap();
        assert_eq!((person.sid, person.kind, person.name.as_str()), (sid, ParticipantKind::Ingress, "Encoder"));
        let again = machine.begin_connect(&key, now());
        assert!(matches!(again, Ok(Connecting::Connected(state)) if state.status == IngressStatus::Publishing));
        assert_eq!(machine.disconnect_encoder(&key, now()).unwrap().status, IngressStatus::Inactive);
        assert_eq!(told(&mut machine), GONE);
        machine.disconnect_encoder(&key, now()).unwrap();
        assert_eq!(told(&mut machine), [""; 0]);
        assert_eq!(machine.ingresses(&room().split().0)[0].1.ingress_id, id);
    }

    #[test]
    fn whichever_way_its_participant_goes_the_endpoint_is_inactive_last() {
        let ways: [fn(&mut Machine, &ParticipantSid); 3] = [
            |machine, sid| assert!(machine.remove(&room(), sid, now())),
            |machine, sid| machine.leave(sid, false, now()).unwrap(),
            |machine, _| machine.close_room(&room(), now()),
        ];
        for go in ways {
            let (mut machine, _, key) = machine();
            let sid = connect(&mut machine, &key);
            machine.take_reports();
            go(&mut machine, &sid);
            let last = machine.take_reports().pop().unwrap();
            assert!(matches!(last.event, MediaEvent::Ingress(state) if state.status == IngressStatus::Inactive));
            connect(&mut machine, &key);
        }
    }

    #[test]
    fn a_refused_encoder_may_try_again_and_nothing_was_told_of_its_endpoint() {
        let (mut machine, _, key) = machine();
        let Ok(Connecting::Joining(sid)) = machine.begin_connect(&key, now()) else { panic!("it joins") };
        machine.abort_join(&sid);
        assert_eq!(told(&mut machine), ["joined"]);
        connect(&mut machine, &key);
    }

    #[test]
    fn a_deleted_endpoint_takes_its_encoder_along_and_its_key_opens_nothing() {
        let (mut machine, id, key) = machine();
        connect(&mut machine, &key);
        machine.take_reports();
        machine.delete_ingress(&id, now());
        assert_eq!(told(&mut machine), GONE);
        assert_eq!(machine.begin_connect(&key, now()), Err(MachineError::NoSuchIngress));
        assert_eq!(machine.disconnect_encoder(&key, now()), Err(MachineError::NoSuchIngress));
        machine.delete_ingress(&id, now());
    }

    #[test]
    fn an_endpoint_that_went_away_while_its_encoder_was_joining_lets_nobody_in() {
        let (mut machine, id, key) = machine();
        let Ok(Connecting::Joining(sid)) = machine.begin_connect(&key, now()) else { panic!("it joins") };
        machine.delete_ingress(&id, now());
        assert!(machine.complete_connect(&sid, now()).is_err());
        assert!(machine.participants(&room()).is_empty());
    }

    #[test]
    fn what_the_records_know_opens_an_endpoint_again() {
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
