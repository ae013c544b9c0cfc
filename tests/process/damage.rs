//! A database file with overwritten pages: the server still starts, finds the damage, and serves the rest.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::{Value, json};
use test_postgres::Engine;

use crate::deployment::{Deployment, Running};
use crate::support::{Request, Response, eventually};

/// Without these, `conclave dev` has no project or no key. Without the list of tables, a server has nothing.
const NEEDED_BY_DEV: [&str; 3] = ["api_keys", "projects", "sqlite_schema"];

/// A table or an index, and its first page.
struct Object {
    table: String,
    is_index: bool,
    page: u64,
}

fn file(deployment: &Deployment) -> PathBuf {
    deployment.data().join("conclave.db")
}

/// Returns everything in the file's schema, and the schema itself.
fn objects(deployment: &Deployment) -> (u64, Vec<Object>) {
    let connection = Connection::open(file(deployment)).unwrap();
    let size = connection
        .query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0))
        .unwrap();
    let found = "SELECT tbl_name, type = 'index', rootpage FROM sqlite_schema WHERE rootpage > 0 ORDER BY tbl_name, name";
    let mut statement = connection.prepare(found).unwrap();
    let rows = statement.query_map([], |row| {
        let page: i64 = row.get(2)?;
        Ok(Object {
            table: row.get(0)?,
            is_index: row.get(1)?,
            page: page.try_into().unwrap(),
        })
    });
    let mut objects: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    objects.push(Object {
        table: "sqlite_schema".into(),
        is_index: false,
        page: 1,
    });
    (size.try_into().unwrap(), objects)
}

/// Overwrites the start of pages, behind the file header.
fn overwrite(deployment: &Deployment, size: u64, pages: impl IntoIterator<Item = u64>) {
    let opened = OpenOptions::new()
        .write(true)
        .open(file(deployment))
        .unwrap();
    for page in pages {
        let header = if page == 1 { 100 } else { 0 };
        opened
            .write_all_at(&[0xff; 64], (page - 1) * size + header)
            .unwrap();
    }
}

/// A change, with the tables that it writes and the other tables that it needs.
struct Change {
    request: fn(&Running, usize) -> Request,
    writes: &'static [&'static str],
    needs: &'static [&'static str],
}

const CHANGES: [Change; 6] = [
    Change {
        request: |running, number| {
            running
                .post("/v1/rooms")
                .json(json!({"name": format!("room-{number}")}))
        },
        writes: &["rooms"],
        // A room copies settings of its template.
        needs: &["projects", "api_keys", "templates"],
    },
    Change {
        request: |running, number| {
            let roles = json!({"host": {}});
            running
                .post("/v1/templates")
                .json(json!({"name": format!("template-{number}"), "roles": roles}))
        },
        writes: &["templates", "roles"],
        needs: &["projects", "api_keys"],
    },
    Change {
        request: |running, _| {
            running
                .post("/v1/rooms/standup/codes")
                .json(json!({"role": "guest"}))
        },
        writes: &["codes"],
        needs: &["projects", "api_keys", "rooms", "templates", "roles"],
    },
    Change {
        request: |running, _| {
            running
                .post("/v1/webhook-endpoints")
                .json(json!({"url": "http://127.0.0.1:1/"}))
        },
        writes: &["webhook_endpoints"],
        needs: &["projects", "api_keys"],
    },
    Change {
        request: |running, number| {
            let body = json!({"name": format!("kept-{number}")});
            running
                .post("/v1/rooms")
                .json(body)
                .idempotency_key(&number.to_string())
        },
        writes: &["rooms", "idempotency"],
        needs: &["projects", "api_keys", "templates"],
    },
    Change {
        request: |running, _| running.delete("/v1/rooms/standup"),
        writes: &["rooms", "events"],
        needs: &[
            "projects",
            "api_keys",
            "sessions",
            "tracks",
            "codes",
            "webhook_endpoints",
            "webhook_deliveries",
            "egresses",
            "ingresses",
            "sqlite_sequence",
            "usage_days",
        ],
    },
];

/// Fails unless a change has the outcome that a table's damage allows.
#[track_caller]
fn expect_allowed(change: &Change, response: &Response, table: &str) {
    let is_done = (200..300).contains(&response.status);
    if change.writes.contains(&table) {
        response.expect_error(503, "database_unavailable", None);
    } else if change.needs.contains(&table) {
        assert!(is_done || response.status == 503, "{}", response.text());
    } else {
        assert!(is_done, "{}", response.text());
    }
}

/// Starts a server on a file with damaged pages in one table, and stops it.
fn check_damage_of(deployment: &Deployment, table: &str) {
    let before = deployment.log().len();
    let log = || deployment.log()[before..].to_owned();
    let running = match deployment.spawn().ready_or_ended(deployment) {
        Ok(running) => running,
        Err(code) => {
            assert_eq!(code, Some(1), "{}", log());
            let line = log().lines().last().unwrap().to_owned();
            assert!(NEEDED_BY_DEV.contains(&table), "{table}: {line}");
            assert!(
                line.contains(&format!("is damaged: {table};"))
                    && line.contains("conclave restore"),
                "{line}"
            );
            return;
        }
    };
    eventually(|| running.admin("GET", "/readyz").send().status == 503);
    assert_eq!(
        running.admin("GET", "/readyz").send().json()["parts"]["database"],
        "unavailable"
    );
    eventually(|| log().contains(&format!("the table {table} is damaged")));
    for (number, change) in CHANGES.iter().enumerate() {
        let response = (change.request)(&running, number).send();
        expect_allowed(change, &response, table);
    }
    running.kill();
}

