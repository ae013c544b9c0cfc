//! The guide is correct: its parts without a browser run here, and its receivers get real, altered and old deliveries. `scripts/check
//! guide` runs all of it. The commands on these pages run here, too: `recordings.md`, `webhooks.md`, `tenants.md`, `keys.md`, `moving.md`
//! and `mobile.md`.
//!
//! Command blocks that run here follow a comment, `<!-- run: setup -->`; a receiver's first line names its file. Blocks whose programs are
//! not installed are skipped with a message.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use support::{Received, Receiver, Request, WAIT_LIMIT};

const GUIDE: &str = "guide.md";

/// Returns the page's code block that starts with `opening`, which is part of its text or above it, without the fence lines.
fn block(page: &str, opening: &str, start: &str) -> String {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("docs")
            .join(page),
    )
    .unwrap();
    let (_, rest) = text
        .split_once(opening)
        .unwrap_or_else(|| panic!("{page} has no {opening:?}"));
    format!("{start}{}\n", rest.split_once("\n```").unwrap().0)
}

/// Returns a page's commands behind `<!-- run: name -->`.
fn commands(page: &str, name: &str) -> String {
    block(page, &format!("<!-- run: {name} -->\n```bash\n"), "")
}

/// `conclave dev` on free ports with its own home directory, killed when dropped.
struct Dev {
    process: Child,
    home: tempfile::TempDir,
    api: String,
    admin: String,
    key: String,
}

