//! Clients and sandbox participants in one room: joins, tracks, data, events and records.

use std::time::Duration;

use livekit_protocol as proto;
use serde_json::{Value, json};

use super::Call;
use super::client::Client;
use crate::support::Receiver;

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

impl Call {
    fn participants(&self) -> Vec<Value> {
        let listed = self
            .app
            .get("/v1/rooms/standup/participants")
            .send()
            .expect(200);
        listed["participants"].as_array().unwrap().clone()
    }
}

#[test]
fn clients_and_participants_of_the_sandbox_share_a_room() {
    let mut call = Call::start();
    let bob = call.app.join("standup", "bob", "host");
    let of_bob = call.app.publish(&bob, "video", "camera");
    let (alice, carol) = (call.join("alice", "host"), call.join("carol", ""));
    let of_alice = call.speak(alice);
    call.assert_receives(carol, &of_alice);

    let identities = call
        .participants()
        .iter()
        .map(|participant| participant["identity"].to_string())
        .collect();
    assert_eq!(sorted(identities), ["\"alice\"", "\"bob\"", "\"carol\""]);
    assert!(
        call.participants()
            .iter()
            .all(|participant| participant["state"] == "active")
    );
    assert_eq!(
        call.app.subscriptions(&bob),
        std::slice::from_ref(&of_alice)
    );
    let seen = call.clients[alice].seen("bob").unwrap();
    assert_eq!(
        (seen.tracks[0].sid.as_str(), seen.state()),
        (of_bob.as_str(), proto::participant_info::State::Active)
    );

    call.wait("its channels are open", |call| {
        call.clients[carol].transport.connection.channels.len() >= 2
    });
    call.clients[carol].send_data("hello", &[]);
    call.wait("the message arrives", |call| {
        !call.clients[alice].messages().is_empty()
    });
    assert_eq!(
        call.clients[alice].messages(),
        [("carol".to_owned(), "hello".to_owned())]
    );
    call.wait("the sandbox receives it", |call| {
        call.app.view(&bob)["inbox"] != json!([])
    });
    let entry = call.app.view(&bob)["inbox"][0].clone();
    let shown = [&entry["data"], &entry["topic"], &entry["from_identity"]];
    assert_eq!(shown, [&json!("aGVsbG8="), &json!("chat"), &json!("carol")]);
    call.app
        .act(&bob, "data", json!({"data": "aGk="}))
        .expect(200);
    call.wait("its answer arrives", |call| {
        call.clients[carol].messages().len() == 1
    });
}

