//! The command line: runs the program and checks its output, its exit code and the files it creates.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use livekit_double::{Double, Fault, Settings};
use rusqlite::Connection;
use serde_json::Value;

/// A temporary directory without settings, in which `data` is the data directory. It does not exist at first.
struct Deployment {
    dir: tempfile::TempDir,
    environment: Vec<(&'static str, &'static str)>,
}

/// The exit code and the output of a command.
struct CommandResult {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Deployment {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn run(&self, arguments: &[&str]) -> CommandResult {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["--data", self.data().to_str().unwrap()])
            .args(arguments)
            .current_dir(self.dir.path())
            .env_clear()
            .envs(self.environment.iter().copied())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        CommandResult { code: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Runs a command with `--json`, which must succeed, and returns the JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        let result = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(result.code, 0, "{arguments:?}: {}", result.stderr);
        assert_eq!(result.stdout.lines().count(), 1, "{}", result.stdout);
        serde_json::from_str(&result.stdout).unwrap()
    }

    /// Runs a command that must fail, and returns its stderr.
    fn run_failing(&self, code: i32, arguments: &[&str]) -> String {
        let result = self.run(arguments);
        assert_eq!(result.code, code, "{arguments:?}: {}{}", result.stdout, result.stderr);
        result.stderr
    }

