//! ffmpeg, as child processes.
//!
//! [`Ffmpeg`] is the one of this machine: whether it is there, its version, and what it can encode. A [`Process`] is a child that reads what
//! it is sent. What it has not read yet waits in a queue (`backlog`), in memory and then on disk, so that nobody waits for it. Children and
//! the threads around them give way to the forwarding of packets ([`Priority`]).

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

pub use backlog::{Capacity, DiskBuffer, Need};
pub use priority::Priority;
pub use process::{OnOutput, Process, SendError, StopDeadline};

/// The encoders that are used, in the order of preference for each codec.
pub const ENCODERS: [&str; 6] = [
    "libx264",
    "h264_v4l2m2m",
    "aac",
    "libvpx",
    "libopus",
    "opus",
];
/// What of the environment a child gets: where programs and libraries are. The rest may have secrets of the server.
const ENVIRONMENT: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];
/// How long ffmpeg may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// An ffmpeg that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ffmpeg {
    program: OsString,
    /// The version as it calls itself, such as `5.1.6-0+deb12u1`.
    pub version: String,
    /// Those of [`ENCODERS`] that it has.
    pub encoders: BTreeSet<&'static str>,
}

/// Why ffmpeg cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FfmpegError {
    /// There is no such program.
    #[error("ffmpeg is not installed: install the package ffmpeg, or set egress.ffmpeg")]
    NotFound,
    /// It cannot be run.
    #[error("ffmpeg cannot be run: {0}")]
    Unusable(String),
}

impl Ffmpeg {
    /// Asks a program what it is. Blocks until it has answered, for seconds at most.
    ///
    /// # Errors
    /// It does not exist, or does not answer as ffmpeg does.
    pub fn detect(program: &str) -> Result<Self, FfmpegError> {
        let version = ask(program, "-version")?;
        let version = version
            .strip_prefix("ffmpeg version ")
            .and_then(|rest| rest.split_whitespace().next());
        let version = version
            .ok_or_else(|| FfmpegError::Unusable(format!("{program} is not ffmpeg")))?
            .to_owned();
        let listed = ask(program, "-encoders")?;
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

    /// Returns the first of some encoders that this ffmpeg has.
    pub fn encoder(&self, wanted: &[&'static str]) -> Option<&'static str> {
        wanted
            .iter()
            .copied()
            .find(|name| self.encoders.contains(name))
    }

    /// Returns a command that says nothing but errors. A signal to the process group of the server, such as that of Ctrl-C, does not
    /// reach it: it ends when its input does.
    pub fn command(&self) -> Command {
        let mut command = without_secrets(&self.program);
        command.process_group(0);
        command.args(["-hide_banner", "-nostdin", "-nostats", "-loglevel", "error"]);
        command
    }

    /// Returns the arguments that keep the timestamps of pictures as they are.
    pub fn keep_timestamps(&self) -> [&'static str; 2] {
        let is_old = self.release().is_some_and(|release| release < (6, 0));
        if is_old {
            ["-vsync", "passthrough"]
        } else {
            ["-fps_mode", "passthrough"]
        }
    }

    /// Returns whether it reads video of FLV with the extended header of Enhanced RTMP, such as HEVC: from version 6.1 on.
    pub fn reads_enhanced_flv(&self) -> bool {
        self.release().is_none_or(|release| release >= (6, 1))
    }

    /// Returns the major and the minor version; `None` for a build that is named otherwise.
    fn release(&self) -> Option<(u32, u32)> {
        let mut numbers = self
            .version
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
    /// Returns a program that is run as if it were ffmpeg.
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

/// Returns a command that inherits nothing of the environment that it does not need.
fn without_secrets(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(
        ENVIRONMENT
            .into_iter()
            .filter_map(|name| Some((name, env::var_os(name)?))),
    );
    // Each thread of glibc would reserve address space for memory of its own.
    command.env("MALLOC_ARENA_MAX", "2");
    command
}

/// Returns what the program prints.
fn ask(program: &str, question: &str) -> Result<String, FfmpegError> {
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
    let answer = thread::spawn(move || {
        let mut text = Vec::new();
        stdout
            .read_to_end(&mut text)
            .map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    let deadline = Instant::now() + PATIENCE;
    while !answer.is_finished() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    // It has ended, or takes too long.
    let _ = child.kill();
    child.wait().map_err(unusable)?;
    let answer = answer
        .join()
        .map_err(|_| FfmpegError::Unusable(format!("{program} could not be read")))?;
    answer.map_err(unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_exist_and_one_that_is_not_ffmpeg_are_told_apart() {
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
    fn versions_are_told_apart_by_what_they_read() {
        let of = |version: &str| Ffmpeg {
            program: "ffmpeg".into(),
            version: version.into(),
            encoders: BTreeSet::new(),
        };
        for (version, reads, keeps) in [
            ("5.1.6-0+deb12u1", false, "-vsync"),
            ("6.0", false, "-fps_mode"),
            ("6.1.1-3ubuntu5", true, "-fps_mode"),
            ("n7.1", true, "-fps_mode"),
            ("N-112233-gabcdef", true, "-fps_mode"),
        ] {
            let ffmpeg = of(version);
            assert_eq!(
                (ffmpeg.reads_enhanced_flv(), ffmpeg.keep_timestamps()[0]),
                (reads, keeps),
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
