//! The data directory: its permissions, backups, and commands next to a running server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::deployment::{Deployment, files};

/// Proves S-86.
#[test]
fn only_their_owner_can_read_the_files_of_a_first_start() {
    let deployment = Deployment::new();
    deployment.create_project();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&deployment.data()), 0o700);
    for name in ["conclave.db", "encryption.key", "media.key"] {
        assert_eq!(mode(&deployment.data().join(name)), 0o600, "{name}");
    }
}

#[test]
fn a_data_directory_that_cannot_be_created_exits_1() {
    let deployment = Deployment::new();
    fs::write(deployment.data(), "a file").unwrap();
    assert!(
        deployment
            .run_failing(1, &["project", "list"])
            .contains("--data")
    );
}

#[test]
fn a_backup_contains_the_records_and_overwrites_no_file() {
    let deployment = Deployment::new();
    assert!(
        deployment
            .run_failing(1, &["backup", "early.db"])
            .contains("no database")
    );
    let id = deployment.create_project();
    assert_eq!(deployment.run(&["backup", "copy.db"]).code, 0);
    let copied = fs::read(deployment.dir.path().join("copy.db")).unwrap();
    let refusal = deployment.run_failing(1, &["backup", "copy.db"]);
    assert!(
        refusal.contains("copy.db exists already") && !refusal.contains("unavailable"),
        "{refusal}"
    );
    assert!(fs::read(deployment.dir.path().join("copy.db")).unwrap() == copied);
    std::os::unix::fs::symlink("nowhere", deployment.dir.path().join("link.db")).unwrap();
    assert!(
        deployment
            .run_failing(1, &["backup", "link.db"])
            .contains("link.db exists already")
    );
    assert!(
        deployment
            .run_failing(1, &["backup", "nowhere/copy.db"])
            .contains("nowhere/copy.db")
    );

    deployment.create_project();
    let restored = Deployment::new();
    let copy = deployment.dir.path().join("copy.db");
    let found = restored.json(&["restore", copy.to_str().unwrap()]);
    assert_eq!(
        (&found["projects"], &found["rooms"], &found["secrets"]),
        (&1.into(), &0.into(), &0.into())
    );
    let listed = restored.json(&["project", "list"]);
    assert_eq!(listed["projects"].as_array().unwrap().len(), 1);
    assert_eq!(listed["projects"][0]["project_id"], id);
}

