//! Removing, muting, sending data: `/v1/rooms/{name}/participants/{identity}`, `…/mute`, `/v1/rooms/{name}/send-data`.

use serde_json::{Value, json};

use crate::support::{Receiver, Request, TestApp, eventually};

const ALICE: &str = "/v1/rooms/standup/participants/alice";
const MUTE: &str = "/v1/rooms/standup/participants/alice/mute";
const SEND: &str = "/v1/rooms/standup/send-data";

/// Room with one role per permission and a role without permissions, which alice has.
struct Standup {
    app: TestApp,
    alice: String,
    track: String,
}

fn standup() -> Standup {
    let app = TestApp::start();
    let may = |permission: &str| json!({"permissions": {permission: true}});
    let roles = json!({
        "remover": may("remove_others"), "muter": may("mute_others"), "unmuter": may("unmute_others"),
        "sender": may("send_data"), "guest": {}
    });
    app.room_with_roles("standup", &roles);
    let alice = app.join("standup", "alice", "guest");
    let track = app.publish(&alice, "audio", "microphone");
    Standup { app, alice, track }
}

impl Standup {
    fn inbox(&self) -> Value {
        self.app.view(&self.alice)["inbox"].clone()
    }

    fn mute(&self, muted: bool) -> Request {
        self.app
            .post(MUTE)
            .json(json!({"track_sid": self.track, "muted": muted}))
    }

    fn send(&self, body: Value) -> Request {
        self.app.post(SEND).json(body)
    }

    fn token(&self, role: &str) -> String {
        self.app.token("standup", "mod", role)
    }
}

#[test]
fn a_removed_participant_is_notified_its_session_ends_and_its_token_stays_valid() {
    let standup = standup();
    let (app, receiver) = (&standup.app, Receiver::start());
    app.endpoint(&receiver.url);
    let token = app.token("standup", "alice", "guest");
    app.delete(ALICE).send().expect_empty(204);
    app.get(ALICE)
        .send()
        .expect_error(404, "participant_not_found", None);
    app.delete(ALICE)
        .send()
        .expect_error(404, "participant_not_found", None);
    assert_eq!(
        standup.inbox(),
        json!([{"at": app.now(), "type": "removed"}])
    );
    let sessions = || {
        app.get("/v1/sessions?identity=alice&active=false")
            .send()
            .expect(200)
    };
    eventually(|| sessions()["sessions"].as_array().unwrap().len() == 1);
    assert_eq!(
        app.event_types(&receiver),
        ["track.unpublished", "participant.left"]
    );
    app.join_with(&token).expect(201);
    app.get(ALICE).send().expect(200);
}

#[test]
fn a_track_is_muted_and_unmuted_and_its_publisher_is_notified_once() {
    let standup = standup();
    let (app, track) = (&standup.app, &standup.track);
    let of = |muted| json!({"track": {"sid": track, "kind": "audio", "source": "microphone", "muted": muted}});
    for _ in 0..2 {
        assert_eq!(standup.mute(true).send().expect(200), of(true));
    }
    assert_eq!(
        app.get(ALICE).send().expect(200)["tracks"][0]["muted"],
        true
    );
    assert_eq!(standup.mute(false).send().expect(200), of(false));
    let message = |what: &str| json!({"at": app.now(), "type": what, "track_sid": track});
    assert_eq!(
        standup.inbox(),
        json!([message("muted"), message("unmuted")])
    );
}

#[test]
fn a_mute_is_no_event_and_the_tracks_end_contains_it() {
    let standup = standup();
    let (app, receiver) = (&standup.app, Receiver::start());
    app.endpoint(&receiver.url);
    standup.mute(true).send().expect(200);
    app.unpublish(&standup.alice, &standup.track);
    let events = app.events(&receiver);
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["type"], &events[0]["track_muted"]),
        (&json!("track.unpublished"), &json!(true))
    );
}

