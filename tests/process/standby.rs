//! Two servers on one PostgreSQL database: one is active, the other waits and takes over.

use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use test_postgres::{Cluster, Database, Pooler, Proxy};

use crate::deployment::{Deployment, Running};
use crate::support::{Request, eventually};

/// Interval at which the lease is renewed in another server's name.
const RENEWAL: Duration = Duration::from_secs(1);

/// Address of a waiting server, from its log.
pub struct Waiting {
    pub api: String,
    pub admin: String,
}

impl Waiting {
    pub fn of(deployment: &Deployment) -> Self {
        until(|| {
            let log = deployment.log();
            let line = log
                .lines()
                .rev()
                .find(|line| line.contains("waiting for the database lease"))?
                .to_owned();
            let value = |name: &str| {
                let rest = line.split(&format!("{name}=")).nth(1)?;
                Some(rest.split_whitespace().next()?.trim_matches('"').to_owned())
            };
            Some(Self {
                api: value("api")?,
                admin: value("admin")?,
            })
        })
    }

    pub fn readiness(&self) -> Value {
        Request::new("GET", format!("{}/readyz", self.admin))
            .send()
            .expect(503)
    }

    /// Waits for a role that the server knows from the database. Before its first reply, each server is a standby.
    pub fn until_role(&self, role: &str) -> Value {
        until(|| {
            Some(self.readiness())
                .filter(|ready| ready["role"] == role && ready["parts"]["database"] == "ok")
        })
    }

    pub fn get(&self, path: &str) -> Request {
        Request::new("GET", format!("{}{path}", self.admin))
    }
}

/// Waits until the server with this admin address has a role, ready or not.
pub fn until_role_at(admin: &str, role: &str) {
    until(|| {
        let ready = Request::new("GET", format!("{admin}/readyz")).try_send()?;
        (ready.json()["role"] == role).then_some(())
    });
}

/// Waits until this many servers are in the table of running servers.
pub fn until_reported(database: &Database<'_>, servers: usize) {
    eventually(|| database.run("SELECT count(*) FROM nodes").trim() == servers.to_string());
}

/// Waits until `find` returns a value.
pub fn until<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually(|| {
        found = find();
        found.is_some()
    });
    found.unwrap()
}

pub fn has_room(running: &Running, name: &str) -> bool {
    let rooms = running.get("/v1/rooms").send().expect(200);
    rooms["rooms"]
        .as_array()
        .unwrap()
        .iter()
        .any(|room| room["name"] == name)
}

fn signal(running: &Running, signal: Signal) {
    kill_process(running.pid(), signal).unwrap();
}

#[test]
fn a_second_server_is_alive_and_not_ready_and_takes_over_at_once_after_a_stop() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let first = Deployment::new().sharing(database.url());
    let mut active = first.start();
    active.room("kept", 600);
    let second = Deployment::new().sharing(format!("{}?application_name=second", database.url()));
    second.copy_keys(&first);
    let starting = second.spawn();
    let waiting = Waiting::of(&second);

    let ready = waiting.until_role("standby");
    assert_eq!(
        ready,
        json!({"ready": false, "role": "standby", "parts": {"database": "ok", "lease": "standby"}})
    );
    for listener in [&waiting.api, &waiting.admin] {
        assert_eq!(
            Request::new("GET", format!("{listener}/healthz"))
                .send()
                .expect(200),
            json!({"ok": true})
        );
    }
    let refused = Request::new("GET", format!("{}/v1/rooms", waiting.api))
        .bearer(&active.key)
        .send();
    assert_eq!(refused.headers["retry-after"], "1");
    refused.expect_error(503, "database_unavailable", None);
    let metrics = Request::new("GET", format!("{}/metrics", waiting.admin))
        .send()
        .text();
    assert!(metrics.contains("\nconclave_lease_active 0\n"), "{metrics}");
    let sessions =
        database.run("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'second'");
    assert_eq!(sessions.trim(), "1", "a standby has one session");
    let metrics = active.admin("GET", "/metrics").send().text();
    assert!(
        metrics.contains("\nconclave_lease_active 1\n")
            && metrics.contains("\nconclave_lease_epoch 1\n")
    );
    assert_eq!(
        active.admin("GET", "/debug/lease").send().expect(200)["status"],
        "active"
    );

    assert_eq!(active.terminate(), Some(0), "{}", first.log());
    let active = starting.ready(&second);
    assert!(has_room(&active, "kept"));
    active.room("later", 600);
    assert_eq!(database.run("SELECT epoch FROM leadership").trim(), "2");
}

