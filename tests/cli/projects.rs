//! Commands on projects and API keys.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::deployment::{Deployment, UNKNOWN_PROJECT, files};

const PROJECT_FIELDS: [&str; 6] = ["created_at", "env", "name", "plan", "project_id", "status"];

fn field_names(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn contains(file: &Path, text: &str) -> bool {
    fs::read(file)
        .unwrap()
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[test]
fn a_project_can_be_created_shown_listed_and_changed() {
    let deployment = Deployment::new();
    assert_eq!(
        deployment.json(&["project", "list"]),
        serde_json::json!({"projects": []})
    );
    let created = deployment.json(&[
        "project", "create", "--name", "Acme", "--env", "test", "--plan", "free",
    ]);
    assert_eq!(field_names(&created), PROJECT_FIELDS);
    assert_eq!(
        (&created["name"], &created["env"], &created["plan"]),
        (&"Acme".into(), &"test".into(), &"free".into())
    );
    let id = created["project_id"].as_str().unwrap();
    assert!(id.starts_with("prj_") && id.len() == 16, "{id}");
    assert_eq!(deployment.json(&["project", "show", id]), created);

    let second = deployment.create_project();
    let listed = deployment.json(&["project", "list"]);
    assert_eq!(listed["projects"].as_array().unwrap().len(), 2);
    assert_eq!(listed["projects"][0], created);
    assert_eq!(listed["projects"][1]["project_id"], second);
    assert_eq!(
        (
            &listed["projects"][1]["env"],
            &listed["projects"][1]["plan"]
        ),
        (&"live".into(), &"self_hosted".into())
    );

    assert_eq!(
        deployment.json(&["project", "suspend", id])["status"],
        "suspended"
    );
    assert_eq!(
        deployment.json(&["project", "show", id])["status"],
        "suspended"
    );
    assert_eq!(
        deployment.json(&["project", "resume", id])["status"],
        "active"
    );
    assert_eq!(
        deployment.json(&["project", "set-plan", id, "pro"])["plan"],
        "pro"
    );
    assert_eq!(
        field_names(&deployment.json(&["project", "credit", id, "5000"])),
        PROJECT_FIELDS
    );
    let shown = deployment.run(&["project", "show", id]).stdout;
    assert!(
        shown
            .lines()
            .any(|line| line == "balance_ugx          5000"),
        "{shown}"
    );
}

#[test]
fn a_project_has_a_default_template_unless_it_is_created_empty() {
    let deployment = Deployment::new();
    let template = |arguments: &[&str]| {
        let create = ["project", "create", "--name", "Acme"];
        let created = deployment.json(&[&create[..], arguments].concat());
        let id = created["project_id"].as_str().unwrap();
        let shown = deployment.run(&["project", "show", id]).stdout;
        let line = shown
            .lines()
            .find(|line| line.starts_with("default_template_id"));
        line.unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    assert!(template(&[]).starts_with("tpl_"));
    assert_eq!(template(&["--empty"]), "-");
}

#[test]
fn a_key_can_expire() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    let created = deployment.json(&["key", "create", &id, "--expires", "90d"]);
    assert_eq!(
        field_names(&created),
        [
            "created_at",
            "expires_at",
            "key",
            "label",
            "prefix",
            "project_id"
        ]
    );
    let listed = deployment.json(&["key", "list", &id]);
    assert_eq!(listed["keys"][0]["expires_at"], created["expires_at"]);
    for wrong in ["0s", "soon"] {
        let refused = deployment.run_failing(2, &["key", "create", &id, "--expires", wrong]);
        assert!(refused.contains("12h or 90d"), "{refused}");
    }
}

#[test]
fn a_person_is_erased_without_a_server() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    let erased = deployment.json(&["erase", &id, "alice"]);
    assert_eq!(erased["changed"]["sessions"], 0);
    assert_eq!(erased["remaining_recordings"], serde_json::json!([]));
    let table = deployment.run(&["erase", &id, "alice"]).stdout;
    assert!(table.starts_with("replacement    erased-"), "{table}");
}

/// Proves S-86.
#[test]
fn a_projects_records_are_exported_as_lines_without_secrets() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    let key = deployment.json(&["key", "create", &id, "--label", "ci"]);
    let other = deployment.create_project();
    let exported = deployment.run(&["export", &id]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    let lines: Vec<Value> = exported
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let rows = |table: &str| {
        let rows = lines.iter().filter(|line| line["table"] == table);
        rows.map(|line| &line["row"]).collect::<Vec<_>>()
    };
    assert_eq!(rows("projects")[0]["id"], id);
    assert_eq!(rows("api_keys")[0]["prefix"], key["prefix"]);
    assert_eq!(rows("api_keys")[0]["created_at"], key["created_at"]);
    let roles: Vec<_> = rows("roles")
        .iter()
        .map(|role| &role["body"]["name"])
        .collect();
    assert_eq!(roles, ["guest", "host"]);
    assert!(!exported.stdout.contains(&other) && !exported.stdout.contains("hash"));

    let file = deployment.dir.path().join("acme.jsonl");
    let arguments = ["export", &id, "--output", file.to_str().unwrap()];
    assert_eq!(deployment.run(&arguments).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), exported.stdout);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(deployment.run_failing(1, &arguments).contains("exists"));
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    // The last table of an export.
    Connection::open(deployment.data().join("conclave.db"))
        .unwrap()
        .execute_batch("ALTER TABLE usage_days RENAME TO hidden")
        .unwrap();
    let file = deployment.dir.path().join("acme.jsonl");
    deployment.run_failing(1, &["export", &id, "--output", file.to_str().unwrap()]);
    assert_eq!(names(&deployment), ["data"]);
}

