//! A database that temporarily cannot be read or written.

use std::time::Duration;

use conclave_model::faults::{Fault, arm, left};
use serde_json::{Value, json};
use test_postgres::Records;

use crate::support::{Receiver, Request, Response, TestApp, Watcher, eventually};
use crate::tools::other_project;

/// A row references a missing row when the transaction commits.
pub const COMMIT_FAILS: Fault = Fault::Sql(
    "CREATE TEMP TABLE target (id INTEGER PRIMARY KEY);
     CREATE TEMP TABLE source (id INTEGER REFERENCES target (id) DEFERRABLE INITIALLY DEFERRED);
     INSERT INTO source VALUES (1)",
);
/// The file may not grow.
const FILE_IS_FULL: Fault = Fault::Sql("PRAGMA max_page_count = 1");
const FILE_HAS_SPACE: Fault = Fault::Sql("PRAGMA max_page_count = 1000000");

impl TestApp {
    /// Sends a request with a fault in its transaction.
    #[track_caller]
    fn send_with(&self, fault: Fault, request: Request) -> Response {
        let scope = self.database_scope();
        arm(&scope, "batch begun", fault);
        let answer = request.send();
        assert_eq!(left(&scope), 0, "nothing was written");
        answer
    }

    /// Makes statements that need space fail from the next transaction on.
    pub fn fill_disk(&self) {
        match &**self.records() {
            Records::File(_) => arm(&self.database_scope(), "batch begun", FILE_IS_FULL),
            Records::Server(database) => database.fill_disk(),
        }
    }

    pub fn free_disk(&self) {
        match &**self.records() {
            Records::File(_) => arm(&self.database_scope(), "batch begun", FILE_HAS_SPACE),
            Records::Server(database) => database.free_disk(),
        }
    }

    /// Returns the current status and parts of `/readyz`.
    fn readiness(&self) -> (u16, Value) {
        self.advance(Duration::from_secs(1));
        let answer = self.admin("GET", "/readyz").send();
        (answer.status, answer.json()["parts"].clone())
    }
}

#[track_caller]
pub fn assert_unavailable(answer: &Response) {
    answer.expect_error(503, "database_unavailable", None);
    assert_eq!(answer.headers["retry-after"], "1");
}

fn count(app: &TestApp, path: &str, list: &str) -> usize {
    app.get(path).send().expect(200)[list]
        .as_array()
        .unwrap()
        .len()
}

/// Proves F-3.
#[test]
fn a_change_whose_commit_fails_is_503_and_leaves_nothing_and_its_retry_runs() {
    let (app, receiver) = TestApp::start_with_receiver();
    let watcher = Watcher::open(&app.admin, "");
    app.room("a");
    let create = || {
        app.post("/v1/rooms")
            .json(json!({"name": "b"}))
            .idempotency_key("create")
    };
    assert_unavailable(&app.send_with(COMMIT_FAILS, create()));
    app.get("/v1/rooms/b")
        .send()
        .expect_error(404, "room_not_found", None);
    create().send().expect(201);

    let join = app
        .admin("POST", "/sandbox/join")
        .json(json!({"token": app.token("a", "alice", "host")}));
    app.send_with(COMMIT_FAILS, join)
        .expect_error(503, "media_unavailable", None);
    assert_eq!(count(&app, "/v1/sessions", "sessions"), 0);
    app.join("a", "alice", "host");
    // The results of deliveries are written, too, and would take the fault.
    app.settle();

    let end = || app.delete("/v1/rooms/a");
    assert_unavailable(&app.send_with(COMMIT_FAILS, end()));
    assert_eq!(app.get("/v1/rooms/a").send().expect(200)["status"], "open");
    assert_eq!(count(&app, "/v1/rooms/a/participants", "participants"), 1);
    end().send().expect_empty(204);

    let expected = [
        "room.started",
        "participant.joined",
        "participant.left",
        "room.finished",
    ];
    assert_eq!(expected.map(|_| watcher.next().event), expected);
    assert_eq!(app.event_types(&receiver), expected);
    assert_eq!(watcher.seen(), 0);
}

