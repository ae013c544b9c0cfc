//! Inputs of recordings and broadcasts.

use conclave_model::egress::{CompositeMedia, Layout};
use conclave_model::participant::Track;
use conclave_sfu::Command;
use livekit_protocol::TrackInfo;
use livekit_protocol::encryption::Type as EncryptionType;

use super::*;
use crate::embedded::effect::JobEffect;

const COMPOSITE: EgressSource = EgressSource::RoomComposite {
    layout: Layout::Grid,
    media: CompositeMedia::Both,
};

fn start(room_state: &mut RoomState, source: EgressSource) -> EgressId {
    let id = room_state.unused_egress_id();
    room_state.add_job(id.clone(), source, NOW);
    id
}

fn publish(room_state: &mut RoomState, sid: &ParticipantSid, track: &str, codec: Codec) {
    let is_audio = codec == Codec::Opus;
    let publisher = room_state.roster.get_mut(sid).unwrap();
    publisher.add_track(Track {
        sid: track.parse().unwrap(),
        kind: if is_audio {
            TrackKind::Audio
        } else {
            TrackKind::Video
        },
        source: if is_audio {
            TrackSource::Microphone
        } else {
            TrackSource::Camera
        },
        muted: false,
        name: None,
        width: None,
        height: None,
        simulcast: None,
        mime_type: Some(codec.mime_type().into()),
    });
    room_state.notify_changed(sid);
}

/// Returns the effects on egresses and media workers since the last call: `inputs` with the participants, `+` and `-`
/// with tracks.
fn effects(room_state: &mut RoomState) -> Vec<String> {
    let effects = room_state
        .take_effects()
        .into_iter()
        .filter_map(|effect| match effect {
            RoomEffect::Job {
                effect: JobEffect::SetInputs { inputs, .. },
                ..
            } => {
                let names: Vec<_> = inputs.iter().map(|input| input.identity.as_str()).collect();
                Some(format!("inputs {}", names.join(" ")).trim().to_owned())
            }
            RoomEffect::Job {
                effect: JobEffect::Attach { track, .. },
                ..
            } => Some(format!("+{track}")),
            RoomEffect::Job {
                effect: JobEffect::SetPaused(paused),
                ..
            } => Some(if paused { "pause" } else { "resume" }.into()),
            RoomEffect::Job {
                effect: JobEffect::Stop,
                ..
            } => Some("stop".into()),
            RoomEffect::Command(Command::Peer {
                command: PeerCommand::DetachRecorder { track, .. },
                ..
            }) => Some(format!("-{track}")),
            RoomEffect::Command(_)
            | RoomEffect::Notify { .. }
            | RoomEffect::OpenMedia
            | RoomEffect::CloseMedia => None,
        });
    effects.collect()
}

#[test]
fn an_egress_follows_participants_and_tracks_and_knows_of_them_before_their_packets() {
    let mut room_state = RoomState::default();
    start(&mut room_state, COMPOSITE);
    assert_eq!(effects(&mut room_state), ["inputs"]);
    let alice = joined(&mut room_state, "alice");
    assert_eq!(effects(&mut room_state), ["inputs alice"]);
    publish(&mut room_state, &alice, "TR_camera", Codec::Vp8);
    assert_eq!(effects(&mut room_state), ["inputs alice", "+TR_camera"]);
    room_state
        .mute(&alice, &"TR_camera".parse().unwrap(), true, NOW)
        .unwrap();
    assert_eq!(
        effects(&mut room_state),
        ["inputs alice"],
        "a muted track is shown as muted"
    );
    room_state
        .unpublish(&alice, &"TR_camera".parse().unwrap(), NOW)
        .unwrap();
    assert_eq!(effects(&mut room_state), ["inputs alice", "-TR_camera"]);
    room_state.leave(&alice, Departure::Left, NOW).unwrap();
    assert_eq!(effects(&mut room_state), ["inputs"]);
}

