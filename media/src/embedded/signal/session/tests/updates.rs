//! Participant updates in large rooms.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Creates a room with so many clients that some updates are delayed, after a quiet time. Returns the first client.
fn large_room() -> (Fixture, ParticipantSid) {
    let mut fixture = Fixture::new();
    let watcher = fixture.joined("watcher", None);
    for at in 0..50 {
        fixture.joined(&format!("p{at}"), None);
    }
    for _ in 0..2 {
        fixture.pass(SECOND);
    }
    fixture.take_all();
    (fixture, watcher)
}

impl Fixture {
    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.tick_room_state();
    }

    /// Number of participants in each update to a client, since the last call.
    fn update_sizes(&mut self, sid: &ParticipantSid) -> Vec<usize> {
        let messages = self
            .take(sid)
            .into_iter()
            .filter_map(|message| match message {
                Response::Update(update) => Some(update.participants.len()),
                _ => None,
            });
        messages.collect()
    }
}

#[test]
fn participants_that_come_and_go_within_a_second_are_in_one_update_after_the_first() {
    let (mut fixture, watcher) = large_room();
    let came: Vec<_> = (0..5)
        .map(|at| fixture.joined(&format!("late{at}"), None))
        .collect();
    assert_eq!(fixture.update_sizes(&watcher), [1]);
    fixture.pass(SECOND);
    assert_eq!(fixture.update_sizes(&watcher), [4]);
    let own = fixture.take(&came[4]);
    assert!(own.iter().all(|message| match message {
        Response::Update(update) =>
            update.participants.len() == 3 || update.participants[0].identity == "late4",
        _ => true,
    }));
    for sid in &came[..3] {
        fixture
            .room_state
            .leave(sid, Departure::Left, fixture.now)
            .unwrap();
        fixture.deliver();
    }
    assert!(fixture.update_sizes(&watcher).is_empty());
    fixture.pass(SECOND);
    let gone = proto::participant_info::State::Disconnected.into();
    let messages = fixture.take(&watcher);
    let expected: Vec<_> = (0..3).map(|at| (format!("late{at}"), gone, 0)).collect();
    assert_eq!(updates(&messages), expected);
    assert_eq!(messages.len(), 1);
}

#[test]
fn publishers_are_in_an_update_at_once() {
    let (mut fixture, watcher) = large_room();
    let alice = fixture.joined("alice", None);
    let bob = fixture.joined("bob", None);
    fixture.take_all();
    let track = fixture.publish(&bob);
    assert_eq!(updates(&fixture.take(&watcher)), [("bob".to_owned(), 2, 1)]);
    assert!(fixture.is_subscribed(&watcher, &track));
    fixture
        .room_state
        .leave(&bob, Departure::Left, fixture.now)
        .unwrap();
    fixture.deliver();
    assert_eq!(updates(&fixture.take(&watcher)), [("bob".to_owned(), 3, 0)]);
    fixture.set_role(
        "alice",
        "ghost",
        Grants {
            hidden: true,
            ..Grants::default()
        },
    );
    let gone = proto::participant_info::State::Disconnected.into();
    assert_eq!(
        updates(&fixture.take(&watcher)),
        [("alice".to_owned(), gone, 0)]
    );
    assert!(fixture.room_state.present(&alice).is_ok());
}

#[test]
fn a_client_that_resumes_in_between_learns_of_all_and_of_nothing_older_later() {
    let (mut fixture, watcher) = large_room();
    let first = fixture.joined("first", None);
    let second = fixture.joined("second", None);
    fixture.call(&watcher, Session::detach);
    fixture
        .room_state
        .leave(&first, Departure::Left, fixture.now)
        .unwrap();
    fixture.deliver();
    fixture.call(&watcher, |session, context| {
        session.resume(context, parameters(ConnectionMode::Single));
    });
    fixture.media(
        &watcher,
        PeerEvent::Resumed {
            last_message_seq: 0,
        },
    );
    let version = |messages: &[Response]| {
        let told = messages.iter().rev().find_map(|message| match message {
            Response::Update(update) => update
                .participants
                .iter()
                .find(|info| info.sid == second.as_str()),
            _ => None,
        });
        told.map(|info| info.version)
    };
    let snapshot = fixture.take(&watcher);
    assert!(
        !updates(&snapshot)
            .iter()
            .any(|(identity, ..)| identity == "first")
    );
    fixture.pass(SECOND);
    let later = fixture.take(&watcher);
    assert!(version(&later) >= version(&snapshot) && version(&snapshot).is_some());
    let gone = proto::participant_info::State::Disconnected.into();
    assert!(
        updates(&later).contains(&("first".to_owned(), gone, 0)),
        "the watcher has seen the participant join"
    );
}
