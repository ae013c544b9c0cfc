//! Other messages to clients, and refused requests.

use proto::request_response::Reason;

use super::*;

#[test]
fn a_client_is_answered_and_one_that_is_silent_for_fifteen_seconds_has_lost_its_signalling() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    fixture.now = START.after(Duration::from_secs(10));
    fixture.request(
        &alice,
        Request::PingReq(proto::Ping {
            timestamp: 42,
            rtt: 0,
        }),
    );
    let messages = fixture.take(&alice);
    assert!(matches!(&messages[..], [Response::PongResp(pong)] if pong.last_ping_timestamp == 42));
    assert_eq!(
        fixture.sessions[&alice].next_deadline(),
        reading(START.after(Duration::from_secs(25)))
    );
    fixture.now = START.after(Duration::from_secs(25));
    fixture.call(&alice, Session::tick);
    assert!(fixture.sessions.get_mut(&alice).unwrap().take_close());
    assert!(
        fixture.room_state.present(&alice).is_ok(),
        "its media may live"
    );
}

/// Proves S-38.
#[test]
fn a_description_that_is_too_large_reaches_no_media_worker() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let description = |sdp: &str| proto::SessionDescription {
        sdp: sdp.to_owned(),
        ..Default::default()
    };
    let line = "a=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\n";
    for request in [Request::Offer as fn(_) -> _, Request::Answer] {
        fixture.commands.clear();
        fixture.request(&alice, request(description(&line.repeat(256))));
        fixture.request(&alice, request(description(&line.repeat(257))));
        let [allowed, refused] = &fixture.commands[..] else {
            panic!("{:?}", fixture.commands)
        };
        assert!(
            matches!(
                allowed,
                Command::Peer {
                    command: PeerCommand::Offer { .. } | PeerCommand::Answer { .. },
                    ..
                }
            ),
            "{allowed:?}"
        );
        assert!(
            matches!(refused, Command::Peer { peer, command: PeerCommand::Fail(..) } if *peer == alice),
            "{refused:?}"
        );
    }
}

#[test]
fn requests_for_what_the_server_does_not_have_are_answered_with_their_id() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    fixture.request(
        &alice,
        Request::StoreDataBlobRequest(proto::StoreDataBlobRequest {
            request_id: 7,
            blob: None,
        }),
    );
    let get = proto::GetDataBlobRequest {
        request_id: 8,
        ..Default::default()
    };
    fixture.request(&alice, Request::GetDataBlobRequest(get));
    fixture.request(
        &alice,
        Request::UnpublishDataTrackRequest(proto::UnpublishDataTrackRequest { pub_handle: 9 }),
    );
    let answers = fixture
        .take(&alice)
        .into_iter()
        .map(|message| match message {
            Response::RequestResponse(response) => (response.request_id, response.reason()),
            other => panic!("{other:?}"),
        });
    let expected = [
        (7, Reason::NotAllowed),
        (8, Reason::NotAllowed),
        (0, Reason::NotFound),
    ];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
}

#[test]
fn a_token_is_refreshed_every_five_minutes() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    for minute in 1..=10 {
        fixture.take_all();
        for second in 0..12 {
            fixture.now = START.after(Duration::from_secs((minute - 1) * 60 + second * 5 + 5));
            fixture.request(&alice, Request::Ping(1));
            fixture.call(&alice, Session::tick);
        }
        let tokens = fixture
            .take(&alice)
            .into_iter()
            .filter(|message| matches!(message, Response::RefreshToken(_)));
        assert_eq!(
            tokens.count(),
            usize::from(minute % 5 == 0),
            "minute {minute}"
        );
    }
}

