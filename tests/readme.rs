//! The README is right: its examples run against the program, and its tables are compared with the program's.
//!
//! A block that is run has a comment before it: `<!-- run: first-call -->`, `<!-- run: verify python -->`. A snippet whose
//! interpreter is not installed is skipped with a message.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use support::{Received, Receiver, Request};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// The code block behind `<!-- run: name -->`.
fn block(name: &str) -> String {
    let text = readme();
    let marker = format!("<!-- run: {name} -->\n```");
    let (_, rest) = text.split_once(&marker).unwrap_or_else(|| panic!("the README has no block {name:?}"));
    let (_, code) = rest.split_once('\n').unwrap();
    code.split_once("\n```").unwrap().0.to_owned()
}

/// `conclave dev` on free ports and a data directory of its own, killed when dropped.
struct Dev {
    process: Child,
    dir: tempfile::TempDir,
    api: String,
    admin: String,
    key: String,
}

impl Dev {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data"])
            .arg(dir.path().join("data"))
            .current_dir(dir.path())
            .env_clear()
            .env("CONCLAVE_WEBHOOKS__TICK", "50ms")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The ready line is the one line on stdout; a program that cannot start closes it instead.
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("a ready line");
        let text = |name: &str| ready[name].as_str().unwrap().to_owned();
        Self { process, dir, api: text("api"), admin: text("admin"), key: text("api_key") }
    }

    /// Runs a block as a reader would type it.
    fn bash(&self, code: &str) -> String {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", code])
            .envs([("API", &self.api), ("ADMIN", &self.admin), ("KEY", &self.key)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn post(&self, path: &str, body: Value) -> Value {
        Request::new("POST", format!("{}{path}", self.api)).bearer(&self.key).json(body).send().expect(201)
    }

    /// A delivery, and the secret it is signed with.
    fn delivery(&self) -> (Received, String) {
        let receiver = Receiver::start();
        let endpoint = self.post("/v1/webhook-endpoints", json!({"url": receiver.url}));
        self.post("/v1/rooms", json!({"name": "hooks"}));
        let token = self.post("/v1/tokens", json!({"room": "hooks", "identity": "ann"}))["token"].clone();
        Request::new("POST", format!("{}/sandbox/join", self.admin)).json(json!({"token": token})).send().expect(201);
        (receiver.next(), endpoint["secret"].as_str().unwrap().to_owned())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The JSON documents that a block printed, one after another.
fn documents(printed: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(printed).into_iter().collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_first_call_does_what_the_readme_says() {
    if !exists("curl") || !exists("bash") {
        println!("skipped: curl or bash is not on this machine");
        return;
    }
    let dev = Dev::start();
    let printed = documents(&dev.bash(&block("first-call")));
    let [room, track, participants, sessions] = printed.as_slice() else { panic!("four answers, not {printed:?}") };
    assert_eq!((&room["status"], &room["metadata"]), (&json!("open"), &json!({"team": "blue"})));
    assert_eq!((&track["kind"], &track["source"]), (&json!("video"), &json!("camera")));
    assert_eq!(participants["participants"][0]["identity"], "alice");
    assert_eq!(participants["participants"][0]["tracks"][0]["sid"], track["sid"]);
    let session = &sessions["sessions"][0];
    assert_eq!((&session["role"], &session["track_count"]), (&json!("host"), &json!(1)));
    assert!(session["left_at"].is_string());
}

/// A way to run a snippet: the interpreter, the file the snippet goes to, what calls it, and how it is run.
struct Runner {
    block: &'static str,
    program: &'static str,
    file: &'static str,
    driver: (&'static str, &'static str),
    arguments: &'static [&'static str],
}

/// Each driver gets the secret and the signature as arguments and the body on stdin, and exits 0 or 3.
const RUNNERS: [Runner; 3] = [
    Runner {
        block: "verify python",
        program: "python3",
        file: "receiver.py",
        driver: (
            "drive.py",
            "import sys\nfrom receiver import verify\n\
             sys.exit(0 if verify(sys.argv[1], sys.stdin.buffer.read(), sys.argv[2]) else 3)\n",
        ),
        arguments: &["drive.py"],
    },
    Runner {
        block: "verify node",
        program: "node",
        file: "receiver.mjs",
        driver: (
            "drive.mjs",
            "import { readFileSync } from 'node:fs';\nimport { verify } from './receiver.mjs';\n\
             process.exit(verify(process.argv[2], readFileSync(0), process.argv[3]) ? 0 : 3);\n",
        ),
        arguments: &["drive.mjs"],
    },
    Runner {
        block: "verify go",
        program: "go",
        file: "receiver.go",
        driver: (
            "drive.go",
            "package main\n\nimport (\n\t\"io\"\n\t\"os\"\n)\n\nfunc main() {\n\tbody, _ := io.ReadAll(os.Stdin)\n\
             \tif !verify(os.Args[1], body, os.Args[2]) {\n\t\tos.Exit(3)\n\t}\n}\n",
        ),
        // Compiled first: `go run` would turn every exit code into 1.
        arguments: &["build", "-o", "receiver", "receiver.go", "drive.go"],
    },
];

/// Whether a program can be run here.
fn exists(program: &str) -> bool {
    let version = if program == "go" { "version" } else { "--version" };
    let tried = Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// Runs a command with `body` on stdin.
fn feed(mut command: Command, body: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(body).unwrap();
    child.wait_with_output().unwrap()
}

impl Runner {
    /// Puts the snippet and its driver in place and says how to run them.
    fn prepare(&self, dir: &Path) -> (PathBuf, Vec<&'static str>) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join(self.file), block(self.block)).unwrap();
        fs::write(dir.join(self.driver.0), self.driver.1).unwrap();
        if self.program != "go" {
            return (self.program.into(), self.arguments.to_vec());
        }
        let mut build = Command::new("go");
        // In cargo's directory, so that only the first run compiles Go's library.
        build.args(self.arguments).current_dir(dir).env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"));
        let built = build.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        (dir.join("receiver"), Vec::new())
    }
}

#[test]
fn the_snippets_accept_a_real_delivery_and_refuse_an_altered_one() {
    let dev = Dev::start();
    let (delivery, secret) = dev.delivery();
    let good = delivery.header("x-svc-signature").to_owned();
    let mut touched = delivery.body.clone();
    *touched.last_mut().unwrap() = b' ';
    let truncated = &good[..good.len() - 1];
    for runner in RUNNERS {
        if !exists(runner.program) {
            println!("skipped: {} is not on this machine", runner.program);
            continue;
        }
        let dir = dev.dir.path().join(runner.program);
        let (program, arguments) = runner.prepare(&dir);
        let verdict = |secret: &str, body: &[u8], signature: &str| {
            let mut command = Command::new(&program);
            command.args(&arguments).args([secret, signature]).current_dir(&dir);
            let ended = feed(command, body);
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(matches!(ended.status.code(), Some(0 | 3)), "{}: {said}", runner.block);
            ended.status.success()
        };
        assert!(verdict(&secret, &delivery.body, &good), "{}: a good delivery", runner.block);
        assert!(!verdict(&secret, &touched, &good), "{}: a touched body", runner.block);
        assert!(!verdict("whsec_AAAA", &delivery.body, &good), "{}: another secret", runner.block);
        assert!(!verdict(&secret, &delivery.body, truncated), "{}: a truncated signature", runner.block);
        assert!(!verdict(&secret, &delivery.body, ""), "{}: no signature", runner.block);
    }
}

#[test]
fn the_standard_webhooks_snippet_covers_the_id_and_the_time() {
    if !exists("python3") {
        println!("skipped: python3 is not on this machine");
        return;
    }
    let dev = Dev::start();
    let (delivery, secret) = dev.delivery();
    let driver = "import json, sys\nfrom receiver import verify_standard\n\
                  sys.exit(0 if verify_standard(sys.argv[1], sys.stdin.buffer.read(), json.loads(sys.argv[2])) else 3)\n";
    fs::write(dev.dir.path().join("receiver.py"), block("verify standard")).unwrap();
    fs::write(dev.dir.path().join("drive.py"), driver).unwrap();
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let sent: Value = names.iter().map(|name| ((*name).to_owned(), json!(delivery.header(name)))).collect();
    let verdict = |body: &[u8], headers: &Value| {
        let mut command = Command::new("python3");
        command.args(["drive.py", &secret, &headers.to_string()]).current_dir(dev.dir.path());
        let ended = feed(command, body);
        assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&ended.stderr));
        ended.status.success()
    };
    assert!(verdict(&delivery.body, &sent), "a good delivery");
    assert!(!verdict(b"{}", &sent), "another body");
    for (name, value) in [("webhook-id", "another"), ("webhook-timestamp", "1"), ("webhook-signature", "v1,AAAA")] {
        let mut touched = sent.clone();
        touched[name] = json!(value);
        assert!(!verdict(&delivery.body, &touched), "another {name}");
    }
}

fn conclave(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_conclave")).args(arguments).env_clear().output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The cells of the README's table rows whose first cell is `is_first`.
fn rows(is_first: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let text = readme();
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with('|')).map(cells);
    rows.filter(|row| is_first(&row[0])).collect()
}

#[test]
fn the_table_of_operations_is_the_description_and_leads_to_a_section_for_each() {
    let reference = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let described: Value = serde_json::from_str(&conclave(&["openapi"])).unwrap();
    let mut there_are = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
            let with_room_token = operation["security"].to_string().contains("roomToken");
            let id = operation["operationId"].as_str().unwrap();
            assert!(reference.contains(&format!("\n### {id}\n")), "docs/api.md has no section {id}");
            there_are.insert((method.to_uppercase(), format!("[`{path}`](docs/api.md#{id})"), with_room_token));
        }
    }
    let shown = rows(|first| ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&first));
    let shown = shown.into_iter().map(|row| (row[0].clone(), row[1].clone(), row[2].contains("room token")));
    assert_eq!(shown.collect::<BTreeSet<_>>(), there_are);
}

