//! `/v1/tokens`, and room tokens as credentials: `DELETE /v1/rooms/{name}`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Response, TestApp, eventually};
use crate::tools::{
    NO_TEMPLATE, conclave, default_template, fields, jwt, jwt_part, other_project, room_on,
    template,
};

fn mint(app: &TestApp, body: Value) -> Response {
    app.post("/v1/tokens").json(body).send()
}

/// Returns the payload of a token minted with these extra fields for alice in room `a`.
fn payload(app: &TestApp, extra: Value) -> Value {
    let mut body = json!({"room": "a", "identity": "alice"});
    body.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    jwt(mint(app, body).expect(201)["token"].as_str().unwrap(), 1)
}

fn seconds(timestamp: &Value) -> i64 {
    timestamp
        .as_str()
        .unwrap()
        .parse::<conclave_model::Timestamp>()
        .unwrap()
        .millis()
        / 1_000
}

#[test]
fn a_token_without_a_role_has_exactly_its_three_fields() {
    let app = TestApp::start();
    app.room("a");
    let token = mint(&app, json!({"room": "a", "identity": "alice"})).expect(201);
    assert_eq!(fields(&token), ["expires_at", "token", "url"]);
    assert_eq!(token["expires_at"], "2026-03-01T13:00:00.000Z");
    assert!(
        token["url"].as_str().unwrap().starts_with("ws://"),
        "{token}"
    );
}

#[test]
fn a_token_with_a_role_names_it_and_carries_its_publish_profile() {
    let app = TestApp::start();
    app.room("a");
    let token = mint(
        &app,
        json!({"room": "a", "identity": "alice", "role": "guest"}),
    )
    .expect(201);
    assert_eq!(
        fields(&token),
        ["expires_at", "publish_profile", "role", "token", "url"]
    );
    let role = app
        .get(&format!(
            "/v1/templates/{}/roles/guest",
            default_template(&app)
        ))
        .send()
        .expect(200);
    assert_eq!(
        (&token["role"], &token["publish_profile"]),
        (&json!("guest"), &role["publish"])
    );
}

#[test]
fn the_claims_are_those_a_media_server_reads() {
    let app = TestApp::start();
    app.post("/v1/rooms")
        .json(json!({"name": "a", "empty_timeout_seconds": 60, "max_participants": 7}))
        .send()
        .expect(201);
    let body =
        json!({"room": "a", "identity": "al.ice@x-1_", "name": "Alice", "metadata": "{\"a\":1}"});
    let token = mint(&app, body).expect(201);
    let text = token["token"].as_str().unwrap();
    assert_eq!(jwt(text, 0)["alg"], "HS256");
    let claims = jwt(text, 1);
    assert_eq!(
        (&claims["sub"], &claims["name"]),
        (&json!("al.ice@x-1_"), &json!("Alice"))
    );
    assert_eq!(claims["metadata"], "{\"a\":1}");
    assert_eq!(claims["exp"], seconds(&token["expires_at"]));
    assert!(claims["nbf"].as_i64().unwrap() <= claims["exp"].as_i64().unwrap() - 3_600);
    assert!(claims["iss"].as_str().is_some_and(|iss| !iss.is_empty()));
    assert!(claims["jti"].as_str().is_some_and(|jti| !jti.is_empty()));
    let video = &claims["video"];
    assert_eq!(
        (&video["room"], &video["roomJoin"]),
        (&json!(format!("{}.a", app.project)), &json!(true))
    );
    let grants = (
        &video["canPublish"],
        &video["canSubscribe"],
        &video["canPublishData"],
    );
    assert_eq!(grants, (&json!(true), &json!(true), &json!(true)));
    let config = &claims["roomConfig"];
    assert_eq!(
        (&config["emptyTimeout"], &config["departureTimeout"]),
        (&json!(90), &json!(90))
    );
    assert_eq!(config["maxParticipants"], 7);
    assert!(claims["attributes"].get("svc.role").is_none(), "{claims}");
}