impl Dev {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(settings: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("first-hour");
        fs::create_dir(&folder).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .current_dir(&folder)
            .env_clear()
            .env("CONCLAVE_WEBHOOKS__TICK", "50ms")
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The ready line is the only line on stdout; a program that cannot start closes it instead.
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        fs::write(folder.join("ready.json"), &line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("a ready line");
        let text = |name: &str| ready[name].as_str().unwrap().to_owned();
        Self {
            process,
            home,
            api: text("api"),
            admin: text("admin"),
            key: text("api_key"),
        }
    }

    /// Runs blocks one after another, as a reader would type them, and returns the printed JSON documents.
    fn run(&self, names: &[&str]) -> Vec<Value> {
        let all: String = names.iter().map(|name| commands(GUIDE, name)).collect();
        let printed = bash(&all, |bash| bash.env("HOME", self.home.path()));
        serde_json::Deserializer::from_str(&printed)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    fn post(&self, path: &str, body: Value) -> Value {
        Request::new("POST", format!("{}{path}", self.api))
            .bearer(&self.key)
            .json(body)
            .send()
            .expect(201)
    }

    fn join(&self, room: &str) {
        self.post("/v1/rooms", json!({"name": room}));
        let token =
            self.post("/v1/tokens", json!({"room": room, "identity": "ann"}))["token"].clone();
        Request::new("POST", format!("{}/sandbox/join", self.admin))
            .json(json!({"token": token}))
            .send()
            .expect(201);
    }

    /// Makes a completed recording whose file has this content.
    fn recorded(&self, content: &str) -> Value {
        self.join("talk");
        let started = self.post(
            "/v1/rooms/talk/recordings",
            json!({"type": "room_composite"}),
        );
        let path = format!(
            "{}/v1/recordings/{}",
            self.api,
            started["egress_id"].as_str().unwrap()
        );
        Request::new("POST", format!("{path}/stop"))
            .bearer(&self.key)
            .send()
            .expect(200);
        let deadline = Instant::now() + WAIT_LIMIT;
        let recording = loop {
            let recording = Request::new("GET", path.clone())
                .bearer(&self.key)
                .send()
                .expect(200);
            if recording["status"] == "complete" {
                break recording;
            }
            assert!(Instant::now() < deadline, "{recording}");
            // Slow enough for a project's rate limit.
            thread::sleep(Duration::from_millis(20));
        };
        let text = |name: &str| recording[name].as_str().unwrap();
        let data = self.home.path().join("first-hour/conclave-data");
        let file = data
            .join("recordings")
            .join(text("project_id"))
            .join(text("filepath"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        recording
    }

    /// Prepares a shell in the server's folder, with the program in its path and without the settings from the tests' environment.
    fn prepare<'a>(&self, bash: &'a mut Command) -> &'a mut Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_conclave")).parent().unwrap();
        let path = format!("{}:/usr/bin:/bin", programs.display());
        bash.current_dir(self.home.path().join("first-hour"))
            .env_clear()
            .env("PATH", path)
    }

    /// Runs a page's commands next to the server, with its address and key as variables, and returns their output.
    fn page(&self, commands: &str, variables: &[(&str, &str)]) -> String {
        bash(commands, |bash| {
            self.prepare(bash)
                .envs([("API", &*self.api), ("KEY", &*self.key)])
                .envs(variables.iter().copied())
        })
    }

    /// Runs a command with the program, and returns the printed JSON.
    fn program(&self, command: &str) -> Value {
        serde_json::from_str(&self.page(&format!("conclave {command} --json"), &[])).unwrap()
    }

    fn project(&self) -> String {
        let ready = fs::read_to_string(self.home.path().join("first-hour/ready.json")).unwrap();
        serde_json::from_str::<Value>(&ready).unwrap()["project_id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn get(&self, path: &str, key: &str) -> support::Response {
        Request::new("GET", format!("{}{path}", self.api))
            .bearer(key)
            .send()
    }

    /// Starts a command in its own terminal.
    fn terminal(&self, command: &str) -> Terminal {
        let mut bash = Command::new("bash");
        self.prepare(bash.args(["-c", &format!("exec {command}")]))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Terminal(bash.spawn().unwrap())
    }

    /// Returns a delivery, a delivery from the button "Send test event", and the secret that signed both.
    fn deliveries(&self) -> (Received, Received, String) {
        let receiver = Receiver::start();
        let endpoint = self.post("/v1/webhook-endpoints", json!({"url": receiver.url}));
        self.join("hooks");
        let delivery = receiver.next();
        assert_eq!(receiver.next().json()["type"], "participant.joined");
        let page = Request::new("GET", format!("{}/projects", self.admin))
            .send()
            .text();
        let token = page
            .split_once("name=\"csrf\" value=\"")
            .unwrap()
            .1
            .split('"')
            .next()
            .unwrap();
        let project = delivery.json()["project_id"].as_str().unwrap().to_owned();
        let button = format!(
            "{}/projects/{project}/webhooks/{}/test",
            self.admin,
            endpoint["id"].as_str().unwrap()
        );
        assert_eq!(
            Request::new("POST", button)
                .form(&[("csrf", token)])
                .send()
                .status,
            303
        );
        (
            delivery,
            receiver.next(),
            endpoint["secret"].as_str().unwrap().to_owned(),
        )
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_guide_opens_a_room_and_tests_an_integration_without_a_browser() {
    if !has_curl_and_bash() {
        return;
    }
    let dev = Dev::start();
    let printed = dev.run(&["setup", "room", "token", "sandbox", "end"]);
    let [room, token, track, sessions] = printed.as_slice() else {
        panic!("four answers, not {printed:?}")
    };
    assert_eq!(
        (&room["status"], &room["empty_timeout_seconds"]),
        (&json!("open"), &json!(3_600))
    );
    assert_eq!(
        (&token["role"], &token["url"]),
        (&json!("teacher"), &json!(dev.api.replace("http", "ws")))
    );
    assert_eq!(
        (&track["kind"], &track["source"]),
        (&json!("video"), &json!("camera"))
    );
    let session = &sessions["sessions"][0];
    assert_eq!(
        (&session["role"], &session["track_count"]),
        (&json!("student"), &json!(1))
    );
    assert!(session["left_at"].is_string());
    let room = Request::new("GET", format!("{}/v1/rooms/algebra-1", dev.api))
        .bearer(&dev.key)
        .send()
        .expect(200);
    assert_eq!(room["status"], "ended");
}

#[test]
fn the_file_of_a_recording_is_got_as_the_page_about_recordings_says() {
    if !has_curl_and_bash() {
        return;
    }
    let dev = Dev::start();
    let recording = dev.recorded("a file");
    let text = |name: &str| recording[name].as_str().unwrap();
    let printed = bash(&commands("recordings.md", "file"), |bash| {
        dev.prepare(bash).envs([
            ("API", &*dev.api),
            ("KEY", &*dev.key),
            ("EGRESS_ID", text("egress_id")),
        ])
    });
    let file = dev
        .home
        .path()
        .join("first-hour")
        .join(text("filepath").rsplit('/').next().unwrap());
    assert_eq!(fs::read_to_string(file).unwrap(), "a file");
    let link = printed
        .lines()
        .find(|line| line.contains("/files/recordings/"))
        .expect("a link");
    let (_, path) = link.split_once("/files/").unwrap();
    let got = Request::new("GET", format!("{}/files/{path}", dev.api)).send();
    assert_eq!((got.status, &*got.text()), (200, "a file"));
}

#[test]
fn the_commands_of_the_page_about_tenants_equip_suspend_and_end_a_project() {
    if !has_curl_and_bash() || !exists("python3") {
        return;
    }
    let dev = Dev::start();
    let setup = ["create", "equip", "usage", "suspend"]
        .map(|name| commands("tenants.md", name))
        .concat();
    let printed = dev.page(&format!("{setup}\necho; echo \"$project $key\""), &[]);
    let (project, key) = printed.lines().last().unwrap().split_once(' ').unwrap();
    let usage = printed
        .lines()
        .find(|line| line.contains(r#""days""#))
        .expect("the usage");
    assert!(usage.contains(r#""plan_id":"free""#), "{usage}");
    let room = json!({"name": "tuesday"});
    let refused = Request::new("POST", format!("{}/v1/rooms", dev.api))
        .bearer(key)
        .json(room)
        .send();
    refused.expect_error(402, "quota_exceeded", None);
    assert_eq!(
        dev.get("/v1/rooms/monday", key).expect(200)["status"],
        "open"
    );
    assert_eq!(
        dev.get("/v1/rooms/monday", &dev.key).status,
        404,
        "another project has no such room"
    );

    let functions: String = setup
        .lines()
        .filter(|line| line.contains("() {"))
        .map(|line| format!("{line}\n"))
        .collect();
    dev.page(
        &(functions + &commands("tenants.md", "leave")),
        &[("project", project), ("key", key)],
    );
    dev.get("/v1/rooms/monday", key)
        .expect_error(401, "unauthorized", None);
    let another = dev.program(&format!("key create {project}"));
    assert_eq!(
        dev.get("/v1/rooms/monday", another["key"].as_str().unwrap())
            .expect(200)["status"],
        "ended"
    );
}

#[test]
fn the_commands_of_the_page_about_keys_replace_them_without_a_pause() {
    if !has_curl_and_bash() {
        return;
    }
    let (dev, receiver) = (Dev::start(), Receiver::start());
    let project = dev.project();
    let first = dev.program(&format!("key create {project}"));
    let text = |name: &str| first[name].as_str().unwrap();
    let variables = [("project", &*project), ("prefix", text("prefix"))];
    let printed = dev.page(&commands("keys.md", "api-key"), &variables);
    let second = printed
        .split_whitespace()
        .filter(|word| word.len() > 40)
        .find(|word| word.starts_with("vk_"))
        .unwrap();
    dev.get("/v1/plan", text("key"))
        .expect_error(401, "unauthorized", None);
    dev.get("/v1/plan", second).expect(200);

    let old = dev.post("/v1/webhook-endpoints", json!({"url": receiver.url}));
    let variables = [("endpoint", old["id"].as_str().unwrap())];
    let printed = dev.page(&commands("keys.md", "webhook"), &variables);
    // The list, then the new secret.
    let new: Value = serde_json::Deserializer::from_str(&printed)
        .into_iter()
        .last()
        .unwrap()
        .unwrap();
    let [before, after] = [&old, &new].map(|endpoint| endpoint["secret"].as_str().unwrap());
    assert_ne!(before, after);
    let rotated = dev.page(&commands("keys.md", "encryption"), &[]);
    assert!(rotated.contains("new_key_id"), "{rotated}");
    dev.join("hooks");
    for event in ["room.started", "participant.joined"] {
        let delivery = receiver.next();
        assert_eq!(delivery.header("x-svc-event"), event);
        assert!(
            delivery.is_signed_with(before) && delivery.is_next_signed_with(after),
            "{event} is signed by both secrets"
        );
    }
}

#[test]
fn a_server_that_has_moved_gives_links_and_urls_with_its_new_name() {
    if !has_curl_and_bash() {
        return;
    }
    let dev = Dev::start_with(&[("CONCLAVE_MEDIA__PUBLIC_URL", "wss://new.example.org")]);
    let recording = dev.recorded("a file");
    let egress_id = recording["egress_id"].as_str().unwrap();
    let printed = dev.page(&commands("moving.md", "check"), &[("EGRESS_ID", egress_id)]);
    let link = printed
        .lines()
        .find_map(|line| line.strip_prefix("https://new.example.org/files/"))
        .expect("a link");
    let got = Request::new("GET", format!("{}/files/{link}", dev.api)).send();
    assert_eq!((got.status, &*got.text()), (200, "a file"));
    let token: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(token["url"], "wss://new.example.org");
    let page = format!(
        "{}/projects/{}/recordings/{egress_id}",
        dev.admin,
        dev.project()
    );
    let page = Request::new("GET", page).send().text();
    assert!(
        page.contains(r#"href="https://new.example.org/files/recordings/"#),
        "{page}"
    );
}

#[test]
fn the_app_of_the_page_about_mobile_apps_exchanges_a_code() {
    if !has_curl_and_bash() {
        return;
    }
    let dev = Dev::start();
    dev.post("/v1/rooms", json!({"name": "talk"}));
    let code = dev.post("/v1/rooms/talk/codes", json!({"role": "guest"}));
    let printed = dev.page(
        &commands("mobile.md", "exchange"),
        &[("code", code["code"].as_str().unwrap())],
    );
    let exchanged: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(exchanged["url"], dev.api.replace("http", "ws"));
    assert!(exchanged["token"].is_string(), "{exchanged}");
}

/// A long-running command, killed when dropped.
struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the next line in a stream that contains `text`.
fn line_with(stream: &mut impl BufRead, text: &str) -> String {
    let mut lines = stream.lines().map(Result::unwrap);
    lines
        .find(|line| line.contains(text))
        .unwrap_or_else(|| panic!("no line has {text:?}"))
}

/// Returns a line's words, except words that differ each time: numbers, times, and room names.
fn steady_words(line: &str) -> Vec<&str> {
    let differs =
        |word: &str| word.starts_with("trigger-") || word.contains(|c: char| c.is_ascii_digit());
    line.split_whitespace()
        .filter(|word| !differs(word))
        .collect()
}

#[test]
fn the_commands_of_the_page_about_webhooks_bring_events_to_a_receiver_on_this_machine() {
    if !has_curl_and_bash() {
        return;
    }
    let (dev, receiver) = (Dev::start(), Receiver::start());
    let lines =
        commands("webhooks.md", "listen").replace("http://localhost:3000/hooks", &receiver.url);
    let [listen, trigger, sample] = lines.lines().collect::<Vec<_>>()[..] else {
        panic!("not three commands: {lines}")
    };
    let mut terminal = dev.terminal(listen);
    let mut notes = BufReader::new(terminal.0.stderr.take().unwrap());
    let secret = line_with(&mut notes, "signed with whsec_")
        .rsplit_once(' ')
        .unwrap()
        .1
        .to_owned();
    bash(trigger, |bash| dev.prepare(bash));
    let received = |name: &str| {
        std::iter::repeat_with(|| receiver.next())
            .find(|request| request.header("x-svc-event") == name)
            .unwrap()
    };
    assert!(received("participant.joined").is_signed_with(&secret));
    let mut printed = BufReader::new(terminal.0.stdout.take().unwrap());
    let line = line_with(&mut printed, "participant.joined");
    let shown = block("webhooks.md", "\n```text\n", "");
    assert_eq!(
        steady_words(&line),
        steady_words(&shown),
        "the page shows {shown}, but this was printed: {line}"
    );
    received("room.finished");
    bash(&sample.replace("whsec_...", &secret), |bash| {
        dev.prepare(bash)
    });
    let example = received("room.started");
    assert_eq!(example.json()["room"], "example");
    assert!(example.is_signed_with(&secret));
}

/// Runs commands in a shell that `prepare` has set up, until one fails. Returns their output.
fn bash(commands: &str, prepare: impl FnOnce(&mut Command) -> &mut Command) -> String {
    let output = prepare(Command::new("bash").args(["-euo", "pipefail", "-c", commands]))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns whether page commands can run here. If not, prints a message.
fn has_curl_and_bash() -> bool {
    let has_both = exists("curl") && exists("bash");
    if !has_both {
        println!("skipped: curl or bash is not on this machine");
    }
    has_both
}

/// Returns whether a program can be run here.
fn exists(program: &str) -> bool {
    let version = if program == "go" {
        "version"
    } else {
        "--version"
    };
    let tried = Command::new(program)
        .arg(version)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// A receiver from the guide: the program that runs it, its file, and the start of its first line.
const RECEIVERS: [(&str, &str, &str); 3] = [
    ("node", "receiver.mjs", "// "),
    ("python3", "receiver.py", "# "),
    ("go", "receiver.go", "// "),
];

/// A running receiver, killed when dropped.
struct Program {
    name: &'static str,
    process: Child,
    address: SocketAddr,
}

impl Program {
    fn start(
        (program, file, comment): (&'static str, &'static str, &str),
        folder: &Path,
        secret: &str,
    ) -> Self {
        let first = format!("{comment}{file}\n");
        fs::write(
            folder.join(file),
            block(GUIDE, &format!("\n{first}"), &first),
        )
        .unwrap();
        let mut command = if program == "go" {
            build(file, folder)
        } else {
            let mut command = Command::new(program);
            command.arg(file);
            command
        };
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        command
            .current_dir(folder)
            .env("WEBHOOK_SECRET", secret)
            .env("PORT", address.port().to_string());
        let process = command.stdout(Stdio::piped()).spawn().unwrap();
        let started = Self {
            name: file,
            process,
            address,
        };
        let deadline = Instant::now() + WAIT_LIMIT;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "{file} does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        started
    }

    /// Returns the receiver's response status to a delivery.
    fn answer(&self, body: &[u8], headers: &[(&str, String)]) -> u16 {
        let request = Request::new("POST", format!("http://{}/webhooks", self.address)).raw(body);
        headers
            .iter()
            .fold(request, |request, (name, value)| {
                request.header(name, value)
            })
            .send()
            .status
    }

    /// Stops it and returns its output.
    fn stop(mut self) -> String {
        self.process.kill().unwrap();
        std::io::read_to_string(self.process.stdout.take().unwrap()).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Builds a receiver in Go: `go run` would leave it running when it is killed.
fn build(file: &str, folder: &Path) -> Command {
    let mut build = Command::new("go");
    // In cargo's directory, so that only the first run compiles Go's library.
    build
        .args(["build", "-o", "receiver", file])
        .current_dir(folder)
        .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"));
    let built = build.output().unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Command::new(folder.join("receiver"))
}

/// Returns a delivery's headers as sent, some of them replaced.
fn headers(delivery: &Received, replaced: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let value = |name| {
        replaced
            .iter()
            .find(|(other, _)| *other == name)
            .map_or(delivery.header(name), |(_, value)| value)
    };
    names
        .iter()
        .map(|name| (*name, value(name).to_owned()))
        .collect()
}

/// Returns headers for a delivery that was signed so many seconds from now.
fn signed(secret: &str, body: &[u8], id: &str, seconds: i64) -> Vec<(&'static str, String)> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let time = now.saturating_add_signed(seconds).to_string();
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{time}.").as_bytes());
    mac.update(body);
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", time),
        ("webhook-signature", signature),
    ]
}

/// Proves S-74.
#[test]
fn the_receivers_of_the_guide_accept_a_delivery_once_and_refuse_altered_and_old_ones() {
    let dev = Dev::start();
    let (delivery, test, secret) = dev.deliveries();
    let (body, sent) = (&delivery.body, headers(&delivery, &[]));
    let mut altered = body.clone();
    *altered.last_mut().unwrap() = b' ';
    for receiver in RECEIVERS {
        if !exists(receiver.0) {
            println!("skipped: {} is not on this machine", receiver.0);
            continue;
        }
        let program = Program::start(receiver, dev.home.path(), &secret);
        let name = program.name;
        assert_eq!(
            program.answer(&altered, &sent),
            401,
            "{name}: an altered body"
        );
        assert_eq!(program.answer(body, &[]), 401, "{name}: no signature");
        let signature = delivery.header("webhook-signature");
        let short = &signature[..signature.len() - 1];
        for (header, value) in [
            ("webhook-id", "another"),
            ("webhook-timestamp", "1"),
            ("webhook-timestamp", "soon"),
            ("webhook-signature", short),
        ] {
            assert_eq!(
                program.answer(body, &headers(&delivery, &[(header, value)])),
                401,
                "{name}: {header} is {value:?}"
            );
        }
        for seconds in [-301, 302] {
            assert_eq!(
                program.answer(body, &signed(&secret, body, "a", seconds)),
                401,
                "{name}: {seconds} s from now"
            );
        }
        assert_eq!(
            program.answer(body, &signed("whsec_AAAA", body, "a", 0)),
            401,
            "{name}: another secret"
        );
        assert_eq!(program.answer(body, &sent), 204, "{name}: a delivery");
        assert_eq!(
            program.answer(body, &sent),
            204,
            "{name}: the same delivery again"
        );
        assert_eq!(
            program.answer(body, &signed(&secret, body, "b", -250)),
            204,
            "{name}: one of four minutes ago"
        );
        let mut several = signed(&secret, body, "c", 0);
        several[2].1.insert_str(0, "v1,AAAA ");
        assert_eq!(
            program.answer(body, &several),
            204,
            "{name}: one of several signatures"
        );
        assert_eq!(
            program.answer(&test.body, &headers(&test, &[])),
            204,
            "{name}: the test event of the console"
        );
        let events = "room.started hooks \n".repeat(3) + "webhook.test  \n";
        assert_eq!(
            program.stop(),
            events,
            "{name}: each delivery is handled once"
        );
    }
}
