//! Commands on PostgreSQL while a server runs: the key rotation, and the check of the database server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::fs;
use std::path::Path;
use std::thread;

use conclave_db::lease::{Role, require_media_key};
use conclave_db::{
    Location, OlderSchema, PostgresOptions, PostgresServer, RotationStep, Store, StoreMetrics,
    StoreOptions, Vault, build_indexes, check_postgres, import_file, require_suitable_postgres,
};
use conclave_model::Secret;
use prometheus::Registry;
use support::{clock, create_project};
use test_postgres::{Cluster, ClusterOptions, Database, Pooler};

/// Lock of transactions that seal.
const SEALING: &str = "BEGIN; SELECT 1 FROM pg_advisory_xact_lock_shared(5136918)";
/// Lock of a rotation.
const ROTATION: &str = "BEGIN; SELECT 1 FROM pg_advisory_xact_lock(5136918)";

fn server(database: &Database<'_>) -> PostgresServer {
    PostgresServer::new(&Secret::new(database.url()), None).unwrap()
}

/// Returns the location of a database's records.
fn location(database: &Database<'_>) -> Location {
    Location::Server(PostgresOptions {
        server: server(database),
        lanes: 1,
        readers: 4,
        epoch: None,
    })
}

/// Opens a store with an encryption key in the folder.
fn open(database: &Database<'_>, dir: &Path) -> Store {
    open_counted(location(database), dir, &Registry::new())
}

fn open_counted(location: Location, dir: &Path, metrics: &Registry) -> Store {
    Store::open(StoreOptions {
        location,
        older_schema: OlderSchema::Migrate,
        clock: clock(),
        vault: Vault::open(Some(&dir.join("encryption.key")), &Secret::new("media")).unwrap(),
        on_commit: Box::new(|_| {}),
        readers: 1,
        metrics: StoreMetrics::new(metrics).unwrap(),
    })
    .unwrap()
}

