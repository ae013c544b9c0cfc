//! Packets of muted tracks.

use std::time::Duration;

use str0m::format::Codec;

use super::fixture::{Fixture, Publication};
use super::{MODES, alice_and_bob};
use crate::command::{ConnectionMode, PeerCommand};

fn set_muted(fixture: &mut Fixture, track: &Publication, muted: bool) {
    let track = track.sid.parse().unwrap();
    fixture.command(PeerCommand::SetMuted { track, muted }.for_peer("PA_alice".parse().unwrap()));
}

#[test]
fn who_subscribes_to_a_muted_track_gets_a_few_empty_packets_before_the_others() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut tracks = [
            fixture.publish(alice, "TR_voice", Codec::Opus, &[]),
            fixture.publish(alice, "TR_face", Codec::Vp8, &[]),
        ];
        for track in &tracks {
            set_muted(&mut fixture, track, true);
            fixture.subscribe(bob, track);
        }
        fixture.run(Duration::from_secs(20));
        for track in &mut tracks {
            let empty = fixture.received(bob, track);
            assert_eq!(empty.len(), 5, "{mode:?}");
            assert!(
                empty.iter().all(|packet| packet.payload.is_empty()),
                "{mode:?}"
            );
            set_muted(&mut fixture, track, false);
            let payload = if track.codec == Codec::Opus {
                vec![1; 8]
            } else {
                track.next_vp8_header(true).to_vec()
            };
            fixture.send(track, None, &payload);
            let all = fixture.received(bob, track);
            assert_eq!(all.len(), 6, "{mode:?}");
            assert!(
                all.windows(2)
                    .all(|pair| pair[1].sequence == pair[0].sequence + 1),
                "{mode:?}"
            );
            let mut steps = all
                .windows(2)
                .map(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp));
            assert!(
                steps.all(|step| (40_000..2_000_000).contains(&step)),
                "{mode:?}"
            );
        }
    }
}

#[test]
fn a_receiver_of_a_track_that_is_muted_later_gets_nothing_more() {
    let (mut fixture, alice, bob) = alice_and_bob(ConnectionMode::Single);
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    fixture.subscribe(bob, &voice);
    fixture.send(&mut voice, None, &[1, 2, 3]);
    set_muted(&mut fixture, &voice, true);
    fixture.run(Duration::from_secs(10));
    assert_eq!(fixture.received(bob, &voice).len(), 1);
}
