//! Request rates: 20 a second in bursts of 40, per key, or per client address for calls without a valid key.

use std::time::Duration;

use conclave::config::Config;

use crate::support::{Request, Response, TestApp};
use crate::tools::{conclave, other_project};

/// The rates of the contract.
fn limited() -> TestApp {
    TestApp::start_with(rates)
}

fn rates(config: &mut Config) {
    config.limits.requests_per_second = 20;
    config.limits.burst = 40;
}

/// Sends the request as often as the burst allows, then once more, and returns the last answer.
#[track_caller]
fn exhaust(request: &Request, status: u16) -> Response {
    for count in 0..40 {
        assert_eq!(request.clone().send().status, status, "request {count}");
    }
    let refused = request.clone().send();
    refused.expect_error(429, "rate_limited", None);
    refused
}

fn retry_after(answer: &Response) -> u64 {
    answer.headers["retry-after"].parse().unwrap()
}

#[test]
fn the_forty_first_call_of_a_key_is_refused_until_retry_after_has_passed() {
    let app = limited();
    let refused = exhaust(&app.get("/v1/rooms"), 200);
    let wait = retry_after(&refused);
    assert!((1..=2).contains(&wait), "{wait}");
    app.advance(Duration::from_secs(wait));
    app.get("/v1/rooms").send().expect(200);
}

#[test]
fn the_rate_is_twenty_a_second_once_the_burst_is_spent() {
    let app = limited();
    exhaust(&app.get("/v1/rooms"), 200);
    for _ in 0..3 {
        app.advance(Duration::from_secs(1));
        for _ in 0..20 {
            app.get("/v1/rooms").send().expect(200);
        }
        app.get("/v1/rooms").send().expect_error(429, "rate_limited", None);
    }
    app.advance(Duration::from_secs(2));
    exhaust(&app.get("/v1/rooms"), 200);
}

#[test]
fn every_call_of_a_key_counts_including_the_refused_ones() {
    let app = limited();
    exhaust(&app.get("/v1/rooms/nobody"), 404);
    app.post("/v1/rooms").raw("{").send().expect_error(429, "rate_limited", None);
}

#[test]
fn each_key_has_its_own_rate_also_within_a_project() {
    let app = limited();
    let second = conclave(&app, &["key", "create", &app.project])["key"].as_str().unwrap().to_owned();
    let other = other_project(&app, "self_hosted");
    exhaust(&app.get("/v1/rooms"), 200);
    app.get("/v1/rooms").bearer(&second).send().expect(200);
    app.get("/v1/rooms").bearer(&other.key).send().expect(200);
}

#[test]
fn calls_without_a_valid_key_share_the_rate_of_their_address() {
    let app = limited();
    let unknown = format!("vk_test_{}", "a".repeat(43));
    for request in 0..40 {
        let call = app.get("/v1/rooms").anonymous();
        let call = if request % 2 == 0 { call } else { call.bearer(&unknown) };
        call.send().expect_error(401, "unauthorized", None);
    }
    let refused = app.get("/v1/rooms").anonymous().send();
    refused.expect_error(429, "rate_limited", None);
    assert!(retry_after(&refused) >= 1);
    app.get("/v1/nothing").anonymous().send().expect_error(429, "rate_limited", None);
    app.get("/v1/rooms").send().expect(200);
    app.advance(Duration::from_secs(1));
    app.get("/v1/rooms").anonymous().send().expect_error(401, "unauthorized", None);
}

#[test]
fn a_room_token_counts_against_the_address() {
    let app = limited();
    app.room("a");
    let token = app.token("a", "alice", "guest");
    exhaust(&app.delete("/v1/rooms/a").bearer(&token), 403);
    app.get("/v1/rooms/a").send().expect(200);
}

#[test]
fn a_forwarded_address_is_used_only_from_trusted_proxies() {
    let app = limited();
    let from = |address: &str| app.get("/v1/rooms").anonymous().header("x-forwarded-for", address);
    exhaust(&from("203.0.113.1"), 401);
    from("203.0.113.2").send().expect_error(429, "rate_limited", None);

    let app = TestApp::start_with(|config| {
        rates(config);
        config.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
    });
    let from = |address: &str| app.get("/v1/rooms").anonymous().header("x-forwarded-for", address);
    exhaust(&from("203.0.113.1"), 401);
    from("203.0.113.2").send().expect_error(401, "unauthorized", None);
    // Addresses that the client itself wrote in front, and trusted proxies behind, change nothing.
    from("198.51.100.9, 203.0.113.1").send().expect_error(429, "rate_limited", None);
    from("203.0.113.1, 10.1.2.3").send().expect_error(429, "rate_limited", None);
    // A value that is no address is not trusted: the proxy itself is the client.
    from("nonsense").send().expect_error(401, "unauthorized", None);
}

#[test]
fn health_is_never_limited() {
    let app = limited();
    exhaust(&app.get("/v1/rooms").anonymous(), 401);
    for _ in 0..60 {
        app.get("/healthz").anonymous().send().expect(200);
    }
}