#[test]
fn the_settings_and_commands_that_the_readme_names_exist() {
    let file = fs::read_to_string(root().join("config/conclave.toml")).unwrap();
    let mut section = "";
    let mut known = BTreeSet::new();
    for line in file.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.strip_prefix('#').and_then(|rest| rest.split_once(" = ")) {
            known.insert(format!("`{section}.{key}`"));
        }
    }
    // The file explains these in prose, since their defaults depend on the data directory.
    known.extend(["`encryption.key_file`".to_owned(), "`plans.file`".to_owned()]);
    let sections = ["`http.", "`admin.", "`limits.", "`webhooks.", "`media.", "`encryption.", "`plans.", "`billing."];
    let named = rows(|first| sections.iter().any(|section| first.starts_with(section)));
    assert!(named.len() > 10);
    for row in named {
        assert!(known.contains(&row[0]), "{} is no setting", row[0]);
    }
    for row in rows(|first| first.starts_with("`conclave ")) {
        let command = row[0].trim_start_matches("`conclave ").split([' ', '`']).next().unwrap().to_owned();
        let help = conclave(&["--help"]);
        assert!(help.lines().any(|line| line.trim_start().starts_with(&command)), "{command} is no command");
    }
}

#[test]
fn the_files_that_the_readme_links_to_exist() {
    let text = readme();
    let targets = text.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap());
    let files: Vec<_> = targets.filter(|target| !target.is_empty() && !target.starts_with("http")).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        assert!(root().join(file).exists(), "{file}");
    }
}
