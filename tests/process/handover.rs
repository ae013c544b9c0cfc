//! A server that steps down: another takes over, and the first returns as a standby in the same process.

use std::fs;

use rustix::process::Pid;
use serde_json::json;
use test_postgres::{Cluster, Engine};

use crate::deployment::Deployment;
use crate::standby::{Waiting, has_room, until, until_reported, until_role_at};
use crate::support::Request;

/// Proves R-23.
#[test]
fn a_server_steps_down_for_another_and_takes_over_again_in_the_same_process() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let first = Deployment::new().sharing(database.url());
    let mut one = first.start();
    one.room("kept", 600);
    one.join(&one.token("kept", "alice", "host"));
    let address = |admin: &str| admin.trim_start_matches("http://").to_owned();

    let alone = first.run_command(&["step-down", "--admin", &address(&one.admin)]);
    assert!(alone.contains("no other server could take over"), "{alone}");
    let refused = one.admin("POST", "/step-down").send();
    assert_eq!(
        (refused.status, &refused.json()["stepping_down"]),
        (409, &json!(false))
    );
    assert!(has_room(&one, "kept"), "it goes on");

    let second = Deployment::new().sharing(database.url());
    second.copy_keys(&first);
    let starting = second.spawn();
    let waiting = Waiting::of(&second);
    waiting.until_role("standby");
    let standby = waiting.get("/step-down");
    standby.send().expect_error(405, "method_not_allowed", None);
    let of_standby = Request::new("POST", format!("{}/step-down", waiting.admin)).send();
    assert_eq!(of_standby.status, 409);
    until_reported(&database, 2);

    let pid = one.pid();
    assert!(threads(pid, "store-reader") > 0 && threads(pid, "media-") > 0);
    let done = first.run_command(&["step-down", "--admin", &address(&one.admin), "--json"]);
    assert!(
        done.contains(&json!({"active": waiting.api, "epoch": 2}).to_string()),
        "{done}"
    );
    let mut two = starting.ready(&second);
    assert!(has_room(&two, "kept"));
    two.room("beside", 600);
    until_role_at(&one.admin, "standby");
    // A standby has one session only, and no media workers: it will bind their ports again.
    until(|| (threads(pid, "store-reader") + threads(pid, "media-") == 0).then_some(()));
    Request::new("GET", format!("{}/v1/rooms", one.api))
        .bearer(&one.key)
        .send()
        .expect_error(503, "database_unavailable", None);
    // The embedded media plane's calls have ended with it.
    until(|| {
        (two.get("/v1/sessions?active=true").send().expect(200)["sessions"] == json!([]))
            .then_some(())
    });

    assert_eq!(two.terminate(), Some(0), "{}", second.log());
    one.ready_again(&first);
    assert_eq!(one.pid(), pid);
    assert!(has_room(&one, "kept") && has_room(&one, "beside"));
    one.room("later", 600);
    one.join(&one.token("later", "alice", "host"));
    assert_eq!(database.run("SELECT epoch FROM leadership").trim(), "3");
    assert_eq!(one.terminate(), Some(0), "{}", first.log());
    assert_eq!(
        database.run("SELECT count(*) FROM nodes").trim(),
        "0",
        "both have said that they end"
    );
}

/// Returns the number of a process's threads whose names start with this.
fn threads(process: Pid, name: &str) -> usize {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_pid())).unwrap();
    // A thread that has ended meanwhile has no name.
    let names =
        threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).ok());
    names.filter(|found| found.starts_with(name)).count()
}

#[test]
fn a_server_that_shares_its_database_with_none_does_not_step_down() {
    if Engine::Sqlite.is_not_chosen("servers share no file") {
        return;
    }
    let deployment = Deployment::new();
    let running = deployment.start();
    running
        .admin("POST", "/step-down")
        .send()
        .expect_error(404, "not_found", None);
    let address = running.admin.trim_start_matches("http://");
    let refused = deployment.run_command(&["step-down", "--admin", address]);
    assert!(
        refused.contains("there is nothing to hand over"),
        "{refused}"
    );
}
