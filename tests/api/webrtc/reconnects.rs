//! Clients that lose their WebSocket and return: a resume keeps the session, a new join starts another one.

use std::time::Duration;

use livekit_protocol as proto;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;
use serde_json::json;

use super::Call;

impl Call {
    fn sessions(&self) -> usize {
        self.app.get("/v1/sessions").send().expect(200)["sessions"]
            .as_array()
            .unwrap()
            .len()
    }
}

#[test]
fn a_client_that_resumes_keeps_its_session_and_its_media() {
    let mut call = Call::start();
    let (alice, bob) = (call.join("alice", "host"), call.join("bob", "host"));
    let (of_alice, of_bob) = (call.speak(alice), call.speak(bob));
    call.assert_receives(alice, &of_bob);
    call.assert_receives(bob, &of_alice);

    call.clients[alice].lose_signalling();
    call.assert_receives(bob, &of_alice);
    call.assert_receives(alice, &of_bob);
    call.clients[alice].forget_responses();
    call.clients[alice].resume();
    call.wait("the resume is answered", |call| {
        !call.clients[alice].responses.is_empty()
    });
    assert!(
        matches!(call.clients[alice].responses[0], Response::Reconnect(_)),
        "{:?}",
        call.clients[alice].responses
    );
    call.wait("it learns of the others", |call| {
        call.clients[alice].seen("bob").is_some()
    });
    call.assert_receives(alice, &of_bob);
    call.assert_receives(bob, &of_alice);
    assert_eq!(call.sessions(), 2);

    // The reconnected client is still the same participant.
    call.app
        .post("/v1/rooms/standup/send-data")
        .json(json!({"data": "aGk=", "kind": "reliable"}))
        .send()
        .expect(200);
    call.wait("data arrives", |call| {
        call.clients[alice].messages().len() == 1
    });
}

#[test]
fn a_client_that_only_answers_the_pings_of_its_websocket_keeps_it() {
    let mut call = Call::start();
    let alice = call.join("alice", "host");
    // Several pongs fall into the silence timeout, so that one may be handled late.
    for _ in 0..15 {
        call.clients[alice].pong();
        call.run(Duration::from_millis(200));
        // Answered by the thread that reads the WebSocket: otherwise the clock could run on while that thread is delayed.
        call.sessions();
        call.app.advance(Duration::from_secs(2));
    }
    call.clients[alice].forget_responses();
    call.clients[alice].request(Request::Ping(1));
    call.wait("its ping is answered", |call| {
        call.clients[alice]
            .responses
            .iter()
            .any(|response| matches!(response, Response::Pong(_)))
    });

    call.app.advance(Duration::from_secs(16));
    call.wait("one that is silent loses it", |call| {
        call.clients[alice].is_closed
    });
}

#[test]
fn a_step_of_the_clock_closes_no_websocket() {
    let mut call = Call::start();
    let alice = call.join("alice", "host");
    for hours in [1, -2, 24] {
        call.app.clock.step(hours * 3_600_000);
        call.run(Duration::from_millis(200));
        call.clients[alice].forget_responses();
        call.clients[alice].request(Request::Ping(1));
        call.wait("its ping is answered", |call| {
            call.clients[alice]
                .responses
                .iter()
                .any(|response| matches!(response, Response::Pong(_)))
        });
        assert!(!call.clients[alice].is_closed);
    }
}

#[test]
fn numbers_go_on_when_another_participant_takes_a_section() {
    let mut call = Call::start();
    let bob = call.join("bob", "host");
    let mut last = std::collections::BTreeMap::new();
    for round in 0..5 {
        let identity = format!("alice{round}");
        let alice = call.join(&identity, "host");
        let track = call.speak(alice);
        call.assert_receives(bob, &track);
        for packet in call.clients[bob].received(&track) {
            let before = last.insert(packet.ssrc, packet.sequence);
            assert!(
                before.is_none_or(|before| before < packet.sequence),
                "a number of {} restarts",
                packet.ssrc
            );
        }
        call.app
            .delete(&format!("/v1/rooms/standup/participants/{identity}"))
            .send()
            .expect_empty(204);
        call.wait("it is gone", |call| call.clients[alice].is_closed);
    }
}

#[test]
fn a_new_join_of_an_identity_is_another_session_and_its_tracks_are_heard() {
    let mut call = Call::start();
    let (first, bob) = (call.join("alice", "host"), call.join("bob", "host"));
    let before = call.speak(first);
    call.assert_receives(bob, &before);
    let second = call.join("alice", "host");
    call.wait("the first one has left", |call| {
        call.clients[first].left().is_some()
    });
    assert_eq!(
        call.clients[first].left(),
        Some(proto::DisconnectReason::DuplicateIdentity)
    );
    assert_ne!(call.clients[first].sid, call.clients[second].sid);
    call.assert_silent(bob, &before);
    let after = call.speak(second);
    call.assert_receives(bob, &after);
    assert_eq!(call.sessions(), 3);
}

#[test]
fn clients_join_the_server_that_takes_over_with_the_tokens_that_they_have_and_hear_each_other() {
    let mut call = Call::start();
    let tokens = ["alice", "bob"].map(|identity| call.app.token("standup", identity, "host"));
    for token in &tokens {
        call.join_with(token);
    }
    // The new server has the old one's disk and none of its connections.
    let mut call = Call::new(call.app.crash_for(Duration::from_secs(6)));
    let [alice, bob] = tokens.map(|token| call.join_with(&token));
    let (of_alice, of_bob) = (call.speak(alice), call.speak(bob));
    call.assert_receives(alice, &of_bob);
    call.assert_receives(bob, &of_alice);
    let sessions = call.app.get("/v1/sessions").send().expect(200)["sessions"].clone();
    let (open, ended): (Vec<_>, Vec<_>) = sessions
        .as_array()
        .unwrap()
        .iter()
        .partition(|session| session["left_at"].is_null());
    assert_eq!((open.len(), ended.len()), (2, 2), "{sessions}");
}
