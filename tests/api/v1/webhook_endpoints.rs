//! `/v1/webhook-endpoints`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::support::{Receiver, TestApp, eventually};

#[test]
fn the_secret_is_shown_once_and_never_listed() {
    let app = TestApp::start();
    let created = app.endpoint("http://127.0.0.1:9/hook");
    let secret = created["secret"].as_str().unwrap();
    let expected = json!({
        "id": created["id"], "url": "http://127.0.0.1:9/hook", "secret": secret, "active": true,
        "created_at": app.now()
    });
    assert_eq!(created, expected);
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    assert_eq!(key.len(), 32);
    let page = app.get("/v1/webhook-endpoints").send();
    assert!(!page.text().contains("whsec_"), "{}", page.text());
    let mut listed = expected;
    listed.as_object_mut().unwrap().remove("secret");
    let expected =
        json!({"webhook_endpoints": [listed], "limit": 50, "offset": 0, "has_more": false});
    assert_eq!(page.expect(200), expected);
}

#[test]
fn two_endpoints_of_one_url_have_different_secrets() {
    let app = TestApp::start();
    let (one, two) = (
        app.endpoint("http://127.0.0.1:9/hook"),
        app.endpoint("http://127.0.0.1:9/hook"),
    );
    assert_ne!(one["secret"], two["secret"]);
    assert_ne!(one["id"], two["id"]);
}

#[test]
fn repeating_a_registration_with_its_key_gives_the_same_secret_again() {
    let app = TestApp::start();
    let register = || {
        let request = app.post("/v1/webhook-endpoints").idempotency_key("once");
        request
            .json(json!({"url": "http://127.0.0.1:9/hook"}))
            .send()
    };
    let (first, second) = (register(), register());
    assert_eq!(first.expect(201), second.expect(201));
    assert_eq!(
        second
            .headers
            .get("idempotency-replayed")
            .map(String::as_str),
        Some("true")
    );
    let page = app.get("/v1/webhook-endpoints").send().expect(200);
    assert_eq!(page["webhook_endpoints"].as_array().unwrap().len(), 1);
}

#[test]
fn an_address_that_is_not_public_is_blocked() {
    let app = TestApp::start_with(|config| config.webhooks.allow_networks.clear());
    for url in [
        "http://127.0.0.1:8080/",
        "http://localhost/hook",
        "https://10.1.2.3/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://100.64.0.1/",
        "http://0.0.0.0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        // The same loopback address in other notations that resolvers accept.
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
    ] {
        let refused = app
            .post("/v1/webhook-endpoints")
            .json(json!({"url": url}))
            .send();
        assert_eq!(refused.status, 400, "{url}: {}", refused.text());
        refused.expect_error(400, "blocked_url", Some("url"));
    }
    let page = app.get("/v1/webhook-endpoints").send().expect(200);
    assert_eq!(page["webhook_endpoints"], json!([]));
}

#[test]
fn a_malformed_url_is_invalid() {
    let app = TestApp::start();
    for url in [
        "",
        "hook",
        "//127.0.0.1/hook",
        "ftp://127.0.0.1/",
        "http://",
        "file:///etc/passwd",
        "http://[::1/",
    ] {
        let refused = app
            .post("/v1/webhook-endpoints")
            .json(json!({"url": url}))
            .send();
        assert_eq!(refused.status, 400, "{url}: {}", refused.text());
        refused.expect_error(400, "invalid_url", Some("url"));
    }
    let post = |body| app.post("/v1/webhook-endpoints").json(body).send();
    post(json!({})).expect_error(400, "invalid_request", Some("url"));
    post(json!({"url": 7})).expect_error(400, "invalid_request", Some("url"));
    let extra = post(json!({"url": "http://127.0.0.1:9/", "secret": "mine"}));
    extra.expect_error(400, "invalid_request", Some("secret"));
}

#[test]
fn endpoints_are_listed_newest_first_and_paged() {
    let app = TestApp::start();
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(app.endpoint(&format!("http://127.0.0.1:9/{n}"))["id"].clone());
        app.advance(std::time::Duration::from_millis(5));
    }
    let page = app.get("/v1/webhook-endpoints?limit=2").send().expect(200);
    let listed: Vec<_> = page["webhook_endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["id"].clone())
        .collect();
    assert_eq!(
        (listed, &page["has_more"]),
        (vec![ids[2].clone(), ids[1].clone()], &json!(true))
    );
    let page = app
        .get("/v1/webhook-endpoints?limit=2&offset=2")
        .send()
        .expect(200);
    assert_eq!(
        (&page["webhook_endpoints"][0]["id"], &page["has_more"]),
        (&ids[0], &json!(false))
    );
}

#[test]
fn a_deleted_endpoint_is_not_listed_and_receives_no_more_events() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let id = app.endpoint(&receiver.url)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/webhook-endpoints/{id}");
    app.delete(&path).send().expect_empty(204);
    app.delete(&path)
        .send()
        .expect_error(404, "endpoint_not_found", None);
    app.delete("/v1/webhook-endpoints/nonsense")
        .send()
        .expect_error(400, "invalid_request", Some("id"));
    app.room("standup");
    app.join("standup", "alice", "");
    assert_eq!(app.deliveries("").len(), 0);
    app.deliver();
    assert!(receiver.drain().is_empty());
    let actors = || {
        app.admin("GET", "/debug/actors?kind=webhook_endpoint")
            .send()
            .expect(200)["actors"]
            .clone()
    };
    eventually(|| actors() == json!([]));
}

#[test]
fn every_endpoint_receives_every_event_signed_with_its_own_secret() {
    let app = TestApp::start();
    let receivers = [Receiver::start(), Receiver::start()];
    let secrets = receivers
        .each_ref()
        .map(|r| app.endpoint(&r.url)["secret"].as_str().unwrap().to_owned());
    app.room("standup");
    app.join("standup", "alice", "");
    app.deliver();
    for (receiver, secret) in receivers.iter().zip(&secrets) {
        let received = receiver.drain();
        assert_eq!(received.len(), 2);
        assert!(
            received
                .iter()
                .all(|request| request.is_signed_with(secret))
        );
    }
}
