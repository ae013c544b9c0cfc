//! Child process with a queue for its standard input.
//!
//! A child gets all its input through a pipe, so it exits by itself when this process does, even
//! after a crash.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub use super::backlog::SendError;
use super::backlog::{Backlog, BacklogCapacity, Importance};

const TAIL_LINES: usize = 5;
/// Maximum wait for an exited child's last lines. They are complete once its stderr is closed,
/// which is at once, unless a grandchild keeps it open.
const TAIL_TIMEOUT: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(10);

/// Running child process. Dropping it kills the child.
pub struct Process {
    child: Child,
    /// Chunks that the child has not read yet.
    input: Arc<Backlog>,
    errors: Arc<StderrLog>,
}

/// Collected stderr.
#[derive(Default)]
struct StderrLog {
    tail: Mutex<StderrTail>,
    /// Notified when stderr was closed.
    complete: Condvar,
}

#[derive(Default)]
struct StderrTail {
    last_lines: VecDeque<String>,
    is_complete: bool,
}

/// Callback for a child's standard output.
pub type OnOutput = Box<dyn FnMut(&[u8]) + Send>;

impl Process {
    /// Starts a child with a queue of this capacity. `on_output` is called with the child's output,
    /// on a separate thread. The child inherits the current thread's priority.
    ///
    /// # Errors
    /// Fails if the process or a thread cannot be started.
    pub fn start(
        command: Command,
        queue: impl Into<BacklogCapacity>,
        on_output: Option<OnOutput>,
    ) -> io::Result<Self> {
        Self::start_with_memory_limit(command, None, queue, on_output)
    }

    /// Starts a child like [`Self::start`], limited to `memory` bytes in address space, for
    /// children that read untrusted media.
    ///
    /// # Errors
    /// Fails if the process or a thread cannot be started.
    pub fn start_with_memory_limit(
        mut command: Command,
        memory: Option<u64>,
        queue: impl Into<BacklogCapacity>,
        on_output: Option<OnOutput>,
    ) -> io::Result<Self> {
        let stdout = if on_output.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()?;
        // Before the child gets anything to read.
        memory
            .into_iter()
            .for_each(|bytes| limit_memory(&child, bytes));
        let (input, errors) = (
            Arc::new(Backlog::new(queue.into())),
            Arc::new(StderrLog::default()),
        );
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // If a thread cannot be started, dropping the process kills the child.
        let (unread, tail) = (Arc::clone(&input), Arc::clone(&errors));
        let process = Self {
            child,
            input,
            errors,
        };
        if let Some(stdin) = stdin {
            spawn("egress-write", move || write(stdin, &unread))?;
        }
        if let Some((stdout, on_output)) = stdout.zip(on_output) {
            spawn("egress-read", move || read(stdout, on_output))?;
        }
        if let Some(stderr) = stderr {
            spawn("egress-errors", move || tail.collect(stderr))?;
        }
        Ok(process)
    }

    /// Queues a chunk without waiting for the child.
    ///
    /// # Errors
    /// Fails if the queue is full, or the child has exited.
    pub fn try_send(&self, chunk: Vec<u8>) -> Result<(), SendError> {
        self.input.push(chunk, Importance::Required)
    }

    /// Queues a chunk that may be dropped.
    ///
    /// # Errors
    /// Fails if the queue has no capacity left for optional chunks, or the child has exited.
    pub(crate) fn try_send_optional(&self, chunk: Vec<u8>) -> Result<(), SendError> {
        self.input.push(chunk, Importance::Optional)
    }

    /// Returns how many chunks the child has not read yet.
    pub fn unread_chunks(&self) -> usize {
        self.input.unread()
    }

