//! The server process, its data directory, and its running times.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::api::Api;
use crate::single::TIMEOUT;

/// Server settings: quick retries, no limits, one thread for each kind of work.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("CONCLAVE_WEBHOOKS__TICK", "100ms"),
    (
        "CONCLAVE_WEBHOOKS__RETRY_DELAYS",
        "100ms,100ms,100ms,100ms,100ms,100ms,100ms,100ms",
    ),
    ("CONCLAVE_LIMITS__REQUESTS_PER_SECOND", "1000000"),
    ("CONCLAVE_LIMITS__BURST", "1000000"),
    ("CONCLAVE_LIMITS__EXCHANGE_PER_SECOND", "1000000"),
    ("CONCLAVE_LIMITS__EXCHANGE_BURST", "1000000"),
];

/// A server's address and API key, which change with each start.
#[derive(Debug, Clone)]
pub struct Address {
    /// Start number, from 1.
    pub lifetime: u32,
    pub url: String,
    pub admin: String,
    pub key: String,
}

impl Address {
    /// Connections to its API.
    pub fn api(&self) -> Api {
        Api::new(&self.url, &self.key, TIMEOUT)
    }
}

/// Time limit for recovery after the database's return.
const RECOVERY: Duration = Duration::from_secs(2);

/// The time from a start's ready line to its kill, or to its database's kill; the next lifetime starts once both run again. The last
/// lifetime has no end.
#[derive(Debug, Clone, Copy)]
pub struct Lifetime {
    pub from: SystemTime,
    pub to: Option<SystemTime>,
}

/// A data directory and the servers that ran on it. Cheap to clone.
#[derive(Clone)]
pub struct Deployment(Arc<Inner>);

struct Inner {
    binary: PathBuf,
    dir: tempfile::TempDir,
    /// Database URL; absent for a file.
    url: Option<String>,
    /// The running server; absent while there is none.
    address: RwLock<Option<Address>>,
    /// Number of starts.
    starts: AtomicU32,
    lifetimes: Mutex<Vec<Lifetime>>,
}

/// A running server; killed when dropped.
pub struct Running {
    child: Child,
    pub address: Address,
}

impl Deployment {
    pub fn new(binary: PathBuf, url: Option<String>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // The server starts in another directory, where a relative path would be wrong.
        let binary = std::path::absolute(binary).expect("a path of a program");
        Self(Arc::new(Inner {
            binary,
            dir,
            url,
            address: RwLock::default(),
            starts: AtomicU32::default(),
            lifetimes: Mutex::default(),
        }))
    }

    /// Starts a server and waits until it is ready.
    pub fn start(&self) -> Running {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.0.dir.path().join("log"))
            .expect("a log file");
        let mut child = Command::new(&self.0.binary)
            .args([
                "dev",
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(self.0.dir.path().join("data"))
            .current_dir(self.0.dir.path())
            .env_clear()
            .envs(ENVIRONMENT)
            .envs(
                self.0
                    .url
                    .as_ref()
                    .map(|url| ("CONCLAVE_DATABASE__URL", url)),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a server that can be started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its stdout"))
            .read_line(&mut line)
            .expect("its ready line");
        let ready: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("no ready line: {}", self.log()));
        let text = |field: &str| ready[field].as_str().expect("a text").to_owned();
        self.0.lifetimes.lock().push(Lifetime {
            from: SystemTime::now(),
            to: None,
        });
        let lifetime = self.0.starts.fetch_add(1, Ordering::Relaxed) + 1;
        let address = Address {
            lifetime,
            url: text("api"),
            admin: text("admin"),
            key: text("api_key"),
        };
        *self.0.address.write() = Some(address.clone());
        Running { child, address }
    }

    /// Kills a server with SIGKILL, so that it cannot clean up.
    pub fn kill(&self, mut running: Running) {
        // This server's late requests do not count for the next one.
        running.child.kill().expect("a server that runs");
        *self.0.address.write() = None;
        self.end_lifetime();
        running.child.wait().expect("its end");
    }

    /// Stops the running server's database for the duration of `outage`.
    pub fn without_database(&self, outage: impl FnOnce()) {
        self.end_lifetime();
        outage();
        self.0.lifetimes.lock().push(Lifetime {
            from: SystemTime::now() + RECOVERY,
            to: None,
        });
    }

    /// Waits until the last lifetime has started: earlier events are judged as if the server still ran without its database.
    pub fn wait_for_lifetime(&self) {
        let last = self.lifetimes().last().expect("a lifetime").from;
        if let Ok(rest) = last.duration_since(SystemTime::now()) {
            std::thread::sleep(rest);
        }
    }

    fn end_lifetime(&self) {
        self.0.lifetimes.lock().last_mut().expect("a lifetime").to = Some(SystemTime::now());
    }

    /// Returns the running server.
    pub fn address(&self) -> Option<Address> {
        self.0.address.read().clone()
    }

    /// Returns the number of the running server's lifetime; `None` while there is none.
    pub fn lifetime(&self) -> impl Fn() -> Option<u32> + Clone + Send + use<> {
        let deployment = self.clone();
        move || deployment.address().map(|address| address.lifetime)
    }

    pub fn lifetimes(&self) -> Vec<Lifetime> {
        self.0.lifetimes.lock().clone()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.dir.path().join("log")).unwrap_or_default()
    }
}

impl Running {
    /// Waits until the server can write; it cannot for a moment after its database's end.
    ///
    /// # Panics
    /// The server cannot write for a minute.
    pub fn wait_until_ready(&self) {
        let (url, until) = (
            format!("{}/readyz", self.address.admin),
            Instant::now() + Duration::from_secs(60),
        );
        while ureq::get(&url).call().is_err() {
            assert!(
                Instant::now() < until,
                "the server is not ready within a minute"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
