use super::*;

fn room(name: &str) -> NamespacedRoom {
    format!("prj_0123456789ab.{name}").parse().unwrap()
}

fn sid(name: &str) -> ParticipantSid {
    name.parse().unwrap()
}

fn offer(peer: &str, offer_id: u32, bytes: usize) -> Command {
    PeerCommand::Offer {
        offer_id,
        sdp: "v".repeat(bytes),
    }
    .for_peer(sid(peer))
}

fn remove(peer: &str) -> Command {
    PeerCommand::Remove.for_peer(sid(peer))
}

/// What waits, in a short form, in its order.
fn drain(queue: &CommandQueue) -> Vec<String> {
    let commands = std::iter::from_fn(|| queue.pop());
    let text = |RoomCommand { room, command }: RoomCommand| match command {
        Command::Peer {
            peer,
            command: PeerCommand::Offer { offer_id, .. },
        } => format!("offer {offer_id} of {peer}"),
        Command::Peer {
            peer,
            command: PeerCommand::Remove,
        } => format!("remove {peer}"),
        Command::Peer {
            peer,
            command: PeerCommand::Fail(..),
        } => format!("fail {peer}"),
        Command::CloseRoom => format!("close {room}"),
        Command::Peer {
            command: PeerCommand::Resume,
            ..
        } => "resume".to_owned(),
        Command::Peer {
            command: PeerCommand::Subscribe(track),
            ..
        } => format!("subscribe {track}"),
        Command::Peer {
            command: PeerCommand::Unsubscribe(track),
            ..
        } => format!("unsubscribe {track}"),
        other => format!("{other:?}"),
    };
    commands.map(text).collect()
}

/// Whether nothing is kept of any room.
fn keeps_nothing(queue: &CommandQueue) -> bool {
    let Waiting {
        commands,
        slots,
        counts,
        refused,
        sdp_bytes,
        ..
    } = &*queue.0.lock();
    commands.is_empty()
        && slots.is_empty()
        && counts.is_empty()
        && refused.is_empty()
        && sdp_bytes.is_empty()
}

#[test]
fn the_newest_offer_of_a_participant_replaces_the_one_that_waits() {
    let (queue, room) = (CommandQueue::default(), room("a"));
    for id in 1..=100_000 {
        assert_eq!(queue.push(&room, offer("PA_a", id, 100)), Pushed::Waits);
    }
    queue.push(&room, offer("PA_b", 1, 100));
    assert_eq!(queue.0.lock().sdp_bytes.total(), 200);
    assert_eq!(drain(&queue), ["offer 100000 of PA_a", "offer 1 of PA_b"]);
    assert!(keeps_nothing(&queue));
}

#[test]
fn an_offer_comes_behind_what_was_sent_before_it() {
    let (queue, room) = (CommandQueue::default(), room("a"));
    queue.push(&room, offer("PA_a", 1, 1));
    queue.push(&room, PeerCommand::Resume.for_peer(sid("PA_a")));
    queue.push(&room, offer("PA_a", 2, 1));
    assert_eq!(drain(&queue), ["resume", "offer 2 of PA_a"]);
}

#[test]
fn the_newest_wish_for_a_track_replaces_the_earlier_ones() {
    let (queue, room) = (CommandQueue::default(), room("a"));
    for track in ["TR_a", "TR_b"] {
        for _ in 0..3 {
            queue.push(
                &room,
                PeerCommand::Subscribe(track.parse().unwrap()).for_peer(sid("PA_a")),
            );
            queue.push(
                &room,
                PeerCommand::Unsubscribe(track.parse().unwrap()).for_peer(sid("PA_a")),
            );
        }
    }
    assert_eq!(drain(&queue), ["unsubscribe TR_a", "unsubscribe TR_b"]);
}

#[test]
fn rooms_take_turns() {
    let queue = CommandQueue::default();
    for id in 1..=3 {
        queue.push(&room("flood"), offer(&format!("PA_{id}"), 1, 1));
    }
    queue.push(&room("other"), remove("PA_x"));
    assert_eq!(
        drain(&queue),
        [
            "offer 1 of PA_1",
            "remove PA_x",
            "offer 1 of PA_2",
            "offer 1 of PA_3"
        ]
    );
}

#[test]
fn a_participant_with_too_many_commands_fails_and_commands_of_the_server_are_kept() {
    let (queue, room) = (CommandQueue::default(), room("a"));
    let resume = || PeerCommand::Resume.for_peer(sid("PA_a"));
    for _ in 0..WAITING_OF_PEER {
        assert_eq!(queue.push(&room, resume()), Pushed::Waits);
    }
    for _ in 0..3 {
        assert_eq!(queue.push(&room, resume()), Pushed::Refused);
        assert_eq!(queue.push(&room, offer("PA_a", 1, 1)), Pushed::Refused);
    }
    assert_eq!(queue.push(&room, remove("PA_a")), Pushed::Waits);
    assert_eq!(queue.push(&room, Command::CloseRoom), Pushed::Waits);
    let waiting = drain(&queue);
    assert_eq!(
        waiting[WAITING_OF_PEER..],
        ["fail PA_a", "remove PA_a", "close prj_0123456789ab.a"]
    );
    assert!(keeps_nothing(&queue));
}

#[test]
fn waiting_descriptions_are_bounded_and_each_room_has_its_share() {
    let queue = CommandQueue::default();
    let large = 512 * 1024;
    let refused: Vec<_> = (0..100)
        .filter(|id| {
            queue.push(&room("flood"), offer(&format!("PA_{id}"), 1, large)) == Pushed::Refused
        })
        .collect();
    assert_eq!(
        refused,
        (WAITING_SDP_BYTES / large..100).collect::<Vec<_>>()
    );
    assert_eq!(
        queue.push(&room("other"), offer("PA_x", 1, large)),
        Pushed::Waits
    );
    drain(&queue);
    assert_eq!(queue.0.lock().sdp_bytes.total(), 0);
    assert_eq!(
        queue.push(&room("flood"), offer("PA_new", 1, large)),
        Pushed::Waits
    );
}

#[test]
fn a_closed_queue_keeps_nothing() {
    let queue = CommandQueue::default();
    queue.push(&room("a"), remove("PA_a"));
    queue.close();
    assert_eq!(queue.push(&room("a"), remove("PA_a")), Pushed::Closed);
    assert!(queue.pop().is_none());
}