#[test]
fn hidden_participants_and_what_is_not_asked_for_are_not_recorded() {
    let mut room_state = RoomState::default();
    let alice = joined(&mut room_state, "alice");
    let ghost = join(&mut room_state, hidden(claims(&room(), "ghost", None)));
    for (sid, track, codec) in [
        (&alice, "TR_a", Codec::Opus),
        (&alice, "TR_v", Codec::Vp8),
        (&ghost, "TR_g", Codec::Opus),
    ] {
        publish(&mut room_state, sid, track, codec);
    }
    room_state.take_effects();
    let composite = |media| EgressSource::RoomComposite {
        layout: Layout::Grid,
        media,
    };
    let [audio_only, video_only] =
        [CompositeMedia::AudioOnly, CompositeMedia::VideoOnly].map(composite);
    let track = EgressSource::Track("TR_v".parse().unwrap());
    let nobody = EgressSource::Participant("ghost".parse().unwrap());
    for (source, expected) in [
        (audio_only, &["inputs alice", "+TR_a"][..]),
        (video_only, &["inputs alice", "+TR_v"]),
        (track, &["inputs alice", "+TR_v"]),
        (nobody, &["inputs"]),
    ] {
        start(&mut room_state, source);
        assert_eq!(effects(&mut room_state), expected);
    }
    let codec = |track: &str| room_state.codec_of(&track.parse().unwrap());
    assert_eq!((codec("TR_v"), codec("TR_g")), (Some(Codec::Vp8), None));
}

/// Publishes a track that its client declares to be encrypted.
fn publish_encrypted(
    room_state: &mut RoomState,
    sid: &ParticipantSid,
    track: &str,
    codec: Codec,
    encryption: EncryptionType,
) {
    let info = TrackInfo {
        sid: track.into(),
        encryption: encryption.into(),
        ..TrackInfo::default()
    };
    let publisher = room_state.roster.get_mut(sid).unwrap();
    publisher
        .client
        .get_or_insert_default()
        .tracks
        .insert_negotiated(track.parse().unwrap(), info);
    publish(room_state, sid, track, codec);
}