#[test]
fn a_project_is_deleted_with_its_records_and_files_after_it_was_named() {
    let deployment = Deployment::new();
    let (id, other) = (deployment.create_project(), deployment.create_project());
    deployment.json(&["key", "create", &id]);
    let recordings = deployment.data().join("recordings").join(&id);
    fs::create_dir_all(&recordings).unwrap();
    fs::write(recordings.join("a.mp4"), "0123456789").unwrap();
    let named = deployment.run_failing(1, &["project", "delete", &id]);
    for named_part in ["Acme", &id, "templates", "recordings", "--yes"] {
        assert!(named.contains(named_part), "{named}");
    }
    assert!(recordings.exists());
    let deleted = deployment.json(&["project", "delete", &id, "--yes"]);
    assert_eq!(
        deleted,
        serde_json::json!({"project_id": id, "deleted": true})
    );
    assert!(!recordings.exists());
    let listed = deployment.json(&["project", "list"]);
    assert_eq!(listed["projects"].as_array().unwrap().len(), 1);
    assert_eq!(listed["projects"][0]["project_id"], other);
    assert!(
        deployment
            .run_failing(1, &["project", "delete", &id, "--yes"])
            .contains("no project")
    );
}

#[test]
fn without_json_the_output_is_an_aligned_table() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    let listed = deployment.run(&["project", "list"]).stdout;
    let lines: Vec<_> = listed.lines().collect();
    assert!(
        lines[0].starts_with("PROJECT_ID        NAME  ENV   PLAN         STATUS"),
        "{listed}"
    );
    assert!(
        lines[1].starts_with(&format!("{id}  Acme  live  self_hosted  active")),
        "{listed}"
    );
}

/// Proves S-10.
#[test]
fn names_and_labels_refuse_what_controls_a_text_or_its_direction() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    for deceptive in [
        "a\u{202e}b",
        "a\u{200f}b",
        "\u{2066}a",
        "a\nb",
        "a\u{1b}[2J",
    ] {
        for arguments in [
            ["project", "create", "--name", deceptive],
            ["key", "create", &id, &format!("--label={deceptive}")],
        ] {
            let refused = deployment.run(&arguments);
            assert!(
                refused.code == 2 && refused.stderr.contains("direction"),
                "{}",
                refused.stderr
            );
        }
    }
}

#[test]
fn a_key_is_printed_once_and_stored_nowhere() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    let created = deployment.json(&["key", "create", &id, "--label", "ci"]);
    assert_eq!(
        field_names(&created),
        ["created_at", "key", "label", "prefix", "project_id"]
    );
    let (key, prefix) = (
        created["key"].as_str().unwrap(),
        created["prefix"].as_str().unwrap(),
    );
    assert!(key.starts_with("vk_live_") && key.starts_with(prefix) && prefix.len() == 12);
    let plain = deployment.run(&["key", "create", &id]);
    assert!(
        plain.stdout.contains("key         vk_live_") && !plain.stderr.contains("vk_live_"),
        "{}",
        plain.stdout
    );

    let listed = deployment.json(&["key", "list", &id]);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    assert_eq!(
        field_names(&listed["keys"][0]),
        ["created_at", "label", "prefix", "project_id"]
    );
    let revoked = deployment.json(&["key", "revoke", prefix]);
    assert_eq!(
        field_names(&revoked),
        ["created_at", "label", "prefix", "project_id", "revoked_at"]
    );
    assert_eq!(
        deployment.json(&["key", "revoke", key]),
        revoked,
        "a repeated revocation, by the whole key"
    );
    assert_eq!(deployment.json(&["key", "list", &id])["keys"][0], revoked);
    let table = deployment.run(&["key", "list", &id]).stdout;
    assert!(
        table.starts_with("PREFIX        LABEL  CREATED_AT"),
        "{table}"
    );

    let stored = files(&deployment.data());
    assert!(stored.iter().any(|file| contains(file, prefix)));
    assert!(
        !stored.iter().any(|file| contains(file, &key[12..])),
        "{stored:?}"
    );
}

