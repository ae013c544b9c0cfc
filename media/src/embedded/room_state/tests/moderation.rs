//! Moderation of participants by the server.

use super::*;

fn id(identity: &str) -> Identity {
    identity.parse().unwrap()
}

fn notices(room_state: &RoomState, sid: &ParticipantSid) -> Vec<Notice> {
    room_state
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
    let mut room_state = sandbox_room_state();
    let alice = joined(&mut room_state, "alice");
    let track = room_state.publish(&alice, camera(), NOW).unwrap().sid;
    room_state.take_reports();
    for _ in 0..2 {
        assert!(
            room_state
                .mute_by_server(&id("alice"), &track, true, NOW)
                .unwrap()
                .muted
        );
    }
    assert_eq!(take_names(&mut room_state), [("muted", alice.clone())]);
    assert!(
        !room_state
            .mute_by_server(&id("alice"), &track, false, NOW)
            .unwrap()
            .muted
    );
    assert_eq!(take_names(&mut room_state), [("unmuted", alice.clone())]);
    let track_sid = track.clone();
    assert_eq!(
        notices(&room_state, &alice),
        [
            Notice::Muted {
                track_sid: track.clone()
            },
            Notice::Unmuted { track_sid }
        ]
    );
    // The publisher's own change is not put into its inbox.
    room_state.mute(&alice, &track, true, NOW).unwrap();
    assert_eq!(notices(&room_state, &alice).len(), 2);
}

#[test]
fn unknown_participants_and_unknown_tracks_are_different_errors() {
    let mut room_state = sandbox_room_state();
    let alice = joined(&mut room_state, "alice");
    room_state
        .start_join(claims(&room(), "bob", None), NOW)
        .unwrap();
    let track = room_state.publish(&alice, camera(), NOW).unwrap().sid;
    let mut mute = |identity: &str, track: &TrackSid| {
        room_state.mute_by_server(&id(identity), track, true, NOW)
    };
    assert_eq!(
        mute("alice", &"TR_x".parse().unwrap()),
        Err(RoomStateError::NoSuchTrack)
    );
    assert_eq!(
        mute("nobody", &track),
        Err(RoomStateError::NoSuchParticipant)
    );
    assert_eq!(
        mute("bob", &track),
        Err(RoomStateError::NoSuchParticipant),
        "its join is not complete"
    );
    let refused = room_state.set_role(&id("bob"), grant("host", None, vec![]), NOW);
    assert_eq!(refused, Err(RoomStateError::NoSuchParticipant));
    assert!(notices(&room_state, &alice).is_empty());
}

#[test]
fn data_of_the_server_reaches_all_participants_or_the_named_ones() {
    let mut room_state = sandbox_room_state();
    let mut unsubscribed = claims(&room(), "carol", None);
    unsubscribed.grants.can_subscribe = false;
    let unsubscribed = room_state.start_join(unsubscribed, NOW).unwrap();
    room_state.complete_join(&unsubscribed, NOW);
    let (alice, bob) = (
        joined(&mut room_state, "alice"),
        joined(&mut room_state, "bob"),
    );
    let message = |kind, to| ServerData {
        data: b"hi".to_vec(),
        topic: Some("t".into()),
        kind,
        to,
    };
    room_state.send_server_data(message(DataKind::Reliable, vec![]), NOW);
    room_state.send_server_data(message(DataKind::Lossy, vec![id("bob"), id("nobody")]), NOW);
    let received = |kind| Notice::Data {
        data: "aGk=".into(),
        topic: Some("t".into()),
        kind,
        from_identity: None,
    };
    assert_eq!(
        notices(&room_state, &bob),
        [received(DataKind::Reliable), received(DataKind::Lossy)]
    );
    assert_eq!(notices(&room_state, &alice), [received(DataKind::Reliable)]);
    assert_eq!(
        notices(&room_state, &unsubscribed),
        [received(DataKind::Reliable)]
    );
    assert!(
        room_state
            .send_data(&alice, b"hi".to_vec(), None, NOW)
            .is_ok()
    );
    assert_eq!(
        notices(&room_state, &unsubscribed).len(),
        1,
        "data of participants needs the grant to subscribe"
    );
}