/// Proves F-5.
#[test]
fn a_server_starts_with_any_damaged_table_and_serves_the_others() {
    if Engine::Sqlite.is_not_chosen("PostgreSQL checks its pages itself") {
        return;
    }
    let deployment = Deployment::new();
    let mut running = deployment.start();
    running.room("standup", 600);
    running.endpoint("http://127.0.0.1:1/");
    running.join(&running.token("standup", "alice", "host"));
    running
        .post("/v1/rooms/standup/codes")
        .json(json!({"role": "guest"}))
        .send()
        .expect(201);
    running.room("ended", 600);
    running.delete("/v1/rooms/ended").send().expect_empty(204);
    assert_eq!(running.terminate(), Some(0));
    let whole = fs::read(file(&deployment)).unwrap();
    let (size, objects) = objects(&deployment);
    let tables: Vec<_> = objects
        .iter()
        .filter(|object| !object.is_index)
        .map(|object| object.table.clone())
        .collect();
    assert!(tables.len() > 19, "{tables:?}");
    for table in &tables {
        for is_index in [false, true] {
            let of_table = objects
                .iter()
                .filter(|object| object.table == *table && object.is_index == is_index);
            let pages: Vec<_> = of_table.map(|object| object.page).collect();
            if pages.is_empty() {
                continue;
            }
            for log in ["-wal", "-shm"] {
                let _ = fs::remove_file(deployment.data().join(format!("conclave.db{log}")));
            }
            fs::write(file(&deployment), &whole).unwrap();
            overwrite(&deployment, size, pages);
            check_damage_of(&deployment, table);
        }
    }
}

/// Proves F-5.
#[test]
fn a_damaged_page_in_the_middle_of_the_rooms_leaves_other_projects_what_they_can_read() {
    if Engine::Sqlite.is_not_chosen("PostgreSQL checks its pages itself") {
        return;
    }
    let deployment = Deployment::new();
    let mut running = deployment.start();
    let created = |command: &[&str], field: &str| {
        let output = deployment
            .command(&[command, &["--json"]].concat())
            .output()
            .unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value[field].as_str().unwrap().to_owned()
    };
    let project = created(&["project", "create", "--name", "other"], "project_id");
    let other = created(&["key", "create", &project], "key");
    let room = |name: &str, metadata: &str| json!({"name": name, "metadata": metadata, "empty_timeout_seconds": 600});
    running
        .post("/v1/rooms")
        .bearer(&other)
        .json(room("theirs", ""))
        .send()
        .expect(201);
    for number in 0..40 {
        let body = room(
            &format!("room-{number}"),
            &format!("mark-{number}-{}", "a".repeat(600)),
        );
        running.post("/v1/rooms").json(body).send().expect(201);
    }
    assert_eq!(running.terminate(), Some(0));
    let (size, _) = objects(&deployment);
    let bytes = fs::read(file(&deployment)).unwrap();
    let pages = bytes.chunks(size.try_into().unwrap()).zip(1..);
    let holds = |page: &[u8]| page.windows(8).any(|part| part == b"mark-20-");
    let damaged: Vec<u64> = pages
        .filter(|(page, _)| page[0] == 0x0d && holds(page))
        .map(|(_, number)| number)
        .collect();
    assert_eq!(damaged.len(), 1, "a leaf of the table");
    overwrite(&deployment, size, damaged);

    let running = deployment.start();
    eventually(|| running.admin("GET", "/readyz").send().status == 503);
    eventually(|| deployment.log().contains("the table rooms is damaged"));
    let of_other = |request: Request| request.bearer(&other).send();
    assert_eq!(
        of_other(running.get("/v1/rooms/theirs")).expect(200)["status"],
        "open"
    );
    of_other(running.post("/v1/rooms").json(room("new", ""))).expect_error(
        503,
        "database_unavailable",
        None,
    );
    of_other(
        running
            .post("/v1/webhook-endpoints")
            .json(json!({"url": "http://127.0.0.1:1/"})),
    )
    .expect(201);
    // The first project's rooms cannot all be read, so none of them counts as ended.
    running
        .delete("/v1/rooms/room-1")
        .send()
        .expect_error(503, "database_unavailable", None);
    let message = json!({"data": "aGVsbG8="});
    running
        .post("/v1/rooms/room-1/send-data")
        .json(message)
        .send()
        .expect_error(503, "database_unavailable", None);
    running
        .post("/v1/templates")
        .json(json!({"name": "a", "roles": {"host": {}}}))
        .send()
        .expect(201);
}