    fn create_project(&self) -> String {
        let created = self.json(&["project", "create", "--name", "Acme"]);
        created["project_id"].as_str().unwrap().to_owned()
    }
}

fn field_names(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn contains(file: &Path, text: &str) -> bool {
    fs::read(file).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
}

const PROJECT_FIELDS: [&str; 6] = ["created_at", "env", "name", "plan", "project_id", "status"];
const UNKNOWN_PROJECT: &str = "prj_000000000000";

#[test]
fn a_project_can_be_created_shown_listed_and_changed() {
    let deployment = Deployment::new();
    assert_eq!(deployment.json(&["project", "list"]), serde_json::json!({"projects": []}));
    let created = deployment.json(&["project", "create", "--name", "Acme", "--env", "test", "--plan", "free"]);
    assert_eq!(field_names(&created), PROJECT_FIELDS);
    assert_eq!((&created["name"], &created["env"], &created["plan"]), (&"Acme".into(), &"test".into(), &"free".into()));
    let id = created["project_id"].as_str().unwrap();
    assert!(id.starts_with("prj_") && id.len() == 16, "{id}");
    assert_eq!(deployment.json(&["project", "show", id]), created);

    let second = deployment.create_project();
    let listed = deployment.json(&["project", "list"]);
    assert_eq!(listed["projects"].as_array().unwrap().len(), 2);
    assert_eq!(listed["projects"][0], created);
    assert_eq!(listed["projects"][1]["project_id"], second);
    assert_eq!(
        (&listed["projects"][1]["env"], &listed["projects"][1]["plan"]),
        (&"live".into(), &"self_hosted".into())
    );

    assert_eq!(deployment.json(&["project", "suspend", id])["status"], "suspended");
    assert_eq!(deployment.json(&["project", "show", id])["status"], "suspended");
    assert_eq!(deployment.json(&["project", "resume", id])["status"], "active");
    assert_eq!(deployment.json(&["project", "set-plan", id, "pro"])["plan"], "pro");
    assert_eq!(field_names(&deployment.json(&["project", "credit", id, "5000"])), PROJECT_FIELDS);
    let shown = deployment.run(&["project", "show", id]).stdout;
    assert!(shown.lines().any(|line| line == "balance_ugx          5000"), "{shown}");
}

#[test]
fn without_json_the_output_is_an_aligned_table() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    let listed = deployment.run(&["project", "list"]).stdout;
    let lines: Vec<_> = listed.lines().collect();
    assert!(lines[0].starts_with("PROJECT_ID        NAME  ENV   PLAN         STATUS"), "{listed}");
    assert!(lines[1].starts_with(&format!("{id}  Acme  live  self_hosted  active")), "{listed}");
}

#[test]
fn a_key_is_printed_once_and_stored_nowhere() {
    let deployment = Deployment::new();
    let id = deployment.create_project();
    let created = deployment.json(&["key", "create", &id, "--label", "ci"]);
    assert_eq!(field_names(&created), ["created_at", "key", "label", "prefix", "project_id"]);
    let (key, prefix) = (created["key"].as_str().unwrap(), created["prefix"].as_str().unwrap());
    assert!(key.starts_with("vk_live_") && key.starts_with(prefix) && prefix.len() == 12);
    let plain = deployment.run(&["key", "create", &id]);
    assert!(plain.stdout.contains("key         vk_live_") && !plain.stderr.contains("vk_live_"), "{}", plain.stdout);

    let listed = deployment.json(&["key", "list", &id]);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    assert_eq!(field_names(&listed["keys"][0]), ["created_at", "label", "prefix", "project_id"]);
    let revoked = deployment.json(&["key", "revoke", prefix]);
    assert_eq!(field_names(&revoked), ["created_at", "label", "prefix", "project_id", "revoked_at"]);
    assert_eq!(deployment.json(&["key", "revoke", key]), revoked, "a repeated revocation, by the whole key");
    assert_eq!(deployment.json(&["key", "list", &id])["keys"][0], revoked);
    let table = deployment.run(&["key", "list", &id]).stdout;
    assert!(table.starts_with("PREFIX        LABEL  CREATED_AT"), "{table}");

    let stored = files(&deployment.data());
    assert!(stored.iter().any(|file| contains(file, prefix)));
    assert!(!stored.iter().any(|file| contains(file, &key[12..])), "{stored:?}");
}

#[test]
fn only_their_owner_can_read_the_files_of_a_first_start() {
    let deployment = Deployment::new();
    deployment.create_project();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&deployment.data()), 0o700);
    for name in ["conclave.db", "encryption.key", "media.key"] {
        assert_eq!(mode(&deployment.data().join(name)), 0o600, "{name}");
    }
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
        &["project", "set-default-template", UNKNOWN_PROJECT, "tpl_000000000000"],
        &["project", "credit", UNKNOWN_PROJECT, "1"],
        &["key", "create", UNKNOWN_PROJECT],
        &["key", "list", UNKNOWN_PROJECT],
    ] {
        let message = deployment.run_failing(1, arguments);
        assert!(message.contains("no project") && message.contains(UNKNOWN_PROJECT), "{arguments:?}: {message}");
    }
    assert!(deployment.run_failing(1, &["project", "show", "acme"]).contains("no project \"acme\""));
    assert!(deployment.run_failing(1, &["key", "revoke", "vk_live_0000"]).contains("vk_live_0000"));
    assert!(deployment.run_failing(1, &["key", "revoke", "mine"]).contains("mine"));
    assert!(
        deployment
            .run_failing(1, &["project", "set-default-template", &id, "tpl_000000000000"])
            .contains("no template")
    );
    assert!(deployment.run_failing(1, &["project", "set-default-template", &id, "x"]).contains("no template"));
}

#[test]
fn an_invalid_option_or_value_exits_2_and_the_message_says_what_is_allowed() {
    let deployment = Deployment::new();
    let plan = deployment.run_failing(2, &["project", "create", "--name", "A", "--plan", "gold"]);
    assert!(plan.contains("--plan") && plan.contains("\"gold\"") && plan.contains("free, pro, self_hosted"), "{plan}");
    assert!(deployment.run_failing(2, &["project", "set-plan", UNKNOWN_PROJECT, "gold"]).contains("gold"));
    let env = deployment.run_failing(2, &["project", "create", "--name", "A", "--env", "prod"]);
    assert!(env.contains("prod") && env.contains("live, test"), "{env}");
    assert!(deployment.run_failing(2, &["project", "create"]).contains("--name"));
    assert!(deployment.run_failing(2, &["project", "create", "--name", " "]).contains("1 to 200 characters"));
    assert!(deployment.run_failing(2, &["project", "create", "--name", "a\nb"]).contains("control character"));
    assert!(deployment.run_failing(2, &["project", "credit", UNKNOWN_PROJECT, "0"]).contains("UGX"));
    assert!(deployment.run_failing(2, &["project", "list", "--jsn"]).contains("--jsn"));
    assert!(deployment.run_failing(2, &["serve", "--listen", "8080"]).contains("--listen"));
    assert!(deployment.run_failing(2, &["fly"]).contains("fly"));
    assert!(!deployment.data().exists(), "an invalid command creates nothing");
}

