//! Moderation of participants by the server.

use super::*;

fn id(identity: &str) -> Identity {
    identity.parse().unwrap()
}

fn notices(machine: &Machine, sid: &ParticipantSid) -> Vec<Notice> {
    machine
        .active_or_left(sid)
        .unwrap()
        .inbox
        .into_iter()
        .map(|entry: InboxEntry| entry.notice)
        .collect()
}

fn grant(role: &str, max_kbps: Option<u32>, sources: Vec<TrackSource>) -> RoleGrant {
    RoleGrant {
        role: role.parse().unwrap(),
        max_kbps,
        grants: Grants {
            sources,
            ..Grants::default()
        },
    }
}

#[test]
fn a_mute_by_the_server_is_reported_once_and_put_into_the_publishers_inbox() {
    let mut machine = sandbox_machine();
    let alice = joined(&mut machine, "alice");
    let track = machine.publish(&alice, camera(), NOW).unwrap().sid;
    machine.take_reports();
    for _ in 0..2 {
        assert!(
            machine
                .mute_by_server(&id("alice"), &track, true, NOW)
                .unwrap()
                .muted
        );
    }
    assert_eq!(take_names(&mut machine), [("muted", alice.clone())]);
    assert!(
        !machine
            .mute_by_server(&id("alice"), &track, false, NOW)
            .unwrap()
            .muted
    );
    assert_eq!(take_names(&mut machine), [("unmuted", alice.clone())]);
    let track_sid = track.clone();
    assert_eq!(
        notices(&machine, &alice),
        [
            Notice::Muted {
                track_sid: track.clone()
            },
            Notice::Unmuted { track_sid }
        ]
    );
    // The publisher's own change is not put into its inbox.
    machine.mute(&alice, &track, true, NOW).unwrap();
    assert_eq!(notices(&machine, &alice).len(), 2);
}

#[test]
fn unknown_participants_and_unknown_tracks_are_different_errors() {
    let mut machine = sandbox_machine();
    let alice = joined(&mut machine, "alice");
    machine
        .begin_join(claims(&room(), "bob", None), NOW)
        .unwrap();
    let track = machine.publish(&alice, camera(), NOW).unwrap().sid;
    let mut mute =
        |identity: &str, track: &TrackSid| machine.mute_by_server(&id(identity), track, true, NOW);
    assert_eq!(
        mute("alice", &"TR_x".parse().unwrap()),
        Err(MachineError::NoSuchTrack)
    );
    assert_eq!(mute("nobody", &track), Err(MachineError::NoSuchParticipant));
    assert_eq!(
        mute("bob", &track),
        Err(MachineError::NoSuchParticipant),
        "its join is not complete"
    );
    let refused = machine.set_role(&id("bob"), grant("host", None, vec![]), NOW);
    assert_eq!(refused, Err(MachineError::NoSuchParticipant));
    assert!(notices(&machine, &alice).is_empty());
}

#[test]
fn data_of_the_server_reaches_all_participants_or_the_named_ones() {
    let mut machine = sandbox_machine();
    let mut unsubscribed = claims(&room(), "carol", None);
    unsubscribed.grants.can_subscribe = false;
    let unsubscribed = machine.begin_join(unsubscribed, NOW).unwrap();
    machine.complete_join(&unsubscribed, NOW);
    let (alice, bob) = (joined(&mut machine, "alice"), joined(&mut machine, "bob"));
    let message = |kind, to| ServerData {
        data: b"hi".to_vec(),
        topic: Some("t".into()),
        kind,
        to,
    };
    machine.send_server_data(message(DataKind::Reliable, vec![]), NOW);
    machine.send_server_data(message(DataKind::Lossy, vec![id("bob"), id("nobody")]), NOW);
    let received = |kind| Notice::Data {
        data: "aGk=".into(),
        topic: Some("t".into()),
        kind,
        from_identity: None,
    };
    assert_eq!(
        notices(&machine, &bob),
        [received(DataKind::Reliable), received(DataKind::Lossy)]
    );
    assert_eq!(notices(&machine, &alice), [received(DataKind::Reliable)]);
    assert_eq!(
        notices(&machine, &unsubscribed),
        [received(DataKind::Reliable)]
    );
    assert!(machine.send_data(&alice, b"hi".to_vec(), None, NOW).is_ok());
    assert_eq!(
        notices(&machine, &unsubscribed).len(),
        1,
        "data of participants needs the grant to subscribe"
    );
}