#[test]
fn the_events_of_a_client_are_those_of_any_participant() {
    let mut call = Call::start();
    let receiver = Receiver::start();
    call.app.endpoint(&receiver.url);
    let alice = call.join("alice", "host");
    assert_eq!(
        call.app.event_types(&receiver),
        ["room.started", "participant.joined"]
    );
    let track = call.speak(alice);
    call.app.wait_for_event("track.published", 1);
    let published = call.app.events(&receiver);
    assert_eq!(
        (&published[0]["type"], &published[0]["track_sid"]),
        (&json!("track.published"), &json!(track))
    );
    assert_eq!(
        published[0]["participant_sid"],
        json!(call.clients[alice].sid)
    );
    call.clients[alice].leave();
    call.wait("the websocket is closed", |call| {
        call.clients[alice].is_closed
    });
    call.app.wait_for_event("participant.left", 1);
    assert_eq!(
        call.app.event_types(&receiver),
        ["track.unpublished", "participant.left"]
    );
    let sessions = call.app.get("/v1/sessions").send().expect(200);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_client_that_sends_more_than_its_role_allows_is_reported() {
    let mut call = Call::start();
    let receiver = Receiver::start();
    call.app.endpoint(&receiver.url);
    call.app
        .room_with_roles("stage", &json!({"speaker": {"publish": {"max_kbps": 16}}}));
    let token = call.app.token("stage", "alice", "speaker");
    call.clients
        .push(Client::join(&call.app.api, &token).unwrap());
    call.publish(0, str0m::media::MediaKind::Video);
    let exceeded = |call: &Call| {
        call.app
            .deliveries("event_type=participant.publish_limit_exceeded")
    };
    let mut seconds = 0;
    while exceeded(&call).is_empty() {
        assert!(seconds < 20, "its packets are counted each second");
        call.run(Duration::from_millis(500));
        // With a ping, the signalling does not count as lost when the clock advances.
        call.clients[0].request(proto::signal_request::Message::Ping(1));
        call.run(Duration::from_millis(50));
        call.app.advance(Duration::from_secs(1));
        seconds += 1;
    }
}

#[test]
fn a_role_receives_the_roles_that_it_may_from_its_join_on_and_nobody_sees_a_hidden_one() {
    let mut call = Call::start();
    let roles = json!({
        "host": {},
        "guest": {"subscribe": {"to_roles": ["host"]}},
        "ghost": {"hidden": true},
    });
    call.app.room_with_roles("stage", &roles);
    let join = |call: &mut Call, identity: &str, role: &str| {
        let token = call.app.token("stage", identity, role);
        call.clients
            .push(Client::join(&call.app.api, &token).unwrap());
        call.wait("it is connected", |call| {
            call.clients
                .last()
                .unwrap()
                .transport
                .connection
                .is_connected
        });
        call.clients.len() - 1
    };
    let (host, guest) = (
        join(&mut call, "host", "host"),
        join(&mut call, "guest", "guest"),
    );
    let (of_host, of_guest) = (call.speak(host), call.speak(guest));
    call.assert_receives(host, &of_guest);
    let (late, ghost) = (
        join(&mut call, "late", "guest"),
        join(&mut call, "ghost", "ghost"),
    );
    call.assert_receives(late, &of_host);
    call.assert_receives(ghost, &of_guest);
    call.assert_receives(guest, &of_host);
    assert_eq!(call.count(late, &of_guest), 0);
    call.wait("it sees the others", |call| {
        call.clients[ghost].seen("late").is_some()
    });
    assert!(call.clients[late].seen("ghost").is_none());

    call.wait("its channels are open", |call| {
        call.clients[ghost].transport.connection.channels.len() >= 2
    });
    call.clients[ghost].send_data("boo", &[]);
    call.wait("its message arrives", |call| {
        !call.clients[host].messages().is_empty()
    });
    assert_eq!(
        call.clients[host].messages(),
        [(String::new(), "boo".to_owned())]
    );
}

#[test]
fn a_seat_of_a_role_is_free_again_when_its_client_has_left() {
    let mut call = Call::start();
    call.app
        .room_with_roles("duet", &json!({"singer": {"max_peer_count": 1}}));
    let (first, second) = (
        call.app.token("duet", "alice", "singer"),
        call.app.token("duet", "bob", "singer"),
    );
    let mut alice = Client::join(&call.app.api, &first).unwrap();
    assert!(
        Client::join(&call.app.api, &second).is_err(),
        "the seat is taken before media is connected"
    );
    alice.leave();
    call.clients.push(alice);
    call.wait("it has left", |call| call.clients[0].is_closed);
    assert!(Client::join(&call.app.api, &second).is_ok());
}

#[test]
fn a_role_that_may_not_publish_is_refused_and_its_packets_are_not_forwarded() {
    let mut call = Call::start();
    let roles = json!({"host": {}, "viewer": {"publish": {"allowed": []}}});
    call.app.room_with_roles("stage", &roles);
    let tokens = ["alice", "bob"].map(|identity| {
        call.app.token(
            "stage",
            identity,
            if identity == "alice" {
                "viewer"
            } else {
                "host"
            },
        )
    });
    let [alice, _] = [0, 1].map(|at| {
        call.clients
            .push(Client::join(&call.app.api, &tokens[at]).unwrap());
        at
    });
    call.clients[alice].announce(str0m::media::MediaKind::Audio);
    let refused = |call: &Call| {
        call.clients[alice].responses.iter().any(|response| {
            matches!(response, proto::signal_response::Message::RequestResponse(response)
                if response.reason() == proto::request_response::Reason::NotAllowed)
        })
    };
    call.wait("the track is refused", refused);
    assert!(call.clients[alice].publications.is_empty());
    call.wait("channels are open", |call| {
        call.clients[alice].transport.connection.channels.len() >= 2
    });
    call.clients[alice].send_data("hello", &[]);
    call.run(super::SILENCE);
    assert!(
        call.clients[1].messages().is_empty(),
        "data is publishing too"
    );
}
