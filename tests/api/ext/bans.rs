//! `/ext/v1/rooms/{name}/bans`, and `DELETE /v1/rooms/{name}/participants/{identity}?revoke=true`: minting, exchanges, joins and a
//! token's requests.

use std::time::Duration;

use livekit_double::Fault;
use serde_json::{Value, json};

use crate::livekit::livekit;
use crate::signalling::client::{Client, assert_refused, query, status_of};
use crate::support::{Receiver, Request, Response, TestApp, eventually};
use crate::tools::{
    fields, jwt, other_project, refuses_bad_pages, repeat_ban, repeat_revocation, walk_pages,
};

const BANS: &str = "/ext/v1/rooms/standup/bans";
const MALLORY: &str = "/ext/v1/rooms/standup/bans/mallory";
const PARTICIPANT: &str = "/v1/rooms/standup/participants/mallory";
const REVOKE: &str = "/v1/rooms/standup/participants/mallory?revoke=true";

fn start() -> TestApp {
    let app = TestApp::start();
    app.room_with_roles(
        "standup",
        &json!({"host": {"permissions": {"remove_others": true}}, "guest": {}}),
    );
    app
}

fn ban(app: &TestApp) -> Value {
    app.put(MALLORY).send().expect(201)
}

fn mint(app: &TestApp) -> Response {
    app.post("/v1/tokens")
        .json(json!({"room": "standup", "identity": "mallory", "role": "guest"}))
        .send()
}

