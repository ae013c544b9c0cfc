//! `/v1/rooms/{name}/participants`, and participants' permissions to act and to receive.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

fn identities(page: &Value) -> Vec<&str> {
    page["participants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["identity"].as_str().unwrap())
        .collect()
}

#[test]
fn a_participant_has_exactly_the_fields_of_the_contract() {
    let app = TestApp::start();
    app.room_with_roles("stage", &json!({"speaker": {"publish": {"max_kbps": 500}}}));
    let body = json!({
        "room": "stage", "identity": "a.b@c-d_1", "name": "Alice", "metadata": "{\"x\": 1}", "role": "speaker"
    });
    let token = app.post("/v1/tokens").json(body).send().expect(201);
    let joined = app.join_with(token["token"].as_str().unwrap()).expect(201);
    let sid = joined["sid"].as_str().unwrap();
    assert_eq!(
        joined,
        json!({"sid": sid, "identity": "a.b@c-d_1", "room": "stage", "role": "speaker"})
    );
    let track = app.act(
        sid,
        "tracks",
        json!({"kind": "video", "source": "camera", "name": "cam", "muted": true}),
    );
    let track = track.expect(201);
    assert_eq!(
        track,
        json!({"sid": track["sid"], "kind": "video", "source": "camera", "muted": true, "name": "cam"})
    );
    let expected = json!({
        "sid": sid, "identity": "a.b@c-d_1", "name": "Alice", "state": "active", "kind": "standard",
        "metadata": "{\"x\": 1}", "attributes": {"svc.role": "speaker", "svc.publish.max_kbps": "500"},
        "is_publisher": true, "joined_at": app.now(), "tracks": [track]
    });
    assert_eq!(
        app.get("/v1/rooms/stage/participants/a.b@c-d_1")
            .send()
            .expect(200),
        expected
    );
    let page = app.get("/v1/rooms/stage/participants").send().expect(200);
    assert_eq!(
        page,
        json!({"participants": [expected], "limit": 50, "offset": 0, "has_more": false})
    );
}

#[test]
fn a_token_without_a_name_gives_a_participant_with_an_empty_one() {
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "");
    let alice = app
        .get("/v1/rooms/standup/participants/alice")
        .send()
        .expect(200);
    assert_eq!(
        (&alice["name"], &alice["metadata"], &alice["tracks"]),
        (&json!(""), &json!(""), &json!([]))
    );
    assert_eq!(alice["is_publisher"], false);
    assert!(alice["attributes"].get("svc.role").is_none());
}

#[test]
fn an_empty_room_and_an_ended_one_list_no_participants_and_an_unknown_one_is_not_found() {
    let app = TestApp::start();
    app.room("standup");
    let empty_page = json!({"participants": [], "limit": 50, "offset": 0, "has_more": false});
    assert_eq!(
        app.get("/v1/rooms/standup/participants").send().expect(200),
        empty_page
    );
    app.join("standup", "alice", "host");
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(
        app.get("/v1/rooms/standup/participants").send().expect(200),
        empty_page
    );
    let alice = app.get("/v1/rooms/standup/participants/alice").send();
    alice.expect_error(404, "participant_not_found", None);
    app.get("/v1/rooms/nowhere/participants")
        .send()
        .expect_error(404, "room_not_found", None);
    app.get("/v1/rooms/nowhere/participants/alice")
        .send()
        .expect_error(404, "room_not_found", None);
    app.get("/v1/rooms/no%20where/participants")
        .send()
        .expect_error(400, "invalid_room_name", Some("name"));
}

#[test]
fn a_malformed_identity_is_400_and_an_absent_one_404() {
    let app = TestApp::start();
    app.room("standup");
    let get = |identity: &str| {
        app.get(&format!("/v1/rooms/standup/participants/{identity}"))
            .send()
    };
    get("nobody").expect_error(404, "participant_not_found", None);
    get("no%20body").expect_error(400, "invalid_identity", Some("identity"));
    get(&"a".repeat(129)).expect_error(400, "invalid_identity", Some("identity"));
    get(&"a".repeat(128)).expect_error(404, "participant_not_found", None);
}

#[test]
fn participants_are_paged_in_the_order_they_joined() {
    let app = TestApp::start();
    app.room("standup");
    for identity in ["zoe", "adam", "mia"] {
        app.join("standup", identity, "");
        app.advance(Duration::from_millis(10));
    }
    let page = |query: &str| {
        app.get(&format!("/v1/rooms/standup/participants?{query}"))
            .send()
            .expect(200)
    };
    let first = page("limit=2");
    assert_eq!(
        (identities(&first), &first["has_more"]),
        (vec!["zoe", "adam"], &json!(true))
    );
    let second = page("limit=2&offset=2");
    assert_eq!(
        (identities(&second), &second["has_more"]),
        (vec!["mia"], &json!(false))
    );
    app.get("/v1/rooms/standup/participants?limit=0")
        .send()
        .expect_error(400, "invalid_request", Some("limit"));
    app.get("/v1/rooms/standup/participants?who=x")
        .send()
        .expect_error(400, "invalid_request", Some("who"));
}