#[test]
fn a_role_sets_grants_and_attributes_and_ends_the_tracks_that_it_forbids() {
    let mut room_state = sandbox_room_state();
    let alice = joined(&mut room_state, "alice");
    let camera = room_state.publish(&alice, camera(), NOW).unwrap();
    let microphone = room_state.publish(&alice, microphone(), NOW).unwrap();
    room_state.take_reports();
    let changed = room_state
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
    let reports = room_state.take_reports();
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
        notices(&room_state, &alice),
        [Notice::RoleChanged {
            role: "voice".parse().unwrap()
        }]
    );
    let token = room_state.active_or_left(&alice).unwrap().claims;
    assert_eq!((token.role(), token.max_kbps()), (changed.role(), Some(64)));
    assert_eq!(token.grants.sources, [TrackSource::Microphone]);

    let silent = RoleGrant {
        grants: Grants {
            can_publish: false,
            ..Grants::default()
        },
        ..grant("viewer", None, vec![])
    };
    let changed = room_state.set_role(&id("alice"), silent, NOW).unwrap();
    assert_eq!((changed.tracks.len(), changed.is_publisher), (0, false));
    assert!(!changed.attributes.contains_key("svc.publish.max_kbps"));
}

#[test]
fn subscriptions_follow_the_new_role() {
    let mut room_state = sandbox_room_state();
    let (host, guest): (RoleName, RoleName) = ("host".parse().unwrap(), "guest".parse().unwrap());
    room_state.set_subscription_rules([(guest, to_roles(&[host]))].into());
    let (alice, bob) = (
        joined(&mut room_state, "alice"),
        joined(&mut room_state, "bob"),
    );
    let track = room_state.publish(&alice, camera(), NOW).unwrap().sid;
    assert_eq!(room_state.subscriptions(&bob), std::slice::from_ref(&track));
    room_state
        .set_role(&id("bob"), grant("guest", None, vec![]), NOW)
        .unwrap();
    assert_eq!(room_state.subscriptions(&bob), []);
    room_state
        .set_role(&id("alice"), grant("host", None, vec![]), NOW)
        .unwrap();
    assert_eq!(room_state.subscriptions(&bob), [track]);
}

#[test]
fn a_new_limit_is_compared_with_the_current_bitrate() {
    let mut room_state = sandbox_room_state();
    let at = |seconds: u64| -> Timestamp { NOW.after(Duration::from_secs(seconds)) };
    let alice = joined(&mut room_state, "alice");
    room_state.at(NOW).set_bitrate(&alice, 150, NOW).unwrap();
    assert_eq!(room_state.next_deadline(), None);
    room_state
        .set_role(&id("alice"), grant("low", Some(100), vec![]), NOW)
        .unwrap();
    assert_eq!(room_state.next_deadline(), Some(reading(at(5))));
    room_state.take_reports();
    room_state
        .at(at(6))
        .set_role(&id("alice"), grant("high", Some(200), vec![]), at(6))
        .unwrap();
    assert_eq!(
        take_names(&mut room_state),
        [("exceeded", alice.clone())],
        "the old limit had been exceeded long enough"
    );
    room_state.tick_at(at(11));
    assert_eq!(take_names(&mut room_state), [("cleared", alice)]);
    assert_eq!(room_state.next_deadline(), None);
}

#[test]
fn a_join_gets_another_role_before_it_is_complete_and_nothing_is_reported_of_it() {
    let mut room_state = sandbox_room_state();
    let alice = room_state
        .start_join(claims(&room(), "alice", None), NOW)
        .unwrap();
    room_state.take_reports();
    let no_camera = grant("voice", Some(64), vec![TrackSource::Microphone]);
    let joining = room_state.set_role_of_join(&alice, no_camera, NOW).unwrap();
    assert_eq!(
        (joining.role(), take_names(&mut room_state)),
        (Some("voice".parse().unwrap()), vec![])
    );
    room_state.complete_join(&alice, NOW);
    assert!(
        room_state.publish(&alice, camera(), NOW).is_err()
            && room_state.publish(&alice, microphone(), NOW).is_ok()
    );
    assert_eq!(
        room_state.set_role_of_join(
            &"PA_gone".parse().unwrap(),
            grant("voice", None, vec![]),
            NOW
        ),
        None
    );
}