#[test]
fn encrypted_tracks_are_left_out_and_their_publisher_is_still_named() {
    for encryption in [EncryptionType::Gcm, EncryptionType::Custom] {
        let mut room_state = RoomState::default();
        let (alice, bob) = (
            joined(&mut room_state, "alice"),
            joined(&mut room_state, "bob"),
        );
        publish_encrypted(
            &mut room_state,
            &alice,
            "TR_secret",
            Codec::Opus,
            encryption,
        );
        publish_encrypted(
            &mut room_state,
            &alice,
            "TR_clear",
            Codec::Vp8,
            EncryptionType::None,
        );
        publish_encrypted(&mut room_state, &bob, "TR_bob", Codec::Vp8, encryption);
        room_state.take_effects();
        let id = start(&mut room_state, COMPOSITE);
        assert_eq!(effects(&mut room_state), ["inputs alice bob", "+TR_clear"]);
        let logged = |room_state: &mut RoomState| {
            let egress = room_state.egresses.egress_mut(&id).unwrap();
            let left_out = egress.inputs().unwrap().encrypted().iter();
            left_out.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(logged(&mut room_state), ["TR_bob", "TR_secret"]);
        publish_encrypted(&mut room_state, &bob, "TR_later", Codec::Opus, encryption);
        assert_eq!(
            effects(&mut room_state),
            [""; 0],
            "nothing has changed for the recording"
        );
        assert_eq!(logged(&mut room_state), ["TR_bob", "TR_later", "TR_secret"]);
    }
}

#[test]
fn a_recording_of_encrypted_tracks_alone_is_refused_and_names_the_field() {
    let mut room_state = RoomState::default();
    let (alice, bob) = (
        joined(&mut room_state, "alice"),
        joined(&mut room_state, "bob"),
    );
    joined(&mut room_state, "carol");
    publish_encrypted(
        &mut room_state,
        &alice,
        "TR_secret",
        Codec::Opus,
        EncryptionType::Gcm,
    );
    publish_encrypted(
        &mut room_state,
        &bob,
        "TR_bob",
        Codec::Opus,
        EncryptionType::Gcm,
    );
    publish_encrypted(
        &mut room_state,
        &bob,
        "TR_clear",
        Codec::Vp8,
        EncryptionType::None,
    );
    let track = |sid: &str| EgressSource::Track(sid.parse().unwrap());
    let participant = |identity: &str| EgressSource::Participant(identity.parse().unwrap());
    for (source, expected) in [
        (track("TR_secret"), Some("track_id")),
        (track("TR_clear"), None),
        (track("TR_unknown"), None),
        (participant("alice"), Some("identity")),
        (participant("bob"), None),
        (participant("carol"), None),
        (COMPOSITE, None),
    ] {
        let field = match room_state.check_encryption(&source) {
            Err(MediaError::Encrypted { field }) => Some(field),
            other => other.map(|()| None).unwrap(),
        };
        assert_eq!(field, expected, "{source:?}");
    }
}

#[test]
fn an_egress_that_ended_gets_no_more_packets() {
    let mut room_state = RoomState::default();
    let alice = joined(&mut room_state, "alice");
    publish(&mut room_state, &alice, "TR_a", Codec::Opus);
    let id = start(&mut room_state, COMPOSITE);
    assert_eq!(effects(&mut room_state), ["inputs alice", "+TR_a"]);
    room_state.handle_job_event(
        &id,
        EgressEvent::Ended {
            status: EgressStatus::Complete,
            error: None,
        },
        NOW,
    );
    assert_eq!(effects(&mut room_state), ["-TR_a"]);
}

#[test]
fn the_status_of_an_egress_with_ffmpeg_is_what_ffmpeg_makes_of_it() {
    let mut room_state = RoomState::default();
    let alice = joined(&mut room_state, "alice");
    publish(&mut room_state, &alice, "TR_a", Codec::Opus);
    let id = start(&mut room_state, COMPOSITE);
    let egress = room_state.egresses.egress_mut(&id);
    assert_eq!(egress.and_then(|egress| egress.deadline()), None);
    let later = NOW.after(Duration::from_secs(60));
    room_state.tick_at(later);
    let status = |room_state: &RoomState| room_state.egress(&id).unwrap().status;
    assert_eq!(
        status(&room_state),
        EgressStatus::Starting,
        "time changes nothing"
    );
    room_state.handle_job_event(&id, EgressEvent::Active, NOW);
    assert_eq!(status(&room_state), EgressStatus::Active);
    effects(&mut room_state);
    room_state.close(NOW);
    assert_eq!(
        (status(&room_state), room_state.next_deadline()),
        (EgressStatus::Ending, None)
    );
    assert!(effects(&mut room_state).contains(&"stop".to_owned()));
    room_state.take_reports();
    let failed = EgressEvent::Ended {
        status: EgressStatus::Failed,
        error: Some("No space left on device".into()),
    };
    room_state.handle_job_event(&id, failed, NOW);
    let reports = room_state.take_reports();
    let Some(MediaEvent::Egress(state)) = reports.last().map(|report| &report.event) else {
        panic!("{reports:?}")
    };
    assert_eq!(
        (state.status, state.error.as_deref()),
        (EgressStatus::Failed, Some("No space left on device"))
    );
}

#[test]
fn a_running_egress_is_paused_and_resumed_and_a_stopped_or_unknown_one_is_not() {
    let mut room_state = RoomState::default();
    let id = start(&mut room_state, COMPOSITE);
    effects(&mut room_state);
    for (paused, effect) in [(true, "pause"), (false, "resume")] {
        assert!(room_state.set_egress_paused(&id, paused).is_some());
        assert_eq!(effects(&mut room_state), [effect]);
    }
    room_state.stop_egress(&id, NOW);
    effects(&mut room_state);
    let stopped = room_state.set_egress_paused(&id, true);
    assert_eq!(
        stopped.map(|state| state.status),
        Some(EgressStatus::Ending)
    );
    let unknown = "EG_unknown".parse().unwrap();
    assert_eq!(room_state.set_egress_paused(&unknown, true), None);
    assert_eq!(effects(&mut room_state), Vec::<String>::new());
}

#[test]
fn an_egress_knows_whether_its_room_is_empty_also_of_participants_that_it_does_not_contain() {
    let mut room_state = RoomState::default();
    start(
        &mut room_state,
        EgressSource::Participant("alice".parse().unwrap()),
    );
    let is_empty = |room_state: &mut RoomState| -> Vec<bool> {
        let effects = room_state
            .take_effects()
            .into_iter()
            .filter_map(|effect| match effect {
                RoomEffect::Job {
                    effect: JobEffect::SetInputs { is_room_empty, .. },
                    ..
                } => Some(is_room_empty),
                _ => None,
            });
        effects.collect()
    };
    assert_eq!(is_empty(&mut room_state), [true]);
    let bob = joined(&mut room_state, "bob");
    assert_eq!(is_empty(&mut room_state), [false]);
    let ghost = join(&mut room_state, hidden(claims(&room(), "ghost", None)));
    room_state.leave(&bob, Departure::Left, NOW).unwrap();
    assert!(
        is_empty(&mut room_state).is_empty(),
        "the hidden one is there"
    );
    room_state.leave(&ghost, Departure::Left, NOW).unwrap();
    assert_eq!(is_empty(&mut room_state), [true]);
}