#[test]
fn an_invalid_setting_exits_2_in_every_command() {
    let mut deployment = Deployment::new();
    let file = deployment.dir.path().join("c.toml");
    fs::write(&file, "[limits]\nburts = 1\n").unwrap();
    for command in [
        &["project", "list"][..],
        &["key", "list", UNKNOWN_PROJECT],
        &["check"],
        &["backup", "b"],
        &["serve"],
        &["dev"],
    ] {
        let message = deployment.run_failing(2, &[&["--config", file.to_str().unwrap()], command].concat());
        assert!(
            message.contains("limits.burts") && message.contains("c.toml") && message.contains("burst"),
            "{message}"
        );
    }
    assert!(deployment.run_failing(2, &["project", "list", "--config", "nowhere.toml"]).contains("nowhere.toml"));
    deployment.environment = vec![("CONCLAVE_HTTP__LISTN", "x")];
    assert!(deployment.run_failing(2, &["project", "list"]).contains("CONCLAVE_HTTP__LISTN"));
    deployment.environment = vec![("CONCLAVE_PLANS__FILE", "nowhere.toml")];
    assert!(deployment.run_failing(2, &["project", "create", "--name", "A"]).contains("plans.file"));
    deployment.environment = vec![("SOMETHING__ELSE", "x")];
    deployment.json(&["project", "list"]);
}

#[test]
fn the_default_settings_file_is_loaded_if_no_other_is_named() {
    let deployment = Deployment::new();
    fs::create_dir(deployment.dir.path().join("config")).unwrap();
    fs::write(deployment.dir.path().join("config/conclave.toml"), "[limits]\nburst = 0\n").unwrap();
    assert!(deployment.run_failing(2, &["project", "list"]).contains("limits.burst (config/conclave.toml)"));
}

#[test]
fn a_data_directory_that_cannot_be_created_exits_1() {
    let deployment = Deployment::new();
    fs::write(deployment.data(), "a file").unwrap();
    assert!(deployment.run_failing(1, &["project", "list"]).contains("--data"));
}

fn parts(stdout: &str) -> Vec<(&str, &str)> {
    stdout
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect()
}

#[test]
fn check_prints_the_result_of_each_part_and_creates_nothing() {
    let mut deployment = Deployment::new();
    // As many as any machine allows; and no WebRTC, for which many machines have small socket buffers.
    deployment.environment = vec![("CONCLAVE_HTTP__MAX_CONNECTIONS", "100"), ("CONCLAVE_MEDIA__RTC__ENABLED", "false")];
    let all_ok = [("ok", "configuration"), ("ok", "database"), ("ok", "encryption"), ("ok", "media")];
    let before = deployment.run(&["check"]);
    assert_eq!((before.code, parts(&before.stdout)), (0, all_ok.into()), "{}", before.stderr);
    assert!(!deployment.data().exists());

    deployment.create_project();
    let after = deployment.run(&["check"]);
    assert_eq!((after.code, parts(&after.stdout)), (0, all_ok.into()), "{}", after.stderr);
    assert!(after.stdout.contains("schema ") && after.stdout.contains("embedded"), "{}", after.stdout);

    let key = deployment.data().join("encryption.key");
    fs::rename(&key, deployment.dir.path().join("backup.key")).unwrap();
    let result = deployment.run(&["check"]);
    assert_eq!((result.code, parts(&result.stdout)[2]), (1, ("FAIL", "encryption")));
    assert!(result.stderr.contains("encryption") && !key.exists());
    deployment.environment = vec![("CONCLAVE_ENCRYPTION__KEY_FILE", "")];
    assert_eq!(deployment.run(&["check"]).code, 0);
    deployment.environment = vec![("CONCLAVE_LIMITS__BURST", "0")];
    assert_eq!(parts(&deployment.run(&["check"]).stdout), [("FAIL", "configuration")]);
}

