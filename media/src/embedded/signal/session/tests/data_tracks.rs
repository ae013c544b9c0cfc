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

impl Fixture {
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
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    fixture.take_all();
    let track = fixture.publish_data(&alice, 7, "position");
    assert!(track.starts_with("DTR_"), "{track}");
    assert!(fixture.commands.iter().any(|command| matches!(
        command,
        Command::Peer { peer, command: PeerCommand::PublishDataTrack { handle: 7, .. } } if *peer == alice
    )));
    let messages = fixture.take(&bob);
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
    assert_eq!(fixture.event_names(), ["published"]);
    let shown = fixture.room_state.participants().remove(0).tracks.remove(0);
    assert_eq!(
        (shown.kind, shown.name.as_deref(), shown.sid.as_str()),
        (TrackKind::Data, Some("position"), &*track)
    );

    fixture.request(
        &alice,
        Request::UnpublishDataTrackRequest(proto::UnpublishDataTrackRequest { pub_handle: 7 }),
    );
    let messages = fixture.take(&alice);
    assert!(messages.iter().any(|message| matches!(
        message,
        Response::UnpublishDataTrackResponse(response) if response.info.as_ref().is_some_and(|info| info.sid == track)
    )));
    assert_eq!(fixture.event_names(), ["unpublished"]);
    let messages = fixture.take(&bob);
    let Response::Update(update) = &messages[0] else {
        panic!("{messages:?}")
    };
    assert!(update.participants[0].data_tracks.is_empty() && !update.participants[0].is_publisher);
}

#[test]
fn a_client_receives_the_data_tracks_that_it_asks_for_by_a_handle_of_its_own() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    let track = fixture.publish_data(&alice, 7, "position");
    fixture.take_all();
    fixture.request(&bob, subscription(&track, true));
    let told = handles(&fixture.take(&bob)).unwrap();
    let (of, Some(handle)) = fixture.forwarded(&bob).unwrap() else {
        panic!("it is forwarded")
    };
    assert_eq!(
        (of.as_str(), told),
        (&*track, vec![(u32::from(handle), track.clone())])
    );
    fixture.request(&bob, subscription(&track, true));
    assert_eq!(handles(&fixture.take(&bob)), None, "nothing is new");
    fixture.request(&bob, subscription(&track, false));
    assert_eq!(
        (handles(&fixture.take(&bob)), fixture.forwarded(&bob)),
        (Some(vec![]), Some((of, None)))
    );

    // A subscription before the track is published takes effect later.
    fixture.request(&bob, subscription(&track, true));
    fixture.take_all();
    fixture.request(
        &alice,
        Request::UnpublishDataTrackRequest(proto::UnpublishDataTrackRequest { pub_handle: 7 }),
    );
    assert_eq!(handles(&fixture.take(&bob)), Some(vec![]));
    let audio = fixture.publish(&alice);
    assert!(
        fixture.is_subscribed(&bob, &audio),
        "audio and video are received unasked"
    );
    assert_eq!(fixture.forwarded(&bob).unwrap().1, None);
}

#[test]
fn a_client_that_wants_all_data_tracks_gets_them_and_learns_of_them_again_when_it_resumes() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let first = fixture.publish_data(&alice, 1, "first");
    let client = Client {
        subscriptions: Subscriptions::new(false).with_data(true),
        ..Client::default()
    };
    let bob = fixture
        .room_state
        .request_join(claims("bob", None), client, START)
        .unwrap();
    fixture.room_state.admit(&bob, START).unwrap();
    let parameters = parameters(ConnectionMode::Single);
    let session = Session::new(
        bob.clone(),
        "bob".parse().unwrap(),
        ConnectionMode::Single,
        reading(START),
    );
    fixture.sessions.insert(bob.clone(), session);
    fixture.call(&bob, |session, context| session.start(context, &parameters));
    fixture.connect(&bob);
    assert_eq!(handles(&fixture.take(&bob)).unwrap().len(), 1);
    fixture.call(&bob, Session::detach);
    let second = fixture.publish_data(&alice, 2, "second");
    fixture.call(&bob, |session, context| {
        session.resume(context, parameters.clone());
    });
    fixture.media(
        &bob,
        PeerEvent::Resumed {
            last_message_seq: 0,
        },
    );
    let told = handles(&fixture.take(&bob))
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
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let viewer = claims("viewer", None);
    let viewer = Claims {
        grants: Grants {
            can_publish_data: false,
            ..Grants::default()
        },
        ..viewer
    };
    let viewer = fixture.join_with(viewer, &parameters(ConnectionMode::Single));
    fixture.publish_data(&alice, 1, "first");
    for (handle, name, expected) in [
        (0, "second", Reason::InvalidHandle),
        (70_000, "second", Reason::InvalidHandle),
        (2, "", Reason::InvalidName),
        (1, "second", Reason::DuplicateHandle),
        (2, "first", Reason::DuplicateName),
    ] {
        fixture.request(&alice, publish(handle, name));
        assert_eq!(
            reason(&fixture.take(&alice)),
            Some(expected),
            "{handle} {name}"
        );
    }
    fixture.request(&viewer, publish(1, "mine"));
    assert_eq!(reason(&fixture.take(&viewer)), Some(Reason::NotAllowed));
    for handle in 2..=100 {
        fixture.publish_data(&alice, handle, &handle.to_string());
    }
    fixture.request(&alice, publish(101, "101"));
    assert_eq!(reason(&fixture.take(&alice)), Some(Reason::LimitExceeded));
    fixture.request(&alice, Request::AddTrack(camera()));
    assert_eq!(
        reason(&fixture.take(&alice)),
        Some(Reason::LimitExceeded),
        "with audio and video"
    );
}