/// Waits until a transaction waits for the key lock.
async fn wait_for_waiter(database: &Database<'_>) {
    while database.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        != "1"
    {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_command_deletes_its_lanes_and_those_of_commands_that_were_killed_long_ago() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let store = open(&database, dir.path());
    let days_ago = |days: u64| {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let then = now - std::time::Duration::from_secs(24 * 3_600 * days);
        uuid::Uuid::new_v7(uuid::Timestamp::from_unix(
            uuid::NoContext,
            then.as_secs(),
            0,
        ))
    };
    let (old, new) = (days_ago(2), days_ago(0));
    database.run(&format!(
        "INSERT INTO lanes VALUES (-7, '{old}'), (-6, '{new}'), (3, '{old}')"
    ));
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(create_project(&store));
    store.close();
    assert_eq!(
        database
            .run("SELECT lane FROM lanes ORDER BY lane")
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["-6", "3"]
    );
}

/// Reports a server with these keys to the others.
fn report(database: &Database<'_>, keys: &str) {
    let now = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
    database.run(&format!(
        "INSERT INTO nodes VALUES ('n', 'https://n.example.org', NULL, '1', 1000, '{keys}', 'm', {now})
         ON CONFLICT (id) DO UPDATE SET encryption_key_ids = excluded.encryption_key_ids, seen_at = {now}"
    ));
}

/// Proves R-26.
#[actix::test]
async fn a_rotation_waits_for_every_server_seals_all_records_again_and_drops_the_old_key() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let store = open(&database, dir.path());
    let project = create_project(&store).await;
    let create = || {
        store.webhook_endpoints().create(
            project.clone(),
            "https://a.example".into(),
            Secret::new("hush"),
            None,
        )
    };
    let endpoint = create().await.unwrap();
    let seals =
        || database.run("SELECT string_agg(DISTINCT secret_key_id, ' ') FROM webhook_endpoints");
    let key = seals();
    let named = || database.run("SELECT encryption_key_id FROM leadership");
    let lines = || {
        fs::read_to_string(dir.path().join("encryption.key"))
            .unwrap()
            .lines()
            .count()
    };

    let added = store.encryption_key().rotate_shared().await.unwrap();
    assert_eq!(
        (added.step, &added.old_key_id, lines()),
        (RotationStep::Added, &key, 2)
    );
    create().await.unwrap();
    assert_eq!(seals(), key, "the new key seals nothing yet");
    report(&database, &key);
    for _ in 0..2 {
        let refused = store
            .encryption_key()
            .rotate_shared()
            .await
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("https://n.example.org") && refused.contains(&added.new_key_id),
            "{refused}"
        );
        assert_eq!(
            (seals(), named(), lines()),
            (key.clone(), String::new(), 2),
            "nothing has changed"
        );
    }

    let new = added.new_key_id;
    report(&database, &format!("{key} {new}"));
    let sealed = store.encryption_key().rotate_shared().await.unwrap();
    assert_eq!(
        (sealed.step, sealed.resealed, sealed.unopenable),
        (RotationStep::Sealed, 2, 0)
    );
    assert_eq!((seals(), named()), (new.clone(), new.clone()));
    create().await.unwrap();
    assert_eq!(
        (seals(), lines()),
        (new.clone(), 2),
        "it seals, whatever the order of the file"
    );

    // As after a step that was interrupted before everything was sealed again.
    database.run(&format!(
        "UPDATE leadership SET encryption_key_id = '{key}'"
    ));
    create().await.unwrap();
    database.run(&format!(
        "UPDATE leadership SET encryption_key_id = '{new}'"
    ));
    report(&database, &key);
    assert!(store.encryption_key().rotate_shared().await.is_err() && lines() == 2);
    report(&database, &format!("{key} {new}"));
    let dropped = store.encryption_key().rotate_shared().await.unwrap();
    assert_eq!(
        (dropped.step, dropped.resealed, lines()),
        (RotationStep::Dropped, 1, 1)
    );
    store.close();
    let store = open(&database, dir.path());
    let found = store
        .webhook_endpoints()
        .with_secrets(endpoint.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.secret.reveal(), seals()), ("hush", new.clone()));
    assert_eq!(
        store.encryption_key().rotate_shared().await.unwrap().step,
        RotationStep::Added,
        "the next one"
    );
    fs::write(
        dir.path().join("encryption.key"),
        format!("{}\n", "5e".repeat(32)),
    )
    .unwrap();
    let foreign = store
        .encryption_key()
        .rotate_shared()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        foreign.contains(&new) && foreign.contains("copy it"),
        "{foreign}"
    );
    store.close();
}

/// Proves R-26.
#[actix::test]
async fn a_rotation_and_transactions_that_seal_wait_for_each_other() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let store = open(&database, dir.path());
    let project = create_project(&store).await;
    store.encryption_key().rotate_shared().await.unwrap();

    // A secret that is being sealed when the rotation starts is finished first.
    let mut sealing = database.session();
    sealing.run(SEALING);
    let (rotation, ()) = tokio::join!(store.encryption_key().rotate_shared(), async {
        wait_for_waiter(&database).await;
        sealing.run("COMMIT");
    });
    let old = rotation.unwrap().old_key_id;

    // A transaction that waits for a rotation chooses its key after it.
    let mut rotating = database.session();
    rotating.run(ROTATION);
    let create = store.webhook_endpoints().create(
        project,
        "https://a.example".into(),
        Secret::new("s"),
        None,
    );
    let (created, ()) = tokio::join!(create, async {
        wait_for_waiter(&database).await;
        rotating.run(&format!(
            "UPDATE leadership SET encryption_key_id = '{old}'"
        ));
        rotating.run("COMMIT");
    });
    created.unwrap();
    assert_eq!(
        database.run("SELECT secret_key_id FROM webhook_endpoints"),
        old
    );
    store.close();
}