#[test]
fn a_hidden_participant_is_listed_but_no_participant_receives_it() {
    let app = TestApp::start();
    app.room_with_roles(
        "stage",
        &json!({"speaker": {}, "observer": {"hidden": true}}),
    );
    let (observer, speaker) = (
        app.join("stage", "eve", "observer"),
        app.join("stage", "alice", "speaker"),
    );
    let seen = app.publish(&speaker, "audio", "microphone");
    app.publish(&observer, "audio", "microphone");
    let page = app.get("/v1/rooms/stage/participants").send().expect(200);
    assert_eq!(identities(&page).len(), 2);
    assert_eq!(app.subscriptions(&speaker), Vec::<String>::new());
    assert_eq!(app.subscriptions(&observer), [seen]);
    // Otherwise it is an ordinary participant: it keeps the room open and has a session.
    assert!(
        app.get("/v1/rooms/stage")
            .send()
            .expect(200)
            .get("started_at")
            .is_some()
    );
    let sessions = app.get("/v1/sessions?identity=eve").send().expect(200);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn subscriptions_follow_to_roles() {
    let app = TestApp::start();
    app.room_with_roles(
        "class",
        &json!({
            "teacher": {},
            "pupil": {"subscribe": {"to_roles": ["teacher"]}},
            "deaf": {"subscribe": {"to_roles": []}}
        }),
    );
    // The pupil joins before the participants that it may receive, so the rules hold for later joins, too.
    let pupil = app.join("class", "pia", "pupil");
    let (teacher, other, deaf) = (
        app.join("class", "tom", "teacher"),
        app.join("class", "pete", "pupil"),
        app.join("class", "dan", "deaf"),
    );
    let plain = app.join("class", "guest", "");
    let [of_teacher, of_other, of_deaf, of_plain] =
        [&teacher, &other, &deaf, &plain].map(|sid| app.publish(sid, "audio", "microphone"));
    assert_eq!(app.subscriptions(&pupil), std::slice::from_ref(&of_teacher));
    assert_eq!(app.subscriptions(&deaf), Vec::<String>::new());
    let received = |sid: &str| {
        let mut tracks = app.subscriptions(sid);
        tracks.sort_unstable();
        tracks
    };
    let sorted = |mut tracks: Vec<String>| {
        tracks.sort_unstable();
        tracks
    };
    assert_eq!(
        received(&teacher),
        sorted(vec![of_other.clone(), of_deaf.clone(), of_plain])
    );
    assert_eq!(
        received(&plain),
        sorted(vec![of_teacher, of_other, of_deaf])
    );
}

#[test]
fn a_token_without_publish_or_subscribe_permission_is_enforced() {
    let app = TestApp::start();
    app.room_with_roles(
        "stage",
        &json!({"audio-only": {"publish": {"allowed": ["audio"]}}}),
    );
    let sid = app.join("stage", "alice", "audio-only");
    app.publish(&sid, "audio", "microphone");
    for (kind, source) in [("video", "camera"), ("video", "screen_share")] {
        let refused = app.act(&sid, "tracks", json!({"kind": kind, "source": source}));
        refused.expect_error(403, "permission_denied", None);
    }
    app.act(&sid, "data", json!({"data": "aGk="}))
        .expect_error(403, "permission_denied", None);
    let body = json!({
        "room": "stage", "identity": "bob",
        "permissions": {"can_publish": false, "can_subscribe": false, "can_publish_data": null}
    });
    let token = app.post("/v1/tokens").json(body).send().expect(201);
    let bob = app.join_with(token["token"].as_str().unwrap()).expect(201);
    let bob = bob["sid"].as_str().unwrap();
    let refused = app.act(
        bob,
        "tracks",
        json!({"kind": "audio", "source": "microphone"}),
    );
    refused.expect_error(403, "permission_denied", None);
    assert_eq!(app.subscriptions(bob), Vec::<String>::new());
    app.act(bob, "data", json!({"data": "aGk="})).expect(200);
}

#[test]
fn muting_and_unpublishing_are_visible_at_once() {
    let app = TestApp::start();
    app.room("standup");
    let sid = app.join("standup", "alice", "host");
    let track = app.publish(&sid, "audio", "microphone");
    let alice = || {
        app.get("/v1/rooms/standup/participants/alice")
            .send()
            .expect(200)
    };
    let muted = app
        .act(&sid, "mute", json!({"track_sid": track, "muted": true}))
        .expect(200);
    assert_eq!(
        (&muted["sid"], &muted["muted"]),
        (&json!(track), &json!(true))
    );
    assert_eq!(alice()["tracks"], json!([muted]));
    app.unpublish(&sid, &track);
    assert_eq!(
        (&alice()["tracks"], &alice()["is_publisher"]),
        (&json!([]), &json!(false))
    );
    let gone = app.act(&sid, "mute", json!({"track_sid": track, "muted": true}));
    gone.expect_error(404, "track_not_found", None);
    app.act(
        "PA_nobody",
        "mute",
        json!({"track_sid": track, "muted": true}),
    )
    .expect_error(404, "participant_not_found", None);
}

#[test]
fn data_of_a_participant_reaches_all_others() {
    let app = TestApp::start();
    app.room("standup");
    let (alice, bob) = (
        app.join("standup", "alice", ""),
        app.join("standup", "bob", ""),
    );
    app.act(&alice, "data", json!({"data": "aGVsbG8=", "topic": "chat"}))
        .expect(200);
    let expected = json!([{
        "at": app.now(), "type": "data", "data": "aGVsbG8=", "topic": "chat", "kind": "reliable",
        "from_identity": "alice"
    }]);
    assert_eq!(app.view(&bob)["inbox"], expected);
    assert_eq!(app.view(&alice)["inbox"], json!([]));
    app.act(&alice, "data", json!({"data": "not base64!"}))
        .expect_error(400, "invalid_request", Some("data"));
}

#[test]
fn a_room_admits_at_most_max_participants() {
    let app = TestApp::start();
    app.post("/v1/rooms")
        .json(json!({"name": "pair", "max_participants": 2}))
        .send()
        .expect(201);
    let tokens = ["a", "b", "c"].map(|identity| app.token("pair", identity, ""));
    app.join_with(&tokens[0]).expect(201);
    let second = app.join_with(&tokens[1]).expect(201);
    assert_eq!(app.join_with(&tokens[2]).status, 409);
    // A connected participant may rejoin, and a leave frees its seat.
    app.join_with(&tokens[0]).expect(201);
    app.leave(second["sid"].as_str().unwrap(), true);
    app.join_with(&tokens[2]).expect(201);
}

#[test]
fn a_full_role_refuses_tokens_and_joins() {
    let app = TestApp::start();
    app.room_with_roles(
        "stage",
        &json!({"speaker": {"max_peer_count": 1}, "nobody": {"max_peer_count": -1}}),
    );
    let mint = |identity: &str, role: &str| {
        app.post("/v1/tokens")
            .json(json!({"room": "stage", "identity": identity, "role": role}))
            .send()
    };
    let (alice, bob) = (
        mint("alice", "speaker").expect(201),
        mint("bob", "speaker").expect(201),
    );
    mint("eve", "nobody").expect_error(409, "role_capacity_reached", Some("role"));
    let token = |minted: &Value| minted["token"].as_str().unwrap().to_owned();
    let inside = app.join_with(&token(&alice)).expect(201);
    app.join_with(&token(&bob))
        .expect_error(409, "role_capacity_reached", None);
    mint("carl", "speaker").expect_error(409, "role_capacity_reached", Some("role"));
    app.leave(inside["sid"].as_str().unwrap(), true);
    app.join_with(&token(&bob)).expect(201);
}

#[test]
fn a_token_is_valid_until_it_expires_and_while_its_room_is_open() {
    let app = TestApp::start();
    app.room("standup");
    let body = json!({"room": "standup", "identity": "alice", "ttl_seconds": 60});
    let token = app.post("/v1/tokens").json(body).send().expect(201);
    let token = token["token"].as_str().unwrap();
    assert_eq!(app.join_with("not.a.token").status, 401);
    app.join_with(token).expect(201);
    let late = app.token("standup", "late", "");
    app.advance(Duration::from_secs(61));
    assert_eq!(app.join_with(token).status, 401);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    app.join_with(&late).expect_error(409, "room_ended", None);
    let refused = app
        .post("/v1/tokens")
        .json(json!({"room": "standup", "identity": "x"}))
        .send();
    refused.expect_error(409, "room_ended", None);
}

#[test]
fn a_participant_that_left_is_not_listed_and_its_client_is_disconnected() {
    let app = TestApp::start();
    app.room("standup");
    let alice = app.join("standup", "alice", "host");
    app.leave(&alice, true);
    eventually(|| app.view(&alice)["participant"]["state"] == "disconnected");
    app.get("/v1/rooms/standup/participants/alice")
        .send()
        .expect_error(404, "participant_not_found", None);
    let again = app.act(&alice, "leave", json!({"clean": true}));
    again.expect_error(404, "participant_not_found", None);
}
