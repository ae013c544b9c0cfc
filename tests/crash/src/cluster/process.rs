//! A node's process.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Start options for a node.
#[derive(Debug, Clone)]
pub struct Launch {
    pub binary: PathBuf,
    /// Folder for its data and logs.
    pub folder: PathBuf,
    pub environment: Vec<(&'static str, String)>,
}

/// Replacement for a node's program.
#[derive(Debug, Clone, Default)]
pub struct Version {
    /// Another program; absent for the same.
    pub binary: Option<PathBuf>,
    /// Paths of its further migrations, separated by colons; absent if it has none.
    pub migrations: Option<String>,
}

/// A running process; killed when dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

/// A node's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    pub api: SocketAddr,
    pub admin: SocketAddr,
}

impl Launch {
    /// Returns the same launch with another version of the program.
    #[must_use]
    pub fn with(&self, version: Version) -> Self {
        let mut launch = self.clone();
        launch.binary = version.binary.unwrap_or(launch.binary);
        launch.environment.extend(
            version
                .migrations
                .map(|paths| ("FURTHER_MIGRATIONS", paths)),
        );
        launch
    }

    /// Starts the program. `number` is the number of this start.
    pub fn start(&self, number: u32, url: &str) -> Process {
        let log = self.folder.join(format!("log-{number}"));
        let child = Command::new(&self.binary)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(self.folder.join("data"))
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("CONCLAVE_DATABASE__URL", url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log file"))
            .spawn()
            .expect("a node that can be started");
        Process { child, log }
    }

    /// Runs a command of the program, and returns its output.
    pub fn command(&self, arguments: &[&str], url: &str) -> String {
        let output = Command::new(&self.binary)
            .args(arguments)
            .arg("--data")
            .arg(self.folder.join("data"))
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("CONCLAVE_DATABASE__URL", url)
            .output()
            .expect("a command that can be started");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("the output is UTF-8")
    }
}

impl Process {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the node's addresses, once its log contains them.
    pub fn addresses(&self) -> Option<Addresses> {
        addresses(&self.log())
    }

    pub fn log(&self) -> String {
        read(&self.log)
    }

    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(pid, signal).map_err(io::Error::from)
    }

    /// Returns the process's exit status; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of a child")
    }

    /// Kills the process as `kill -9` does.
    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill().expect("a process that can be killed");
        self.child.wait().expect("its end")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

fn addresses(log: &str) -> Option<Addresses> {
    let line = log
        .lines()
        .find(|line| line.contains("waiting for the database lease"))?;
    let address = |name: &str| {
        let url = line
            .split(&format!("{name}="))
            .nth(1)?
            .split_whitespace()
            .next()?
            .trim_matches('"');
        url.strip_prefix("http://")?.parse().ok()
    };
    Some(Addresses {
        api: address("api")?,
        admin: address("admin")?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Addresses, addresses};

    #[test]
    fn the_log_says_where_a_node_listens() {
        let line = r#"[INFO conclave] waiting for the database lease api="http://127.0.0.1:4001" admin="http://127.0.0.1:4002""#;
        let found = Addresses {
            api: "127.0.0.1:4001".parse().unwrap(),
            admin: "127.0.0.1:4002".parse().unwrap(),
        };
        assert_eq!(addresses(&format!("[INFO] first\n{line}\n")), Some(found));
        assert_eq!(addresses("[INFO] first\n"), None);
    }
}