#[test]
fn two_tokens_for_the_same_identity_differ() {
    let app = TestApp::start();
    app.room("a");
    assert_ne!(
        payload(&app, json!({}))["jti"],
        payload(&app, json!({}))["jti"]
    );
}

#[test]
fn permissions_default_to_true_one_by_one() {
    let app = TestApp::start();
    app.room("a");
    for (permissions, expected) in [
        (json!({}), [true, true, true]),
        (json!({"can_publish": false}), [false, true, true]),
        (
            json!({"can_subscribe": false, "can_publish": null}),
            [true, false, true],
        ),
        (
            json!({"can_publish_data": false, "can_subscribe": true}),
            [true, true, false],
        ),
    ] {
        let video = payload(&app, json!({"permissions": permissions}))["video"].clone();
        assert_eq!(
            json!([
                video["canPublish"],
                video["canSubscribe"],
                video["canPublishData"]
            ]),
            json!(expected)
        );
    }
}

#[test]
fn a_role_replaces_the_permissions_with_its_grants_and_attaches_its_attributes() {
    let app = TestApp::start();
    let roles = json!({
        "viewer": {
            "publish": {"allowed": ["data"], "max_kbps": 900}, "subscribe": {"to_roles": []}, "hidden": true
        },
        "speaker": {"publish": {"allowed": ["audio", "screen"]}, "subscribe": {"to_roles": ["viewer"]}},
        "narrator": {"permissions": {"update_own_metadata": true}, "attributes": {"team": "blue"}},
        "host": {}
    });
    room_on(&app, "a", &template(&app, "t", &roles));
    let claims = payload(
        &app,
        json!({"role": "viewer", "permissions": {"can_publish": true, "can_subscribe": true}}),
    );
    let video = &claims["video"];
    let grants = [
        &video["canPublish"],
        &video["canSubscribe"],
        &video["canPublishData"],
        &video["hidden"],
    ];
    assert_eq!(
        grants,
        [&json!(false), &json!(false), &json!(true), &json!(true)]
    );
    assert_eq!(
        claims["attributes"],
        json!({"svc.role": "viewer", "svc.publish.max_kbps": "900"})
    );

    let claims = payload(
        &app,
        json!({"role": "speaker", "permissions": {"can_publish": false}}),
    );
    let video = &claims["video"];
    let grants = [
        &video["canPublish"],
        &video["canSubscribe"],
        &video["canPublishData"],
    ];
    assert_eq!(grants, [&json!(true), &json!(true), &json!(false)]);
    assert_eq!(
        video["canPublishSources"],
        json!(["microphone", "screen_share", "screen_share_audio"])
    );
    assert_eq!(claims["attributes"], json!({"svc.role": "speaker"}));

    let claims = payload(&app, json!({"role": "host"}));
    assert!(
        claims["video"].get("canPublishSources").is_none(),
        "all sources, and tracks without one: {claims}"
    );
    assert!(
        claims["video"].get("canUpdateOwnMetadata").is_none(),
        "{claims}"
    );
    let claims = payload(&app, json!({"role": "narrator"}));
    assert_eq!(claims["video"]["canUpdateOwnMetadata"], json!(true));
    assert_eq!(
        claims["attributes"],
        json!({"svc.role": "narrator", "team": "blue"})
    );
}

#[test]
fn a_lifetime_out_of_range_is_clamped_and_zero_takes_the_default() {
    let app = TestApp::start();
    app.room("a");
    for (asked, given) in [
        (0, 3_600),
        (1, 60),
        (59, 60),
        (60, 60),
        (61, 61),
        (86_400, 86_400),
        (u64::MAX, 86_400),
    ] {
        let token = mint(
            &app,
            json!({"room": "a", "identity": "alice", "ttl_seconds": asked}),
        )
        .expect(201);
        assert_eq!(
            seconds(&token["expires_at"]) - seconds(&json!(app.now())),
            given,
            "{asked}"
        );
        assert_eq!(
            jwt(token["token"].as_str().unwrap(), 1)["exp"],
            seconds(&token["expires_at"])
        );
    }
}