#[test]
fn a_file_is_restored_only_into_a_data_directory_without_records() {
    let deployment = Deployment::new();
    deployment.create_project();
    assert_eq!(deployment.run(&["backup", "copy.db"]).code, 0);
    let refusal = deployment.run_failing(1, &["restore", "copy.db"]);
    assert!(
        refusal.contains("has conclave.db") || refusal.contains("has conclave.db-"),
        "{refusal}"
    );

    let copy = deployment.dir.path().join("copy.db");
    let target = Deployment::new();
    assert!(
        target
            .run_failing(1, &["restore", "nothing.db"])
            .contains("no file at nothing.db")
    );
    fs::write(target.dir.path().join("other.db"), "no database").unwrap();
    assert!(
        target
            .run_failing(1, &["restore", "other.db"])
            .contains("not a database")
    );
    // Neither refusal left a file that would block the next attempt. The keys may already exist.
    fs::copy(
        deployment.data().join("media.key"),
        target.data().join("media.key"),
    )
    .unwrap();
    let restored = target.run(&["restore", copy.to_str().unwrap()]);
    assert_eq!(restored.code, 0, "{}", restored.stderr);
    assert!(
        restored.stdout.contains("not damaged") && restored.stdout.contains("last change"),
        "{}",
        restored.stdout
    );
    assert!(
        !restored.stderr.contains("media.key is missing"),
        "{}",
        restored.stderr
    );
    assert_eq!(
        fs::metadata(target.data().join("conclave.db"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    assert!(
        !target.data().join("encryption.key").exists(),
        "no key takes the place of the one that is missing"
    );
}

/// Proves S-88.
#[test]
fn a_file_with_triggers_views_or_virtual_tables_is_not_restored() {
    let deployment = Deployment::new();
    deployment.create_project();
    for (name, object) in [
        (
            "trigger",
            "CREATE TRIGGER t AFTER INSERT ON rooms BEGIN DELETE FROM projects; END",
        ),
        (
            "temporary",
            "CREATE TRIGGER t2 BEFORE UPDATE ON projects BEGIN SELECT 1; END",
        ),
        ("view", "CREATE VIEW v AS SELECT * FROM projects"),
        ("virtual", "CREATE VIRTUAL TABLE f USING fts5(x)"),
    ] {
        let copy = format!("{name}.db");
        assert_eq!(deployment.run(&["backup", &copy]).code, 0);
        let path = deployment.dir.path().join(&copy);
        Connection::open(&path)
            .unwrap()
            .execute_batch(object)
            .unwrap();
        let target = Deployment::new();
        let refusal = target.run_failing(1, &["restore", path.to_str().unwrap()]);
        assert!(
            refusal.contains("objects that no version of Conclave creates"),
            "{name}: {refusal}"
        );
        assert!(!target.data().join("conclave.db").exists());
    }
}

#[test]
fn a_restored_file_of_an_older_version_is_migrated_by_the_next_start() {
    let (old, target) = (Deployment::new(), Deployment::new());
    let older = create_older_database(&old.data());
    let found = target.json(&["restore", old.data().join("conclave.db").to_str().unwrap()]);
    assert_eq!(
        (&found["schema"], &found["last_change"]),
        (&older.into(), &Value::Null)
    );
    assert_eq!(schema(&target.data().join("conclave.db")), older);
    target.create_project();
    assert_eq!(schema(&target.data().join("conclave.db")), older + 1);
}

#[test]
fn a_second_server_on_the_same_data_directory_is_refused_and_changes_nothing() {
    let deployment = Deployment::new();
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let (mut first, line) = deployment.start_dev(&arguments[1..]);
    assert!(
        line.starts_with(r#"{"ready":true,"api":"http://127.0.0.1:"#),
        "{line}"
    );
    let ready: Value = serde_json::from_str(&line).unwrap();

    let refused = deployment.run_failing(1, &arguments);
    let keys = deployment.json(&["key", "list", ready["project_id"].as_str().unwrap()]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(refused.contains("another server"), "{refused}");
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    assert!(keys["keys"][0].get("revoked_at").is_none());
}

/// Creates an older version's database, and returns its schema version.
fn create_older_database(data: &Path) -> i64 {
    fs::create_dir_all(data).unwrap();
    let mut migrations =
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("db/src/migrations/sqlite"));
    migrations.sort();
    migrations.pop().unwrap();
    let database = Connection::open(data.join("conclave.db")).unwrap();
    for migration in &migrations {
        database
            .execute_batch(&fs::read_to_string(migration).unwrap())
            .unwrap();
    }
    let schema = i64::try_from(migrations.len()).unwrap();
    database
        .pragma_update(None, "user_version", schema)
        .unwrap();
    schema
}

fn schema(database: &Path) -> i64 {
    Connection::open(database)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

#[test]
fn no_command_migrates_the_database_of_a_running_server() {
    let deployment = Deployment::new();
    let (data, database) = (deployment.data(), deployment.data().join("conclave.db"));
    let older = create_older_database(&data);
    let server = fs::File::create(data.join("server.lock")).unwrap();
    server.try_lock().unwrap();

    let refusal = deployment.run_failing(1, &["project", "list"]);
    assert!(
        refusal.contains(&format!(
            "a server is using the database with schema {older}"
        )),
        "{refusal}"
    );
    assert!(refusal.contains("stop the server"), "{refusal}");
    let checked = deployment.run(&["check"]).stdout;
    assert!(
        checked.contains(&format!(
            "schema {older}, migrated at the next start of a server"
        )),
        "{checked}"
    );
    let copy = deployment.dir.path().join("copy.db");
    assert_eq!(deployment.run(&["backup", copy.to_str().unwrap()]).code, 0);
    assert_eq!((schema(&database), schema(&copy)), (older, older));

    drop(server);
    assert_eq!(
        deployment.json(&["project", "list"]),
        serde_json::json!({"projects": []})
    );
    assert_eq!(schema(&database), older + 1);
}
