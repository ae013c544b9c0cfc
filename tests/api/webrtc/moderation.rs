//! Moderation applies to packets within 100 ms after the response, whatever a client does: these clients keep sending.

use livekit_protocol as proto;
use proto::signal_response::Message as Response;
use serde_json::json;

use super::Call;
use super::client::Client;

/// Opens a room with roles, two sending clients with the role "host", and a receiving one.
fn stage(roles: &serde_json::Value) -> (Call, [String; 2]) {
    let mut call = Call::start();
    call.app.room_with_roles("stage", roles);
    for identity in ["alice", "bob", "carol"] {
        let token = call.app.token("stage", identity, "host");
        call.clients
            .push(Client::join(&call.app.api, &token).unwrap());
    }
    call.wait("all are active", |call| {
        let listed = call
            .app
            .get("/v1/rooms/stage/participants")
            .send()
            .expect(200);
        listed["participants"].as_array().unwrap().len() == 3
    });
    let tracks = [call.speak(0), call.speak(1)];
    for track in &tracks {
        call.assert_receives(2, track);
    }
    (call, tracks)
}

impl Call {
    fn change_role(&self, identity: &str, role: &str) {
        let path = format!("{PARTICIPANTS}/{identity}/role");
        self.app
            .post(&path)
            .json(json!({"role": role}))
            .send()
            .expect(200);
    }

    /// Returns whether a client's last update of a participant shows it as disconnected.
    fn is_gone(&self, client: usize, identity: &str) -> bool {
        let gone = proto::participant_info::State::Disconnected;
        self.clients[client].seen(identity).unwrap().state() == gone
    }
}

fn roles() -> serde_json::Value {
    json!({
        "host": {},
        "viewer": {"publish": {"allowed": []}},
        "ghost": {"hidden": true},
        "listener": {"subscribe": {"to_roles": ["viewer"]}},
    })
}

const PARTICIPANTS: &str = "/v1/rooms/stage/participants";

#[test]
fn a_muted_track_is_silent_and_goes_on_when_it_is_unmuted() {
    let (mut call, [track, other]) = stage(&roles());
    let mute = |call: &Call, muted: bool| {
        let body = json!({"track_sid": track, "muted": muted});
        call.app
            .post(&format!("{PARTICIPANTS}/alice/mute"))
            .json(body)
            .send()
            .expect(200)
    };
    mute(&call, true);
    call.assert_silent(2, &track);
    call.assert_receives(2, &other);
    call.wait("it is told", |call| {
        call.clients[0]
            .responses
            .iter()
            .any(|response| matches!(response, Response::Mute(mute) if mute.muted))
    });
    mute(&call, false);
    call.assert_receives(2, &track);
}

#[test]
fn nothing_of_a_removed_participant_arrives() {
    let (mut call, [track, other]) = stage(&roles());
    call.app
        .delete(&format!("{PARTICIPANTS}/alice"))
        .send()
        .expect_empty(204);
    call.assert_silent(2, &track);
    call.assert_receives(2, &other);
    call.wait("it is told", |call| call.clients[0].left().is_some());
    assert_eq!(
        call.clients[0].left(),
        Some(proto::DisconnectReason::ParticipantRemoved)
    );
    call.wait("the others are told", |call| call.is_gone(2, "alice"));
}

/// Proves S-45.
#[test]
fn a_role_that_may_not_publish_silences_at_once() {
    let (mut call, [track, other]) = stage(&roles());
    call.change_role("alice", "viewer");
    call.assert_silent(2, &track);
    call.assert_receives(2, &other);
    call.wait("it is told", |call| {
        call.clients[0].responses.iter().any(
            |response| matches!(response, Response::TrackUnpublished(ended) if ended.track_sid == track),
        )
    });
}

/// Proves S-45.
#[test]
fn a_participant_that_becomes_hidden_is_neither_heard_nor_seen() {
    let (mut call, [track, _]) = stage(&roles());
    call.change_role("alice", "ghost");
    call.assert_silent(2, &track);
    call.wait("the others are told", |call| call.is_gone(2, "alice"));
}

/// Proves S-45.
#[test]
fn a_receiver_hears_the_roles_that_its_own_role_allows() {
    let (mut call, [alice, bob]) = stage(&roles());
    call.change_role("carol", "listener");
    call.assert_silent(2, &alice);
    call.assert_silent(2, &bob);
    call.change_role("carol", "host");
    call.assert_receives(2, &alice);
}

#[test]
fn nothing_arrives_when_the_room_has_ended() {
    let (mut call, tracks) = stage(&roles());
    call.app.delete("/v1/rooms/stage").send().expect_empty(204);
    for track in &tracks {
        call.assert_silent(2, track);
    }
    call.wait("all websockets are closed", |call| {
        call.clients.iter().all(|client| client.is_closed)
    });
    assert!(
        call.clients
            .iter()
            .all(|client| client.left() == Some(proto::DisconnectReason::RoomDeleted))
    );
}