#[test]
fn each_invalid_field_is_refused_by_name() {
    let app = TestApp::start();
    app.room("a");
    let valid = json!({"room": "a", "identity": "alice"});
    for (field, value, code) in [
        ("room", Value::Null, "invalid_request"),
        ("room", json!("a.b"), "invalid_room_name"),
        ("identity", json!(""), "invalid_identity"),
        ("identity", json!("a b"), "invalid_identity"),
        ("identity", json!("x".repeat(129)), "invalid_identity"),
        ("identity", json!(7), "invalid_request"),
        ("name", Value::Null, "invalid_request"),
        ("metadata", json!({}), "invalid_request"),
        ("ttl_seconds", json!(-1), "invalid_request"),
        ("ttl_seconds", json!(1.5), "invalid_request"),
        ("ttl_seconds", json!("60"), "invalid_request"),
        ("role", json!("a b"), "invalid_request"),
        ("role", json!("x".repeat(65)), "invalid_request"),
        ("permissions", json!([]), "invalid_request"),
        ("colour", json!("red"), "invalid_request"),
    ] {
        let mut body = valid.clone();
        body[field] = value;
        mint(&app, body).expect_error(400, code, Some(field));
    }
    let body = json!({"room": "a", "identity": "alice", "permissions": {"can_fly": true}});
    mint(&app, body).expect_error(400, "invalid_request", Some("permissions.can_fly"));
    mint(&app, json!({"identity": "alice"})).expect_error(400, "invalid_request", Some("room"));
    mint(&app, json!({"room": "a"})).expect_error(400, "invalid_request", Some("identity"));
}

#[test]
fn an_unknown_room_an_unknown_role_and_a_missing_template_have_different_errors() {
    let app = TestApp::start();
    app.room("a");
    let body = json!({"room": "nobody", "identity": "alice"});
    mint(&app, body).expect_error(404, "room_not_found", None);
    let unknown = mint(
        &app,
        json!({"room": "a", "identity": "alice", "role": "king"}),
    );
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["code"]),
        (404, &json!("role_not_found"))
    );
    assert_eq!(
        unknown.json()["error"]["message"],
        "no role by that name in the template, which has guest, host"
    );

    let other = other_project(&app, "self_hosted");
    app.post("/v1/rooms")
        .bearer(&other.key)
        .json(json!({"name": "a"}))
        .send()
        .expect(201);
    let body = json!({"room": "a", "identity": "alice", "role": "host"});
    let none = app.post("/v1/tokens").bearer(&other.key).json(body).send();
    assert_eq!(
        (none.status, &none.json()["error"]["code"]),
        (404, &json!("template_not_found"))
    );
    let body = json!({"room": "a", "identity": "alice"});
    app.post("/v1/tokens")
        .bearer(&other.key)
        .json(body)
        .send()
        .expect(201);
}

/// Proves R-5.
#[test]
fn an_ended_room_refuses_tokens() {
    let app = TestApp::start();
    app.room("a");
    app.delete("/v1/rooms/a").send().expect_empty(204);
    mint(&app, json!({"room": "a", "identity": "alice"})).expect_error(409, "room_ended", None);
    mint(
        &app,
        json!({"room": "a", "identity": "alice", "role": "host"}),
    )
    .expect_error(409, "room_ended", None);
}

#[test]
fn a_closed_or_full_role_is_refused_and_a_leave_frees_a_place() {
    let app = TestApp::start();
    let roles =
        json!({"closed": {"max_peer_count": -1}, "pair": {"max_peer_count": 2}, "open": {}});
    room_on(&app, "a", &template(&app, "t", &roles));
    let ask = |role: &str| mint(&app, json!({"room": "a", "identity": "late", "role": role}));
    ask("closed").expect_error(409, "role_capacity_reached", Some("role"));
    let first = app.join("a", "p1", "pair");
    ask("pair").expect(201);
    app.join("a", "p2", "pair");
    ask("pair").expect_error(409, "role_capacity_reached", Some("role"));
    ask("open").expect(201);
    mint(&app, json!({"room": "a", "identity": "late"})).expect(201);
    app.leave(&first, true);
    eventually(|| ask("pair").status == 201);
}

