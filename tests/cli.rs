//! The command line from outside: the program is run, what it prints, leaves behind and exits with is looked at.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use livekit_double::{Double, Fault, Settings};
use serde_json::Value;

/// A data directory that is not made yet, in a directory without settings.
struct Deployment {
    dir: tempfile::TempDir,
    environment: Vec<(&'static str, &'static str)>,
}

/// How a command ended.
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Deployment {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["--data", self.data().to_str().unwrap()])
            .args(arguments)
            .current_dir(self.dir.path())
            .env_clear()
            .envs(self.environment.iter().copied())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
    }

    /// Runs a command that must succeed, with `--json`.
    fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.err);
        assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
        serde_json::from_str(&ended.out).unwrap()
    }

    /// Runs a command that must fail, and gives what it says.
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, code, "{arguments:?}: {}{}", ended.out, ended.err);
        ended.err
    }

    fn project(&self) -> String {
        let made = self.json(&["project", "create", "--name", "Acme"]);
        made["project_id"].as_str().unwrap().to_owned()
    }
}

fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn holds(file: &Path, text: &str) -> bool {
    fs::read(file).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
}

const PROJECT_FIELDS: [&str; 6] = ["created_at", "env", "name", "plan", "project_id", "status"];
const NOBODY: &str = "prj_000000000000";

#[test]
fn a_project_is_made_shown_listed_and_changed() {
    let here = Deployment::new();
    assert_eq!(here.json(&["project", "list"]), serde_json::json!({"projects": []}));
    let made = here.json(&["project", "create", "--name", "Acme", "--env", "test", "--plan", "free"]);
    assert_eq!(fields(&made), PROJECT_FIELDS);
    assert_eq!((&made["name"], &made["env"], &made["plan"]), (&"Acme".into(), &"test".into(), &"free".into()));
    let id = made["project_id"].as_str().unwrap();
    assert!(id.starts_with("prj_") && id.len() == 16, "{id}");
    assert_eq!(here.json(&["project", "show", id]), made);

    let second = here.project();
    let listed = here.json(&["project", "list"]);
    assert_eq!(listed["projects"].as_array().unwrap().len(), 2);
    assert_eq!(listed["projects"][0], made);
    assert_eq!(listed["projects"][1]["project_id"], second);
    assert_eq!(
        (&listed["projects"][1]["env"], &listed["projects"][1]["plan"]),
        (&"live".into(), &"self_hosted".into())
    );

    assert_eq!(here.json(&["project", "suspend", id])["status"], "suspended");
    assert_eq!(here.json(&["project", "show", id])["status"], "suspended");
    assert_eq!(here.json(&["project", "resume", id])["status"], "active");
    assert_eq!(here.json(&["project", "set-plan", id, "pro"])["plan"], "pro");
    assert_eq!(fields(&here.json(&["project", "credit", id, "5000"])), PROJECT_FIELDS);
    let shown = here.run(&["project", "show", id]).out;
    assert!(shown.lines().any(|line| line == "balance_ugx          5000"), "{shown}");
}

#[test]
fn without_json_people_get_an_aligned_table() {
    let here = Deployment::new();
    let id = here.project();
    let listed = here.run(&["project", "list"]).out;
    let lines: Vec<_> = listed.lines().collect();
    assert!(lines[0].starts_with("PROJECT_ID        NAME  ENV   PLAN         STATUS"), "{listed}");
    assert!(lines[1].starts_with(&format!("{id}  Acme  live  self_hosted  active")), "{listed}");
}

#[test]
fn a_key_is_printed_once_and_kept_nowhere() {
    let here = Deployment::new();
    let id = here.project();
    let made = here.json(&["key", "create", &id, "--label", "ci"]);
    assert_eq!(fields(&made), ["created_at", "key", "label", "prefix", "project_id"]);
    let (key, prefix) = (made["key"].as_str().unwrap(), made["prefix"].as_str().unwrap());
    assert!(key.starts_with("vk_live_") && key.starts_with(prefix) && prefix.len() == 12);
    let plain = here.run(&["key", "create", &id]);
    assert!(plain.out.contains("key         vk_live_") && !plain.err.contains("vk_live_"), "{}", plain.out);

    let listed = here.json(&["key", "list", &id]);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    assert_eq!(fields(&listed["keys"][0]), ["created_at", "label", "prefix", "project_id"]);
    let revoked = here.json(&["key", "revoke", prefix]);
    assert_eq!(fields(&revoked), ["created_at", "label", "prefix", "project_id", "revoked_at"]);
    assert_eq!(here.json(&["key", "revoke", key]), revoked, "again, and by the whole key");
    assert_eq!(here.json(&["key", "list", &id])["keys"][0], revoked);
    let table = here.run(&["key", "list", &id]).out;
    assert!(table.starts_with("PREFIX        LABEL  CREATED_AT"), "{table}");

    let kept = files(&here.data());
    assert!(kept.iter().any(|file| holds(file, prefix)));
    assert!(!kept.iter().any(|file| holds(file, &key[12..])), "{kept:?}");
}

