//! Participants with clients: joins, announcements and notices.

use conclave_model::TrackSid;
use conclave_model::event::Departure;
use conclave_model::ingress::IngressStatus;
use conclave_sfu::{Codec, Command, PeerCommand, ServerMessage};
use livekit_protocol::{AddTrackRequest, TrackSource as ProtoSource, TrackType};

use super::*;
use crate::embedded::announcement::MediaSection;
use crate::embedded::client::{Client, Subscriptions};
use crate::embedded::effect::{ClientNotice, RoomEffect};
use crate::embedded::room_state::media_tracks::AnnounceError;

/// Starts the join of a client that receives all tracks.
fn request(room_state: &mut RoomState, claims: Claims) -> Result<ParticipantSid, RoomStateError> {
    let client = Client {
        subscriptions: Subscriptions::new(true),
        ..Client::default()
    };
    room_state.request_join(claims, client, NOW)
}

fn connected(room_state: &mut RoomState, claims: Claims) -> ParticipantSid {
    let sid = request(room_state, claims).unwrap();
    room_state.admit(&sid, NOW).unwrap();
    assert!(room_state.connected(&sid, NOW));
    room_state.complete_join(&sid, NOW);
    sid
}

fn client(room_state: &mut RoomState, identity: &str) -> ParticipantSid {
    connected(room_state, claims(&room(), identity, None))
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
fn publish(room_state: &mut RoomState, sid: &ParticipantSid, cid: &str, codec: Codec) -> TrackSid {
    let kind = if codec == Codec::Opus {
        TrackType::Audio
    } else {
        TrackType::Video
    };
    publish_announced(room_state, sid, &announcement(cid, kind), codec)
}

fn publish_announced(
    room_state: &mut RoomState,
    sid: &ParticipantSid,
    announcement: &AddTrackRequest,
    codec: Codec,
) -> TrackSid {
    let track = room_state
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
    room_state.track_negotiated(sid, &track, section, NOW);
    track
}

/// Returns the commands for the media worker since the last call.
fn commands(room_state: &mut RoomState) -> Vec<Command> {
    let effects = room_state.take_effects().into_iter();
    effects
        .filter_map(|effect| {
            if let RoomEffect::Command(command) = effect {
                Some(command)
            } else {
                None
            }
        })
        .collect()
}

/// Returns the messages that the media worker must send, since the last call.
fn messages(room_state: &mut RoomState) -> Vec<ServerMessage> {
    let commands = commands(room_state).into_iter();
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
    let mut room_state = RoomState::default();
    let sid = request(&mut room_state, claims(&room(), "alice", Some(1))).unwrap();
    assert_eq!(
        request(&mut room_state, claims(&room(), "bob", Some(1))),
        Err(RoomStateError::RoomFull)
    );
    room_state.cancel_request(&sid);
    assert!(room_state.roster.is_unused() && room_state.is_unused());
    assert!(request(&mut room_state, claims(&room(), "bob", Some(1))).is_ok());
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
    let mut room_state = RoomState::default();
    let (guest, alice) = (
        request(&mut room_state, by_code("x1")).unwrap(),
        request(&mut room_state, claims(&room(), "alice", None)).unwrap(),
    );
    room_state.admit(&alice, NOW).unwrap();
    room_state.take_reports();
    assert_eq!(
        room_state.admit(&guest, NOW),
        Err(RoomStateError::IdentityTaken)
    );
    let aborted = room_state.take_reports();
    assert!(
        matches!(&aborted[..], [Report { event: MediaEvent::JoinAborted { participant }, .. }] if participant.sid == guest)
    );
    assert!(room_state.present(&alice).is_ok() && room_state.roster.get(&guest).is_none());
    assert_eq!(
        request(&mut room_state, by_code("x1")),
        Err(RoomStateError::IdentityTaken)
    );
    assert_eq!(
        room_state.probe_join(by_code("x1"), NOW),
        Err(RoomStateError::IdentityTaken)
    );

    let bob = request(
        &mut room_state,
        Claims {
            identity: "bob".parse().unwrap(),
            ..by_code("x2")
        },
    )
    .unwrap();
    room_state.admit(&bob, NOW).unwrap();
    let again = request(
        &mut room_state,
        Claims {
            identity: "bob".parse().unwrap(),
            ..by_code("x2")
        },
    )
    .unwrap();
    room_state.admit(&again, NOW).unwrap();
    assert!(
        room_state.present(&again).is_ok() && room_state.roster.get(&bob).is_none(),
        "it replaces itself"
    );
}

#[test]
fn a_client_has_a_minute_to_connect_and_half_of_it_without_signalling() {
    let after = |seconds| NOW.after(Duration::from_secs(seconds));
    let mut room_state = RoomState::default();
    let alice = request(&mut room_state, claims(&room(), "alice", None)).unwrap();
    assert_eq!(
        room_state.next_deadline(),
        None,
        "the control plane has not decided yet"
    );
    room_state.at(NOW).admit(&alice, NOW).unwrap();
    assert_eq!(room_state.next_deadline(), Some(reading(after(60))));
    room_state.at(after(10)).signal_lost(&alice);
    assert_eq!(room_state.next_deadline(), Some(reading(after(40))));
    room_state.at(after(20)).signal_lost(&alice);
    assert_eq!(
        room_state.next_deadline(),
        Some(reading(after(40))),
        "a loss never gives more time"
    );
    room_state.tick_at(after(40));
    assert!(
        room_state.roster.is_unused()
            && room_state.is_unused()
            && room_state.next_deadline().is_none()
    );

    let bob = client(&mut room_state, "bob");
    assert_eq!(room_state.next_deadline(), None, "connected");
    room_state.at(after(50)).signal_lost(&bob);
    assert_eq!(room_state.next_deadline(), None);
    room_state.leave(&bob, Departure::Left, after(50)).unwrap();
    assert!(room_state.roster.is_unused() && room_state.is_unused());
}

#[test]
fn a_client_announces_all_its_tracks_before_the_first_has_a_section_and_each_once() {
    let mut room_state = sandbox_room_state();
    let alice = client(&mut room_state, "alice");
    for number in 0..100 {
        room_state
            .announce_track(
                &alice,
                &announcement(&format!("c{number}"), TrackType::Audio),
            )
            .unwrap();
    }
    assert_eq!(
        room_state.announce_track(&alice, &announcement("c0", TrackType::Audio)),
        Err(AnnounceError::Queued)
    );
    let next = announcement("next", TrackType::Audio);
    assert_eq!(
        room_state.announce_track(&alice, &next),
        Err(AnnounceError::LimitExceeded)
    );
}

#[test]
fn a_published_track_has_what_its_kind_has_and_its_client_said() {
    let mut room_state = RoomState::default();
    let alice = client(&mut room_state, "alice");
    publish(&mut room_state, &alice, "camera", Codec::Vp8);
    publish(&mut room_state, &alice, "microphone", Codec::Opus);
    let other = AddTrackRequest {
        width: 0,
        height: 0,
        name: "other".to_owned(),
        ..announcement("other", TrackType::Video)
    };
    publish_announced(&mut room_state, &alice, &other, Codec::Vp8);
    let published = room_state.participant(&"alice".parse().unwrap()).unwrap();
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
    assert_eq!(
        room_state.codec_of(&published.tracks[0].sid),
        Some(Codec::Vp8)
    );
}

#[test]
fn participants_without_a_client_are_notified_of_nothing() {
    let mut room_state = RoomState::default();
    let sandbox = joined(&mut room_state, "sandbox");
    connected(&mut room_state, claims(&room(), "alice", None));
    let notified = room_state.take_effects().into_iter();
    assert!(
        !notified
            .into_iter()
            .any(|effect| matches!(effect, RoomEffect::Notify { to, .. } if to == sandbox))
    );
}

#[test]
fn a_track_is_forwarded_to_the_others_and_announced_by_its_publisher_alone() {
    let mut room_state = RoomState::default();
    let [alice, bob] = ["alice", "bob"].map(|identity| client(&mut room_state, identity));
    let ghost = connected(&mut room_state, hidden(claims(&room(), "ghost", None)));
    room_state.take_effects();
    let camera = publish(&mut room_state, &alice, "camera", Codec::Vp8);
    publish(&mut room_state, &ghost, "microphone", Codec::Opus);
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
    let forwarded: Vec<_> = commands(&mut room_state)
        .into_iter()
        .filter_map(subscribed)
        .collect();
    assert_eq!(
        forwarded,
        [(bob.clone(), camera.clone()), (ghost, camera.clone())]
    );
    assert!(room_state.has_announced(&alice, camera.as_str()));
    assert!(
        !room_state.has_announced(&alice, "TR_other")
            && !room_state.has_announced(&bob, camera.as_str())
    );
}

#[test]
fn an_endpoint_publishes_once_however_many_tracks_its_encoder_has() {
    let mut room_state = RoomState::default();
    let key = endpoint(&mut room_state, InputType::Whip);
    let encoder = room_state
        .request_encoder(&key, InputType::Whip, NOW)
        .unwrap()
        .sid;
    room_state.admit_encoder(&encoder, NOW).unwrap();
    room_state.connected(&encoder, NOW);
    room_state.complete_join(&encoder, NOW);
    publish(&mut room_state, &encoder, "camera", Codec::Vp8);
    publish(&mut room_state, &encoder, "microphone", Codec::Opus);
    let status = |report: Report| {
        if let MediaEvent::Ingress(state) = report.event {
            Some(state.status)
        } else {
            None
        }
    };
    let statuses: Vec<_> = room_state
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
    let mut room_state = RoomState::default();
    room_state.set_subscription_rules([("guest".parse().unwrap(), to_roles(&[]))].into());
    let guest = |identity: &str| with(claims(&room(), identity, None), "svc.role", "guest");
    connected(&mut room_state, without_subscribing(guest("bob")));
    let carol = connected(&mut room_state, guest("carol"));
    let alice = client(&mut room_state, "alice");
    room_state.take_effects();
    publish(&mut room_state, &alice, "camera", Codec::Vp8);
    let permission = |effect| match effect {
        RoomEffect::Notify {
            to,
            notice: ClientNotice::SubscriptionPermission { is_allowed, .. },
        } => Some((to, is_allowed)),
        _ => None,
    };
    let notified: Vec<_> = room_state
        .take_effects()
        .into_iter()
        .filter_map(permission)
        .collect();
    assert_eq!(notified, [(carol, false)]);
}

#[test]
fn the_worker_reports_messages_while_somebody_without_a_client_receives_them() {
    let mut room_state = sandbox_room_state();
    assert!(room_state.clients().is_empty());
    client(&mut room_state, "alice");
    assert!(!room_state.clients().is_empty());
    let reports = |room_state: &mut RoomState| -> Vec<bool> {
        let commands = commands(room_state).into_iter();
        let enabled = |command| {
            if let Command::ReportMessages { enabled } = command {
                Some(enabled)
            } else {
                None
            }
        };
        commands.filter_map(enabled).collect()
    };
    room_state.take_effects();
    let sandbox = joined(&mut room_state, "sandbox");
    assert_eq!(reports(&mut room_state), [true]);
    room_state.leave(&sandbox, Departure::Left, NOW).unwrap();
    assert_eq!(reports(&mut room_state), [false]);
}

#[test]
fn messages_go_to_clients_that_may_subscribe_and_only_then_to_the_worker() {
    let mut room_state = RoomState::default();
    let sandbox = joined(&mut room_state, "sandbox");
    connected(
        &mut room_state,
        without_subscribing(claims(&room(), "deaf", None)),
    );
    room_state.take_effects();
    room_state
        .send_data(&sandbox, b"hi".to_vec(), None, NOW)
        .unwrap();
    assert_eq!(messages(&mut room_state).len(), 0, "nobody receives it");
    client(&mut room_state, "alice");
    room_state.take_effects();
    room_state
        .send_data(&sandbox, b"hi".to_vec(), Some("chat"), NOW)
        .unwrap();
    let [message] = messages(&mut room_state).try_into().unwrap();
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
    room_state.send_server_data(to(&["sandbox"]), NOW);
    assert_eq!(
        messages(&mut room_state).len(),
        0,
        "nobody with a client is named"
    );
    room_state.send_server_data(to(&["deaf"]), NOW);
    room_state.send_server_data(to(&[]), NOW);
    assert_eq!(messages(&mut room_state).len(), 2);
}

/// Proves S-49.
#[test]
fn a_participant_has_a_bounded_number_of_tracks_and_its_client_learns_that_one_is_refused() {
    let mut room_state = RoomState::new(room(), Arc::new(Common::new(2, true)));
    let alice = connected(&mut room_state, claims(&room(), "alice", None));
    let announce = |room_state: &mut RoomState, cid: &str| {
        room_state.announce_track(&alice, &announcement(cid, TrackType::Audio))
    };
    let first = announce(&mut room_state, "c0").unwrap();
    announce(&mut room_state, "c1").unwrap();
    assert_eq!(
        announce(&mut room_state, "c2"),
        Err(AnnounceError::LimitExceeded)
    );
    room_state.track_ended(&alice, &first.sid.parse().unwrap(), NOW);
    assert!(
        announce(&mut room_state, "c2").is_ok(),
        "a track that has ended makes room"
    );

    let bob = joined(&mut room_state, "bob");
    room_state.publish(&bob, camera(), NOW).unwrap();
    room_state.publish(&bob, microphone(), NOW).unwrap();
    assert_eq!(
        room_state.publish(&bob, camera(), NOW),
        Err(RoomStateError::TooManyTracks)
    );
}
