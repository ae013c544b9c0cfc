//! Data tracks.

use proto::request_response::Reason;

use super::*;

fn publish(handle: u32, name: &str) -> Request {
    let request = proto::PublishDataTrackRequest {
        pub_handle: handle,
        name: name.to_owned(),
        ..Default::default()
    };
    Request::PublishDataTrackRequest(request)
}

fn subscription(track: &str, subscribe: bool) -> Request {
    let update = proto::update_data_subscription::Update {
        track_sid: track.to_owned(),
        subscribe,
        options: None,
    };
    Request::UpdateDataSubscription(proto::UpdateDataSubscription {
        updates: vec![update],
    })
}

fn reason(messages: &[Response]) -> Option<Reason> {
    messages.iter().find_map(|message| match message {
        Response::RequestResponse(response) => Some(response.reason()),
        _ => None,
    })
}

/// The last handles that a client received, with their tracks' sids.
fn handles(messages: &[Response]) -> Option<Vec<(u32, String)>> {
    messages.iter().rev().find_map(|message| match message {
        Response::DataTrackSubscriberHandles(handles) => Some(
            handles
                .sub_handles
                .iter()
                .map(|(handle, track)| (*handle, track.track_sid.clone()))
                .collect(),
        ),
        _ => None,
    })
}

impl World {
    /// Publishes a data track. Returns its sid.
    fn publish_data(&mut self, sid: &ParticipantSid, handle: u32, name: &str) -> String {
        self.request(sid, publish(handle, name));
        let messages = self.take(sid);
        let published = messages.iter().find_map(|message| match message {
            Response::PublishDataTrackResponse(response) => response.info.clone(),
            _ => None,
        });
        published.unwrap_or_else(|| panic!("{messages:?}")).sid
    }

    /// The last command about forwarding data tracks to a participant: the track, and its handle if it is forwarded.
    fn forwarded(&self, sid: &ParticipantSid) -> Option<(TrackSid, Option<u16>)> {
        self.commands
            .iter()
            .rev()
            .find_map(|command| match command {
                Command::Peer {
                    peer,
                    command: PeerCommand::SubscribeDataTrack { track, handle, .. },
                } if peer == sid => Some((track.clone(), Some(*handle))),
                Command::Peer {
                    peer,
                    command: PeerCommand::UnsubscribeDataTrack { track, .. },
                } if peer == sid => Some((track.clone(), None)),
                _ => None,
            })
    }
}

#[test]
fn a_data_track_is_seen_in_a_list_of_its_own_and_recorded_as_a_track() {
    let mut world = World::new();
    let (alice, bob) = (world.joined("alice", None), world.joined("bob", None));
    world.take_all();
    let track = world.publish_data(&alice, 7, "position");
    assert!(track.starts_with("DTR_"), "{track}");
    assert!(world.commands.iter().any(|command| matches!(
        command,
        Command::Peer { peer, command: PeerCommand::PublishDataTrack { handle: 7, .. } } if *peer == alice
    )));
    let messages = world.take(&bob);
    let Response::Update(update) = &messages[0] else {
        panic!("{messages:?}")
    };
    let told = &update.participants[0];
    let data = &told.data_tracks[0];
    assert_eq!(
        (data.pub_handle, data.name.as_str(), data.sid.as_str()),
        (7, "position", track.as_str())
    );
    assert!(told.tracks.is_empty() && told.is_publisher);
    assert_eq!(world.event_names(), ["published"]);
    let shown = world.machine.participants().remove(0).tracks.remove(0);
    assert_eq!(
        (shown.kind, shown.name.as_deref(), shown.sid.as_str()),
        (TrackKind::Data, Some("position"), &*track)
    );

    world.request(
        &alice,
        Request::UnpublishDataTrackRequest(proto::UnpublishDataTrackRequest { pub_handle: 7 }),
    );
    let messages = world.take(&alice);
    assert!(messages.iter().any(|message| matches!(
        message,
        Response::UnpublishDataTrackResponse(response) if response.info.as_ref().is_some_and(|info| info.sid == track)
    )));
    assert_eq!(world.event_names(), ["unpublished"]);
    let messages = world.take(&bob);
    let Response::Update(update) = &messages[0] else {
        panic!("{messages:?}")
    };
    assert!(update.participants[0].data_tracks.is_empty() && !update.participants[0].is_publisher);
}

