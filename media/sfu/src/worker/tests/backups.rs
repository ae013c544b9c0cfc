//! Tracks with backup codecs: choice per receiver, and requests to the publisher.

use std::time::Duration;

use str0m::format::Codec as RtcCodec;
use str0m::media::MediaKind;

use super::MODES;
use super::commands::new_track;
use super::fixture::{Fixture, Publication};
use super::recorders::{Queue, recorder};
use super::support::{Abilities, NewSection};
use crate::codec::Codec;
use crate::command::{Command, ConnectionMode, PeerCommand};
use crate::event::{CodecUse, PeerEvent};
use crate::track::NewTrack;

/// Time after which the publisher learns that a codec is unused.
const UNUSED: Duration = Duration::from_secs(8);

/// Alice publishes a camera in VP9, and could send VP8 as well. Bob decodes both, Carol only VP8.
struct Call {
    fixture: Fixture,
    alice: usize,
    bob: usize,
    carol: usize,
    camera: Publication,
}

impl Call {
    fn new(mode: ConnectionMode) -> Self {
        Self::with(mode, |_| {})
    }

    fn with(mode: ConnectionMode, change: impl FnOnce(&mut NewTrack)) -> Self {
        let mut fixture = Fixture::new();
        let carol = fixture.join_connected("PA_carol", mode);
        fixture.abilities = Abilities {
            all_codecs: true,
            ..Abilities::default()
        };
        let (alice, bob) = (
            fixture.join_connected("PA_alice", mode),
            fixture.join_connected("PA_bob", mode),
        );
        let mut track = new_track("TR_camera", "cid-first", MediaKind::Video);
        (track.codec, track.backup_codecs) = (Some(Codec::Vp9), vec![Codec::Vp8]);
        change(&mut track);
        let camera = announce(&mut fixture, alice, track, RtcCodec::Vp9);
        let mut call = Self {
            fixture,
            alice,
            bob,
            carol,
            camera,
        };
        for receiver in [bob, carol] {
            call.fixture.subscribe(receiver, &call.camera);
        }
        call
    }

    /// Creates a call with the camera in both codecs.
    fn sending_both(mode: ConnectionMode) -> (Self, Publication) {
        let mut call = Self::new(mode);
        let mut backup = call.publish_backup();
        call.send(&mut backup);
        (call, backup)
    }

    /// Publishes the camera in VP8.
    fn publish_backup(&mut self) -> Publication {
        let mut track = new_track("TR_camera", "cid-backup", MediaKind::Video);
        (track.codec, track.allowed_codecs, track.is_backup) =
            (Some(Codec::Vp8), vec![Codec::Vp8], true);
        announce(&mut self.fixture, self.alice, track, RtcCodec::Vp8)
    }

    /// Sends a key frame in each codec.
    fn send(&mut self, backup: &mut Publication) {
        self.send_first();
        self.fixture.send_vp8(backup, None, true);
        self.fixture.run(Duration::from_millis(20));
    }

    fn send_first(&mut self) {
        self.camera.picture = (self.camera.picture + 1) % 128;
        let payload = [0x8c, u8::try_from(self.camera.picture).unwrap(), 7];
        self.fixture.send(&mut self.camera, None, &payload);
    }

    /// Returns the codecs of a client's packets since the last call, and checks that their numbers have no gaps.
    fn codecs(&mut self, client: usize) -> Vec<Codec> {
        let received = std::mem::take(&mut self.fixture.receiver(client).received);
        assert!(
            received
                .windows(2)
                .all(|pair| pair[1].sequence == pair[0].sequence + 1),
            "{received:?}"
        );
        assert!(
            received.windows(2).all(|pair| pair[1].ssrc == pair[0].ssrc),
            "the subscription stays one stream"
        );
        assert!(received.iter().all(|packet| packet.track == "TR_camera"));
        received
            .iter()
            .map(|packet| {
                if packet.payload[0] == 0x8c {
                    Codec::Vp9
                } else {
                    Codec::Vp8
                }
            })
            .collect()
    }

    fn last_number(&mut self, client: usize) -> u64 {
        self.fixture
            .receiver(client)
            .received
            .last()
            .unwrap()
            .sequence
    }

    fn command(&mut self, command: PeerCommand) {
        self.fixture
            .command(command.for_peer("PA_alice".parse().unwrap()));
    }

