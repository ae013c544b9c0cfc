//! Ingress endpoints, and simulated encoders that publish to them.

use conclave_model::IngressId;
use conclave_model::ingress::IngressStatus;

use super::*;
use crate::embedded::room_state::membership::EncoderConnection;
use crate::port::KnownIngress;

fn now() -> Timestamp {
    Timestamp::from_millis(0)
}

/// Returns a room state with one endpoint, and the hash of its key.
fn room_state() -> (RoomState, IngressId, StreamKeyHash) {
    let mut room_state = RoomState::default();
    let (id, key) = room_state.create_ingress(IngressRequest {
        room: room(),
        max_participants: None,
        input_type: InputType::Rtmp,
        identity: "encoder".parse().unwrap(),
        name: Some("Encoder".into()),
        enable_transcoding: None,
        public_url: None,
    });
    assert!(key.reveal().len() >= 24 && key.reveal().bytes().all(|b| b.is_ascii_alphanumeric()));
    (room_state, id, StreamKeyHash::from_key(key.reveal()))
}

fn connect(room_state: &mut RoomState, key: &StreamKeyHash) -> ParticipantSid {
    let Ok(EncoderConnection::Joining(sid)) = room_state.start_encoder_join(key, now()) else {
        panic!("it joins")
    };
    room_state.complete_connect(&sid, now()).unwrap();
    sid
}

fn event_names(room_state: &mut RoomState) -> Vec<&'static str> {
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
    room_state.take_reports().into_iter().map(name).collect()
}

const LEFT: [&str; 4] = ["unpublished", "unpublished", "left", "inactive"];

#[test]
fn an_encoder_is_a_participant_that_publishes_video_and_audio() {
    let (mut room_state, id, key) = room_state();
    let sid = connect(&mut room_state, &key);
    assert_eq!(
        event_names(&mut room_state),
        ["joined", "published", "published", "publishing"]
    );
    let encoder = room_state.participant(&"encoder".parse().unwrap()).unwrap();
    assert_eq!(
        (&encoder.sid, encoder.kind, encoder.name.as_str()),
        (&sid, ParticipantKind::Ingress, "Encoder")
    );
    assert!(
        !room_state
            .active_or_left(&sid)
            .unwrap()
            .claims
            .grants
            .can_subscribe,
        "an encoder receives nothing"
    );
    assert_eq!(room_state.encoder_of(&key), Some(sid));
    let again = room_state.start_encoder_join(&key, now());
    assert!(
        matches!(again, Ok(EncoderConnection::AlreadyConnected(state)) if state.status == IngressStatus::Publishing)
    );
    assert_eq!(
        room_state.disconnect_encoder(&key, now()).unwrap().status,
        IngressStatus::Inactive
    );
    assert_eq!(event_names(&mut room_state), LEFT);
    assert_eq!(room_state.encoder_of(&key), None);
    room_state.disconnect_encoder(&key, now()).unwrap();
    assert_eq!(event_names(&mut room_state), [""; 0]);
    assert_eq!(room_state.ingresses().next().unwrap().1.ingress_id, id);
}

#[test]
fn an_endpoint_is_reported_inactive_after_its_encoder_has_left() {
    let departures: [fn(&mut RoomState, &ParticipantSid); 3] = [
        |room_state, sid| assert!(room_state.remove_participant(sid, now())),
        |room_state, sid| room_state.leave(sid, Departure::Lost, now()).unwrap(),
        |room_state, _| room_state.close(now()),
    ];
    for depart in departures {
        let (mut room_state, _, key) = room_state();
        let sid = connect(&mut room_state, &key);
        room_state.take_reports();
        depart(&mut room_state, &sid);
        let last = room_state.take_reports().pop().unwrap();
        assert!(
            matches!(last.event, MediaEvent::Ingress(state) if state.status == IngressStatus::Inactive)
        );
        connect(&mut room_state, &key);
    }
}

#[test]
fn a_refused_encoder_may_connect_again_and_its_endpoint_was_not_reported() {
    let (mut room_state, _, key) = room_state();
    let Ok(EncoderConnection::Joining(sid)) = room_state.start_encoder_join(&key, now()) else {
        panic!("it joins")
    };
    room_state.abort_join(&sid, now());
    assert_eq!(event_names(&mut room_state), ["joined"]);
    connect(&mut room_state, &key);
}

#[test]
fn deleting_an_endpoint_disconnects_its_encoder_and_invalidates_its_key() {
    let (mut room_state, id, key) = room_state();
    connect(&mut room_state, &key);
    room_state.take_reports();
    room_state.delete_ingress(&id, now());
    assert_eq!(event_names(&mut room_state), LEFT);
    assert_eq!(
        room_state.start_encoder_join(&key, now()),
        Err(RoomStateError::NoSuchIngress)
    );
    assert_eq!(
        room_state.disconnect_encoder(&key, now()),
        Err(RoomStateError::NoSuchIngress)
    );
    room_state.delete_ingress(&id, now());
}

#[test]
fn an_endpoint_deleted_while_its_encoder_joins_accepts_no_encoder() {
    let (mut room_state, id, key) = room_state();
    let Ok(EncoderConnection::Joining(sid)) = room_state.start_encoder_join(&key, now()) else {
        panic!("it joins")
    };
    room_state.delete_ingress(&id, now());
    assert!(room_state.complete_connect(&sid, now()).is_err());
    assert!(room_state.participants().is_empty());
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
    let mut room_state = RoomState::default();
    assert_eq!(room_state.ingress(&known).status, IngressStatus::Inactive);
    connect(&mut room_state, &known.key_hash);
    assert_eq!(room_state.ingress(&known).status, IngressStatus::Publishing);
}