#[test]
fn the_rules_of_roles_hold_for_data_tracks_and_so_does_a_mute() {
    let mut fixture = Fixture::new();
    let to_hosts = RoleSubscribe {
        to_roles: Some(vec!["host".parse().unwrap()]),
        max_kbps: None,
    };
    fixture
        .room_state
        .set_subscription_rules(BTreeMap::from([("guest".parse().unwrap(), to_hosts)]));
    let (host, guest) = (
        fixture.joined("host", Some("host")),
        fixture.joined("guest", Some("guest")),
    );
    let peer = fixture.joined("peer", Some("guest"));
    let (of_host, of_guest) = (
        fixture.publish_data(&host, 1, "a"),
        fixture.publish_data(&guest, 1, "b"),
    );
    fixture.request(&peer, subscription(&of_host, true));
    assert_eq!(fixture.forwarded(&peer).unwrap().0.as_str(), of_host);
    fixture.take_all();
    fixture.request(&peer, subscription(&of_guest, true));
    let messages = fixture.take(&peer);
    assert!(
        matches!(&messages[..], [Response::SubscriptionPermissionUpdate(update)] if !update.allowed && update.track_sid == of_guest),
        "{messages:?}"
    );
    assert_eq!(fixture.forwarded(&peer), None);

    let identity = "host".parse().unwrap();
    fixture
        .room_state
        .mute_by_server(&identity, &of_host.parse().unwrap(), true, fixture.now)
        .unwrap();
    fixture.deliver();
    assert!(fixture.commands.iter().any(
        |command| matches!(command, Command::Peer { peer, command: PeerCommand::SetMuted { muted: true, .. } } if *peer == host)
    ));
    fixture.take_all();
    fixture.set_role(
        "host",
        "ghost",
        Grants {
            hidden: true,
            ..Grants::default()
        },
    );
    assert_eq!(
        fixture.forwarded(&peer),
        Some((of_host.parse().unwrap(), None)),
        "nothing of a hidden participant is received"
    );
    assert_eq!(handles(&fixture.take(&peer)), Some(vec![]));

    fixture.take_all();
    fixture.set_role(
        "guest",
        "silent",
        Grants {
            can_publish_data: false,
            ..Grants::default()
        },
    );
    assert!(fixture.take(&guest).iter().any(|message| matches!(
        message,
        Response::UnpublishDataTrackResponse(response) if response.info.as_ref().is_some_and(|info| info.sid == of_guest)
    )));
    assert!(fixture.commands.iter().any(
        |command| matches!(command, Command::Peer { peer, command: PeerCommand::UnpublishDataTrack(_) } if *peer == guest)
    ));
    assert_eq!(fixture.event_names(), ["unpublished"]);
}

#[test]
fn a_client_that_resumes_with_a_data_track_that_nobody_knows_joins_anew() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let track = fixture.publish_data(&alice, 1, "first");
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
    fixture.resume(&alice);
    fixture.request(&alice, state(&track));
    assert_eq!(leave_of(&fixture.take(&alice)), None);
    fixture.resume(&alice);
    fixture.request(&alice, state("DTR_other"));
    assert_eq!(
        leave_of(&fixture.take(&alice)),
        Some((DisconnectReason::StateMismatch, Action::Reconnect))
    );
}
