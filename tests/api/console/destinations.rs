//! Destinations: a form for each type, whose values become the configuration of the API.

use serde_json::{Value, json};

use super::Browser;
use crate::support::TestApp;

/// A template's page, and the API's path of its destinations.
struct Destinations<'a> {
    app: &'a TestApp,
    browser: Browser<'a>,
    page: String,
    list: String,
}

impl<'a> Destinations<'a> {
    fn new(app: &'a TestApp) -> Self {
        let templates = app.get("/v1/templates").send().expect(200);
        let id = templates["templates"][0]["id"].as_str().unwrap();
        Self {
            app,
            browser: Browser::new(app),
            page: format!("/projects/{}/templates/{id}", app.project),
            list: format!("/v1/templates/{id}/destinations"),
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("{}/destinations{rest}", self.page)
    }

    fn stored(&self, name: &str) -> Value {
        self.app
            .get(&format!("{}/{name}", self.list))
            .send()
            .expect(200)
    }
}

#[test]
fn each_type_has_a_form_whose_values_are_its_configuration() {
    let app = TestApp::start();
    let destinations = Destinations::new(&app);
    let page = destinations.browser.page(&destinations.page);
    for word in ["rtmp", "s3", "gcp", "azure"] {
        assert!(
            page.contains(&format!("name=\"type\" value=\"{word}\"")),
            "{page}"
        );
    }
    let create = |fields: &[(&str, &str)]| {
        let page = destinations.browser.act(&destinations.path(""), fields);
        assert!(
            page.contains("The destination was created.") && !page.contains("hush"),
            "{page}"
        );
    };
    create(&[
        ("type", "s3"),
        ("name", "store"),
        ("config.bucket", "calls"),
        ("config.region", "eu-central-1"),
        ("config.endpoint", ""),
        ("config.prefix", "talks/"),
        ("config.access_key", "AKIAKEY"),
        ("config.secret", "hush-secret"),
        ("config.session_token", "hush-token"),
        ("config.force_path_style", "true"),
    ]);
    assert_eq!(
        destinations.stored("store")["config"],
        json!({
            "type": "s3", "bucket": "calls", "region": "eu-central-1", "prefix": "talks/", "access_key": "AKIAKEY",
            "secret": "***", "session_token": "***", "force_path_style": true
        })
    );
    create(&[
        ("type", "gcp"),
        ("name", "google"),
        ("config.bucket", "calls"),
        ("config.credentials", "{\"private_key\": \"hush\"}"),
    ]);
    assert_eq!(
        destinations.stored("google")["config"],
        json!({"type": "gcp", "bucket": "calls", "credentials": "***"})
    );
    create(&[
        ("type", "azure"),
        ("name", "blobs"),
        ("config.container", "calls"),
        ("config.account_name", "acme"),
        ("config.account_key", "hush"),
    ]);
    assert_eq!(
        destinations.stored("blobs")["config"],
        json!({"type": "azure", "container": "calls", "account_name": "acme", "account_key": "***"})
    );
    create(&[
        ("type", "rtmp"),
        ("name", "tubes"),
        (
            "config.urls",
            "rtmp://127.0.0.1/live/hush-one\r\n\r\n rtmp://127.0.0.1/live/hush-two ",
        ),
    ]);
    let tubes = destinations.stored("tubes");
    assert_eq!(
        (
            &tubes["kind"],
            tubes["config"]["urls"].as_array().unwrap().len()
        ),
        (&json!("rtmp"), 2)
    );
}

#[test]
fn a_change_keeps_credentials_and_removes_what_is_empty() {
    let app = TestApp::start();
    let destinations = Destinations::new(&app);
    let config = json!({
        "type": "s3", "bucket": "calls", "region": "eu-central-1", "access_key": "AKIAKEY", "secret": "hush",
        "session_token": "hush"
    });
    let body = json!({"name": "store", "kind": "recording", "config": config});
    app.post(&destinations.list).json(body).send().expect(201);
    let fields = [
        ("type", "s3"),
        ("config.bucket", "talks"),
        ("config.access_key", "AKIAKEY"),
        ("config.secret", ""),
        ("config.session_token", ""),
    ];
    let change = |more: &[(&str, &str)]| {
        let all: Vec<_> = fields.iter().chain(more).copied().collect();
        destinations.browser.act(&destinations.path("/store"), &all);
        destinations.stored("store")["config"].clone()
    };
    let kept = json!({
        "type": "s3", "bucket": "talks", "access_key": "AKIAKEY", "secret": "***", "session_token": "***"
    });
    assert_eq!(change(&[]), kept);
    let without_token =
        json!({"type": "s3", "bucket": "talks", "access_key": "AKIAKEY", "secret": "***"});
    assert_eq!(
        change(&[("remove.session_token", "on")]),
        without_token,
        "only if it is to be removed"
    );
    destinations
        .browser
        .act(&destinations.path("/store/delete"), &[]);
    app.get(&format!("{}/store", destinations.list))
        .send()
        .expect_error(404, "destination_not_found", None);
}

#[test]
fn an_error_of_the_api_names_the_input() {
    let app = TestApp::start();
    let destinations = Destinations::new(&app);
    let refused = |fields: &[(&str, &str)], input: &str| {
        let answer = destinations.browser.send(&destinations.path(""), fields);
        assert_eq!(answer.status, 400, "{}", answer.text());
        let marked = format!("data-field=\"{input}");
        assert!(
            answer.text().contains(&marked),
            "{input}: {}",
            answer.text()
        );
    };
    let s3 = [
        ("type", "s3"),
        ("name", "store"),
        ("config.bucket", "calls"),
    ];
    refused(&s3, "config.access_key");
    let bucket = [("type", "s3"), ("name", "store"), ("config.bucket", "a b")];
    refused(&bucket, "config.bucket");
    refused(
        &[("type", "s3"), ("name", "a b"), ("config.bucket", "calls")],
        "name",
    );
    refused(
        &[("type", "rtmp"), ("name", "tube"), ("config.urls", "")],
        "config.urls",
    );
    let second = "rtmp://127.0.0.1/live/key\nhttp://127.0.0.1/";
    refused(
        &[("type", "rtmp"), ("name", "tube"), ("config.urls", second)],
        "config.urls[1]",
    );
    refused(&[("type", "ftp"), ("name", "store")], "type");
    assert_eq!(
        app.get(&destinations.list).send().expect(200)["destinations"],
        json!([])
    );
}