fn code(app: &TestApp, body: Value) -> String {
    app.post("/v1/rooms/standup/codes")
        .json(body)
        .send()
        .expect(201)["code"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn exchange(app: &TestApp, code: &str, identity: &str) -> Response {
    app.post(&format!("/v1/codes/{code}/exchange"))
        .anonymous()
        .json(json!({"identity": identity}))
        .send()
}

fn with_token(request: Request, token: &str) -> Request {
    request.anonymous().header("x-svc-room-token", token)
}

#[track_caller]
fn assert_banned(answer: &Response) {
    answer.expect_error(409, "identity_banned", Some("identity"));
}

/// Proves S-90.
#[test]
fn a_ban_removes_the_participant_and_refuses_it_until_it_is_lifted() {
    let (app, receiver) = (start(), Receiver::start());
    let token = app.token("standup", "mallory", "guest");
    let sid = app.join_with(&token).expect(201)["sid"].clone();
    app.join("standup", "alice", "guest");
    app.endpoint(&receiver.url);
    let put = app.put(MALLORY).json(json!({"reason": "spam"})).send();
    let banned = put.expect(201);
    assert_eq!(
        banned,
        json!({
            "id": banned["id"], "room": "standup", "identity": "mallory", "reason": "spam",
            "created_at": app.now(), "updated_at": app.now()
        })
    );
    let removed = json!([{"at": app.now(), "type": "removed"}]);
    assert_eq!(app.view(sid.as_str().unwrap())["inbox"], removed);
    app.get(PARTICIPANT)
        .send()
        .expect_error(404, "participant_not_found", None);
    assert_banned(&mint(&app));
    assert_banned(&app.join_with(&token));
    // Others are not affected, nor is the identity in other rooms.
    app.token("standup", "bob", "guest");
    app.room("other");
    app.token("other", "mallory", "");
    app.delete(MALLORY).send().expect_empty(204);
    mint(&app).expect(201);
    app.join_with(&token).expect(201);
    let gone = app.deliveries("");
    let of_mallory = gone
        .iter()
        .filter(|delivery| delivery["payload"]["participant_identity"] == "mallory");
    let types: Vec<_> = of_mallory
        .map(|delivery| delivery["event_type"].as_str().unwrap())
        .collect();
    assert!(types.contains(&"participant.left"), "{types:?}");
}

#[test]
fn a_ban_with_an_end_is_over_at_that_time_and_can_be_changed_before() {
    let app = start();
    let until = |seconds: u64| app.clock.now().after(Duration::from_secs(seconds));
    let put = |body: Value| app.put(MALLORY).json(body).send();
    let first = put(json!({"until": until(60)})).expect(201);
    app.advance(Duration::from_secs(30));
    let end = until(60);
    let changed = put(json!({"until": end, "reason": "again"})).expect(200);
    assert_eq!(
        (&changed["id"], &changed["created_at"], &changed["until"]),
        (&first["id"], &first["created_at"], &json!(end))
    );
    assert_eq!(changed["updated_at"], app.now());
    app.advance(Duration::from_millis(59_999));
    assert_banned(&mint(&app));
    app.advance(Duration::from_millis(1));
    let token = app.token("standup", "mallory", "guest");
    app.join_with(&token).expect(201);
    // Shown until it is lifted or replaced, by a ban of its own.
    assert_eq!(app.get(BANS).send().expect(200)["bans"], json!([changed]));
    let second = ban(&app);
    assert_ne!(second["id"], first["id"]);
    assert_eq!(app.get(BANS).send().expect(200)["bans"], json!([second]));
    assert_banned(&app.join_with(&token));
}

#[test]
fn the_terms_of_a_ban_are_checked() {
    let app = start();
    let refused = |body: Value, field: &str| {
        let answer = app.put(MALLORY).json(body).send();
        answer.expect_error(400, "invalid_request", Some(field));
    };
    refused(json!({"until": app.now()}), "until");
    refused(json!({"until": "tomorrow"}), "until");
    refused(json!({"reason": "x".repeat(501)}), "reason");
    refused(json!({"reason": null}), "reason");
    app.put(&format!("{BANS}/no%20identity"))
        .send()
        .expect_error(400, "invalid_identity", Some("identity"));
    app.put("/ext/v1/rooms/nowhere/bans/mallory")
        .send()
        .expect_error(404, "room_not_found", None);
    assert_eq!(app.get(BANS).send().expect(200)["bans"], json!([]));
    let longest = "ü".repeat(500);
    let ban = app.put(MALLORY).json(json!({"reason": longest})).send();
    assert_eq!(ban.expect(201)["reason"], json!(longest));
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    app.put(MALLORY)
        .send()
        .expect_error(409, "room_ended", None);
    app.delete(MALLORY).send().expect_empty(204);
    app.delete(MALLORY)
        .send()
        .expect_error(404, "ban_not_found", None);
}

/// Proves S-93.
#[test]
fn a_room_has_at_most_1000_bans_and_bans_that_are_over_do_not_count() {
    let app = start();
    let put = |identity: &str, body: Value| {
        let path = format!("{BANS}/{identity}");
        app.put(&path).json(body).send()
    };
    ban(&app);
    repeat_ban(&app, "standup", 998);
    let until = app.clock.now().after(Duration::from_secs(60));
    put("last", json!({"until": until})).expect(201);
    put("next", json!({})).expect_error(409, "ban_limit_reached", None);
    // A ban can still be changed, and another room has its own.
    put("last", json!({"until": until, "reason": "spam"})).expect(200);
    app.room("other");
    let other = app.put("/ext/v1/rooms/other/bans/mallory").send();
    other.expect(201);
    app.advance(Duration::from_secs(60));
    put("next", json!({})).expect(201);
    let rows = "SELECT count(*) FROM bans WHERE room = 'standup'";
    assert_eq!(app.records().value(rows), "1000", "without the last one");
    put("last", json!({})).expect_error(409, "ban_limit_reached", None);
    app.delete(MALLORY).send().expect_empty(204);
    put("last", json!({})).expect(201);
}

/// Proves S-93.
#[test]
fn a_room_has_at_most_1000_revocations_and_those_of_expired_tokens_do_not_count() {
    const TOKEN_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
    let app = start();
    app.join("standup", "alice", "host");
    let revoke = |room: &str, identity: &str| {
        app.delete(&format!(
            "/v1/rooms/{room}/participants/{identity}?revoke=true"
        ))
        .send()
    };
    let refused = |identity: &str| {
        let refused = revoke("standup", identity);
        refused.expect_error(429, "rate_limited", None);
        refused.headers["retry-after"].parse::<u64>().unwrap()
    };
    revoke("standup", "mallory").expect_empty(204);
    repeat_revocation(&app, "standup", 998);
    app.advance(TOKEN_LIFE);
    let token = app.token("standup", "last", "guest");
    revoke("standup", "last").expect_empty(204);
    assert_eq!(refused("next"), 24 * 60 * 60);
    // An identity's tokens can be revoked again, and another room has its own limit.
    revoke("standup", "last").expect_empty(204);
    app.room("other");
    revoke("other", "next").expect_empty(204);
    app.advance(TOKEN_LIFE - Duration::from_secs(1));
    assert_eq!(refused("next"), 1);
    app.advance(Duration::from_secs(1));
    revoke("standup", "next").expect_empty(204);
    let rows = "SELECT count(*) FROM revocations WHERE room = 'standup'";
    assert_eq!(app.records().value(rows), "2", "of 'last' and of 'next'");
    app.join_with(&token)
        .expect_error(401, "unauthorized", None);
    let new = app.token("standup", "mallory", "guest");
    app.join_with(&new).expect(201);
}

#[test]
fn bans_are_listed_newest_first_and_belong_to_their_room_and_project() {
    let app = start();
    for identity in ["a", "b", "c"] {
        app.put(&format!("{BANS}/{identity}")).send().expect(201);
        app.advance(Duration::from_secs(1));
    }
    let listed = walk_pages(|path| app.get(path), BANS, "bans", "identity", 2);
    assert_eq!(listed, ["c", "b", "a"]);
    refuses_bad_pages(&app, BANS);
    app.room("other");
    assert_eq!(
        app.get("/ext/v1/rooms/other/bans").send().expect(200)["bans"],
        json!([])
    );
    let other = other_project(&app, "self_hosted");
    let foreign = |method: &str, path: &str| app.request(method, path).bearer(&other.key).send();
    for (method, path) in [("GET", BANS), ("PUT", MALLORY), ("DELETE", MALLORY)] {
        foreign(method, path).expect_error(404, "room_not_found", None);
    }
    let room = app.post("/v1/rooms").bearer(&other.key);
    room.json(json!({"name": "standup"})).send().expect(201);
    foreign("DELETE", &format!("{BANS}/a")).expect_error(404, "ban_not_found", None);
    let token = app.post("/v1/tokens").bearer(&other.key);
    let token = token.json(json!({"room": "standup", "identity": "a"}));
    token.send().expect(201);
}

/// Proves S-90.
#[test]
fn a_room_code_is_not_exchanged_for_a_banned_identity_and_counts_no_use() {
    let app = start();
    let open = code(&app, json!({"role": "guest", "max_uses": 1}));
    let locked = code(
        &app,
        json!({"role": "guest", "max_uses": 1, "identity": "mallory"}),
    );
    ban(&app);
    assert_banned(&exchange(&app, &open, "mallory"));
    assert_banned(&exchange(&app, &locked, "anybody"));
    exchange(&app, &open, "alice").expect(201);
    app.delete(MALLORY).send().expect_empty(204);
    exchange(&app, &locked, "anybody").expect(201);
}

/// Proves S-90.
#[test]
fn a_ban_and_a_revocation_survive_a_restart() {
    let app = start();
    let old = app.token("standup", "mallory", "guest");
    app.delete(REVOKE).send().expect_empty(204);
    let banned = ban(&app);
    let app = app.restart();
    assert_eq!(app.get(BANS).send().expect(200)["bans"], json!([banned]));
    assert_banned(&mint(&app));
    app.delete(MALLORY).send().expect_empty(204);
    app.join_with(&old).expect_error(401, "unauthorized", None);
    let new = app.token("standup", "mallory", "guest");
    app.join_with(&new).expect(201);
}

/// Proves S-90.
#[test]
fn a_removal_with_revoke_refuses_the_tokens_minted_until_then() {
    let app = start();
    let tokens = [(); 2].map(|()| app.token("standup", "mallory", "host"));
    app.join_with(&tokens[0]).expect(201);
    // Without the parameter, and with false, tokens stay valid.
    app.delete(&format!("{PARTICIPANT}?revoke=false"))
        .send()
        .expect_empty(204);
    app.join_with(&tokens[1]).expect(201);
    app.delete(REVOKE).send().expect_empty(204);
    app.get(PARTICIPANT)
        .send()
        .expect_error(404, "participant_not_found", None);
    for token in &tokens {
        app.join_with(token).expect_error(401, "unauthorized", None);
    }
    // A token of the same instant is newer: no clock decides.
    let new = app.token("standup", "mallory", "host");
    app.join_with(&new).expect(201);
    let attributes = app.get(PARTICIPANT).send().expect(200)["attributes"].clone();
    assert_eq!(fields(&attributes), ["svc.role"]);
    app.delete(REVOKE).send().expect_empty(204);
    app.join_with(&new).expect_error(401, "unauthorized", None);
    // Also if the participant is not connected, but only in an open room.
    let newest = app.token("standup", "mallory", "host");
    app.delete(REVOKE).send().expect_empty(204);
    app.join_with(&newest)
        .expect_error(401, "unauthorized", None);
    for (path, code) in [
        (format!("{PARTICIPANT}?revoke=yes"), "invalid_request"),
        (format!("{PARTICIPANT}?revoke="), "invalid_request"),
    ] {
        app.delete(&path)
            .send()
            .expect_error(400, code, Some("revoke"));
    }
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    app.delete(REVOKE)
        .send()
        .expect_error(404, "participant_not_found", None);
}

#[test]
fn a_room_code_gives_a_token_after_a_revocation_and_none_during_a_ban() {
    let app = start();
    let locked = code(&app, json!({"role": "guest", "identity": "mallory"}));
    let token = || {
        let exchanged = exchange(&app, &locked, "anybody").expect(201);
        exchanged["token"].as_str().unwrap().to_owned()
    };
    let old = token();
    app.delete(REVOKE).send().expect_empty(204);
    app.join_with(&old).expect_error(401, "unauthorized", None);
    app.join_with(&token()).expect(201);
    ban(&app);
    assert_banned(&exchange(&app, &locked, "anybody"));
}

#[test]
fn only_tokens_minted_after_a_revocation_name_it() {
    let app = start();
    let revocation = || {
        let token = app.token("standup", "mallory", "guest");
        jwt(&token, 1)["attributes"]["svc.revocation"].clone()
    };
    assert_eq!(revocation(), Value::Null);
    app.delete(REVOKE).send().expect_empty(204);
    let first = revocation();
    assert!(first.is_string() && revocation() == first);
    app.delete(REVOKE).send().expect_empty(204);
    assert_ne!(revocation(), first);
    // A banned identity's tokens are not revoked: it may use them once the ban is over.
    let last = revocation();
    ban(&app);
    app.delete(MALLORY).send().expect_empty(204);
    assert_eq!(revocation(), last);
}

#[test]
fn a_participant_that_may_remove_others_may_ban_and_revoke_and_no_one_else() {
    let app = start();
    let (host, guest) = (
        app.token("standup", "alice", "host"),
        app.token("standup", "bob", "guest"),
    );
    app.join("standup", "mallory", "guest");
    for request in [app.put(MALLORY), app.delete(REVOKE)] {
        let refused = with_token(request, &guest).send();
        refused.expect_error(403, "permission_denied", Some("remove_others"));
    }
    app.get(PARTICIPANT).send().expect(200);
    with_token(app.delete(REVOKE), &host)
        .send()
        .expect_empty(204);
    with_token(app.put(MALLORY), &host).send().expect(201);
    assert_banned(&mint(&app));
    // Listing and lifting are the server's.
    for request in [app.get(BANS), app.delete(MALLORY)] {
        with_token(request, &host)
            .send()
            .expect_error(401, "unauthorized", None);
    }
}

/// Proves S-90.
#[test]
fn a_participant_may_prolong_a_ban_and_not_shorten_it() {
    let app = start();
    let host = app.token("standup", "alice", "host");
    let until = |seconds: u64| app.clock.now().after(Duration::from_secs(seconds));
    let put = |body: Value| with_token(app.put(MALLORY), &host).json(body).send();
    let by_server = |body: Value| app.put(MALLORY).json(body).send();
    by_server(json!({"until": until(60), "reason": "spam"})).expect(201);
    let refused = |seconds: u64| {
        put(json!({"until": until(seconds)})).expect_error(403, "permission_denied", None);
    };
    refused(59);
    let kept = app.get(BANS).send().expect(200)["bans"][0].clone();
    assert_eq!(
        (&kept["until"], &kept["reason"]),
        (&json!(until(60)), &json!("spam"))
    );
    put(json!({"until": until(60)})).expect(200);
    put(json!({"until": until(61)})).expect(200);
    put(json!({})).expect(200);
    // The longest of all: it ends when the server lifts it, or gives it an end.
    refused(1_000_000);
    app.advance(Duration::from_secs(61));
    assert_banned(&mint(&app));
    by_server(json!({"until": until(1)})).expect(200);
    app.advance(Duration::from_secs(1));
    mint(&app).expect(201);
    // A ban that is over is no obstacle.
    put(json!({"until": until(1)})).expect(201);
}

/// Proves S-90.
#[test]
fn a_banned_or_revoked_token_permits_no_requests() {
    let app = start();
    let remove = |token: &str| with_token(app.delete(PARTICIPANT), token).send();
    let token = app.token("standup", "alice", "host");
    app.put(&format!("{BANS}/alice")).send().expect(201);
    remove(&token).expect_error(403, "permission_denied", Some("remove_others"));
    app.delete(&format!("{BANS}/alice"))
        .send()
        .expect_empty(204);
    remove(&token).expect_error(404, "participant_not_found", None);
    app.delete("/v1/rooms/standup/participants/alice?revoke=true")
        .send()
        .expect_empty(204);
    remove(&token).expect_error(403, "permission_denied", Some("remove_others"));
    let new = app.token("standup", "alice", "host");
    remove(&new).expect_error(404, "participant_not_found", None);
}

/// Proves S-90.
#[test]
fn a_webrtc_client_with_a_ban_or_a_revoked_token_gets_403() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let token = app.token("standup", "mallory", "guest");
    let path = format!("/rtc{}", query(&token));
    let mut client = Client::connect(&app, &path).unwrap();
    assert!(client.next().is_some(), "the join is answered");
    assert_eq!(app.validate(&token).status, 200);
    ban(&app);
    let refused = |text: &str| {
        assert_refused(&app.validate(&token), 403, text);
        let error = Client::connect(&app, &path).err().unwrap();
        assert_eq!(status_of(&error), 403);
    };
    refused("the identity is banned from this room");
    app.delete(MALLORY).send().expect_empty(204);
    assert_eq!(app.validate(&token).status, 200);
    app.delete(REVOKE).send().expect_empty(204);
    refused("the token was revoked");
    let new = app.token("standup", "mallory", "guest");
    assert_eq!(app.validate(&new).status, 200);
}

/// Proves S-90.
#[test]
fn a_revoked_token_does_not_resume_a_later_join() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let revoked = app.token("standup", "mallory", "guest");
    app.delete(REVOKE).send().expect_empty(204);
    let new = app.token("standup", "mallory", "guest");
    let mut joined = Client::connect(&app, &format!("/rtc{}", query(&new))).unwrap();
    let sid = joined.sid();
    let resume = |token: &str| {
        let path = format!("/rtc{}&reconnect=1&sid={sid}", query(token));
        Client::connect(&app, &path).unwrap()
    };
    resume(&revoked).expect_no_resume();
    joined.expect_pong();
    resume(&new).expect_resume();
}

