//! Backup codecs of tracks.

use conclave_model::role::PublishCodec;
use conclave_sfu::{CodecUse, NewTrack, PeerCommand};
use proto::request_response::Reason;

use super::*;

/// A camera track that can be sent with these codecs.
fn camera_with(codecs: &[&str]) -> AddTrackRequest {
    let codec = |codec: &&str| proto::SimulcastCodec {
        codec: (*codec).to_owned(),
        ..Default::default()
    };
    AddTrackRequest {
        simulcast_codecs: codecs.iter().map(codec).collect(),
        ..camera()
    }
}

/// A backup codec of a track.
fn backup(track: &TrackSid, codec: &str, cid: &str) -> Request {
    let layers = vec![proto::VideoLayer {
        quality: 1,
        width: 640,
        ..Default::default()
    }];
    let codec = proto::SimulcastCodec {
        codec: codec.to_owned(),
        cid: cid.to_owned(),
        layers,
        ..Default::default()
    };
    Request::AddTrack(AddTrackRequest {
        sid: track.to_string(),
        cid: cid.to_owned(),
        simulcast_codecs: vec![codec],
        ..camera()
    })
}

fn codecs(info: &proto::TrackInfo) -> Vec<(&str, &str, &str)> {
    info.codecs
        .iter()
        .map(|codec| {
            (
                codec.mime_type.as_str(),
                codec.mid.as_str(),
                codec.cid.as_str(),
            )
        })
        .collect()
}

impl Fixture {
    /// Publishes a camera with VP9, and other codecs to fall back on.
    fn publish_with(&mut self, sid: &ParticipantSid, named: &[&str]) -> TrackSid {
        self.request(sid, Request::AddTrack(camera_with(named)));
        let track: TrackSid = self.admitted(sid).unwrap().sid.parse().unwrap();
        let layers = vec![Quality::Low];
        self.media(
            sid,
            PeerEvent::TrackPublished {
                track: track.clone(),
                mid: "3".into(),
                codec: Codec::Vp9,
                layers,
            },
        );
        track
    }

    /// The response to the client's last announced track.
    fn admitted(&mut self, sid: &ParticipantSid) -> Result<proto::TrackInfo, Reason> {
        let messages = self.take(sid);
        let answer = messages
            .into_iter()
            .rev()
            .find_map(|message| match message {
                Response::TrackPublished(published) => Some(Ok(published.track.unwrap())),
                Response::RequestResponse(refused) => Some(Err(refused.reason())),
                _ => None,
            });
        answer.unwrap()
    }

    fn announced(&self) -> Vec<&NewTrack> {
        let announced = self.commands.iter().filter_map(|command| match command {
            Command::Peer {
                command: PeerCommand::PublishTrack(track),
                ..
            } => Some(track),
            _ => None,
        });
        announced.collect()
    }

    /// The last state of a participant's first track that a client received.
    fn seen(&mut self, by: &ParticipantSid, identity: &str) -> proto::TrackInfo {
        let messages = self.take(by);
        let infos = messages
            .into_iter()
            .rev()
            .find_map(|message| match message {
                Response::Update(update) => update
                    .participants
                    .into_iter()
                    .find(|info| info.identity == identity),
                _ => None,
            });
        infos.unwrap().tracks.swap_remove(0)
    }
}

#[test]
fn a_backup_codec_is_announced_for_its_track_and_others_see_one_track_with_both() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    fixture.take_all();
    let track = fixture.publish_with(&alice, &["vp9", "vp8"]);
    assert_eq!(fixture.announced()[0].backup_codecs, [Codec::Vp8]);
    let info = fixture.seen(&bob, "alice");
    assert_eq!(
        codecs(&info),
        [("video/VP9", "3", "camera-1"), ("video/VP8", "", "")]
    );
    fixture.take_all();

    fixture.request(&alice, backup(&track, "vp8", "copy"));
    let info = fixture.admitted(&alice).unwrap();
    assert_eq!(
        (info.sid.as_str(), &info.codecs[1].cid[..]),
        (track.as_str(), "copy")
    );
    let [announced] = &fixture.announced()[..] else {
        panic!("{:?}", fixture.commands)
    };
    assert_eq!(
        (&announced.sid, announced.cid.as_str(), announced.is_backup),
        (&track, "copy", true)
    );
    assert_eq!(
        (announced.codec, &announced.allowed_codecs[..]),
        (Some(Codec::Vp8), &[Codec::Vp8][..])
    );
    assert_eq!(
        announced
            .layers
            .iter()
            .map(|layer| layer.width)
            .collect::<Vec<_>>(),
        [640]
    );

    let layers = vec![Quality::Low];
    let published = PeerEvent::BackupPublished {
        track: track.clone(),
        mid: "4".into(),
        codec: Codec::Vp8,
        layers,
    };
    fixture.media(&alice, published);
    let info = fixture.seen(&bob, "alice");
    assert_eq!(
        codecs(&info),
        [("video/VP9", "3", "camera-1"), ("video/VP8", "4", "copy")]
    );
    assert_eq!(
        (info.mime_type.as_str(), info.mid.as_str()),
        ("video/VP9", "3")
    );
    assert_eq!(
        fixture.room_state.codec_of(&track),
        Some(Codec::Vp9),
        "a recording has the first codec"
    );
    assert!(
        fixture.event_names().is_empty(),
        "the backup codec is no new track for the control plane"
    );

    fixture.media(
        &alice,
        PeerEvent::BackupEnded {
            track: track.clone(),
            codec: Codec::Vp8,
        },
    );
    assert_eq!(
        codecs(&fixture.seen(&bob, "alice"))[1],
        ("video/VP8", "", "")
    );
    fixture.request(&alice, backup(&track, "vp8", "again"));
    assert!(
        fixture.admitted(&alice).is_ok(),
        "it can be announced again"
    );
    fixture.media(&alice, PeerEvent::TrackEnded(track));
    assert_eq!(fixture.event_names(), ["unpublished"]);
}