#[test]
fn a_role_sets_grants_and_attributes_and_ends_the_tracks_that_it_forbids() {
    let mut machine = sandbox_machine();
    let alice = joined(&mut machine, "alice");
    let camera = machine.publish(&alice, camera(), NOW).unwrap();
    let microphone = machine.publish(&alice, microphone(), NOW).unwrap();
    machine.take_reports();
    let changed = machine
        .set_role(
            &id("alice"),
            grant("voice", Some(64), vec![TrackSource::Microphone]),
            NOW,
        )
        .unwrap();
    assert_eq!(
        (changed.sid.clone(), changed.role()),
        (alice.clone(), Some("voice".parse().unwrap()))
    );
    assert_eq!(changed.attributes["svc.publish.max_kbps"], "64");
    assert_eq!(
        (changed.tracks.as_slice(), changed.is_publisher),
        ([microphone].as_slice(), true)
    );
    let reports = machine.take_reports();
    let [
        Report {
            event: MediaEvent::TrackUnpublished { participant, track },
            ..
        },
    ] = &reports[..]
    else {
        panic!("{reports:?}")
    };
    assert_eq!((&track.sid, track.kind), (&camera.sid, TrackKind::Video));
    assert_eq!(participant.role, Some("voice".parse::<RoleName>().unwrap()));
    assert_eq!(
        notices(&machine, &alice),
        [Notice::RoleChanged {
            role: "voice".parse().unwrap()
        }]
    );
    let token = machine.active_or_left(&alice).unwrap().claims;
    assert_eq!((token.role(), token.max_kbps()), (changed.role(), Some(64)));
    assert_eq!(token.grants.sources, [TrackSource::Microphone]);

    let silent = RoleGrant {
        grants: Grants {
            can_publish: false,
            ..Grants::default()
        },
        ..grant("viewer", None, vec![])
    };
    let changed = machine.set_role(&id("alice"), silent, NOW).unwrap();
    assert_eq!((changed.tracks.len(), changed.is_publisher), (0, false));
    assert!(!changed.attributes.contains_key("svc.publish.max_kbps"));
}

#[test]
fn subscriptions_follow_the_new_role() {
    let mut machine = sandbox_machine();
    let (host, guest): (RoleName, RoleName) = ("host".parse().unwrap(), "guest".parse().unwrap());
    machine.set_subscription_rules([(guest, to_roles(&[host]))].into());
    let (alice, bob) = (joined(&mut machine, "alice"), joined(&mut machine, "bob"));
    let track = machine.publish(&alice, camera(), NOW).unwrap().sid;
    assert_eq!(machine.subscriptions(&bob), std::slice::from_ref(&track));
    machine
        .set_role(&id("bob"), grant("guest", None, vec![]), NOW)
        .unwrap();
    assert_eq!(machine.subscriptions(&bob), []);
    machine
        .set_role(&id("alice"), grant("host", None, vec![]), NOW)
        .unwrap();
    assert_eq!(machine.subscriptions(&bob), [track]);
}

#[test]
fn a_new_limit_is_compared_with_the_current_bitrate() {
    let mut machine = sandbox_machine();
    let at = |seconds: u64| -> Timestamp { NOW.after(Duration::from_secs(seconds)) };
    let alice = joined(&mut machine, "alice");
    machine.at(NOW).set_bitrate(&alice, 150, NOW).unwrap();
    assert_eq!(machine.next_deadline(), None);
    machine
        .set_role(&id("alice"), grant("low", Some(100), vec![]), NOW)
        .unwrap();
    assert_eq!(machine.next_deadline(), Some(reading(at(5))));
    machine.take_reports();
    machine
        .at(at(6))
        .set_role(&id("alice"), grant("high", Some(200), vec![]), at(6))
        .unwrap();
    assert_eq!(
        take_names(&mut machine),
        [("exceeded", alice.clone())],
        "the old limit had been exceeded long enough"
    );
    machine.tick_at(at(11));
    assert_eq!(take_names(&mut machine), [("cleared", alice)]);
    assert_eq!(machine.next_deadline(), None);
}

#[test]
fn a_join_gets_another_role_before_it_is_complete_and_nothing_is_reported_of_it() {
    let mut machine = sandbox_machine();
    let alice = machine
        .begin_join(claims(&room(), "alice", None), NOW)
        .unwrap();
    machine.take_reports();
    let no_camera = grant("voice", Some(64), vec![TrackSource::Microphone]);
    let joining = machine.set_role_of_join(&alice, no_camera, NOW).unwrap();
    assert_eq!(
        (joining.role(), take_names(&mut machine)),
        (Some("voice".parse().unwrap()), vec![])
    );
    machine.complete_join(&alice, NOW);
    assert!(
        machine.publish(&alice, camera(), NOW).is_err()
            && machine.publish(&alice, microphone(), NOW).is_ok()
    );
    assert_eq!(
        machine.set_role_of_join(
            &"PA_gone".parse().unwrap(),
            grant("voice", None, vec![]),
            NOW
        ),
        None
    );
}