#[test]
fn check_names_the_turn_servers_and_not_their_secret() {
    let mut deployment = Deployment::new();
    deployment.environment = vec![
        ("CONCLAVE_MEDIA__RTC__ADDRESSES", "127.0.0.1"),
        ("CONCLAVE_MEDIA__RTC__TURN__URLS", "turn:turn.example.com:3478"),
        ("CONCLAVE_MEDIA__RTC__TURN__SECRET", "a-secret-of-coturn"),
    ];
    let result = deployment.run(&["check"]);
    assert!(
        result.code == 0 && result.stdout.contains("127.0.0.1, or by turn:turn.example.com:3478"),
        "{}",
        result.stdout
    );
    assert!(!format!("{}{}", result.stdout, result.stderr).contains("a-secret-of-coturn"));
}

#[test]
fn check_says_for_which_name_a_certificate_is_obtained_and_reads_the_root_of_the_ca() {
    let mut deployment = Deployment::new();
    deployment.environment =
        vec![("CONCLAVE_MEDIA__RTC__ENABLED", "false"), ("CONCLAVE_TLS__DOMAIN", "meet.example.org")];
    let result = deployment.run(&["check"]);
    let expected =
        "none yet, a server obtains one for meet.example.org from https://acme-v02.api.letsencrypt.org/directory";
    assert_eq!((result.code, parts(&result.stdout)[4]), (0, ("ok", "tls")));
    assert!(result.stdout.contains(expected), "{}", result.stdout);
    deployment.environment.push(("CONCLAVE_TLS__ACME_ROOT", "missing.pem"));
    let result = deployment.run(&["check"]);
    assert_eq!((result.code, parts(&result.stdout)[4]), (1, ("FAIL", "tls")));
    assert!(result.stdout.contains("tls.acme_root: missing.pem cannot be read"), "{}", result.stdout);
}

#[test]
fn check_warns_of_limits_that_do_not_fit() {
    let mut deployment = Deployment::new();
    deployment.environment = vec![("CONCLAVE_HTTP__MAX_CONNECTIONS", "100"), ("CONCLAVE_HTTP__MAX_REQUESTS", "320")];
    let result = deployment.run(&["check"]);
    assert_eq!((result.code, parts(&result.stdout)[0]), (0, ("WARN", "configuration")));
    assert!(result.stdout.contains("http.max_requests"), "{}", result.stdout);

    let mut few_files = Command::new("sh");
    few_files.args(["-c", "ulimit -n 256; exec \"$0\" check", env!("CARGO_BIN_EXE_conclave")]).env_clear();
    let output = few_files.current_dir(deployment.dir.path()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && parts(&stdout)[0] == ("WARN", "configuration"), "{stdout}");
    assert!(stdout.contains("http.max_connections"), "{stdout}");
}

