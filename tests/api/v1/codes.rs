//! `/v1/rooms/{name}/codes` and `DELETE /v1/codes/{code}`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Request, Response, TestApp};
use crate::tools::{
    conclave, fields, other_project, refuses_bad_pages, room_on, template, walk_pages,
};

const CODES: &str = "/v1/rooms/a/codes";

fn create(app: &TestApp, body: Value) -> Response {
    app.post(CODES).json(body).send()
}

/// Creates a guest code for room `a` with these extra fields.
fn code(app: &TestApp, extra: Value) -> String {
    let mut body = json!({"role": "guest"});
    body.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    create(app, body).expect(201)["code"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn listed(app: &TestApp) -> Vec<Value> {
    app.get(CODES).send().expect(200)["codes"]
        .as_array()
        .unwrap()
        .clone()
}

fn exchange(app: &TestApp, code: &str) -> Response {
    app.post(&format!("/v1/codes/{code}/exchange"))
        .anonymous()
        .send()
}

/// Returns a body for a code in room `a` that expires in so many seconds.
fn expiring(app: &TestApp, seconds: u64) -> Value {
    json!({"role": "guest", "expires_at": app.clock.now().after(Duration::from_secs(seconds)).to_string()})
}

const FIELDS: [&str; 12] = [
    "code",
    "created_at",
    "disabled",
    "expires_at",
    "id",
    "identity",
    "max_uses",
    "project_id",
    "role",
    "room",
    "updated_at",
    "uses",
];

#[test]
fn a_code_is_shown_when_created_and_masked_in_lists() {
    let app = TestApp::start();
    app.room("a");
    let made = create(&app, json!({"role": "guest"})).expect(201);
    assert_eq!(fields(&made), FIELDS);
    let code = made["code"].as_str().unwrap();
    let groups: Vec<&str> = code.split('-').collect();
    assert_eq!(
        groups.iter().map(|group| group.len()).collect::<Vec<_>>(),
        [4, 4, 4],
        "{code}"
    );
    let unambiguous =
        |c: char| (c.is_ascii_lowercase() && !"il".contains(c)) || ('2'..='9').contains(&c);
    assert!(
        groups.iter().all(|group| group.chars().all(unambiguous)),
        "{code}"
    );
    assert_eq!(
        (&made["project_id"], &made["room"], &made["role"]),
        (&json!(app.project), &json!("a"), &json!("guest"))
    );
    assert_eq!(
        (&made["identity"], &made["max_uses"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&made["uses"], &made["disabled"]),
        (&json!(0), &json!(false))
    );
    assert_eq!(
        (&made["created_at"], &made["updated_at"]),
        (&json!(app.now()), &json!(app.now()))
    );
    assert_eq!(
        made["expires_at"], "2026-03-02T12:00:00.000Z",
        "24 hours by default"
    );

    let mut shown = made.clone();
    shown["code"] = json!(format!("{}-****-****", groups[0]));
    assert_eq!(listed(&app), [shown]);
    assert_ne!(
        create(&app, json!({"role": "guest"})).expect(201)["code"],
        code
    );
}

#[test]
fn a_code_keeps_the_fields_of_its_creation() {
    let app = TestApp::start();
    app.room("a");
    let body =
        json!({"role": "host", "ttl_seconds": 3_600, "max_uses": 7, "identity": "al.ice@x-1_"});
    let made = create(&app, body).expect(201);
    assert_eq!(
        (&made["role"], &made["max_uses"]),
        (&json!("host"), &json!(7))
    );
    assert_eq!(
        (&made["identity"], &made["expires_at"]),
        (&json!("al.ice@x-1_"), &json!("2026-03-01T13:00:00.000Z"))
    );
    let made = create(&app, json!({"role": "host", "max_uses": null})).expect(201);
    assert_eq!(made["max_uses"], Value::Null);
}

#[test]
fn a_lifetime_is_60_seconds_to_30_days_in_both_notations() {
    let app = TestApp::start();
    app.room("a");
    const LONGEST: u64 = 30 * 86_400;
    for seconds in [60, LONGEST] {
        let expires_at = json!(
            app.clock
                .now()
                .after(Duration::from_secs(seconds))
                .to_string()
        );
        let by_ttl = create(&app, json!({"role": "guest", "ttl_seconds": seconds})).expect(201);
        let by_instant = create(&app, expiring(&app, seconds)).expect(201);
        assert_eq!(
            (&by_ttl["expires_at"], &by_instant["expires_at"]),
            (&expires_at, &expires_at)
        );
    }
    for seconds in [0, 1, 59, LONGEST + 1, u64::MAX] {
        let body = json!({"role": "guest", "ttl_seconds": seconds});
        create(&app, body).expect_error(400, "invalid_request", Some("ttl_seconds"));
        create(&app, expiring(&app, seconds)).expect_error(
            400,
            "invalid_request",
            Some("expires_at"),
        );
    }
    let past = json!({"role": "guest", "expires_at": "2020-01-01T00:00:00Z"});
    create(&app, past).expect_error(400, "invalid_request", Some("expires_at"));
    let offset = json!({"role": "guest", "expires_at": "2026-03-01T15:00:00+02:00"});
    assert_eq!(
        create(&app, offset).expect(201)["expires_at"],
        "2026-03-01T13:00:00.000Z"
    );
}

#[test]
fn both_notations_of_a_lifetime_together_are_refused() {
    let app = TestApp::start();
    app.room("a");
    let mut body = expiring(&app, 3_600);
    body["ttl_seconds"] = json!(3_600);
    create(&app, body).expect_error(400, "invalid_request", Some("expires_at"));
    assert!(listed(&app).is_empty());
}

#[test]
fn each_invalid_field_is_refused_by_name() {
    let app = TestApp::start();
    app.room("a");
    for (field, value, code) in [
        ("role", Value::Null, "invalid_request"),
        ("role", json!("a b"), "invalid_request"),
        ("role", json!("x".repeat(65)), "invalid_request"),
        ("expires_at", Value::Null, "invalid_request"),
        ("expires_at", json!("tomorrow"), "invalid_request"),
        ("expires_at", json!(1_800_000_000), "invalid_request"),
        ("ttl_seconds", Value::Null, "invalid_request"),
        ("ttl_seconds", json!(-1), "invalid_request"),
        ("ttl_seconds", json!(90.5), "invalid_request"),
        ("ttl_seconds", json!("60"), "invalid_request"),
        ("max_uses", json!(0), "invalid_request"),
        ("max_uses", json!(-1), "invalid_request"),
        ("max_uses", json!(1.5), "invalid_request"),
        ("identity", Value::Null, "invalid_request"),
        ("identity", json!(7), "invalid_request"),
        ("identity", json!(""), "invalid_identity"),
        ("identity", json!("a b"), "invalid_identity"),
        ("identity", json!("x".repeat(129)), "invalid_identity"),
        ("colour", json!("red"), "invalid_request"),
    ] {
        let mut body = json!({"role": "guest"});
        body[field] = value;
        create(&app, body).expect_error(400, code, Some(field));
    }
    create(&app, json!({})).expect_error(400, "invalid_request", Some("role"));
    let bad = app
        .post("/v1/rooms/a.b/codes")
        .json(json!({"role": "guest"}))
        .send();
    bad.expect_error(400, "invalid_room_name", Some("name"));
    app.get("/v1/rooms/a.b/codes")
        .send()
        .expect_error(400, "invalid_room_name", Some("name"));
    assert!(listed(&app).is_empty());
}

#[test]
fn an_unknown_room_an_unknown_role_and_a_missing_template_have_different_errors() {
    let app = TestApp::start();
    app.room("a");
    create(&app, json!({"role": "king"})).expect_error(404, "role_not_found", Some("role"));
    let unknown = app
        .post("/v1/rooms/nobody/codes")
        .json(json!({"role": "guest"}))
        .send();
    unknown.expect_error(404, "room_not_found", None);
    app.get("/v1/rooms/nobody/codes")
        .send()
        .expect_error(404, "room_not_found", None);

    let other = other_project(&app, "self_hosted");
    let theirs = || {
        app.post(CODES)
            .bearer(&other.key)
            .json(json!({"role": "host"}))
    };
    theirs().send().expect_error(404, "room_not_found", None);
    app.post("/v1/rooms")
        .bearer(&other.key)
        .json(json!({"name": "a"}))
        .send()
        .expect(201);
    theirs()
        .send()
        .expect_error(404, "template_not_found", None);
}

#[test]
fn an_ended_room_refuses_new_codes_and_still_lists_its_old_ones() {
    let app = TestApp::start();
    app.room("a");
    code(&app, json!({}));
    app.delete("/v1/rooms/a").send().expect_empty(204);
    let refused = create(&app, json!({"role": "guest"}));
    refused.expect_error(404, "room_not_found", None);
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("ended"),
        "{}",
        refused.text()
    );
    assert_eq!(listed(&app).len(), 1);
}

#[test]
fn a_list_is_newest_first_and_shows_expired_disabled_and_used_up_codes() {
    let app = TestApp::start();
    app.post("/v1/rooms")
        .json(json!({"name": "a", "empty_timeout_seconds": 86_400}))
        .send()
        .expect(201);
    code(&app, json!({"ttl_seconds": 60}));
    app.advance(Duration::from_secs(61));
    let disabled = code(&app, json!({}));
    app.delete(&format!("/v1/codes/{disabled}"))
        .send()
        .expect_empty(204);
    app.advance(Duration::from_secs(1));
    let used = code(&app, json!({"max_uses": 1}));
    app.advance(Duration::from_secs(1));
    exchange(&app, &used).expect(201);
    let codes = listed(&app);
    let seen: Vec<_> = codes
        .iter()
        .map(|code| (&code["uses"], &code["max_uses"], &code["disabled"]))
        .collect();
    let (none, no, yes) = (json!(0), json!(false), json!(true));
    assert_eq!(
        seen,
        [
            (&json!(1), &json!(1), &no),
            (&none, &Value::Null, &yes),
            (&none, &Value::Null, &no)
        ]
    );
    assert_eq!(codes[0]["updated_at"], app.now(), "a use is a change");
    assert!(codes[2]["expires_at"].as_str().unwrap() < app.now().as_str());
    app.room("b");
    assert_eq!(
        app.get("/v1/rooms/b/codes").send().expect(200)["codes"],
        json!([]),
        "another room's are its own"
    );
}

#[test]
fn a_list_is_paged() {
    let app = TestApp::start();
    app.room("a");
    let mut made: Vec<String> = (0..5)
        .map(|_| {
            create(&app, json!({"role": "guest"})).expect(201)["id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    made.reverse();
    for limit in [1, 2, 5, 7] {
        assert_eq!(
            walk_pages(
                |path: &str| -> Request { app.get(path) },
                CODES,
                "codes",
                "id",
                limit
            ),
            made
        );
    }
    refuses_bad_pages(&app, CODES);
}

#[test]
fn disabling_takes_effect_at_once_and_again_changes_nothing() {
    let app = TestApp::start();
    app.room("a");
    let code = code(&app, json!({}));
    let token = exchange(&app, &code).expect(201)["token"].clone();
    app.advance(Duration::from_secs(1));
    let path = format!("/v1/codes/{code}");
    app.delete(&path).send().expect_empty(204);
    let disabled = listed(&app);
    assert_eq!(
        (&disabled[0]["disabled"], &disabled[0]["updated_at"]),
        (&json!(true), &json!(app.now()))
    );
    exchange(&app, &code).expect_error(404, "code_not_found", None);
    app.advance(Duration::from_secs(1));
    app.delete(&path).send().expect_empty(204);
    assert_eq!(listed(&app), disabled);
    app.admin("POST", "/sandbox/join")
        .json(json!({"token": token}))
        .send()
        .expect(201);
}

#[test]
fn only_its_project_can_disable_a_code_and_only_by_the_whole_code() {
    let app = TestApp::start();
    app.room("a");
    let code = code(&app, json!({}));
    let other = other_project(&app, "self_hosted");
    let path = format!("/v1/codes/{code}");
    app.delete(&path)
        .bearer(&other.key)
        .send()
        .expect_error(404, "code_not_found", None);
    app.delete(&path)
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
    let id = listed(&app)[0]["id"].as_str().unwrap().to_owned();
    let masked = format!("{}-****-****", &code[..4]);
    for wrong in [
        "abcd-efgh-jkmn",
        "x",
        "%20",
        &id,
        &masked,
        &code.to_uppercase(),
        &code.replace('-', ""),
        &format!("{code}x"),
    ] {
        app.delete(&format!("/v1/codes/{wrong}"))
            .send()
            .expect_error(404, "code_not_found", None);
    }
    exchange(&app, &code).expect(201);
}

#[test]
fn a_creation_is_replayed_with_its_code_also_after_a_restart() {
    let app = TestApp::start();
    app.room("a");
    let create = |app: &TestApp| {
        app.post(CODES)
            .json(json!({"role": "guest"}))
            .idempotency_key("k")
            .send()
    };
    let first = create(&app);
    let code = first.expect(201)["code"].as_str().unwrap().to_owned();
    exchange(&app, &code).expect(201);
    let app = app.restart();
    let again = create(&app);
    assert_eq!((again.status, again.text()), (201, first.text()));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(listed(&app).len(), 1);
    exchange(&app, &code).expect(201);
    assert_eq!(listed(&app)[0]["uses"], 2, "uses outlive a restart");
    assert!(!app.holds(&code), "the stored response is sealed");
    let other = app
        .post(CODES)
        .json(json!({"role": "host"}))
        .idempotency_key("k")
        .send();
    other.expect_error(409, "idempotency_key_reuse", None);
}

#[test]
fn no_file_contains_a_code() {
    let app = TestApp::start();
    app.room("a");
    let code = code(&app, json!({}));
    exchange(&app, &code).expect(201);
    app.delete(&format!("/v1/codes/{code}"))
        .send()
        .expect_empty(204);
    assert!(
        app.holds(&code[..4]),
        "the first four characters are there, so the search works"
    );
    assert!(!app.holds(&code) && !app.holds(&code.replace('-', "")));
}

/// The program in its own process, killed when dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_log_line_contains_a_code() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let process = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args([
            "dev",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(dir.path().join("data"))
        .current_dir(dir.path())
        .env_clear()
        .env("RUST_LOG", "trace")
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let (mut program, mut line) = (Program(process), String::new());
    BufReader::new(program.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let request = |method: &str, path: &str| {
        let url = format!("{}{path}", ready["api"].as_str().unwrap());
        Request::new(method, url).bearer(ready["api_key"].as_str().unwrap())
    };
    request("POST", "/v1/rooms")
        .json(json!({"name": "a"}))
        .send()
        .expect(201);
    let made = request("POST", CODES)
        .json(json!({"role": "guest"}))
        .send()
        .expect(201);
    let code = made["code"].as_str().unwrap();
    request("POST", &format!("/v1/codes/{code}/exchange"))
        .send()
        .expect(201);
    // User errors with a code.
    for (method, path) in [
        ("GET", format!("/v1/codes/{code}")),
        ("POST", format!("/v1/codes/{code}/exchange/")),
        ("POST", format!("/v1/code/{code}")),
        ("DELETE", format!("/v1/codes/{code}?x=1")),
        ("DELETE", format!("/v1/codes/{code}")),
    ] {
        request(method, &path).send();
    }
    request("POST", &format!("/v1/codes/{code}/exchange"))
        .send()
        .expect_error(404, "code_not_found", None);
    drop(program);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(
        log.contains("/v1/codes/{code}/exchange") && log.contains("/v1/rooms/a/codes"),
        "{log}"
    );
    assert!(!log.contains(code), "{log}");
}

#[test]
fn a_suspended_project_can_still_make_and_disable_codes_but_not_use_them() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let template = app
        .post("/v1/templates")
        .bearer(&other.key)
        .json(json!({"name": "t", "roles": {"guest": {}}}))
        .send()
        .expect(201);
    let room = json!({"name": "a", "template_id": template["id"]});
    app.post("/v1/rooms")
        .bearer(&other.key)
        .json(room)
        .send()
        .expect(201);
    conclave(&app, &["project", "suspend", &other.project]);
    let made = app
        .post(CODES)
        .bearer(&other.key)
        .json(json!({"role": "guest"}))
        .send()
        .expect(201);
    let code = made["code"].as_str().unwrap();
    exchange(&app, code).expect_error(402, "quota_exceeded", None);
    app.delete(&format!("/v1/codes/{code}"))
        .bearer(&other.key)
        .send()
        .expect_empty(204);
    exchange(&app, code).expect_error(404, "code_not_found", None);
}

#[test]
fn the_role_of_a_code_is_one_of_the_rooms_template() {
    let app = TestApp::start();
    room_on(&app, "a", &template(&app, "t", &json!({"speaker": {}})));
    create(&app, json!({"role": "guest"})).expect_error(404, "role_not_found", Some("role"));
    create(&app, json!({"role": "speaker"})).expect(201);
}
