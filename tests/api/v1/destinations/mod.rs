//! `/v1/templates/{id}/destinations`.

mod validation;

use serde_json::{Value, json};

use crate::support::{Request, TestApp};
use crate::tools::{NO_TEMPLATE, default_template, fields, other_project, template};

const STREAM_KEY: &str = "live-9f8e7d6c5b4a";
const S3_SECRET: &str = "wJalrXUtnFEMIK7MDENG";
const SESSION_TOKEN: &str = "FwoGZXIvYXdzEJr";
const GCP_KEY: &str = "MIIEvQIBADANBgkq";
const AZURE_KEY: &str = "Eby8vdM02xNOcqFl";

fn s3() -> Value {
    json!({
        "type": "s3", "bucket": "calls", "region": "eu-west-1", "prefix": "2026/", "force_path_style": true,
        "endpoint": "https://minio.invalid:9000", "access_key": "AKIAEXAMPLE", "secret": S3_SECRET,
        "session_token": SESSION_TOKEN
    })
}

fn s3_shown() -> Value {
    let mut shown = s3();
    shown["secret"] = json!("***");
    shown["session_token"] = json!("***");
    shown
}

fn gcp() -> Value {
    json!({"type": "gcp", "bucket": "calls", "credentials": format!("{{\"private_key\": \"{GCP_KEY}\"}}")})
}

fn azure() -> Value {
    json!({"type": "azure", "container": "calls", "account_name": "acme", "account_key": AZURE_KEY})
}

fn rtmp() -> Value {
    json!({"urls": [format!("rtmp://u:p4ssw0rd@live.invalid/app/{STREAM_KEY}"), format!("rtmps://8.8.8.8:443/x/{STREAM_KEY}?a=b")]})
}

fn body(name: &str, kind: &str, config: &Value) -> Value {
    json!({"name": name, "kind": kind, "config": config})
}

struct Harness {
    app: TestApp,
    path: String,
}

impl Harness {
    fn start() -> Self {
        Self::of(TestApp::start())
    }

    fn of(app: TestApp) -> Self {
        let path = format!("/v1/templates/{}/destinations", default_template(&app));
        Self { app, path }
    }

    fn create(&self, name: &str, kind: &str, config: &Value) -> Request {
        self.app.post(&self.path).json(body(name, kind, config))
    }

    #[track_caller]
    fn made(&self, name: &str, kind: &str, config: &Value) -> Value {
        self.create(name, kind, config).send().expect(201)
    }

    fn one(&self, method: &str, name: &str) -> Request {
        self.app.request(method, &format!("{}/{name}", self.path))
    }

    fn patch(&self, name: &str, config: &Value) -> Request {
        self.one("PATCH", name).json(json!({"config": config}))
    }

    #[track_caller]
    fn config(&self, name: &str) -> Value {
        self.one("GET", name).send().expect(200)["config"].clone()
    }

    fn restart_with_another_key(self) -> Self {
        let file = self.app.data().join("encryption.key");
        std::fs::write(file, format!("{}\n", "5e".repeat(32))).unwrap();
        self.app.forget_keys();
        Self {
            app: self.app.restart(),
            path: self.path,
        }
    }
}