#[test]
fn check_warns_of_secrets_in_settings_that_other_users_can_read() {
    let deployment = Deployment::new();
    let file = deployment.dir.path().join("conclave.toml");
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let check = || deployment.run(&["--config", file.to_str().unwrap(), "check"]);
    chmod(deployment.dir.path(), 0o755);
    for (settings, modes, is_warned) in [
        ("[admin]\ntoken = 'a-token-of-the-test'", (0o644, 0o755), true),
        ("[media.rtc.turn]\nurls = ['turn:a']\nsecret = 'a-token-of-the-test'", (0o604, 0o755), true),
        ("[admin]\ntoken = 'a-token-of-the-test'", (0o640, 0o755), false),
        ("[admin]\ntoken = 'a-token-of-the-test'", (0o644, 0o700), false),
        ("[http]\nworkers = 1", (0o644, 0o755), false),
    ] {
        fs::write(&file, settings).unwrap();
        chmod(&file, modes.0);
        chmod(deployment.dir.path(), modes.1);
        let result = check();
        assert_eq!(result.code, 0, "{}", result.stderr);
        let warning = result.stdout.lines().find(|line| line.contains("can read"));
        assert_eq!(warning.is_some(), is_warned, "{settings}: {}", result.stdout);
        assert!(warning.is_none_or(|line| line.contains(settings.rsplit(['\n', ' ']).nth(2).unwrap())), "{warning:?}");
        assert!(!result.stdout.contains("a-token-of-the-test"), "{}", result.stdout);
    }
}

#[test]
fn check_reports_livekits_configuration_and_fails_only_if_rooms_cannot_work() {
    let (deployment, double) = (Deployment::new(), Double::start());
    let Double { api_key, api_secret, .. } = &double;
    let (url, settings) = (double.url(), deployment.dir.path().join("config/conclave.toml"));
    fs::create_dir(settings.parent().unwrap()).unwrap();
    let media = format!("kind = 'livekit'\nurl = '{url}'\napi_key = '{api_key}'\napi_secret = '{api_secret}'");
    fs::write(settings, format!("[media]\n{media}")).unwrap();
    let media = || {
        let result = deployment.run(&["check"]);
        let line = result.stdout.lines().last().unwrap_or_default().to_owned();
        assert_eq!(parts(&result.stdout).len(), 4, "{}", result.stdout);
        (result.code, parts(&result.stdout)[3].0.to_owned(), line)
    };
    let (code, word, line) = media();
    assert!((code, word.as_str()) == (0, "ok") && line.contains("settings fit"), "{line}");
    for (settings, setting) in [
        (Settings { remote_unmute: false, ..Settings::default() }, "room.enable_remote_unmute"),
        (Settings { redis: false, ..Settings::default() }, "redis"),
    ] {
        double.configure(settings);
        let (code, word, line) = media();
        assert!((code, word.as_str()) == (0, "WARN") && line.contains(setting), "{line}");
    }
    double.configure(Settings { auto_create: false, ..Settings::default() });
    let (code, word, line) = media();
    assert!((code, word.as_str()) == (1, "FAIL") && line.contains("room.auto_create"), "{line}");
    double.configure(Settings::default());
    double.fail("rtc", Fault::ProxyPage(502));
    let (code, word, line) = media();
    assert!((code, word.as_str()) == (0, "ok") && line.contains("not found out"), "{line}");
    double.fail_all(Fault::PlainUnauthorized);
    let (code, word, line) = media();
    assert!((code, word.as_str()) == (1, "FAIL") && line.contains("media.api_secret"), "{line}");
}

#[test]
fn check_reports_a_damaged_database() {
    let deployment = Deployment::new();
    deployment.create_project();
    fs::write(deployment.data().join("conclave.db"), "not a database").unwrap();
    let result = deployment.run(&["check"]);
    assert_eq!((result.code, parts(&result.stdout)[1]), (1, ("FAIL", "database")), "{}", result.stdout);
    // The other parts are checked all the same.
    let names: Vec<_> = parts(&result.stdout).iter().map(|(_, part)| *part).collect();
    assert_eq!(names, ["configuration", "database", "encryption", "media", "egress"], "{}", result.stdout);
}

#[test]
fn a_backup_contains_the_records_and_overwrites_no_file() {
    let deployment = Deployment::new();
    assert!(deployment.run_failing(1, &["backup", "early.db"]).contains("no database"));
    let id = deployment.create_project();
    assert_eq!(deployment.run(&["backup", "copy.db"]).code, 0);
    assert!(deployment.run_failing(1, &["backup", "copy.db"]).contains("copy.db"));
    assert!(deployment.run_failing(1, &["backup", "nowhere/copy.db"]).contains("nowhere/copy.db"));

    deployment.create_project();
    let restored = Deployment::new();
    fs::create_dir(restored.data()).unwrap();
    fs::copy(deployment.dir.path().join("copy.db"), restored.data().join("conclave.db")).unwrap();
    let listed = restored.json(&["project", "list"]);
    assert_eq!(listed["projects"].as_array().unwrap().len(), 1);
    assert_eq!(listed["projects"][0]["project_id"], id);
}

