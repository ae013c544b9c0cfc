//! Import of a file into PostgreSQL.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use conclave_db::{
    CreatedApiKey, ImportError, ImportProgress, Imported, Location, PostgresServer, RoomFilter,
    Store, import_file,
};
use conclave_model::event::Departure;
use conclave_model::page::PageRequest;
use conclave_model::{ProjectId, Secret};
use rusqlite::Connection;
use support::{clock, create_project, create_room, new_room, open_at, participant};
use test_postgres::{Cluster, Database};

/// Rows for tables that [`fill`] does not write through the store, with NULL in each optional column. `$p`, `$r` and `$t` are a project, a
/// room and a template.
const OTHER_ROWS: &str = "
    INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, status, created_at)
        VALUES (x'0192f000000070008000000000000001', $p, 'Zebra', 0, 60, 'ended', 1),
               (x'0192f000000070008000000000000002', $p, 'zebra', 0, 60, 'ended', 1);
    INSERT INTO templates (id, project_id, name, region, created_at, updated_at) VALUES ('tpl_0123456789ab', $p, 't', 'auto', 1, 1);
    UPDATE projects SET default_template_id = 'tpl_0123456789ab' WHERE id = $p;
    INSERT INTO roles (template_id, name, body) VALUES ('tpl_0123456789ab', 'host', '{}');
    INSERT INTO tracks (session_id, track_sid, kind, source, muted, started_at)
        SELECT id, 'TR_1', 'audio', 'microphone', 0, 1 FROM sessions LIMIT 1;
    INSERT INTO role_changes (id, project_id, room_id, room, participant_identity, participant_sid, role, created_at)
        VALUES (x'0192f000000070008000000000000003', $p, $r, 'a', 'alice', 'PA_1', 'host', 1);
    INSERT INTO codes (id, project_id, room_id, room, role, hash, prefix, expires_at, created_at, updated_at)
        VALUES (x'0192f000000070008000000000000004', $p, $r, 'a', 'host', x'00ff', 'abcd', 1, 1, 1);
    INSERT INTO bans (id, project_id, room_id, room, participant_identity, created_at, updated_at)
        VALUES (x'0192f000000070008000000000000007', $p, $r, 'a', 'mallory', 1, 1);
    INSERT INTO revocations (id, project_id, room_id, room, participant_identity, tokens_minted_until)
        VALUES (x'0192f000000070008000000000000008', $p, $r, 'a', 'mallory', 1);
    INSERT INTO destinations (id, template_id, name, kind, config, sealed, key_id, created_at, updated_at)
        VALUES ('dst_1', 'tpl_0123456789ab', 'd', 'rtmp', '{}', x'', 'k', 1, 1);
    INSERT INTO egresses (id, project_id, room_id, room, egress_id, kind, recording_type, filepath, status, started_at, created_at)
        VALUES (x'0192f000000070008000000000000005', $p, $r, 'a', 'EG_1', 'recording', 'track', 'f', 'active', 1, 1);
    INSERT INTO uploads (egress_id, project_id) VALUES ('EG_1', $p);
    INSERT INTO ingresses (id, project_id, room_id, room, ingress_id, input_type, participant_identity, url, key_hash, status, created_at,
            updated_at)
        VALUES (x'0192f000000070008000000000000006', $p, $r, 'a', 'IN_1', 'whip', 'cam', 'u', x'01', 'inactive', 1, 1);
    INSERT INTO erasures (project_id, identity, replacement, created_at) VALUES ($p, 'alice', 'erased-1', 1);
    INSERT INTO idempotency (project_id, operation, key, caller, fingerprint, status, body, created_at)
        VALUES ($p, 'o', 'k', '', x'02', 201, x'7b7d', 1);
    INSERT INTO quality_samples (session_id, at, measures) SELECT id, 1, x'01' FROM sessions LIMIT 1;
    INSERT INTO session_quality (session_id, project_id, day, summary) SELECT id, project_id, 1, '{}' FROM sessions LIMIT 1;
    INSERT INTO heartbeat (id, at) VALUES (1, 5) ON CONFLICT DO NOTHING;
    UPDATE webhook_deliveries SET last_error = 'a' || char(0) || 'b' WHERE seq = 1;
    DELETE FROM webhook_deliveries WHERE seq = 2;";

/// Names by which the records of [`fill`] are read.
struct Known {
    project: ProjectId,
    key: CreatedApiKey,
}

