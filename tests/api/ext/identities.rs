//! `DELETE /ext/v1/identities/{identity}`, and `conclave erase` with a running server.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::{Response, TestApp, eventually};
use crate::tools::{conclave, other_project};

fn erase(app: &TestApp, identity: &str) -> Response {
    app.delete(&format!("/ext/v1/identities/{identity}")).send()
}

/// Returns the number of a project's sessions with an identity.
fn sessions(app: &TestApp, key: &str, identity: &str) -> usize {
    let page = app.get(&format!("/v1/sessions?identity={identity}"));
    let page = page.bearer(key).send().expect(200);
    page["sessions"].as_array().unwrap().len()
}

/// Returns the payloads of all events.
fn payloads(app: &TestApp) -> Vec<Value> {
    let path = format!("/debug/projects/{}/events?after=0", app.project);
    let page = app.admin("GET", &path).send().expect(200);
    let events = page["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| serde_json::from_str(event["payload"].as_str().unwrap()).unwrap())
        .collect()
}

/// Starts a recording and ends it with a file that was written at its end. Returns its id.
fn record(app: &TestApp, room: &str, name: &str, mut body: Value) -> String {
    body["filepath"] = json!(name);
    let started = app.post(&format!("/v1/rooms/{room}/recordings")).json(body);
    let id = started.send().expect(201)["egress_id"]
        .as_str()
        .unwrap()
        .to_owned();
    app.drive(&id, json!({"status": "complete"}));
    eventually(|| app.get(&format!("/v1/recordings/{id}")).send().json()["status"] == "complete");
    let path = file(app, name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, b"0123456789").unwrap();
    let now = Duration::from_millis(app.clock.now().millis().unsigned_abs());
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH + now)
        .unwrap();
    id
}

fn file(app: &TestApp, name: &str) -> PathBuf {
    app.data().join("recordings").join(&app.project).join(name)
}

/// Proves S-92.
#[test]
fn a_persons_rows_stay_together_under_another_identity_and_the_person_is_removed() {
    let app = TestApp::start();
    app.room("a");
    app.room("b");
    let first = app.join("a", "alice", "host");
    app.join("a", "bob", "guest");
    app.publish(&first, "audio", "microphone");
    for (changed, by) in [("bob", "alice"), ("alice", "bob")] {
        let token = app.token("a", by, "host");
        let request = app.post(&format!("/v1/rooms/a/participants/{changed}/role"));
        let request = request.bearer(&token).json(json!({"role": "host"}));
        request.send().expect(200);
    }
    app.leave(&first, true);
    // Connected while it is erased.
    app.join("b", "alice", "guest");
    let code = json!({"role": "guest", "identity": "alice"});
    let code = app.post("/v1/rooms/b/codes").json(code).send().expect(201);
    let ingress = json!({
        "input_type": "whip", "participant_identity": "alice", "participant_name": "Alice"
    });
    app.post("/v1/rooms/b/ingress")
        .json(ingress)
        .send()
        .expect(201);
    let before = payloads(&app).len();

    let erased = erase(&app, "alice").expect(200);
    let replacement = erased["replacement"].as_str().unwrap();
    assert!(replacement.starts_with("erased-") && replacement.len() == 31);
    let count = |kind: &str| erased["changed"][kind].as_u64().unwrap();
    assert_eq!(
        [
            "sessions",
            "role_changes",
            "codes",
            "ingresses",
            "recordings"
        ]
        .map(count),
        [2, 2, 1, 1, 0]
    );
    assert_eq!(
        [
            sessions(&app, &app.key, "alice"),
            sessions(&app, &app.key, replacement)
        ],
        [0, 2]
    );
    assert_eq!(sessions(&app, &app.key, "bob"), 1);
    app.get("/v1/rooms/b/participants/alice")
        .send()
        .expect_error(404, "participant_not_found", None);
    let path = format!("/v1/codes/{}/exchange", code["code"].as_str().unwrap());
    app.post(&path)
        .anonymous()
        .send()
        .expect_error(404, "code_not_found", None);
    let ingress = app.get("/v1/ingress").send().expect(200)["ingresses"][0].clone();
    assert_eq!(
        (&ingress["status"], &ingress["participant_identity"]),
        (&json!("deleted"), &json!(replacement))
    );
    assert!(ingress.get("participant_name").is_none());

    // The leave of the connected participant is an event, too.
    let payloads = payloads(&app);
    assert!(payloads.len() > before);
    let named = |identity: &str| {
        let identities = payloads.iter().flat_map(|payload| {
            ["participant_identity", "changed_by_identity"].map(|field| &payload[field])
        });
        identities.filter(|found| **found == identity).count() as u64
    };
    assert_eq!(named("alice"), 0);
    assert!(named("bob") > 0);
    assert_eq!(named(replacement), count("events"));
    let changes = app.get("/v1/rooms/a/role-changes").send().text();
    assert!(!changes.contains("alice") && changes.contains(replacement));
}

