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

fn begin(machine: &mut Machine, source: EgressSource) -> EgressId {
    let id = machine.unused_egress_id();
    machine.begin_job(id.clone(), source, NOW);
    id
}

fn publish(machine: &mut Machine, sid: &ParticipantSid, track: &str, codec: Codec) {
    let is_audio = codec == Codec::Opus;
    let publisher = machine.roster.get_mut(sid).unwrap();
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
    machine.notify_changed(sid);
}

/// Returns the effects on egresses and media workers since the last call: `attend` with the participants, `+` and `-`
/// with tracks.
fn told(machine: &mut Machine) -> Vec<String> {
    let effects = machine
        .take_effects()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Job {
                effect: JobEffect::Attend { attendees, .. },
                ..
            } => {
                let names: Vec<_> = attendees
                    .iter()
                    .map(|attendee| attendee.identity.as_str())
                    .collect();
                Some(format!("attend {}", names.join(" ")).trim().to_owned())
            }
            Effect::Job {
                effect: JobEffect::Attach { track, .. },
                ..
            } => Some(format!("+{track}")),
            Effect::Job {
                effect: JobEffect::Stop,
                ..
            } => Some("stop".into()),
            Effect::Command(Command::Peer {
                command: PeerCommand::DetachRecorder { track, .. },
                ..
            }) => Some(format!("-{track}")),
            Effect::Command(_) | Effect::Notify { .. } | Effect::OpenMedia | Effect::CloseMedia => {
                None
            }
        });
    effects.collect()
}

#[test]
fn an_egress_follows_participants_and_tracks_and_knows_of_them_before_their_packets() {
    let mut machine = Machine::default();
    begin(&mut machine, COMPOSITE);
    assert_eq!(told(&mut machine), ["attend"]);
    let alice = joined(&mut machine, "alice");
    assert_eq!(told(&mut machine), ["attend alice"]);
    publish(&mut machine, &alice, "TR_camera", Codec::Vp8);
    assert_eq!(told(&mut machine), ["attend alice", "+TR_camera"]);
    machine
        .mute(&alice, &"TR_camera".parse().unwrap(), true, NOW)
        .unwrap();
    assert_eq!(
        told(&mut machine),
        ["attend alice"],
        "a muted track is shown as muted"
    );
    machine
        .unpublish(&alice, &"TR_camera".parse().unwrap(), NOW)
        .unwrap();
    assert_eq!(told(&mut machine), ["attend alice", "-TR_camera"]);
    machine.leave(&alice, Departure::Left, NOW).unwrap();
    assert_eq!(told(&mut machine), ["attend"]);
}

#[test]
fn hidden_participants_and_what_is_not_asked_for_are_not_recorded() {
    let mut machine = Machine::default();
    let alice = joined(&mut machine, "alice");
    let ghost = join(&mut machine, hidden(claims(&room(), "ghost", None)));
    for (sid, track, codec) in [
        (&alice, "TR_a", Codec::Opus),
        (&alice, "TR_v", Codec::Vp8),
        (&ghost, "TR_g", Codec::Opus),
    ] {
        publish(&mut machine, sid, track, codec);
    }
    machine.take_effects();
    let composite = |media| EgressSource::RoomComposite {
        layout: Layout::Grid,
        media,
    };
    let [audio_only, video_only] =
        [CompositeMedia::AudioOnly, CompositeMedia::VideoOnly].map(composite);
    let track = EgressSource::Track("TR_v".parse().unwrap());
    let nobody = EgressSource::Participant("ghost".parse().unwrap());
    for (source, expected) in [
        (audio_only, &["attend alice", "+TR_a"][..]),
        (video_only, &["attend alice", "+TR_v"]),
        (track, &["attend alice", "+TR_v"]),
        (nobody, &["attend"]),
    ] {
        begin(&mut machine, source);
        assert_eq!(told(&mut machine), expected);
    }
    let codec = |track: &str| machine.codec_of(&track.parse().unwrap());
    assert_eq!((codec("TR_v"), codec("TR_g")), (Some(Codec::Vp8), None));
}

/// Publishes a track that its client declares to be encrypted.
fn publish_encrypted(
    machine: &mut Machine,
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
    let publisher = machine.roster.get_mut(sid).unwrap();
    publisher
        .client
        .get_or_insert_default()
        .tracks
        .insert_negotiated(track.parse().unwrap(), info);
    publish(machine, sid, track, codec);
}

