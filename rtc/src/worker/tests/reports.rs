//! Speakers, connection qualities, bitrates, snapshots.

use std::sync::mpsc;
use std::time::Duration;

use str0m::format::Codec;

use super::MODES;
use super::world::World;
use crate::command::{Command, ConnectionMode, Reply};
use crate::event::{ConnectionQuality, RoomEvent};

#[test]
fn a_participant_that_speaks_and_falls_silent_is_reported_once_each() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Single);
    let mut voice = world.publish(alice, "TR_voice", Codec::Opus, &[]);
    for _ in 0..100 {
        world.send(&mut voice, None, &[1, 2, 3]);
        world.run(Duration::from_millis(20));
    }
    world.run(Duration::from_secs(3));
    let changes = world.room_events.iter().filter_map(|event| match event {
        RoomEvent::SpeakersChanged(speakers) => Some(speakers[0].is_active),
        _ => None,
    });
    let mut changes: Vec<_> = changes.collect();
    changes.dedup();
    assert_eq!(changes, [true, false]);
}

#[test]
fn the_bitrate_of_a_publisher_is_measured_from_its_packets() {
    let mut world = World::new();
    let alice = world.join_connected("PA_alice", ConnectionMode::Dual);
    let mut voice = world.publish(alice, "TR_voice", Codec::Opus, &[]);
    for _ in 0..250 {
        world.send(&mut voice, None, &[0; 125]);
        world.run(Duration::from_millis(20));
    }
    let rates = world.room_events.iter().filter_map(|event| match event {
        RoomEvent::PublishRates(rates) => Some(rates[0].kbps),
        _ => None,
    });
    let rates: Vec<_> = rates.collect();
    assert!((48..=52).contains(&rates[rates.len() - 2]), "50 packets of 1000 bits a second: {rates:?}");
}

#[test]
fn loss_lowers_the_quality_of_a_connection() {
    let mut world = World::new();
    world.abilities.estimates = true;
    let alice = world.join_connected("PA_alice", ConnectionMode::Single);
    let mut camera = world.publish(alice, "TR_camera", Codec::Vp8, &[]);
    let stream = |world: &mut World, camera: &mut _| {
        for _ in 0..300 {
            world.send_vp8(camera, None, true);
            world.run(Duration::from_millis(40));
        }
    };
    stream(&mut world, &mut camera);
    let mut count = 0;
    world.loses = Box::new(move |is_to_server, _, _| {
        count += u32::from(is_to_server);
        is_to_server && count % 3 == 0
    });
    stream(&mut world, &mut camera);
    let qualities = world.room_events.iter().filter_map(|event| match event {
        RoomEvent::ConnectionQuality(peers) => Some(peers[0].quality),
        _ => None,
    });
    let qualities: Vec<_> = qualities.collect();
    assert_eq!(qualities.first(), Some(&ConnectionQuality::Excellent));
    assert!(
        qualities.contains(&ConnectionQuality::Poor) || qualities.contains(&ConnectionQuality::Good),
        "{qualities:?}"
    );
    assert!(!qualities.contains(&ConnectionQuality::Lost));
}

#[test]
fn a_snapshot_shows_connections_and_tracks() {
    for mode in MODES {
        let mut world = World::new();
        let (alice, bob) = (world.join_connected("PA_alice", mode), world.join_connected("PA_bob", mode));
        let mut camera = world.publish(alice, "TR_camera", Codec::Vp8, &[]);
        world.subscribe(bob, &camera);
        for _ in 0..60 {
            world.send_vp8(&mut camera, None, true);
            world.run(Duration::from_millis(40));
        }
        let (sender, snapshots) = mpsc::channel();
        world.command(Command::Snapshot(Reply::new(move |snapshot| sender.send(snapshot).unwrap())));
        let snapshot = snapshots.recv().unwrap();
        let [alice, bob] = snapshot.peers.as_slice() else { panic!("two participants: {snapshot:?}") };
        assert_eq!(alice.published[0].layers[0].packets, 60, "{mode:?}");
        assert_eq!((alice.published[0].subscribers, bob.subscribed[0].packets), (1, 60), "{mode:?}");
        let transport = bob.transports.last().unwrap();
        assert!(transport.is_connected && transport.candidate_pair.is_some_and(|pair| !pair.is_tcp), "{transport:?}");
    }
}