#[test]
fn what_a_first_start_makes_is_its_owners_alone() {
    let here = Deployment::new();
    here.project();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&here.data()), 0o700);
    for name in ["conclave.db", "encryption.key", "media.key"] {
        assert_eq!(mode(&here.data().join(name)), 0o600, "{name}");
    }
}

#[test]
fn an_unknown_id_exits_1_and_is_named() {
    let here = Deployment::new();
    let id = here.project();
    for arguments in [
        &["project", "show", NOBODY][..],
        &["project", "suspend", NOBODY],
        &["project", "resume", NOBODY],
        &["project", "set-plan", NOBODY, "free"],
        &["project", "set-default-template", NOBODY, "tpl_000000000000"],
        &["project", "credit", NOBODY, "1"],
        &["key", "create", NOBODY],
        &["key", "list", NOBODY],
    ] {
        let said = here.fails(1, arguments);
        assert!(said.contains("no project") && said.contains(NOBODY), "{arguments:?}: {said}");
    }
    assert!(here.fails(1, &["project", "show", "acme"]).contains("no project \"acme\""));
    assert!(here.fails(1, &["key", "revoke", "vk_live_0000"]).contains("vk_live_0000"));
    assert!(here.fails(1, &["key", "revoke", "mine"]).contains("mine"));
    assert!(here.fails(1, &["project", "set-default-template", &id, "tpl_000000000000"]).contains("no template"));
    assert!(here.fails(1, &["project", "set-default-template", &id, "x"]).contains("no template"));
}

#[test]
fn a_wrong_option_or_value_exits_2_and_says_what_is_allowed() {
    let here = Deployment::new();
    let plan = here.fails(2, &["project", "create", "--name", "A", "--plan", "gold"]);
    assert!(plan.contains("--plan") && plan.contains("\"gold\"") && plan.contains("free, pro, self_hosted"), "{plan}");
    assert!(here.fails(2, &["project", "set-plan", NOBODY, "gold"]).contains("gold"));
    let env = here.fails(2, &["project", "create", "--name", "A", "--env", "prod"]);
    assert!(env.contains("prod") && env.contains("live, test"), "{env}");
    assert!(here.fails(2, &["project", "create"]).contains("--name"));
    assert!(here.fails(2, &["project", "create", "--name", " "]).contains("1 to 200 characters"));
    assert!(here.fails(2, &["project", "create", "--name", "a\nb"]).contains("control character"));
    assert!(here.fails(2, &["project", "credit", NOBODY, "0"]).contains("UGX"));
    assert!(here.fails(2, &["project", "list", "--jsn"]).contains("--jsn"));
    assert!(here.fails(2, &["serve", "--listen", "8080"]).contains("--listen"));
    assert!(here.fails(2, &["fly"]).contains("fly"));
    assert!(!here.data().exists(), "a refused command makes nothing");
}

#[test]
fn a_bad_setting_exits_2_in_every_command() {
    let mut here = Deployment::new();
    let file = here.dir.path().join("c.toml");
    fs::write(&file, "[limits]\nburts = 1\n").unwrap();
    for command in
        [&["project", "list"][..], &["key", "list", NOBODY], &["check"], &["backup", "b"], &["serve"], &["dev"]]
    {
        let said = here.fails(2, &[&["--config", file.to_str().unwrap()], command].concat());
        assert!(said.contains("limits.burts") && said.contains("c.toml") && said.contains("burst"), "{said}");
    }
    assert!(here.fails(2, &["project", "list", "--config", "nowhere.toml"]).contains("nowhere.toml"));
    here.environment = vec![("CONCLAVE_HTTP__LISTN", "x")];
    assert!(here.fails(2, &["project", "list"]).contains("CONCLAVE_HTTP__LISTN"));
    here.environment = vec![("CONCLAVE_PLANS__FILE", "nowhere.toml")];
    assert!(here.fails(2, &["project", "create", "--name", "A"]).contains("plans.file"));
    here.environment = vec![("SOMETHING__ELSE", "x")];
    here.json(&["project", "list"]);
}

#[test]
fn the_file_in_config_is_read_when_none_is_named() {
    let here = Deployment::new();
    fs::create_dir(here.dir.path().join("config")).unwrap();
    fs::write(here.dir.path().join("config/conclave.toml"), "[limits]\nburst = 0\n").unwrap();
    assert!(here.fails(2, &["project", "list"]).contains("limits.burst (config/conclave.toml)"));
}

