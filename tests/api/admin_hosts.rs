//! The admin listener without a token: the hosts and origins that it accepts, so that no web page reaches it by DNS rebinding.

use conclave::config::HostName;
use conclave_model::Secret;
use serde_json::json;

use crate::support::{Request, Response, TestApp};

/// Paths that health probes may request under any host name.
const PROBED: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// Paths that a foreign web page must not reach.
const GUARDED: [&str; 10] = [
    "/debug/actors",
    "/debug/events",
    "/docs/",
    "/docs/api",
    "/docs/api/settings.json",
    "/openapi.json",
    "/ext/openapi.json",
    "/sandbox/participants/PA_1",
    "/sdk/conclave-sdk.tgz",
    "/nowhere",
];

#[track_caller]
fn refused(answer: &Response) {
    answer.expect_error(403, "origin_rejected", None);
}

fn from_host(app: &TestApp, path: &str, host: &str) -> Request {
    app.admin("GET", path).header("host", host)
}

/// Proves S-20.
#[test]
fn a_host_that_is_not_loopback_is_refused_and_changes_nothing() {
    let app = TestApp::start();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    for host in [
        "rebind.example",
        "rebind.example:8081",
        "10.1.2.3",
        "localhost.example",
        "127.0.0.1.example",
        "[fd00::1]:1",
    ] {
        for path in GUARDED {
            refused(&from_host(&app, path, host).send());
        }
        refused(
            &app.admin("POST", "/sandbox/join")
                .header("host", host)
                .json(json!({"token": token}))
                .send(),
        );
    }
    assert_eq!(
        app.get("/v1/sessions").send().expect(200)["sessions"],
        json!([])
    );
}

#[test]
fn loopback_names_and_addresses_are_answered() {
    let app = TestApp::start();
    for host in [
        "localhost",
        "LOCALHOST:9",
        "127.0.0.1:1",
        "127.9.9.9",
        "[::1]",
        "[::1]:8081",
        "[::ffff:127.0.0.1]:1",
    ] {
        from_host(&app, "/debug/actors", host).send().expect(200);
    }
}

/// Proves S-20.
#[test]
fn an_origin_of_another_host_is_refused() {
    let app = TestApp::start();
    let call = |origin: &str| {
        from_host(&app, "/debug/actors", "localhost:8081")
            .header("origin", origin)
            .send()
    };
    for origin in [
        "http://rebind.example",
        "http://localhost:3000",
        "null",
        "https://127.0.0.1:8081",
        "",
    ] {
        refused(&call(origin));
    }
    call("http://localhost:8081").expect(200);
    call("https://localhost:8081").expect(200);
}

#[test]
fn probes_are_answered_whatever_they_call_the_server() {
    let app = TestApp::start();
    for path in PROBED {
        let answer = from_host(&app, path, "10.1.2.3:8081")
            .header("origin", "http://rebind.example")
            .send();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

#[test]
fn with_a_token_any_host_is_answered() {
    let app =
        TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    let call = || {
        from_host(&app, "/debug/actors", "conclave.internal")
            .header("origin", "https://console.internal")
    };
    call().send().expect(200);
    call()
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
}

#[test]
fn listed_hosts_are_answered() {
    let app = TestApp::start_with(|config| {
        let hosts = ["Conclave.internal", "10.1.2.3"].map(|host| HostName::parse(host).unwrap());
        config.admin.hosts = hosts.into();
    });
    for host in [
        "conclave.internal",
        "CONCLAVE.internal:8081",
        "10.1.2.3:1",
        "localhost",
    ] {
        from_host(&app, "/debug/actors", host).send().expect(200);
    }
    let own = from_host(&app, "/debug/actors", "conclave.internal")
        .header("origin", "https://conclave.internal");
    own.send().expect(200);
    refused(&from_host(&app, "/debug/actors", "other.internal").send());
}
