//! Ingress endpoints, and simulated encoders that publish to them.

use conclave_model::IngressId;
use conclave_model::ingress::IngressStatus;

use super::*;
use crate::embedded::machine::membership::EncoderConnection;
use crate::port::KnownIngress;

fn now() -> Timestamp {
    Timestamp::from_millis(0)
}

/// Returns a room state with one endpoint, and the hash of its key.
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
    assert!(key.reveal().len() >= 24 && key.reveal().bytes().all(|b| b.is_ascii_alphanumeric()));
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
