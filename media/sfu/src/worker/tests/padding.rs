//! Padding, by which bandwidth is probed.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use str0m::format::Codec;

use super::MODES;
use super::fixture::{Fixture, Publication};
use super::layers::{RIDS, layers_of, three_layers};
use super::support::Abilities;
use crate::command::{ConnectionMode, PeerCommand, TrackSettings};

/// Upper limit for padding-only packets, which have at most 284 bytes.
const LARGEST_EMPTY_PACKET: usize = 290;

/// Room with a receiver that sends feedback, and the number of packets sent by the server.
fn fixture(mode: ConnectionMode) -> (Fixture, usize, Rc<Cell<usize>>) {
    let mut fixture = Fixture::new();
    fixture.abilities = Abilities {
        estimates: true,
        ..Abilities::default()
    };
    let sent = count_sent(&mut fixture, 0);
    let bob = fixture.join_connected("PA_bob", mode);
    (fixture, bob, sent)
}

/// Counts the server's packets above this size from now on.
fn count_sent(fixture: &mut Fixture, bytes: usize) -> Rc<Cell<usize>> {
    let sent = Rc::new(Cell::new(0));
    let counter = sent.clone();
    fixture.loses = Box::new(move |is_to_server, size, _| {
        counter.set(counter.get() + usize::from(!is_to_server && size > bytes));
        false
    });
    sent
}

/// Returns the number of packets that the server sends in five seconds.
fn count(fixture: &mut Fixture, sent: &Cell<usize>) -> usize {
    fixture.run(Duration::from_secs(1));
    sent.set(0);
    fixture.run(Duration::from_secs(5));
    sent.get()
}

#[test]
fn a_receiver_for_whom_nothing_is_published_gets_no_padding() {
    for mode in MODES {
        let (mut fixture, _, sent) = fixture(mode);
        let packets = count(&mut fixture, &sent);
        assert!(packets < 50, "{mode:?}: {packets} in 5 s");
    }
}

#[test]
fn a_receiver_whose_only_publisher_was_removed_gets_no_padding_and_sees_the_next_one() {
    for mode in MODES {
        let (mut fixture, bob, sent) = fixture(mode);
        for (name, sid) in [("PA_alice", "TR_a"), ("PA_carol", "TR_b")] {
            let publisher = fixture.join_connected(name, mode);
            let mut camera = fixture.publish(publisher, sid, Codec::Vp8, &[]);
            fixture.subscribe(bob, &camera);
            for step in 0..50 {
                fixture.run(Duration::from_millis(40));
                fixture.send_vp8(&mut camera, None, step % 10 == 0);
            }
            assert!(fixture.received(bob, &camera).len() > 20, "{mode:?}: {sid}");
            fixture.command(PeerCommand::Remove.for_peer(name.parse().unwrap()));
            fixture.leave(publisher);
            let packets = count(&mut fixture, &sent);
            assert!(packets < 50, "{mode:?}: {packets} in 5 s");
        }
    }
}

/// Pion silently gives up a track if the first packet that it reads is a retransmission.
#[test]
fn a_new_video_is_not_padded_with_repeated_packets_until_its_receiver_has_begun_to_read_it() {
    for mode in MODES {
        let (mut fixture, bob, _) = fixture(mode);
        fixture.layers = three_layers();
        let alice = fixture.join_connected("PA_alice", mode);
        let camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &RIDS);
        let mut layers = layers_of(&camera);
        fixture.subscribe(bob, &camera);
        let with_video = count_sent(&mut fixture, LARGEST_EMPTY_PACKET);
        let mut stream = |fixture: &mut Fixture, steps: usize| {
            for step in 0..steps {
                for (layer, camera) in layers.iter_mut().enumerate() {
                    fixture.send_layer(camera, layer, step % 10 == 0);
                }
                fixture.run(Duration::from_millis(20));
            }
            (with_video.get(), fixture.received(bob, &camera).len())
        };
        let (sent, received) = stream(&mut fixture, 20);
        assert!(received >= 20, "{mode:?}: {received}");
        assert_eq!(sent, received, "{mode:?}");
        let (sent, received) = stream(&mut fixture, 100);
        assert!(sent > received, "{mode:?}: more is tried later");
    }
}