#[test]
fn a_suspended_project_mints_no_token_and_a_reached_cap_is_named() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let post = |path: &str, body: Value| app.post(path).bearer(&other.key).json(body).send();
    post("/v1/rooms", json!({"name": "a"})).expect(201);
    conclave(&app, &["project", "suspend", &other.project]);
    post("/v1/tokens", json!({"room": "a", "identity": "x"})).expect_error(
        402,
        "quota_exceeded",
        None,
    );
    post("/v1/tokens", json!({"room": "nobody", "identity": "x"})).expect_error(
        402,
        "quota_exceeded",
        None,
    );
    post("/v1/rooms", json!({"name": "b"})).expect_error(402, "quota_exceeded", None);
    post("/v1/tokens", json!({"room": "a", "identity": " "})).expect_error(
        400,
        "invalid_identity",
        Some("identity"),
    );
    app.get("/v1/rooms/a").bearer(&other.key).send().expect(200);
    conclave(&app, &["project", "resume", &other.project]);
    post("/v1/tokens", json!({"room": "a", "identity": "x"})).expect(201);
}

#[test]
fn the_plans_cap_of_participants_limits_tokens() {
    let app = TestApp::start();
    let other = other_project(&app, "free");
    let post = |path: &str, body: Value| app.post(path).bearer(&other.key).json(body).send();
    post("/v1/rooms", json!({"name": "a"})).expect(201);
    for number in 0..10 {
        let token = post(
            "/v1/tokens",
            json!({"room": "a", "identity": format!("p{number}")}),
        )
        .expect(201);
        assert_eq!(
            jwt(token["token"].as_str().unwrap(), 1)["roomConfig"]["maxParticipants"],
            10
        );
        app.admin("POST", "/sandbox/join")
            .json(json!({"token": token["token"]}))
            .send()
            .expect(201);
    }
    let body = json!({"room": "a", "identity": "late"});
    post("/v1/tokens", body).expect_error(402, "quota_exceeded", Some("max_participants"));
}

#[test]
fn a_room_token_ends_its_room_in_either_header() {
    let app = TestApp::start();
    for (room, header) in [("a", true), ("b", false)] {
        app.room(room);
        let token = app.token(room, "alice", "host");
        let path = format!("/v1/rooms/{room}");
        let request = app.delete(&path);
        let request = if header {
            request.anonymous().header("x-svc-room-token", &token)
        } else {
            request.bearer(&token)
        };
        request.send().expect_empty(204);
        assert_eq!(app.get(&path).send().json()["status"], "ended");
    }
}

#[test]
fn a_room_token_may_end_an_ended_room_again() {
    let app = TestApp::start();
    app.room("a");
    app.join("a", "alice", "host");
    let token = app.token("a", "alice", "host");
    for _ in 0..2 {
        app.delete("/v1/rooms/a")
            .bearer(&token)
            .send()
            .expect_empty(204);
    }
}

#[test]
fn a_role_without_the_permission_may_not_end_the_room_and_neither_may_no_role() {
    let app = TestApp::start();
    app.room("a");
    for role in ["guest", ""] {
        let token = app.token("a", "alice", role);
        app.delete("/v1/rooms/a")
            .bearer(&token)
            .send()
            .expect_error(403, "permission_denied", Some("end_room"));
    }
    assert_eq!(app.get("/v1/rooms/a").send().json()["status"], "open");
}

#[test]
fn a_permission_is_read_from_the_current_template() {
    let app = TestApp::start();
    let template = template(
        &app,
        "t",
        &json!({"chair": {"permissions": {"end_room": true}}}),
    );
    room_on(&app, "a", &template);
    let token = app.token("a", "alice", "chair");
    let role = format!("/v1/templates/{template}/roles/chair");
    app.put(&role).json(json!({})).send().expect(200);
    app.delete("/v1/rooms/a")
        .bearer(&token)
        .send()
        .expect_error(403, "permission_denied", Some("end_room"));
    app.delete(&role).send().expect_empty(204);
    app.delete("/v1/rooms/a")
        .bearer(&token)
        .send()
        .expect_error(403, "permission_denied", Some("end_room"));
    app.put(&role)
        .json(json!({"permissions": {"end_room": true}}))
        .send()
        .expect(201);
    app.delete("/v1/rooms/a")
        .bearer(&token)
        .send()
        .expect_empty(204);
}