#[test]
fn an_unknown_id_exits_1_and_is_in_the_message() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    for arguments in [
        &["project", "show", UNKNOWN_PROJECT][..],
        &["project", "suspend", UNKNOWN_PROJECT],
        &["project", "resume", UNKNOWN_PROJECT],
        &["project", "set-plan", UNKNOWN_PROJECT, "free"],
        &[
            "project",
            "set-default-template",
            UNKNOWN_PROJECT,
            "tpl_000000000000",
        ],
        &["project", "credit", UNKNOWN_PROJECT, "1"],
        &["key", "create", UNKNOWN_PROJECT],
        &["key", "list", UNKNOWN_PROJECT],
        &["erase", UNKNOWN_PROJECT, "alice"],
        &["export", UNKNOWN_PROJECT],
        &["project", "delete", UNKNOWN_PROJECT, "--yes"],
    ] {
        let message = deployment.run_failing(1, arguments);
        assert!(
            message.contains("no project") && message.contains(UNKNOWN_PROJECT),
            "{arguments:?}: {message}"
        );
    }
    assert!(
        deployment
            .run_failing(1, &["project", "show", "acme"])
            .contains("no project \"acme\"")
    );
    assert!(
        deployment
            .run_failing(1, &["key", "revoke", "vk_live_0000"])
            .contains("vk_live_0000")
    );
    assert!(
        deployment
            .run_failing(1, &["key", "revoke", "mine"])
            .contains("mine")
    );
    assert!(
        deployment
            .run_failing(
                1,
                &["project", "set-default-template", &id, "tpl_000000000000"]
            )
            .contains("no template")
    );
    assert!(
        deployment
            .run_failing(1, &["project", "set-default-template", &id, "x"])
            .contains("no template")
    );
}

/// Returns the names of the files and directories in a deployment's folder.
fn names(deployment: &Deployment) -> Vec<String> {
    let entries = fs::read_dir(deployment.dir.path()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn no_command_creates_a_data_directory_by_accident() {
    let deployment = Deployment::new();
    for arguments in [
        &["project", "show", UNKNOWN_PROJECT][..],
        &["project", "suspend", UNKNOWN_PROJECT],
        &["project", "credit", UNKNOWN_PROJECT, "1"],
        &["key", "create", UNKNOWN_PROJECT],
        &["key", "list", UNKNOWN_PROJECT],
        &["key", "revoke", "vk_live_0000"],
    ] {
        for run in [Deployment::run, Deployment::run_in_folder] {
            let refused = run(&deployment, arguments);
            assert_eq!(refused.code, 1, "{arguments:?}: {}", refused.stderr);
            assert!(
                refused.stderr.contains("does not exist"),
                "{arguments:?}: {}",
                refused.stderr
            );
        }
    }
    let listed = deployment.run_in_folder(&["project", "list", "--json"]);
    assert_eq!(
        (listed.code, listed.stdout.as_str()),
        (0, "{\"projects\":[]}\n")
    );
    assert!(
        listed.stderr.contains("./conclave-data does not exist"),
        "{}",
        listed.stderr
    );
    // The refusal leaves no new folder: a project in the wrong folder would be in records that no server reads.
    let created = deployment.run_in_folder(&["project", "create", "--name", "Acme"]);
    assert_eq!((created.code, created.stdout.as_str()), (1, ""));
    assert!(
        created.stderr.contains("./conclave-data") && created.stderr.contains("--data"),
        "{}",
        created.stderr
    );
    assert_eq!(names(&deployment), [""; 0]);

    // Nor is an unrelated directory used.
    fs::create_dir(deployment.data()).unwrap();
    assert!(
        deployment
            .run_failing(1, &["key", "list", UNKNOWN_PROJECT])
            .contains("has no database")
    );
    assert_eq!(
        deployment.json(&["project", "list"]),
        serde_json::json!({"projects": []})
    );
    assert_eq!(
        files(&deployment.data()),
        [""; 0].map(std::path::PathBuf::from)
    );
}

#[test]
fn a_project_is_created_in_a_directory_that_is_named_or_exists() {
    let deployment = Deployment::new();
    deployment.create_project();
    assert_eq!(names(&deployment), ["data"]);
    fs::create_dir(deployment.dir.path().join("conclave-data")).unwrap();
    let created = deployment.run_in_folder(&["project", "create", "--name", "Acme"]);
    assert_eq!(created.code, 0, "{}", created.stderr);
    let listed = deployment.run_in_folder(&["project", "list"]);
    assert_eq!(listed.stdout.lines().count(), 2, "{}", listed.stdout);
}