#[test]
fn a_client_receives_the_data_tracks_that_it_asks_for_by_a_handle_of_its_own() {
    let mut world = World::new();
    let (alice, bob) = (world.joined("alice", None), world.joined("bob", None));
    let track = world.publish_data(&alice, 7, "position");
    world.take_all();
    world.request(&bob, subscription(&track, true));
    let told = handles(&world.take(&bob)).unwrap();
    let (of, Some(handle)) = world.forwarded(&bob).unwrap() else {
        panic!("it is forwarded")
    };
    assert_eq!(
        (of.as_str(), told),
        (&*track, vec![(u32::from(handle), track.clone())])
    );
    world.request(&bob, subscription(&track, true));
    assert_eq!(handles(&world.take(&bob)), None, "nothing is new");
    world.request(&bob, subscription(&track, false));
    assert_eq!(
        (handles(&world.take(&bob)), world.forwarded(&bob)),
        (Some(vec![]), Some((of, None)))
    );

    // A subscription before the track is published takes effect later.
    world.request(&bob, subscription(&track, true));
    world.take_all();
    world.request(
        &alice,
        Request::UnpublishDataTrackRequest(proto::UnpublishDataTrackRequest { pub_handle: 7 }),
    );
    assert_eq!(handles(&world.take(&bob)), Some(vec![]));
    let audio = world.publish(&alice);
    assert!(
        world.is_subscribed(&bob, &audio),
        "audio and video are received unasked"
    );
    assert_eq!(world.forwarded(&bob).unwrap().1, None);
}

#[test]
fn a_client_that_wants_all_data_tracks_gets_them_and_learns_of_them_again_when_it_resumes() {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    let first = world.publish_data(&alice, 1, "first");
    let client = Client {
        subscriptions: Subscriptions::new(false).with_data(true),
        ..Client::default()
    };
    let bob = world
        .machine
        .request_join(claims("bob", None), client, START)
        .unwrap();
    world.machine.admit(&bob, START).unwrap();
    let parameters = parameters(ConnectionMode::Single);
    let session = Session::new(
        bob.clone(),
        "bob".parse().unwrap(),
        ConnectionMode::Single,
        reading(START),
    );
    world.sessions.insert(bob.clone(), session);
    world.call(&bob, |session, context| session.start(context, &parameters));
    world.connect(&bob);
    assert_eq!(handles(&world.take(&bob)).unwrap().len(), 1);
    world.call(&bob, Session::detach);
    let second = world.publish_data(&alice, 2, "second");
    world.call(&bob, |session, context| {
        session.resume(context, parameters.clone());
    });
    world.media(
        &bob,
        PeerEvent::Resumed {
            last_message_seq: 0,
        },
    );
    let told = handles(&world.take(&bob))
        .unwrap()
        .into_iter()
        .map(|(_, track)| track);
    assert_eq!(
        told.collect::<std::collections::BTreeSet<_>>(),
        [first, second].into()
    );
}

#[test]
fn a_data_track_is_refused_with_the_reason_and_counts_as_a_track() {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    let viewer = claims("viewer", None);
    let viewer = Claims {
        grants: Grants {
            can_publish_data: false,
            ..Grants::default()
        },
        ..viewer
    };
    let viewer = world.join_with(viewer, &parameters(ConnectionMode::Single));
    world.publish_data(&alice, 1, "first");
    for (handle, name, expected) in [
        (0, "second", Reason::InvalidHandle),
        (70_000, "second", Reason::InvalidHandle),
        (2, "", Reason::InvalidName),
        (1, "second", Reason::DuplicateHandle),
        (2, "first", Reason::DuplicateName),
    ] {
        world.request(&alice, publish(handle, name));
        assert_eq!(
            reason(&world.take(&alice)),
            Some(expected),
            "{handle} {name}"
        );
    }
    world.request(&viewer, publish(1, "mine"));
    assert_eq!(reason(&world.take(&viewer)), Some(Reason::NotAllowed));
    for handle in 2..=100 {
        world.publish_data(&alice, handle, &handle.to_string());
    }
    world.request(&alice, publish(101, "101"));
    assert_eq!(reason(&world.take(&alice)), Some(Reason::LimitExceeded));
    world.request(&alice, Request::AddTrack(camera()));
    assert_eq!(
        reason(&world.take(&alice)),
        Some(Reason::LimitExceeded),
        "with audio and video"
    );
}