#[test]
fn a_data_directory_that_cannot_be_made_exits_1() {
    let here = Deployment::new();
    fs::write(here.data(), "a file").unwrap();
    assert!(here.fails(1, &["project", "list"]).contains("--data"));
}

fn parts(out: &str) -> Vec<(&str, &str)> {
    out.lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect()
}

#[test]
fn check_tells_how_each_part_stands_and_makes_nothing() {
    let mut here = Deployment::new();
    let sound = [("ok", "configuration"), ("ok", "database"), ("ok", "encryption"), ("ok", "media")];
    let before = here.run(&["check"]);
    assert_eq!((before.code, parts(&before.out)), (0, sound.into()), "{}", before.err);
    assert!(!here.data().exists());

    here.project();
    let after = here.run(&["check"]);
    assert_eq!((after.code, parts(&after.out)), (0, sound.into()), "{}", after.err);
    assert!(after.out.contains("schema ") && after.out.contains("embedded"), "{}", after.out);

    let key = here.data().join("encryption.key");
    fs::rename(&key, here.dir.path().join("kept")).unwrap();
    let lost = here.run(&["check"]);
    assert_eq!((lost.code, parts(&lost.out)[2]), (1, ("FAIL", "encryption")));
    assert!(lost.err.contains("encryption") && !key.exists());
    here.environment = vec![("CONCLAVE_ENCRYPTION__KEY_FILE", "")];
    assert_eq!(here.run(&["check"]).code, 0);
    here.environment = vec![("CONCLAVE_LIMITS__BURST", "0")];
    assert_eq!(parts(&here.run(&["check"]).out), [("FAIL", "configuration")]);
}

#[test]
fn check_tells_how_livekit_is_set_and_warns_of_what_rooms_can_do_without() {
    let (here, double) = (Deployment::new(), Double::start());
    let Double { api_key, api_secret, .. } = &double;
    let (url, settings) = (double.url(), here.dir.path().join("config/conclave.toml"));
    fs::create_dir(settings.parent().unwrap()).unwrap();
    let media = format!("kind = 'livekit'\nurl = '{url}'\napi_key = '{api_key}'\napi_secret = '{api_secret}'");
    fs::write(settings, format!("[media]\n{media}")).unwrap();
    let media = || {
        let ended = here.run(&["check"]);
        let line = ended.out.lines().last().unwrap_or_default().to_owned();
        assert_eq!(parts(&ended.out).len(), 4, "{}", ended.out);
        (ended.code, parts(&ended.out)[3].0.to_owned(), line)
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
fn check_finds_damage() {
    let here = Deployment::new();
    here.project();
    fs::write(here.data().join("conclave.db"), "this is no database, whatever it is called").unwrap();
    let ended = here.run(&["check"]);
    assert_eq!((ended.code, parts(&ended.out)[1]), (1, ("FAIL", "database")), "{}", ended.out);
    assert_eq!(ended.out.lines().count(), 4, "{}", ended.out);
}

#[test]
fn a_backup_holds_what_the_database_held_and_overwrites_nothing() {
    let here = Deployment::new();
    assert!(here.fails(1, &["backup", "early.db"]).contains("no database"));
    let id = here.project();
    assert_eq!(here.run(&["backup", "copy.db"]).code, 0);
    assert!(here.fails(1, &["backup", "copy.db"]).contains("copy.db"));
    assert!(here.fails(1, &["backup", "nowhere/copy.db"]).contains("nowhere/copy.db"));

    here.project();
    let restored = Deployment::new();
    fs::create_dir(restored.data()).unwrap();
    fs::copy(here.dir.path().join("copy.db"), restored.data().join("conclave.db")).unwrap();
    let listed = restored.json(&["project", "list"]);
    assert_eq!(listed["projects"].as_array().unwrap().len(), 1);
    assert_eq!(listed["projects"][0]["project_id"], id);
}

#[test]
fn a_second_server_on_the_same_data_is_refused_and_touches_nothing() {
    let here = Deployment::new();
    let free = ["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut first = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["--data", here.data().to_str().unwrap()])
        .args(free)
        .current_dir(here.dir.path())
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(r#"{"ready":true,"api":"http://127.0.0.1:"#), "{line}");
    let ready: Value = serde_json::from_str(&line).unwrap();

    let refused = here.fails(1, &free);
    let keys = here.json(&["key", "list", ready["project_id"].as_str().unwrap()]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(refused.contains("another server"), "{refused}");
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    assert!(keys["keys"][0].get("revoked_at").is_none());
}
