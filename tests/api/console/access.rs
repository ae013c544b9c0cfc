//! Sign-in, sessions, form tokens, and origins.

use std::time::Duration;

use conclave_model::Secret;

use super::{Browser, TOKEN, app_with_token, cookie_of, csrf};
use crate::support::{Request, TestApp};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn on_loopback_in_dev_the_console_needs_no_sign_in() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    assert!(browser.page("/").contains("Live rooms"));
    browser.act(
        "/projects",
        &[("name", "shop"), ("env", "live"), ("plan", "free")],
    );
}

#[test]
fn without_a_session_a_page_leads_to_the_sign_in_and_back() {
    let app = app_with_token();
    let browser = Browser::new(&app);
    let answer = browser.open("/projects");
    assert_eq!(
        (answer.status, answer.headers["location"].as_str()),
        (303, "/sign-in?next=%2Fprojects")
    );
    let answer = browser.open("/actors?q=a%20b&kind=room&note=credited");
    let next = "/sign-in?next=%2Factors%3Fq%3Da%2Bb%26kind%3Droom";
    assert_eq!(answer.headers["location"], next);
    let form = browser.open(next).text();
    assert!(
        form.contains("value=\"/actors?q=a+b&amp;kind=room\""),
        "{form}"
    );
    let form = browser.open("/sign-in?next=%2Fprojects");
    let fields = [
        ("csrf", csrf(&form)),
        ("token", TOKEN.into()),
        ("next", "/projects".into()),
    ];
    let fields = fields
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let answer = browser.request("POST", "/sign-in").form(&fields).send();
    assert_eq!(
        (answer.status, answer.headers["location"].as_str()),
        (303, "/projects")
    );
}

#[test]
fn the_cookie_of_a_session_is_for_this_server_and_its_pages_only() {
    let app = app_with_token();
    let cookie = cookie_of(&Browser::new(&app).sign_in(TOKEN));
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(
        !cookie.contains("Secure") && !cookie.contains(TOKEN),
        "{cookie}"
    );
    // The cookie is no credential for the API.
    let browser = Browser::signed_in(&app);
    browser
        .open("/debug/actors")
        .expect_error(401, "unauthorized", None);
    Request::new("GET", format!("{}/v1/rooms", app.api))
        .header("cookie", &browser.cookie)
        .send()
        .expect_error(401, "unauthorized", None);
    app.admin("GET", "/debug/actors").send().expect(200);
}

