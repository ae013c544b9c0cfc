//! Servers, databases and sessions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use test_postgres::{Cluster, ClusterOptions, Engine, OLDEST_VERSION, PASSWORD, Programs};

#[test]
fn databases_know_nothing_of_each_other() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (one, other) = (cluster.database(), cluster.database());
    one.run("CREATE TABLE notes (note text)");
    assert_eq!(
        other.run("SELECT count(*) FROM pg_tables WHERE tablename = 'notes'"),
        "0"
    );
    let name = one.name().to_owned();
    drop(one);
    assert_eq!(
        other.run(&format!(
            "SELECT count(*) FROM pg_database WHERE datname = '{name}'"
        )),
        "0"
    );
}

#[test]
fn the_owner_of_a_database_is_no_superuser_and_comes_by_tcp() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let psql = |text: &str| {
        let psql = Programs::find().unwrap().path("psql");
        let output = Command::new(psql)
            .args(["-X", "-A", "-t", "-d", &database.url(), "-c", text])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(
        psql("SELECT usesuper FROM pg_user WHERE usename = current_user"),
        "f"
    );
    assert_eq!(
        psql("SELECT inet_server_port()"),
        cluster.address().port().to_string()
    );
    assert_eq!(psql("CREATE TABLE notes (note text)"), "CREATE TABLE");
    assert!(!database.dump().contains(PASSWORD));
}

#[test]
fn a_prepared_database_is_prepared_once_and_copied_for_each_test() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let prepared = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let database = cluster.prepared_database("notes", |database| {
                    prepared.fetch_add(1, Ordering::Relaxed);
                    database
                        .run("CREATE TABLE notes (note text); INSERT INTO notes VALUES ('first')");
                });
                database.run("INSERT INTO notes VALUES ('second')");
                assert_eq!(
                    database.run("SELECT string_agg(note, ' ' ORDER BY note) FROM notes"),
                    "first second"
                );
            });
        }
    });
    assert_eq!(prepared.into_inner(), 1);
}

#[test]
fn a_copy_has_what_was_committed() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    database.run("CREATE TABLE notes (note text); INSERT INTO notes VALUES ('committed')");
    let mut open = database.session();
    open.run("BEGIN; INSERT INTO notes VALUES ('open')");
    let copy = database.copy();
    assert_eq!(copy.run("SELECT note FROM notes"), "committed");
    assert_eq!(database.run("SELECT note FROM notes"), "committed");
    assert!(copy.dump().contains("committed"));
}

#[test]
fn a_locked_table_is_locked_as_long_as_the_session_is_held() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    database.run("CREATE TABLE notes (note text)");
    let lock = database.lock("notes");
    let locked = "SELECT count(*) FROM pg_locks WHERE relation = 'notes'::regclass AND mode = 'AccessExclusiveLock'";
    assert_eq!(database.run(locked), "1");
    drop(lock);
    // Waits until the session has ended.
    database.run("INSERT INTO notes VALUES ('later')");
    assert_eq!(database.run(locked), "0");
}

#[test]
fn a_statement_that_fails_in_a_session_fails_the_test() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let failing = || database.session().run("SELECT * FROM missing");
    let failed = thread::scope(|scope| scope.spawn(failing).join().unwrap_err());
    let message = failed.downcast::<String>().unwrap();
    assert!(
        message.contains("relation \"missing\" does not exist"),
        "{message}"
    );
}

#[test]
fn a_killed_server_keeps_what_was_committed_and_its_port() {
    if Cluster::installed().is_none() {
        return;
    }
    let cluster = Cluster::start(ClusterOptions::default());
    let database = cluster.database();
    let address = cluster.address();
    database.run("CREATE TABLE notes (note text); INSERT INTO notes VALUES ('committed')");
    cluster.kill();
    cluster.start_again();
    assert_eq!(database.run("SELECT note FROM notes"), "committed");
    cluster.stop();
    cluster.start_again();
    assert_eq!(
        (
            database.run("SELECT note FROM notes").as_str(),
            cluster.address()
        ),
        ("committed", address)
    );
}

#[test]
fn a_server_with_tls_refuses_clients_without() {
    if Cluster::installed().is_none() {
        return;
    }
    let cluster = Cluster::start(ClusterOptions {
        tls: true,
        settings: vec!["max_connections=20".to_owned()],
    });
    let database = cluster.database();
    let psql = |parameters: &str| {
        let url = format!("{}?{parameters}", database.url());
        let psql = Programs::find().unwrap().path("psql");
        let statement = "SELECT ssl, current_setting('max_connections') FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let output = Command::new(psql)
            .args(["-X", "-A", "-t", "-d", &url, "-c", statement])
            .output()
            .unwrap();
        String::from_utf8([output.stdout, output.stderr].concat())
            .unwrap()
            .trim()
            .to_owned()
    };
    let root = cluster.root_certificate();
    assert_eq!(
        psql(&format!(
            "sslmode=verify-full&sslrootcert={}",
            root.display()
        )),
        "t|20"
    );
    assert!(
        psql("sslmode=disable").contains("no encryption"),
        "{}",
        psql("sslmode=disable")
    );
}

/// The test starts this binary again, which starts a server, and kills it.
#[test]
fn a_server_ends_with_the_process_that_uses_it_even_if_that_is_killed() {
    const ROLE: &str = "TEST_POSTGRES_IS_KILLED";
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    if std::env::var_os(ROLE).is_some() {
        println!(
            "folder {}",
            cluster.root_certificate().parent().unwrap().display()
        );
        // The test kills this process meanwhile.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let name = "a_server_ends_with_the_process_that_uses_it_even_if_that_is_killed";
    let mut again = Command::new(std::env::current_exe().unwrap());
    again
        .args(["--exact", name, "--nocapture"])
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut again = again.spawn().unwrap();
    let output = std::io::BufReader::new(again.stdout.take().unwrap());
    let folder = std::io::BufRead::lines(output)
        .find_map(|line| Some(line.unwrap().split_once("folder ")?.1.to_owned()));
    let folder = std::path::PathBuf::from(folder.unwrap());
    let pid = fs::read_to_string(folder.join("data/postmaster.pid"))
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    again.kill().unwrap();
    again.wait().unwrap();
    while folder.exists() {
        thread::yield_now();
    }
    assert!(
        !fs::exists(format!("/proc/{pid}/cwd")).unwrap_or(false),
        "server {pid} runs without its files"
    );
}

#[test]
fn an_installed_postgresql_is_new_enough() {
    if Cluster::installed().is_some() {
        assert!(Programs::find().unwrap().version() >= OLDEST_VERSION);
    }
}

#[test]
fn a_test_of_the_other_engine_is_skipped() {
    let skipped =
        [Engine::Sqlite, Engine::Postgres].map(|engine| engine.is_not_chosen("an example"));
    assert_eq!(skipped.iter().filter(|skipped| **skipped).count(), 1);
}