/// Proves R-22.
#[test]
fn a_server_that_is_killed_is_replaced() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let first = Deployment::new().sharing(database.url());
    let active = first.start();
    let second = Deployment::new().sharing(database.url());
    second.copy_keys(&first);
    let starting = second.spawn();
    Waiting::of(&second).until_role("standby");
    active.room("kept", 600);
    active.kill();
    let active = starting.ready(&second);
    assert!(has_room(&active, "kept"));
}

#[test]
fn a_server_that_was_killed_takes_its_lease_over_when_it_is_started_again_and_a_copy_of_its_data_does_not()
 {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let first = Deployment::new().sharing(database.url());
    let active = first.start();
    active.room("kept", 600);
    active.kill();
    let mut session = database.session();
    let (end, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // As if it still renewed its lease: no standby notices its silence.
        scope.spawn(move || {
            while ended.recv_timeout(RENEWAL) == Err(RecvTimeoutError::Timeout) {
                session.run("UPDATE beats SET beat = beat + 1");
            }
        });
        let _end = end;
        let copy = Deployment::new().sharing(database.url());
        copy.copy_keys(&first);
        std::fs::copy(
            first.data().join("server.lock"),
            copy.data().join("server.lock"),
        )
        .unwrap();
        let _copy = copy.spawn();
        let waiting = Waiting::of(&copy);
        waiting.until_role("standby");
        let again = first.start();
        assert!(has_room(&again, "kept"));
        assert_eq!(waiting.readiness()["role"], "standby");
        assert_eq!(database.run("SELECT epoch FROM leadership").trim(), "2");
    });
}

/// Proves R-22.
#[test]
fn a_server_that_stood_still_ends_and_writes_nothing_more() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let first = Deployment::new().sharing(database.url());
    let mut stopped = first.start();
    let second = Deployment::new().sharing(database.url());
    second.copy_keys(&first);
    let starting = second.spawn();
    Waiting::of(&second).until_role("standby");
    signal(&stopped, Signal::STOP);
    // The request waits in the socket until the process continues.
    let (api, key) = (stopped.api.clone(), stopped.key.clone());
    let late = std::thread::spawn(move || {
        let body = r#"{"name":"late"}"#;
        let url = format!("{api}/v1/rooms");
        let curl = [
            "-s",
            "-X",
            "POST",
            "-H",
            "Content-Type: application/json",
            "-d",
            body,
            "-H",
        ];
        Command::new("curl")
            .args(curl)
            .arg(format!("Authorization: Bearer {key}"))
            .arg(url)
            .output()
    });
    let active = starting.ready(&second);
    signal(&stopped, Signal::CONT);
    assert_eq!(stopped.wait_for_exit(), Some(1), "{}", first.log());
    assert!(first.log().contains("another server"), "{}", first.log());
    let _ = late.join().unwrap();
    active.room("later", 600);
    assert!(!has_room(&active, "late"));
}

/// Proves R-22.
#[test]
fn a_server_whose_link_to_the_database_is_cut_is_replaced_and_ends_when_it_is_back() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let proxy = Proxy::start(cluster.address());
    let first = Deployment::new().sharing(database.url_at(proxy.address()));
    let mut cut = first.start();
    let second = Deployment::new().sharing(database.url());
    second.copy_keys(&first);
    let starting = second.spawn();
    Waiting::of(&second).until_role("standby");
    proxy.refuse();
    let active = starting.ready(&second);
    cut.post("/v1/rooms")
        .json(json!({"name": "late"}))
        .send()
        .expect_error(503, "database_unavailable", None);
    assert_eq!(
        cut.admin("GET", "/debug/lease").send().expect(200)["status"],
        "unconfirmed"
    );
    proxy.accept();
    assert_eq!(cut.wait_for_exit(), Some(1), "{}", first.log());
    assert!(!has_room(&active, "late"));
}

#[test]
fn a_server_with_other_keys_never_takes_over() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let first = Deployment::new().sharing(database.url());
    let mut active = first.start();
    let other = Deployment::new().sharing(database.url());
    let _other = other.spawn();
    let waiting = Waiting::of(&other);
    let refused = waiting.until_role("wrong_keys");
    assert!(
        refused["obstacle"]
            .as_str()
            .unwrap()
            .contains("copy encryption.key"),
        "{refused}"
    );
    assert_eq!(active.terminate(), Some(0), "{}", first.log());
    let again = first.start();
    assert_eq!(
        database.run("SELECT epoch FROM leadership").trim(),
        "2",
        "nobody was between"
    );
    assert_eq!(waiting.readiness()["role"], "wrong_keys");
    drop(again);
}