#[test]
fn a_mute_requires_the_track_and_the_new_state() {
    let standup = standup();
    let post = |body: Value| standup.app.post(MUTE).json(body).send();
    post(json!({"muted": true})).expect_error(400, "invalid_request", Some("track_sid"));
    post(json!({"track_sid": standup.track})).expect_error(400, "invalid_request", Some("muted"));
    post(json!({"track_sid": standup.track, "muted": null})).expect_error(
        400,
        "invalid_request",
        Some("muted"),
    );
    post(json!({"track_sid": standup.track, "muted": "yes"})).expect_error(
        400,
        "invalid_request",
        Some("muted"),
    );
    post(json!({"track_sid": "", "muted": true})).expect_error(
        400,
        "invalid_request",
        Some("track_sid"),
    );
    post(json!({"track_sid": "TR_nothing", "muted": true})).expect_error(
        404,
        "track_not_found",
        None,
    );
    let unknown = standup
        .app
        .post("/v1/rooms/standup/participants/nobody/mute");
    let body = json!({"track_sid": standup.track, "muted": true});
    unknown
        .json(body)
        .send()
        .expect_error(404, "participant_not_found", None);
}

#[test]
fn a_replayed_mute_changes_nothing() {
    let standup = standup();
    let first = standup.mute(true).idempotency_key("k").send();
    first.expect(200);
    standup.mute(false).send().expect(200);
    let replay = standup.mute(true).idempotency_key("k").send();
    assert_eq!((replay.status, replay.text()), (200, first.text()));
    assert_eq!(
        replay
            .headers
            .get("idempotency-replayed")
            .map(String::as_str),
        Some("true")
    );
    assert_eq!(
        standup.app.get(ALICE).send().expect(200)["tracks"][0]["muted"],
        false
    );
    standup
        .mute(false)
        .idempotency_key("k")
        .send()
        .expect_error(409, "idempotency_key_reuse", None);
}

#[test]
fn data_reaches_every_participant_without_a_sender() {
    let standup = standup();
    let app = &standup.app;
    let bob = app.join("standup", "bob", "");
    let sent = standup.send(json!({"data": "aGVsbG8="})).send().expect(200);
    assert_eq!(sent, json!({"sent": true, "bytes": 5}));
    let expected =
        json!([{"at": app.now(), "type": "data", "data": "aGVsbG8=", "kind": "reliable"}]);
    assert_eq!(standup.inbox(), expected);
    assert_eq!(app.view(&bob)["inbox"], expected);
}

#[test]
fn data_reaches_only_the_named_participants() {
    let standup = standup();
    let app = &standup.app;
    let bob = app.join("standup", "bob", "");
    let body = json!({
        "data": "AA==", "kind": "lossy", "topic": "chat", "destination_identities": ["bob", "nobody"]
    });
    assert_eq!(standup.send(body).send().expect(200)["bytes"], 1);
    let expected = json!([{"at": app.now(), "type": "data", "data": "AA==", "kind": "lossy", "topic": "chat"}]);
    assert_eq!(app.view(&bob)["inbox"], expected);
    assert_eq!(standup.inbox(), json!([]));
    standup
        .send(json!({"data": "", "destination_identities": []}))
        .send()
        .expect(200);
    assert_eq!(standup.inbox()[0]["data"], "");
}

#[test]
fn each_invalid_field_of_data_is_named() {
    let standup = standup();
    let refused = |body: Value, code: &str, field: &str| {
        standup
            .send(body)
            .send()
            .expect_error(400, code, Some(field));
    };
    refused(json!({}), "invalid_request", "data");
    for data in [
        json!("not base64!"),
        json!("aGVsbG8"),
        json!("_-__"),
        json!(null),
        json!(7),
    ] {
        refused(json!({"data": data}), "invalid_request", "data");
    }
    for kind in [json!("fast"), json!(null), json!("Reliable")] {
        refused(
            json!({"data": "AA==", "kind": kind}),
            "invalid_request",
            "kind",
        );
    }
    refused(
        json!({"data": "AA==", "topic": null}),
        "invalid_request",
        "topic",
    );
    let to = |to: Value| json!({"data": "AA==", "destination_identities": to});
    refused(
        to(json!(["a", "b", "c d"])),
        "invalid_identity",
        "destination_identities[2]",
    );
    refused(
        to(json!([""])),
        "invalid_identity",
        "destination_identities[0]",
    );
    refused(
        to(json!(["a", 1])),
        "invalid_request",
        "destination_identities[1]",
    );
    refused(to(json!("a")), "invalid_request", "destination_identities");
    refused(to(Value::Null), "invalid_request", "destination_identities");
    assert_eq!(standup.inbox(), json!([]));
}

