//! Leaves, lost connections and resumes.

use super::*;
use crate::embedded::signal::session::events::RESUME_TIMEOUT;

#[test]
fn a_removed_participant_a_closed_room_and_a_stopping_server_have_different_reasons() {
    let mut fixture = Fixture::new();
    let (alice, bob, carol) = (
        fixture.joined("alice", None),
        fixture.joined("bob", None),
        fixture.joined("carol", None),
    );
    fixture.take_all();
    fixture.room_state.remove_participant(&alice, fixture.now);
    fixture.deliver();
    fixture.call(&carol, |session, _| session.shut_down());
    assert_eq!(
        leave_of(&fixture.take(&carol)),
        Some((DisconnectReason::ServerShutdown, Action::Reconnect))
    );
    fixture.room_state.close(fixture.now);
    fixture.deliver();
    assert_eq!(
        leave_of(&fixture.take(&alice)),
        Some((DisconnectReason::ParticipantRemoved, Action::Disconnect))
    );
    assert_eq!(
        leave_of(&fixture.take(&bob)),
        Some((DisconnectReason::RoomDeleted, Action::Disconnect))
    );
    assert!(matches!(fixture.commands.last(), Some(Command::CloseRoom)));
}

#[test]
fn a_clean_leave_is_the_clients_own_and_a_dead_connection_is_not() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    fixture.take_all();
    fixture.request(&alice, Request::Leave(proto::LeaveRequest::default()));
    assert_eq!(
        (fixture.event_names(), leave_of(&fixture.take(&alice))),
        (vec!["left"], None)
    );
    assert!(fixture.sessions.get_mut(&alice).unwrap().take_close());
    fixture.call(&bob, Session::detach);
    assert_eq!(fixture.event_names(), Vec::<&str>::new(), "its media lives");
    fixture.media(&bob, PeerEvent::Failed(FailureReason::Silent));
    assert_eq!(fixture.event_names(), ["lost"]);
}

#[test]
fn a_client_whose_media_is_silent_may_resume_within_five_seconds() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    fixture.media(&alice, PeerEvent::Failed(FailureReason::Silent));
    assert_eq!(
        leave_of(&fixture.take(&alice)),
        Some((DisconnectReason::ConnectionTimeout, Action::Resume))
    );
    fixture.call(&alice, Session::detach);
    assert_eq!(
        fixture.sessions[&alice].next_deadline(),
        reading(START.after(RESUME_TIMEOUT))
    );
    fixture.now = START.after(RESUME_TIMEOUT);
    fixture.call(&alice, Session::tick);
    assert_eq!(fixture.event_names(), ["lost"]);
}

#[test]
fn a_resuming_client_receives_reconnect_first_and_then_what_it_has_missed() {
    let mut fixture = Fixture::new();
    let (alice, bob, carol) = (
        fixture.joined("alice", None),
        fixture.joined("bob", None),
        fixture.joined("carol", None),
    );
    fixture.call(&alice, Session::detach);
    fixture.request(&bob, Request::Leave(proto::LeaveRequest::default()));
    fixture.take_all();
    fixture.call(&alice, |session, context| {
        session.resume(context, parameters(ConnectionMode::Single));
    });
    assert!(
        matches!(&fixture.commands[..], [Command::Peer { peer, command: PeerCommand::Resume }] if *peer == alice)
    );
    fixture.publish(&carol);
    assert_eq!(
        fixture.take(&alice),
        [],
        "nothing comes before the media worker is ready"
    );
    fixture.media(
        &alice,
        PeerEvent::Resumed {
            last_message_seq: 7,
        },
    );
    let messages = fixture.take(&alice);
    let [
        Response::Reconnect(reconnect),
        Response::Update(_),
        Response::Update(_),
        Response::RoomUpdate(_),
        Response::RefreshToken(_),
    ] = &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!(reconnect.last_message_seq, 7);
    let told = [
        ("bob".to_owned(), 3, 0),
        ("alice".to_owned(), 2, 0),
        ("carol".to_owned(), 2, 1),
    ];
    assert_eq!(updates(&messages), told);
    assert_eq!(fixture.event_names(), ["published"], "a resume is no join");
}

