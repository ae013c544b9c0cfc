//! Participants with clients: joins, announcements and notices.

use conclave_model::TrackSid;
use conclave_model::event::Departure;
use conclave_model::ingress::IngressStatus;
use conclave_sfu::{Codec, Command, PeerCommand, ServerMessage};
use livekit_protocol::{AddTrackRequest, TrackSource as ProtoSource, TrackType};

use super::*;
use crate::embedded::announcement::MediaSection;
use crate::embedded::client::{Client, Subscriptions};
use crate::embedded::effect::{ClientNotice, Effect};
use crate::embedded::machine::media_tracks::AnnounceError;

/// Starts the join of a client that wants all tracks.
fn request(machine: &mut Machine, claims: Claims) -> Result<ParticipantSid, MachineError> {
    let client = Client {
        subscriptions: Subscriptions::new(true),
        ..Client::default()
    };
    machine.request_join(claims, client, NOW)
}

fn connected(machine: &mut Machine, claims: Claims) -> ParticipantSid {
    let sid = request(machine, claims).unwrap();
    machine.admit(&sid, NOW).unwrap();
    assert!(machine.connected(&sid, NOW));
    machine.complete_join(&sid, NOW);
    sid
}

fn client(machine: &mut Machine, identity: &str) -> ParticipantSid {
    connected(machine, claims(&room(), identity, None))
}

fn announcement(cid: &str, kind: TrackType) -> AddTrackRequest {
    let source = if kind == TrackType::Video {
        ProtoSource::Camera
    } else {
        ProtoSource::Microphone
    };
    AddTrackRequest {
        cid: cid.to_owned(),
        r#type: kind.into(),
        source: source.into(),
        width: 640,
        height: 360,
        ..AddTrackRequest::default()
    }
}

/// Announces and negotiates a client's track.
fn publish(machine: &mut Machine, sid: &ParticipantSid, cid: &str, codec: Codec) -> TrackSid {
    let kind = if codec == Codec::Opus {
        TrackType::Audio
    } else {
        TrackType::Video
    };
    publish_announced(machine, sid, &announcement(cid, kind), codec)
}

fn publish_announced(
    machine: &mut Machine,
    sid: &ParticipantSid,
    announcement: &AddTrackRequest,
    codec: Codec,
) -> TrackSid {
    let track = machine
        .announce_track(sid, announcement)
        .unwrap()
        .sid
        .parse()
        .unwrap();
    let section = MediaSection {
        mid: announcement.cid.clone(),
        codec,
        layers: Vec::new(),
    };
    machine.track_negotiated(sid, &track, section, NOW);
    track
}

/// Takes the commands for the media worker.
fn commands(machine: &mut Machine) -> Vec<Command> {
    let effects = machine.take_effects().into_iter();
    effects
        .filter_map(|effect| {
            if let Effect::Command(command) = effect {
                Some(command)
            } else {
                None
            }
        })
        .collect()
}

