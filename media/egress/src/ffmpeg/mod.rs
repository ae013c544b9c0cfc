//! ffmpeg as child processes.
//!
//! [`Ffmpeg`] is this machine's program: its version and encoders. A [`Process`] is a running
//! child. Unread input is queued in memory and then on disk (`backlog`), so that no sender waits
//! for it. Children and the threads around them yield to packet forwarding ([`Priority`]).

mod backlog;
mod priority;
mod process;

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub use backlog::{BacklogCapacity, DiskBuffer, Importance};
pub use priority::Priority;
pub use process::{OnOutput, Process, SendError, StopDeadline};

/// Encoders in use, preferred ones first.
pub const ENCODERS: [&str; 6] = [
    "libx264",
    "h264_v4l2m2m",
    "aac",
    "libvpx",
    "libopus",
    "opus",
];
// The search paths for programs and libraries. Other variables may hold the server's secrets, and a
// child that reads untrusted media must not have them.
const ENVIRONMENT: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

/// ffmpeg program that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ffmpeg {
    program: OsString,
    /// Version as the program prints it, such as `5.1.6-0+deb12u1`.
    pub version: String,
    /// Available encoders out of [`ENCODERS`].
    pub encoders: BTreeSet<&'static str>,
}

/// Error when ffmpeg cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FfmpegError {
    /// The program does not exist.
    #[error("ffmpeg is not installed: install the package ffmpeg, or set egress.ffmpeg")]
    NotFound,
    /// The program cannot be run, or is not ffmpeg.
    #[error("ffmpeg cannot be run: {0}")]
    Unusable(String),
}

impl Ffmpeg {
    /// Runs a program to find out its version and encoders. Blocks for up to 20 s.
    ///
    /// # Errors
    /// Fails if the program does not exist, or its output is not ffmpeg's.
    pub fn detect(program: &str) -> Result<Self, FfmpegError> {
        let version = run_query(program, "-version")?;
        let version = version
            .strip_prefix("ffmpeg version ")
            .and_then(|rest| rest.split_whitespace().next());
        let version = version
            .ok_or_else(|| FfmpegError::Unusable(format!("{program} is not ffmpeg")))?
            .to_owned();
        let listed = run_query(program, "-encoders")?;
        let names: BTreeSet<_> = listed
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        let encoders = ENCODERS
            .into_iter()
            .filter(|name| names.contains(name))
            .collect();
        Ok(Self {
            program: program.into(),
            version,
            encoders,
        })
    }

