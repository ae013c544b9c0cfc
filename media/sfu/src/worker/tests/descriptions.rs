//! Large session descriptions.

use std::time::{Duration, Instant};

use conclave_model::ParticipantSid;
use str0m::format::Codec;
use str0m::media::MediaKind;

use super::commands::{new_peer, new_track};
use super::fixture::Fixture;
use super::support::NewSection;
use crate::command::{Command, ConnectionMode, PeerCommand};
use crate::config::Limits;
use crate::event::{Event, FailureReason, PeerEvent};

/// Offer by Chromium 156, with audio, video and messages.
const CHROMIUM: &str = include_str!("../../../tests/data/chromium.sdp");

/// Returns an offer by Chromium with this many receiving audio and video sections.
fn offer_of_chromium(sounds: usize, videos: usize) -> String {
    let parts: Vec<_> = CHROMIUM.split_inclusive("\r\nm=").collect();
    let [session, sound, video, data] = parts.as_slice() else {
        panic!("four parts")
    };
    let mut text = session.trim_end_matches("m=").to_owned();
    let mut mids = String::new();
    let sections = [
        (sound, "a=mid:0", sounds),
        (video, "a=mid:1", videos),
        (data, "a=mid:2", 1),
    ];
    let sections = sections
        .iter()
        .flat_map(|(section, mid, count)| std::iter::repeat_n((section, mid), *count));
    for (number, (section, mid)) in sections.enumerate() {
        let section = section
            .trim_end_matches("m=")
            .replace(mid, &format!("a=mid:{number}"));
        text.push_str("m=");
        text.push_str(&section);
        mids.push(' ');
        mids.push_str(&number.to_string());
    }
    text.replace("a=group:BUNDLE 0 1 2", &format!("a=group:BUNDLE{mids}"))
}

/// Audio and video sections in the largest offers that the server requests from a browser.
const LARGEST: [(usize, usize); 2] = [(0, 132), (260, 75)];

#[test]
fn the_largest_offers_that_the_server_asks_a_browser_for_are_answered() {
    let mut fixture = Fixture::new();
    for (name, (sounds, videos)) in ["PA_videos", "PA_both"].into_iter().zip(LARGEST) {
        fixture.command(Command::AddPeer(new_peer(name, ConnectionMode::Single)));
        let sdp = offer_of_chromium(sounds, videos);
        for offer_id in [1, 2] {
            let begun = Instant::now();
            fixture.command(
                PeerCommand::Offer {
                    offer_id,
                    sdp: sdp.clone(),
                }
                .for_peer(name.parse().unwrap()),
            );
            println!(
                "{sounds} sounds and {videos} videos: {} bytes in {:?}",
                sdp.len(),
                begun.elapsed()
            );
            let (_, event) = fixture.others.last().unwrap();
            let PeerEvent::Answered { sdp, .. } = event else {
                panic!("{name}: {event:?}")
            };
            assert_eq!(sdp.matches("\nm=").count(), sounds + videos + 1);
        }
    }
}

#[test]
fn an_answer_repeats_the_bitrates_with_which_a_client_wants_to_send() {
    let mut fixture = Fixture::new();
    let alice = fixture.join("PA_alice", ConnectionMode::Single);
    let peer: ParticipantSid = "PA_alice".parse().unwrap();
    fixture.command(
        PeerCommand::PublishTrack(new_track("TR_1", "camera", MediaKind::Video))
            .for_peer(peer.clone()),
    );
    let section = NewSection {
        kind: MediaKind::Video,
        cid: "camera",
        rids: &[],
    };
    let (sdp, mid) = fixture.clients[alice]
        .publisher
        .offer(Some(section), [0, 0], false);
    let (head, camera) = sdp
        .split_once(&format!("a=mid:{}\r\n", mid.unwrap()))
        .expect("the section of the camera");
    let vp8 = camera
        .lines()
        .find(|line| line.ends_with(" VP8/90000"))
        .expect("VP8 is offered");
    let number = vp8
        .trim_start_matches("a=rtpmap:")
        .split(' ')
        .next()
        .unwrap();
    let format = format!("a=fmtp:{number} x-google-start-bitrate=1190");
    let camera = camera.replacen(vp8, &format!("{vp8}\r\n{format}"), 1);
    let sdp = format!("{head}a=mid:{}\r\n{camera}", mid.unwrap());
    fixture.command(PeerCommand::Offer { offer_id: 9, sdp }.for_peer(peer));
    let answers = fixture.clients[alice]
        .events
        .iter()
        .filter_map(|event| match event {
            PeerEvent::Answered {
                offer_id: 9, sdp, ..
            } => Some(sdp),
            _ => None,
        });
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].matches(&format).count(), 1, "{}", answers[0]);
}

