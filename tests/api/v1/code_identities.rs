//! Room codes without a locked identity: never another participant's identity, and never more than the code's own role.

use serde_json::{Value, json};

use crate::signalling::client::{Client, assert_refused, query, status_of};
use crate::support::{Response, TestApp, eventually};
use crate::tools::jwt;

/// Opens a room whose host may end it and assign roles, and whose listener may only listen.
fn stage(app: &TestApp) {
    app.room_with_roles("stage", &roles());
}

fn roles() -> Value {
    json!({
        "host": {"permissions": {"end_room": true, "change_role": true}},
        "guest": {},
        "listener": {"publish": {"allowed": []}},
    })
}

fn code(app: &TestApp, body: &Value) -> String {
    app.post("/v1/rooms/stage/codes")
        .json(body.clone())
        .send()
        .expect(201)["code"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn open_code(app: &TestApp, role: &str) -> String {
    code(app, &json!({"role": role}))
}

fn exchange(app: &TestApp, code: &str, identity: &str) -> Response {
    app.post(&format!("/v1/codes/{code}/exchange"))
        .anonymous()
        .json(json!({"identity": identity}))
        .send()
}

fn token(app: &TestApp, code: &str, identity: &str) -> String {
    exchange(app, code, identity).expect(201)["token"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Joins with a token, and returns the sid.
fn join(app: &TestApp, token: &str) -> String {
    app.join_with(token).expect(201)["sid"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn give_role(app: &TestApp, identity: &str, role: &str) {
    let path = format!("/v1/rooms/stage/participants/{identity}/role");
    app.post(&path)
        .json(json!({"role": role}))
        .send()
        .expect(200);
}

/// Returns the role of a participant that joins with this token and leaves again.
fn role_of_join(app: &TestApp, token: &str) -> String {
    let sid = join(app, token);
    let participant = app.view(&sid)["participant"].clone();
    let session = app.get("/v1/sessions?active=true").send().expect(200)["sessions"][0].clone();
    assert_eq!(participant["attributes"]["svc.role"], session["role"]);
    app.leave(&sid, true);
    session["role"].as_str().unwrap().to_owned()
}

fn is_connected(app: &TestApp, sid: &str) -> bool {
    app.view(sid)["participant"]["state"] == "active"
}

fn end_room(app: &TestApp, token: &str) -> Response {
    app.delete("/v1/rooms/stage")
        .anonymous()
        .header("x-svc-room-token", token)
        .send()
}

#[test]
fn a_participant_from_a_code_has_no_attributes_that_others_have_not() {
    let app = TestApp::start();
    stage(&app);
    let sid = join(&app, &token(&app, &open_code(&app, "guest"), "bob"));
    give_role(&app, "bob", "listener");
    app.leave(&sid, true);
    app.join("stage", "bob", "host");
    join(&app, &token(&app, &open_code(&app, "guest"), "carol"));
    for (identity, role) in [("bob", "host"), ("carol", "guest")] {
        let shown = app
            .get(&format!("/v1/rooms/stage/participants/{identity}"))
            .send()
            .expect(200);
        assert_eq!(shown["attributes"], json!({"svc.role": role}), "{identity}");
    }
}

/// Proves S-47.
#[test]
fn a_connected_identity_and_one_that_was_given_a_role_are_taken_and_count_no_use() {
    let app = TestApp::start();
    stage(&app);
    let guest = code(&app, &json!({"role": "guest", "max_uses": 3}));
    let taken = |identity: &str| {
        exchange(&app, &guest, identity).expect_error(409, "identity_taken", Some("identity"));
    };
    let alice = app.join("stage", "alice", "host");
    taken("alice");
    let bob = join(&app, &token(&app, &guest, "bob"));
    taken("bob");
    for role in ["host", "listener"] {
        give_role(&app, "bob", role);
        taken("bob");
    }
    app.leave(&bob, true);
    app.leave(&alice, true);
    eventually(|| {
        app.get("/v1/rooms/stage/participants").send().expect(200)["participants"] == json!([])
    });
    taken("bob");
    exchange(&app, &open_code(&app, "guest"), "bob").expect_error(
        409,
        "identity_taken",
        Some("identity"),
    );
    token(&app, &guest, "alice");
    token(&app, &guest, "Bob");
    // A room's role changes do not affect other rooms.
    app.room("a");
    let elsewhere = app
        .post("/v1/rooms/a/codes")
        .json(json!({"role": "guest"}))
        .send()
        .expect(201);
    token(&app, elsewhere["code"].as_str().unwrap(), "bob");
    exchange(&app, &guest, "carol").expect_error(404, "code_not_found", None);
}

#[test]
fn a_code_that_is_locked_to_an_identity_is_not_affected() {
    let app = TestApp::start();
    stage(&app);
    let locked = code(&app, &json!({"role": "guest", "identity": "bob"}));
    let first = token(&app, &locked, "anybody");
    let sid = join(&app, &first);
    give_role(&app, "bob", "host");
    let second = token(&app, &locked, "bob");
    assert_eq!(jwt(&second, 1)["attributes"]["svc.role"], "guest");
    app.leave(&sid, true);
    // The change applies to its next joins, as it does for backend tokens.
    assert_eq!(
        (role_of_join(&app, &first), role_of_join(&app, &second)),
        ("host".into(), "host".into())
    );
    assert_eq!(
        role_of_join(&app, &app.token("stage", "bob", "guest")),
        "guest",
        "minted after the change"
    );
}

#[test]
fn a_full_role_an_ended_room_and_a_lost_role_come_before_a_taken_identity() {
    let app = TestApp::start();
    let room = app.room_with_roles("stage", &json!({"one": {"max_peer_count": 1}, "guest": {}}));
    let (one, guest) = (open_code(&app, "one"), open_code(&app, "guest"));
    app.join("stage", "alice", "one");
    app.join("stage", "bob", "");
    exchange(&app, &one, "bob").expect_error(409, "role_capacity_reached", Some("role"));
    exchange(&app, &guest, "not valid").expect_error(400, "invalid_identity", Some("identity"));
    app.delete(&format!(
        "/v1/templates/{}/roles/guest",
        room["template_id"].as_str().unwrap()
    ))
    .send()
    .expect_empty(204);
    exchange(&app, &guest, "bob").expect_error(404, "role_not_found", None);
    app.delete("/v1/rooms/stage").send().expect_empty(204);
    exchange(&app, &one, "alice").expect_error(409, "room_ended", None);
}

/// Proves S-47.
#[test]
fn a_token_of_a_code_is_not_promoted_by_joining_again_and_a_demotion_holds() {
    let app = TestApp::start();
    stage(&app);
    for (own, given, next) in [
        ("guest", "host", "guest"),
        ("listener", "guest", "listener"),
        ("guest", "listener", "listener"),
        ("host", "guest", "guest"),
        ("host", "listener", "listener"),
    ] {
        let identity = format!("{own}-{given}");
        let old = token(&app, &open_code(&app, own), &identity);
        let sid = join(&app, &old);
        give_role(&app, &identity, given);
        let refreshed = app.view(&sid)["token"].as_str().unwrap().to_owned();
        app.leave(&sid, true);
        assert_eq!(
            role_of_join(&app, &old),
            next,
            "{own} that was made a {given}"
        );
        // A client gets a new token with its new role, and reconnects with it after losing its network.
        assert_eq!(role_of_join(&app, &refreshed), given);
        let refused = end_room(&app, &old);
        refused.expect_error(403, "permission_denied", Some("end_room"));
    }
}

/// Proves S-47.
#[test]
fn a_token_of_a_code_throws_nobody_out_and_does_not_act_for_another() {
    let app = TestApp::start();
    stage(&app);
    let guest = open_code(&app, "guest");
    // Both tokens were minted before the others joined.
    let (as_alice, as_bob) = (token(&app, &guest, "alice"), token(&app, &guest, "bob"));
    let again = token(&app, &guest, "bob");
    let (alice, bob) = (app.join("stage", "alice", "host"), join(&app, &as_bob));
    give_role(&app, "bob", "host");
    for (other, sid) in [(&as_alice, &alice), (&again, &bob)] {
        app.join_with(other)
            .expect_error(409, "identity_taken", Some("identity"));
        assert!(is_connected(&app, sid));
        end_room(&app, other).expect_error(403, "permission_denied", Some("end_room"));
    }
    // A participant promoted by the host acts as a host with its original token while it is connected.
    let change = app
        .post("/v1/rooms/stage/participants/alice/role")
        .anonymous()
        .header("x-svc-room-token", &as_bob);
    change.json(json!({"role": "host"})).send().expect(200);
    app.leave(&bob, true);
    end_room(&app, &as_bob).expect_error(403, "permission_denied", Some("end_room"));
    app.leave(&alice, true);
    assert_eq!(role_of_join(&app, &as_alice), "guest");
    // A backend token replaces a participant that joined with a code.
    let carol = join(&app, &token(&app, &guest, "carol"));
    app.join("stage", "carol", "host");
    assert!(!is_connected(&app, &carol));
}

#[test]
fn a_guest_who_loads_the_page_again_replaces_itself_with_the_same_token() {
    let app = TestApp::start();
    stage(&app);
    let guest = open_code(&app, "guest");
    let own = token(&app, &guest, "bob");
    let first = join(&app, &own);
    let second = join(&app, &own);
    assert!(!is_connected(&app, &first) && is_connected(&app, &second));
    app.leave(&second, false);
    eventually(|| exchange(&app, &guest, "bob").status == 201);
}

/// Proves S-47.
#[test]
fn a_client_with_a_token_of_a_code_neither_replaces_nor_resumes_another() {
    let app = TestApp::start_with_webrtc();
    stage(&app);
    let guest = open_code(&app, "guest");
    let (as_alice, own) = (token(&app, &guest, "alice"), token(&app, &guest, "bob"));
    let path = |token: &str| format!("/rtc{}", query(token));
    let mut alice = Client::connect(&app, &path(&app.token("stage", "alice", "host"))).unwrap();
    let sid = alice.sid();
    assert_refused(
        &app.validate(&as_alice),
        403,
        "another participant with this identity is connected",
    );
    assert_eq!(
        status_of(&Client::connect(&app, &path(&as_alice)).err().unwrap()),
        403
    );
    let mut resumed =
        Client::connect(&app, &format!("{}&reconnect=1&sid={sid}", path(&as_alice))).unwrap();
    resumed.expect_no_resume();
    alice.expect_pong();

    let mut bob = Client::connect(&app, &path(&own)).unwrap();
    let mut again = Client::connect(&app, &path(&own)).unwrap();
    bob.expect_leave();
    let sid = again.sid();
    let mut resumed =
        Client::connect(&app, &format!("{}&reconnect=1&sid={sid}", path(&own))).unwrap();
    resumed.expect_resume();
}
