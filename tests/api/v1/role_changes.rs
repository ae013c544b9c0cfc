//! `/v1/rooms/{name}/participants/{identity}/role` and `/v1/rooms/{name}/role-changes`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Receiver, Response, TestApp, eventually};
use crate::tools::{fields, jwt, other_project, refuses_bad_pages, walk_pages};

const LOG: &str = "/v1/rooms/stage/role-changes";

fn roles() -> Value {
    json!({
        "chair": {"permissions": {"change_role": true, "end_room": true}},
        "speaker": {"publish": {"max_kbps": 500}, "max_peer_count": 1},
        "voice": {"publish": {"allowed": ["audio"]}},
        "pupil": {"subscribe": {"to_roles": ["chair"]}}
    })
}

fn stage() -> TestApp {
    let app = TestApp::start();
    app.room_with_roles("stage", &roles());
    app
}

fn path(identity: &str) -> String {
    format!("/v1/rooms/stage/participants/{identity}/role")
}

fn change(app: &TestApp, identity: &str, role: &str) -> Response {
    app.post(&path(identity)).json(json!({"role": role})).send()
}

fn log(app: &TestApp, query: &str) -> Vec<Value> {
    app.get(&format!("{LOG}{query}")).send().expect(200)["role_changes"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn a_change_by_key_is_answered_logged_and_reported() {
    let (app, receiver) = (stage(), Receiver::start());
    app.endpoint(&receiver.url);
    let alice = app.join("stage", "alice", "voice");
    app.events(&receiver);
    let result = change(&app, "alice", "speaker").expect(200);
    assert_eq!(
        fields(&result),
        ["applies_live", "note", "participant", "role_change"]
    );
    assert_eq!(result["applies_live"], true);
    assert!(result["note"].as_str().unwrap().contains("republishes"));
    let expected = json!({
        "id": result["role_change"]["id"], "room": "stage", "participant_identity": "alice", "participant_sid": alice,
        "role": "speaker", "previous_role": "voice", "changed_by_api_key_prefix": &app.key[..12],
        "created_at": app.now()
    });
    assert_eq!(result["role_change"], expected);
    let attributes = json!({"svc.role": "speaker", "svc.publish.max_kbps": "500"});
    assert_eq!(result["participant"]["attributes"], attributes);
    let seen = app
        .get("/v1/rooms/stage/participants/alice")
        .send()
        .expect(200);
    assert_eq!(seen, result["participant"]);
    assert_eq!(log(&app, ""), [expected]);
    let event = json!({
        "participant_identity": "alice", "participant_sid": alice, "role": "speaker", "previous_role": "voice",
        "changed_by_api_key_prefix": &app.key[..12]
    });
    let expected = app.event("participant.role_changed", "stage", &event);
    assert_eq!(app.events(&receiver), [expected]);
}

#[test]
fn a_change_by_a_participant_names_it_and_a_first_role_has_no_previous_one() {
    let (app, receiver) = (stage(), Receiver::start());
    app.endpoint(&receiver.url);
    let alice = app.join("stage", "alice", "");
    app.events(&receiver);
    let chair = app.token("stage", "carol", "chair");
    let changed = app
        .post(&path("alice"))
        .bearer(&chair)
        .json(json!({"role": "voice"}))
        .send()
        .expect(200);
    let row = &changed["role_change"];
    assert_eq!(
        (
            &row["changed_by_identity"],
            row.get("changed_by_api_key_prefix")
        ),
        (&json!("carol"), None)
    );
    assert_eq!(row.get("previous_role"), None);
    let event = json!({
        "participant_identity": "alice", "participant_sid": alice, "role": "voice", "changed_by_identity": "carol"
    });
    let expected = app.event("participant.role_changed", "stage", &event);
    assert_eq!(app.events(&receiver), [expected]);
    assert_eq!(log(&app, ""), std::slice::from_ref(row));
}

#[test]
fn the_client_gets_a_refreshed_token_and_the_subscriptions_of_its_role() {
    let app = stage();
    let (alice, bob) = (
        app.join("stage", "alice", "voice"),
        app.join("stage", "bob", "voice"),
    );
    let track = app.publish(&bob, "audio", "microphone");
    assert_eq!(app.subscriptions(&alice), std::slice::from_ref(&track));
    change(&app, "alice", "pupil").expect(200);
    assert_eq!(app.subscriptions(&alice), Vec::<String>::new());
    change(&app, "bob", "chair").expect(200);
    assert_eq!(app.subscriptions(&alice), [track]);
    let view = app.view(&alice);
    assert_eq!(
        view["inbox"],
        json!([{"at": app.now(), "type": "role_changed", "role": "pupil"}])
    );
    let claims = jwt(view["token"].as_str().unwrap(), 1);
    assert_eq!(claims["attributes"], json!({"svc.role": "pupil"}));
    assert_eq!(claims["video"]["canPublishData"], true);
}

#[test]
fn tracks_that_the_role_does_not_allow_are_unpublished() {
    let (app, receiver) = (stage(), Receiver::start());
    app.endpoint(&receiver.url);
    let alice = app.join("stage", "alice", "");
    let (audio, video) = (
        app.publish(&alice, "audio", "microphone"),
        app.publish(&alice, "video", "camera"),
    );
    app.events(&receiver);
    let changed = change(&app, "alice", "voice").expect(200);
    let kept: Vec<_> = changed["participant"]["tracks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["sid"])
        .collect();
    assert_eq!(kept, [&json!(audio)]);
    let session = app.get("/v1/sessions").send().expect(200)["sessions"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let tracks = || {
        app.get(&format!("/v1/sessions/{session}"))
            .send()
            .expect(200)["tracks"]
            .clone()
    };
    let ended = |sid: &str| {
        let tracks = tracks();
        tracks
            .as_array()
            .unwrap()
            .iter()
            .any(|track| track["track_sid"] == sid && track.get("ended_at").is_some())
    };
    eventually(|| ended(&video));
    assert!(!ended(&audio));
    let events = app.events(&receiver);
    let seen: Vec<_> = events
        .iter()
        .map(|event| (&event["type"], &event["role"]))
        .collect();
    let voice = json!("voice");
    assert_eq!(
        seen,
        [
            (&json!("participant.role_changed"), &voice),
            (&json!("track.unpublished"), &voice)
        ]
    );
    assert_eq!(events[1]["track_sid"], video);
    app.act(
        &alice,
        "tracks",
        json!({"kind": "video", "source": "camera"}),
    )
    .expect_error(403, "permission_denied", None);
}

#[test]
fn the_session_shows_the_latest_role_and_its_end_names_it() {
    let (app, receiver) = (stage(), Receiver::start());
    app.endpoint(&receiver.url);
    let alice = app.join("stage", "alice", "voice");
    change(&app, "alice", "pupil").expect(200);
    assert_eq!(
        app.get("/v1/sessions").send().expect(200)["sessions"][0]["role"],
        "pupil"
    );
    let room = app.actors(&format!("/{}/room/stage", app.project));
    assert_eq!(room["state"]["participants"], json!({"pupil": ["alice"]}));
    app.leave(&alice, true);
    let events = app.events(&receiver);
    let left = events.last().unwrap();
    assert_eq!(
        (&left["type"], &left["role"]),
        (&json!("participant.left"), &json!("pupil"))
    );
}

#[test]
fn a_full_role_can_be_given_to_connected_participants_and_counts_them() {
    let app = stage();
    app.join("stage", "alice", "speaker");
    app.join("stage", "bob", "voice");
    change(&app, "bob", "speaker").expect(200);
    let mint = || {
        app.post("/v1/tokens")
            .json(json!({"room": "stage", "identity": "eve", "role": "speaker"}))
            .send()
    };
    change(&app, "alice", "voice").expect(200);
    mint().expect_error(409, "role_capacity_reached", Some("role"));
    change(&app, "bob", "voice").expect(200);
    mint().expect(201);
}

#[test]
fn an_unknown_room_participant_and_role_have_different_errors() {
    let app = stage();
    app.join("stage", "alice", "voice");
    change(&app, "alice", "ghost").expect_error(404, "role_not_found", Some("role"));
    change(&app, "nobody", "voice").expect_error(404, "participant_not_found", None);
    change(&app, "a%20b", "voice").expect_error(400, "invalid_identity", Some("identity"));
    for body in [
        json!({}),
        json!({"role": null}),
        json!({"role": "a b"}),
        json!({"role": ""}),
        json!({"role": 1}),
    ] {
        app.post(&path("alice")).json(body).send().expect_error(
            400,
            "invalid_request",
            Some("role"),
        );
    }
    let elsewhere = app
        .post("/v1/rooms/nowhere/participants/alice/role")
        .json(json!({"role": "voice"}));
    elsewhere.send().expect_error(404, "room_not_found", None);
    app.delete("/v1/rooms/stage").send().expect_empty(204);
    change(&app, "alice", "voice").expect_error(404, "participant_not_found", None);
    assert_eq!(log(&app, ""), Vec::<Value>::new());
}

#[test]
fn a_room_without_a_template_has_no_roles() {
    let app = stage();
    let other = other_project(&app, "self_hosted");
    let post = |path: &str, body: Value| app.post(path).bearer(&other.key).json(body).send();
    assert_eq!(
        post("/v1/rooms", json!({"name": "bare"})).expect(201)["template_id"],
        Value::Null
    );
    let token = post("/v1/tokens", json!({"room": "bare", "identity": "alice"})).expect(201);
    app.join_with(token["token"].as_str().unwrap()).expect(201);
    let refused = post(
        "/v1/rooms/bare/participants/alice/role",
        json!({"role": "voice"}),
    );
    refused.expect_error(404, "template_not_found", None);
    // A project's role changes are not visible to another.
    app.get("/v1/rooms/bare/role-changes")
        .send()
        .expect_error(404, "room_not_found", None);
    app.post("/v1/rooms/bare/participants/alice/role")
        .json(json!({"role": "voice"}))
        .send()
        .expect_error(404, "room_not_found", None);
}

#[test]
fn a_given_role_counts_as_in_use_and_the_previous_one_no_longer() {
    let app = TestApp::start();
    let room = app.room_with_roles("stage", &roles());
    let role = |name: &str| {
        format!(
            "/v1/templates/{}/roles/{name}",
            room["template_id"].as_str().unwrap()
        )
    };
    app.join("stage", "alice", "voice");
    change(&app, "alice", "pupil").expect(200);
    app.delete(&role("pupil"))
        .send()
        .expect_error(409, "role_referenced", None);
    app.delete(&role("voice")).send().expect_empty(204);
}

#[test]
fn a_change_in_a_hibernating_room_finds_no_participant_and_does_not_wake_it() {
    let app = stage();
    change(&app, "alice", "voice").expect_error(404, "participant_not_found", None);
    app.join("stage", "alice", "voice");
    change(&app, "alice", "pupil").expect(200);
}

/// Proves S-43.
#[test]
fn permissions_follow_the_current_role_and_not_the_tokens() {
    let app = stage();
    let (carol, alice) = (
        app.token("stage", "carol", "chair"),
        app.token("stage", "alice", "voice"),
    );
    app.join_with(&carol).expect(201);
    app.join_with(&alice).expect(201);
    let by = |token: &str, identity: &str, role: &str| {
        app.post(&path(identity))
            .bearer(token)
            .json(json!({"role": role}))
            .send()
    };
    by(&alice, "alice", "chair").expect_error(403, "permission_denied", Some("change_role"));
    by(&carol, "alice", "chair").expect(200);
    by(&alice, "carol", "voice").expect(200);
    by(&carol, "alice", "voice").expect_error(403, "permission_denied", Some("change_role"));
    app.delete("/v1/rooms/stage")
        .bearer(&carol)
        .send()
        .expect_error(403, "permission_denied", Some("end_room"));
    app.delete("/v1/rooms/stage")
        .bearer(&alice)
        .send()
        .expect_empty(204);
}

#[test]
fn a_replayed_change_is_the_same_answer_and_no_second_change() {
    let mut app = stage();
    app.join("stage", "alice", "voice");
    let send = |app: &TestApp| {
        app.post(&path("alice"))
            .json(json!({"role": "pupil"}))
            .idempotency_key("k")
            .send()
    };
    let first = send(&app);
    first.expect(200);
    change(&app, "alice", "chair").expect(200);
    assert_eq!(send(&app).text(), first.text());
    assert_eq!(log(&app, "").len(), 2);
    app = app.restart();
    assert_eq!(
        send(&app).text(),
        first.text(),
        "it was kept with the change"
    );
    assert_eq!(log(&app, "").len(), 2);
}

#[test]
fn giving_the_same_role_again_applies_the_current_template() {
    let app = TestApp::start();
    let room = app.room_with_roles("stage", &json!({"speaker": {"publish": {"max_kbps": 500}}}));
    app.join("stage", "alice", "speaker");
    let role = format!(
        "/v1/templates/{}/roles/speaker",
        room["template_id"].as_str().unwrap()
    );
    app.put(&role).json(json!({})).send().expect(200);
    let changed = change(&app, "alice", "speaker").expect(200);
    assert_eq!(
        changed["participant"]["attributes"],
        json!({"svc.role": "speaker"})
    );
    assert_eq!(changed["role_change"]["previous_role"], "speaker");
}

#[test]
fn giving_the_same_role_again_applies_the_current_subscription_rules() {
    let app = TestApp::start();
    let room = app.room_with_roles("stage", &roles());
    let (alice, bob) = (
        app.join("stage", "alice", "pupil"),
        app.join("stage", "bob", "voice"),
    );
    let track = app.publish(&bob, "audio", "microphone");
    assert_eq!(app.subscriptions(&alice), Vec::<String>::new());
    let role = format!(
        "/v1/templates/{}/roles/pupil",
        room["template_id"].as_str().unwrap()
    );
    app.put(&role).json(json!({})).send().expect(200);
    change(&app, "alice", "pupil").expect(200);
    assert_eq!(app.subscriptions(&alice), [track]);
}

#[test]
fn the_log_is_newest_first_filtered_by_identity_paged_and_kept_after_the_room() {
    let app = stage();
    app.join("stage", "alice", "voice");
    app.join("stage", "bob", "voice");
    for (identity, role) in [("alice", "pupil"), ("bob", "pupil"), ("alice", "chair")] {
        change(&app, identity, role).expect(200);
        app.advance(Duration::from_millis(1));
    }
    app.delete("/v1/rooms/stage").send().expect_empty(204);
    let of = |query: &str| -> Vec<(String, String)> {
        let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
        log(&app, query)
            .iter()
            .map(|row| (text(row, "participant_identity"), text(row, "role")))
            .collect()
    };
    let expected = |rows: &[(&str, &str)]| -> Vec<_> {
        rows.iter()
            .map(|(who, role)| ((*who).to_owned(), (*role).to_owned()))
            .collect()
    };
    assert_eq!(
        of(""),
        expected(&[("alice", "chair"), ("bob", "pupil"), ("alice", "pupil")])
    );
    assert_eq!(
        of("?identity=alice"),
        expected(&[("alice", "chair"), ("alice", "pupil")])
    );
    assert_eq!(of("?identity=nobody"), expected(&[]));
    let walked = walk_pages(
        |path| app.get(path),
        LOG,
        "role_changes",
        "participant_identity",
        2,
    );
    assert_eq!(walked, ["alice", "bob", "alice"]);
    app.get(&format!("{LOG}?identity=a%20b"))
        .send()
        .expect_error(400, "invalid_identity", Some("identity"));
    app.get("/v1/rooms/nowhere/role-changes")
        .send()
        .expect_error(404, "room_not_found", None);
    refuses_bad_pages(&app, LOG);
}

/// Returns the role of a participant that joins with this token and leaves again.
#[track_caller]
fn role_of_join(app: &TestApp, token: &str) -> String {
    let sid = app.join_with(token).expect(201)["sid"]
        .as_str()
        .unwrap()
        .to_owned();
    let role = app.view(&sid)["participant"]["attributes"]["svc.role"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    app.leave(&sid, true);
    role
}

/// Proves S-46.
#[test]
fn the_last_change_of_an_identity_holds_for_its_next_joins_also_after_a_restart() {
    let mut app = stage();
    let (old, without_role) = (
        app.token("stage", "alice", "chair"),
        app.token("stage", "alice", ""),
    );
    let other = app.token("stage", "bob", "chair");
    app.join_with(&old).expect(201);
    change(&app, "alice", "voice").expect(200);
    // The new join replaces the connected participant.
    assert_eq!(role_of_join(&app, &old), "voice");
    for _ in 0..2 {
        app = app.restart();
        assert_eq!(
            (role_of_join(&app, &old), role_of_join(&app, &without_role)),
            ("voice".into(), "voice".into())
        );
    }
    assert_eq!(role_of_join(&app, &other), "chair", "of another identity");
    let newer = app.token("stage", "alice", "chair");
    assert_eq!(
        (role_of_join(&app, &newer), role_of_join(&app, &old)),
        ("chair".into(), "voice".into())
    );

    app.join_with(&newer).expect(201);
    change(&app, "alice", "pupil").expect(200);
    assert_eq!(
        role_of_join(&app, &newer),
        "pupil",
        "another change is newer than the token"
    );
    change(&app, "alice", "pupil").expect_error(404, "participant_not_found", None);
}

#[test]
fn a_removal_leaves_a_token_as_it_is() {
    let app = stage();
    let token = app.token("stage", "alice", "chair");
    app.join_with(&token).expect(201);
    app.delete("/v1/rooms/stage/participants/alice")
        .send()
        .expect_empty(204);
    assert_eq!(role_of_join(&app, &token), "chair");
}

/// Proves S-46.
#[test]
fn a_code_of_before_a_change_does_not_undo_it_and_one_of_after_it_does() {
    let app = stage();
    let code = || {
        let created = app
            .post("/v1/rooms/stage/codes")
            .json(json!({"role": "chair", "identity": "alice"}))
            .send();
        created.expect(201)["code"].as_str().unwrap().to_owned()
    };
    let exchange = |code: &str| {
        let path = format!("/v1/codes/{code}/exchange");
        let exchanged = app
            .post(&path)
            .anonymous()
            .json(json!({"identity": "alice"}))
            .send()
            .expect(201);
        exchanged["token"].as_str().unwrap().to_owned()
    };
    let before = code();
    app.join_with(&exchange(&before)).expect(201);
    change(&app, "alice", "voice").expect(200);
    assert_eq!(role_of_join(&app, &exchange(&before)), "voice");
    app.advance(Duration::from_secs(1));
    assert_eq!(role_of_join(&app, &exchange(&code())), "chair");
}

/// Proves S-46.
#[test]
fn a_changed_role_that_the_template_has_lost_admits_nobody() {
    let app = TestApp::start();
    let room = app.room_with_roles("stage", &roles());
    let token = app.token("stage", "alice", "chair");
    let sid = app.join_with(&token).expect(201)["sid"]
        .as_str()
        .unwrap()
        .to_owned();
    change(&app, "alice", "voice").expect(200);
    app.leave(&sid, true);
    let role = format!(
        "/v1/templates/{}/roles/voice",
        room["template_id"].as_str().unwrap()
    );
    app.delete(&role).send().expect_empty(204);
    assert!(
        app.join_with(&token).status >= 400,
        "the token's role does not come back"
    );
    assert_eq!(
        role_of_join(&app, &app.token("stage", "alice", "pupil")),
        "pupil"
    );
}
