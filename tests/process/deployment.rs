//! A data directory and the server process that uses it.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::{Value, json};
use test_postgres::Records;

use crate::support::{Request, WAIT_LIMIT, create_schema};

/// A temporary data directory and settings, which outlive the server process.
pub struct Deployment {
    dir: tempfile::TempDir,
    records: Records,
    /// URL of a database shared with other deployments.
    shared: Option<String>,
    environment: Vec<(&'static str, String)>,
    /// Commands for the shell that becomes the program, if any.
    setup: Option<String>,
}

/// A running server process. It is killed when dropped.
pub struct Running {
    child: Child,
    stdout: Option<BufReader<std::process::ChildStdout>>,
    pub api: String,
    pub admin: String,
    pub key: String,
    pub project: String,
}

impl Deployment {
    /// Creates a deployment with short webhook ticks and retry delays and without request limits.
    pub fn new() -> Self {
        let environment = vec![
            ("CONCLAVE_WEBHOOKS__TICK", "200ms".to_owned()),
            (
                "CONCLAVE_WEBHOOKS__RETRY_DELAYS",
                "300ms,300ms,300ms,30s".to_owned(),
            ),
            ("CONCLAVE_LIMITS__REQUESTS_PER_SECOND", "100000".to_owned()),
            ("CONCLAVE_LIMITS__BURST", "100000".to_owned()),
            ("CONCLAVE_HTTP__WORKERS", "1".to_owned()),
        ];
        let dir = tempfile::tempdir().unwrap();
        let records = Records::create(dir.path().join("data/conclave.db"), create_schema);
        Self {
            dir,
            records,
            shared: None,
            environment,
            setup: None,
        }
    }

    /// Puts the records into a database that other deployments use, too.
    pub fn sharing(mut self, url: String) -> Self {
        self.shared = Some(url);
        self
    }

    /// Copies another deployment's keys, as servers on one database need them.
    pub fn copy_keys(&self, of: &Self) {
        std::fs::create_dir_all(self.data()).unwrap();
        for name in ["encryption.key", "media.key"] {
            std::fs::copy(of.data().join(name), self.data().join(name)).unwrap();
        }
    }

    /// Adds an environment variable.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Limits the process's open files: `-Sn` the soft limit, `-n` both limits.
    pub fn with_open_files(self, option: &'static str, limit: u32) -> Self {
        self.with_setup(format!("ulimit {option} {limit}"))
    }

    /// Runs commands in the shell that becomes the program.
    pub fn with_setup(mut self, commands: impl Into<String>) -> Self {
        self.setup = Some(commands.into());
        self
    }

    /// Returns the command that starts the program.
    fn program(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_conclave");
        let Some(setup) = &self.setup else {
            return Command::new(program);
        };
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("{setup} && exec \"$0\" \"$@\""), program]);
        shell
    }

    /// Returns the records, for test operations on them next to the server.
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// Returns the environment variable that names the records, if they are not in the data directory.
    pub fn url(&self) -> Option<(&'static str, String)> {
        self.shared
            .clone()
            .or_else(|| self.records.url())
            .map(|url| ("CONCLAVE_DATABASE__URL", url))
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Runs a command next to the server, and returns its output, including errors.
    pub fn run_command(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }

    /// Returns the log from all processes of this deployment.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap()
    }

    /// Returns a command next to the server, with the same data directory and settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
        command
            .arg("--data")
            .arg(self.data())
            .args(arguments)
            .current_dir(self.dir.path())
            .env_clear();
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .envs(self.url());
        command
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("stderr")
    }

    /// Starts `conclave dev` and waits for its ready line.
    pub fn start(&self) -> Running {
        self.start_with(None)
    }

    /// Like [`Self::start`], with an environment variable for this start only.
    pub fn start_with(&self, variable: Option<(&str, &str)>) -> Running {
        self.spawn_as("dev", variable).ready(self)
    }

    /// Starts `conclave serve`, which creates no key and no project, and waits for its ready line.
    pub fn serve(&self) -> Running {
        self.spawn_as("serve", None).ready(self)
    }

    /// Starts `conclave dev`, which may have to wait for another server.
    pub fn spawn(&self) -> Starting {
        self.spawn_as("dev", None)
    }

    fn spawn_as(&self, mode: &str, variable: Option<(&str, &str)>) -> Starting {
        let log: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())
            .unwrap();
        let mut child = self
            .program()
            .args([
                mode,
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(self.data())
            .current_dir(self.dir.path())
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .envs(self.url())
            .envs(variable)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = stdout.read_line(&mut line);
            let _ = sender.send((read.map(|_| line), stdout));
        });
        Starting {
            child: Some(child),
            first_line: receiver,
        }
    }
}

