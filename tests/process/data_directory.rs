//! A data directory that disappears under a running server.

use std::fs;

use serde_json::json;
use test_postgres::Engine;

use crate::deployment::Deployment;

/// Proves F-6.
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
            let refused = running
                .post("/v1/rooms")
                .json(json!({"name": "after"}))
                .try_send();
            assert!(
                refused.is_none_or(|refused| refused.status == 503),
                "it was acknowledged"
            );
        }
        assert_eq!(running.wait_for_exit(), Some(1), "{}", deployment.log());
        assert!(
            deployment.log().contains("the data directory has gone"),
            "{}",
            deployment.log()
        );
        let _ = fs::remove_dir_all(deployment.data());
        fs::rename(moved, deployment.data()).unwrap();
        let running = deployment.start();
        assert_eq!(
            running.get("/v1/rooms/before").send().expect(200)["name"],
            "before"
        );
    }
}
