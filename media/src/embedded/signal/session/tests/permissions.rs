//! A publisher's subscription permissions, in every order of events.

use super::*;

/// Events in a room, once each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoomStep {
    /// The publisher permits only bob to receive its tracks.
    Permit,
    /// The publisher publishes audio or video.
    Publish,
    /// The publisher publishes a data track, to which both others subscribe.
    PublishData,
    BobJoins,
    CarolJoins,
    /// Every connected client loses its WebSocket and resumes.
    Resume,
}

const STEPS: [RoomStep; 6] = [
    RoomStep::Permit,
    RoomStep::Publish,
    RoomStep::PublishData,
    RoomStep::BobJoins,
    RoomStep::CarolJoins,
    RoomStep::Resume,
];

fn permit(identity: &str, sid: &str, tracks: &[&TrackSid]) -> Request {
    let entry = proto::TrackPermission {
        participant_identity: identity.to_owned(),
        participant_sid: sid.to_owned(),
        all_tracks: tracks.is_empty(),
        track_sids: tracks.iter().map(ToString::to_string).collect(),
    };
    let permission = proto::SubscriptionPermission {
        all_participants: false,
        track_permissions: vec![entry],
    };
    Request::SubscriptionPermission(permission)
}

/// Returns all orders of the steps.
fn orders(steps: &[RoomStep]) -> Vec<Vec<RoomStep>> {
    let Some((first, rest)) = steps.split_first() else {
        return vec![vec![]];
    };
    let with_first = |order: Vec<RoomStep>| {
        (0..=order.len()).map(move |at| {
            let mut order = order.clone();
            order.insert(at, *first);
            order
        })
    };
    orders(rest).into_iter().flat_map(with_first).collect()
}

impl Fixture {
    fn resume_all(&mut self) {
        let sids: Vec<_> = self.sessions.keys().cloned().collect();
        for sid in &sids {
            self.call(sid, Session::detach);
            self.call(sid, |session, context| {
                session.resume(context, parameters(ConnectionMode::Single));
            });
            self.media(
                sid,
                PeerEvent::Resumed {
                    last_message_seq: 0,
                },
            );
        }
    }

    /// Joins a client that subscribes to all tracks, including data tracks.
    fn join_eager(&mut self, identity: &str) -> ParticipantSid {
        let client = Client {
            subscriptions: Subscriptions::new(true).with_data(true),
            ..Client::default()
        };
        let sid = self
            .room_state
            .request_join(claims(identity, None), client, START)
            .unwrap();
        self.room_state.admit(&sid, START).unwrap();
        let session = Session::new(
            sid.clone(),
            identity.parse().unwrap(),
            ConnectionMode::Single,
            reading(START),
        );
        self.sessions.insert(sid.clone(), session);
        self.call(&sid, |session, context| {
            session.start(context, &parameters(ConnectionMode::Single));
        });
        self.connect(&sid);
        sid
    }

    fn receives_data(&self, sid: &ParticipantSid) -> bool {
        !self.room_state.data_handles(sid).is_empty()
    }
}

#[test]
fn a_permission_holds_in_every_order_of_its_message_tracks_joins_and_resumes() {
    for order in orders(&STEPS) {
        let mut fixture = Fixture::new();
        let alice = fixture.joined("alice", None);
        let (mut track, mut bob, mut carol) = (None, None, None);
        for step in &order {
            match step {
                RoomStep::Permit => fixture.request(&alice, permit("bob", "", &[])),
                RoomStep::Publish => track = Some(fixture.publish(&alice)),
                RoomStep::PublishData => {
                    let name = "position".to_owned();
                    let request = proto::PublishDataTrackRequest {
                        pub_handle: 1,
                        name,
                        ..Default::default()
                    };
                    fixture.request(&alice, Request::PublishDataTrackRequest(request));
                }
                RoomStep::BobJoins => bob = Some(fixture.join_eager("bob")),
                RoomStep::CarolJoins => carol = Some(fixture.join_eager("carol")),
                RoomStep::Resume => fixture.resume_all(),
            }
        }
        let (track, bob, carol) = (track.unwrap(), bob.unwrap(), carol.unwrap());
        assert!(
            fixture.is_subscribed(&bob, &track) && fixture.receives_data(&bob),
            "{order:?}"
        );
        assert!(
            !fixture.is_subscribed(&carol, &track) && !fixture.receives_data(&carol),
            "{order:?}"
        );
    }
}

#[test]
fn a_permission_for_a_track_holds_from_its_announcement_on() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    fixture.request(&alice, Request::AddTrack(camera()));
    let messages = fixture.take(&alice);
    let Some(Response::TrackPublished(published)) = messages.last() else {
        panic!("{messages:?}")
    };
    let first: TrackSid = published.track.as_ref().unwrap().sid.parse().unwrap();
    fixture.request(&alice, permit("bob", "", &[&first]));
    let layers = vec![Quality::Low];
    let negotiated = PeerEvent::TrackPublished {
        track: first.clone(),
        mid: "3".into(),
        codec: Codec::Vp8,
        layers,
    };
    fixture.media(&alice, negotiated);
    assert!(fixture.is_subscribed(&bob, &first));
    fixture.request(
        &alice,
        Request::AddTrack(AddTrackRequest {
            cid: "other".into(),
            ..camera()
        }),
    );
    let messages = fixture.take(&alice);
    let Some(Response::TrackPublished(published)) = messages.last() else {
        panic!("{messages:?}")
    };
    let second: TrackSid = published.track.as_ref().unwrap().sid.parse().unwrap();
    let layers = vec![Quality::Low];
    fixture.media(
        &alice,
        PeerEvent::TrackPublished {
            track: second.clone(),
            mid: "4".into(),
            codec: Codec::Vp8,
            layers,
        },
    );
    assert!(!fixture.is_subscribed(&bob, &second));
}

#[test]
fn a_participant_that_was_named_by_its_sid_keeps_the_permission_when_it_joins_anew() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    let track = fixture.publish(&alice);
    fixture.request(&alice, permit("", bob.as_str(), &[]));
    assert!(fixture.is_subscribed(&bob, &track));
    let again = fixture.joined("bob", None);
    assert!(fixture.is_subscribed(&again, &track));
    fixture.request(&alice, permit("", "PA_nobody", &[]));
    assert!(!fixture.is_subscribed(&again, &track));
}
