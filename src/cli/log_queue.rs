//! The log's way to stderr: a bounded queue, and a thread that writes.
//!
//! Who logs never waits, also if nobody reads the pipe that stderr is. Lines that do not fit are counted, and the count is logged when
//! there is room again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};

/// Bytes of lines that wait.
const CAPACITY: usize = 1024 * 1024;
/// How long the end of the process waits until the lines are written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The lines of the log. Clones share them.
#[derive(Clone)]
pub(super) struct LogQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// A line was added.
    added: Condvar,
    /// All lines were written.
    written: Condvar,
}

#[derive(Default)]
struct Lines {
    waiting: VecDeque<Box<[u8]>>,
    /// The bytes of those that wait.
    size: usize,
    /// Lines that did not fit since the last one that did.
    lost: u64,
    is_writing: bool,
}

impl Lines {
    fn push(&mut self, line: Box<[u8]>) {
        self.size += line.len();
        self.waiting.push_back(line);
    }

    /// Adds how many lines were lost, if any were.
    fn report_lost(&mut self) {
        if self.lost > 0 {
            let now = humantime::format_rfc3339_seconds(SystemTime::now());
            let lost = std::mem::take(&mut self.lost);
            self.push(
                format!("[{now} WARN  conclave] {lost} lines of the log were lost: stderr was not read\n")
                    .into_bytes()
                    .into(),
            );
        }
    }

    fn next(&mut self) -> Option<Box<[u8]>> {
        if self.waiting.is_empty() {
            self.report_lost();
        }
        let next = self.waiting.pop_front();
        self.size -= next.as_ref().map_or(0, |line| line.len());
        self.is_writing = next.is_some();
        next
    }
}

impl LogQueue {
    /// Starts the thread that writes the lines.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(mut to: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Self(Arc::default());
        let Self(shared) = queue.clone();
        thread::Builder::new().name("log".into()).spawn(move || {
            loop {
                let line = shared.next();
                // Without stderr, nobody reads it.
                let _ = to.write_all(&line);
            }
        })?;
        Ok(queue)
    }

    /// Adds a line, or counts it as lost.
    pub(super) fn push(&self, line: &[u8]) {
        let mut lines = self.0.lines.lock();
        if lines.size + line.len() > CAPACITY {
            lines.lost += 1;
            return;
        }
        lines.report_lost();
        lines.push(line.into());
        self.0.added.notify_one();
    }

    /// Waits until all lines are written, but not for long.
    pub(super) fn flush(&self) {
        let mut lines = self.0.lines.lock();
        let is_busy = |lines: &mut Lines| lines.is_writing || !lines.waiting.is_empty();
        self.0
            .written
            .wait_while_for(&mut lines, is_busy, FLUSH_TIMEOUT);
    }
}

impl Shared {
    /// Waits for the next line.
    fn next(&self) -> Box<[u8]> {
        let mut lines = self.lines.lock();
        loop {
            if let Some(line) = lines.next() {
                return line;
            }
            self.written.notify_all();
            self.added.wait(&mut lines);
        }
    }
}

/// A line is written at once.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Writes each line only when it is told to.
    struct Reluctant {
        allowed: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Reluctant {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(io::Error::other)?;
            self.written
                .send(String::from_utf8_lossy(line).into_owned())
                .map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Proves S-11.
    #[test]
    fn lines_beyond_the_capacity_are_lost_and_counted_and_nobody_waits() {
        let ((allow, allowed), (written, seen)) = (channel(), channel());
        let queue = LogQueue::start(Reluctant { allowed, written }).unwrap();
        let line = vec![b'x'; CAPACITY / 4];
        // One may be in the hands of the thread.
        (0..10).for_each(|_| queue.push(&line));
        queue.flush();
        (0..20).for_each(|_| allow.send(()).unwrap());
        let mut lines = vec![seen.recv().unwrap()];
        while !lines.last().unwrap().contains("lost") {
            lines.push(seen.recv().unwrap());
        }
        let lost = 10 - (lines.len() - 1);
        assert!((5..=6).contains(&lost), "{lost}");
        assert!(
            lines
                .last()
                .unwrap()
                .contains(&format!("WARN  conclave] {lost} lines")),
            "{:?}",
            lines.last()
        );
        queue.push(b"after");
        queue.flush();
        assert_eq!(seen.recv().unwrap(), "after");
    }
}
