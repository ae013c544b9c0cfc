//! `conclave key-rotate` while a server runs, with SQLite records.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};
use test_postgres::Engine;

use crate::support::{Receiver, TestApp};
use crate::tools::{conclave, default_template, fields};

/// Reason why these tests need SQLite.
const SHARED: &str = "servers that share a database rotate a key in three steps";

fn key_file(app: &TestApp) -> PathBuf {
    app.data().join("encryption.key")
}

fn keys(app: &TestApp) -> Vec<String> {
    let mode = fs::metadata(key_file(app)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::read_to_string(key_file(app))
        .unwrap()
        .lines()
        .map(ToOwned::to_owned)
        .collect()
}

/// Rotates the key and returns the number of resealed records.
#[track_caller]
fn rotate(app: &TestApp) -> Value {
    let before = keys(app);
    let done = conclave(app, &["key-rotate"]);
    assert_eq!(
        fields(&done),
        ["new_key_id", "old_key_id", "resealed", "unopenable"]
    );
    assert_ne!(done["old_key_id"], done["new_key_id"]);
    let after = keys(app);
    assert!(after.len() == 1 && before.iter().all(|key| !done.to_string().contains(key)));
    assert!(!done.to_string().contains(&after[0]));
    done
}

fn s3() -> Value {
    json!({"type": "s3", "bucket": "b", "access_key": "AKIA", "secret": "hush"})
}

fn path(app: &TestApp, name: &str) -> String {
    format!(
        "/v1/templates/{}/destinations/{name}",
        default_template(app)
    )
}

fn create(app: &TestApp, name: &str) {
    let path = format!("/v1/templates/{}/destinations", default_template(app));
    app.post(&path)
        .json(json!({"name": name, "kind": "recording", "config": s3()}))
        .send()
        .expect(201);
}

/// Makes a change that keeps the credentials, so that they must be decrypted.
#[track_caller]
fn keeps(app: &TestApp, name: &str) {
    let change = json!({"config": {"type": "s3", "bucket": "c"}});
    app.patch(&path(app, name)).json(change).send().expect(200);
}

/// Proves S-89.
#[test]
fn every_sealed_record_works_with_the_new_key_without_the_old_one() {
    if Engine::Sqlite.is_not_chosen(SHARED) {
        return;
    }
    let app = TestApp::start();
    let receiver = Receiver::start();
    let endpoint = app.endpoint(&receiver.url);
    create(&app, "before");
    app.room("standup");
    let token = || {
        let body = json!({"room": "standup", "identity": "bob"});
        app.post("/v1/tokens")
            .json(body)
            .idempotency_key("t")
            .send()
            .expect(201)
    };
    let minted = token();
    let old = keys(&app);

    let done = rotate(&app);
    assert_eq!(
        (&done["resealed"], &done["unopenable"]),
        (&json!(3), &json!(0))
    );
    assert_ne!(keys(&app), old);
    assert_eq!(token(), minted, "a stored response is still there");
    keeps(&app, "before");
    create(&app, "after");
    app.join("standup", "alice", "host");
    app.deliver();
    let secret = endpoint["secret"].as_str().unwrap();
    assert!(receiver.next().is_signed_with(secret));

    let app = app.restart();
    for name in ["before", "after"] {
        keeps(&app, name);
    }
    app.join("standup", "carol", "host");
    app.deliver();
    assert!(receiver.next().is_signed_with(secret));
    // Every record is sealed with the new key: the next rotation opens them all.
    let again = rotate(&app);
    assert_eq!(
        (&again["old_key_id"], &again["unopenable"]),
        (&done["new_key_id"], &json!(0))
    );
}

#[test]
fn an_interrupted_rotation_is_completed_by_the_next_run_with_the_same_new_key() {
    if Engine::Sqlite.is_not_chosen(SHARED) {
        return;
    }
    let app = TestApp::start();
    create(&app, "before");
    let old = keys(&app).remove(0);
    // As after a crash between writing the new key file and resealing the records.
    let new = "5e".repeat(32);
    fs::write(key_file(&app), format!("{new}\n{old}\n")).unwrap();
    keeps(&app, "before");
    create(&app, "between");
    let app = app.restart();
    keeps(&app, "before");
    create(&app, "old");
    let done = rotate(&app);
    assert_eq!(keys(&app), [new]);
    // Secrets that the server wrote meanwhile are already sealed with the new key.
    assert_eq!(
        (&done["resealed"], &done["unopenable"]),
        (&json!(0), &json!(0))
    );
    let app = app.restart();
    for name in ["before", "between", "old"] {
        keeps(&app, name);
    }
}

#[test]
fn a_rotation_interrupted_before_the_records_seals_them_on_the_next_run() {
    if Engine::Sqlite.is_not_chosen(SHARED) {
        return;
    }
    let app = TestApp::start();
    create(&app, "before");
    let old = keys(&app).remove(0);
    fs::write(key_file(&app), format!("{}\n{old}\n", "5e".repeat(32))).unwrap();
    assert_eq!(rotate(&app)["resealed"], 1);
    keeps(&app, "before");
    keeps(&app.restart(), "before");
}

#[test]
fn records_that_cannot_be_decrypted_are_counted_and_left() {
    if Engine::Sqlite.is_not_chosen(SHARED) {
        return;
    }
    let app = TestApp::start();
    create(&app, "lost");
    fs::write(key_file(&app), format!("{}\n", "5e".repeat(32))).unwrap();
    app.forget_keys();
    let app = app.restart();
    create(&app, "found");
    let done = rotate(&app);
    assert_eq!(
        (&done["resealed"], &done["unopenable"]),
        (&json!(1), &json!(1))
    );
    keeps(&app, "found");
    let change = json!({"config": {"type": "s3", "bucket": "c"}});
    app.patch(&path(&app, "lost"))
        .json(change)
        .send()
        .expect_error(503, "destination_unusable", None);
    app.patch(&path(&app, "lost"))
        .json(json!({"config": s3()}))
        .send()
        .expect(200);
}

#[test]
fn destinations_written_during_repeated_rotations_can_all_be_decrypted() {
    if Engine::Sqlite.is_not_chosen(SHARED) {
        return;
    }
    let app = TestApp::start();
    create(&app, "d0");
    std::thread::scope(|scope| {
        let rotating = scope.spawn(|| (0..4).for_each(|_| drop(rotate(&app))));
        for number in 1..40 {
            create(&app, &format!("d{number}"));
            keeps(&app, &format!("d{}", number - 1));
        }
        rotating.join().unwrap();
    });
    assert_eq!(rotate(&app)["unopenable"], 0);
    let app = app.restart();
    (0..40).for_each(|number| keeps(&app, &format!("d{number}")));
}

fn run(app: &TestApp, arguments: &[&str]) -> Output {
    app.program()
        .args(arguments)
        .env(
            "CONCLAVE_ENCRYPTION__KEY_FILE",
            app.data().join("encryption.key"),
        )
        .output()
        .unwrap()
}

#[test]
fn the_output_is_a_table_and_a_missing_key_or_key_file_is_reported() {
    if Engine::Sqlite.is_not_chosen(SHARED) {
        return;
    }
    let app = TestApp::start();
    let output = run(&app, &["key-rotate"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        names,
        ["old_key_id", "new_key_id", "resealed", "unopenable"]
    );

    fs::remove_file(key_file(&app)).unwrap();
    let missing = run(&app, &["key-rotate"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no encryption key at"));
    assert!(!key_file(&app).exists(), "none is made in its place");

    let config = app.data().join("without.toml");
    fs::write(&config, "[encryption]\nkey_file = \"\"\n").unwrap();
    let output = app
        .program()
        .args(["--config", config.to_str().unwrap(), "key-rotate"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("encryption.key_file is empty"));
}

#[test]
fn a_server_without_its_key_file_seals_no_record_until_the_file_is_back() {
    let app = TestApp::start();
    create(&app, "before");
    let text = fs::read_to_string(key_file(&app)).unwrap();
    fs::remove_file(key_file(&app)).unwrap();
    let change = json!({"config": {"type": "s3", "bucket": "c"}});
    let refused = app.patch(&path(&app, "before")).json(change).send();
    refused.expect_error(503, "database_unavailable", None);
    assert!(
        !refused.text().contains("encryption.key"),
        "where it lies is for the log"
    );
    app.get(&path(&app, "before")).send().expect(200);
    fs::write(key_file(&app), text).unwrap();
    fs::set_permissions(key_file(&app), fs::Permissions::from_mode(0o600)).unwrap();
    keeps(&app, "before");
}