#[test]
fn a_codec_that_the_track_or_the_role_does_not_have_is_refused_with_the_reason() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let track = fixture.publish_with(&alice, &["vp9", "vp8", "h264", "av1", "vp8"]);
    assert_eq!(
        fixture.announced()[0].backup_codecs,
        [Codec::Vp8, Codec::H264],
        "two at most"
    );
    let unknown = "TR_VCother".parse().unwrap();
    for (track, codec, cid, reason) in [
        (&unknown, "vp8", "copy", Reason::NotFound),
        (&track, "av1", "copy", Reason::UnsupportedType),
        (&track, "vp9", "copy", Reason::UnsupportedType),
        (&track, "theora", "copy", Reason::UnsupportedType),
        (&track, "vp8", "camera-1", Reason::Queued),
    ] {
        fixture.request(&alice, backup(track, codec, cid));
        assert_eq!(
            fixture.admitted(&alice).err(),
            Some(reason),
            "{codec} {cid}"
        );
    }
    fixture.request(&alice, backup(&track, "vp8", "copy"));
    assert!(fixture.admitted(&alice).is_ok());
    fixture.request(&alice, backup(&track, "vp8", "another"));
    assert_eq!(
        fixture.admitted(&alice).err(),
        Some(Reason::Queued),
        "once for each codec"
    );

    let grants = Grants {
        video_codecs: Some(vec![PublishCodec::Vp9, PublishCodec::H264]),
        ..Grants::default()
    };
    let bob = fixture.join_with(
        Claims {
            grants,
            ..claims("bob", None)
        },
        &parameters(ConnectionMode::Single),
    );
    fixture.connect(&bob);
    fixture.take_all();
    let track = fixture.publish_with(&bob, &["vp9", "vp8", "h264"]);
    assert_eq!(
        fixture.announced()[0].backup_codecs,
        [Codec::H264],
        "those that the role has"
    );
    fixture.request(&bob, backup(&track, "vp8", "copy"));
    assert_eq!(fixture.admitted(&bob).err(), Some(Reason::UnsupportedType));
}

#[test]
fn a_role_without_the_backup_codec_ends_that_and_one_without_the_first_codec_ends_the_track() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    let track = fixture.publish_with(&alice, &["vp9", "vp8"]);
    fixture.request(&alice, backup(&track, "vp8", "copy"));
    fixture.take_all();
    let only = |codec| Grants {
        video_codecs: Some(vec![codec]),
        ..Grants::default()
    };
    fixture.set_role("alice", "vp9", only(PublishCodec::Vp9));
    let ended = |command: &Command| matches!(command, Command::Peer { command: PeerCommand::UnpublishBackup { track: of, codec: Codec::Vp8 }, .. } if *of == track);
    assert_eq!(
        fixture
            .commands
            .iter()
            .filter(|command| ended(command))
            .count(),
        1
    );
    assert_eq!(
        codecs(&fixture.seen(&bob, "alice")),
        [("video/VP9", "3", "camera-1")]
    );
    assert!(!fixture.event_names().contains(&"unpublished"));
    fixture.request(&alice, backup(&track, "vp8", "again"));
    assert_eq!(
        fixture.admitted(&alice).err(),
        Some(Reason::UnsupportedType)
    );
    fixture.set_role("alice", "vp8", only(PublishCodec::Vp8));
    assert!(fixture.event_names().contains(&"unpublished"));
}

#[test]
fn the_publisher_learns_the_use_of_each_codec() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let track = fixture.publish_with(&alice, &["vp9", "vp8"]);
    fixture.take_all();
    let codec_use = |codec, enabled| CodecUse { codec, enabled };
    let codecs = vec![
        codec_use(Codec::Vp9, [true, false, false]),
        codec_use(Codec::Vp8, [true; 3]),
    ];
    fixture.media(&alice, PeerEvent::SubscribedQuality { track, codecs });
    let messages = fixture.take(&alice);
    let [Response::SubscribedQualityUpdate(update)] = &messages[..] else {
        panic!("{messages:?}")
    };
    let enabled = |qualities: &[proto::SubscribedQuality]| {
        qualities.iter().filter(|quality| quality.enabled).count()
    };
    let told = update
        .subscribed_codecs
        .iter()
        .map(|codec| (codec.codec.as_str(), enabled(&codec.qualities)));
    assert_eq!(told.collect::<Vec<_>>(), [("vp9", 1), ("vp8", 3)]);
    #[expect(
        deprecated,
        reason = "older clients read the qualities of the first codec"
    )]
    let of_first = &update.subscribed_qualities;
    assert_eq!(enabled(of_first), 1);
}
