//! Server processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::BenchError;

/// Worker threads per server.
pub const WORKERS: usize = 2;

/// A child process, killed when dropped.
pub struct Process {
    child: Child,
    /// The JSON line that it printed when it was ready.
    ready: Value,
}

impl Process {
    /// Starts a program, and waits for its ready line.
    pub fn start(command: &mut Command) -> Result<Self, BenchError> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        Ok(Self {
            child,
            ready: serde_json::from_str(&line)?,
        })
    }

    /// Starts `conclave dev` without rate limits.
    pub fn conclave(binary: &Path, data: &Path) -> Result<Self, BenchError> {
        Self::conclave_by(Command::new(binary), data)
    }

    /// Like [`Self::conclave`], with a command that ends with the program.
    pub fn conclave_by(mut command: Command, data: &Path) -> Result<Self, BenchError> {
        command.arg("--data").arg(data).args([
            "dev",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ]);
        command
            .env("CONCLAVE_LIMITS__REQUESTS_PER_SECOND", "1000000")
            .env("CONCLAVE_LIMITS__BURST", "1000000");
        command
            .env("CONCLAVE_HTTP__WORKERS", WORKERS.to_string())
            .env("RUST_LOG", "warn");
        Self::start(&mut command)
    }

    /// Starts a program without a ready line, with its output in a file.
    pub fn silent(command: &mut Command, log: &Path) -> Result<Self, BenchError> {
        let log = std::fs::File::create(log)?;
        let child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        Ok(Self {
            child,
            ready: Value::Null,
        })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn text(&self, field: &str) -> &str {
        self.ready[field].as_str().unwrap_or_default()
    }

    /// Returns the API's address and port.
    pub fn api(&self) -> String {
        self.text("api").trim_start_matches("http://").to_owned()
    }

    /// Returns the admin listener's address and port.
    pub fn admin(&self) -> String {
        self.text("admin").trim_start_matches("http://").to_owned()
    }

    pub fn key(&self) -> String {
        self.text("api_key").to_owned()
    }

    /// Returns the resident memory in KiB.
    pub fn resident(&self) -> Result<f64, BenchError> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .ok_or("no VmRSS")?;
        Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse()?)
    }

    /// Returns the CPU time so far, in seconds.
    pub fn cpu(&self) -> Result<f64, BenchError> {
        cpu(self.child.id())
    }

    /// Requests a stop, and waits for the exit.
    pub fn stop(mut self) -> Result<(), BenchError> {
        Command::new("kill")
            .arg(self.child.id().to_string())
            .status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a process's CPU time so far, in seconds.
pub fn cpu(process: u32) -> Result<f64, BenchError> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // User and system time are the fields 12 and 13.
    let fields: Vec<&str> = stat_fields(&stat).collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|field| field.parse::<f64>().ok())
            .ok_or("no CPU time")
    };
    // Linux counts a hundred ticks per second.
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

/// Returns the fields in a process's `stat` behind its name, which is in parentheses and may contain spaces: the state, the parent and so
/// on.
pub fn stat_fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
}