#[test]
fn speakers_and_connection_qualities_are_sent_for_received_participants() {
    let mut fixture = Fixture::new();
    let (alice, bob, carol) = (
        fixture.joined("alice", None),
        fixture.joined("bob", None),
        fixture.joined("carol", None),
    );
    fixture.publish(&alice);
    fixture.take_all();
    let speaker = |peer: &ParticipantSid| Speaker {
        peer: peer.clone(),
        level: 0.5,
        is_active: true,
    };
    let speakers = [speaker(&alice), speaker(&carol)];
    fixture.call(&bob, |session, context| {
        session.handle_speakers(context, &speakers);
    });
    let messages = fixture.take(&bob);
    let [Response::SpeakersChanged(changed)] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!(
        changed
            .speakers
            .iter()
            .map(|speaker| &speaker.sid)
            .collect::<Vec<_>>(),
        [alice.as_str()]
    );
    let quality = PeerQuality {
        peer: bob.clone(),
        quality: ConnectionQuality::Excellent,
        score: 4.5,
    };
    fixture.call(&bob, |session, context| {
        session.handle_qualities(context, std::slice::from_ref(&quality));
    });
    assert!(
        matches!(&fixture.take(&bob)[..], [Response::ConnectionQuality(update)] if update.updates.len() == 1)
    );
    fixture.call(&carol, |session, context| {
        session.handle_qualities(context, std::slice::from_ref(&quality));
    });
    assert!(fixture.take(&carol).is_empty());
}

#[test]
fn data_of_the_server_and_of_the_sandbox_is_sent_by_the_media_worker() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let (bob, _) = fixture.simulated("bob");
    fixture.take_all();
    let data = ServerData {
        data: b"hi".to_vec(),
        topic: None,
        kind: DataKind::Lossy,
        to: vec![],
    };
    fixture.room_state.send_server_data(data, fixture.now);
    fixture
        .room_state
        .send_data(&bob, b"hi".to_vec(), Some("chat"), fixture.now)
        .unwrap();
    fixture.deliver();
    let [Command::SendData(of_server), Command::SendData(of_bob)] = &fixture.commands[..] else {
        panic!()
    };
    assert_eq!(
        (of_server.to.len(), of_server.payload.as_slice()),
        (0, &b"hi"[..])
    );
    assert_eq!(
        (of_bob.to[0].as_str(), of_bob.payload.as_slice()),
        ("alice", &b"hi"[..])
    );
    assert!(fixture.room_state.present(&alice).is_ok());
}

#[test]
fn data_of_a_client_reaches_the_inboxes_of_the_sandbox_as_long_as_somebody_is_there() {
    let mut fixture = Fixture::new();
    let (bob, _) = fixture.simulated("bob");
    let alice = fixture.joined("alice", None);
    let (carol, _) = fixture.simulated("carol");
    let reports = |fixture: &Fixture| {
        let mut reports = fixture.commands.iter().filter_map(|command| match command {
            Command::ReportMessages { enabled } => Some(*enabled),
            _ => None,
        });
        reports.next_back()
    };
    assert_eq!(reports(&fixture), Some(true));
    let to = |identities: &[&str]| SentMessage {
        kind: DataKind::Lossy,
        topic: Some("chat".into()),
        payload: b"hi".to_vec(),
        to: Receivers {
            identities: identities
                .iter()
                .map(|identity| (*identity).to_owned())
                .collect(),
            sids: vec![],
        },
    };
    fixture.media(&alice, PeerEvent::MessageSent(to(&[])));
    fixture.media(&alice, PeerEvent::MessageSent(to(&["carol"])));
    let inbox = |fixture: &Fixture, sid| fixture.room_state.active_or_left(sid).unwrap().inbox;
    assert_eq!(
        (
            inbox(&fixture, &bob).len(),
            inbox(&fixture, &carol).len(),
            inbox(&fixture, &alice).len()
        ),
        (1, 2, 0)
    );
    let expected = Notice::Data {
        data: "aGk=".into(),
        topic: Some("chat".into()),
        kind: DataKind::Lossy,
        from_identity: Some("alice".parse().unwrap()),
    };
    assert_eq!(inbox(&fixture, &bob)[0].notice, expected);
    for sid in [bob, carol] {
        assert_eq!(reports(&fixture), Some(true));
        fixture
            .room_state
            .leave(&sid, Departure::Left, fixture.now)
            .unwrap();
        fixture.deliver();
    }
    assert_eq!(reports(&fixture), Some(false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_frames_cause_no_panic(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..64)) {
        let mut fixture = Fixture::new();
        let alice = fixture.joined("alice", None);
        fixture.publish(&alice);
        for frame in frames {
            if let Ok(request) = SignalRequest::decode(&*frame) {
                fixture.call(&alice, |session, context| session.handle_request(context, request));
            }
        }
    }
}