    /// Returns the bytes on disk that the child has not read yet.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.input.disk_bytes()
    }

    /// Skips optional chunks from now on, including queued ones.
    pub(crate) fn skip_optional(&self) {
        self.input.skip_optional();
    }

    /// Closes the child's input once the queued chunks are read.
    pub fn close_input(&self) {
        self.input.close();
    }

    /// Returns the exit status; `None` while the child runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the child to exit, and kills it after `timeout`.
    ///
    /// # Errors
    /// Fails with the child's last stderr lines if it failed, or if it was killed.
    pub fn finish(mut self, timeout: Duration) -> Result<(), String> {
        self.close_input();
        let deadline = Instant::now() + timeout;
        loop {
            match self.exit_status() {
                Some(status) => {
                    let lines = self.errors.last_lines();
                    return if status.success() && !is_trailer_lost(&lines) {
                        Ok(())
                    } else {
                        Err(failure_message(status, &lines))
                    };
                }
                None if Instant::now() >= deadline => {
                    return Err("ffmpeg did not end in time".into());
                }
                None => thread::sleep(INTERVAL),
            }
        }
    }

    /// Returns why an exited child failed, from its stderr.
    pub fn failure(&self, status: ExitStatus) -> String {
        failure_message(status, &self.errors.last_lines())
    }
}

/// Deadline for finishing all files at a shutdown. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StopDeadline(Arc<OnceLock<Instant>>);

impl StopDeadline {
    /// Sets the deadline. Later calls have no effect.
    pub fn set(&self, at: Instant) {
        self.0.get_or_init(|| at);
    }

    /// Returns whether the server is shutting down.
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Waits for a child to exit. It is killed if it has read nothing for `usual`, or at the
    /// deadline. A child that is slow because the machine is busy can catch up meanwhile.
    ///
    /// # Errors
    /// Fails with the reason, as [`Process::finish`] does.
    pub fn finish(&self, mut process: Process, usual: Duration) -> Result<(), String> {
        process.close_input();
        let (mut unread, mut last_read) = (process.unread_chunks(), Instant::now());
        while process.exit_status().is_none() {
            if self.is_set() {
                // Complete audio is worth more than the queued video.
                process.skip_optional();
            }
            let (left, now) = (process.unread_chunks(), Instant::now());
            // Progress counts, not time: a disk buffer of minutes may take minutes to encode.
            if left < unread {
                (unread, last_read) = (left, now);
            }
            if now >= last_read + usual || self.0.get().is_some_and(|deadline| now >= *deadline) {
                break;
            }
            thread::sleep(INTERVAL);
        }
        // Returns the result, or kills the child if it still runs.
        process.finish(Duration::ZERO)
    }
}

/// Returns whether ffmpeg could not finish its file, which it does not count as a failure.
fn is_trailer_lost(lines: &[String]) -> bool {
    lines
        .iter()
        .any(|line| line.contains("Error writing trailer"))
}

fn failure_message(status: ExitStatus, lines: &[String]) -> String {
    if lines.is_empty() {
        format!("ffmpeg ended with {status}")
    } else {
        format!("ffmpeg: {}", lines.join("; "))
    }
}

