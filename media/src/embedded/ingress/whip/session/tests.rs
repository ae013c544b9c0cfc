//! WHIP sessions with the room state, called as by the driver.

use conclave_model::ingress::{IngressStatus, InputType, StreamKeyHash};
use conclave_sfu::{Codec, Command, Quality};

use super::*;
use crate::embedded::effect::RoomEffect;
use crate::embedded::error::RoomStateError;
use crate::embedded::ingress::whip::offer::announced_tracks;
use crate::embedded::room_state::tests::endpoint;
use crate::port::MediaEvent;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const ICE: &str = "a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n";

fn offer(sections: &str) -> String {
    format!("v=0\r\n{ICE}{sections}")
}

fn both() -> String {
    offer(
        "m=audio 9 X 111\r\na=mid:0\r\na=sendonly\r\na=rtpmap:111 opus/48000/2\r\n\
         m=video 9 X 97 96\r\na=mid:1\r\na=sendonly\r\na=msid:stream pictures\r\na=rtpmap:96 VP8/90000\r\n\
         a=rtpmap:97 H264/90000\r\n",
    )
}

/// A room state with a session that has just started.
struct Fixture {
    room_state: RoomState,
    key: StreamKeyHash,
    session: WhipSession,
    commands: Vec<Command>,
}

impl Fixture {
    fn new() -> Self {
        let mut room_state = RoomState::default();
        let key = endpoint(&mut room_state, InputType::Whip);
        let join = room_state
            .request_encoder(&key, InputType::Whip, NOW)
            .unwrap();
        room_state.admit_encoder(&join.sid, NOW).unwrap();
        let session = WhipSession::start(
            &mut room_state,
            join,
            both(),
            &announced_tracks(&both()).unwrap(),
        )
        .unwrap();
        let mut fixture = Self {
            room_state,
            key,
            session,
            commands: Vec::new(),
        };
        fixture.deliver();
        fixture
    }

    fn media(&mut self, event: PeerEvent) -> bool {
        let is_joining = self.session.handle_media(&mut self.room_state, event, NOW);
        self.deliver();
        is_joining
    }

    /// Negotiates the tracks and connects the media.
    fn publish(&mut self) {
        let announced = self.commands.iter().filter_map(|command| match command {
            Command::Peer {
                command: PeerCommand::PublishTrack(track),
                ..
            } => Some((track.sid.clone(), track.codec.unwrap())),
            _ => None,
        });
        for (track, codec) in announced.collect::<Vec<_>>() {
            self.media(PeerEvent::TrackPublished {
                track,
                mid: "0".into(),
                codec,
                layers: vec![Quality::Low],
            });
        }
        assert!(self.media(PeerEvent::Connected));
        let sid = self.session.join.sid.clone();
        self.room_state.complete_join(&sid, NOW);
        self.deliver();
    }

    fn deliver(&mut self) {
        for effect in self.room_state.take_effects() {
            match effect {
                RoomEffect::Command(command) => self.commands.push(command),
                RoomEffect::Notify { notice, .. } => self.session.handle_notice(&notice),
                RoomEffect::OpenMedia | RoomEffect::CloseMedia => {}
                RoomEffect::Job { .. } => panic!("{effect:?}"),
            }
        }
    }

    fn statuses(&mut self) -> Vec<IngressStatus> {
        let status = |event| {
            if let MediaEvent::Ingress(state) = event {
                Some(state.status)
            } else {
                None
            }
        };
        self.room_state
            .take_reports()
            .into_iter()
            .filter_map(|report| status(report.event))
            .collect()
    }

    fn patch(
        &mut self,
        condition: Option<&str>,
        fragment: &str,
    ) -> Result<PatchOutcome, WhipPatchError> {
        let patch = WhipPatch {
            condition: condition.map(str::to_owned),
            fragment: fragment.into(),
        };
        self.session.patch(&mut self.room_state, &patch)
    }
}

#[test]
fn an_endpoint_buffers_publishes_and_is_inactive_again() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.statuses(), [IngressStatus::Buffering]);
    let second = fixture
        .room_state
        .vacant_endpoint(&fixture.key, InputType::Whip);
    assert_eq!(second.err(), Some(RoomStateError::EncoderConnected));
    fixture.publish();
    assert_eq!(fixture.statuses(), [IngressStatus::Publishing]);
    fixture
        .session
        .end(&mut fixture.room_state, Departure::Left, NOW);
    fixture.deliver();
    assert_eq!(fixture.statuses(), [IngressStatus::Inactive]);
    assert!(
        fixture.session.is_over()
            && fixture
                .room_state
                .vacant_endpoint(&fixture.key, InputType::Whip)
                .is_ok()
    );
}

#[test]
fn an_offer_that_the_media_worker_cannot_use_is_an_error_of_the_endpoint_until_the_next_encoder() {
    let mut fixture = Fixture::new();
    fixture.media(PeerEvent::Failed(FailureReason::Negotiation));
    assert_eq!(
        fixture.statuses(),
        [IngressStatus::Buffering, IngressStatus::Error]
    );
    assert!(fixture.session.is_over() && fixture.session.refusal() == UNUSABLE);
    let join = fixture
        .room_state
        .request_encoder(&fixture.key, InputType::Whip, NOW)
        .unwrap();
    fixture.room_state.admit_encoder(&join.sid, NOW).unwrap();
    assert_eq!(fixture.statuses(), [IngressStatus::Buffering]);
}

#[test]
fn a_closed_connection_leaves_time_for_the_request_that_ends_the_session() {
    let mut fixture = Fixture::new();
    fixture.publish();
    fixture.media(PeerEvent::Failed(FailureReason::Closed));
    let deadline = fixture.session.next_deadline().unwrap();
    fixture.session.tick(&mut fixture.room_state, NOW);
    fixture.deliver();
    assert!(!fixture.session.is_over());
    fixture.room_state.set_reading(deadline);
    fixture.session.tick(&mut fixture.room_state, NOW);
    fixture.deliver();
    assert!(fixture.session.is_over());
}

