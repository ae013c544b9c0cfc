//! API keys.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Request, TestApp, eventually};
use crate::tools::{conclave, other_project};

#[test]
fn missing_malformed_and_unknown_keys_all_fail_identically() {
    let app = TestApp::start();
    let get = || app.get("/v1/rooms").anonymous();
    let unknown = format!("vk_test_{}", "a".repeat(43));
    let mut answers = vec![get().send()];
    for value in [
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        &app.key,
        &format!("Token {}", app.key),
        &format!("Bearer {unknown}"),
        &format!("Bearer {}x", app.key),
        &format!("Bearer {}", &app.key[..app.key.len() - 1]),
        &format!("Bearer {}", app.key.to_uppercase()),
        &format!("Bearer vk_live_{}", "a".repeat(43)),
        &format!("Bearer {}", "x".repeat(4_000)),
    ] {
        answers.push(get().header("authorization", value).send());
    }
    for answer in &answers {
        answer.expect_error(401, "unauthorized", None);
        assert_eq!(answer.json()["error"]["message"], "invalid api key");
        assert_eq!(answer.body, answers[0].body);
    }
}

/// The body is the same for both, so a developer who forgot the header learns it from the challenge.
#[test]
fn the_challenge_of_a_401_says_whether_the_header_was_missing() {
    let app = TestApp::start();
    for path in ["/v1/rooms", "/ext/v1/rooms/live"] {
        let challenge = |request: Request| {
            let refused = request.send();
            refused.expect_error(401, "unauthorized", None);
            refused.headers["www-authenticate"].clone()
        };
        assert_eq!(
            challenge(app.get(path).anonymous()),
            r#"Bearer realm="conclave", error_description="the request has no Authorization header""#
        );
        assert_eq!(
            challenge(app.get(path).bearer("unknown")),
            r#"Bearer realm="conclave", error="invalid_token""#
        );
    }
    let found = app.get("/v1/rooms").send();
    assert!(!found.headers.contains_key("www-authenticate"));
}

#[test]
fn a_key_is_read_only_from_the_header() {
    let app = TestApp::start();
    app.get(&format!("/v1/rooms?api_key={}", app.key))
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
    let cookie = format!("authorization={}", app.key);
    app.get("/v1/rooms")
        .anonymous()
        .header("cookie", &cookie)
        .send()
        .expect_error(401, "unauthorized", None);
    app.get("/v1/rooms")
        .anonymous()
        .header("x-svc-room-token", &app.key)
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn the_scheme_is_read_in_any_case() {
    let app = TestApp::start();
    let value = format!("bEaReR {}", app.key);
    app.get("/v1/rooms")
        .header("authorization", &value)
        .send()
        .expect(200);
}

/// Proves S-72.
#[test]
fn a_key_works_as_soon_as_it_is_created_and_stops_as_soon_as_it_is_revoked() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let get = || app.get("/v1/rooms").bearer(&other.key).send();
    get().expect(200);
    conclave(&app, &["key", "revoke", &other.key[..12]]);
    let refused = get();
    refused.expect_error(401, "unauthorized", None);
    let message = refused.json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.contains("revoked"), "{message}");
    app.get("/v1/rooms").send().expect(200);
}

/// Proves S-72.
#[test]
fn a_key_is_refused_from_its_expiry_on() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let (get, expires_at) = (
        || app.get("/v1/rooms").bearer(&other.key).send(),
        app.clock.now().millis() + 1_000,
    );
    app.records().run(&format!(
        "UPDATE api_keys SET expires_at = {expires_at} WHERE prefix = '{}'",
        &other.key[..12]
    ));
    get().expect(200);
    app.advance(Duration::from_secs(1));
    let refused = get();
    refused.expect_error(401, "unauthorized", None);
    assert_eq!(refused.json()["error"]["message"], "api key expired");
}

#[test]
fn the_day_of_a_keys_last_use_is_recorded_and_shown() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let last_used = || {
        let listed = conclave(&app, &["key", "list", &other.project]);
        listed["keys"][0]["last_used_on"].clone()
    };
    assert_eq!(last_used(), Value::Null);
    for day in ["2026-03-01", "2026-03-02"] {
        for _ in 0..3 {
            app.get("/v1/rooms").bearer(&other.key).send().expect(200);
        }
        eventually(|| last_used() == day);
        let page = app.admin("GET", &format!("/projects/{}/settings", other.project));
        assert!(page.send().text().contains(day));
        app.advance(Duration::from_secs(24 * 60 * 60));
    }
}

#[test]
fn an_unknown_key_with_the_prefix_of_a_revoked_one_is_refused() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    conclave(&app, &["key", "revoke", &other.key[..12]]);
    let forged = format!("{}{}", &other.key[..12], "A".repeat(other.key.len() - 12));
    let refused = app.get("/v1/rooms").bearer(&forged).send();
    assert_eq!(refused.json()["error"]["message"], "invalid api key");
}

#[test]
fn all_keys_of_a_project_see_the_same_rooms() {
    let app = TestApp::start();
    let second = conclave(&app, &["key", "create", &app.project])["key"]
        .as_str()
        .unwrap()
        .to_owned();
    app.room("a");
    app.get("/v1/rooms/a").bearer(&second).send().expect(200);
    assert_eq!(
        app.get("/v1/rooms").bearer(&second).send().json()["rooms"][0]["name"],
        json!("a")
    );
}

#[test]
fn a_key_takes_precedence_over_a_room_token() {
    let app = TestApp::start();
    app.room("a");
    app.delete("/v1/rooms/a")
        .header("x-svc-room-token", "garbage")
        .send()
        .expect_empty(204);
}

#[test]
fn health_and_the_description_need_no_key() {
    let app = TestApp::start();
    app.get("/healthz").anonymous().send().expect(200);
    app.get("/openapi.json").anonymous().send().expect(200);
}