#[test]
fn an_empty_open_room_accepts_data_and_an_ended_one_does_not() {
    let app = TestApp::start();
    app.room("empty");
    let send = |room: &str| {
        app.post(&format!("/v1/rooms/{room}/send-data"))
            .json(json!({"data": "AA=="}))
            .send()
    };
    assert_eq!(send("empty").expect(200), json!({"sent": true, "bytes": 1}));
    app.delete("/v1/rooms/empty").send().expect_empty(204);
    let refused = send("empty");
    refused.expect_error(404, "room_not_found", None);
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("ended")
    );
    send("nowhere").expect_error(404, "room_not_found", None);
}

#[test]
fn participants_of_an_ended_room_and_of_an_unknown_one_are_not_found() {
    let standup = standup();
    let app = &standup.app;
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    app.delete(ALICE)
        .send()
        .expect_error(404, "participant_not_found", None);
    standup
        .mute(true)
        .send()
        .expect_error(404, "participant_not_found", None);
    let body = json!({"track_sid": "TR_1", "muted": true});
    app.delete("/v1/rooms/nowhere/participants/alice")
        .send()
        .expect_error(404, "room_not_found", None);
    let nowhere = app
        .post("/v1/rooms/nowhere/participants/alice/mute")
        .json(body.clone())
        .send();
    nowhere.expect_error(404, "room_not_found", None);
    app.delete("/v1/rooms/a%20b/participants/alice")
        .send()
        .expect_error(400, "invalid_room_name", Some("name"));
    let malformed = app
        .post("/v1/rooms/standup/participants/a%20b/mute")
        .json(body)
        .send();
    malformed.expect_error(400, "invalid_identity", Some("identity"));
    app.delete("/v1/rooms/standup/participants/a%20b")
        .send()
        .expect_error(400, "invalid_identity", Some("identity"));
}

#[test]
fn each_call_of_a_participant_needs_its_own_permission() {
    let standup = standup();
    let app = &standup.app;
    let as_role = |request: Request, role: &str| request.bearer(&standup.token(role)).send();
    let data = || standup.send(json!({"data": "AA=="}));
    let refused = |request: Request, role: &str, permission: &str| {
        as_role(request, role).expect_error(403, "permission_denied", Some(permission));
    };
    for role in ["guest", "unmuter", ""] {
        refused(standup.mute(true), role, "mute_others");
        refused(data(), role, "send_data");
        refused(app.delete(ALICE), role, "remove_others");
    }
    refused(standup.mute(false), "muter", "unmute_others");
    as_role(standup.mute(true), "muter").expect(200);
    as_role(standup.mute(false), "unmuter").expect(200);
    as_role(data(), "sender").expect(200);
    let header = app
        .delete(ALICE)
        .anonymous()
        .header("x-svc-room-token", &standup.token("remover"));
    header.send().expect_empty(204);
    assert_eq!(as_role(standup.mute(true), "muter").status, 404);
}

#[test]
fn a_token_of_another_room_is_no_credential() {
    let standup = standup();
    let app = &standup.app;
    app.room("other");
    let token = app.token("other", "mod", "host");
    let body = json!({"role": "guest"});
    for request in [
        app.delete(ALICE),
        standup.mute(true),
        standup.send(json!({"data": "AA=="})),
        app.post("/v1/rooms/standup/participants/alice/role")
            .json(body),
    ] {
        request
            .bearer(&token)
            .send()
            .expect_error(401, "unauthorized", None);
    }
    app.get("/v1/rooms/standup/role-changes")
        .bearer(&standup.token("muter"))
        .send()
        .expect_error(401, "unauthorized", None);
    assert_eq!(standup.inbox(), json!([]));
}
