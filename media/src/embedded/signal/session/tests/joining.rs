//! Joins, until the media is connected.

use super::*;

#[test]
fn a_join_is_answered_with_the_room_the_others_and_a_fresh_token() {
    let mut world = World::new();
    let (simulated, track) = world.simulated("bob");
    let sid = world.join("alice", Some("host"));
    let messages = world.take(&sid);
    let [Response::Join(join), Response::RefreshToken(token), ..] = &messages[..] else {
        panic!("{messages:?}")
    };
    let room = join.room.as_ref().unwrap();
    assert!(room.sid.starts_with("RM_"));
    assert_eq!(
        room.name,
        world.machine.name().split().1.as_str(),
        "as in the API, without the project"
    );
    let own = join.participant.as_ref().unwrap();
    assert_eq!(
        (own.identity.as_str(), own.state()),
        ("alice", proto::participant_info::State::Joined)
    );
    assert!(own.permission.as_ref().unwrap().can_publish);
    let other = &join.other_participants[0];
    assert_eq!(
        (other.sid.as_str(), other.tracks[0].sid.as_str()),
        (simulated.as_str(), track.as_str())
    );
    assert_eq!(
        (
            join.ping_interval,
            join.ping_timeout,
            join.subscriber_primary
        ),
        (5, 15, false)
    );
    let mimes: Vec<_> = join
        .enabled_publish_codecs
        .iter()
        .map(|codec| codec.mime.as_str())
        .collect();
    assert_eq!(
        mimes,
        [
            "video/VP8",
            "video/H264",
            "video/VP9",
            "video/AV1",
            "video/H265",
            "audio/opus"
        ]
    );
    assert_eq!(
        world.signer.verify(token, START).unwrap().role(),
        Some("host".parse().unwrap())
    );
    assert!(matches!(world.commands[0], Command::AddPeer(_)));
    assert!(
        !world.is_subscribed(&sid, &track),
        "a participant of the sandbox sends no packets"
    );
}

#[test]
fn a_client_that_sets_its_offer_late_gets_the_answer_after_a_pause() {
    let mut world = World::new();
    let offer = Some(proto::SessionDescription {
        sdp: "v=0".into(),
        ..proto::SessionDescription::default()
    });
    let join = JoinParameters {
        offer,
        sets_offer_late: true,
        ..parameters(ConnectionMode::Single)
    };
    let answer = || PeerEvent::Answered {
        offer_id: 1,
        sdp: "v=0".into(),
        mid_to_track_id: Vec::new(),
    };
    let alice = world.join_with(claims("alice", None), &join);
    assert!(matches!(world.take(&alice)[..], [Response::Join(_)]));
    assert!(world.commands.iter().any(|command| matches!(
        command,
        Command::Peer {
            command: PeerCommand::Offer { .. },
            ..
        }
    )));
    world.media(&alice, answer());
    assert_eq!(world.take(&alice), []);
    let until = START.after(OFFER_PAUSE);
    assert_eq!(world.sessions[&alice].next_deadline(), reading(until));
    world.now = until;
    world.call(&alice, Session::tick);
    assert!(matches!(
        world.take(&alice)[..],
        [Response::RefreshToken(_), .., Response::Answer(_)]
    ));

    let bob = world.join_with(
        claims("bob", None),
        &JoinParameters {
            sets_offer_late: false,
            ..join.clone()
        },
    );
    world.media(&bob, answer());
    assert!(
        matches!(world.take(&bob).last(), Some(Response::Answer(_))),
        "no other client waits"
    );
    let carol = world.join_with(claims("carol", None), &join);
    world.call(&carol, |session, _| session.shut_down());
    assert!(
        leave_of(&world.take(&carol)).is_some(),
        "what ends the connection comes at once"
    );
}

