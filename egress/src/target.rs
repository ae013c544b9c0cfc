//! A receiver of a broadcast: one connection, in a process of its own, that is made again when it is lost.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use conclave_model::rtmp::{RtmpUrl, StreamKey};
use tempfile::NamedTempFile;

use crate::ffmpeg::Ffmpeg;
use crate::flv::{Tag, TagKind};
use crate::process::Process;

/// Tags that wait for a receiver: some seconds. One that is slower is connected again.
const QUEUE: usize = 512;
/// Waiting tags up to which a receiver keeps up.
const KEEPS_UP: usize = 64;
/// How long a connection has to last until it counts.
const SETTLED: Duration = Duration::from_secs(2);
/// The delay before the second attempt; it doubles up to the longest.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// How long a receiver may take to take the end of the stream.
const ENDING: Duration = Duration::from_secs(5);
/// How long a connection may do nothing, in microseconds.
const STALLED_MICROS: &str = "10000000";

/// The longest stream key that ffmpeg reads from a file.
const LONGEST_HIDDEN: usize = 900;

/// What a receiver is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetState {
    /// It takes the stream.
    Connected,
    /// A connection is being made.
    Connecting,
    /// The connection was lost or refused, and is tried again later.
    Waiting,
}

/// A receiver of a broadcast.
pub struct Target {
    url: RtmpUrl,
    /// Whether ffmpeg reads the stream key from a file. One that cannot gets it on its command line.
    hides_key: bool,
    connection: Option<Connection>,
    /// The delay before the next attempt, and when that is.
    delay: Duration,
    next_attempt: Instant,
    /// Why the last connection ended.
    pub failure: Option<String>,
}

struct Connection {
    process: Process,
    /// The file with the stream key, until the connection has ended.
    _key: Option<NamedTempFile>,
    since: Instant,
    /// Whether it waits for a key frame to begin with.
    awaits_key_frame: bool,
    was_settled: bool,
}

impl Target {
    pub const fn new(url: RtmpUrl, now: Instant) -> Self {
        Self { url, hides_key: true, connection: None, delay: FIRST_DELAY, next_attempt: now, failure: None }
    }

    pub fn state(&self) -> TargetState {
        match &self.connection {
            Some(connection) if connection.was_settled => TargetState::Connected,
            Some(_) => TargetState::Connecting,
            None => TargetState::Waiting,
        }
    }

    /// Connects if it is time, beginning with these headers, and notices a connection that has ended.
    pub fn look_after(&mut self, ffmpeg: &Ffmpeg, headers: &[u8], has_video: bool, now: Instant) {
        if let Some(connection) = &mut self.connection {
            if let Some(status) = connection.process.ended() {
                let failure = connection.process.failure(status);
                self.lose(failure, now);
            } else if connection.process.backlog() <= KEEPS_UP && now >= connection.since + SETTLED {
                connection.was_settled = true;
                self.delay = FIRST_DELAY;
            }
        } else if now >= self.next_attempt {
            match self.connect(ffmpeg, headers) {
                Ok((process, key)) => {
                    let connection =
                        Connection { process, _key: key, since: now, awaits_key_frame: has_video, was_settled: false };
                    self.connection = Some(connection);
                }
                Err(error) => self.lose(error, now),
            }
        }
    }

    fn connect(&self, ffmpeg: &Ffmpeg, headers: &[u8]) -> Result<(Process, Option<NamedTempFile>), String> {
        let mut command = ffmpeg.command();
        command.args(["-fpsprobesize", "0", "-f", "flv", "-i", "pipe:0", "-map", "0", "-c", "copy"]);
        command.args(["-rw_timeout", STALLED_MICROS, "-flvflags", "no_duration_filesize"]);
        let hidden = self.url.split_key().filter(|parts| self.hides_key && parts.key.len() <= LONGEST_HIDDEN);
        let key = hidden.map(write_key).transpose().map_err(|error| format!("the stream key: {error}"))?;
        if let Some(file) = &key {
            command.arg("-fpre").arg(file.path());
        }
        command.args(["-f", "flv", hidden.map_or(self.url.reveal(), |parts| parts.address)]);
        let process = Process::start(command, QUEUE, None).map_err(|error| error.to_string())?;
        process.send(headers.to_vec()).map_err(|_| "the connection ended".to_owned())?;
        Ok((process, key))
    }

    fn lose(&mut self, failure: String, now: Instant) {
        self.connection = None;
        self.hides_key &= !failure.contains("'fpre'");
        self.failure = Some(failure);
        self.next_attempt = now + self.delay;
        self.delay = (self.delay * 2).min(LONGEST_DELAY);
    }

    /// Sends a tag, unless there is no connection or it waits for a key frame. One that does not keep up is lost.
    pub fn send(&mut self, tag: &Tag, now: Instant) {
        let Some(connection) = &mut self.connection else { return };
        connection.awaits_key_frame &= tag.kind != TagKind::KeyFrame;
        if !connection.awaits_key_frame && connection.process.try_send(tag.bytes.clone()).is_err() {
            let failure = match connection.process.ended() {
                Some(status) => connection.process.failure(status),
                None => "the receiver does not keep up".into(),
            };
            self.lose(failure, now);
        }
    }

    /// Ends the connection.
    pub fn finish(self) {
        if let Some(connection) = self.connection {
            // The broadcast is over, whatever the receiver makes of it.
            let _ = connection.process.finish(ENDING);
        }
    }
}

/// Writes a file of options with the stream key, which only this user can read: command lines are read by all.
/// A user name and a password stay in the url, since ffmpeg has no options for them.
fn write_key(parts: StreamKey<'_>) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    writeln!(file, "rtmp_app={}\nrtmp_playpath={}", parts.application, parts.key)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_stream_key_is_in_a_file_of_its_owner_until_the_connection_ends() {
        let url = RtmpUrl::parse("rtmp://a/live/key?b=c").unwrap();
        let file = write_key(url.split_key().unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "rtmp_app=live\nrtmp_playpath=key?b=c\n");
        assert_eq!(file.path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
