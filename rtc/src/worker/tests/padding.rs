//! Padding, which looks for bandwidth.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use str0m::format::Codec;

use super::MODES;
use super::support::Abilities;
use super::world::World;
use crate::command::{Command, ConnectionMode};

/// A room with a receiver that reports what arrives, and the number of packets that the server has sent.
fn world(mode: ConnectionMode) -> (World, usize, Rc<Cell<usize>>) {
    let mut world = World::new();
    world.abilities = Abilities { estimates: true, ..Abilities::default() };
    let sent = Rc::new(Cell::new(0));
    let counter = sent.clone();
    world.loses = Box::new(move |is_to_server, _, _| {
        counter.set(counter.get() + usize::from(!is_to_server));
        false
    });
    let bob = world.join_connected("PA_bob", mode);
    (world, bob, sent)
}

/// Returns how many packets the server sends in five seconds.
fn count(world: &mut World, sent: &Cell<usize>) -> usize {
    world.run(Duration::from_secs(1));
    sent.set(0);
    world.run(Duration::from_secs(5));
    sent.get()
}

#[test]
fn a_receiver_for_whom_nothing_is_published_gets_no_padding() {
    for mode in MODES {
        let (mut world, _, sent) = world(mode);
        let packets = count(&mut world, &sent);
        assert!(packets < 50, "{mode:?}: {packets} in 5 s");
    }
}

#[test]
fn a_receiver_whose_only_publisher_was_removed_gets_no_padding_and_sees_the_next_one() {
    for mode in MODES {
        let (mut world, bob, sent) = world(mode);
        for (name, sid) in [("PA_alice", "TR_a"), ("PA_carol", "TR_b")] {
            let publisher = world.join_connected(name, mode);
            let mut camera = world.publish(publisher, sid, Codec::Vp8, &[]);
            world.subscribe(bob, &camera);
            for step in 0..50 {
                world.run(Duration::from_millis(40));
                world.send_vp8(&mut camera, None, step % 10 == 0);
            }
            assert!(world.received(bob, &camera).len() > 20, "{mode:?}: {sid}");
            world.command(Command::RemovePeer { peer: name.parse().unwrap() });
            world.leave(publisher);
            let packets = count(&mut world, &sent);
            assert!(packets < 50, "{mode:?}: {packets} in 5 s");
        }
    }
}
