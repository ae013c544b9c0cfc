//! Rejected destination configurations, and the field in each error.

use serde_json::{Value, json};

use super::{Harness, rtmp, s3};
use crate::support::TestApp;

#[test]
fn a_malformed_configuration_is_refused_at_the_wrong_field() {
    let harness = Harness::start();
    let with = |name: &str, value: Value| {
        let mut config = s3();
        config[name] = value;
        config
    };
    let without = |name: &str| {
        let mut config = s3();
        config.as_object_mut().unwrap().remove(name);
        config
    };
    for (config, field) in [
        (json!({}), "config.type"),
        (json!([]), "config"),
        (json!("s3"), "config"),
        (with("type", json!("ftp")), "config.type"),
        (with("type", json!(null)), "config.type"),
        (with("colour", json!("red")), "config.colour"),
        (with("urls", json!([])), "config.urls"),
        (with("bucket", json!("a/b")), "config.bucket"),
        (with("bucket", json!("")), "config.bucket"),
        (with("region", json!("eu.evil.example/")), "config.region"),
        (with("region", json!(null)), "config.region"),
        (with("prefix", json!("")), "config.prefix"),
        (
            with("force_path_style", json!("yes")),
            "config.force_path_style",
        ),
        (with("secret", json!("***")), "config.secret"),
        (with("secret", json!("")), "config.secret"),
        (with("secret", json!(null)), "config.secret"),
        (with("secret", json!(7)), "config.secret"),
        (without("bucket"), "config.bucket"),
        (without("access_key"), "config.access_key"),
        (without("secret"), "config.secret"),
        (
            json!({"type": "gcp", "bucket": "b", "credentials": "***"}),
            "config.credentials",
        ),
        (
            json!({"type": "gcp", "bucket": "b", "credentials": "x", "region": "r"}),
            "config.region",
        ),
        (
            json!({"type": "azure", "container": "c", "account_name": "a"}),
            "config.account_key",
        ),
        (
            json!({"type": "azure", "container": "c", "account_key": "k"}),
            "config.account_name",
        ),
    ] {
        harness
            .create("a", "recording", &config)
            .send()
            .expect_error(400, "invalid_request", Some(field));
    }
    for (config, field) in [
        (json!({}), "config.urls"),
        (json!({"urls": []}), "config.urls"),
        (
            json!({"urls": vec!["rtmp://live.invalid/a/b"; 9]}),
            "config.urls",
        ),
        (json!({"urls": [7]}), "config.urls[0]"),
        (
            json!({"urls": ["rtmp://live.invalid/a/b"], "type": "s3"}),
            "config.type",
        ),
    ] {
        harness.create("a", "rtmp", &config).send().expect_error(
            400,
            "invalid_request",
            Some(field),
        );
    }
    assert_eq!(
        harness.app.get(&harness.path).send().expect(200),
        json!({"destinations": []})
    );
}

#[test]
fn an_invalid_url_is_refused_at_its_field() {
    let harness = Harness::start();
    let good = "rtmp://live.invalid/app/key";
    harness.made("live", "rtmp", &rtmp());
    for bad in [
        "",
        "https://live.invalid/a/b",
        "rtmp://",
        "live.invalid/a/b",
        "rtmp://live.invalid/app/REDACTED",
    ] {
        let config = json!({"urls": [good, good, bad]});
        harness.create("a", "rtmp", &config).send().expect_error(
            400,
            "invalid_url",
            Some("config.urls[2]"),
        );
        harness.patch("live", &config).send().expect_error(
            400,
            "invalid_url",
            Some("config.urls[2]"),
        );
    }
    harness.made("archive", "recording", &s3());
    for bad in [
        "",
        "minio.invalid:9000",
        "ftp://minio.invalid",
        "http://",
        "https://minio.invalid/REDACTED",
    ] {
        let mut config = s3();
        config["endpoint"] = json!(bad);
        harness
            .create("a", "recording", &config)
            .send()
            .expect_error(400, "invalid_url", Some("config.endpoint"));
        harness.patch("archive", &config).send().expect_error(
            400,
            "invalid_url",
            Some("config.endpoint"),
        );
    }
}

#[test]
fn a_host_inside_the_operators_network_is_refused_unless_it_is_allowed() {
    let harness = Harness::of(TestApp::start_with(|config| {
        config.egress.allow_networks = vec!["10.1.0.0/16".parse().unwrap()];
    }));
    harness.made("live", "rtmp", &json!({"urls": ["rtmp://10.1.2.3/a/b"]}));
    harness.made("archive", "recording", &s3());
    for host in [
        "127.0.0.1",
        "localhost",
        "10.2.0.1",
        "169.254.169.254",
        "[::1]",
        "2130706433",
    ] {
        let urls = json!({"urls": ["rtmp://10.1.2.3/a/b", format!("rtmp://{host}:1935/a/b")]});
        harness.create("a", "rtmp", &urls).send().expect_error(
            400,
            "blocked_url",
            Some("config.urls[1]"),
        );
        harness.patch("live", &urls).send().expect_error(
            400,
            "blocked_url",
            Some("config.urls[1]"),
        );
        let mut config = s3();
        config["endpoint"] = json!(format!("http://{host}:9000"));
        harness
            .create("a", "recording", &config)
            .send()
            .expect_error(400, "blocked_url", Some("config.endpoint"));
        harness.patch("archive", &config).send().expect_error(
            400,
            "blocked_url",
            Some("config.endpoint"),
        );
    }
}
