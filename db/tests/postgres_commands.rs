//! What commands do with PostgreSQL beside a server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::thread;

use conclave_db::{Location, OlderSchema, PostgresOptions, PostgresServer, Store, StoreMetrics, StoreOptions, Vault};
use conclave_model::Secret;
use prometheus::Registry;
use support::{clock, create_project};
use test_postgres::{Cluster, Database};

/// The lock of the transactions that seal.
const SEALING: &str = "BEGIN; SELECT 1 FROM pg_advisory_xact_lock_shared(5136918)";
/// That of a rotation.
const ROTATION: &str = "BEGIN; SELECT 1 FROM pg_advisory_xact_lock(5136918)";

fn server(database: &Database<'_>) -> PostgresServer {
    PostgresServer::new(&Secret::new(database.url()), None).unwrap()
}

/// Where the records of a database are.
fn location(database: &Database<'_>) -> Location {
    Location::Server(PostgresOptions { server: server(database), lanes: 1, readers: 4, epoch: None })
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

/// Waits until a transaction waits for the lock of keys.
fn wait_for_waiter(database: &Database<'_>) {
    while database.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != "1" {
        thread::yield_now();
    }
}

#[actix::test]
async fn a_rotation_seals_all_records_again_and_tells_servers_which_key_they_need() {
    let Some(cluster) = Cluster::installed() else { return };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let store = open(&database, dir.path());
    let project = create_project(&store).await;
    let url = "https://a.example".to_owned();
    let endpoint = store.create_webhook_endpoint(project, url, Secret::new("hush"), None).await.unwrap();
    let key = database.run("SELECT secret_key_id FROM webhook_endpoints");
    database.run(&format!("UPDATE leadership SET encryption_key_id = '{key}'"));

    let rotation = store.rotate_key().await.unwrap();
    assert_eq!((rotation.resealed, rotation.unopenable, &rotation.old_key_id), (1, 0, &key));
    assert_eq!(database.run("SELECT secret_key_id FROM webhook_endpoints"), rotation.new_key_id);
    assert_eq!(database.run("SELECT encryption_key_id FROM leadership"), rotation.new_key_id);
    store.close();
    let store = open(&database, dir.path());
    let found = store.active_webhook_endpoint(endpoint.id).await.unwrap().unwrap();
    assert_eq!(found.secret.reveal(), "hush");
    store.close();
}

#[actix::test]
async fn a_rotation_and_transactions_that_seal_wait_for_each_other() {
    let Some(cluster) = Cluster::installed() else { return };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let store = open(&database, dir.path());
    let project = create_project(&store).await;

    // What is sealed when the rotation begins is finished first.
    let mut sealing = database.session();
    sealing.run(SEALING);
    let (rotation, ()) = tokio::join!(store.rotate_key(), async {
        wait_for_waiter(&database);
        sealing.run("COMMIT");
    });
    rotation.unwrap();

    // What waits for a rotation reads the key file after it.
    let mut rotating = database.session();
    rotating.run(ROTATION);
    let file = dir.path().join("encryption.key");
    let create = store.create_webhook_endpoint(project, "https://a.example".into(), Secret::new("s"), None);
    let (created, new) = tokio::join!(create, async {
        wait_for_waiter(&database);
        let old = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{}\n{old}", "5e".repeat(32))).unwrap();
        rotating.run("COMMIT");
        Vault::open(Some(&file), &Secret::new("media")).unwrap().key_id().unwrap()
    });
    created.unwrap();
    assert_eq!(database.run("SELECT secret_key_id FROM webhook_endpoints"), new);
    store.close();
}