fn set_muted(fixture: &mut Fixture, muted: bool) {
    let (peer, track) = ("PA_alice".parse().unwrap(), "TR_camera".parse().unwrap());
    fixture.command(PeerCommand::SetMuted { track, muted }.for_peer(peer));
}

/// Sends this many audio packets, one per step in time.
fn speak(fixture: &mut Fixture, voice: &mut Publication, packets: usize) {
    for _ in 0..packets {
        fixture.send(voice, None, &[0; 80]);
        fixture.run(Duration::from_millis(20));
    }
}

/// Sends video for this long, one frame per step in time.
fn film(fixture: &mut Fixture, camera: &mut Publication, seconds: usize) {
    for step in 0..seconds * 25 {
        fixture.run(Duration::from_millis(40));
        fixture.send_vp8(camera, None, step % 10 == 0);
    }
}

#[test]
fn a_receiver_of_a_muted_video_gets_no_padding_with_and_without_sound_and_sees_it_again() {
    for mode in MODES {
        let (mut fixture, bob, sent) = fixture(mode);
        let alice = fixture.join_connected("PA_alice", mode);
        let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
        let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
        fixture.subscribe(bob, &voice);
        speak(&mut fixture, &mut voice, 50);
        sent.set(0);
        speak(&mut fixture, &mut voice, 250);
        let of_sound = sent.get();
        fixture.subscribe(bob, &camera);
        film(&mut fixture, &mut camera, 5);
        let estimate = fixture.snapshot(&["PA_bob"])[0]
            .transports
            .last()
            .unwrap()
            .estimate_kbps;
        let seen = fixture.received(bob, &camera).len();
        set_muted(&mut fixture, true);
        let packets = count(&mut fixture, &sent);
        assert!(packets < 50, "{mode:?}: {packets} in 5 s without sound");
        speak(&mut fixture, &mut voice, 50);
        sent.set(0);
        speak(&mut fixture, &mut voice, 250);
        assert!(
            sent.get() < of_sound + 50,
            "{mode:?}: {} in 5 s, {of_sound} without the video",
            sent.get()
        );
        set_muted(&mut fixture, false);
        film(&mut fixture, &mut camera, 2);
        // The key frame with which the video resumes may be lost.
        assert!(
            fixture.received(bob, &camera).len() >= seen + 40,
            "{mode:?}"
        );
        let after = fixture.snapshot(&["PA_bob"])[0]
            .transports
            .last()
            .unwrap()
            .estimate_kbps;
        assert!(
            estimate.is_some() && after >= estimate,
            "{mode:?}: {estimate:?} kbit/s before, {after:?} after"
        );
        fixture.run(Duration::from_secs(5));
        sent.set(0);
        film(&mut fixture, &mut camera, 5);
        assert!(
            sent.get() > 250,
            "{mode:?}: the floor of an active video, {} in 5 s",
            sent.get()
        );
    }
}

#[test]
fn a_receiver_of_a_video_that_is_muted_from_the_start_or_that_it_has_disabled_gets_no_padding() {
    for mode in MODES {
        let (mut fixture, bob, sent) = fixture(mode);
        let alice = fixture.join_connected("PA_alice", mode);
        let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
        set_muted(&mut fixture, true);
        fixture.subscribe(bob, &camera);
        let packets = count(&mut fixture, &sent);
        assert!(packets < 50, "{mode:?}: {packets} in 5 s of a muted video");
        set_muted(&mut fixture, false);
        film(&mut fixture, &mut camera, 2);
        assert!(fixture.received(bob, &camera).len() > 45, "{mode:?}");
        let settings = TrackSettings {
            is_disabled: true,
            ..TrackSettings::default()
        };
        let (peer, track) = ("PA_bob".parse().unwrap(), "TR_camera".parse().unwrap());
        fixture.command(PeerCommand::SetTrackSettings { track, settings }.for_peer(peer));
        let packets = count(&mut fixture, &sent);
        assert!(
            packets < 50,
            "{mode:?}: {packets} in 5 s of a disabled video"
        );
    }
}