/// Proves S-90.
#[test]
fn livekits_participants_are_removed_when_they_join_with_a_ban_or_a_revoked_token() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    app.room("standup");
    let token = app.token("standup", "mallory", "guest");
    let connected = || !double.connected().is_empty();
    double.connect(&token).unwrap();
    app.wait_for_event("participant.joined", 1);
    ban(&app);
    assert!(!connected());
    app.wait_for_event("participant.left", 1);
    // LiveKit admits every signed token; the control plane learns it from the webhook.
    double.connect(&token).unwrap();
    eventually(|| !connected());
    app.wait_for_event("participant.connection_aborted", 1);
    app.delete(MALLORY).send().expect_empty(204);
    app.delete(REVOKE).send().expect_empty(204);
    double.connect(&token).unwrap();
    eventually(|| !connected());
    app.wait_for_event("participant.connection_aborted", 2);
    let new = app.token("standup", "mallory", "guest");
    double.connect(&new).unwrap();
    app.wait_for_event("participant.joined", 2);
    assert!(connected());
}

/// Proves S-90.
#[test]
fn reconciliation_removes_a_banned_participant_that_livekit_did_not_remove() {
    let ((app, double), receiver) = (livekit(), Receiver::start());
    app.endpoint(&receiver.url);
    app.room("standup");
    let token = app.token("standup", "mallory", "guest");
    double.connect(&token).unwrap();
    app.wait_for_event("participant.joined", 1);
    double.fail("RemoveParticipant", Fault::Twirp(500, "internal", "broken"));
    app.put(MALLORY)
        .send()
        .expect_error(503, "media_unavailable", None);
    assert_banned(&mint(&app));
    assert!(!double.connected().is_empty());
    double.heal();
    app.next_round();
    eventually(|| double.connected().is_empty());
    app.wait_for_event("participant.left", 1);
}
