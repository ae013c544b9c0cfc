//! `/v1/templates/{id}/destinations`.

mod validation;

use std::path::Path;

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

struct Bench {
    app: TestApp,
    path: String,
}

impl Bench {
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
        Self { app: self.app.restart(), path: self.path }
    }
}

/// Every byte of the database's files.
fn database_bytes(data: &Path) -> Vec<u8> {
    let files = ["conclave.db", "conclave.db-wal", "conclave.db-shm"];
    files.iter().flat_map(|file| std::fs::read(data.join(file)).unwrap_or_default()).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_destination_is_made_read_listed_and_deleted() {
    let bench = Bench::start();
    let made = bench.made("archive", "recording", &s3());
    assert_eq!(fields(&made), ["config", "created_at", "id", "kind", "name", "template_id", "updated_at"]);
    assert!(made["id"].as_str().unwrap().parse::<conclave_model::DestinationId>().is_ok());
    assert_eq!((&made["name"], &made["kind"], &made["config"]), (&json!("archive"), &json!("recording"), &s3_shown()));
    assert_eq!((&made["created_at"], &made["updated_at"]), (&json!(bench.app.now()), &json!(bench.app.now())));
    assert_eq!(bench.one("GET", "archive").send().expect(200), made);

    bench.app.advance(std::time::Duration::from_secs(1));
    let second = bench.made("live", "rtmp", &rtmp());
    assert_eq!(
        second["config"],
        json!({"urls": ["rtmp://live.invalid/app/REDACTED", "rtmps://8.8.8.8:443/x/REDACTED"]})
    );
    assert_eq!(bench.app.get(&bench.path).send().expect(200), json!({"destinations": [second, made]}));

    bench.one("DELETE", "archive").send().expect_empty(204);
    bench.one("DELETE", "archive").send().expect_error(404, "destination_not_found", None);
    bench.one("GET", "archive").send().expect_error(404, "destination_not_found", None);
    assert_eq!(bench.app.get(&bench.path).send().expect(200)["destinations"].as_array().unwrap().len(), 1);
}

#[test]
fn each_type_of_storage_shows_what_was_sent_without_its_secrets_and_without_what_was_not() {
    let bench = Bench::start();
    let gcp = bench.made("gcp", "recording", &gcp());
    assert_eq!(gcp["config"], json!({"type": "gcp", "bucket": "calls", "credentials": "***"}));
    let azure = bench.made("azure", "recording", &azure());
    let shown = json!({"type": "azure", "container": "calls", "account_name": "acme", "account_key": "***"});
    assert_eq!(azure["config"], shown);
    let least = json!({"type": "s3", "bucket": "calls", "access_key": "AKIA", "secret": "s"});
    let shown = json!({"type": "s3", "bucket": "calls", "access_key": "AKIA", "secret": "***"});
    assert_eq!(bench.made("least", "recording", &least)["config"], shown);
}

#[test]
fn no_secret_is_in_an_answer_or_lies_open_in_the_file() {
    let bench = Bench::start();
    let mut answers = Vec::new();
    for (name, kind, config) in
        [("a", "recording", s3()), ("b", "recording", gcp()), ("c", "recording", azure()), ("d", "rtmp", rtmp())]
    {
        let create = || bench.create(name, kind, &config).idempotency_key(name).send().text();
        answers.extend([create(), create()]);
        answers.push(bench.patch(name, &config).send().text());
        answers.push(bench.one("GET", name).send().text());
    }
    // A secret in the wrong place: the refusal is kept, too.
    for (name, config) in [
        ("e", json!(STREAM_KEY)),
        ("f", json!({"urls": format!("rtmp://live.invalid/app/{STREAM_KEY}")})),
        ("g", json!({"urls": [format!("https://live.invalid/app/{STREAM_KEY}")]})),
        ("h", json!({"urls": [{"key": STREAM_KEY}]})),
    ] {
        let refused = bench.create(name, "rtmp", &config).idempotency_key(name).send();
        assert_eq!(refused.status, 400);
        answers.push(refused.text());
    }
    let refused = bench.create("i", "recording", &json!({"type": S3_SECRET})).idempotency_key("i").send();
    refused.expect_error(400, "invalid_request", Some("config.type"));
    answers.push(refused.text());
    answers.push(bench.app.get(&bench.path).send().text());
    answers.push(bench.app.admin("GET", "/debug/actors").send().text());
    let bytes = database_bytes(bench.app.data());
    assert!(holds(&bytes, "AKIAEXAMPLE"), "the right files are looked into");
    for secret in [STREAM_KEY, S3_SECRET, SESSION_TOKEN, GCP_KEY, AZURE_KEY, "p4ssw0rd"] {
        assert!(answers.iter().all(|answer| !answer.contains(secret)), "{secret}");
        assert!(!holds(&bytes, secret), "{secret}");
    }
}

#[test]
fn a_replay_gives_the_very_answer_again() {
    let bench = Bench::start();
    let first = bench.create("archive", "recording", &s3()).idempotency_key("k").send();
    let replay = bench.create("archive", "recording", &s3()).idempotency_key("k").send();
    assert_eq!((first.expect(201), first.text()), (replay.expect(201), replay.text()));
    assert_eq!(replay.headers["idempotency-replayed"], "true");
    bench.create("archive", "recording", &s3()).send().expect_error(409, "destination_exists", Some("name"));
}

#[test]
fn a_name_is_used_once_a_template_and_goes_with_it() {
    let bench = Bench::start();
    let other = template(&bench.app, "other", &json!({}));
    let path = format!("/v1/templates/{other}/destinations");
    bench.made("archive", "recording", &s3());
    bench.app.post(&path).json(body("archive", "rtmp", &rtmp())).send().expect(201);
    bench.app.delete(&format!("/v1/templates/{other}")).send().expect_empty(204);
    bench.app.get(&path).send().expect_error(404, "template_not_found", None);
    bench.app.get(&format!("{path}/archive")).send().expect_error(404, "template_not_found", None);
    bench.one("GET", "archive").send().expect(200);
}

#[test]
fn another_project_finds_neither_the_template_nor_its_destinations() {
    let bench = Bench::start();
    bench.made("archive", "recording", &s3());
    let other = other_project(&bench.app, "self_hosted");
    let change = json!({"config": s3()});
    for request in [
        bench.app.get(&bench.path),
        bench.create("mine", "recording", &s3()),
        bench.one("GET", "archive"),
        bench.one("PATCH", "archive").json(change),
        bench.one("DELETE", "archive"),
    ] {
        request.bearer(&other.key).send().expect_error(404, "template_not_found", None);
    }
    assert_eq!(bench.config("archive"), s3_shown());
    let missing = format!("/v1/templates/{NO_TEMPLATE}/destinations");
    bench.app.get(&missing).send().expect_error(404, "template_not_found", None);
    bench.app.get("/v1/templates/x/destinations").send().expect_error(400, "invalid_request", Some("id"));
    bench.one("GET", "a.b").send().expect_error(400, "invalid_request", Some("name"));
}

#[test]
fn a_change_replaces_everything_but_credentials_that_are_left_out_or_hidden() {
    let bench = Bench::start();
    let made = bench.made("archive", "recording", &s3());
    bench.app.advance(std::time::Duration::from_secs(1));
    let shown = json!({
        "type": "s3", "bucket": "more", "access_key": "AKIAEXAMPLE", "secret": "***", "session_token": "***"
    });
    let changed = bench.patch("archive", &json!({"type": "s3", "bucket": "more"})).send().expect(200);
    assert_eq!((&changed["config"], &changed["id"]), (&shown, &made["id"]));
    assert_eq!((&changed["created_at"], &changed["updated_at"]), (&made["created_at"], &json!(bench.app.now())));
    // What was read can be sent back.
    assert_eq!(bench.patch("archive", &shown).send().expect(200)["config"], shown);
    let without = json!({"type": "s3", "bucket": "more", "access_key": "AKIA2", "secret": "new", "session_token": ""});
    let shown = json!({"type": "s3", "bucket": "more", "access_key": "AKIA2", "secret": "***"});
    assert_eq!(bench.patch("archive", &without).send().expect(200)["config"], shown);
    assert_eq!(bench.config("archive"), shown);
}

#[test]
fn nothing_is_kept_from_another_type_of_storage() {
    let bench = Bench::start();
    bench.made("archive", "recording", &s3());
    for (config, field) in [
        (json!({"type": "gcp", "bucket": "b"}), "config.credentials"),
        (json!({"type": "gcp", "bucket": "b", "credentials": "***"}), "config.credentials"),
        (json!({"type": "azure", "container": "c", "account_name": "a"}), "config.account_key"),
    ] {
        bench.patch("archive", &config).send().expect_error(400, "invalid_request", Some(field));
    }
    assert_eq!(bench.config("archive"), s3_shown());
    assert_eq!(bench.patch("archive", &gcp()).send().expect(200)["config"]["type"], "gcp");
    let hidden = json!({
        "type": "s3", "bucket": "b", "access_key": "AKIA", "secret": "new", "session_token": "***"
    });
    // What was read elsewhere and is sent here would be stored without its token.
    let nothing_to_keep = |request: Request| {
        request.send().expect_error(400, "invalid_request", Some("config.session_token"));
    };
    nothing_to_keep(bench.patch("archive", &hidden));
    nothing_to_keep(bench.create("copy", "recording", &hidden));
    bench.patch("archive", &json!({"type": "s3", "bucket": "b"})).send().expect_error(
        400,
        "invalid_request",
        Some("config.access_key"),
    );
}

#[test]
fn the_kind_never_changes() {
    let bench = Bench::start();
    bench.made("archive", "recording", &s3());
    bench.made("live", "rtmp", &rtmp());
    let with_kind = |name, kind: &str, config| bench.one("PATCH", name).json(json!({"kind": kind, "config": config}));
    with_kind("archive", "recording", s3()).send().expect(200);
    with_kind("archive", "rtmp", rtmp()).send().expect_error(400, "invalid_request", Some("kind"));
    with_kind("live", "recording", s3()).send().expect_error(400, "invalid_request", Some("kind"));
    with_kind("live", "carrier", rtmp()).send().expect_error(400, "invalid_request", Some("kind"));
    with_kind("archive", "rtmp", s3()).send().expect_error(400, "invalid_request", Some("kind"));
    bench.patch("live", &json!({})).send().expect_error(400, "invalid_request", Some("config.urls"));
    bench.patch("archive", &json!({})).send().expect_error(400, "invalid_request", Some("config.type"));
    bench.patch("nowhere", &json!({})).send().expect_error(400, "invalid_request", Some("config.type"));
    bench.patch("nowhere", &rtmp()).send().expect_error(404, "destination_not_found", None);
    bench.patch("archive", &rtmp()).send().expect_error(400, "invalid_request", Some("config"));
    bench.patch("live", &s3()).send().expect_error(400, "invalid_request", Some("config"));
    let one = json!({"urls": ["rtmp://live.invalid/app/other"]});
    let shown = json!({"urls": ["rtmp://live.invalid/app/REDACTED"]});
    assert_eq!(bench.patch("live", &one).send().expect(200)["config"], shown);
}

#[test]
fn a_plan_without_the_feature_refuses_writing_after_404_and_409_and_nothing_else() {
    let bench = Bench::start();
    bench.made("archive", "recording", &s3());
    bench.made("live", "rtmp", &rtmp());
    crate::tools::conclave(&bench.app, &["project", "set-plan", &bench.app.project, "free"]);
    for (name, kind, config, feature) in
        [("archive", "recording", s3(), "recording"), ("live", "rtmp", rtmp(), "streaming")]
    {
        bench.create("new", kind, &config).send().expect_error(402, "feature_not_in_plan", Some(feature));
        bench.create(name, kind, &config).send().expect_error(409, "destination_exists", Some("name"));
        bench.patch(name, &config).send().expect_error(402, "feature_not_in_plan", Some(feature));
        bench.patch("new", &config).send().expect_error(404, "destination_not_found", None);
        bench.one("GET", name).send().expect(200);
        bench.one("DELETE", name).send().expect_empty(204);
    }
    let path = format!("/v1/templates/{NO_TEMPLATE}/destinations");
    bench.app.post(&path).json(body("a", "rtmp", &rtmp())).send().expect_error(404, "template_not_found", None);
}

#[test]
fn without_an_encryption_key_destinations_are_read_and_not_written() {
    let bench = Bench::start();
    bench.made("archive", "recording", &s3());
    let path = bench.path;
    let app = bench.app.restart_with(|config| config.encryption.key_file = Some(String::new()));
    let bench = Bench { app, path };
    bench.create("new", "recording", &s3()).send().expect_error(503, "encryption_unavailable", None);
    bench.create("new", "rtmp", &rtmp()).send().expect_error(503, "encryption_unavailable", None);
    bench.create("archive", "rtmp", &rtmp()).send().expect_error(409, "destination_exists", Some("name"));
    for config in [s3(), json!({"type": "s3", "bucket": "b"})] {
        bench.patch("archive", &config).send().expect_error(503, "encryption_unavailable", None);
    }
    assert_eq!(bench.config("archive"), s3_shown());
    bench.one("DELETE", "archive").send().expect_empty(204);
}

#[test]
fn credentials_under_a_lost_key_cannot_be_kept_but_can_be_sent_anew() {
    let bench = Bench::start();
    bench.made("archive", "recording", &s3());
    bench.made("live", "rtmp", &rtmp());
    let bench = bench.restart_with_another_key();
    assert_eq!(bench.config("archive"), s3_shown());
    let keeping = json!({"type": "s3", "bucket": "b"});
    bench.patch("archive", &keeping).send().expect_error(503, "destination_unusable", None);
    bench.patch("live", &rtmp()).send().expect(200);
    bench.patch("archive", &s3()).send().expect(200);
    assert_eq!(bench.patch("archive", &keeping).send().expect(200)["config"]["bucket"], "b");
}