#[test]
fn each_server_shows_the_roles_of_all_and_only_the_active_one_is_ready_as_such() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let first = Deployment::new().sharing(database.url());
    let active = first.start();
    let (second, other) = (
        Deployment::new().sharing(database.url()),
        Deployment::new().sharing(database.url()),
    );
    second.copy_keys(&first);
    let _starting = [second.spawn(), other.spawn()];
    let (standby, stranger) = (Waiting::of(&second), Waiting::of(&other));
    assert_eq!(
        active
            .admin("GET", "/readyz?role=active")
            .send()
            .expect(200)["role"],
        "active"
    );
    standby.get("/readyz?role=active").send().expect(503);
    standby
        .get("/readyz?role=leader")
        .send()
        .expect_error(400, "invalid_request", Some("role"));
    stranger.until_role("wrong_keys");

    let roles = |lease: &Value| {
        let nodes = lease["nodes"].as_array().unwrap().iter();
        let mut roles: Vec<_> = nodes
            .map(|node| node["role"].as_str().unwrap().to_owned())
            .collect();
        roles.sort_unstable();
        roles
    };
    let all = ["active", "standby", "wrong_keys"];
    let seen = until(|| {
        Some(standby.get("/debug/lease").send().expect(200)).filter(|lease| roles(lease) == all)
    });
    assert_eq!(
        (&seen["role"], &seen["epoch"]),
        (&json!("standby"), &json!(1)),
        "{seen}"
    );
    assert!(seen["renewal_age_ms"].as_u64().is_some(), "{seen}");
    let of_active = seen["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["role"] == "active")
        .unwrap();
    assert_eq!(
        (&of_active["id"], &of_active["url"]),
        (&seen["holder"], &json!(active.api))
    );
    let shown = until(|| {
        Some(active.admin("GET", "/debug/lease").send().expect(200))
            .filter(|lease| roles(lease) == all)
    });
    assert_eq!(shown["role"], "active");

    let metrics = standby.get("/metrics").send().text();
    let lines = [
        "conclave_lease_epoch 1".to_owned(),
        "conclave_lease_role{role=\"standby\"} 1".to_owned(),
        "conclave_lease_role{role=\"active\"} 0".to_owned(),
        "conclave_lease_nodes{role=\"wrong_keys\"} 1".to_owned(),
        format!("conclave_lease_holder{{url=\"{}\"}} 1", active.api),
    ];
    assert!(
        lines
            .iter()
            .all(|line| metrics.contains(&format!("\n{line}\n"))),
        "{metrics}"
    );

    for page in [
        standby.get("/").send().text(),
        active.admin("GET", "/server").send().text(),
    ] {
        assert!(
            page.contains("Servers of the database") && page.contains(&active.api),
            "{page}"
        );
        assert!(
            page.contains("wrong keys") && page.contains(&stranger.api),
            "{page}"
        );
    }
    let key = std::fs::read_to_string(first.data().join("encryption.key")).unwrap();
    assert!(!seen.to_string().contains(key.trim()), "ids, no keys");
    standby
        .get("/projects")
        .send()
        .expect_error(503, "database_unavailable", None);

    let checked = first.run_command(&["check"]);
    let text = format!("epoch 1, active {} (", active.api);
    assert!(
        checked.contains(&text)
            && checked.contains(&format!("{} cannot take over: wrong_keys", stranger.api)),
        "{checked}"
    );
}

#[test]
fn servers_behind_a_pooler_that_keeps_sessions_take_over_and_behind_another_they_do_not_start() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let Some(keeping) = Pooler::start(cluster, "session", 100) else {
        return;
    };
    let first = Deployment::new().sharing(database.url_at(keeping.address()));
    let active = first.start();
    active.room("kept", 600);
    let second = Deployment::new().sharing(database.url_at(keeping.address()));
    second.copy_keys(&first);
    let starting = second.spawn();
    Waiting::of(&second).until_role("standby");
    for mode in ["transaction", "statement"] {
        let Some(mixing) = Pooler::start(cluster, mode, 20) else {
            return;
        };
        let third = Deployment::new().sharing(database.url_at(mixing.address()));
        third.copy_keys(&first);
        // Next to an active server it would be a standby.
        assert_eq!(
            third.spawn().ready_or_ended(&third).err(),
            Some(Some(1)),
            "{}",
            third.log()
        );
        assert!(third.log().contains("pool_mode=session"), "{}", third.log());
    }
    active.kill();
    let active = starting.ready(&second);
    assert!(has_room(&active, "kept"));
    active.room("later", 600);
    drop((active, keeping));
    database.end_sessions();
}