    /// Returns the codec use that was last reported to the publisher.
    fn told(&self) -> Option<Vec<CodecUse>> {
        self.fixture.clients[self.alice]
            .events
            .iter()
            .rev()
            .find_map(|event| match event {
                PeerEvent::SubscribedQuality { codecs, .. } => Some(codecs.clone()),
                _ => None,
            })
    }

    fn refusals(&self, client: usize) -> usize {
        let refused = PeerEvent::CodecUnsupported("TR_camera".parse().unwrap());
        self.fixture.clients[client]
            .events
            .iter()
            .filter(|event| **event == refused)
            .count()
    }

    fn published(&mut self) -> Vec<Option<Codec>> {
        self.fixture.snapshot(&["PA_alice"])[0]
            .published
            .iter()
            .map(|track| track.codec)
            .collect()
    }
}

/// Announces a track, or a backup codec, and offers its section.
fn announce(fixture: &mut Fixture, client: usize, track: NewTrack, codec: RtcCodec) -> Publication {
    let (cid, sid) = (track.cid.clone(), track.sid.to_string());
    let peer = fixture.clients[client].name.parse().unwrap();
    fixture.command(PeerCommand::PublishTrack(track).for_peer(peer));
    let section = NewSection {
        kind: MediaKind::Video,
        cid: &cid,
        rids: &[],
    };
    let mid = fixture
        .offer(client, Some(section), [0, 0], false)
        .expect("a section");
    fixture.run_until("the publisher is connected", |fixture| {
        fixture.clients[client].publisher.is_connected
    });
    fixture.run(Duration::from_millis(200));
    Publication::new(client, &sid, mid, codec)
}

const fn all(codec: Codec) -> CodecUse {
    CodecUse {
        codec,
        enabled: [true; 3],
    }
}

const fn none(codec: Codec) -> CodecUse {
    CodecUse {
        codec,
        enabled: [false; 3],
    }
}

#[test]
fn a_receiver_without_the_first_codec_makes_the_publisher_send_the_backup_and_gets_that() {
    for mode in MODES {
        let mut call = Call::new(mode);
        assert_eq!(
            call.told(),
            Some(vec![all(Codec::Vp9), all(Codec::Vp8)]),
            "{mode:?}: at once"
        );
        call.send_first();
        assert_eq!(
            (call.codecs(call.bob), call.codecs(call.carol)),
            (vec![Codec::Vp9], vec![]),
            "{mode:?}"
        );
        let mut backup = call.publish_backup();
        let event = PeerEvent::BackupPublished {
            track: "TR_camera".parse().unwrap(),
            mid: backup.mid.to_string(),
            codec: Codec::Vp8,
            layers: vec![crate::track::Quality::Low],
        };
        assert!(
            call.fixture.clients[call.alice].events.contains(&event),
            "{mode:?}"
        );
        for _ in 0..5 {
            call.send(&mut backup);
        }
        assert_eq!(call.codecs(call.bob), [Codec::Vp9; 5], "{mode:?}");
        assert_eq!(call.codecs(call.carol), [Codec::Vp8; 5], "{mode:?}");
        assert_eq!(
            (call.refusals(call.bob), call.refusals(call.carol)),
            (0, 0),
            "{mode:?}"
        );
        let codecs = call
            .fixture
            .snapshot(&["PA_bob", "PA_carol"])
            .into_iter()
            .map(|peer| peer.subscribed[0].codec);
        assert_eq!(
            codecs.collect::<Vec<_>>(),
            [Some(Codec::Vp9), Some(Codec::Vp8)],
            "{mode:?}"
        );
        assert_eq!(
            call.published(),
            [Some(Codec::Vp9), Some(Codec::Vp8)],
            "{mode:?}"
        );
    }
}

#[test]
fn a_codec_that_nobody_uses_is_disabled_and_used_again_at_once() {
    let (mut call, _) = Call::sending_both(ConnectionMode::Single);
    call.fixture.unsubscribe(call.carol, &call.camera);
    call.fixture.run(UNUSED);
    assert_eq!(call.told(), Some(vec![all(Codec::Vp9), none(Codec::Vp8)]));
    call.fixture.unsubscribe(call.bob, &call.camera);
    call.fixture.run(UNUSED * 2);
    assert_eq!(call.told(), Some(vec![none(Codec::Vp9), none(Codec::Vp8)]));
    call.fixture.subscribe(call.carol, &call.camera);
    call.fixture.run(Duration::from_secs(2));
    assert_eq!(call.told(), Some(vec![none(Codec::Vp9), all(Codec::Vp8)]));
}