#[test]
fn the_role_in_the_room_counts_and_not_that_of_an_older_token() {
    let app = TestApp::start();
    app.room("a");
    let host = app.token("a", "alice", "host");
    app.join("a", "alice", "guest");
    app.delete("/v1/rooms/a").bearer(&host).send().expect_error(
        403,
        "permission_denied",
        Some("end_room"),
    );
}

#[test]
fn a_token_of_another_room_or_an_invalid_one_is_no_credential() {
    let app = TestApp::start();
    app.room("a");
    app.room("b");
    let good = app.token("a", "alice", "host");
    let parts: Vec<&str> = good.split('.').collect();
    let none = jwt_part(&json!({"alg": "none", "typ": "JWT"}));
    let mut longer = jwt(&good, 1);
    longer["exp"] = json!(4_000_000_000_u64);
    let bad = [
        app.token("b", "alice", "host"),
        format!("{none}.{}.", parts[1]),
        format!("{none}.{}.{}", parts[1], parts[2]),
        format!("{}.{}.{}", parts[0], jwt_part(&longer), parts[2]),
        format!(
            "{}.{}.{}",
            jwt_part(&json!({"alg": "HS384", "typ": "JWT"})),
            parts[1],
            parts[2]
        ),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        "garbage".into(),
        "..".into(),
        "x".repeat(5_000),
    ];
    for token in &bad {
        let request = || app.delete("/v1/rooms/a");
        request()
            .bearer(token)
            .send()
            .expect_error(401, "unauthorized", None);
        request()
            .anonymous()
            .header("x-svc-room-token", token)
            .send()
            .expect_error(401, "unauthorized", None);
    }
    app.delete("/v1/rooms/nobody")
        .bearer(&good)
        .send()
        .expect_error(401, "unauthorized", None);
    assert_eq!(app.get("/v1/rooms/a").send().json()["status"], "open");
    app.delete("/v1/rooms/a")
        .bearer(&good)
        .send()
        .expect_empty(204);
}

#[test]
fn an_expired_token_is_no_credential() {
    let app = TestApp::start();
    app.post("/v1/rooms")
        .json(json!({"name": "a", "empty_timeout_seconds": 100_000}))
        .send()
        .expect(201);
    let body = json!({"room": "a", "identity": "alice", "role": "host", "ttl_seconds": 60});
    let token = mint(&app, body).expect(201)["token"]
        .as_str()
        .unwrap()
        .to_owned();
    app.advance(Duration::from_secs(61));
    app.delete("/v1/rooms/a")
        .bearer(&token)
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn a_room_token_is_valid_for_no_other_call() {
    let app = TestApp::start();
    app.room("a");
    let token = app.token("a", "alice", "host");
    for path in [
        "/v1/rooms",
        "/v1/rooms/a",
        "/v1/rooms/a/participants",
        "/v1/sessions",
    ] {
        app.get(path)
            .bearer(&token)
            .send()
            .expect_error(401, "unauthorized", None);
        app.get(path)
            .anonymous()
            .header("x-svc-room-token", &token)
            .send()
            .expect_error(401, "unauthorized", None);
    }
    let path = format!("/v1/templates/{NO_TEMPLATE}");
    app.get(&path)
        .bearer(&token)
        .send()
        .expect_error(401, "unauthorized", None);
}

/// Proves S-42.
#[test]
fn a_token_of_another_projects_room_of_the_same_name_is_no_credential() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    app.room("a");
    app.post("/v1/rooms")
        .bearer(&other.key)
        .json(json!({"name": "a"}))
        .send()
        .expect(201);
    let token = app.token("a", "alice", "host");
    app.delete("/v1/rooms/a")
        .bearer(&token)
        .send()
        .expect_empty(204);
    assert_eq!(
        app.get("/v1/rooms/a").bearer(&other.key).send().json()["status"],
        "open"
    );
}