#[test]
fn the_rules_of_roles_hold_for_data_tracks_and_so_does_a_mute() {
    let mut world = World::new();
    let to_hosts = RoleSubscribe {
        to_roles: Some(vec!["host".parse().unwrap()]),
        max_kbps: None,
    };
    world
        .machine
        .set_subscription_rules(BTreeMap::from([("guest".parse().unwrap(), to_hosts)]));
    let (host, guest) = (
        world.joined("host", Some("host")),
        world.joined("guest", Some("guest")),
    );
    let peer = world.joined("peer", Some("guest"));
    let (of_host, of_guest) = (
        world.publish_data(&host, 1, "a"),
        world.publish_data(&guest, 1, "b"),
    );
    world.request(&peer, subscription(&of_host, true));
    assert_eq!(world.forwarded(&peer).unwrap().0.as_str(), of_host);
    world.take_all();
    world.request(&peer, subscription(&of_guest, true));
    let messages = world.take(&peer);
    assert!(
        matches!(&messages[..], [Response::SubscriptionPermissionUpdate(update)] if !update.allowed && update.track_sid == of_guest),
        "{messages:?}"
    );
    assert_eq!(world.forwarded(&peer), None);

    let identity = "host".parse().unwrap();
    world
        .machine
        .mute_by_server(&identity, &of_host.parse().unwrap(), true, world.now)
        .unwrap();
    world.deliver();
    assert!(world.commands.iter().any(
        |command| matches!(command, Command::Peer { peer, command: PeerCommand::SetMuted { muted: true, .. } } if *peer == host)
    ));
    world.take_all();
    world.set_role(
        "host",
        "ghost",
        Grants {
            hidden: true,
            ..Grants::default()
        },
    );
    assert_eq!(
        world.forwarded(&peer),
        Some((of_host.parse().unwrap(), None)),
        "nothing of a hidden participant is received"
    );
    assert_eq!(handles(&world.take(&peer)), Some(vec![]));

    world.take_all();
    world.set_role(
        "guest",
        "silent",
        Grants {
            can_publish_data: false,
            ..Grants::default()
        },
    );
    assert!(world.take(&guest).iter().any(|message| matches!(
        message,
        Response::UnpublishDataTrackResponse(response) if response.info.as_ref().is_some_and(|info| info.sid == of_guest)
    )));
    assert!(world.commands.iter().any(
        |command| matches!(command, Command::Peer { peer, command: PeerCommand::UnpublishDataTrack(_) } if *peer == guest)
    ));
    assert_eq!(world.event_names(), ["unpublished"]);
}

#[test]
fn a_client_that_resumes_with_a_data_track_that_nobody_knows_joins_anew() {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    let track = world.publish_data(&alice, 1, "first");
    let state = |sid: &str| {
        let info = Some(proto::DataTrackInfo {
            sid: sid.to_owned(),
            ..Default::default()
        });
        let publish_data_tracks = vec![proto::PublishDataTrackResponse { info }];
        Request::SyncState(proto::SyncState {
            publish_data_tracks,
            ..Default::default()
        })
    };
    world.resume(&alice);
    world.request(&alice, state(&track));
    assert_eq!(leave_of(&world.take(&alice)), None);
    world.resume(&alice);
    world.request(&alice, state("DTR_other"));
    assert_eq!(
        leave_of(&world.take(&alice)),
        Some((DisconnectReason::StateMismatch, Action::Reconnect))
    );
}