#[test]
fn readyz_is_503_while_commits_fail_and_healthz_is_not() {
    let app = TestApp::start();
    app.room("a");
    // Another write may consume a fault: the record of the key's first use, or the heartbeat of a server that shares its database.
    eventually(|| {
        arm(&app.database_scope(), "batch begun", COMMIT_FAILS);
        app.readiness() == (503, app.parts("unavailable"))
    });
    app.admin("GET", "/healthz").send().expect(200);
    eventually(|| app.readiness().0 == 200);
}

/// Proves F-1.
#[test]
fn on_a_full_disk_a_change_that_needs_space_is_503_and_what_was_acknowledged_is_there() {
    let app = TestApp::start();
    app.room("before");
    app.fill_disk();
    let create = |name: &str| {
        let body = json!({"name": name, "metadata": {"text": "x".repeat(4_000)}});
        app.post("/v1/rooms").json(body).send()
    };
    let names: Vec<_> = (0..40).map(|number| format!("room-{number}")).collect();
    // Sent in parallel, so that batches have several jobs.
    let answers: Vec<_> = std::thread::scope(|scope| {
        let sent: Vec<_> = names
            .iter()
            .map(|name| scope.spawn(|| create(name)))
            .collect();
        sent.into_iter().map(|sent| sent.join().unwrap()).collect()
    });
    assert!(
        answers.iter().any(|answer| answer.status == 503),
        "the file had space"
    );
    for (name, answer) in names.iter().zip(&answers) {
        let found = app.get(&format!("/v1/rooms/{name}")).send().status;
        match answer.status {
            201 => assert_eq!(found, 200, "{name}"),
            _ => {
                assert_unavailable(answer);
                assert_eq!(found, 404, "{name}");
            }
        }
    }
    app.free_disk();
    for (name, answer) in names.iter().zip(&answers) {
        assert_eq!(
            create(name).status,
            if answer.status == 201 { 409 } else { 201 },
            "{name}"
        );
    }
    assert_eq!(count(&app, "/v1/rooms?limit=200", "rooms"), 41);
}

/// Proves F-2.
#[test]
fn while_the_database_is_locked_reads_of_all_projects_go_on_and_writes_wait_or_are_503() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let other = other_project(&app, "self_hosted");
    app.endpoint(&receiver.url);
    app.room("a");
    let lock = app.records().lock();
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| app.delete("/v1/rooms/a").send());
        for key in [&app.key, &other.key] {
            for path in [
                "/v1/rooms",
                "/v1/templates",
                "/v1/sessions",
                "/v1/webhook-deliveries",
                "/v1/plan",
            ] {
                app.get(path).bearer(key).send().expect(200);
            }
        }
        app.admin("GET", "/healthz").send().expect(200);
        let (status, parts) = app.readiness();
        assert_eq!((status, &parts["database"]), (503, &json!("unavailable")));
        assert_unavailable(&refused.join().unwrap());
    });
    // This write waits, and runs once the lock is released.
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| app.delete("/v1/rooms/a").send());
        let is_waiting = |text: &str| {
            text.lines()
                .any(|line| line == "conclave_store_writes_waiting 1")
        };
        eventually(|| is_waiting(&app.admin("GET", "/metrics").send().text()));
        drop(lock);
        waits.join().unwrap()
    });
    waits.expect_empty(204);
    assert_eq!(app.readiness().0, 200);
    assert_eq!(app.event_types(&receiver), ["room.finished"]);
}

/// Proves F-11.
#[test]
fn a_thread_that_reads_survives_panics_outside_of_the_read() {
    let app = TestApp::start();
    app.room("a");
    // More requests than threads for lists.
    for _ in 0..6 {
        arm(&app.database_scope(), "list begun", Fault::Panic);
        app.get("/v1/rooms")
            .send()
            .expect_error(500, "internal_error", None);
    }
    assert_eq!(count(&app, "/v1/rooms", "rooms"), 1);
}
