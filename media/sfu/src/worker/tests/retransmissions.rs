//! Retransmission of packets that a publisher's network loses.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use str0m::format::Codec;

use super::fixture::Fixture;
use super::support::{Abilities, NamedBy};
use super::{MODES, modes_with};
use crate::track::{LayerInfo, Quality};

#[test]
fn a_lost_packet_of_a_layer_comes_again_whether_retransmissions_name_the_layer_or_only_the_offer_says_it()
 {
    for (mode, retransmissions) in modes_with([NamedBy::Packet, NamedBy::Offer]) {
        let mut fixture = Fixture::new();
        fixture.abilities = Abilities {
            retransmissions,
            ..Abilities::default()
        };
        let (alice, bob) = (
            fixture.join_connected("PA_alice", mode),
            fixture.join_connected("PA_bob", mode),
        );
        fixture.layers = [(Quality::Low, 320, 180), (Quality::Medium, 640, 360)]
            .map(|(quality, width, height)| LayerInfo {
                quality,
                width,
                height,
                bitrate: 200_000,
            })
            .to_vec();
        let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &["q", "h"]);
        fixture.subscribe(bob, &camera);
        let lost = Rc::new(Cell::new(0));
        for frame in 0..60 {
            if frame == 20 {
                let counted = Rc::clone(&lost);
                fixture.loses = Box::new(move |is_to_server, bytes, _| {
                    let is_lost = is_to_server && bytes > 300 && counted.get() == 0;
                    counted.set(counted.get() + u32::from(is_lost));
                    is_lost
                });
            }
            let is_key = !std::mem::take(&mut fixture.clients[alice].publisher.key_frame_requests)
                .is_empty();
            fixture.send_layer(&mut camera, 0, is_key);
            fixture.run(Duration::from_millis(40));
        }
        assert_eq!(lost.get(), 1);
        let mut sequences: Vec<_> = fixture
            .received(bob, &camera)
            .iter()
            .map(|packet| packet.sequence)
            .collect();
        sequences.sort_unstable();
        let (first, last) = (sequences[0], sequences[sequences.len() - 1]);
        let all: Vec<_> = (first..=last).collect();
        assert_eq!(sequences, all, "{mode:?}, {retransmissions:?}");
        assert!(sequences.len() > 50, "{mode:?}: {}", sequences.len());
    }
}

#[test]
fn lost_packets_of_a_client_without_retransmissions_of_its_own_are_requested() {
    for mode in MODES {
        let mut fixture = Fixture::new();
        fixture.abilities = Abilities {
            retransmissions: NamedBy::Nothing,
            ..Abilities::default()
        };
        let alice = fixture.join_connected("PA_alice", mode);
        let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
        let mut is_lost = false;
        let mut stream = |fixture: &mut Fixture| {
            for frame in 0..50 {
                let mut payload = camera.next_vp8_header(frame == 0).to_vec();
                payload.resize(400, 0);
                fixture.send(&mut camera, None, &payload);
                fixture.run(Duration::from_millis(40));
            }
        };
        stream(&mut fixture);
        assert_eq!(
            fixture.clients[alice].publisher.requested_packets, 0,
            "{mode:?}"
        );
        fixture.loses = Box::new(move |is_to_server, bytes, _| {
            is_to_server && bytes > 300 && !std::mem::replace(&mut is_lost, true)
        });
        stream(&mut fixture);
        assert!(
            fixture.clients[alice].publisher.requested_packets > 0,
            "{mode:?}"
        );
    }
}
