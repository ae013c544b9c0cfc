//! Without `media.public_url`, a server that listens on all addresses uses the request's host.

use conclave::config::Config;
use serde_json::json;

use crate::console::Browser;
use crate::support::{Request, TestApp};

fn on_all_addresses(change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_with(|config| {
        config.http.listen = "0.0.0.0:0".parse().unwrap();
        change(config);
    })
}

/// Returns the URL in the token response to a request.
fn url(request: Request) -> String {
    request.send().expect(201)["url"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn mint(app: &TestApp, host: &str) -> Request {
    app.post("/v1/tokens")
        .json(json!({"room": "a", "identity": "alice"}))
        .header("host", host)
}

#[test]
fn tokens_by_key_and_by_code_and_ingress_endpoints_name_the_host_of_the_request() {
    let app = on_all_addresses(|_| {});
    app.room("a");
    assert_eq!(url(mint(&app, "192.168.1.7:8080")), "ws://192.168.1.7:8080");
    assert_eq!(url(mint(&app, "meet.example.org")), "ws://meet.example.org");
    let code = app
        .post("/v1/rooms/a/codes")
        .json(json!({"role": "guest"}))
        .send()
        .expect(201);
    let exchange = app
        .post(&format!(
            "/v1/codes/{}/exchange",
            code["code"].as_str().unwrap()
        ))
        .anonymous();
    assert_eq!(
        url(exchange.header("host", "10.1.2.3:9")),
        "ws://10.1.2.3:9"
    );
    for (input_type, url) in [
        ("rtmp", "rtmp://meet.example.org:1935/live/REDACTED"),
        ("whip", "http://meet.example.org:8080/whip/REDACTED"),
    ] {
        let body = json!({"input_type": input_type, "participant_identity": "encoder"});
        let created = app
            .post("/v1/rooms/a/ingress")
            .json(body)
            .header("host", "meet.example.org:8080")
            .send();
        let created = created.expect(201);
        assert_eq!(created["url"], url);
        let path = format!("/v1/ingress/{}", created["ingress_id"].as_str().unwrap());
        assert_eq!(
            app.get(&path).send().expect(200)["url"],
            url,
            "it stays as it was created"
        );
    }
    // An invalid host is not repeated.
    let own = format!("ws://{}", app.api.trim_start_matches("http://"));
    assert_eq!(url(mint(&app, "user@evil.example")), own);
    assert_eq!(url(mint(&app, "0.0.0.0:1")), own);
}

#[test]
fn a_trusted_proxy_says_how_its_client_came_and_no_other() {
    let forwarded = |app: &TestApp| {
        let request = mint(app, "10.0.0.9:8080").header("x-forwarded-host", "meet.example.org");
        url(request.header("x-forwarded-proto", "https"))
    };
    let trusting = on_all_addresses(|config| {
        config.http.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    trusting.room("a");
    assert_eq!(forwarded(&trusting), "wss://meet.example.org");
    let app = on_all_addresses(|_| {});
    app.room("a");
    assert_eq!(forwarded(&app), "ws://10.0.0.9:8080");
}

#[test]
fn a_public_url_and_one_address_are_named_whatever_the_request_says() {
    let app =
        on_all_addresses(|config| config.media.public_url = Some("wss://meet.example.org".into()));
    app.room("a");
    assert_eq!(url(mint(&app, "evil.example")), "wss://meet.example.org");
    let app = TestApp::start();
    app.room("a");
    assert_eq!(
        url(mint(&app, "evil.example")),
        app.api.replacen("http", "ws", 1)
    );
}

#[test]
fn the_call_page_may_connect_to_the_host_that_it_was_loaded_from_and_links_of_the_console_name_a_host()
 {
    let app = on_all_addresses(|config| config.http.call_page = true);
    app.room("a");
    let page = app
        .get("/call")
        .anonymous()
        .header("host", "meet.example.org:8080")
        .send();
    let policy = &page.headers["content-security-policy"];
    let connects = "connect-src 'self' ws://meet.example.org:8080 http://meet.example.org:8080;";
    assert!(policy.contains(connects), "{policy}");
    let port = app.api.rsplit_once(':').unwrap().1;
    let browser = Browser::new(&app);
    let shown = browser.page("/server");
    assert!(
        shown.contains(&format!("ws://127.0.0.1:{port}")) && !shown.contains("ws://0.0.0.0"),
        "{shown}"
    );
    let code = browser.act(
        &format!("/projects/{}/rooms/a/codes", app.project),
        &[
            ("role", "guest"),
            ("max_uses", ""),
            ("hours", "1"),
            ("identity", ""),
        ],
    );
    assert!(
        code.contains(&format!("http://127.0.0.1:{port}/call#code=")),
        "{code}"
    );
}