/// A server process that has not printed its ready line. It is killed when dropped.
pub struct Starting {
    child: Option<Child>,
    first_line: mpsc::Receiver<FirstLine>,
}

/// The first line on stdout, and the rest.
type FirstLine = (
    std::io::Result<String>,
    BufReader<std::process::ChildStdout>,
);

impl Starting {
    /// Waits for the ready line.
    pub fn ready(mut self, deployment: &Deployment) -> Running {
        let (line, stdout) = self
            .first_line
            .recv_timeout(WAIT_LIMIT)
            .expect("a ready line");
        let ready: Value =
            serde_json::from_str(&line.unwrap()).unwrap_or_else(|_| panic!("{}", deployment.log()));
        assert_eq!(ready["ready"], true);
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        let child = self.child.take().unwrap();
        let [api, admin, key, project] = ["api", "admin", "api_key", "project_id"].map(text);
        Running {
            child,
            stdout: Some(stdout),
            api,
            admin,
            key,
            project,
        }
    }

    /// Waits for the ready line, or for the end of the process. Returns the exit code if the process ends.
    pub fn ready_or_ended(mut self, deployment: &Deployment) -> Result<Running, Option<i32>> {
        let (line, stdout) = self
            .first_line
            .recv_timeout(WAIT_LIMIT)
            .expect("a ready line, or the end");
        if line.as_ref().is_ok_and(String::is_empty) {
            return Err(self.child.take().unwrap().wait().unwrap().code());
        }
        let (sender, first_line) = mpsc::channel();
        sender.send((line, stdout)).unwrap();
        self.first_line = first_line;
        Ok(self.ready(deployment))
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    /// Kills the process with SIGKILL, so that it cannot clean up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM and waits for the exit. Returns the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        let sent = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        self.wait_for_exit()
    }

    /// Waits until the process has exited on its own. Returns the exit code.
    pub fn wait_for_exit(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < WAIT_LIMIT, "the server does not stop");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until the process is ready again after being a standby, and reads its new key.
    pub fn ready_again(&mut self, deployment: &Deployment) {
        let mut stdout = self.stdout.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = stdout.read_line(&mut line);
            let _ = sender.send((read.map(|_| line), stdout));
        });
        let (line, stdout): FirstLine = receiver.recv_timeout(WAIT_LIMIT).expect("a ready line");
        let ready: Value =
            serde_json::from_str(&line.unwrap()).unwrap_or_else(|_| panic!("{}", deployment.log()));
        assert_eq!(ready["api"], json!(self.api));
        self.key = ready["api_key"].as_str().unwrap().to_owned();
        self.stdout = Some(stdout);
    }

    /// Returns the output on stdout after the ready line. The process must have exited.
    pub fn rest_of_stdout(&mut self) -> String {
        let mut rest = String::new();
        self.stdout
            .take()
            .unwrap()
            .read_to_string(&mut rest)
            .unwrap();
        rest
    }

    pub fn get(&self, path: &str) -> Request {
        self.request("GET", path)
    }

    pub fn post(&self, path: &str) -> Request {
        self.request("POST", path)
    }

    pub fn delete(&self, path: &str) -> Request {
        self.request("DELETE", path)
    }

    pub fn admin(&self, method: &str, path: &str) -> Request {
        Request::new(method, format!("{}{path}", self.admin))
    }

    fn request(&self, method: &str, path: &str) -> Request {
        Request::new(method, format!("{}{path}", self.api)).bearer(&self.key)
    }

    pub fn room(&self, name: &str, empty_timeout_seconds: u32) {
        let body = json!({"name": name, "empty_timeout_seconds": empty_timeout_seconds});
        self.post("/v1/rooms").json(body).send().expect(201);
    }

    /// Creates a webhook endpoint and returns its signing secret.
    pub fn endpoint(&self, url: &str) -> String {
        let endpoint = self
            .post("/v1/webhook-endpoints")
            .json(json!({"url": url}))
            .send()
            .expect(201);
        endpoint["secret"].as_str().unwrap().to_owned()
    }

    pub fn token(&self, room: &str, identity: &str, role: &str) -> String {
        let body = json!({"room": room, "identity": identity, "role": role});
        let token = self.post("/v1/tokens").json(body).send().expect(201);
        token["token"].as_str().unwrap().to_owned()
    }

    /// Joins a simulated participant and returns its sid.
    pub fn join(&self, token: &str) -> String {
        let joined = self
            .admin("POST", "/sandbox/join")
            .json(json!({"token": token}))
            .send()
            .expect(201);
        joined["sid"].as_str().unwrap().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