#[test]
fn a_destination_is_created_read_listed_and_deleted() {
    let harness = Harness::start();
    let made = harness.made("archive", "recording", &s3());
    assert_eq!(
        fields(&made),
        [
            "config",
            "created_at",
            "id",
            "kind",
            "name",
            "template_id",
            "updated_at"
        ]
    );
    assert!(
        made["id"]
            .as_str()
            .unwrap()
            .parse::<conclave_model::DestinationId>()
            .is_ok()
    );
    assert_eq!(
        (&made["name"], &made["kind"], &made["config"]),
        (&json!("archive"), &json!("recording"), &s3_shown())
    );
    assert_eq!(
        (&made["created_at"], &made["updated_at"]),
        (&json!(harness.app.now()), &json!(harness.app.now()))
    );
    assert_eq!(harness.one("GET", "archive").send().expect(200), made);

    harness.app.advance(std::time::Duration::from_secs(1));
    let second = harness.made("live", "rtmp", &rtmp());
    assert_eq!(
        second["config"],
        json!({"urls": ["rtmp://live.invalid/app/REDACTED", "rtmps://8.8.8.8:443/x/REDACTED"]})
    );
    assert_eq!(
        harness.app.get(&harness.path).send().expect(200),
        json!({"destinations": [second, made]})
    );

    harness.one("DELETE", "archive").send().expect_empty(204);
    harness
        .one("DELETE", "archive")
        .send()
        .expect_error(404, "destination_not_found", None);
    harness
        .one("GET", "archive")
        .send()
        .expect_error(404, "destination_not_found", None);
    assert_eq!(
        harness.app.get(&harness.path).send().expect(200)["destinations"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn each_storage_type_shows_the_sent_fields_without_secrets() {
    let harness = Harness::start();
    let gcp = harness.made("gcp", "recording", &gcp());
    assert_eq!(
        gcp["config"],
        json!({"type": "gcp", "bucket": "calls", "credentials": "***"})
    );
    let azure = harness.made("azure", "recording", &azure());
    let shown = json!({"type": "azure", "container": "calls", "account_name": "acme", "account_key": "***"});
    assert_eq!(azure["config"], shown);
    let least = json!({"type": "s3", "bucket": "calls", "access_key": "AKIA", "secret": "s"});
    let shown = json!({"type": "s3", "bucket": "calls", "access_key": "AKIA", "secret": "***"});
    assert_eq!(harness.made("least", "recording", &least)["config"], shown);
}

#[test]
fn no_secret_is_in_an_answer_or_unencrypted_in_the_database() {
    let harness = Harness::start();
    let mut answers = Vec::new();
    for (name, kind, config) in [
        ("a", "recording", s3()),
        ("b", "recording", gcp()),
        ("c", "recording", azure()),
        ("d", "rtmp", rtmp()),
    ] {
        let create = || {
            harness
                .create(name, kind, &config)
                .idempotency_key(name)
                .send()
                .text()
        };
        answers.extend([create(), create()]);
        answers.push(harness.patch(name, &config).send().text());
        answers.push(harness.one("GET", name).send().text());
    }
    // A secret in the wrong field: the refusal is stored under its key, too.
    for (name, config) in [
        ("e", json!(STREAM_KEY)),
        (
            "f",
            json!({"urls": format!("rtmp://live.invalid/app/{STREAM_KEY}")}),
        ),
        (
            "g",
            json!({"urls": [format!("https://live.invalid/app/{STREAM_KEY}")]}),
        ),
        ("h", json!({"urls": [{"key": STREAM_KEY}]})),
    ] {
        let refused = harness
            .create(name, "rtmp", &config)
            .idempotency_key(name)
            .send();
        assert_eq!(refused.status, 400);
        answers.push(refused.text());
    }
    let refused = harness
        .create("i", "recording", &json!({"type": S3_SECRET}))
        .idempotency_key("i")
        .send();
    refused.expect_error(400, "invalid_request", Some("config.type"));
    answers.push(refused.text());
    answers.push(harness.app.get(&harness.path).send().text());
    answers.push(harness.app.admin("GET", "/debug/actors").send().text());
    let records = harness.app.records();
    assert!(
        records.contain("AKIAEXAMPLE"),
        "the right records are looked into"
    );
    for secret in [
        STREAM_KEY,
        S3_SECRET,
        SESSION_TOKEN,
        GCP_KEY,
        AZURE_KEY,
        "p4ssw0rd",
    ] {
        assert!(
            answers.iter().all(|answer| !answer.contains(secret)),
            "{secret}"
        );
        assert!(!records.contain(secret), "{secret}");
    }
}

#[test]
fn a_replay_gives_the_same_answer() {
    let harness = Harness::start();
    let first = harness
        .create("archive", "recording", &s3())
        .idempotency_key("k")
        .send();
    let replay = harness
        .create("archive", "recording", &s3())
        .idempotency_key("k")
        .send();
    assert_eq!(
        (first.expect(201), first.text()),
        (replay.expect(201), replay.text())
    );
    assert_eq!(replay.headers["idempotency-replayed"], "true");
    harness
        .create("archive", "recording", &s3())
        .send()
        .expect_error(409, "destination_exists", Some("name"));
}

#[test]
fn a_name_is_unique_in_its_template_and_deleted_with_it() {
    let harness = Harness::start();
    let other = template(&harness.app, "other", &json!({}));
    let path = format!("/v1/templates/{other}/destinations");
    harness.made("archive", "recording", &s3());
    harness
        .app
        .post(&path)
        .json(body("archive", "rtmp", &rtmp()))
        .send()
        .expect(201);
    harness
        .app
        .delete(&format!("/v1/templates/{other}"))
        .send()
        .expect_empty(204);
    harness
        .app
        .get(&path)
        .send()
        .expect_error(404, "template_not_found", None);
    harness
        .app
        .get(&format!("{path}/archive"))
        .send()
        .expect_error(404, "template_not_found", None);
    harness.one("GET", "archive").send().expect(200);
}

#[test]
fn another_project_finds_neither_the_template_nor_its_destinations() {
    let harness = Harness::start();
    harness.made("archive", "recording", &s3());
    let other = other_project(&harness.app, "self_hosted");
    let change = json!({"config": s3()});
    for request in [
        harness.app.get(&harness.path),
        harness.create("mine", "recording", &s3()),
        harness.one("GET", "archive"),
        harness.one("PATCH", "archive").json(change),
        harness.one("DELETE", "archive"),
    ] {
        request
            .bearer(&other.key)
            .send()
            .expect_error(404, "template_not_found", None);
    }
    assert_eq!(harness.config("archive"), s3_shown());
    let missing = format!("/v1/templates/{NO_TEMPLATE}/destinations");
    harness
        .app
        .get(&missing)
        .send()
        .expect_error(404, "template_not_found", None);
    harness
        .app
        .get("/v1/templates/x/destinations")
        .send()
        .expect_error(400, "invalid_request", Some("id"));
    harness
        .one("GET", "a.b")
        .send()
        .expect_error(400, "invalid_request", Some("name"));
}

#[test]
fn an_update_replaces_everything_but_credentials_that_are_absent_or_hidden() {
    let harness = Harness::start();
    let made = harness.made("archive", "recording", &s3());
    harness.app.advance(std::time::Duration::from_secs(1));
    let shown = json!({
        "type": "s3", "bucket": "more", "access_key": "AKIAEXAMPLE", "secret": "***", "session_token": "***"
    });
    let changed = harness
        .patch("archive", &json!({"type": "s3", "bucket": "more"}))
        .send()
        .expect(200);
    assert_eq!((&changed["config"], &changed["id"]), (&shown, &made["id"]));
    assert_eq!(
        (&changed["created_at"], &changed["updated_at"]),
        (&made["created_at"], &json!(harness.app.now()))
    );
    // A response body can be sent back.
    assert_eq!(
        harness.patch("archive", &shown).send().expect(200)["config"],
        shown
    );
    let without = json!({"type": "s3", "bucket": "more", "access_key": "AKIA2", "secret": "new", "session_token": ""});
    let shown = json!({"type": "s3", "bucket": "more", "access_key": "AKIA2", "secret": "***"});
    assert_eq!(
        harness.patch("archive", &without).send().expect(200)["config"],
        shown
    );
    assert_eq!(harness.config("archive"), shown);
}

#[test]
fn no_credentials_are_kept_from_another_storage_type() {
    let harness = Harness::start();
    harness.made("archive", "recording", &s3());
    for (config, field) in [
        (json!({"type": "gcp", "bucket": "b"}), "config.credentials"),
        (
            json!({"type": "gcp", "bucket": "b", "credentials": "***"}),
            "config.credentials",
        ),
        (
            json!({"type": "azure", "container": "c", "account_name": "a"}),
            "config.account_key",
        ),
    ] {
        harness
            .patch("archive", &config)
            .send()
            .expect_error(400, "invalid_request", Some(field));
    }
    assert_eq!(harness.config("archive"), s3_shown());
    assert_eq!(
        harness.patch("archive", &gcp()).send().expect(200)["config"]["type"],
        "gcp"
    );
    let hidden = json!({
        "type": "s3", "bucket": "b", "access_key": "AKIA", "secret": "new", "session_token": "***"
    });
    // A configuration from another destination would be stored without its token.
    let nothing_to_keep = |request: Request| {
        request
            .send()
            .expect_error(400, "invalid_request", Some("config.session_token"));
    };
    nothing_to_keep(harness.patch("archive", &hidden));
    nothing_to_keep(harness.create("copy", "recording", &hidden));
    harness
        .patch("archive", &json!({"type": "s3", "bucket": "b"}))
        .send()
        .expect_error(400, "invalid_request", Some("config.access_key"));
}

#[test]
fn the_kind_never_changes() {
    let harness = Harness::start();
    harness.made("archive", "recording", &s3());
    harness.made("live", "rtmp", &rtmp());
    let with_kind = |name, kind: &str, config| {
        harness
            .one("PATCH", name)
            .json(json!({"kind": kind, "config": config}))
    };
    with_kind("archive", "recording", s3()).send().expect(200);
    with_kind("archive", "rtmp", rtmp())
        .send()
        .expect_error(400, "invalid_request", Some("kind"));
    with_kind("live", "recording", s3())
        .send()
        .expect_error(400, "invalid_request", Some("kind"));
    with_kind("live", "carrier", rtmp())
        .send()
        .expect_error(400, "invalid_request", Some("kind"));
    with_kind("archive", "rtmp", s3())
        .send()
        .expect_error(400, "invalid_request", Some("kind"));
    harness.patch("live", &json!({})).send().expect_error(
        400,
        "invalid_request",
        Some("config.urls"),
    );
    harness.patch("archive", &json!({})).send().expect_error(
        400,
        "invalid_request",
        Some("config.type"),
    );
    harness.patch("nowhere", &json!({})).send().expect_error(
        400,
        "invalid_request",
        Some("config.type"),
    );
    harness
        .patch("nowhere", &rtmp())
        .send()
        .expect_error(404, "destination_not_found", None);
    harness
        .patch("archive", &rtmp())
        .send()
        .expect_error(400, "invalid_request", Some("config"));
    harness
        .patch("live", &s3())
        .send()
        .expect_error(400, "invalid_request", Some("config"));
    let one = json!({"urls": ["rtmp://live.invalid/app/other"]});
    let shown = json!({"urls": ["rtmp://live.invalid/app/REDACTED"]});
    assert_eq!(
        harness.patch("live", &one).send().expect(200)["config"],
        shown
    );
}

#[test]
fn a_plan_without_the_feature_refuses_writing_after_404_and_409_and_nothing_else() {
    let harness = Harness::start();
    harness.made("archive", "recording", &s3());
    harness.made("live", "rtmp", &rtmp());
    crate::tools::conclave(
        &harness.app,
        &["project", "set-plan", &harness.app.project, "free"],
    );
    for (name, kind, config, feature) in [
        ("archive", "recording", s3(), "recording"),
        ("live", "rtmp", rtmp(), "streaming"),
    ] {
        harness.create("new", kind, &config).send().expect_error(
            402,
            "feature_not_in_plan",
            Some(feature),
        );
        harness.create(name, kind, &config).send().expect_error(
            409,
            "destination_exists",
            Some("name"),
        );
        harness
            .patch(name, &config)
            .send()
            .expect_error(402, "feature_not_in_plan", Some(feature));
        harness
            .patch("new", &config)
            .send()
            .expect_error(404, "destination_not_found", None);
        harness.one("GET", name).send().expect(200);
        harness.one("DELETE", name).send().expect_empty(204);
    }
    let path = format!("/v1/templates/{NO_TEMPLATE}/destinations");
    harness
        .app
        .post(&path)
        .json(body("a", "rtmp", &rtmp()))
        .send()
        .expect_error(404, "template_not_found", None);
}

#[test]
fn without_an_encryption_key_destinations_are_read_and_not_written() {
    let harness = Harness::start();
    harness.made("archive", "recording", &s3());
    let path = harness.path;
    harness.app.forget_keys();
    let app = harness
        .app
        .restart_with(|config| config.encryption.key_file = Some("".into()));
    let harness = Harness { app, path };
    harness
        .create("new", "recording", &s3())
        .send()
        .expect_error(503, "encryption_unavailable", None);
    harness
        .create("new", "rtmp", &rtmp())
        .send()
        .expect_error(503, "encryption_unavailable", None);
    harness
        .create("archive", "rtmp", &rtmp())
        .send()
        .expect_error(409, "destination_exists", Some("name"));
    for config in [s3(), json!({"type": "s3", "bucket": "b"})] {
        harness
            .patch("archive", &config)
            .send()
            .expect_error(503, "encryption_unavailable", None);
    }
    assert_eq!(harness.config("archive"), s3_shown());
    harness.one("DELETE", "archive").send().expect_empty(204);
}

#[test]
fn credentials_under_a_lost_key_cannot_be_kept_but_can_be_replaced() {
    let harness = Harness::start();
    harness.made("archive", "recording", &s3());
    harness.made("live", "rtmp", &rtmp());
    let harness = harness.restart_with_another_key();
    assert_eq!(harness.config("archive"), s3_shown());
    let keeping = json!({"type": "s3", "bucket": "b"});
    harness
        .patch("archive", &keeping)
        .send()
        .expect_error(503, "destination_unusable", None);
    harness.patch("live", &rtmp()).send().expect(200);
    harness.patch("archive", &s3()).send().expect(200);
    assert_eq!(
        harness.patch("archive", &keeping).send().expect(200)["config"]["bucket"],
        "b"
    );
}
