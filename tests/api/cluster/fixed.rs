//! Rate limit for fixed responses, which are the same for every client: a standby's own responses, and the responses that it forwards.

use super::servers::{through_standby, trusting};
use super::{Standby, exchange_raw};
use crate::support::TestApp;

/// Burst per client address.
const BURST: usize = 2_000;

/// Pipelines requests for a path from an address that is no trusted proxy, with a forged header. Returns the count of each status.
fn statuses(address: &str, method: &str, path: &str, count: usize) -> (usize, usize) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.{}\r\n",
        count % 250
    );
    let requests = format!("{head}\r\n").repeat(count - 1) + &head + "Connection: close\r\n\r\n";
    let text = exchange_raw(
        address.trim_start_matches("http://").parse().unwrap(),
        requests.as_bytes(),
    );
    let answered = text.matches("HTTP/1.1 ").count();
    let limited = text.matches("HTTP/1.1 429").count();
    assert_eq!(answered, count, "{text}");
    (answered - limited, limited)
}

/// Proves S-12.
#[test]
fn a_standby_has_a_rate_of_the_responses_that_it_makes_itself() {
    let standby = Standby::start_with(|options| options.max_requests = 0);
    let address = standby.address.to_string();
    // Health checks, refused methods, and requests that cannot be buffered share one rate.
    assert_eq!(
        statuses(&address, "GET", "/healthz", BURST - 3),
        (BURST - 3, 0)
    );
    assert_eq!(statuses(&address, "POST", "/healthz", 1), (1, 0));
    assert_eq!(statuses(&address, "CONNECT", "a:443", 1), (1, 0));
    assert_eq!(statuses(&address, "GET", "/v1/rooms", 1), (1, 0));
    for (method, path) in [
        ("GET", "/healthz"),
        ("POST", "/healthz"),
        ("CONNECT", "a:443"),
        ("GET", "/v1/rooms"),
    ] {
        assert_eq!(
            statuses(&address, method, path, 1),
            (0, 1),
            "{method} {path}"
        );
    }
    standby.request("GET", "/healthz").send().expect(200);
    standby
        .request("GET", "/v1/rooms")
        .send()
        .expect_error(503, "database_unavailable", None);
}

/// Proves S-12.
#[test]
fn a_client_has_one_rate_of_fixed_responses_wherever_it_asks_and_whatever_it_says_of_itself() {
    let mut app = TestApp::start_with(trusting);
    let direct = app.api.clone();
    let standby = through_standby(&mut app);
    assert_eq!(
        statuses(&app.api, "HEAD", "/openapi.json", BURST / 2),
        (BURST / 2, 0)
    );
    assert_eq!(
        statuses(&direct, "HEAD", "/call/page.css", BURST / 2),
        (BURST / 2, 0)
    );
    for (address, path) in [
        (&app.api, "/openapi.json"),
        (&direct, "/openapi.json"),
        (&direct, "/ext/openapi.json"),
        (&app.api, "/call"),
        (&app.api, "/call/page.css"),
    ] {
        assert_eq!(
            statuses(address, "GET", path, 1),
            (0, 1),
            "{address} {path}"
        );
    }
    assert_eq!(
        standby.count("answered"),
        i64::try_from(BURST / 2 + 3).unwrap()
    );
    // The standby makes this response itself, and other clients have a rate limit of their own.
    assert_eq!(statuses(&app.api, "GET", "/healthz", 1), (1, 0));
    app.get("/openapi.json").send().expect(200);
}