#[test]
fn a_backup_that_goes_away_is_asked_for_again_and_its_stream_goes_on() {
    for mode in MODES {
        let (mut call, backup) = Call::sending_both(mode);
        let before = call.last_number(call.carol);
        assert_eq!(call.codecs(call.carol), [Codec::Vp8], "{mode:?}");
        call.fixture.clients[call.alice].events.clear();
        call.fixture.stop_publishing(&backup);
        let ended = PeerEvent::BackupEnded {
            track: "TR_camera".parse().unwrap(),
            codec: Codec::Vp8,
        };
        assert!(
            call.fixture.clients[call.alice].events.contains(&ended),
            "{mode:?}"
        );
        assert_eq!(
            call.told(),
            Some(vec![all(Codec::Vp9), all(Codec::Vp8)]),
            "{mode:?}"
        );
        call.send_first();
        assert_eq!(
            call.codecs(call.bob).last(),
            Some(&Codec::Vp9),
            "{mode:?}: the first codec is not affected"
        );
        let mut backup = call.publish_backup();
        call.send(&mut backup);
        assert_eq!(call.last_number(call.carol), before + 1, "{mode:?}");
        assert_eq!(call.codecs(call.carol), [Codec::Vp8], "{mode:?}");
    }
}

#[test]
fn all_who_can_get_the_backup_of_a_publisher_that_prefers_it() {
    for mode in MODES {
        let mut call = Call::with(mode, |track| track.prefers_backup = true);
        call.send_first();
        assert_eq!(call.codecs(call.bob), [Codec::Vp9], "{mode:?}");
        call.send_first();
        let mut backup = call.publish_backup();
        for _ in 0..3 {
            call.send(&mut backup);
        }
        let expected = [Codec::Vp9, Codec::Vp8, Codec::Vp8, Codec::Vp8];
        assert_eq!(call.codecs(call.bob), expected, "{mode:?}: in one stream");
        assert_eq!(call.codecs(call.carol), [Codec::Vp8; 3], "{mode:?}");
        call.fixture.run(UNUSED * 2);
        assert_eq!(
            call.told(),
            Some(vec![none(Codec::Vp9), all(Codec::Vp8)]),
            "{mode:?}"
        );
        call.fixture.stop_publishing(&backup);
        assert_eq!(
            call.told(),
            Some(vec![all(Codec::Vp9), all(Codec::Vp8)]),
            "{mode:?}: Carol waits for it"
        );
        // A codec that has paused counts as live again from its first packet on.
        call.send_first();
        call.send_first();
        assert_eq!(
            call.codecs(call.bob),
            [Codec::Vp9],
            "{mode:?}: the first codec is there again"
        );
    }
}

#[test]
fn a_mute_and_the_end_of_a_track_are_those_of_all_its_codecs() {
    for mode in MODES {
        let mut call = Call::new(mode);
        let mut backup = call.publish_backup();
        let track = || "TR_camera".parse().unwrap();
        call.command(PeerCommand::SetMuted {
            track: track(),
            muted: true,
        });
        call.send(&mut backup);
        assert_eq!(
            (call.codecs(call.bob), call.codecs(call.carol)),
            (vec![], vec![]),
            "{mode:?}"
        );
        call.command(PeerCommand::SetMuted {
            track: track(),
            muted: false,
        });
        call.send(&mut backup);
        assert_eq!(
            (call.codecs(call.bob), call.codecs(call.carol)),
            (vec![Codec::Vp9], vec![Codec::Vp8]),
            "{mode:?}"
        );
        call.command(PeerCommand::UnpublishTrack(track()));
        call.fixture.run(Duration::from_secs(1));
        call.send(&mut backup);
        assert_eq!(
            (call.codecs(call.bob), call.codecs(call.carol)),
            (vec![], vec![]),
            "{mode:?}"
        );
        assert_eq!(call.published(), [], "{mode:?}");
        assert!(
            call.fixture.snapshot(&["PA_carol"])[0]
                .subscribed
                .is_empty(),
            "{mode:?}"
        );
    }
}