#[test]
fn behind_a_proxy_with_tls_the_cookie_is_secure() {
    let app = TestApp::start_with(|config| {
        config.admin.token = Some(Secret::new(TOKEN));
        config.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let browser = Browser::new(&app);
    let fields = [
        ("csrf", csrf(&browser.open("/sign-in"))),
        ("token", TOKEN.to_owned()),
    ];
    let fields = fields
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let answer = browser
        .request("POST", "/sign-in")
        .header("x-forwarded-proto", "https")
        .form(&fields)
        .send();
    assert!(cookie_of(&answer).contains("; Secure"));
}

#[test]
fn a_session_ends_by_signing_out_after_twelve_hours_and_with_the_server() {
    let app = app_with_token();
    let browser = Browser::signed_in(&app);
    browser.page("/");
    let answer = browser.send("/sign-out", &[]);
    assert!(cookie_of(&answer).contains("Max-Age=0"));
    assert_eq!(
        browser.open("/").status,
        303,
        "the cookie is worth nothing any more"
    );

    let browser = Browser::signed_in(&app);
    app.advance(12 * HOUR - Duration::from_secs(1));
    browser.page("/");
    let token = csrf(&browser.open("/projects"));
    app.advance(Duration::from_secs(1));
    assert_eq!(browser.open("/").status, 303);
    let fields = [("csrf", token.as_str()), ("name", "shop"), ("plan", "free")];
    let answer = browser.request("POST", "/projects").form(&fields).send();
    assert_eq!(answer.status, 401, "{}", answer.text());

    let cookie = Browser::signed_in(&app).cookie;
    let app =
        app.restart_with(|config| config.admin.token = Some(Secret::new("another-admin-token")));
    assert_eq!(Browser { app: &app, cookie }.open("/").status, 303);
}

/// Proves S-21.
#[test]
fn five_wrong_tokens_a_minute_are_answered() {
    let app = app_with_token();
    let browser = Browser::new(&app);
    for _ in 0..5 {
        assert_eq!(browser.sign_in("guess").status, 401);
    }
    let refused = browser.sign_in(TOKEN);
    assert_eq!(
        refused.status, 429,
        "the right one is refused, too, or it could be guessed"
    );
    assert!(refused.headers.contains_key("retry-after"));
    app.advance(Duration::from_secs(61));
    assert_eq!(browser.sign_in(TOKEN).status, 303);
}

/// Proves S-21.
#[test]
fn guesses_by_programs_and_in_the_console_have_one_limit() {
    let app = app_with_token();
    let browser = Browser::signed_in(&app);
    let program = |token: &str| app.admin("GET", "/debug/actors").bearer(token).send();
    for guess in 0..3 {
        program(&format!("guess-{guess}")).expect_error(401, "unauthorized", None);
    }
    for _ in 0..2 {
        assert_eq!(Browser::new(&app).sign_in("guess").status, 401);
    }
    for path in [
        "/debug/actors",
        "/metrics",
        "/nowhere",
        "/sandbox/participants/PA_1",
    ] {
        let refused = app.admin("GET", path).send();
        assert!(refused.headers.contains_key("retry-after"));
        refused.expect_error(429, "rate_limited", None);
    }
    assert_eq!(Browser::new(&app).sign_in(TOKEN).status, 429);
    // A request with a session or without a token does not count as a guess.
    browser.page("/");
    app.admin("GET", "/debug/actors")
        .anonymous()
        .send()
        .expect_error(401, "unauthorized", None);
    app.admin("GET", "/healthz").send().expect(200);
    app.advance(Duration::from_secs(60));
    program(TOKEN).expect(200);
    assert_eq!(Browser::new(&app).sign_in(TOKEN).status, 303);
}

/// Proves S-22.
#[test]
fn a_form_without_the_token_of_its_session_changes_nothing() {
    let app = app_with_token();
    let (browser, other) = (Browser::signed_in(&app), Browser::signed_in(&app));
    let foreign = csrf(&other.open("/projects"));
    for token in ["", "0", foreign.as_str()] {
        let fields = [
            ("csrf", token),
            ("name", "shop"),
            ("env", "live"),
            ("plan", "free"),
        ];
        let answer = browser.request("POST", "/projects").form(&fields).send();
        assert_eq!(answer.status, 403, "{token:?}");
    }
    let fields = [("token", TOKEN)];
    assert_eq!(
        Browser::new(&app)
            .request("POST", "/sign-in")
            .form(&fields)
            .send()
            .status,
        403
    );
    assert!(!browser.page("/projects").contains("shop"));
}

#[test]
fn an_action_from_another_origin_changes_nothing() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let token = csrf(&browser.open("/projects"));
    let fields = [
        ("csrf", token.as_str()),
        ("name", "shop"),
        ("env", "live"),
        ("plan", "free"),
    ];
    for origin in ["https://example.org", "http://localhost:1", "null"] {
        let answer = browser
            .request("POST", "/projects")
            .form(&fields)
            .header("origin", origin)
            .send();
        assert_eq!(answer.status, 403, "{origin}");
    }
    assert_eq!(browser.open("/").status, 200);
    assert_eq!(
        browser
            .request("GET", "/")
            .header("host", "rebind.example")
            .send()
            .status,
        403
    );
    assert!(!browser.page("/projects").contains("shop"));
    assert_eq!(
        browser
            .request("POST", "/projects")
            .form(&fields)
            .header("origin", &app.admin)
            .send()
            .status,
        303
    );
}

#[test]
fn a_path_takes_its_methods_only() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    browser
        .request("DELETE", "/projects")
        .send()
        .expect_error(405, "method_not_allowed", None);
    browser
        .request("POST", "/server")
        .send()
        .expect_error(405, "method_not_allowed", None);
    assert_eq!(browser.open("/projects/prj_000000000000").status, 404);
    assert_eq!(browser.open("/projects/nonsense").status, 404);
}
