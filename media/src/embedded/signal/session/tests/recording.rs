//! The recording state that clients show.

use conclave_model::egress::EgressStatus;

use super::*;

/// Recording state in each message about the room.
fn recorded(messages: &[Response]) -> Vec<bool> {
    let rooms = messages.iter().filter_map(|message| match message {
        Response::Join(join) => join.room.as_ref(),
        Response::RoomUpdate(update) => update.room.as_ref(),
        _ => None,
    });
    rooms.map(|room| room.active_recording).collect()
}

impl Fixture {
    fn egress(&mut self) -> conclave_model::EgressId {
        self.room_state.set_reading(reading(self.now));
        let id = self.room_state.start_egress(self.now).egress_id;
        self.deliver();
        id
    }

    fn set_status(&mut self, id: &conclave_model::EgressId, status: EgressStatus) {
        self.room_state
            .set_egress_status(id, status, None, self.now);
        self.deliver();
    }
}

#[test]
fn clients_learn_that_a_recording_starts_and_that_it_ends() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    assert_eq!(recorded(&fixture.take(&alice)), [false]);
    let id = fixture.egress();
    assert_eq!(recorded(&fixture.take(&alice)), [true]);
    fixture.set_status(&id, EgressStatus::Active);
    assert!(recorded(&fixture.take(&alice)).is_empty());
    fixture.room_state.stop_egress(&id, fixture.now).unwrap();
    fixture.deliver();
    assert_eq!(recorded(&fixture.take(&alice)), [false]);
    fixture.set_status(&id, EgressStatus::Complete);
    assert!(recorded(&fixture.take(&alice)).is_empty());
}

#[test]
fn a_client_that_joins_or_resumes_learns_it_with_the_room() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    fixture.call(&alice, Session::detach);
    fixture.egress();
    let bob = fixture.joined("bob", None);
    assert_eq!(recorded(&fixture.take(&bob)), [true]);
    fixture.take_all();
    fixture.resume(&alice);
    assert_eq!(recorded(&fixture.take(&alice)), [true]);
}

#[test]
fn while_one_of_several_runs_the_room_is_recorded_and_each_change_is_sent() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    let (first, second) = (fixture.egress(), fixture.egress());
    assert_eq!(recorded(&fixture.take(&alice)), [true, true]);
    fixture.set_status(&first, EgressStatus::Failed);
    assert_eq!(recorded(&fixture.take(&alice)), [true]);
    fixture.set_status(&second, EgressStatus::LimitReached);
    assert_eq!(recorded(&fixture.take(&alice)), [false]);
}