#[test]
fn the_offer_that_ends_the_first_codec_ends_the_track() {
    let (mut call, _) = Call::sending_both(ConnectionMode::Single);
    let camera = call.camera.clone();
    call.fixture.stop_publishing(&camera);
    let events = &call.fixture.clients[call.alice].events;
    assert!(events.contains(&PeerEvent::TrackEnded("TR_camera".parse().unwrap())));
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, PeerEvent::BackupEnded { .. }))
    );
    assert_eq!(call.published(), []);
}

#[test]
fn a_backup_that_may_not_be_used_any_more_leaves_its_receivers_without_the_track() {
    for mode in MODES {
        let (mut call, mut backup) = Call::sending_both(mode);
        let received = (call.codecs(call.bob), call.codecs(call.carol));
        assert_eq!(received, (vec![Codec::Vp9], vec![Codec::Vp8]), "{mode:?}");
        call.command(PeerCommand::UnpublishBackup {
            track: "TR_camera".parse().unwrap(),
            codec: Codec::Vp8,
        });
        assert_eq!(
            call.told(),
            Some(vec![all(Codec::Vp9), none(Codec::Vp8)]),
            "{mode:?}"
        );
        call.send(&mut backup);
        assert_eq!(
            (call.codecs(call.bob), call.codecs(call.carol)),
            (vec![Codec::Vp9], vec![]),
            "{mode:?}"
        );
        assert_eq!(
            (call.refusals(call.bob), call.refusals(call.carol)),
            (0, 1),
            "{mode:?}"
        );
        call.publish_backup();
        let ended = PeerEvent::BackupEnded {
            track: "TR_camera".parse().unwrap(),
            codec: Codec::Vp8,
        };
        assert!(
            call.fixture.clients[call.alice].events.contains(&ended),
            "{mode:?}: it is refused"
        );
        assert_eq!(call.published(), [Some(Codec::Vp9)], "{mode:?}");
    }
}

#[test]
fn a_recorder_gets_the_first_codec_and_a_publisher_that_resumes_hears_again_what_is_used() {
    let mut call = Call::new(ConnectionMode::Dual);
    let mut backup = call.publish_backup();
    let queue = std::sync::Arc::new(Queue::default());
    call.command(PeerCommand::AttachRecorder {
        track: "TR_camera".parse().unwrap(),
        recorder: recorder(&queue),
    });
    call.send(&mut backup);
    assert_eq!(
        queue
            .take()
            .iter()
            .map(|packet| packet.codec)
            .collect::<Vec<_>>(),
        [Codec::Vp9]
    );
    call.fixture.clients[call.alice].events.clear();
    call.command(PeerCommand::Resume);
    assert_eq!(call.told(), Some(vec![all(Codec::Vp9), all(Codec::Vp8)]));
    call.fixture.run(Duration::from_secs(1));
    call.send(&mut backup);
    assert_eq!(call.codecs(call.carol), [Codec::Vp8; 2]);
}

#[test]
fn a_backup_whose_publisher_leaves_is_gone() {
    for mode in MODES {
        let (mut call, _) = Call::sending_both(mode);
        call.fixture.leave(call.alice);
        call.fixture.run(Duration::from_secs(1));
        assert!(
            call.fixture
                .snapshot(&["PA_bob", "PA_carol"])
                .iter()
                .all(|peer| peer.subscribed.is_empty())
        );
        for client in [call.bob, call.carol] {
            call.fixture.leave(client);
        }
        call.fixture.command(Command::CloseRoom);
        assert!(call.fixture.worker.is_empty(), "{mode:?}");
    }
}

#[test]
fn a_receiver_that_waits_in_vain_is_told_once_and_gets_a_backup_that_comes_late() {
    for mode in MODES {
        let mut call = Call::new(mode);
        call.fixture.run(Duration::from_secs(8));
        assert_eq!(call.refusals(call.carol), 0, "{mode:?}");
        call.fixture.run(Duration::from_secs(20));
        assert_eq!(
            (call.refusals(call.bob), call.refusals(call.carol)),
            (0, 1),
            "{mode:?}"
        );
        let mut backup = call.publish_backup();
        call.send(&mut backup);
        assert_eq!(call.codecs(call.carol), [Codec::Vp8], "{mode:?}");
    }
}
