//! A server process that shares its database, and reaches it through a proxy.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_postgres::{Cluster, Database, Proxy};

/// Time limit for reaching a state.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// A server; killed when dropped.
pub struct Server {
    dir: tempfile::TempDir,
    proxy: Proxy,
    child: Child,
    first_line: Receiver<String>,
    api: String,
    key: String,
}

impl Server {
    /// Starts a server. All servers except the first get another server's keys.
    pub fn spawn(binary: &Path, database: &Database<'_>, keys_of: Option<&Self>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("data");
        if let Some(other) = keys_of {
            fs::create_dir(&data).expect("a new directory");
            for name in ["encryption.key", "media.key"] {
                fs::copy(other.dir.path().join("data").join(name), data.join(name))
                    .expect("a key file");
            }
        }
        let proxy = Proxy::start(Cluster::shared().address());
        let mut child = Command::new(binary)
            .args([
                "dev",
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(data)
            .current_dir(dir.path())
            .env_clear()
            .env("CONCLAVE_DATABASE__URL", database.url_at(proxy.address()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.path().join("log")).expect("a log file"))
            .spawn()
            .expect("a server that can be started");
        let mut stdout = BufReader::new(child.stdout.take().expect("its stdout"));
        let (sender, first_line) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            if stdout.read_line(&mut line).is_ok() {
                let _ = sender.send(line);
            }
        });
        Self {
            dir,
            proxy,
            child,
            first_line,
            api: String::new(),
            key: String::new(),
        }
    }

    /// Returns its proxy to the database.
    pub const fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Waits until it is the active server.
    pub fn wait_until_ready(&mut self) {
        let line = self
            .first_line
            .recv_timeout(WAIT_LIMIT)
            .unwrap_or_else(|_| panic!("not ready: {}", self.log()));
        let ready: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("no ready line: {}", self.log()));
        let text = |field: &str| ready[field].as_str().expect("a text").to_owned();
        (self.api, self.key) = (text("api"), text("api_key"));
    }

    /// Waits until it has found that another server is active.
    pub fn wait_until_standby(&self) {
        let began = Instant::now();
        let is_standby = || {
            let log = self.log();
            let line = log
                .lines()
                .find(|line| line.contains("waiting for the database lease"))?
                .to_owned();
            let admin = line
                .split("admin=")
                .nth(1)?
                .split_whitespace()
                .next()?
                .trim_matches('"')
                .to_owned();
            let ready = self.call("GET", &format!("{admin}/readyz"), None)?;
            (ready.1["parts"]["database"] == "ok").then_some(())
        };
        while is_standby().is_none() {
            assert!(began.elapsed() < WAIT_LIMIT, "no standby: {}", self.log());
            thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Creates a room. Returns the response's status, if there is a response.
    pub fn create_room(&self, name: &str) -> Option<u16> {
        self.call(
            "POST",
            &format!("{}/v1/rooms", self.api),
            Some(&json!({"name": name})),
        )
        .map(|(status, _)| status)
    }

    /// Returns whether a room exists.
    pub fn has_room(&self, name: &str) -> bool {
        let found = self.call("GET", &format!("{}/v1/rooms/{name}", self.api), None);
        !matches!(found, Some((404, _)))
    }

    fn call(&self, method: &str, url: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(WAIT_LIMIT))
            .http_status_as_error(false);
        let agent: ureq::Agent = config.build().into();
        let key = format!("Bearer {}", self.key);
        let sent = match (method, body) {
            ("POST", Some(body)) => agent.post(url).header("Authorization", key).send_json(body),
            _ => agent.get(url).header("Authorization", key).call(),
        };
        let mut response = sent.ok()?;
        Some((
            response.status().as_u16(),
            response.body_mut().read_json().unwrap_or_default(),
        ))
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().expect("a server that runs");
        self.child.wait().expect("its end");
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string())
            .status();
        assert!(sent.expect("kill").success(), "no signal {name}");
    }

    /// Waits until it has exited. Returns its exit code.
    pub fn wait_for_exit(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status.code();
            }
            assert!(began.elapsed() < WAIT_LIMIT, "does not end: {}", self.log());
            thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
