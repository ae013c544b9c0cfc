//! `conclave config`.

use std::fs;

use serde_json::{Value, json};

use crate::deployment::Deployment;

fn deployment() -> Deployment {
    let mut deployment = Deployment::new();
    let folder = deployment.dir.path().join("config");
    fs::create_dir(&folder).unwrap();
    let file = "[limits]\nburst = 50\n[webhooks]\ntick = '7s'\nretry_delays = ['1m', '2m']\n";
    fs::write(folder.join("conclave.toml"), file).unwrap();
    deployment.environment = vec![
        ("CONCLAVE_WEBHOOKS__TICK", "9s"),
        ("CONCLAVE_ADMIN__TOKEN", "hush-hush-hush-hush"),
        (
            "CONCLAVE_DATABASE__URL",
            "postgres://conclave:hush@127.0.0.1/conclave",
        ),
        (
            "CONCLAVE_BILLING__URL",
            "https://operator:hush@pay.example.org",
        ),
    ];
    deployment
}

#[test]
fn the_effective_settings_are_a_table_with_the_source_of_each_and_without_secrets() {
    let result = deployment().run(&["config", "show"]);
    assert_eq!(result.code, 0, "{}", result.stderr);
    let row = |name: &str| {
        let mut rows = result.stdout.lines();
        let row = rows
            .find(|row| row.starts_with(&format!("{name} ")))
            .unwrap();
        row.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("SETTING"), "FROM VALUE");
    assert_eq!(row("http.listen"), "default 127.0.0.1:8080");
    assert_eq!(row("limits.burst"), "config/conclave.toml 50");
    assert_eq!(row("webhooks.retry_delays"), "config/conclave.toml 1m, 2m");
    assert_eq!(row("webhooks.tick"), "CONCLAVE_WEBHOOKS__TICK 9s");
    assert_eq!(row("admin.token"), "CONCLAVE_ADMIN__TOKEN ***");
    assert_eq!(row("database.url"), "CONCLAVE_DATABASE__URL ***");
    assert_eq!(
        row("billing.url"),
        "CONCLAVE_BILLING__URL https://operator:***@pay.example.org/"
    );
    assert_eq!(row("media.rtc.turn.secret"), "default");
    assert!(!result.stdout.contains("hush"), "{}", result.stdout);
}

#[test]
fn the_effective_settings_are_json_with_values_of_their_types() {
    let deployment = deployment();
    let shown = deployment.json(&["config", "show"]);
    let setting = |name: &str| {
        let mut settings = shown["settings"].as_array().unwrap().iter();
        settings.find(|setting| setting["name"] == name).unwrap()
    };
    assert_eq!(
        *setting("limits.burst"),
        json!({"name": "limits.burst", "value": 50, "source": "file", "origin": "config/conclave.toml"})
    );
    assert_eq!(
        *setting("webhooks.tick"),
        json!({"name": "webhooks.tick", "value": "9s", "source": "environment", "origin": "CONCLAVE_WEBHOOKS__TICK"})
    );
    assert_eq!(
        *setting("media.url"),
        json!({"name": "media.url", "value": null, "source": "default"})
    );
    assert_eq!(
        setting("webhooks.retry_delays")["value"],
        json!(["1m", "2m"])
    );
    assert_eq!(setting("admin.token")["value"], "***");
    assert!(!shown.to_string().contains("hush"), "{shown}");
}

#[test]
fn an_invalid_setting_is_an_error_and_not_shown() {
    let mut deployment = Deployment::new();
    deployment.environment = vec![("CONCLAVE_LIMITS__BURST", "0")];
    let error = deployment.run_failing(2, &["config", "show"]);
    assert!(
        error.contains("limits.burst (CONCLAVE_LIMITS__BURST): must be 1 to 1000000, not 0"),
        "{error}"
    );
}

#[test]
fn the_schema_of_the_file_is_json_and_needs_no_valid_settings() {
    let mut deployment = Deployment::new();
    deployment.environment = vec![("CONCLAVE_LIMITS__BURST", "0")];
    let result = deployment.run(&["config", "schema"]);
    let schema: Value = serde_json::from_str(&result.stdout).unwrap();
    let burst = &schema["properties"]["limits"]["properties"]["burst"];
    assert_eq!((result.code, &burst["default"]), (0, &json!(40)));
}
