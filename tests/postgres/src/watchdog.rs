//! Ends a server together with the process that uses it, however that process ends.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input: the kernel closes the pipe's other end even when the tests are killed. Then it ends the server and
/// removes its files.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
pid_file=$1/data/postmaster.pid
[ ! -e "$pid_file" ] || kill -QUIT "$(head -n 1 "$pid_file")"
tries=0
while [ -e "$pid_file" ] && [ "$tries" -lt 600 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
rm -rf "$1"
"#;

/// A process that briefly outlives this one.
#[derive(Debug)]
pub struct Watchdog(Child);

impl Watchdog {
    /// Starts a watchdog for the server whose files are in `folder`.
    pub fn start(folder: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SCRIPT, "sh"])
            .arg(folder)
            .process_group(0);
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(shell.spawn().expect("sh starts"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
