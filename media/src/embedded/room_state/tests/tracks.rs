//! Tracks, data, and their receivers.

use super::*;

#[test]
fn tracks_are_reported_when_they_are_published_muted_and_unpublished() {
    let mut room_state = sandbox_room_state();
    let sid = joined(&mut room_state, "alice");
    let track = room_state.publish(&sid, microphone(), NOW).unwrap();
    assert_eq!((track.muted, track.name.as_deref()), (true, Some("mic")));
    assert!(room_state.participants()[0].is_publisher);
    assert!(!room_state.mute(&sid, &track.sid, false, NOW).unwrap().muted);
    assert_eq!(room_state.participants()[0].tracks.len(), 1);
    room_state.unpublish(&sid, &track.sid, NOW).unwrap();
    assert_eq!(
        room_state.unpublish(&sid, &track.sid, NOW),
        Err(RoomStateError::NoSuchTrack)
    );
    assert!(!room_state.participants()[0].is_publisher);
    let names: Vec<_> = take_names(&mut room_state)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["joined", "published", "unmuted", "unpublished"]);
}

#[test]
fn data_reaches_the_others_that_may_subscribe_without_the_identity_of_a_hidden_sender() {
    let mut room_state = sandbox_room_state();
    let (alice, bob) = (
        joined(&mut room_state, "alice"),
        joined(&mut room_state, "bob"),
    );
    let unsubscribed = join(
        &mut room_state,
        without_subscribing(claims(&room(), "dave", None)),
    );
    let hidden = join(&mut room_state, hidden(claims(&room(), "hidden", None)));
    room_state
        .send_data(&alice, b"hi".to_vec(), Some("chat"), NOW)
        .unwrap();
    room_state
        .send_data(&hidden, b"bo".to_vec(), None, NOW)
        .unwrap();

    let senders = |sid: &ParticipantSid| -> Vec<Option<String>> {
        let from = |entry: InboxEntry| match entry.notice {
            Notice::Data { from_identity, .. } => {
                from_identity.map(|identity| identity.to_string())
            }
            other => panic!("{other:?}"),
        };
        inbox(&room_state, sid).into_iter().map(from).collect()
    };
    assert_eq!(senders(&bob), [Some("alice".to_owned()), None]);
    assert_eq!(senders(&alice), [None]);
    assert_eq!(
        (senders(&unsubscribed).len(), senders(&hidden).len()),
        (0, 1)
    );
}

#[test]
fn data_needs_its_grant() {
    let mut room_state = sandbox_room_state();
    let mut claims = claims(&room(), "alice", None);
    claims.grants.can_publish_data = false;
    let sid = join(&mut room_state, claims);
    assert!(matches!(
        room_state.send_data(&sid, b"hi".to_vec(), None, NOW),
        Err(RoomStateError::Forbidden(_))
    ));
}

#[test]
fn subscriptions_follow_the_rules_of_the_room() {
    let mut room_state = sandbox_room_state();
    let (host, guest): (RoleName, RoleName) = ("host".parse().unwrap(), "guest".parse().unwrap());
    // Set before the first join.
    room_state.set_subscription_rules(BTreeMap::from([
        (guest.clone(), to_roles(std::slice::from_ref(&host))),
        (host, RoleSubscribe::default()),
    ]));
    let with_role =
        |identity: &str, role: &str| with(claims(&room(), identity, None), "svc.role", role);
    let alice = join(&mut room_state, with_role("alice", "host"));
    let bob = join(&mut room_state, with_role("bob", "guest"));
    let carol = join(&mut room_state, with_role("carol", "guest"));
    let dave = joined(&mut room_state, "dave");
    let hidden = join(&mut room_state, hidden(claims(&room(), "hidden", None)));
    let [a, b, c, d, _] = [&alice, &bob, &carol, &dave, &hidden]
        .map(|p| room_state.publish(p, camera(), NOW).unwrap().sid);

    assert_eq!(
        room_state.subscriptions(&alice),
        [b.clone(), c.clone(), d.clone()]
    );
    assert_eq!(room_state.subscriptions(&bob), std::slice::from_ref(&a));
    assert_eq!(
        room_state.subscriptions(&dave),
        [a.clone(), b.clone(), c.clone()]
    );
    assert_eq!(room_state.subscriptions(&hidden), [a, b, c, d]);

    room_state.set_subscription_rules(BTreeMap::from([(guest, to_roles(&[]))]));
    assert_eq!(room_state.subscriptions(&bob), []);
    room_state.close(NOW);
    assert!(room_state.is_unused() && room_state.subscriptions(&alice).is_empty());
}

#[test]
fn a_participant_that_may_not_subscribe_or_is_still_joining_receives_no_tracks() {
    let mut room_state = sandbox_room_state();
    let alice = joined(&mut room_state, "alice");
    room_state.publish(&alice, camera(), NOW).unwrap();
    let unsubscribed = join(
        &mut room_state,
        without_subscribing(claims(&room(), "bob", None)),
    );
    let joining = room_state
        .start_join(claims(&room(), "carol", None), NOW)
        .unwrap();
    assert_eq!(
        (
            room_state.subscriptions(&unsubscribed),
            room_state.subscriptions(&joining)
        ),
        (vec![], vec![])
    );
    room_state.complete_join(&joining, NOW);
    assert_eq!(room_state.subscriptions(&joining).len(), 1);
}

#[test]
fn a_limit_exceeded_for_five_seconds_is_reported_with_the_only_track() {
    let mut room_state = sandbox_room_state();
    let at = |seconds| NOW.after(Duration::from_secs(seconds));
    let sid = join(
        &mut room_state,
        with(
            claims(&room(), "alice", None),
            "svc.publish.max_kbps",
            "100",
        ),
    );
    let track = room_state.publish(&sid, camera(), NOW).unwrap().sid;
    room_state.take_reports();
    room_state.at(NOW).set_bitrate(&sid, 180, NOW).unwrap();
    assert_eq!(room_state.next_deadline(), Some(reading(at(5))));
    room_state.tick_at(at(4));
    assert_eq!(take_names(&mut room_state), []);
    room_state.tick_at(at(5));
    let reports = room_state.take_reports();
    let limit = PublishLimit {
        exceeded: true,
        kbps: 180,
        max_kbps: 100,
        track: Some(track),
    };
    assert!(
        matches!(&reports[..], [Report { event: MediaEvent::PublishLimit { limit: reported, .. }, .. }] if *reported == limit)
    );

    room_state.publish(&sid, microphone(), NOW).unwrap();
    room_state.take_reports();
    room_state
        .at(at(10))
        .set_bitrate(&sid, 100, at(10))
        .unwrap();
    // No tick comes in between: the next measurement reports that the last one lasted.
    room_state
        .at(at(15))
        .set_bitrate(&sid, 180, at(15))
        .unwrap();
    let reports = room_state.take_reports();
    assert!(
        matches!(&reports[..], [Report { event: MediaEvent::PublishLimit { limit, .. }, .. }]
        if !limit.exceeded && limit.kbps == 100 && limit.track.is_none())
    );
    assert_eq!(room_state.next_deadline(), Some(reading(at(20))));
    room_state.leave(&sid, Departure::Left, at(16)).unwrap();
    assert_eq!(room_state.next_deadline(), None);
}