#[test]
fn an_offer_with_more_lines_than_the_server_asks_for_is_refused() {
    let mut fixture = Fixture::new();
    fixture.command(Command::AddPeer(new_peer(
        "PA_videos",
        ConnectionMode::Single,
    )));
    let sdp = offer_of_chromium(0, 200);
    fixture.command(PeerCommand::Offer { offer_id: 1, sdp }.for_peer("PA_videos".parse().unwrap()));
    assert_eq!(fixture.failures("PA_videos"), [FailureReason::Negotiation]);
}

#[test]
fn a_client_is_asked_for_no_more_sections_than_its_offer_may_have() {
    // Space for its six sections and two more.
    let limits = Limits {
        sdp_bytes: 4_000 + 6 * 5_500 + 1_100,
        ..Limits::default()
    };
    let mut fixture = Fixture::with_limits(limits);
    let bob = fixture.join_connected("PA_bob", ConnectionMode::Single);
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let sids: Vec<_> = (0..8).map(|number| format!("TR_{number}")).collect();
    let cameras: Vec<_> = sids
        .iter()
        .map(|sid| fixture.publish(alice, sid, Codec::Vp8, &[]))
        .collect();
    cameras
        .iter()
        .for_each(|camera| fixture.subscribe(bob, camera));
    fixture.run(Duration::from_secs(2));
    let received =
        |fixture: &mut Fixture| Vec::from_iter(fixture.receiver(bob).tracks.values().cloned());
    let first = received(&mut fixture);
    assert_eq!(first.len(), 5, "{first:?}");
    assert!(
        !fixture.clients[bob]
            .events
            .iter()
            .any(|event| matches!(event, PeerEvent::Failed(_)))
    );
    let ended = cameras
        .iter()
        .find(|camera| first.contains(&camera.sid))
        .unwrap();
    fixture.command(
        PeerCommand::UnpublishTrack(ended.sid.parse().unwrap())
            .for_peer("PA_alice".parse().unwrap()),
    );
    fixture.run(Duration::from_secs(2));
    let then = received(&mut fixture);
    assert_eq!(then.len(), first.len(), "another takes its place");
    assert!(!then.contains(&ended.sid));
}

#[test]
fn the_clients_of_a_room_are_asked_for_offers_a_few_at_a_time_and_all_receive_in_the_end() {
    const RECEIVERS: [&str; 6] = [
        "PA_bob", "PA_carol", "PA_dave", "PA_erin", "PA_frank", "PA_grace",
    ];
    // Space for two clients' offers with six sections each.
    let limits = Limits {
        asked_bytes: 2 * (4_000 + 4 * 1_100 + 4 * 5_500),
        ..Limits::default()
    };
    let mut fixture = Fixture::with_limits(limits);
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Dual);
    let receivers = RECEIVERS.map(|name| fixture.join_connected(name, ConnectionMode::Single));
    let mut voice = fixture.publish(alice, "TR_voice", Codec::Opus, &[]);
    for name in RECEIVERS {
        let (peer, track) = (name.parse().unwrap(), "TR_voice".parse().unwrap());
        let (room, now) = (fixture.room.clone(), fixture.now);
        fixture
            .worker
            .handle_command(&room, PeerCommand::Subscribe(track).for_peer(peer), now);
    }
    assert!(!fixture.worker.flush(fixture.now));
    let events = fixture.worker.take_events();
    let is_request = |event: &&Event| {
        matches!(
            event,
            Event::Peer {
                event: PeerEvent::MediaSectionsRequired { .. },
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(is_request).count(), 2);
    // Nobody answers these two: the other clients are asked after a second, these two after five.
    fixture.run(Duration::from_secs(12));
    fixture.send(&mut voice, None, &[1]);
    for receiver in receivers {
        assert_eq!(fixture.received(receiver, &voice).len(), 1, "{receiver}");
    }
}
