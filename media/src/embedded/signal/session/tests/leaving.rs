//! Leaves, lost connections and resumes.

use super::*;

#[test]
fn a_removed_participant_a_closed_room_and_a_stopping_server_are_told_apart() {
    let mut world = World::new();
    let (alice, bob, carol) = (world.joined("alice", None), world.joined("bob", None), world.joined("carol", None));
    world.take_all();
    world.machine.remove_participant(&alice, world.now);
    world.deliver();
    world.call(&carol, |session, _| session.shut_down());
    assert_eq!(leave_of(&world.take(&carol)), Some((DisconnectReason::ServerShutdown, Action::Reconnect)));
    world.machine.close(world.now);
    world.deliver();
    assert_eq!(leave_of(&world.take(&alice)), Some((DisconnectReason::ParticipantRemoved, Action::Disconnect)));
    assert_eq!(leave_of(&world.take(&bob)), Some((DisconnectReason::RoomDeleted, Action::Disconnect)));
    assert!(matches!(world.commands.last(), Some(Command::CloseRoom)));
}

#[test]
fn a_clean_leave_is_the_clients_own_and_a_dead_connection_is_not() {
    let mut world = World::new();
    let (alice, bob) = (world.joined("alice", None), world.joined("bob", None));
    world.take_all();
    world.request(&alice, Request::Leave(proto::LeaveRequest::default()));
    assert_eq!((world.event_names(), leave_of(&world.take(&alice))), (vec!["left"], None));
    assert!(world.sessions.get_mut(&alice).unwrap().take_close());
    world.call(&bob, Session::detach);
    assert_eq!(world.event_names(), Vec::<&str>::new(), "its media lives");
    world.media(&bob, PeerEvent::Failed(FailureReason::Silent));
    assert_eq!(world.event_names(), ["lost"]);
}

#[test]
fn a_client_whose_media_is_silent_may_resume_within_five_seconds() {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    world.take_all();
    world.media(&alice, PeerEvent::Failed(FailureReason::Silent));
    assert_eq!(leave_of(&world.take(&alice)), Some((DisconnectReason::ConnectionTimeout, Action::Resume)));
    world.call(&alice, Session::detach);
    assert_eq!(world.sessions[&alice].next_deadline(), reading(START.after(RESUME_TIMEOUT)));
    world.now = START.after(RESUME_TIMEOUT);
    world.call(&alice, Session::tick);
    assert_eq!(world.event_names(), ["lost"]);
}

#[test]
fn a_client_that_resumes_is_told_to_reconnect_first_and_then_what_it_has_missed() {
    let mut world = World::new();
    let (alice, bob, carol) = (world.joined("alice", None), world.joined("bob", None), world.joined("carol", None));
    world.call(&alice, Session::detach);
    world.request(&bob, Request::Leave(proto::LeaveRequest::default()));
    world.take_all();
    world.call(&alice, |session, context| session.resume(context, parameters(ConnectionMode::Single)));
    assert!(matches!(&world.commands[..], [Command::Peer { peer, command: PeerCommand::Resume }] if *peer == alice));
    world.publish(&carol);
    assert_eq!(world.take(&alice), [], "nothing comes before the media worker is ready");
    world.media(&alice, PeerEvent::Resumed { last_message_seq: 7 });
    let messages = world.take(&alice);
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
    let told = [("bob".to_owned(), 3, 0), ("alice".to_owned(), 2, 0), ("carol".to_owned(), 2, 1)];
    assert_eq!(updates(&messages), told);
    assert_eq!(world.event_names(), ["published"], "a resume is no join");
}

#[test]
fn a_client_that_resumes_with_a_track_that_is_not_known_has_to_join_anew() {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    world.take_all();
    let track = proto::TrackInfo { sid: "TR_VCunknown".into(), ..proto::TrackInfo::default() };
    let published = proto::TrackPublishedResponse { cid: "c".into(), track: Some(track) };
    let state = proto::SyncState { publish_tracks: vec![published], ..proto::SyncState::default() };
    world.request(&alice, Request::SyncState(state));
    assert_eq!(leave_of(&world.take(&alice)), Some((DisconnectReason::StateMismatch, Action::Reconnect)));
    assert_eq!(world.event_names(), ["lost"]);
}

#[test]
fn a_client_that_closes_its_transports_and_then_its_websocket_is_gone_at_once() {
    let mut world = World::new();
    let alice = world.joined("alice", None);
    world.take_all();
    world.media(&alice, PeerEvent::Failed(FailureReason::Closed));
    assert_eq!(world.event_names(), Vec::<&str>::new(), "its leave may come");
    world.call(&alice, Session::detach);
    assert_eq!(world.event_names(), ["lost"]);
}
