//! Commands on records in PostgreSQL.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use test_postgres::{Cluster, Database, PASSWORD};

use crate::deployment::Deployment;

/// Creates a SQLite deployment with a project. Also returns the project's id.
fn with_file() -> (Deployment, String) {
    let deployment = Deployment::new();
    let project = deployment.create_project();
    (deployment, project)
}

/// Makes later commands use the database.
fn use_database(deployment: &mut Deployment, database: &Database<'_>) {
    deployment
        .environment
        .push(("CONCLAVE_DATABASE__URL", database.url().leak()));
}

#[test]
fn an_import_moves_the_records_of_a_file_once() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (mut deployment, project) = with_file();
    let file = deployment.data().join("conclave.db");
    let file = file.to_str().unwrap();
    let without = deployment.run_failing(1, &["import", file]);
    assert!(without.contains("database.url is not set"), "{without}");

    let database = cluster.database();
    use_database(&mut deployment, &database);
    assert!(
        deployment
            .run_failing(1, &["import", "nowhere.db"])
            .contains("no file at nowhere.db")
    );
    let imported = deployment.run(&["import", file]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    assert!(imported.stdout.starts_with("TABLE"), "{}", imported.stdout);
    assert!(
        imported
            .stdout
            .lines()
            .any(|line| line.split_whitespace().eq(["projects", "1"])),
        "{}",
        imported.stdout
    );
    assert!(
        imported
            .stdout
            .ends_with("all rows were compared: the database has what the file has\n")
    );
    assert!(!imported.stderr.contains(PASSWORD), "{}", imported.stderr);
    assert_eq!(
        deployment.json(&["project", "list"])["projects"][0]["project_id"],
        json!(project)
    );
    let again = deployment.run_failing(1, &["import", file]);
    assert!(again.contains("the database is not empty"), "{again}");
}

#[test]
fn a_file_that_a_server_uses_is_not_imported_but_a_backup_of_it_is() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (mut deployment, _) = with_file();
    assert_eq!(deployment.run(&["backup", "copy.db"]).code, 0);
    let database = cluster.database();
    use_database(&mut deployment, &database);
    let file = deployment.data().join("conclave.db");
    let lock = File::options()
        .create(true)
        .append(true)
        .open(deployment.data().join("server.lock"))
        .unwrap();
    lock.lock().unwrap();
    let refused = deployment.run_failing(1, &["import", file.to_str().unwrap()]);
    assert!(refused.contains("another server is using it"), "{refused}");
    let imported = deployment.json(&["import", "copy.db"]);
    assert!(
        imported["tables"]
            .as_array()
            .unwrap()
            .contains(&json!({"table": "projects", "rows": 1})),
        "{imported}"
    );
    assert_eq!(imported["shortened_texts"], 0);
}

#[test]
fn a_backup_is_left_to_pg_dump_and_a_key_is_rotated_in_three_steps() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let mut deployment = Deployment::new();
    use_database(&mut deployment, &database);
    deployment.create_project();
    assert!(
        deployment
            .run_failing(1, &["backup", "copy.db"])
            .contains("pg_dump")
    );
    assert!(
        deployment
            .run_failing(1, &["restore", "copy.db"])
            .contains("pg_restore")
    );
    let key = || fs::read_to_string(deployment.data().join("encryption.key")).unwrap();
    let before = key();
    let added = deployment.json(&["key-rotate"]);
    assert_eq!(
        (&added["step"], &added["of"], &added["resealed"]),
        (&json!(1), &json!(3), &json!(0))
    );
    assert!(added["next"].as_str().unwrap().contains("copy"), "{added}");
    assert!(key().starts_with(&before) && key().lines().count() == 2);
    let sealed = deployment.run(&["key-rotate"]);
    assert_eq!(sealed.code, 0, "{}", sealed.stderr);
    assert!(
        sealed
            .stdout
            .lines()
            .any(|line| line.split_whitespace().eq(["step", "2", "of", "3"])),
        "{}",
        sealed.stdout
    );
    assert_eq!(deployment.json(&["key-rotate"])["step"], 3);
    assert!(key().lines().count() == 1 && key() != before);
    assert!(!deployment.data().join("conclave.db").exists());
}

