//! A WHIP encoder: the input is its offer, and the fragment of a later request, after a line `===`. It is in a room where two
//! others talk.
//!
//! Nothing panics, the others hear each other, and an ICE restart changes only ICE.

#![no_main]

use std::cell::RefCell;
use std::time::Duration;

use conclave_fuzz::rtc::Call;
use conclave_fuzz::rtc::commands::{new_peer, new_track};
use conclave_fuzz::rtc::support::{Abilities, Connection, NewSection};
use conclave_fuzz::seeds;
use conclave_media::embedded::encoders::whip::{
    announced_tracks, ice_fragment, read_credentials, with_credentials,
};
use conclave_sfu::{Codec, Command, ConnectionMode, PeerCommand};
use libfuzzer_sys::fuzz_target;
use str0m::media::MediaKind;
use str0m::net::Protocol;

thread_local! {
    static CALL: RefCell<Call> = RefCell::new(Call::new());
}

fuzz_target!(init: write_seeds(), |data: &[u8]| CALL.with_borrow_mut(|call| run(call, data)));

fn run(call: &mut Call, data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (offer, fragment) = text.split_once("\n===\n").unwrap_or((&text, ""));
    ice_fragment(offer);
    let (Ok(tracks), Ok(credentials)) = (announced_tracks(offer), read_credentials(offer)) else {
        return;
    };
    let mut offers = vec![offer.to_owned()];
    if let Ok(other) = read_credentials(fragment) {
        let restart = with_credentials(offer, &other);
        assert_eq!(read_credentials(&restart).as_ref(), Ok(&other));
        assert_eq!(announced_tracks(&restart).as_ref(), Ok(&tracks));
        assert_eq!(
            read_credentials(&with_credentials(&restart, &credentials)),
            Ok(credentials)
        );
        offers.push(restart);
    }
    let peer = || "PA_mallory".parse().unwrap();
    call.fixture.command(Command::AddPeer(new_peer(
        "PA_mallory",
        ConnectionMode::Single,
    )));
    for (number, track) in tracks.iter().enumerate() {
        let codec =
            Codec::from_mime_type(&track.simulcast_codecs[0].codec).expect("a codec of ours");
        let kind = if codec == Codec::Opus {
            MediaKind::Audio
        } else {
            MediaKind::Video
        };
        let mut track = new_track(&format!("TR_m{number}"), &track.cid, kind);
        track.codec = Some(codec);
        call.fixture
            .command(PeerCommand::PublishTrack(track).for_peer(peer()));
    }
    for (offer_id, sdp) in (1..).zip(offers) {
        call.fixture
            .command(PeerCommand::Offer { offer_id, sdp }.for_peer(peer()));
    }
    call.fixture.run(Duration::from_millis(20));
    call.fixture.command(PeerCommand::Remove.for_peer(peer()));
    call.assert_audible();
}

fn write_seeds() {
    let now = std::time::Instant::now();
    let mut client = Connection::new(
        "198.51.100.9:5000".parse().unwrap(),
        Protocol::Udp,
        Abilities::default(),
        now,
    );
    let voice = NewSection {
        kind: MediaKind::Audio,
        cid: "voice",
        rids: &[],
    };
    let camera = NewSection {
        kind: MediaKind::Video,
        cid: "camera",
        rids: &[],
    };
    let offers = [voice, camera].map(|section| client.offer(Some(section), [0, 0], false).0);
    let ice = "a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n";
    let fragment = format!(
        "{ice}m=audio 9 RTP/AVP 0\r\na=mid:0\r\na=candidate:1 1 udp 1 192.0.2.1 61764 typ host\r\n"
    );
    let small = format!(
        "v=0\r\n{ice}m=audio 9 X 111\r\na=mid:0\r\na=sendonly\r\na=rtpmap:111 opus/48000/2\r\n\
         m=video 9 X 96\r\na=mid:1\r\na=sendonly\r\na=msid:stream pictures\r\na=rtpmap:96 H264/90000\r\n"
    );
    let with_fragment = |offer: &String| format!("{offer}\n===\n{fragment}");
    let offers = offers.iter().chain([&small]);
    seeds::write(
        "whip",
        offers.clone().cloned().chain(offers.map(with_fragment)),
    );
}