    /// Returns the first available encoder.
    pub fn encoder(&self, wanted: &[&'static str]) -> Option<&'static str> {
        wanted
            .iter()
            .copied()
            .find(|name| self.encoders.contains(name))
    }

    /// Returns a command that prints errors only. A signal to the server's process group, such as
    /// Ctrl-C, does not reach the child; it exits when its input ends.
    pub fn command(&self) -> Command {
        let mut command = without_secrets(&self.program);
        // On Ctrl-C, the server finishes its files first; ffmpeg must not exit before it.
        command.process_group(0);
        command.args(["-hide_banner", "-nostdin", "-nostats", "-loglevel", "error"]);
        command
    }

    /// Returns the options that keep video timestamps unchanged.
    pub fn keep_timestamps(&self) -> [&'static str; 2] {
        // `-fps_mode` replaces `-vsync`, which newer versions deprecate. Nightly builds count as new.
        let is_old = self.release().is_some_and(|release| release < (6, 0));
        if is_old {
            ["-vsync", "passthrough"]
        } else {
            ["-fps_mode", "passthrough"]
        }
    }

    /// Returns whether FLV may have Enhanced RTMP's extended video header, as HEVC needs (ffmpeg
    /// 6.1).
    pub fn reads_enhanced_flv(&self) -> bool {
        self.release().is_none_or(|release| release >= (6, 1))
    }

    /// Returns the major and minor version; `None` for builds named otherwise, such as nightly
    /// ones.
    fn release(&self) -> Option<(u32, u32)> {
        let mut numbers = self
            .version
            // Builds from git tags are named like `n7.1`.
            .trim_start_matches('n')
            .split(|c: char| !c.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        Some((
            major,
            numbers
                .next()
                .and_then(|minor| minor.parse().ok())
                .unwrap_or_default(),
        ))
    }
}

#[cfg(test)]
impl Ffmpeg {
    /// Wraps a program that replaces ffmpeg.
    pub fn fake(program: &std::path::Path) -> Self {
        Self {
            program: program.into(),
            version: "5.1".into(),
            encoders: BTreeSet::new(),
        }
    }
}

impl fmt::Display for Ffmpeg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoders: Vec<_> = ENCODERS
            .into_iter()
            .filter(|name| self.encoders.contains(name))
            .collect();
        write!(f, "ffmpeg {} with {}", self.version, encoders.join(", "))
    }
}

/// Returns a command with a minimal environment.
fn without_secrets(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(
        ENVIRONMENT
            .into_iter()
            .filter_map(|name| Some((name, env::var_os(name)?))),
    );
    // By default, glibc reserves 64 MiB address space per thread for its heaps, which counts
    // against the decoders' limit.
    command.env("MALLOC_ARENA_MAX", "2");
    command
}

/// Runs the program with one argument and returns its output.
fn run_query(program: &str, question: &str) -> Result<String, FfmpegError> {
    let unusable = |error: io::Error| FfmpegError::Unusable(error.to_string());
    let mut command = without_secrets(program.as_ref());
    command
        .args(["-hide_banner", question])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FfmpegError::NotFound,
        _ => unusable(error),
    })?;
    let Some(mut stdout) = child.stdout.take() else {
        return Err(FfmpegError::NotFound);
    };
    // Read on a thread: if the pipe is full, the program does not exit; if it hangs, it is killed
    // below.
    let output = thread::spawn(move || {
        let mut text = Vec::new();
        stdout
            .read_to_end(&mut text)
            .map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    let deadline = Instant::now() + DETECT_TIMEOUT;
    while !output.is_finished() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    // The program has exited or takes too long.
    let _ = child.kill();
    child.wait().map_err(unusable)?;
    let output = output
        .join()
        .map_err(|_| FfmpegError::Unusable(format!("{program} could not be read")))?;
    output.map_err(unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_distinguished_from_one_that_is_not_ffmpeg() {
        assert_eq!(
            Ffmpeg::detect("/nowhere/ffmpeg"),
            Err(FfmpegError::NotFound)
        );
        assert_eq!(
            Ffmpeg::detect("true"),
            Err(FfmpegError::Unusable("true is not ffmpeg".into()))
        );
    }

    #[test]
    fn features_depend_on_the_version() {
        let ffmpeg_of = |version: &str| Ffmpeg {
            program: "ffmpeg".into(),
            version: version.into(),
            encoders: BTreeSet::new(),
        };
        for (version, reads, option) in [
            ("5.1.6-0+deb12u1", false, "-vsync"),
            ("6.0", false, "-fps_mode"),
            ("6.1.1-3ubuntu5", true, "-fps_mode"),
            ("n7.1", true, "-fps_mode"),
            ("N-112233-gabcdef", true, "-fps_mode"),
        ] {
            let ffmpeg = ffmpeg_of(version);
            assert_eq!(
                (ffmpeg.reads_enhanced_flv(), ffmpeg.keep_timestamps()[0]),
                (reads, option),
                "{version}"
            );
        }
    }

    #[test]
    fn a_signal_to_the_group_of_the_server_does_not_reach_it() {
        let ffmpeg = Ffmpeg {
            program: "true".into(),
            version: "5".into(),
            encoders: BTreeSet::new(),
        };
        let mut child = ffmpeg.command().spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap());
        assert_eq!(rustix::process::getpgid(pid).ok(), pid);
        child.wait().unwrap();
    }

    /// Proves S-87.
    #[test]
    fn a_child_inherits_no_secrets_of_the_environment() {
        assert!(
            env::var_os("CARGO_MANIFEST_DIR").is_some(),
            "this test has an environment that a child does not need"
        );
        let output = without_secrets("env".as_ref()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let is_needed = |line: &str| {
            ENVIRONMENT
                .iter()
                .chain(&["MALLOC_ARENA_MAX"])
                .any(|name| line.starts_with(name))
        };
        assert!(
            text.lines().all(is_needed) && text.contains("PATH="),
            "{text}"
        );
    }

    #[test]
    fn the_option_for_timestamps_is_that_of_the_version() {
        let with = |version: &str| Ffmpeg {
            program: "ffmpeg".into(),
            version: version.into(),
            encoders: BTreeSet::new(),
        };
        for (version, option) in [
            ("5.1.6-0+deb12u1", "-vsync"),
            ("4.4", "-vsync"),
            ("n7.1", "-fps_mode"),
            ("git", "-fps_mode"),
        ] {
            assert_eq!(with(version).keep_timestamps()[0], option, "{version}");
        }
    }
}
