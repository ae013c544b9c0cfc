//! Session descriptions: the input is an offer or an answer of a participant, in a room where two others talk.
//!
//! Nothing panics, and the others hear each other.

#![no_main]

use std::cell::RefCell;
use std::time::Duration;

use conclave_fuzz::rtc::Call;
use conclave_fuzz::rtc::commands::{new_peer, new_track};
use conclave_fuzz::rtc::support::{Abilities, Connection, NewSection};
use conclave_fuzz::seeds;
use conclave_sfu::{Command, ConnectionMode, PeerCommand};
use libfuzzer_sys::fuzz_target;
use str0m::media::MediaKind;
use str0m::net::Protocol;

thread_local! {
    static CALL: RefCell<Call> = RefCell::new(Call::new());
}

fuzz_target!(init: write_seeds(), |data: &[u8]| CALL.with_borrow_mut(|call| run(call, data)));

fn run(call: &mut Call, data: &[u8]) {
    let sdp = String::from_utf8_lossy(data).into_owned();
    let peer = || "PA_mallory".parse().unwrap();
    for mode in [ConnectionMode::Single, ConnectionMode::Dual] {
        let fixture = &mut call.fixture;
        fixture.command(Command::AddPeer(new_peer("PA_mallory", mode)));
        for (sid, cid, kind) in [
            ("TR_m1", "voice", MediaKind::Audio),
            ("TR_m2", "camera", MediaKind::Video),
        ] {
            fixture.command(PeerCommand::PublishTrack(new_track(sid, cid, kind)).for_peer(peer()));
        }
        fixture.command(PeerCommand::Subscribe("TR_voice".parse().unwrap()).for_peer(peer()));
        fixture.command(
            PeerCommand::Offer {
                offer_id: 1,
                sdp: sdp.clone(),
            }
            .for_peer(peer()),
        );
        fixture.command(
            PeerCommand::Answer {
                offer_id: 1,
                sdp: sdp.clone(),
            }
            .for_peer(peer()),
        );
        fixture.command(
            PeerCommand::Subscribe("TR_m2".parse().unwrap()).for_peer("PA_bob".parse().unwrap()),
        );
        // Again, as a renegotiation.
        fixture.command(
            PeerCommand::Offer {
                offer_id: 2,
                sdp: sdp.clone(),
            }
            .for_peer(peer()),
        );
        fixture.run(Duration::from_millis(20));
        fixture.command(PeerCommand::Remove.for_peer(peer()));
    }
    call.assert_audible();
}

fn write_seeds() {
    let now = std::time::Instant::now();
    let client = || {
        Connection::new(
            "198.51.100.9:5000".parse().unwrap(),
            Protocol::Udp,
            Abilities::default(),
            now,
        )
    };
    let voice = NewSection {
        kind: MediaKind::Audio,
        cid: "voice",
        rids: &[],
    };
    let camera = NewSection {
        kind: MediaKind::Video,
        cid: "camera",
        rids: &["q", "h", "f"],
    };
    let offers = [
        (None, [3, 3]),
        (Some(voice), [0, 0]),
        (Some(camera), [1, 1]),
    ];
    let offers = offers.map(|(send, receive)| client().offer(send, receive, false).0);
    let answer = client().accept_offer(&offers[0]);
    seeds::write("sdp", offers.into_iter().chain([answer]));
}
