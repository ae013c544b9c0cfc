//! `POST /v1/codes/{code}/exchange`: needs no credential; returns a token for a usable code.

use std::sync::Barrier;
use std::time::Duration;

use conclave::config::Config;
use serde_json::{Value, json};

use crate::support::{Request, Response, TestApp, eventually};
use crate::tools::{conclave, default_template, fields, jwt, other_project, room_on, template};

const APP: &str = "https://app.example.org";
const EVIL: &str = "https://evil.example.org";

/// Creates a code for room `a` with these extra fields.
#[track_caller]
fn code(app: &TestApp, body: Value) -> String {
    app.post("/v1/rooms/a/codes").json(body).send().expect(201)["code"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn guest(app: &TestApp) -> String {
    code(app, json!({"role": "guest"}))
}

fn request(app: &TestApp, code: &str) -> Request {
    app.post(&format!("/v1/codes/{code}/exchange")).anonymous()
}

fn exchange(app: &TestApp, code: &str, body: Value) -> Response {
    request(app, code).json(body).send()
}

fn uses(app: &TestApp) -> u64 {
    app.get("/v1/rooms/a/codes").send().expect(200)["codes"][0]["uses"]
        .as_u64()
        .unwrap()
}

#[test]
fn a_code_gives_a_token_of_its_role_that_joins_the_room() {
    let app = TestApp::start();
    app.room("a");
    let token = exchange(&app, &guest(&app), json!({"identity": "al.ice@x"})).expect(201);
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
    assert_eq!(token["expires_at"], "2026-03-01T13:00:00.000Z");
    let claims = jwt(token["token"].as_str().unwrap(), 1);
    assert_eq!(
        (&claims["sub"], &claims["attributes"]["svc.role"]),
        (&json!("al.ice@x"), &json!("guest"))
    );
    assert_eq!(claims["video"]["room"], format!("{}.a", app.project));
    assert_eq!(uses(&app), 1);
    app.admin("POST", "/sandbox/join")
        .json(json!({"token": token["token"]}))
        .send()
        .expect(201);
    app.get("/v1/rooms/a/participants/al.ice@x")
        .send()
        .expect(200);
}

#[test]
fn without_an_identity_each_exchange_gets_a_new_one() {
    let app = TestApp::start();
    app.room("a");
    let code = guest(&app);
    let identity = |answer: Response| {
        jwt(answer.expect(201)["token"].as_str().unwrap(), 1)["sub"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let guests = [
        identity(request(&app, &code).send()),
        identity(exchange(&app, &code, json!({}))),
        identity(request(&app, &code).raw("  ").send()),
    ];
    for guest in &guests {
        let random = guest.strip_prefix("guest-").unwrap();
        assert!(
            random.len() == 8 && random.chars().all(|c| c.is_ascii_alphanumeric()),
            "{guest}"
        );
    }
    assert!(
        guests[0] != guests[1] && guests[1] != guests[2] && guests[0] != guests[2],
        "{guests:?}"
    );
}

#[test]
fn a_code_with_an_identity_always_mints_for_it() {
    let app = TestApp::start();
    app.room("a");
    let code = code(&app, json!({"role": "host", "identity": "alice"}));
    for identity in ["bob", "alice", "", "not valid!"] {
        let token = exchange(&app, &code, json!({"identity": identity})).expect(201);
        assert_eq!(jwt(token["token"].as_str().unwrap(), 1)["sub"], "alice");
    }
    for body in [json!({}), json!({"identity": "bob"})] {
        let token = exchange(&app, &code, body).expect(201);
        assert_eq!(jwt(token["token"].as_str().unwrap(), 1)["sub"], "alice");
    }
}

#[test]
fn an_unknown_body_field_is_refused_and_counts_no_use() {
    let app = TestApp::start();
    app.room("a");
    let code = code(&app, json!({"role": "guest", "max_uses": 1}));
    let unknown = exchange(&app, "aaaa-aaaa-aaaa", json!({"identity": "a b"}));
    unknown.expect_error(400, "invalid_identity", Some("identity"));
    for (body, code_of, field) in [
        (
            json!({"identity": null}),
            "invalid_request",
            Some("identity"),
        ),
        (json!({"identity": 7}), "invalid_request", Some("identity")),
        (
            json!({"identity": "a b"}),
            "invalid_identity",
            Some("identity"),
        ),
        (json!({"role": "host"}), "invalid_request", Some("role")),
        (json!([]), "invalid_request", None),
    ] {
        exchange(&app, &code, body).expect_error(400, code_of, field);
    }
    request(&app, &code)
        .raw("{")
        .send()
        .expect_error(400, "invalid_request", None);
    let query = app
        .post(&format!("/v1/codes/{code}/exchange?x=1"))
        .anonymous()
        .send();
    query.expect_error(400, "invalid_request", Some("x"));
    assert_eq!(uses(&app), 0);
    exchange(&app, &code, json!({})).expect(201);
}

/// Returns the claim `name` in the token for a code.
fn named(app: &TestApp, code: &str, body: Value) -> Value {
    let token = exchange(app, code, body).expect(201);
    jwt(token["token"].as_str().unwrap(), 1)["name"].clone()
}

#[test]
fn a_name_is_what_others_see_and_leaves_the_identity_alone() {
    let app = TestApp::start();
    app.room("a");
    let open = guest(&app);
    for (identity, name) in [
        ("muller-x7k2", "François-Noël Müller"),
        ("guest-x7k2", "李雷"),
    ] {
        let body = json!({"identity": identity, "name": name});
        let token = exchange(&app, &open, body).expect(201);
        app.admin("POST", "/sandbox/join")
            .json(json!({"token": token["token"]}))
            .send()
            .expect(201);
        let shown = app
            .get(&format!("/v1/rooms/a/participants/{identity}"))
            .send()
            .expect(200);
        assert_eq!(
            (&shown["identity"], &shown["name"]),
            (&json!(identity), &json!(name))
        );
    }
    let without = exchange(&app, &open, json!({"identity": "bob"})).expect(201);
    let claims = jwt(without["token"].as_str().unwrap(), 1);
    let nameless = exchange(&app, &open, json!({"identity": "carol"})).expect(201);
    assert_eq!(
        fields(&claims),
        fields(&jwt(nameless["token"].as_str().unwrap(), 1))
    );
    assert!(claims.get("name").is_none_or(|name| name == ""), "{claims}");
    let locked = code(&app, json!({"role": "host", "identity": "alice"}));
    assert_eq!(
        named(&app, &locked, json!({"identity": "x", "name": "Alice"})),
        "Alice"
    );
}

#[test]
fn a_name_has_1_to_256_bytes_and_nothing_that_controls_a_text() {
    let app = TestApp::start();
    app.room("a");
    let code = code(&app, json!({"role": "guest", "max_uses": 3}));
    let long = "é".repeat(128);
    for refused in [
        json!(""),
        json!(format!("{long}x")),
        json!("a\u{0}b"),
        json!("a\nb"),
        json!("a\u{9b}31mb"),
        json!("gpj\u{202e}exe"),
        json!(null),
        json!(7),
        json!(["Ada"]),
        json!({"first": "Ada"}),
    ] {
        exchange(&app, &code, json!({"name": refused})).expect_error(
            400,
            "invalid_request",
            Some("name"),
        );
    }
    request(&app, &code)
        .raw(r#"{"name": "\ud83d"}"#)
        .send()
        .expect_error(400, "invalid_request", Some("name"));
    assert_eq!(uses(&app), 0);
    for name in ["A", &long, "a 👩\u{200d}🍳 b"] {
        assert_eq!(named(&app, &code, json!({"name": name})), *name);
    }
}

/// Proves S-36.
#[test]
fn every_unusable_code_is_refused_with_the_same_answer() {
    let app = TestApp::start();
    app.post("/v1/rooms")
        .json(json!({"name": "a", "empty_timeout_seconds": 86_400}))
        .send()
        .expect(201);
    let (disabled, expired) = (
        guest(&app),
        code(&app, json!({"role": "guest", "ttl_seconds": 60})),
    );
    let used = code(&app, json!({"role": "guest", "max_uses": 1}));
    app.delete(&format!("/v1/codes/{disabled}"))
        .send()
        .expect_empty(204);
    exchange(&app, &used, json!({})).expect(201);
    app.advance(Duration::from_millis(59_999));
    exchange(&app, &expired, json!({})).expect(201);
    app.advance(Duration::from_millis(1));
    let bodies = [
        &disabled,
        &expired,
        &used,
        "abcd-efgh-jkmn",
        "x",
        "ABCD-EFGH-JKMN",
        "%F0%9F%92%A5",
    ]
    .map(|code| {
        let answer = exchange(&app, code, json!({}));
        answer.expect_error(404, "code_not_found", None);
        answer.text()
    });
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
}

/// Proves S-37.
#[test]
fn a_hundred_concurrent_exchanges_of_a_code_with_ten_uses_give_ten_tokens() {
    let app = TestApp::start();
    app.room("a");
    let code = code(&app, json!({"role": "guest", "max_uses": 10}));
    let start = Barrier::new(100);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = || {
            start.wait();
            let answer = request(&app, &code).send();
            if answer.status != 201 {
                answer.expect_error(404, "code_not_found", None);
            }
            answer.status
        };
        let asking: Vec<_> = (0..100).map(|_| scope.spawn(ask)).collect();
        asking
            .into_iter()
            .map(|asking| asking.join().unwrap())
            .collect()
    });
    assert_eq!(
        statuses.iter().filter(|status| **status == 201).count(),
        10,
        "{statuses:?}"
    );
    assert_eq!(uses(&app), 10);
}

#[test]
fn an_ended_room_refuses_exchanges_also_when_its_template_is_deleted() {
    let app = TestApp::start();
    let template = template(&app, "t", &json!({"guest": {}}));
    room_on(&app, "a", &template);
    let code = guest(&app);
    app.delete("/v1/rooms/a").send().expect_empty(204);
    exchange(&app, &code, json!({})).expect_error(409, "room_ended", None);
    app.delete(&format!("/v1/templates/{template}"))
        .send()
        .expect_empty(204);
    exchange(&app, &code, json!({})).expect_error(409, "room_ended", None);
    assert_eq!(uses(&app), 0);
}

#[test]
fn a_full_role_refuses_until_a_participant_leaves_and_counts_no_use() {
    let app = TestApp::start();
    let roles = json!({"closed": {"max_peer_count": -1}, "one": {"max_peer_count": 1}});
    room_on(&app, "a", &template(&app, "t", &roles));
    let closed = code(&app, json!({"role": "closed"}));
    exchange(&app, &closed, json!({})).expect_error(409, "role_capacity_reached", Some("role"));
    let one = code(&app, json!({"role": "one", "max_uses": 1}));
    let held = app.join("a", "alice", "one");
    exchange(&app, &one, json!({})).expect_error(409, "role_capacity_reached", Some("role"));
    assert_eq!(uses(&app), 0);
    app.leave(&held, true);
    eventually(|| exchange(&app, &one, json!({})).status == 201);
}

#[test]
fn the_role_is_read_from_the_template_at_the_exchange_and_may_be_deleted() {
    let app = TestApp::start();
    let template = template(&app, "t", &json!({"guest": {}}));
    room_on(&app, "a", &template);
    let code = guest(&app);
    let role = format!("/v1/templates/{template}/roles/guest");
    app.put(&role)
        .json(json!({"publish": {"max_kbps": 900}}))
        .send()
        .expect(200);
    assert_eq!(
        exchange(&app, &code, json!({})).expect(201)["publish_profile"]["max_kbps"],
        900
    );
    app.delete(&role).send().expect_empty(204);
    exchange(&app, &code, json!({})).expect_error(404, "role_not_found", None);
    assert_eq!(uses(&app), 1);
}

#[test]
fn a_suspended_project_and_a_full_plan_refuse_and_count_no_use() {
    let app = TestApp::start();
    let other = other_project(&app, "free");
    let post = |path: &str, body: Value| {
        app.post(path)
            .bearer(&other.key)
            .json(body)
            .send()
            .expect(201)
    };
    let template = post(
        "/v1/templates",
        json!({"name": "t", "roles": {"guest": {}}}),
    );
    post(
        "/v1/rooms",
        json!({"name": "a", "template_id": template["id"]}),
    );
    let made = post(
        "/v1/rooms/a/codes",
        json!({"role": "guest", "max_uses": 11}),
    );
    let code = made["code"].as_str().unwrap();
    conclave(&app, &["project", "suspend", &other.project]);
    exchange(&app, code, json!({})).expect_error(402, "quota_exceeded", None);
    conclave(&app, &["project", "resume", &other.project]);
    for _ in 0..10 {
        let token = exchange(&app, code, json!({})).expect(201);
        app.admin("POST", "/sandbox/join")
            .json(json!({"token": token["token"]}))
            .send()
            .expect(201);
    }
    exchange(&app, code, json!({})).expect_error(402, "quota_exceeded", Some("max_participants"));
    let listed = app
        .get("/v1/rooms/a/codes")
        .bearer(&other.key)
        .send()
        .expect(200);
    assert_eq!(listed["codes"][0]["uses"], 10);
}

#[test]
fn no_credential_is_asked_for_and_a_wrong_one_changes_nothing() {
    let app = TestApp::start();
    app.room("a");
    let code = guest(&app);
    for credential in [
        app.key.clone(),
        format!("vk_test_{}", "0".repeat(43)),
        "nonsense".into(),
    ] {
        request(&app, &code).bearer(&credential).send().expect(201);
    }
    let other = other_project(&app, "self_hosted");
    let token = request(&app, &code).bearer(&other.key).send().expect(201);
    assert_eq!(
        jwt(token["token"].as_str().unwrap(), 1)["video"]["room"],
        format!("{}.a", app.project)
    );
    // An `Idempotency-Key` is ignored: each exchange counts as a use.
    for _ in 0..2 {
        let answer = request(&app, &code).idempotency_key("k").send();
        answer.expect(201);
        assert_eq!(answer.headers.get("idempotency-replayed"), None);
    }
    assert_eq!(uses(&app), 6);
}

/// Starts an app with the contract's rate limits.
fn limited() -> TestApp {
    TestApp::start_with(rates)
}

fn rates(config: &mut Config) {
    config.limits.exchange_per_second = 1;
    config.limits.exchange_burst = 5;
}

#[track_caller]
fn refused(answer: &Response) -> Duration {
    answer.expect_error(429, "rate_limited", None);
    Duration::from_secs(answer.headers["retry-after"].parse().unwrap())
}

#[test]
fn the_sixth_exchange_of_an_address_is_refused_until_retry_after_has_passed() {
    let app = limited();
    app.room("a");
    for count in 0..5 {
        let code = guest(&app);
        assert_eq!(
            exchange(&app, &code, json!({})).status,
            201,
            "exchange {count}"
        );
    }
    let code = guest(&app);
    let wait = refused(&exchange(&app, &code, json!({})));
    assert_eq!(wait, Duration::from_secs(1));
    // An API key does not lift the limit.
    refused(&request(&app, &code).bearer(&app.key).send());
    refused(&exchange(&app, "abcd-efgh-jkmn", json!({})));
    app.get("/v1/rooms").send().expect(200);
    app.get("/v1/rooms")
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
    assert_eq!(uses(&app), 0);
    app.advance(wait);
    exchange(&app, &code, json!({})).expect(201);
    refused(&exchange(&app, &code, json!({})));
}

/// Proves S-36.
#[test]
fn unknown_and_malformed_codes_count_against_the_rate() {
    let app = limited();
    app.room("a");
    for guess in [
        "x",
        "abcd-efgh-jkmn",
        "abcd-efgh-jkmp",
        "abcd-efgh-jkmq",
        "ABCD",
    ] {
        exchange(&app, guess, json!({})).expect_error(404, "code_not_found", None);
    }
    refused(&exchange(&app, &guest(&app), json!({})));
}

#[test]
fn each_code_has_its_own_rate_across_addresses() {
    let app = TestApp::start_with(|config| {
        rates(config);
        config.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    app.room("a");
    let (code, another) = (guest(&app), guest(&app));
    let from = |number: u8, code: &str| {
        request(&app, code)
            .header("x-forwarded-for", &format!("203.0.113.{number}"))
            .send()
    };
    for number in 0..5 {
        from(number, &code).expect(201);
    }
    assert_eq!(refused(&from(5, &code)), Duration::from_secs(1));
    from(5, &another).expect(201);
    app.advance(Duration::from_secs(1));
    from(6, &code).expect(201);
    refused(&from(7, &code));
}

#[test]
fn the_general_rate_of_an_address_does_not_apply() {
    let app = TestApp::start_with(|config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = 3;
    });
    app.room("a");
    let code = guest(&app);
    for _ in 0..10 {
        exchange(&app, &code, json!({})).expect(201);
    }
    for _ in 0..3 {
        app.get("/v1/rooms")
            .anonymous()
            .send()
            .expect_error(401, "unauthorized", None);
    }
    refused(&app.get("/v1/rooms").anonymous().send());
    exchange(&app, &code, json!({})).expect(201);
}

#[test]
fn the_rate_is_checked_before_the_request() {
    let app = limited();
    let wrong = || {
        let request = app
            .post("/v1/codes/abcd-efgh-jkmn/exchange?x=1")
            .header("origin", EVIL);
        request
            .raw("x".repeat(70_000))
            .header("content-type", "text/plain")
    };
    wrong().send().expect_error(403, "origin_rejected", None);
    wrong()
        .anonymous()
        .send()
        .expect_error(413, "payload_too_large", None);
    wrong()
        .anonymous()
        .raw("x")
        .header("content-type", "text/plain")
        .send()
        .expect_error(415, "unsupported_media_type", None);
    wrong()
        .anonymous()
        .raw("{}")
        .send()
        .expect_error(400, "invalid_request", Some("x"));
    wrong()
        .anonymous()
        .raw("{}")
        .send()
        .expect_error(400, "invalid_request", Some("x"));
    refused(&wrong().send());
}

#[test]
fn browser_origins_may_exchange_and_read_the_answer() {
    let app = TestApp::start_with(|config| {
        config.http = serde_json::from_value(json!({
            "listen": "127.0.0.1:0", "workers": 1, "browser_origins": [APP]
        }))
        .unwrap();
    });
    app.room("a");
    let code = guest(&app);
    let path = format!("/v1/codes/{code}/exchange");
    let preflight = |origin: &str, path: &str, method: &str| {
        let request = app
            .request("OPTIONS", path)
            .anonymous()
            .header("origin", origin);
        request
            .header("access-control-request-method", method)
            .send()
    };
    let allowed = |answer: &Response| answer.headers.get("access-control-allow-origin").cloned();
    let answer = preflight(APP, &path, "POST");
    answer.expect_empty(204);
    assert_eq!(allowed(&answer).as_deref(), Some(APP));
    preflight(EVIL, &path, "POST").expect_error(403, "origin_rejected", None);
    preflight(APP, &format!("/v1/codes/{code}"), "DELETE").expect_error(
        403,
        "origin_rejected",
        None,
    );
    preflight(APP, "/v1/rooms/a/codes", "POST").expect_error(403, "origin_rejected", None);

    let answer = request(&app, &code).header("origin", APP).send();
    answer.expect(201);
    assert_eq!(allowed(&answer).as_deref(), Some(APP));
    let unknown = request(&app, "abcd-efgh-jkmn").header("origin", APP).send();
    unknown.expect_error(404, "code_not_found", None);
    assert_eq!(
        allowed(&unknown).as_deref(),
        Some(APP),
        "refusals can be read too"
    );
    let elsewhere = request(&app, &code).header("origin", EVIL).send();
    assert_eq!(
        (elsewhere.status, allowed(&elsewhere)),
        (201, None),
        "a browser there cannot read it"
    );
    let with_key = request(&app, &code)
        .bearer(&app.key)
        .header("origin", APP)
        .send();
    with_key.expect_error(403, "origin_rejected", None);
    request(&app, &code)
        .bearer("nonsense")
        .header("origin", EVIL)
        .send()
        .expect_error(403, "origin_rejected", None);
    assert_eq!(uses(&app), 2);
}