#[test]
fn a_second_server_on_the_same_data_directory_is_refused_and_changes_nothing() {
    let deployment = Deployment::new();
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut first = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["--data", deployment.data().to_str().unwrap()])
        .args(arguments)
        .current_dir(deployment.dir.path())
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(r#"{"ready":true,"api":"http://127.0.0.1:"#), "{line}");
    let ready: Value = serde_json::from_str(&line).unwrap();

    let refused = deployment.run_failing(1, &arguments);
    let keys = deployment.json(&["key", "list", ready["project_id"].as_str().unwrap()]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(refused.contains("another server"), "{refused}");
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    assert!(keys["keys"][0].get("revoked_at").is_none());
}

/// Creates the database that an older version would have written, and returns its schema.
fn create_older_database(data: &Path) -> i64 {
    fs::create_dir_all(data).unwrap();
    let mut migrations = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("db/src/migrations/sqlite"));
    migrations.sort();
    migrations.pop().unwrap();
    let database = Connection::open(data.join("conclave.db")).unwrap();
    for migration in &migrations {
        database.execute_batch(&fs::read_to_string(migration).unwrap()).unwrap();
    }
    let schema = i64::try_from(migrations.len()).unwrap();
    database.pragma_update(None, "user_version", schema).unwrap();
    schema
}

fn schema(database: &Path) -> i64 {
    Connection::open(database).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn no_command_migrates_the_database_of_a_running_server() {
    let deployment = Deployment::new();
    let (data, database) = (deployment.data(), deployment.data().join("conclave.db"));
    let older = create_older_database(&data);
    let server = fs::File::create(data.join("server.lock")).unwrap();
    server.try_lock().unwrap();

    let refusal = deployment.run_failing(1, &["project", "list"]);
    assert!(refusal.contains(&format!("a server is using the database with schema {older}")), "{refusal}");
    assert!(refusal.contains("stop the server"), "{refusal}");
    let checked = deployment.run(&["check"]).stdout;
    assert!(checked.contains(&format!("schema {older}, which the next start of a server migrates")), "{checked}");
    let copy = deployment.dir.path().join("copy.db");
    assert_eq!(deployment.run(&["backup", copy.to_str().unwrap()]).code, 0);
    assert_eq!((schema(&database), schema(&copy)), (older, older));

    drop(server);
    assert_eq!(deployment.json(&["project", "list"]), serde_json::json!({"projects": []}));
    assert_eq!(schema(&database), older + 1);
}

#[test]
fn shells_and_man_know_every_command() {
    let deployment = Deployment::new();
    for (shell, line) in [
        ("bash", "complete -F _conclave -o nosort -o bashdefault -o default conclave"),
        ("zsh", "#compdef conclave"),
        ("fish", "complete -c conclave"),
    ] {
        let result = deployment.run(&["completions", shell]);
        assert_eq!((result.code, result.stderr.as_str()), (0, ""));
        assert!(result.stdout.contains(line), "{shell}: {}", result.stdout);
        assert!(result.stdout.contains("key-rotate"), "{shell}");
    }
    let pages = deployment.dir.path().join("share/man");
    assert_eq!(deployment.run(&["manual", pages.to_str().unwrap()]).code, 0);
    for (page, text) in [("conclave.1", r"conclave\-serve(1)"), ("conclave-key-create.1", r"\-\-label")] {
        let page = fs::read_to_string(pages.join(page)).expect(page);
        assert!(page.contains(text), "{page}");
    }
    assert!(deployment.run_failing(1, &["manual", "/dev/null"]).contains("/dev/null"));
}