/// Takes the messages that the media worker must send.
fn messages(machine: &mut Machine) -> Vec<ServerMessage> {
    let commands = commands(machine).into_iter();
    commands
        .filter_map(|command| {
            if let Command::SendData(message) = command {
                Some(message)
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn a_refused_request_gives_its_seat_back() {
    let mut machine = Machine::default();
    let sid = request(&mut machine, claims(&room(), "alice", Some(1))).unwrap();
    assert_eq!(
        request(&mut machine, claims(&room(), "bob", Some(1))),
        Err(MachineError::RoomFull)
    );
    machine.cancel_request(&sid);
    assert!(machine.roster.is_unused() && machine.is_unused());
    assert!(request(&mut machine, claims(&room(), "bob", Some(1))).is_ok());
}

#[test]
fn of_two_joins_that_are_decided_at_once_a_token_of_a_code_gives_way() {
    let by_code = |exchange: &str| {
        let mut claims = claims(&room(), "alice", None);
        claims
            .attributes
            .insert("svc.exchange".into(), exchange.into());
        claims
    };
    let mut machine = Machine::default();
    let (guest, alice) = (
        request(&mut machine, by_code("x1")).unwrap(),
        request(&mut machine, claims(&room(), "alice", None)).unwrap(),
    );
    machine.admit(&alice, NOW).unwrap();
    machine.take_reports();
    assert_eq!(machine.admit(&guest, NOW), Err(MachineError::IdentityTaken));
    let aborted = machine.take_reports();
    assert!(
        matches!(&aborted[..], [Report { event: MediaEvent::JoinAborted { participant }, .. }] if participant.sid == guest)
    );
    assert!(machine.present(&alice).is_ok() && machine.roster.get(&guest).is_none());
    assert_eq!(
        request(&mut machine, by_code("x1")),
        Err(MachineError::IdentityTaken)
    );
    assert_eq!(
        machine.probe_join(by_code("x1"), NOW),
        Err(MachineError::IdentityTaken)
    );

    let bob = request(
        &mut machine,
        Claims {
            identity: "bob".parse().unwrap(),
            ..by_code("x2")
        },
    )
    .unwrap();
    machine.admit(&bob, NOW).unwrap();
    let again = request(
        &mut machine,
        Claims {
            identity: "bob".parse().unwrap(),
            ..by_code("x2")
        },
    )
    .unwrap();
    machine.admit(&again, NOW).unwrap();
    assert!(
        machine.present(&again).is_ok() && machine.roster.get(&bob).is_none(),
        "it replaces itself"
    );
}

#[test]
fn a_client_has_a_minute_to_connect_and_half_of_it_without_signalling() {
    let after = |seconds| NOW.after(Duration::from_secs(seconds));
    let mut machine = Machine::default();
    let alice = request(&mut machine, claims(&room(), "alice", None)).unwrap();
    assert_eq!(
        machine.next_deadline(),
        None,
        "the control plane is being asked"
    );
    machine.at(NOW).admit(&alice, NOW).unwrap();
    assert_eq!(machine.next_deadline(), Some(reading(after(60))));
    machine.at(after(10)).signal_lost(&alice);
    assert_eq!(machine.next_deadline(), Some(reading(after(40))));
    machine.at(after(20)).signal_lost(&alice);
    assert_eq!(
        machine.next_deadline(),
        Some(reading(after(40))),
        "a loss never gives more time"
    );
    machine.tick_at(after(40));
    assert!(machine.roster.is_unused() && machine.is_unused() && machine.next_deadline().is_none());

    let bob = client(&mut machine, "bob");
    assert_eq!(machine.next_deadline(), None, "connected");
    machine.at(after(50)).signal_lost(&bob);
    assert_eq!(machine.next_deadline(), None);
    machine.leave(&bob, Departure::Left, after(50)).unwrap();
    assert!(machine.roster.is_unused() && machine.is_unused());
}

#[test]
fn a_client_announces_all_its_tracks_before_the_first_has_a_section_and_each_once() {
    let mut machine = sandbox_machine();
    let alice = client(&mut machine, "alice");
    for number in 0..100 {
        machine
            .announce_track(
                &alice,
                &announcement(&format!("c{number}"), TrackType::Audio),
            )
            .unwrap();
    }
    assert_eq!(
        machine.announce_track(&alice, &announcement("c0", TrackType::Audio)),
        Err(AnnounceError::Queued)
    );
    let next = announcement("next", TrackType::Audio);
    assert_eq!(
        machine.announce_track(&alice, &next),
        Err(AnnounceError::LimitExceeded)
    );
}

#[test]
fn a_published_track_has_what_its_kind_has_and_its_client_said() {
    let mut machine = Machine::default();
    let alice = client(&mut machine, "alice");
    publish(&mut machine, &alice, "camera", Codec::Vp8);
    publish(&mut machine, &alice, "microphone", Codec::Opus);
    let other = AddTrackRequest {
        width: 0,
        height: 0,
        name: "other".to_owned(),
        ..announcement("other", TrackType::Video)
    };
    publish_announced(&mut machine, &alice, &other, Codec::Vp8);
    let published = machine.participant(&"alice".parse().unwrap()).unwrap();
    let shown: Vec<_> = published
        .tracks
        .iter()
        .map(|track| {
            (
                track.name.as_deref(),
                track.width,
                track.height,
                track.simulcast,
            )
        })
        .collect();
    let [camera, microphone] = [
        (None, Some(640), Some(360), Some(false)),
        (None, None, None, None),
    ];
    assert_eq!(
        shown,
        [camera, microphone, (Some("other"), None, None, Some(false))]
    );
    assert_eq!(machine.codec_of(&published.tracks[0].sid), Some(Codec::Vp8));
}

#[test]
fn participants_without_a_client_are_notified_of_nothing() {
    let mut machine = Machine::default();
    let sandbox = joined(&mut machine, "sandbox");
    connected(&mut machine, claims(&room(), "alice", None));
    let notified = machine.take_effects().into_iter();
    assert!(
        !notified
            .into_iter()
            .any(|effect| matches!(effect, Effect::Notify { to, .. } if to == sandbox))
    );
}

#[test]
fn a_track_is_forwarded_to_the_others_and_announced_by_its_publisher_alone() {
    let mut machine = Machine::default();
    let [alice, bob] = ["alice", "bob"].map(|identity| client(&mut machine, identity));
    let ghost = connected(&mut machine, hidden(claims(&room(), "ghost", None)));
    machine.take_effects();
    let camera = publish(&mut machine, &alice, "camera", Codec::Vp8);
    publish(&mut machine, &ghost, "microphone", Codec::Opus);
    let subscribed = |command| {
        if let Command::Peer {
            peer,
            command: PeerCommand::Subscribe(track),
        } = command
        {
            Some((peer, track))
        } else {
            None
        }
    };
    let forwarded: Vec<_> = commands(&mut machine)
        .into_iter()
        .filter_map(subscribed)
        .collect();
    assert_eq!(
        forwarded,
        [(bob.clone(), camera.clone()), (ghost, camera.clone())]
    );
    assert!(machine.has_announced(&alice, camera.as_str()));
    assert!(
        !machine.has_announced(&alice, "TR_other") && !machine.has_announced(&bob, camera.as_str())
    );
}

#[test]
fn an_endpoint_publishes_once_however_many_tracks_its_encoder_has() {
    let mut machine = Machine::default();
    let key = endpoint(&mut machine, InputType::Whip);
    let encoder = machine
        .request_encoder(&key, InputType::Whip, NOW)
        .unwrap()
        .sid;
    machine.admit_encoder(&encoder, NOW).unwrap();
    machine.connected(&encoder, NOW);
    machine.complete_join(&encoder, NOW);
    publish(&mut machine, &encoder, "camera", Codec::Vp8);
    publish(&mut machine, &encoder, "microphone", Codec::Opus);
    let status = |report: Report| {
        if let MediaEvent::Ingress(state) = report.event {
            Some(state.status)
        } else {
            None
        }
    };
    let statuses: Vec<_> = machine
        .take_reports()
        .into_iter()
        .filter_map(status)
        .collect();
    assert_eq!(
        statuses,
        [IngressStatus::Buffering, IngressStatus::Publishing]
    );
}

#[test]
fn only_a_client_that_could_subscribe_is_notified_that_it_may_not_receive_a_track() {
    let mut machine = Machine::default();
    machine.set_subscription_rules([("guest".parse().unwrap(), to_roles(&[]))].into());
    let guest = |identity: &str| with(claims(&room(), identity, None), "svc.role", "guest");
    connected(&mut machine, without_subscribing(guest("bob")));
    let carol = connected(&mut machine, guest("carol"));
    let alice = client(&mut machine, "alice");
    machine.take_effects();
    publish(&mut machine, &alice, "camera", Codec::Vp8);
    let permission = |effect| match effect {
        Effect::Notify {
            to,
            notice: ClientNotice::SubscriptionPermission { is_allowed, .. },
        } => Some((to, is_allowed)),
        _ => None,
    };
    let notified: Vec<_> = machine
        .take_effects()
        .into_iter()
        .filter_map(permission)
        .collect();
    assert_eq!(notified, [(carol, false)]);
}

#[test]
fn the_worker_reports_messages_while_somebody_without_a_client_receives_them() {
    let mut machine = sandbox_machine();
    assert!(machine.clients().is_empty());
    client(&mut machine, "alice");
    assert!(!machine.clients().is_empty());
    let reports = |machine: &mut Machine| -> Vec<bool> {
        let commands = commands(machine).into_iter();
        let enabled = |command| {
            if let Command::ReportMessages { enabled } = command {
                Some(enabled)
            } else {
                None
            }
        };
        commands.filter_map(enabled).collect()
    };
    machine.take_effects();
    let sandbox = joined(&mut machine, "sandbox");
    assert_eq!(reports(&mut machine), [true]);
    machine.leave(&sandbox, Departure::Left, NOW).unwrap();
    assert_eq!(reports(&mut machine), [false]);
}

#[test]
fn messages_go_to_clients_that_may_subscribe_and_only_then_to_the_worker() {
    let mut machine = Machine::default();
    let sandbox = joined(&mut machine, "sandbox");
    connected(
        &mut machine,
        without_subscribing(claims(&room(), "deaf", None)),
    );
    machine.take_effects();
    machine
        .send_data(&sandbox, b"hi".to_vec(), None, NOW)
        .unwrap();
    assert_eq!(messages(&mut machine).len(), 0, "nobody receives it");
    client(&mut machine, "alice");
    machine.take_effects();
    machine
        .send_data(&sandbox, b"hi".to_vec(), Some("chat"), NOW)
        .unwrap();
    let [message] = messages(&mut machine).try_into().unwrap();
    assert_eq!(
        (message.to, message.payload, message.topic.as_deref()),
        (vec!["alice".parse().unwrap()], b"hi".to_vec(), Some("chat"))
    );

    let to = |identities: &[&str]| ServerData {
        data: b"hi".to_vec(),
        topic: None,
        kind: DataKind::Lossy,
        to: identities
            .iter()
            .map(|identity| identity.parse().unwrap())
            .collect(),
    };
    machine.send_server_data(to(&["sandbox"]), NOW);
    assert_eq!(
        messages(&mut machine).len(),
        0,
        "nobody with a client is named"
    );
    machine.send_server_data(to(&["deaf"]), NOW);
    machine.send_server_data(to(&[]), NOW);
    assert_eq!(messages(&mut machine).len(), 2);
}

/// Proves S-49.
#[test]
fn a_participant_has_a_bounded_number_of_tracks_and_its_client_learns_that_one_is_refused() {
    let mut machine = Machine::new(room(), Arc::new(Common::new(2, true)));
    let alice = connected(&mut machine, claims(&room(), "alice", None));
    let announce = |machine: &mut Machine, cid: &str| {
        machine.announce_track(&alice, &announcement(cid, TrackType::Audio))
    };
    let first = announce(&mut machine, "c0").unwrap();
    announce(&mut machine, "c1").unwrap();
    assert_eq!(
        announce(&mut machine, "c2"),
        Err(AnnounceError::LimitExceeded)
    );
    machine.track_ended(&alice, &first.sid.parse().unwrap(), NOW);
    assert!(
        announce(&mut machine, "c2").is_ok(),
        "a track that has ended makes room"
    );

    let bob = joined(&mut machine, "bob");
    machine.publish(&bob, camera(), NOW).unwrap();
    machine.publish(&bob, microphone(), NOW).unwrap();
    assert_eq!(
        machine.publish(&bob, camera(), NOW),
        Err(MachineError::TooManyTracks)
    );
}
