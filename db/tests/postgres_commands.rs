//! What commands do with PostgreSQL beside a server: the rotation of the key, and the check of the database server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use conclave_db::{
    Location, OlderSchema, PostgresOptions, PostgresServer, Store, StoreMetrics, StoreOptions, Vault, check_postgres,
};
use conclave_model::Secret;
use prometheus::Registry;
use support::{clock, create_project};
use test_postgres::{Cluster, ClusterOptions, Database};

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

#[actix::test]
async fn the_metrics_say_what_keeps_the_records() {
    let Some(cluster) = Cluster::installed() else { return };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let file = Location::File(dir.path().join("conclave.db"));
    for (location, engine) in [(file, "sqlite"), (location(&database), "postgresql")] {
        let metrics = Registry::new();
        open_counted(location, dir.path(), &metrics).close();
        let families = metrics.gather();
        let family = families.iter().find(|family| family.name() == "conclave_store_engine").unwrap();
        let [metric] = family.get_metric() else { panic!("{family:?}") };
        assert_eq!((metric.get_label()[0].value(), metric.get_gauge().get_value()), (engine, 1.));
    }
}

#[test]
fn a_database_server_tells_its_version_its_standby_and_whether_it_is_encrypted() {
    let Some(cluster) = Cluster::installed() else { return };
    let database = cluster.database();
    let alone = check_postgres(&server(&database)).unwrap();
    let version = database.run("SHOW server_version");
    assert_eq!((alone.version, alone.is_encrypted, alone.has_synchronous_standby), (version, false, false));

    let settings = vec!["synchronous_standby_names=*".to_owned(), "synchronous_commit=local".to_owned()];
    let encrypted = Cluster::start(ClusterOptions { tls: true, settings });
    let database = encrypted.database();
    let url = Secret::new(format!("{}?sslmode=require", database.url()));
    let root = encrypted.root_certificate();
    let server = PostgresServer::new(&url, Some(&root)).unwrap();
    let checked = check_postgres(&server).unwrap();
    assert!(checked.is_encrypted && !checked.has_synchronous_standby, "{checked:?}");
    // Nothing is written that would wait for the missing standby.
    encrypted.database().run("SELECT 1");
    database.run(&format!("ALTER DATABASE {} SET synchronous_commit = 'on'", database.name()));
    assert!(check_postgres(&server).unwrap().has_synchronous_standby);
}

/// A pooler that gives each transaction another session. It ends with this value.
struct Pooler {
    process: Child,
    port: u16,
}

impl Pooler {
    /// Starts `pgbouncer`; `None` if it is not installed.
    fn start(cluster: &Cluster, dir: &Path) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter().find(|path| Path::new(path).exists());
        let Some(program) = program else {
            eprintln!("skipped: pgbouncer is not installed");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = cluster.address();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=conclave\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\n",
            server.port()
        );
        let file = dir.join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        // It does not run as root, and another user reads the settings.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(program);
        if fs::metadata(dir).unwrap().uid() == 0 {
            command.args(["-u", "nobody"]);
        }
        let process = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pooler = Self { process, port };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            thread::yield_now();
        }
        Some(pooler)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_pooler_of_transactions_is_recognised() {
    let Some(cluster) = Cluster::installed() else { return };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let Some(pooler) = Pooler::start(cluster, dir.path()) else { return };
    let url = database.url_at(([127, 0, 0, 1], pooler.port).into());
    let server = PostgresServer::new(&Secret::new(url), None).unwrap();
    let refused = check_postgres(&server).unwrap_err().to_string();
    assert!(refused.contains("a pooler gives each transaction another session"), "{refused}");
    drop(pooler);
    database.end_sessions();
}