#[test]
fn what_servers_share_a_database_for_is_refused_for_a_file() {
    let deployment = Deployment::new();
    deployment.create_project();
    for command in ["migrate", "media-key-change"] {
        let refused = deployment.run_failing(1, &[command]);
        assert!(refused.contains("the records are in a file"), "{refused}");
    }
}

#[test]
fn check_says_what_a_database_server_is_and_lacks() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let mut deployment = Deployment::new();
    use_database(&mut deployment, &database);
    deployment.create_project();
    let parts = deployment.json(&["check"]);
    let parts: &Vec<Value> = parts.as_array().unwrap();
    let part = parts
        .iter()
        .find(|part| part["part"] == "database")
        .unwrap();
    assert_eq!(part["verdict"], "warning");
    let detail = part["detail"].as_str().unwrap();
    for fact in [
        "schema ",
        "PostgreSQL ",
        "no TLS",
        "round trip ",
        "no synchronous standby",
    ] {
        assert!(detail.contains(fact), "{fact}: {detail}");
    }
    assert!(!detail.contains(PASSWORD), "{detail}");
}

#[test]
fn a_database_that_cannot_store_every_text_is_refused_by_all_that_use_it() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (mut deployment, _) = with_file();
    let file = deployment.data().join("conclave.db");
    let database = cluster.database();
    let name = format!("{}_latin1", database.name());
    database.run(&format!(
        "CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    ));
    let url = database.url().replace(database.name(), &name);
    deployment
        .environment
        .push(("CONCLAVE_DATABASE__URL", url.leak()));
    let serve = ["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    for command in [
        &["migrate"][..],
        &["import", file.to_str().unwrap()],
        &["project", "list"],
        &serve,
    ] {
        let refusal = deployment.run_failing(1, command);
        assert!(
            refusal.contains("the encoding LATIN1"),
            "{command:?}: {refusal}"
        );
    }
    let checked = deployment.run(&["check"]);
    assert!(
        checked.code != 0 && checked.stdout.contains("the encoding LATIN1"),
        "{}",
        checked.stdout
    );
    database.run(&format!("DROP DATABASE {name} WITH (FORCE)"));
}

#[test]
fn check_warns_of_commits_that_wait_for_no_disk_and_of_no_second_server() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let mut deployment = Deployment::new();
    use_database(&mut deployment, &database);
    deployment.create_project();
    let detail = |setting: &str| {
        database.run(&format!(
            "ALTER DATABASE {} SET synchronous_commit = {setting}",
            database.name()
        ));
        let parts = deployment.json(&["check"]);
        let part = parts
            .as_array()
            .unwrap()
            .iter()
            .find(|part| part["part"] == "database")
            .unwrap()
            .clone();
        assert_eq!(part["verdict"], "warning");
        part["detail"].as_str().unwrap().to_owned()
    };
    let off = detail("off");
    assert!(
        off.contains("synchronous_commit = off") && off.contains("no synchronous standby"),
        "{off}"
    );
    let on = detail("on");
    assert!(
        !on.contains("synchronous_commit") && on.contains("no synchronous standby"),
        "{on}"
    );
}

/// Runs the documentation's command block on a database in the default folder.
#[test]
fn the_commands_of_the_page_about_postgresql_move_records() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (deployment, project) = with_file();
    let database = cluster.database();
    fs::rename(
        deployment.data(),
        deployment.dir.path().join("conclave-data"),
    )
    .unwrap();
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/postgresql.md"))
        .unwrap();
    let (_, block) = page.split_once("<!-- run: import -->\n```bash\n").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_conclave")).parent().unwrap();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", block.split_once("```").unwrap().0])
        .current_dir(deployment.dir.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
        .env("CONCLAVE_DATABASE__URL", database.url())
        .output()
        .unwrap();
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains(&project), "{said}");
}
