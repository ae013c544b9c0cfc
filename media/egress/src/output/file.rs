//! The file that an egress writes, through ffmpeg.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::backlog::Capacity;
use crate::ffmpeg::Ffmpeg;
use crate::files::{Container, ReservedFile, create_new, unfinished};
use crate::process::Process;
use crate::stopping::StopDeadline;

/// How long ffmpeg may take to end a file, from when it has read anything last.
const ENDING: Duration = Duration::from_secs(60);
/// How long a file may take to be made seekable.
const REWRITING: Duration = Duration::from_secs(600);
/// The most of an MP4 file that a crash loses: a publisher may send a single key frame.
const FRAGMENT_MICROS: &str = "2000000";
/// Lets a video that begins later than its file begin later there, too. In MP4, only a delayed header can say so.
const KEEP_START: [&str; 1] = ["-copyts"];

/// A recorded file.
#[derive(Debug)]
pub struct OutputFile {
    ffmpeg: Ffmpeg,
    file: ReservedFile,
    stop: StopDeadline,
}

impl OutputFile {
    pub const fn new(ffmpeg: Ffmpeg, file: ReservedFile, stop: StopDeadline) -> Self {
        Self { ffmpeg, file, stop }
    }

    pub const fn container(&self) -> Container {
        self.file.container
    }

    /// Returns the path of the file.
    #[cfg(test)]
    pub fn path(&self) -> &std::path::Path {
        &self.file.path
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        fs::metadata(&self.file.path)
            .map(|metadata| metadata.len())
            .unwrap_or_default()
    }

    /// Starts ffmpeg, which writes what it is sent in Matroska, encoded by these arguments. What has been written plays at
    /// any moment.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        &self,
        encoding: &[String],
        queue: impl Into<Capacity>,
    ) -> Result<Process, String> {
        let mut command = self.ffmpeg.command();
        command
            .args(["-f", "matroska", "-i", "pipe:0", "-map", "0"])
            .args(KEEP_START)
            .args(encoding);
        if self.file.container == Container::Mp4 {
            command.args([
                "-movflags",
                "+frag_keyframe+delay_moov+default_base_moof",
                "-frag_duration",
                FRAGMENT_MICROS,
            ]);
        }
        command.args(["-strict", "experimental", "-flush_packets", "1"]);
        command
            .args(["-f", self.file.container.format(), "-y"])
            .arg(protocol(self.file.path.as_os_str()));
        start(command, queue)
    }

    /// Ends the file once nothing more is sent: waits for ffmpeg, and makes an MP4 file seekable. Returns whether anything is in
    /// it.
    ///
    /// # Errors
    /// Why ffmpeg failed. What was written plays.
    pub fn finish(self, process: Option<Process>) -> Result<bool, String> {
        let finished = process
            .map(|process| self.stop.finish(process, ENDING))
            .transpose();
        let finished = finished.map_err(|error| self.hide_path(&error));
        if self.bytes() == 0 {
            return finished.map(|_| false);
        }
        if self.file.container == Container::Mp4
            && let Err(error) = self.make_seekable()
        {
            log::warn!(
                "a recording plays, and was not made seekable: {}",
                self.hide_path(&error)
            );
        }
        finished.map(|_| true)
    }

    /// Replaces the file by a copy whose index is at its beginning.
    fn make_seekable(&self) -> Result<(), String> {
        let copy = unfinished(&self.file.path);
        // Of an attempt that a crash has interrupted.
        let _ = fs::remove_file(&copy);
        // ffmpeg keeps the mode of a file that it writes.
        create_new(&copy).map_err(|error| error.to_string())?;
        let mut command = self.ffmpeg.command();
        // Without the option, ffmpeg succeeds with a copy that does not play if the disk is full at its end.
        command
            .arg("-xerror")
            .arg("-i")
            .arg(protocol(self.file.path.as_os_str()));
        command.args(["-map", "0", "-c", "copy"]).args(KEEP_START);
        command.args([
            "-strict",
            "experimental",
            "-movflags",
            "+faststart",
            "-f",
            "mp4",
            "-y",
        ]);
        command.arg(protocol(copy.as_os_str()));
        let rewritten = start(command, 1)
            .and_then(|process| self.stop.finish(process, REWRITING))
            .and_then(|()| fs::rename(&copy, &self.file.path).map_err(|error| error.to_string()));
        if rewritten.is_err() {
            // The disk may be full, or the server stops.
            let _ = fs::remove_file(&copy);
        }
        rewritten
    }

    /// Takes the directories of the server out of an error.
    pub fn hide_path(&self, error: &str) -> String {
        let path = self.file.path.to_string_lossy();
        error
            .replace(&format!("file:{path}"), self.file.filepath.as_str())
            .replace(&*path, self.file.filepath.as_str())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.bytes() == 0 {
            // Nothing was recorded, and the name is free again.
            let _ = fs::remove_file(&self.file.path);
        }
    }
}

/// Lets ffmpeg take a path for a file, whatever is in its name.
fn protocol(path: &OsStr) -> std::ffi::OsString {
    let mut with_protocol = std::ffi::OsString::from("file:");
    with_protocol.push(path);
    with_protocol
}

fn start(command: Command, queue: impl Into<Capacity>) -> Result<Process, String> {
    Process::start(command, queue, None)
        .map_err(|error| format!("ffmpeg cannot be started: {error}"))
}