#[test]
fn a_client_gets_turn_servers_with_credentials_of_its_own_at_its_join_and_when_it_resumes() {
    let mut world = World::new();
    let (urls, ttl) = (
        vec!["turn:turn.example.com".to_owned()],
        Duration::from_secs(100),
    );
    world.turn = Arc::new([TurnServers {
        urls,
        secret: Secret::new("hush"),
        ttl,
    }]);
    let alice = world.joined("alice", None);
    let messages = world.take(&alice);
    let Response::Join(join) = &messages[0] else {
        panic!("{messages:?}")
    };
    assert_eq!(
        join.ice_servers[0].username,
        format!("{}:{alice}", START.after(ttl).millis() / 1_000)
    );

    world.call(&alice, Session::detach);
    world.now = START.after(Duration::from_secs(50));
    world.call(&alice, |session, context| {
        session.resume(context, parameters(ConnectionMode::Single));
    });
    world.media(
        &alice,
        PeerEvent::Resumed {
            last_message_seq: 0,
        },
    );
    let messages = world.take(&alice);
    let Response::Reconnect(reconnect) = &messages[0] else {
        panic!("{messages:?}")
    };
    assert_eq!(
        reconnect.ice_servers[0].username,
        format!("{}:{alice}", world.now.after(ttl).millis() / 1_000)
    );
    assert_ne!(
        reconnect.ice_servers[0].credential,
        join.ice_servers[0].credential
    );
}

#[test]
fn a_participant_is_reported_and_seen_once_its_media_is_connected() {
    let mut world = World::new();
    let bob = world.joined("bob", None);
    world.take_all();
    let alice = world.join("alice", None);
    assert_eq!(
        (updates(&world.take(&bob)), world.event_names()),
        (vec![], vec!["requested"])
    );
    let track = world.publish(&alice);
    assert_eq!(
        (updates(&world.take(&bob)), world.event_names()),
        (vec![], vec![]),
        "it is not active yet"
    );
    world.connect(&alice);
    assert_eq!(updates(&world.take(&bob)), [("alice".to_owned(), 2, 1)]);
    assert_eq!(world.event_names(), ["joined", "published"]);
    assert!(world.is_subscribed(&bob, &track));
    assert!(
        !world.media(&alice, PeerEvent::Connected),
        "a second connection is no second join"
    );
}

#[test]
fn a_join_whose_media_is_not_connected_in_time_is_aborted() {
    let mut world = World::new();
    let alice = world.join("alice", None);
    world.take_all();
    world.now = START.after(Duration::from_secs(60));
    world.tick_machine();
    assert_eq!(world.event_names(), ["aborted"]);
    assert_eq!(
        leave_of(&world.take(&alice)),
        Some((DisconnectReason::JoinFailure, Action::Disconnect))
    );
    assert!(world.sessions[&alice].is_over());
    assert!(world.commands.iter().any(|command| matches!(
        command,
        Command::Peer {
            command: PeerCommand::Remove,
            ..
        }
    )));
    assert_eq!(world.machine.next_deadline(), None);
}

#[test]
fn a_client_that_is_still_connecting_has_half_a_minute_without_signalling() {
    let mut world = World::new();
    let alice = world.join("alice", None);
    world.take_all();
    world.call(&alice, Session::detach);
    assert_eq!(
        world.machine.next_deadline(),
        Some(reading(START.after(Duration::from_secs(30))))
    );
    world.now = START.after(Duration::from_secs(30));
    world.tick_machine();
    assert_eq!(world.event_names(), ["aborted"]);
}

#[test]
fn the_same_identity_again_replaces_the_first() {
    let mut world = World::new();
    let first = world.joined("alice", None);
    world.take_all();
    let second = world.joined("alice", None);
    assert_eq!(
        leave_of(&world.take(&first)),
        Some((DisconnectReason::DuplicateIdentity, Action::Disconnect))
    );
    assert_eq!(world.event_names(), ["requested", "left", "joined"]);
    assert!(world.sessions[&first].is_over() && !world.sessions[&second].is_over());
}

#[test]
fn what_is_published_already_is_forwarded_once_the_media_worker_knows_the_participant() {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    let track = world.publish(&alice);
    world.take_all();
    let bob = world.join("bob", None);
    let of_bob: Vec<_> = world
        .commands
        .iter()
        .filter_map(|command| match command {
            Command::AddPeer(peer) if peer.sid == bob => Some("added"),
            Command::Peer {
                peer,
                command: PeerCommand::Subscribe(subscribed),
            } if *peer == bob && *subscribed == track => Some("subscribed"),
            _ => None,
        })
        .collect();
    assert_eq!(of_bob, ["added", "subscribed"]);
}