#[test]
fn encrypted_tracks_are_left_out_and_their_publisher_is_still_named() {
    for encryption in [EncryptionType::Gcm, EncryptionType::Custom] {
        let mut machine = Machine::default();
        let (alice, bob) = (joined(&mut machine, "alice"), joined(&mut machine, "bob"));
        publish_encrypted(&mut machine, &alice, "TR_secret", Codec::Opus, encryption);
        publish_encrypted(
            &mut machine,
            &alice,
            "TR_clear",
            Codec::Vp8,
            EncryptionType::None,
        );
        publish_encrypted(&mut machine, &bob, "TR_bob", Codec::Vp8, encryption);
        machine.take_effects();
        let id = begin(&mut machine, COMPOSITE);
        assert_eq!(told(&mut machine), ["attend alice bob", "+TR_clear"]);
        let logged = |machine: &mut Machine| {
            let egress = machine.egresses.egress_mut(&id).unwrap();
            let left_out = egress.attendance().unwrap().encrypted().iter();
            left_out.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(logged(&mut machine), ["TR_bob", "TR_secret"]);
        publish_encrypted(&mut machine, &bob, "TR_later", Codec::Opus, encryption);
        assert_eq!(
            told(&mut machine),
            [""; 0],
            "nothing has changed for the recording"
        );
        assert_eq!(logged(&mut machine), ["TR_bob", "TR_later", "TR_secret"]);
    }
}

#[test]
fn a_recording_of_encrypted_tracks_alone_is_refused_and_names_the_field() {
    let mut machine = Machine::default();
    let (alice, bob) = (joined(&mut machine, "alice"), joined(&mut machine, "bob"));
    joined(&mut machine, "carol");
    publish_encrypted(
        &mut machine,
        &alice,
        "TR_secret",
        Codec::Opus,
        EncryptionType::Gcm,
    );
    publish_encrypted(
        &mut machine,
        &bob,
        "TR_bob",
        Codec::Opus,
        EncryptionType::Gcm,
    );
    publish_encrypted(
        &mut machine,
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
        let field = match machine.check_encryption(&source) {
            Err(MediaError::Encrypted { field }) => Some(field),
            other => other.map(|()| None).unwrap(),
        };
        assert_eq!(field, expected, "{source:?}");
    }
}

#[test]
fn an_egress_that_ended_gets_no_more_packets() {
    let mut machine = Machine::default();
    let alice = joined(&mut machine, "alice");
    publish(&mut machine, &alice, "TR_a", Codec::Opus);
    let id = begin(&mut machine, COMPOSITE);
    assert_eq!(told(&mut machine), ["attend alice", "+TR_a"]);
    machine.handle_job_event(
        &id,
        EgressEvent::Ended {
            status: EgressStatus::Complete,
            error: None,
        },
        NOW,
    );
    assert_eq!(told(&mut machine), ["-TR_a"]);
}

#[test]
fn the_status_of_an_egress_with_ffmpeg_is_what_ffmpeg_makes_of_it() {
    let mut machine = Machine::default();
    let alice = joined(&mut machine, "alice");
    publish(&mut machine, &alice, "TR_a", Codec::Opus);
    let id = begin(&mut machine, COMPOSITE);
    let egress = machine.egresses.egress_mut(&id);
    assert_eq!(egress.and_then(|egress| egress.deadline()), None);
    let later = NOW.after(Duration::from_secs(60));
    machine.tick_at(later);
    let status = |machine: &Machine| machine.egress(&id).unwrap().status;
    assert_eq!(
        status(&machine),
        EgressStatus::Starting,
        "time changes nothing"
    );
    machine.handle_job_event(&id, EgressEvent::Active, NOW);
    assert_eq!(status(&machine), EgressStatus::Active);
    told(&mut machine);
    machine.close(NOW);
    assert_eq!(
        (status(&machine), machine.next_deadline()),
        (EgressStatus::Ending, None)
    );
    assert!(told(&mut machine).contains(&"stop".to_owned()));
    machine.take_reports();
    let failed = EgressEvent::Ended {
        status: EgressStatus::Failed,
        error: Some("No space left on device".into()),
    };
    machine.handle_job_event(&id, failed, NOW);
    let reports = machine.take_reports();
    let Some(MediaEvent::Egress(state)) = reports.last().map(|report| &report.event) else {
        panic!("{reports:?}")
    };
    assert_eq!(
        (state.status, state.error.as_deref()),
        (EgressStatus::Failed, Some("No space left on device"))
    );
}

#[test]
fn an_egress_knows_whether_its_room_is_empty_also_of_participants_that_it_does_not_contain() {
    let mut machine = Machine::default();
    begin(
        &mut machine,
        EgressSource::Participant("alice".parse().unwrap()),
    );
    let is_empty = |machine: &mut Machine| -> Vec<bool> {
        let effects = machine
            .take_effects()
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Job {
                    effect: JobEffect::Attend { is_room_empty, .. },
                    ..
                } => Some(is_room_empty),
                _ => None,
            });
        effects.collect()
    };
    assert_eq!(is_empty(&mut machine), [true]);
    let bob = joined(&mut machine, "bob");
    assert_eq!(is_empty(&mut machine), [false]);
    let ghost = join(&mut machine, hidden(claims(&room(), "ghost", None)));
    machine.leave(&bob, Departure::Left, NOW).unwrap();
    assert!(is_empty(&mut machine).is_empty(), "the hidden one is there");
    machine.leave(&ghost, Departure::Left, NOW).unwrap();
    assert_eq!(is_empty(&mut machine), [true]);
}
