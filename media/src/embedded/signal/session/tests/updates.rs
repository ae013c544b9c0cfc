//! Participant updates in large rooms.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Creates a room with so many clients that some updates are delayed, after a quiet time. Returns the first client.
fn large_room() -> (World, ParticipantSid) {
    let mut world = World::new();
    let watcher = world.joined("watcher", None);
    for at in 0..50 {
        world.joined(&format!("p{at}"), None);
    }
    for _ in 0..2 {
        world.pass(SECOND);
    }
    world.take_all();
    (world, watcher)
}

impl World {
    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.tick_machine();
    }

    /// Number of participants in each update to a client, since the last call.
    fn told(&mut self, sid: &ParticipantSid) -> Vec<usize> {
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
fn those_that_come_and_go_within_a_second_are_told_together_but_for_the_first() {
    let (mut world, watcher) = large_room();
    let came: Vec<_> = (0..5)
        .map(|at| world.joined(&format!("late{at}"), None))
        .collect();
    assert_eq!(world.told(&watcher), [1]);
    world.pass(SECOND);
    assert_eq!(world.told(&watcher), [4]);
    let own = world.take(&came[4]);
    assert!(own.iter().all(|message| match message {
        Response::Update(update) =>
            update.participants.len() == 3 || update.participants[0].identity == "late4",
        _ => true,
    }));
    for sid in &came[..3] {
        world
            .machine
            .leave(sid, Departure::Left, world.now)
            .unwrap();
        world.deliver();
    }
    assert!(world.told(&watcher).is_empty());
    world.pass(SECOND);
    let gone = proto::participant_info::State::Disconnected.into();
    let messages = world.take(&watcher);
    let expected: Vec<_> = (0..3).map(|at| (format!("late{at}"), gone, 0)).collect();
    assert_eq!(updates(&messages), expected);
    assert_eq!(messages.len(), 1);
}

#[test]
fn those_that_publish_are_told_at_once() {
    let (mut world, watcher) = large_room();
    let alice = world.joined("alice", None);
    let bob = world.joined("bob", None);
    world.take_all();
    let track = world.publish(&bob);
    assert_eq!(updates(&world.take(&watcher)), [("bob".to_owned(), 2, 1)]);
    assert!(world.is_subscribed(&watcher, &track));
    world
        .machine
        .leave(&bob, Departure::Left, world.now)
        .unwrap();
    world.deliver();
    assert_eq!(updates(&world.take(&watcher)), [("bob".to_owned(), 3, 0)]);
    world.set_role(
        "alice",
        "ghost",
        Grants {
            hidden: true,
            ..Grants::default()
        },
    );
    let gone = proto::participant_info::State::Disconnected.into();
    assert_eq!(
        updates(&world.take(&watcher)),
        [("alice".to_owned(), gone, 0)]
    );
    assert!(world.machine.present(&alice).is_ok());
}

#[test]
fn a_client_that_resumes_in_between_learns_of_all_and_of_nothing_older_later() {
    let (mut world, watcher) = large_room();
    let first = world.joined("first", None);
    let second = world.joined("second", None);
    world.call(&watcher, Session::detach);
    world
        .machine
        .leave(&first, Departure::Left, world.now)
        .unwrap();
    world.deliver();
    world.call(&watcher, |session, context| {
        session.resume(context, parameters(ConnectionMode::Single));
    });
    world.media(
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
    let snapshot = world.take(&watcher);
    assert!(
        !updates(&snapshot)
            .iter()
            .any(|(identity, ..)| identity == "first")
    );
    world.pass(SECOND);
    let later = world.take(&watcher);
    assert!(version(&later) >= version(&snapshot) && version(&snapshot).is_some());
    let gone = proto::participant_info::State::Disconnected.into();
    assert!(
        updates(&later).contains(&("first".to_owned(), gone, 0)),
        "it has seen it come"
    );
}