#[test]
fn a_client_that_resumes_with_a_track_that_is_not_known_has_to_join_anew() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    let track = proto::TrackInfo {
        sid: "TR_VCunknown".into(),
        ..proto::TrackInfo::default()
    };
    let published = proto::TrackPublishedResponse {
        cid: "c".into(),
        track: Some(track),
    };
    let state = proto::SyncState {
        publish_tracks: vec![published],
        ..proto::SyncState::default()
    };
    fixture.resume(&alice);
    fixture.request(&alice, Request::SyncState(state));
    assert_eq!(
        leave_of(&fixture.take(&alice)),
        Some((DisconnectReason::StateMismatch, Action::Reconnect))
    );
    assert_eq!(fixture.event_names(), ["lost"]);
}

#[test]
fn a_client_that_closes_its_transports_and_then_its_websocket_is_gone_at_once() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    fixture.media(&alice, PeerEvent::Failed(FailureReason::Closed));
    assert_eq!(
        fixture.event_names(),
        Vec::<&str>::new(),
        "its leave may come"
    );
    fixture.call(&alice, Session::detach);
    assert_eq!(fixture.event_names(), ["lost"]);
}

/// The leaves and updates that a client has received about others.
fn received(states: &[(&str, u32)]) -> proto::SyncState {
    let state = |(sid, last): &(&str, u32)| proto::DataChannelReceiveState {
        publisher_sid: (*sid).to_owned(),
        last_seq: *last,
    };
    let datachannel_receive_states = states.iter().map(state).collect();
    proto::SyncState {
        datachannel_receive_states,
        ..proto::SyncState::default()
    }
}

/// Requests to media workers to send messages again, since the last call, by sender.
fn replayed(fixture: &mut Fixture) -> Vec<Vec<(String, u32)>> {
    let commands = std::mem::take(&mut fixture.commands);
    let of_replays = commands.into_iter().filter_map(|command| match command {
        Command::Peer {
            command: PeerCommand::ReplayData { received },
            ..
        } => Some(received),
        _ => None,
    });
    let listed = of_replays.map(|received| {
        let mut listed: Vec<_> = received
            .into_iter()
            .map(|(sid, last)| (sid.to_string(), last))
            .collect();
        listed.sort();
        listed
    });
    listed.collect()
}

/// Proves S-53.
#[test]
fn the_state_of_a_client_counts_once_for_each_resume_and_names_each_sender_once() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let many = received(&[("PA_bob", 3); 900]);
    fixture.request(&alice, Request::SyncState(many.clone()));
    assert!(replayed(&mut fixture).is_empty(), "it has not resumed");
    fixture.resume(&alice);
    let both = received(&[("PA_bob", 3), ("PA_carol", 1), ("PA_bob", 7), ("PA_bob", 5)]);
    fixture.request(&alice, Request::SyncState(both));
    assert_eq!(
        replayed(&mut fixture),
        [[("PA_bob".to_owned(), 7), ("PA_carol".to_owned(), 1)]]
    );
    fixture.request(&alice, Request::SyncState(many.clone()));
    assert!(replayed(&mut fixture).is_empty(), "once is enough");
    let join = JoinParameters {
        sync_state: Some(many.clone()),
        ..parameters(ConnectionMode::Single)
    };
    fixture.call(&alice, |session, context| session.resume(context, join));
    fixture.request(&alice, Request::SyncState(many));
    assert_eq!(
        replayed(&mut fixture),
        [[("PA_bob".to_owned(), 3)]],
        "it came with the request to resume"
    );
}

/// Proves S-53.
#[test]
fn the_state_of_a_client_that_has_not_resumed_changes_nothing() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    let track = fixture.publish(&bob);
    fixture.take_all();
    let track_sids = vec![track.to_string()];
    let unwanted = proto::UpdateSubscription {
        track_sids: track_sids.clone(),
        ..Default::default()
    };
    let unknown = proto::TrackInfo {
        sid: "TR_VCunknown".into(),
        ..Default::default()
    };
    let publish_tracks = vec![proto::TrackPublishedResponse {
        cid: "c".into(),
        track: Some(unknown),
    }];
    for state in [
        proto::SyncState {
            subscription: Some(unwanted),
            ..Default::default()
        },
        proto::SyncState {
            track_sids_disabled: track_sids,
            ..Default::default()
        },
        proto::SyncState {
            publish_tracks,
            ..Default::default()
        },
    ] {
        fixture.request(&alice, Request::SyncState(state));
        assert_eq!(
            (
                fixture.commands.len(),
                fixture.take(&alice),
                fixture.event_names()
            ),
            (0, vec![], vec![])
        );
    }
}
