//! The real program on a full disk, and after failures that only a restart repairs.

use conclave_model::faults::VARIABLE;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;
use test_postgres::Records;

use crate::deployment::{Deployment, Running};
use crate::support::{Response, eventually};

/// Makes writes that need space fail: no file of the process may grow, or the tables are full.
fn fill_disk(deployment: &Deployment, running: &Running) {
    match deployment.records() {
        Records::File(_) => {
            let log = deployment
                .data()
                .join("conclave.db-wal")
                .metadata()
                .unwrap()
                .len();
            limit_file_size(running, Some(log));
        }
        Records::Server(database) => database.fill_disk(),
    }
}

fn free_disk(deployment: &Deployment, running: &Running) {
    match deployment.records() {
        Records::File(_) => limit_file_size(running, None),
        Records::Server(database) => database.free_disk(),
    }
}

/// Limits the size of the process's files; `None` lifts the limit.
fn limit_file_size(running: &Running, bytes: Option<u64>) {
    let limit = Rlimit {
        current: bytes,
        maximum: getrlimit(Resource::Fsize).maximum,
    };
    prlimit(Some(running.pid()), Resource::Fsize, limit).unwrap();
}

fn create(running: &Running, name: &str) -> Option<Response> {
    running
        .post("/v1/rooms")
        .json(json!({"name": name}))
        .try_send()
}

/// Proves F-1.
#[test]
fn on_a_full_disk_writes_and_readyz_are_503_reads_go_on_and_space_is_enough_to_recover() {
    // Instead of an error, the process would get a signal.
    let deployment = Deployment::new().with_setup("trap '' XFSZ");
    let running = deployment.start();
    running.room("before", 600);
    fill_disk(&deployment, &running);
    for name in ["a", "b"] {
        let refused = create(&running, name).unwrap();
        refused.expect_error(503, "database_unavailable", None);
        assert_eq!(refused.headers["retry-after"], "1");
    }
    assert_eq!(
        running.get("/v1/rooms").send().expect(200)["rooms"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    eventually(|| running.admin("GET", "/readyz").send().status == 503);
    running.admin("GET", "/healthz").send().expect(200);
    free_disk(&deployment, &running);
    create(&running, "a").unwrap().expect(201);
    eventually(|| running.admin("GET", "/readyz").send().status == 200);
    running.kill();
    let running = deployment.start();
    assert_eq!(
        running.get("/v1/rooms").send().expect(200)["rooms"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

/// Creates rooms until the process ends. Returns the acknowledged ones.
fn create_until_the_end(running: &Running) -> Vec<String> {
    let names = (0..1_000).map(|number| format!("room-{number}"));
    let created = |name: &String| create(running, name).is_some_and(|answer| answer.status == 201);
    names.take_while(created).collect()
}

/// Proves F-10.
#[test]
fn the_process_exits_with_1_when_its_writer_panics_and_a_restart_has_all_that_was_acknowledged() {
    for point in ["batch begun", "batch ended"] {
        let deployment = Deployment::new();
        let mut running = deployment.start_with(Some((VARIABLE, &format!("{point}:40"))));
        let created = create_until_the_end(&running);
        assert_eq!(running.wait_for_exit(), Some(1), "{}", deployment.log());
        assert!(
            deployment
                .log()
                .contains("the thread that writes to the database ended"),
            "{}",
            deployment.log()
        );
        let running = deployment.start();
        for name in &created {
            running.get(&format!("/v1/rooms/{name}")).send().expect(200);
        }
        running.room("after", 600);
    }
}

/// Proves F-12.
#[test]
fn the_process_exits_with_1_when_its_root_actor_panics() {
    let deployment = Deployment::new();
    let mut running = deployment.start_with(Some((VARIABLE, "system.followed_report:1")));
    running.room("standup", 600);
    let endpoint = json!({"input_type": "rtmp", "participant_identity": "studio"});
    let endpoint = running
        .post("/v1/rooms/standup/ingress")
        .json(endpoint)
        .send()
        .expect(201);
    let connect = format!(
        "/sandbox/ingress/{}/connect",
        endpoint["stream_key"].as_str().unwrap()
    );
    // The encoder's join is recorded without the root, but its endpoint's status is not.
    assert_eq!(running.admin("POST", &connect).send().status, 503);
    assert_eq!(running.wait_for_exit(), Some(1), "{}", deployment.log());
    assert!(
        deployment.log().contains("the actors stopped unexpectedly"),
        "{}",
        deployment.log()
    );
    let running = deployment.start();
    running
        .get(&format!(
            "/v1/ingress/{}",
            endpoint["ingress_id"].as_str().unwrap()
        ))
        .send()
        .expect(200);
    running.join(&running.token("standup", "alice", "host"));
}
