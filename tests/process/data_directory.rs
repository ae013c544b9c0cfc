//! A data directory that goes away beneath a running server, and a file in it that is damaged.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use rusqlite::Connection;
use serde_json::json;
use test_postgres::Engine;

use crate::deployment::Deployment;
use crate::support::eventually;

#[test]
fn a_server_whose_data_directory_has_gone_acknowledges_nothing_and_ends() {
    for is_replaced in [false, true] {
        let deployment = Deployment::new();
        let mut running = deployment.start();
        running.room("before", 600);
        // As if its file system were unmounted, with the empty folder beneath it.
        let moved = deployment.data().with_file_name("moved");
        fs::rename(deployment.data(), &moved).unwrap();
        if is_replaced {
            fs::create_dir(deployment.data()).unwrap();
            fs::write(deployment.data().join("server.lock"), "").unwrap();
        }
        if Engine::chosen() == Engine::Sqlite {
            // The server may have noticed it before.
            let refused = running.post("/v1/rooms").json(json!({"name": "after"})).try_send();
            assert!(refused.is_none_or(|refused| refused.status == 503), "it was acknowledged");
        }
        assert_eq!(running.wait_for_exit(), Some(1), "{}", deployment.log());
        assert!(deployment.log().contains("the data directory has gone"), "{}", deployment.log());
        let _ = fs::remove_dir_all(deployment.data());
        fs::rename(moved, deployment.data()).unwrap();
        let running = deployment.start();
        assert_eq!(running.get("/v1/rooms/before").send().expect(200)["name"], "before");
    }
}

#[test]
fn a_damaged_table_makes_the_server_unready_and_is_not_written_any_more() {
    if Engine::Sqlite.is_not_chosen("PostgreSQL checks its pages itself") {
        return;
    }
    let deployment = Deployment::new();
    let mut running = deployment.start();
    running.room("standup", 600);
    let code = || json!({"role": "guest"});
    running.post("/v1/rooms/standup/codes").json(code()).send().expect(201);
    assert_eq!(running.terminate(), Some(0));
    let path = deployment.data().join("conclave.db");
    let connection = Connection::open(&path).unwrap();
    let value = |query: &str| {
        let found = connection.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
        u64::try_from(found).unwrap()
    };
    let size = value("PRAGMA page_size");
    let page = value("SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = 'codes'");
    drop(connection);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 64], (page - 1) * size).unwrap();

    let running = deployment.start();
    eventually(|| running.admin("GET", "/readyz").send().status == 503);
    assert!(deployment.log().contains("the table codes is damaged"), "{}", deployment.log());
    running.post("/v1/rooms/standup/codes").json(code()).send().expect_error(503, "database_unavailable", None);
    // What is not damaged goes on.
    running.room("another", 600);
    assert_eq!(running.get("/v1/rooms/standup").send().expect(200)["name"], "standup");
}
