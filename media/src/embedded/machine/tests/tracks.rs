//! Tracks, data, and their receivers.

use super::*;

#[test]
fn tracks_are_reported_when_they_are_published_muted_and_unpublished() {
    let mut machine = sandbox_machine();
    let sid = joined(&mut machine, "alice");
    let track = machine.publish(&sid, microphone(), NOW).unwrap();
    assert_eq!((track.muted, track.name.as_deref()), (true, Some("mic")));
    assert!(machine.participants()[0].is_publisher);
    assert!(!machine.mute(&sid, &track.sid, false, NOW).unwrap().muted);
    assert_eq!(machine.participants()[0].tracks.len(), 1);
    machine.unpublish(&sid, &track.sid, NOW).unwrap();
    assert_eq!(
        machine.unpublish(&sid, &track.sid, NOW),
        Err(MachineError::NoSuchTrack)
    );
    assert!(!machine.participants()[0].is_publisher);
    let names: Vec<_> = take_names(&mut machine)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["joined", "published", "unmuted", "unpublished"]);
}

#[test]
fn data_reaches_the_others_that_may_subscribe_without_the_identity_of_a_hidden_sender() {
    let mut machine = sandbox_machine();
    let (alice, bob) = (joined(&mut machine, "alice"), joined(&mut machine, "bob"));
    let unsubscribed = join(
        &mut machine,
        without_subscribing(claims(&room(), "dave", None)),
    );
    let hidden = join(&mut machine, hidden(claims(&room(), "hidden", None)));
    machine
        .send_data(&alice, b"hi".to_vec(), Some("chat"), NOW)
        .unwrap();
    machine
        .send_data(&hidden, b"bo".to_vec(), None, NOW)
        .unwrap();

    let senders = |sid: &ParticipantSid| -> Vec<Option<String>> {
        let from = |entry: InboxEntry| match entry.notice {
            Notice::Data { from_identity, .. } => {
                from_identity.map(|identity| identity.to_string())
            }
            other => panic!("{other:?}"),
        };
        inbox(&machine, sid).into_iter().map(from).collect()
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
    let mut machine = sandbox_machine();
    let mut claims = claims(&room(), "alice", None);
    claims.grants.can_publish_data = false;
    let sid = join(&mut machine, claims);
    assert!(matches!(
        machine.send_data(&sid, b"hi".to_vec(), None, NOW),
        Err(MachineError::Forbidden(_))
    ));
}

#[test]
fn subscriptions_follow_the_rules_of_the_room() {
    let mut machine = sandbox_machine();
    let (host, guest): (RoleName, RoleName) = ("host".parse().unwrap(), "guest".parse().unwrap());
    // Set before the first join.
    machine.set_subscription_rules(BTreeMap::from([
        (guest.clone(), to_roles(std::slice::from_ref(&host))),
        (host, RoleSubscribe::default()),
    ]));
    let with_role =
        |identity: &str, role: &str| with(claims(&room(), identity, None), "svc.role", role);
    let alice = join(&mut machine, with_role("alice", "host"));
    let bob = join(&mut machine, with_role("bob", "guest"));
    let carol = join(&mut machine, with_role("carol", "guest"));
    let dave = joined(&mut machine, "dave");
    let hidden = join(&mut machine, hidden(claims(&room(), "hidden", None)));
    let [a, b, c, d, _] = [&alice, &bob, &carol, &dave, &hidden]
        .map(|p| machine.publish(p, camera(), NOW).unwrap().sid);

    assert_eq!(
        machine.subscriptions(&alice),
        [b.clone(), c.clone(), d.clone()]
    );
    assert_eq!(machine.subscriptions(&bob), std::slice::from_ref(&a));
    assert_eq!(
        machine.subscriptions(&dave),
        [a.clone(), b.clone(), c.clone()]
    );
    assert_eq!(machine.subscriptions(&hidden), [a, b, c, d]);

    machine.set_subscription_rules(BTreeMap::from([(guest, to_roles(&[]))]));
    assert_eq!(machine.subscriptions(&bob), []);
    machine.close(NOW);
    assert!(machine.is_unused() && machine.subscriptions(&alice).is_empty());
}

#[test]
fn a_participant_that_may_not_subscribe_or_is_still_joining_receives_no_tracks() {
    let mut machine = sandbox_machine();
    let alice = joined(&mut machine, "alice");
    machine.publish(&alice, camera(), NOW).unwrap();
    let unsubscribed = join(
        &mut machine,
        without_subscribing(claims(&room(), "bob", None)),
    );
    let joining = machine
        .begin_join(claims(&room(), "carol", None), NOW)
        .unwrap();
    assert_eq!(
        (
            machine.subscriptions(&unsubscribed),
            machine.subscriptions(&joining)
        ),
        (vec![], vec![])
    );
    machine.complete_join(&joining, NOW);
    assert_eq!(machine.subscriptions(&joining).len(), 1);
}

#[test]
fn a_limit_exceeded_for_five_seconds_is_reported_with_the_only_track() {
    let mut machine = sandbox_machine();
    let at = |seconds| NOW.after(Duration::from_secs(seconds));
    let sid = join(
        &mut machine,
        with(
            claims(&room(), "alice", None),
            "svc.publish.max_kbps",
            "100",
        ),
    );
    let track = machine.publish(&sid, camera(), NOW).unwrap().sid;
    machine.take_reports();
    machine.at(NOW).set_bitrate(&sid, 180, NOW).unwrap();
    assert_eq!(machine.next_deadline(), Some(reading(at(5))));
    machine.tick_at(at(4));
    assert_eq!(take_names(&mut machine), []);
    machine.tick_at(at(5));
    let reports = machine.take_reports();
    let limit = PublishLimit {
        exceeded: true,
        kbps: 180,
        max_kbps: 100,
        track: Some(track),
    };
    assert!(
        matches!(&reports[..], [Report { event: MediaEvent::PublishLimit { limit: reported, .. }, .. }] if *reported == limit)
    );

    machine.publish(&sid, microphone(), NOW).unwrap();
    machine.take_reports();
    machine.at(at(10)).set_bitrate(&sid, 100, at(10)).unwrap();
    // No tick comes in between: the next measurement reports that the last one lasted.
    machine.at(at(15)).set_bitrate(&sid, 180, at(15)).unwrap();
    let reports = machine.take_reports();
    assert!(
        matches!(&reports[..], [Report { event: MediaEvent::PublishLimit { limit, .. }, .. }]
        if !limit.exceeded && limit.kbps == 100 && limit.track.is_none())
    );
    assert_eq!(machine.next_deadline(), Some(reading(at(20))));
    machine.leave(&sid, Departure::Left, at(16)).unwrap();
    assert_eq!(machine.next_deadline(), None);
}