/// Writes rows into every table of a new file.
async fn fill(dir: &Path) -> Known {
    let (store, clock) = (open_file(dir, Some("encryption.key")), clock());
    let project = create_project(&store).await;
    let key = store
        .api_keys()
        .create(project.clone(), "k".into())
        .await
        .unwrap();
    let url = "https://a.example".to_owned();
    store
        .webhook_endpoints()
        .create(project.clone(), url, Secret::new("s"), None)
        .await
        .unwrap();
    let room = create_room(&store, new_room(&project, "a"), None)
        .await
        .unwrap()
        .id;
    store
        .sessions()
        .record_join(
            project.clone(),
            room,
            participant("alice", "PA_1"),
            clock.now(),
        )
        .await
        .unwrap();
    let leave = store.sessions().record_leave(
        project.clone(),
        room,
        "PA_1".parse().unwrap(),
        clock.now(),
        Departure::Left,
    );
    leave.await.unwrap();
    store.close();
    let file = Connection::open(path(dir)).unwrap();
    let last: i64 = file
        .query_row("SELECT max(seq) FROM webhook_deliveries", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(
        last >= 3,
        "room.started, participant.joined and participant.left have been queued"
    );
    let rows = OTHER_ROWS
        .replace("$p", &format!("'{project}'"))
        .replace("$r", "(SELECT id FROM rooms WHERE name = 'a')");
    file.execute_batch(&rows).unwrap();
    Known { project, key }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("conclave.db")
}

/// Imports on a separate thread, as a command does.
fn import(
    file: &Path,
    database: &Database<'_>,
    progress: impl FnMut(ImportProgress) + Send,
) -> Result<Imported, ImportError> {
    let server = server(database);
    std::thread::scope(|scope| {
        scope
            .spawn(|| import_file(file, &server, progress))
            .join()
            .unwrap()
    })
}

fn server(database: &Database<'_>) -> PostgresServer {
    PostgresServer::new(&Secret::new(database.url()), None).unwrap()
}

fn open(database: &Database<'_>, dir: &Path) -> Store {
    open_at(
        support::at_server(&database.url()),
        Some(&dir.join("encryption.key")),
        &clock(),
        Box::new(|_| {}),
    )
}

/// Opens a file's store in a folder.
fn open_file(dir: &Path, key: Option<&str>) -> Store {
    let key = key.map(|name| dir.join(name));
    open_at(
        Location::File(path(dir)),
        key.as_deref(),
        &clock(),
        Box::new(|_| {}),
    )
}

/// Dumps the whole database. The omitted lines contain a random word in each dump.
fn dump(database: &Database<'_>) -> Vec<String> {
    database
        .dump()
        .lines()
        .filter(|line| !line.contains("restrict "))
        .map(str::to_owned)
        .collect()
}

fn tables(database: &Database<'_>) -> String {
    database.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
}

/// Returns a table's rows in the file and in the database, as sorted texts.
fn rows(file: &Connection, database: &Database<'_>, table: &str) -> [Vec<String>; 2] {
    let columns = database.run(&format!(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{table}' ORDER BY column_name"
    ));
    let columns: Vec<_> = columns
        .lines()
        .map(|line| line.split_once('|').unwrap())
        .collect();
    let select = |text: &dyn Fn(&str, &str) -> String| {
        let texts: Vec<_> = columns
            .iter()
            .map(|(name, of)| format!("coalesce({}, 'NULL')", text(name, of)))
            .collect();
        format!("SELECT {} FROM {table}", texts.join(" || '|' || "))
    };
    let in_file = select(&|name, of| match of {
        // Of NULL, hex makes an empty text.
        "bytea" | "uuid" => format!("iif({name} IS NULL, NULL, lower(hex({name})))"),
        _ => format!("CAST({name} AS TEXT)"),
    });
    let in_database = select(&|name, of| match of {
        "bytea" => format!("encode({name}, 'hex')"),
        "uuid" => format!("replace(CAST({name} AS TEXT), '-', '')"),
        _ => format!("CAST({name} AS TEXT)"),
    });
    let mut statement = file.prepare(&in_file).unwrap();
    let read = statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap();
    let read = read.map(|row| row.unwrap().replace('\0', "")).collect();
    let stored = database
        .run(&in_database)
        .lines()
        .map(str::to_owned)
        .collect();
    [read, stored].map(|mut rows: Vec<String>| {
        rows.sort();
        rows
    })
}

/// Proves R-25.
#[actix::test]
async fn all_rows_of_all_tables_are_imported_and_read_as_before() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let Known { project, key } = fill(dir.path()).await;
    let mut last = None;
    let imported = import(&path(dir.path()), &database, |progress| {
        last = Some(progress);
    })
    .unwrap();
    let (table, total) = *imported.tables.last().unwrap();
    assert_eq!(
        last,
        Some(ImportProgress {
            table,
            rows: total,
            total
        })
    );
    assert_eq!(imported.shortened_texts, 1);
    let file = Connection::open(path(dir.path())).unwrap();
    for (table, count) in imported.tables {
        let [read, stored] = rows(&file, &database, table);
        assert!(count > 0 && count == read.len() as u64, "{table}: {count}");
        assert_eq!(read, stored, "{table}");
    }

    let before = open_file(dir.path(), Some("encryption.key"));
    let after = open(&database, dir.path());
    let page = PageRequest::default();
    for store in [&before, &after] {
        assert_eq!(
            store
                .api_keys()
                .authenticate(key.key.lookup())
                .await
                .unwrap()
                .unwrap()
                .project_id,
            project
        );
    }
    assert_eq!(
        before
            .rooms()
            .list(project.clone(), RoomFilter::default(), page)
            .await
            .unwrap(),
        after
            .rooms()
            .list(project.clone(), RoomFilter::default(), page)
            .await
            .unwrap()
    );
    let project_before = before.projects().get(project.clone()).await.unwrap();
    assert_eq!(
        format!("{project_before:?}"),
        format!("{:?}", after.projects().get(project).await.unwrap())
    );
    after.close();
}