#[test]
fn a_patch_needs_the_entity_tag_of_now_and_restarts_ice_with_other_credentials() {
    let mut fixture = Fixture::new();
    let tag = fixture.session.etag().to_owned();
    assert_eq!(fixture.patch(None, ICE), Err(WhipPatchError::NoCondition));
    assert_eq!(
        fixture.patch(Some("\"x\""), ICE),
        Err(WhipPatchError::Stale)
    );
    assert_eq!(
        fixture.patch(Some(&format!("\"x\", {tag}")), ICE),
        Ok(PatchOutcome::Accepted)
    );
    assert_eq!(fixture.patch(Some("*"), ICE), Ok(PatchOutcome::Accepted));
    assert!(matches!(
        fixture.patch(Some("*"), "a=x:1"),
        Err(WhipPatchError::BadFragment(_))
    ));
    assert_eq!(fixture.session.etag(), tag);
    let other = ICE.replace("EsAw", "Other");
    assert_eq!(
        fixture.patch(Some(&tag), &other),
        Ok(PatchOutcome::Restarting)
    );
    assert_ne!(fixture.session.etag(), tag);
    fixture.deliver();
    let Some(Command::Peer {
        command: PeerCommand::Offer {
            offer_id: 2, sdp, ..
        },
        ..
    }) = fixture.commands.last()
    else {
        panic!("{:?}", fixture.commands)
    };
    assert!(sdp.contains("a=ice-ufrag:Other"));
    // The answer to the first offer is too late.
    for (offer_id, taken) in [(1, None), (2, Some("answer".to_owned()))] {
        fixture.media(PeerEvent::Answered {
            offer_id,
            sdp: "answer".into(),
            mid_to_track_id: Vec::new(),
        });
        assert_eq!(fixture.session.take_answer(), taken);
    }
}

#[test]
fn an_encoder_that_is_transcoded_has_a_connection_beside_its_participant() {
    let mut room_state = RoomState::default();
    let key = endpoint(&mut room_state, InputType::Whip);
    let join = EncoderJoin {
        is_transcoded: true,
        ..room_state
            .request_encoder(&key, InputType::Whip, NOW)
            .unwrap()
    };
    room_state.admit_encoder(&join.sid, NOW).unwrap();
    room_state.take_reports();
    room_state.take_effects();
    let start = |room_state: &mut RoomState, offer: String| {
        let tracks = announced_tracks(&offer).unwrap();
        WhipSession::start(room_state, join.clone(), offer, &tracks).unwrap()
    };
    let mut session = start(&mut room_state, both());
    let peer = session.intake().unwrap().clone();
    assert_ne!(peer, join.sid);
    let commands = session.take_commands();
    let Some((Command::AddPeer(added), others)) = commands.split_first() else {
        panic!("{commands:?}")
    };
    assert_eq!((&added.sid, added.mode), (&peer, ConnectionMode::Single));
    let [
        Command::Peer {
            command: PeerCommand::PublishTrack(audio),
            ..
        },
        Command::Peer {
            command: PeerCommand::PublishTrack(video),
            ..
        },
        Command::Peer {
            command: PeerCommand::Offer { offer_id: 1, .. },
            peer: offered,
        },
    ] = others
    else {
        panic!("{others:?}")
    };
    assert_eq!(
        (audio.codec, video.codec),
        (Some(Codec::Opus), Some(Codec::H264))
    );
    assert_eq!(offered, &peer);
    // Events of the private peer do not concern the participant.
    let published = PeerEvent::TrackPublished {
        track: video.sid.clone(),
        mid: "1".into(),
        codec: Codec::H264,
        layers: vec![Quality::Low],
    };
    for event in [
        PeerEvent::Connected,
        published,
        PeerEvent::TrackEnded(audio.sid.clone()),
    ] {
        assert!(!session.handle_media(&mut room_state, event, NOW));
    }
    assert!(room_state.take_reports().is_empty() && room_state.take_effects().is_empty());
    let patch = WhipPatch {
        condition: Some("*".into()),
        fragment: ICE.replace("EsAw", "Other"),
    };
    assert_eq!(
        session.patch(&mut room_state, &patch),
        Ok(PatchOutcome::Restarting)
    );
    assert!(matches!(
        session.take_commands().as_slice(),
        [Command::Peer {
            command: PeerCommand::Offer { offer_id: 2, .. },
            ..
        }]
    ));
    session.handle_media(
        &mut room_state,
        PeerEvent::Failed(FailureReason::Negotiation),
        NOW,
    );
    assert_eq!(session.refusal(), UNUSABLE);
    assert!(room_state.vacant_endpoint(&key, InputType::Whip).is_ok());
}

#[test]
fn audio_alone_is_not_transcoded() {
    let mut room_state = RoomState::default();
    let key = endpoint(&mut room_state, InputType::Whip);
    let join = EncoderJoin {
        is_transcoded: true,
        ..room_state
            .request_encoder(&key, InputType::Whip, NOW)
            .unwrap()
    };
    room_state.admit_encoder(&join.sid, NOW).unwrap();
    let audio = offer("m=audio 9 X 111\r\na=mid:0\r\na=sendonly\r\na=rtpmap:111 opus/48000/2\r\n");
    let tracks = announced_tracks(&audio).unwrap();
    let mut session = WhipSession::start(&mut room_state, join, audio, &tracks).unwrap();
    assert!(session.intake().is_none() && session.take_commands().is_empty());
}