#[actix::test]
async fn the_media_key_that_servers_need_is_changed_on_purpose_only() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let require = || {
        let server = server(&database);
        thread::spawn(move || require_media_key(&server, "new").unwrap())
            .join()
            .unwrap()
    };
    assert_eq!(require(), None, "no server has used it");
    let store = open(&database, tempfile::tempdir().unwrap().path());
    database.run("UPDATE leadership SET media_key_id = 'old'");
    report(&database, "");
    let state = require().unwrap();
    assert_eq!(database.run("SELECT media_key_id FROM leadership"), "new");
    assert_eq!(
        state
            .nodes
            .iter()
            .map(|node| (node.role, node.keys.media.as_str()))
            .collect::<Vec<_>>(),
        [(Role::WrongKeys, "m")]
    );
    store.close();
}

#[actix::test]
async fn the_metrics_say_what_keeps_the_records() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let file = Location::File(dir.path().join("conclave.db"));
    for (location, engine) in [(file, "sqlite"), (location(&database), "postgresql")] {
        let metrics = Registry::new();
        open_counted(location, dir.path(), &metrics).close();
        let families = metrics.gather();
        let family = families
            .iter()
            .find(|family| family.name() == "conclave_store_engine")
            .unwrap();
        let [metric] = family.get_metric() else {
            panic!("{family:?}")
        };
        assert_eq!(
            (
                metric.get_label()[0].value(),
                metric.get_gauge().get_value()
            ),
            (engine, 1.)
        );
    }
}

#[test]
fn a_database_server_tells_its_version_its_standby_and_whether_it_is_encrypted() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let alone = check_postgres(&server(&database)).unwrap();
    let version = database.run("SHOW server_version");
    assert_eq!(
        (
            alone.version,
            alone.is_encrypted,
            alone.has_synchronous_standby
        ),
        (version, false, false)
    );

    let settings = vec![
        "synchronous_standby_names=*".to_owned(),
        "synchronous_commit=local".to_owned(),
    ];
    let encrypted = Cluster::start(ClusterOptions {
        tls: true,
        settings,
    });
    let database = encrypted.database();
    let url = Secret::new(format!("{}?sslmode=require", database.url()));
    let root = encrypted.root_certificate();
    let server = PostgresServer::new(&url, Some(&root)).unwrap();
    let checked = check_postgres(&server).unwrap();
    assert!(
        checked.is_encrypted && !checked.has_synchronous_standby,
        "{checked:?}"
    );
    // Nothing is written, which would wait for the missing standby.
    encrypted.database().run("SELECT 1");
    database.run(&format!(
        "ALTER DATABASE {} SET synchronous_commit = 'on'",
        database.name()
    ));
    assert!(check_postgres(&server).unwrap().has_synchronous_standby);
}

#[test]
fn a_pooler_that_does_not_keep_sessions_is_refused() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let file = dir.path().join("conclave.db");
    actix::System::new().block_on(async {
        open_counted(Location::File(file.clone()), dir.path(), &Registry::new()).close();
    });
    for (mode, sessions) in [
        ("transaction", 20),
        ("transaction", 1),
        ("statement", 20),
        ("statement", 1),
    ] {
        let Some(pooler) = Pooler::start(cluster, mode, sessions) else {
            return;
        };
        let server =
            PostgresServer::new(&Secret::new(database.url_at(pooler.address())), None).unwrap();
        let refusals = [
            check_postgres(&server).map(drop).unwrap_err().to_string(),
            require_suitable_postgres(&server).unwrap_err().to_string(),
            build_indexes(&server).map(drop).unwrap_err().to_string(),
            import_file(&file, &server, |_| {})
                .map(drop)
                .unwrap_err()
                .to_string(),
        ];
        for refusal in refusals {
            assert!(
                refusal.contains("a pooler gives each transaction another session"),
                "{mode}: {refusal}"
            );
        }
        drop(pooler);
        database.end_sessions();
    }
    assert_eq!(
        database
            .run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
            .trim(),
        "0"
    );
}

#[test]
fn a_pooler_that_keeps_sessions_is_used() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let Some(pooler) = Pooler::start(cluster, "session", 20) else {
        return;
    };
    let server =
        PostgresServer::new(&Secret::new(database.url_at(pooler.address())), None).unwrap();
    check_postgres(&server).unwrap();
    require_suitable_postgres(&server).unwrap();
    assert!(build_indexes(&server).unwrap().is_empty());
    drop(pooler);
    database.end_sessions();
}
