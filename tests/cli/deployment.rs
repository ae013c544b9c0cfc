//! A deployment in a temporary directory, and the result of a command in it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// An id without a project.
pub const UNKNOWN_PROJECT: &str = "prj_000000000000";

/// A temporary directory without settings. Its data directory is `data`, which does not exist at first.
pub struct Deployment {
    pub dir: tempfile::TempDir,
    pub environment: Vec<(&'static str, &'static str)>,
}

/// Exit code and output.
pub struct CommandResult {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Deployment {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
        }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn run(&self, arguments: &[&str]) -> CommandResult {
        self.run_in_folder(&[&["--data", self.data().to_str().unwrap()], arguments].concat())
    }

    /// Runs a command with the default data directory.
    pub fn run_in_folder(&self, arguments: &[&str]) -> CommandResult {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(arguments)
            .current_dir(self.dir.path())
            .env_clear()
            .envs(self.environment.iter().copied())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        CommandResult {
            code: status.code().unwrap(),
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }

    /// Starts `conclave dev` with these additional arguments. Returns the process, which the caller kills, and its ready line.
    pub fn start_dev(&self, arguments: &[&str]) -> (Child, String) {
        let mut process = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["--data", self.data().to_str().unwrap(), "dev"])
            .args(arguments)
            .current_dir(self.dir.path())
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        (process, line)
    }

    /// Runs a command with `--json`, which must succeed, and returns the JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let result = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(result.code, 0, "{arguments:?}: {}", result.stderr);
        assert_eq!(result.stdout.lines().count(), 1, "{}", result.stdout);
        serde_json::from_str(&result.stdout).unwrap()
    }

    /// Runs a command that must fail, and returns its stderr.
    pub fn run_failing(&self, code: i32, arguments: &[&str]) -> String {
        let result = self.run(arguments);
        assert_eq!(
            result.code, code,
            "{arguments:?}: {}{}",
            result.stdout, result.stderr
        );
        result.stderr
    }

    pub fn create_project(&self) -> String {
        let created = self.json(&["project", "create", "--name", "Acme"]);
        created["project_id"].as_str().unwrap().to_owned()
    }
}

/// Returns every file below a directory.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
