//! Joins, until the media is connected.

use super::*;

#[test]
fn a_join_is_answered_with_the_room_the_others_and_a_fresh_token() {
    let mut fixture = Fixture::new();
    let (simulated, track) = fixture.simulated("bob");
    let sid = fixture.join("alice", Some("host"));
    let messages = fixture.take(&sid);
    let [Response::Join(join), Response::RefreshToken(token), ..] = &messages[..] else {
        panic!("{messages:?}")
    };
    let room = join.room.as_ref().unwrap();
    assert!(room.sid.starts_with("RM_"));
    assert_eq!(
        room.name,
        fixture.room_state.name().split().1.as_str(),
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
        fixture.signer.verify(token, START).unwrap().role(),
        Some("host".parse().unwrap())
    );
    assert!(matches!(fixture.commands[0], Command::AddPeer(_)));
    assert!(
        !fixture.is_subscribed(&sid, &track),
        "a participant of the sandbox sends no packets"
    );
}

#[test]
fn a_client_that_sets_its_offer_late_gets_the_answer_after_a_pause() {
    let mut fixture = Fixture::new();
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
    let alice = fixture.join_with(claims("alice", None), &join);
    assert!(matches!(fixture.take(&alice)[..], [Response::Join(_)]));
    assert!(fixture.commands.iter().any(|command| matches!(
        command,
        Command::Peer {
            command: PeerCommand::Offer { .. },
            ..
        }
    )));
    fixture.media(&alice, answer());
    assert_eq!(fixture.take(&alice), []);
    let until = START.after(OFFER_PAUSE);
    assert_eq!(fixture.sessions[&alice].next_deadline(), reading(until));
    fixture.now = until;
    fixture.call(&alice, Session::tick);
    assert!(matches!(
        fixture.take(&alice)[..],
        [Response::RefreshToken(_), .., Response::Answer(_)]
    ));

    let bob = fixture.join_with(
        claims("bob", None),
        &JoinParameters {
            sets_offer_late: false,
            ..join.clone()
        },
    );
    fixture.media(&bob, answer());
    assert!(
        matches!(fixture.take(&bob).last(), Some(Response::Answer(_))),
        "no other client waits"
    );
    let carol = fixture.join_with(claims("carol", None), &join);
    fixture.call(&carol, |session, _| session.shut_down());
    assert!(
        leave_of(&fixture.take(&carol)).is_some(),
        "what ends the connection comes at once"
    );
}

#[test]
fn a_client_gets_turn_servers_with_credentials_of_its_own_at_its_join_and_when_it_resumes() {
    let mut fixture = Fixture::new();
    let (urls, ttl) = (
        vec!["turn:turn.example.com".to_owned()],
        Duration::from_secs(100),
    );
    fixture.turn = Arc::new([TurnServers {
        urls,
        secret: Secret::new("hush"),
        ttl,
    }]);
    let alice = fixture.joined("alice", None);
    let messages = fixture.take(&alice);
    let Response::Join(join) = &messages[0] else {
        panic!("{messages:?}")
    };
    assert_eq!(
        join.ice_servers[0].username,
        format!("{}:{alice}", START.after(ttl).millis() / 1_000)
    );

    fixture.call(&alice, Session::detach);
    fixture.now = START.after(Duration::from_secs(50));
    fixture.call(&alice, |session, context| {
        session.resume(context, parameters(ConnectionMode::Single));
    });
    fixture.media(
        &alice,
        PeerEvent::Resumed {
            last_message_seq: 0,
        },
    );
    let messages = fixture.take(&alice);
    let Response::Reconnect(reconnect) = &messages[0] else {
        panic!("{messages:?}")
    };
    assert_eq!(
        reconnect.ice_servers[0].username,
        format!("{}:{alice}", fixture.now.after(ttl).millis() / 1_000)
    );
    assert_ne!(
        reconnect.ice_servers[0].credential,
        join.ice_servers[0].credential
    );
}

#[test]
fn a_participant_is_reported_and_seen_once_its_media_is_connected() {
    let mut fixture = Fixture::new();
    let bob = fixture.joined("bob", None);
    fixture.take_all();
    let alice = fixture.join("alice", None);
    assert_eq!(
        (updates(&fixture.take(&bob)), fixture.event_names()),
        (vec![], vec!["requested"])
    );
    let track = fixture.publish(&alice);
    assert_eq!(
        (updates(&fixture.take(&bob)), fixture.event_names()),
        (vec![], vec![]),
        "a joining participant is not active yet"
    );
    fixture.connect(&alice);
    assert_eq!(updates(&fixture.take(&bob)), [("alice".to_owned(), 2, 1)]);
    assert_eq!(fixture.event_names(), ["joined", "published"]);
    assert!(fixture.is_subscribed(&bob, &track));
    assert!(
        !fixture.media(&alice, PeerEvent::Connected),
        "a second connection is no second join"
    );
}

#[test]
fn a_join_whose_media_is_not_connected_in_time_is_aborted() {
    let mut fixture = Fixture::new();
    let alice = fixture.join("alice", None);
    fixture.take_all();
    fixture.now = START.after(Duration::from_secs(60));
    fixture.tick_room_state();
    assert_eq!(fixture.event_names(), ["aborted"]);
    assert_eq!(
        leave_of(&fixture.take(&alice)),
        Some((DisconnectReason::JoinFailure, Action::Disconnect))
    );
    assert!(fixture.sessions[&alice].is_over());
    assert!(fixture.commands.iter().any(|command| matches!(
        command,
        Command::Peer {
            command: PeerCommand::Remove,
            ..
        }
    )));
    assert_eq!(fixture.room_state.next_deadline(), None);
}

#[test]
fn a_client_that_is_still_connecting_has_half_a_minute_without_signalling() {
    let mut fixture = Fixture::new();
    let alice = fixture.join("alice", None);
    fixture.take_all();
    fixture.call(&alice, Session::detach);
    assert_eq!(
        fixture.room_state.next_deadline(),
        Some(reading(START.after(Duration::from_secs(30))))
    );
    fixture.now = START.after(Duration::from_secs(30));
    fixture.tick_room_state();
    assert_eq!(fixture.event_names(), ["aborted"]);
}

#[test]
fn the_same_identity_again_replaces_the_first() {
    let mut fixture = Fixture::new();
    let first = fixture.joined("alice", None);
    fixture.take_all();
    let second = fixture.joined("alice", None);
    assert_eq!(
        leave_of(&fixture.take(&first)),
        Some((DisconnectReason::DuplicateIdentity, Action::Disconnect))
    );
    assert_eq!(fixture.event_names(), ["requested", "left", "joined"]);
    assert!(fixture.sessions[&first].is_over() && !fixture.sessions[&second].is_over());
}

#[test]
fn what_is_published_already_is_forwarded_once_the_media_worker_knows_the_participant() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let track = fixture.publish(&alice);
    fixture.take_all();
    let bob = fixture.join("bob", None);
    let of_bob: Vec<_> = fixture
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
