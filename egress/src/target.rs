//! A receiver of a broadcast: one connection, in a process of its own, that is made again when it is lost.

use std::time::{Duration, Instant};

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
    url: String,
    connection: Option<Connection>,
    /// The delay before the next attempt, and when that is.
    delay: Duration,
    next_attempt: Instant,
    /// Why the last connection ended.
    pub failure: Option<String>,
}

struct Connection {
    process: Process,
    since: Instant,
    /// Whether it waits for a key frame to begin with.
    awaits_key_frame: bool,
    was_settled: bool,
}

impl Target {
    pub const fn new(url: String, now: Instant) -> Self {
        Self { url, connection: None, delay: FIRST_DELAY, next_attempt: now, failure: None }
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
                Ok(process) => {
                    let connection =
                        Connection { process, since: now, awaits_key_frame: has_video, was_settled: false };
                    self.connection = Some(connection);
                }
                Err(error) => self.lose(error, now),
            }
        }
    }

    fn connect(&self, ffmpeg: &Ffmpeg, headers: &[u8]) -> Result<Process, String> {
        let mut command = ffmpeg.command();
        command.args(["-fpsprobesize", "0", "-f", "flv", "-i", "pipe:0", "-map", "0", "-c", "copy"]);
        command.args(["-rw_timeout", STALLED_MICROS, "-flvflags", "no_duration_filesize", "-f", "flv", &self.url]);
        let process = Process::start(command, QUEUE, None).map_err(|error| error.to_string())?;
        process.send(headers.to_vec()).map_err(|_| "the connection ended".to_owned())?;
        Ok(process)
    }

    fn lose(&mut self, failure: String, now: Instant) {
        self.connection = None;
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
