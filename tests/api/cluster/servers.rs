//! A standby in front of a real server, on a clock that the test advances.

use std::io::{Read, Write};
use std::time::Duration;

use conclave::config::Config;
use serde_json::json;
use test_postgres::Engine;

use super::{Standby, exchange_raw};
use crate::signalling::client::{Client, query};
use crate::support::TestApp;
use crate::webrtc::whip::ConnectedEncoder;

/// Trusts the standby as a proxy.
pub fn trusting(config: &mut Config) {
    config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
}

/// Starts a standby in front of a server; the app's requests go through it from now on.
pub fn through_standby(app: &mut TestApp) -> Standby {
    let standby = Standby::start();
    standby.active(1, app.api.trim_start_matches("http://").parse().unwrap());
    app.api = format!("http://{}", standby.address);
    standby
}

/// Sends a request without a key from an address that is no trusted proxy, with a forged header. Returns the status.
fn status_at(address: &str, forged: usize) -> String {
    let address = address.trim_start_matches("http://").parse().unwrap();
    let request = format!(
        "GET /v1/rooms HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.{forged}\r\nForwarded: for=198.51.100.{forged}\r\n\
         Connection: close, x-forwarded-for\r\n\r\n"
    );
    exchange_raw(address, request.as_bytes())
        .split(' ')
        .nth(1)
        .unwrap()
        .to_owned()
}

#[test]
fn a_client_has_one_rate_wherever_it_calls_and_whatever_it_says_of_itself() {
    let mut app = TestApp::start_with(|config| {
        trusting(config);
        (config.limits.requests_per_second, config.limits.burst) = (1, 4);
    });
    let direct = app.api.clone();
    let _standby = through_standby(&mut app);
    let statuses = |count: usize| -> Vec<String> {
        (0..count)
            .map(|number| status_at(if number % 2 == 0 { &app.api } else { &direct }, number))
            .collect()
    };
    assert_eq!(statuses(6), ["401", "401", "401", "401", "429", "429"]);
    app.advance(Duration::from_secs(2));
    assert_eq!(statuses(4), ["401", "401", "429", "429"]);
    // The standby is itself a client, with its own limit for requests that it does not forward.
    app.get("/v1/rooms")
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn the_api_is_the_same_through_a_standby() {
    let mut app = TestApp::start_with(trusting);
    let direct = app.api.clone();
    let standby = through_standby(&mut app);
    let created = app
        .post("/v1/rooms")
        .json(json!({"name": "a"}))
        .idempotency_key("k")
        .send()
        .expect(201);
    let body = json!({"name": "a"});
    let replayed = app
        .post("/v1/rooms")
        .json(body)
        .idempotency_key("k")
        .with_path_part(&app.api, &direct)
        .send();
    assert_eq!(
        (
            replayed.headers["idempotency-replayed"].as_str(),
            replayed.json()
        ),
        ("true", created)
    );
    assert_eq!(app.get("/v1/rooms/a").send().expect(200)["name"], "a");
    app.get("/openapi.json").send().expect(200);
    app.put("/v1/rooms")
        .json(json!({}))
        .send()
        .expect_error(405, "method_not_allowed", None);
    app.post("/v1/rooms")
        .raw(vec![b' '; 65_537])
        .send()
        .expect_error(413, "payload_too_large", None);
    app.post("/v1/rooms")
        .raw("{")
        .header("content-type", "text/plain")
        .send()
        .expect_error(415, "unsupported_media_type", None);
    assert_eq!(standby.count("answered"), 6);
}

#[test]
fn a_client_joins_and_an_encoder_publishes_through_a_standby() {
    let mut app = TestApp::start_with_webrtc_and(trusting);
    let _standby = through_standby(&mut app);
    app.room("a");
    let mut client = Client::connect(
        &app,
        &format!("/rtc{}", query(&app.token("a", "alice", "host"))),
    )
    .unwrap();
    assert!(client.next().is_some(), "the first message of signalling");
    let refused = Client::connect(&app, "/rtc?access_token=none")
        .err()
        .expect("a refusal");
    assert_eq!(crate::signalling::client::status_of(&refused), 401);
    let encoder = ConnectedEncoder::start_at(app);
    encoder
        .request_of_second_encoder()
        .expect_error(409, "encoder_connected", None);
    encoder
        .patch(None)
        .expect_error(428, "precondition_required", None);
    encoder
        .patch(Some("\"other\""))
        .expect_error(412, "precondition_failed", None);
    assert_eq!(encoder.end().status, 200);
}

#[test]
fn an_upgrade_that_is_refused_leaves_nothing_for_the_next_client() {
    let mut app = TestApp::start_with(trusting);
    let standby = through_standby(&mut app);
    let hidden = "DELETE /v1/rooms/a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n";
    for _ in 0..3 {
        let head = "GET /v1/rooms HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        let mut client = super::connect_as_client(standby.address);
        client
            .write_all(format!("{head}{hidden}").as_bytes())
            .unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 401");
        // The standby has one worker, which may reuse the server connection.
        assert_eq!(app.get("/v1/rooms").send().expect(200)["rooms"], json!([]));
    }
}

#[test]
fn a_standby_that_becomes_active_serves_what_it_has_held() {
    if Engine::Postgres.is_not_chosen("a file of SQLite has one server") {
        return;
    }
    let cluster = |config: &mut Config| {
        trusting(config);
        config.cluster.url = Some("http://127.0.0.1:0".into());
    };
    let app = TestApp::start_with(cluster);
    app.room("kept");
    // The app's own listeners, formerly a standby's, no longer forward.
    assert_eq!(app.get("/v1/rooms/kept").send().expect(200)["name"], "kept");
    assert_eq!(
        app.admin("GET", "/debug/lease").send().expect(200)["status"],
        "active"
    );
    let refused = app
        .get("/v1/rooms")
        .header("conclave-passed-on", "99")
        .send();
    assert_eq!(
        (
            refused.status,
            refused.headers["conclave-not-active"].as_str()
        ),
        (503, "stopping")
    );
    let taken = app
        .get("/v1/rooms")
        .header("conclave-passed-on", "1")
        .send();
    assert_eq!(taken.status, 200);
}
