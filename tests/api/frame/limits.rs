//! Request rates: 20 a second in bursts of 40, per key, or per client address for calls without a valid key.

use std::time::Duration;

use conclave::config::Config;

use crate::support::{Request, Response, TestApp};
use crate::tools::{conclave, other_project};

/// Starts an app with the contract's rate limits.
fn limited() -> TestApp {
    TestApp::start_with(rates)
}

/// Starts an app with the contract's rate limits, behind trusted proxies.
fn behind_proxy() -> TestApp {
    TestApp::start_with(|config| {
        rates(config);
        config.http.trusted_proxies = vec![
            "127.0.0.0/8".parse().unwrap(),
            "10.0.0.0/8".parse().unwrap(),
        ];
    })
}

fn rates(config: &mut Config) {
    config.limits.requests_per_second = 20;
    config.limits.burst = 40;
}

/// Sends as many requests as the burst allows, then one more, and returns the last response.
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
        app.get("/v1/rooms")
            .send()
            .expect_error(429, "rate_limited", None);
    }
    app.advance(Duration::from_secs(2));
    exhaust(&app.get("/v1/rooms"), 200);
}

#[test]
fn every_call_of_a_key_counts_including_the_refused_ones() {
    let app = limited();
    exhaust(&app.get("/v1/rooms/nobody"), 404);
    app.post("/v1/rooms")
        .raw("{")
        .send()
        .expect_error(429, "rate_limited", None);
}

#[test]
fn each_key_has_its_own_rate_also_within_a_project() {
    let app = limited();
    let second = conclave(&app, &["key", "create", &app.project])["key"]
        .as_str()
        .unwrap()
        .to_owned();
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
        let call = if request % 2 == 0 {
            call
        } else {
            call.bearer(&unknown)
        };
        call.send().expect_error(401, "unauthorized", None);
    }
    let refused = app.get("/v1/rooms").anonymous().send();
    refused.expect_error(429, "rate_limited", None);
    assert!(retry_after(&refused) >= 1);
    app.get("/v1/nothing")
        .anonymous()
        .send()
        .expect_error(429, "rate_limited", None);
    app.get("/v1/rooms").send().expect(200);
    app.advance(Duration::from_secs(1));
    app.get("/v1/rooms")
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn a_room_token_counts_against_the_address() {
    let app = limited();
    app.room("a");
    let token = app.token("a", "alice", "guest");
    exhaust(&app.delete("/v1/rooms/a").bearer(&token), 403);
    app.get("/v1/rooms/a").send().expect(200);
}

/// Proves S-4.
#[test]
fn a_forwarded_address_is_used_only_from_trusted_proxies() {
    let app = limited();
    let from = |address: &str| {
        app.get("/v1/rooms")
            .anonymous()
            .header("x-forwarded-for", address)
    };
    exhaust(&from("203.0.113.1"), 401);
    from("203.0.113.2")
        .send()
        .expect_error(429, "rate_limited", None);

    let app = behind_proxy();
    let from = |address: &str| {
        app.get("/v1/rooms")
            .anonymous()
            .header("x-forwarded-for", address)
    };
    exhaust(&from("203.0.113.1"), 401);
    from("203.0.113.2")
        .send()
        .expect_error(401, "unauthorized", None);
    // Addresses that the client itself added in front, and trusted proxies at the end, change nothing.
    from("198.51.100.9, 203.0.113.1")
        .send()
        .expect_error(429, "rate_limited", None);
    from("203.0.113.1, 10.1.2.3")
        .send()
        .expect_error(429, "rate_limited", None);
    // A value that is not an address is ignored: the proxy itself is the client.
    from("nonsense")
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn a_forwarded_address_may_have_a_port_and_brackets() {
    let app = behind_proxy();
    let from = |address: &str| {
        app.get("/v1/rooms")
            .anonymous()
            .header("x-forwarded-for", address)
    };
    exhaust(&from("203.0.113.1:4711"), 401);
    from("203.0.113.1")
        .send()
        .expect_error(429, "rate_limited", None);
    from("203.0.113.2:4711")
        .send()
        .expect_error(401, "unauthorized", None);
    exhaust(&from("[2001:db8::1]"), 401);
    from("2001:db8::1")
        .send()
        .expect_error(429, "rate_limited", None);
    from("[2001:db8::1]:4711")
        .send()
        .expect_error(429, "rate_limited", None);
}

/// Proves S-4.
#[test]
fn ipv6_addresses_of_one_64_bit_network_are_one_client() {
    let app = behind_proxy();
    let from = |address: &str| {
        app.get("/v1/rooms")
            .anonymous()
            .header("x-forwarded-for", address)
    };
    for host in 0..40 {
        from(&format!("2001:db8:0:1::{host:x}"))
            .send()
            .expect_error(401, "unauthorized", None);
    }
    from("2001:db8:0:1:ffff:ffff:ffff:ffff")
        .send()
        .expect_error(429, "rate_limited", None);
    from("2001:db8:0:2::1")
        .send()
        .expect_error(401, "unauthorized", None);
    // An IPv4-mapped IPv6 address is the IPv4 address.
    exhaust(&from("::ffff:203.0.113.1"), 401);
    from("203.0.113.1")
        .send()
        .expect_error(429, "rate_limited", None);
    from("::ffff:203.0.113.2")
        .send()
        .expect_error(401, "unauthorized", None);
}

/// Proves S-1.
#[test]
fn an_address_that_guesses_keys_is_refused_before_the_next_key_is_looked_up() {
    let app = limited();
    let guess = |letter: char| {
        app.get("/v1/rooms")
            .bearer(&format!("vk_test_{}", letter.to_string().repeat(43)))
    };
    app.get("/v1/rooms").send().expect(200);
    exhaust(&guess('a'), 401);
    // A lookup would fail from here on.
    app.records()
        .run("ALTER TABLE api_keys RENAME TO hidden_keys");
    let refused = guess('b').send();
    app.records()
        .run("ALTER TABLE hidden_keys RENAME TO api_keys");
    refused.expect_error(429, "rate_limited", None);
    // A valid key is not refused because of others' guesses from its address.
    app.get("/v1/rooms").send().expect(200);
}

#[test]
fn health_is_never_limited() {
    let app = limited();
    exhaust(&app.get("/v1/rooms").anonymous(), 401);
    for _ in 0..60 {
        app.get("/healthz").anonymous().send().expect(200);
    }
}