#[actix::test]
async fn numbers_go_on_after_the_last_one_also_if_its_row_was_deleted() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let Known { project, .. } = fill(dir.path()).await;
    let file = Connection::open(path(dir.path())).unwrap();
    file.execute_batch("DELETE FROM webhook_deliveries")
        .unwrap();
    let last: i64 = file
        .query_row(
            "SELECT seq FROM sqlite_sequence WHERE name = 'webhook_deliveries'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    import(&path(dir.path()), &database, |_| {}).unwrap();
    let store = open(&database, dir.path());
    create_room(&store, new_room(&project, "b"), None)
        .await
        .unwrap();
    let endpoint = store
        .webhook_endpoints()
        .list(project.clone(), PageRequest::default())
        .await
        .unwrap()
        .items[0]
        .id;
    store
        .webhook_endpoints()
        .send_test_event(project, endpoint)
        .await
        .unwrap();
    store.close();
    assert_eq!(
        database.run("SELECT min(seq) FROM webhook_deliveries"),
        (last + 1).to_string()
    );
}

#[actix::test]
async fn a_database_with_records_or_of_a_server_is_refused_and_not_changed() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    fill(dir.path()).await;
    import(&path(dir.path()), &database, |_| {}).unwrap();
    let before = dump(&database);
    let refusal = import(&path(dir.path()), &database, |_| {}).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the database is not empty (projects has rows): import into a new one"
    );
    assert!(dump(&database) == before, "the database has changed");

    let of_server = cluster.database();
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    open_file(&empty, None).close();
    import(&path(&empty), &of_server, |_| {}).unwrap();
    import(&path(&empty), &of_server, |_| {}).unwrap();
    of_server.run("UPDATE leadership SET epoch = 1");
    let refusal = import(&path(dir.path()), &of_server, |_| {}).unwrap_err();
    assert!(matches!(refusal, ImportError::NotEmpty(_)), "{refusal}");
}

/// Proves R-25.
#[actix::test]
async fn an_import_that_stops_leaves_the_database_empty() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    fill(dir.path()).await;
    let is_over = AtomicBool::new(false);
    let stopped = import(&path(dir.path()), &database, |progress| {
        if progress.table == "sessions" && !is_over.swap(true, Ordering::Relaxed) {
            database.end_sessions();
        }
    });
    assert!(
        matches!(
            stopped,
            Err(ImportError::Table {
                table: "tracks",
                ..
            })
        ),
        "{stopped:?}"
    );
    assert_eq!(tables(&database), "0");

    // A row that PostgreSQL refuses.
    let file = Connection::open(path(dir.path())).unwrap();
    file.execute_batch("PRAGMA ignore_check_constraints = 1; UPDATE rooms SET status = 'other' WHERE name = 'zebra'")
        .unwrap();
    let refused = import(&path(dir.path()), &database, |_| {}).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("the table rooms was not copied, and nothing was imported"),
        "{refused}"
    );
    assert_eq!(tables(&database), "0");

    file.execute_batch("UPDATE rooms SET status = 'ended' WHERE name = 'zebra'")
        .unwrap();
    import(&path(dir.path()), &database, |_| {}).unwrap();
}

/// Proves R-25.
#[actix::test]
async fn a_database_that_stores_other_rows_is_left_empty() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    fill(dir.path()).await;
    open_migrated(&database);
    database.run(
        "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name := 'other'; RETURN NEW; END $$;
         CREATE TRIGGER change BEFORE INSERT ON projects FOR EACH ROW EXECUTE FUNCTION change()",
    );
    let refused = import(&path(dir.path()), &database, |_| {}).unwrap_err();
    assert!(
        matches!(refused, ImportError::Differs("projects")),
        "{refused}"
    );
    assert_eq!(database.run("SELECT count(*) FROM projects"), "0");
}

/// Creates a database's tables.
fn open_migrated(database: &Database<'_>) {
    let dir = tempfile::tempdir().unwrap();
    open_file(dir.path(), None).close();
    import(&path(dir.path()), database, |_| {}).unwrap();
}

#[actix::test]
async fn a_file_that_has_no_records_is_refused() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, dir) = (cluster.database(), tempfile::tempdir().unwrap());
    let file = dir.path().join("other.db");
    assert!(import(&file, &database, |_| {}).is_err(), "a missing file");
    assert!(!file.exists());
    Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE other (id INTEGER)")
        .unwrap();
    let refused = import(&file, &database, |_| {}).unwrap_err();
    assert!(matches!(refused, ImportError::NoRecords(_)), "{refused}");
    assert_eq!(tables(&database), "0");
}