impl StderrLog {
    /// Collects the last lines until the pipe is closed by all processes that have it.
    fn collect(&self, stderr: impl Read) {
        // Split as bytes: paths in messages need not be UTF-8.
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let lines = &mut self.tail.lock().last_lines;
            // The last lines explain a failure; a broken stream may cause thousands before them.
            if lines.len() == TAIL_LINES {
                lines.pop_front();
            }
            lines.push_back(String::from_utf8_lossy(&line).trim().to_owned());
        }
        self.tail.lock().is_complete = true;
        self.complete.notify_all();
    }

    /// Returns an exited child's last lines.
    fn last_lines(&self) -> Vec<String> {
        let mut tail = self.tail.lock();
        self.complete
            .wait_while_for(&mut tail, |tail| !tail.is_complete, TAIL_TIMEOUT);
        tail.last_lines.iter().cloned().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input.close();
        if self.exit_status().is_none() {
            // Errors are ignored: the child may have exited in between.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Limits a child's address space. If the operating system refuses, the child has no limit.
fn limit_memory(child: &Child, bytes: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};

        // Without a pid, `prlimit` would limit this process.
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        if let Err(error) = prlimit(Some(pid), Resource::As, limit) {
            log::debug!("limiting ffmpeg's memory failed: {error}");
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map(drop)
}

/// Writes chunks until the queue is closed or the child no longer reads.
fn write(mut stdin: ChildStdin, backlog: &Backlog) {
    while let Some(chunk) = backlog.pop() {
        if stdin.write_all(&chunk).is_err() {
            backlog.abandon();
            return;
        }
        backlog.record_read();
    }
}

fn read(mut stdout: impl Read, mut on_output: impl FnMut(&[u8])) {
    // Four times a Linux pipe's default capacity, so a raw frame takes few calls.
    let mut buffer = vec![0; 256 * 1024];
    while let Ok(bytes @ 1..) = stdout.read(&mut buffer) {
        on_output(&buffer[..bytes]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_child_reads_what_is_sent_and_its_output_is_read() {
        let (sender, output) = channel();
        let on_output = Box::new(move |bytes: &[u8]| drop(sender.send(bytes.to_vec())));
        let process = Process::start(Command::new("cat"), 4, Some(on_output)).unwrap();
        process.try_send(b"one ".to_vec()).unwrap();
        process.try_send(b"two".to_vec()).unwrap();
        process.finish(PATIENCE).unwrap();
        assert_eq!(output.into_iter().flatten().collect::<Vec<_>>(), b"one two");
    }

    #[test]
    fn a_child_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo No space left on device >&2; exit 1"]);
        let failure = Process::start(command, 4, None).unwrap().finish(PATIENCE);
        assert_eq!(failure, Err("ffmpeg: No space left on device".into()));
    }

    #[test]
    fn stderr_that_arrives_shortly_after_the_exit_is_quoted() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo No space left on device >&2) & exit 1",
        ]);
        let failure = Process::start(command, 4, None).unwrap().finish(PATIENCE);
        assert_eq!(failure, Err("ffmpeg: No space left on device".into()));
    }

    #[test]
    fn a_grandchild_that_keeps_the_errors_open_holds_the_end_up_only_for_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        // The grandchild exits with the test, or after a minute, which it records.
        let grandchild =
            "for _ in $(seq 600); do [ -e \"$0\" ] || exit; sleep 0.1; done; touch \"$0/ended\"";
        let script = format!("({grandchild}) & echo No space left on device >&2; exit 1");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(folder.path());
        let process = Process::start(command, 4, None).unwrap();
        assert_eq!(
            process.finish(PATIENCE),
            Err("ffmpeg: No space left on device".into())
        );
        assert!(
            !folder.path().join("ended").exists(),
            "the end of the grandchild was waited for"
        );
    }

    #[test]
    fn a_file_that_has_lost_its_end_is_a_failure_although_ffmpeg_succeeds() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo Error writing trailer of a.mp4: No space left on device >&2",
        ]);
        let failure = Process::start(command, 4, None)
            .unwrap()
            .finish(PATIENCE)
            .unwrap_err();
        assert!(failure.contains("No space left on device"), "{failure}");
    }

    /// Proves S-80.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_that_reads_untrusted_media_has_a_memory_limit_before_it_reads() {
        let (sender, output) = channel();
        let on_output = Box::new(move |bytes: &[u8]| drop(sender.send(bytes.to_vec())));
        let mut command = Command::new("sh");
        command.args(["-c", "read line; ulimit -v; ulimit -H -v"]);
        let process =
            Process::start_with_memory_limit(command, Some(1 << 30), 4, Some(on_output)).unwrap();
        process.try_send(b"go\n".to_vec()).unwrap();
        process.finish(PATIENCE).unwrap();
        assert_eq!(
            String::from_utf8(output.into_iter().flatten().collect()).unwrap(),
            "1048576\n1048576\n"
        );
    }

    #[test]
    fn a_child_that_does_not_read_fills_its_queue_and_holds_nothing_up() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let mut process = Process::start(command, 2, None).unwrap();
        let sent = (0..10)
            .map(|_| process.try_send(vec![0; 1 << 20]))
            .collect::<Vec<_>>();
        assert!(sent.contains(&Err(SendError::Full)), "{sent:?}");
        assert!(process.exit_status().is_none());
        assert!(process.finish(Duration::ZERO).is_err());
    }

    #[test]
    fn a_child_that_does_not_end_is_waited_for_until_the_server_has_to_stop() {
        let child = || {
            let mut command = Command::new("sleep");
            command.arg("600");
            Process::start(command, 1, None).unwrap()
        };
        let deadline = StopDeadline::default();
        assert!(deadline.finish(child(), Duration::ZERO).is_err());
        let stopping = deadline.clone();
        let waiting = thread::spawn(move || deadline.finish(child(), Duration::from_secs(600)));
        assert!(!waiting.is_finished());
        stopping.set(Instant::now());
        assert_eq!(
            waiting.join().unwrap(),
            Err("ffmpeg did not end in time".into())
        );
    }
}