/// Proves S-92.
#[test]
fn recordings_of_the_participant_alone_are_deleted_and_the_others_are_listed() {
    let app = TestApp::start();
    app.room("a");
    app.room("elsewhere");
    app.join("elsewhere", "bob", "host");
    let sid = app.join("a", "alice", "host");
    let track = app.publish(&sid, "video", "camera");
    app.join("a", "bob", "host");
    let participant = |identity: &str| json!({"type": "participant", "identity": identity});
    record(&app, "a", "alice.mp4", participant("alice"));
    record(
        &app,
        "a",
        "track.mp4",
        json!({"type": "track", "track_id": track}),
    );
    record(&app, "a", "bob.mp4", participant("bob"));
    let together = record(&app, "a", "together.mp4", json!({"type": "room_composite"}));
    record(
        &app,
        "elsewhere",
        "elsewhere.mp4",
        json!({"type": "room_composite"}),
    );
    app.leave(&sid, true);
    app.advance(Duration::from_secs(60));
    record(&app, "a", "later.mp4", json!({"type": "room_composite"}));

    let erased = erase(&app, "alice").expect(200);
    assert_eq!(
        (&erased["deleted_files"], &erased["changed"]["recordings"]),
        (&json!(2), &json!(2))
    );
    let remaining = erased["remaining_recordings"].as_array().unwrap();
    let ids: Vec<_> = remaining.iter().map(|found| &found["egress_id"]).collect();
    assert_eq!(
        (ids, &erased["has_more"]),
        (vec![&json!(together)], &json!(false))
    );
    for (name, stays) in [
        ("alice.mp4", false),
        ("track.mp4", false),
        ("bob.mp4", true),
        ("together.mp4", true),
        ("later.mp4", true),
    ] {
        assert_eq!(file(&app, name).exists(), stays, "{name}");
    }
    let again = erase(&app, "alice").expect(200);
    assert_eq!(again["remaining_recordings"], json!([]));
}

/// Proves S-92.
#[test]
fn an_erasure_that_was_interrupted_continues_with_the_same_replacement_at_the_next_start() {
    let app = TestApp::start();
    app.room("a");
    for _ in 0..2 {
        let sid = app.join("a", "alice", "guest");
        app.leave(&sid, true);
    }
    // As if the process had ended after the first rows.
    app.records().run(&format!(
        "INSERT INTO erasures (project_id, identity, replacement, created_at) VALUES ('{}', 'alice', 'erased-1', 1);
         UPDATE sessions SET participant_identity = 'erased-1'
         WHERE id = (SELECT id FROM sessions WHERE participant_identity = 'alice' ORDER BY id LIMIT 1)",
        app.project
    ));
    let app = app.restart();
    eventually(|| app.records().value("SELECT count(*) FROM erasures") == "0");
    assert_eq!(
        [
            sessions(&app, &app.key, "alice"),
            sessions(&app, &app.key, "erased-1")
        ],
        [0, 2]
    );
    assert!(
        payloads(&app)
            .iter()
            .all(|payload| payload["participant_identity"] != "alice")
    );
}

/// Proves S-92.
#[test]
fn an_erasure_whose_request_failed_is_completed_without_a_restart() {
    let app = TestApp::start();
    app.room("a");
    let sid = app.join("a", "alice", "guest");
    app.leave(&sid, true);
    // As if the request had failed before it changed a row.
    app.records().run(&format!(
        "INSERT INTO erasures (project_id, identity, replacement, created_at) VALUES ('{}', 'alice', 'erased-1', {})",
        app.project,
        app.clock.now().millis()
    ));
    eventually(|| {
        // Repeated, in case the server was not waiting yet.
        app.advance(Duration::from_secs(10 * 60));
        app.records().value("SELECT count(*) FROM erasures") == "0"
    });
    assert_eq!(
        [
            sessions(&app, &app.key, "alice"),
            sessions(&app, &app.key, "erased-1")
        ],
        [0, 1]
    );
}

#[test]
fn a_repeated_request_with_the_key_gets_the_first_result() {
    let app = TestApp::start();
    app.room("a");
    app.join("a", "alice", "host");
    let send = || {
        app.delete("/ext/v1/identities/alice")
            .idempotency_key("k")
            .send()
    };
    let first = send().expect(200);
    assert_eq!(first["changed"]["sessions"], 1);
    assert_eq!(send().expect(200), first);
    let another = erase(&app, "alice").expect(200);
    assert_eq!(another["changed"]["sessions"], 0);
    assert_ne!(another["replacement"], first["replacement"]);
}

#[test]
fn another_projects_participant_of_the_same_identity_stays() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    app.room("a");
    let sid = app.join("a", "alice", "host");
    app.leave(&sid, true);
    let erased = app.delete("/ext/v1/identities/alice").bearer(&other.key);
    assert_eq!(erased.send().expect(200)["changed"]["sessions"], 0);
    assert_eq!(sessions(&app, &app.key, "alice"), 1);
}

#[test]
fn the_command_erases_through_the_server() {
    let app = TestApp::start();
    app.room("a");
    app.join("a", "alice", "host");
    let arguments = ["erase", &app.project, "alice", "--server", &app.admin];
    let erased = conclave(&app, &arguments);
    assert_eq!(erased["changed"]["sessions"], 1);
    let replacement = erased["replacement"].as_str().unwrap();
    assert_eq!(sessions(&app, &app.key, replacement), 1);
    for (project, identity, problem) in [
        ("prj_000000000000", "alice", "no project"),
        (app.project.as_str(), "a b", "identity"),
    ] {
        let arguments = ["erase", project, identity, "--server", &app.admin];
        let refused = app.program().args(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&refused.stderr).to_lowercase();
        assert!(
            !refused.status.success() && message.contains(problem),
            "{message}"
        );
    }
}
