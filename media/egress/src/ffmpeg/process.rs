//! A child process that reads from a queue, and whose output is read by a function.
//!
//! A child gets everything through its standard input, so it ends by itself when this process does, however that ends.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub use super::backlog::SendError;
use super::backlog::{Backlog, Capacity, Need};

/// Lines of errors that are kept.
const KEPT_LINES: usize = 5;
/// How long the last lines of a child that has ended are waited for. They are there once its errors are closed, which is at once, unless
/// a process that it started keeps them open.
const LAST_LINES: Duration = Duration::from_secs(2);
/// How often a child is looked at that is to end.
const INTERVAL: Duration = Duration::from_millis(10);

/// A running child process. Dropping it kills it.
pub struct Process {
    child: Child,
    /// Chunks that the child has not read yet.
    input: Arc<Backlog>,
    errors: Arc<Errors>,
}

/// What a child says of errors.
#[derive(Default)]
struct Errors {
    said: Mutex<Said>,
    /// Notified when nothing more follows.
    complete: Condvar,
}

#[derive(Default)]
struct Said {
    last_lines: VecDeque<String>,
    is_complete: bool,
}

/// Takes what a child writes.
pub type OnOutput = Box<dyn FnMut(&[u8]) + Send>;

impl Process {
    /// Starts a child with a queue of this capacity, such as a number of chunks. `on_output` is called, on a thread of its own, with
    /// what the child writes. The child has the priority of this thread.
    ///
    /// # Errors
    /// The process or one of its threads cannot be started.
    pub fn start(
        command: Command,
        queue: impl Into<Capacity>,
        on_output: Option<OnOutput>,
    ) -> io::Result<Self> {
        Self::start_within(command, None, queue, on_output)
    }

    /// Starts a child like [`Self::start`], with at most so many bytes of address space: one that reads what strangers sent.
    ///
    /// # Errors
    /// The process or one of its threads cannot be started.
    pub fn start_within(
        mut command: Command,
        memory: Option<u64>,
        queue: impl Into<Capacity>,
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
        // Before it gets anything to read.
        memory
            .into_iter()
            .for_each(|bytes| limit_memory(&child, bytes));
        let (input, errors) = (
            Arc::new(Backlog::new(queue.into())),
            Arc::new(Errors::default()),
        );
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // If a thread cannot be started, dropping this kills the child.
        let (unread, said) = (Arc::clone(&input), Arc::clone(&errors));
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
            spawn("egress-errors", move || said.collect(stderr))?;
        }
        Ok(process)
    }

    /// Puts a chunk into the queue without waiting for the child.
    ///
    /// # Errors
    /// The queue is full, or the child has ended.
    pub fn try_send(&self, chunk: Vec<u8>) -> Result<(), SendError> {
        self.input.push(chunk, Need::Required)
    }

    /// Puts a chunk into the queue unless it is nearly full.
    ///
    /// # Errors
    /// The queue has no room for what can be left out, or the child has ended.
    pub(crate) fn offer(&self, chunk: Vec<u8>) -> Result<(), SendError> {
        self.input.push(chunk, Need::Optional)
    }

    /// Returns how many chunks the child has not read yet.
    pub fn backlog(&self) -> usize {
        self.input.unread()
    }

    /// Returns the bytes on disk that the child has not read yet.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.input.disk_bytes()
    }

    /// Skips what can be left out of what the child has not read yet.
    pub(crate) fn hurry(&self) {
        self.input.hurry();
    }

    /// Lets the child know that nothing follows.
    pub fn close_input(&self) {
        self.input.close();
    }

    /// Returns how the child ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Lets the child end by itself, and kills it if that takes too long.
    ///
    /// # Errors
    /// Why the child failed, as it says.
    pub fn finish(mut self, patience: Duration) -> Result<(), String> {
        self.close_input();
        let deadline = Instant::now() + patience;
        loop {
            match self.ended() {
                Some(status) => {
                    let lines = self.errors.last_lines();
                    return if status.success() && !has_lost_its_end(&lines) {
                        Ok(())
                    } else {
                        Err(quote(status, &lines))
                    };
                }
                None if Instant::now() >= deadline => {
                    return Err("ffmpeg did not end in time".into());
                }
                None => thread::sleep(INTERVAL),
            }
        }
    }

    /// Returns why a child that has ended did so, as it says itself.
    pub fn failure(&self, status: ExitStatus) -> String {
        quote(status, &self.errors.last_lines())
    }
}

/// The instant by which all files have to be final, once the server stops. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StopDeadline(Arc<OnceLock<Instant>>);

impl StopDeadline {
    /// Sets the deadline. Only the first call has an effect.
    pub fn set(&self, at: Instant) {
        self.0.get_or_init(|| at);
    }

    /// Returns whether the server stops.
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Waits for a child to end by itself, and kills it if it has read nothing for its usual time, or at the deadline. One that is late
    /// because the machine is busy catches up meanwhile.
    ///
    /// # Errors
    /// Why the child failed, as it says.
    pub fn finish(&self, mut process: Process, usual: Duration) -> Result<(), String> {
        process.close_input();
        let (mut unread, mut last_read) = (process.backlog(), Instant::now());
        while process.ended().is_none() {
            if self.is_set() {
                // The rest of the audio is worth more than the video that waits.
                process.hurry();
            }
            let (left, now) = (process.backlog(), Instant::now());
            if left < unread {
                (unread, last_read) = (left, now);
            }
            if now >= last_read + usual || self.0.get().is_some_and(|deadline| now >= *deadline) {
                break;
            }
            thread::sleep(INTERVAL);
        }
        process.finish(Duration::ZERO)
    }
}

/// Returns whether ffmpeg says that the end of its file is not there, which it does not count as a failure.
fn has_lost_its_end(lines: &[String]) -> bool {
    lines
        .iter()
        .any(|line| line.contains("Error writing trailer"))
}

fn quote(status: ExitStatus, lines: &[String]) -> String {
    if lines.is_empty() {
        format!("ffmpeg ended with {status}")
    } else {
        format!("ffmpeg: {}", lines.join("; "))
    }
}

impl Errors {
    /// Keeps the last lines, until no process has the pipe open for writing.
    fn collect(&self, stderr: impl Read) {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let lines = &mut self.said.lock().last_lines;
            if lines.len() == KEPT_LINES {
                lines.pop_front();
            }
            lines.push_back(String::from_utf8_lossy(&line).trim().to_owned());
        }
        self.said.lock().is_complete = true;
        self.complete.notify_all();
    }

    /// Returns the last lines of a child that has ended.
    fn last_lines(&self) -> Vec<String> {
        let mut said = self.said.lock();
        self.complete
            .wait_while_for(&mut said, |said| !said.is_complete, LAST_LINES);
        said.last_lines.iter().cloned().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input.close();
        if self.ended().is_none() {
            // It ended in the meantime, or is ended now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Limits the address space of a child. It has no limit if the system refuses.
fn limit_memory(child: &Child, bytes: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};

        // Without a pid, the limit would be that of this process.
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        if let Err(error) = prlimit(Some(pid), Resource::As, limit) {
            log::debug!("the memory of ffmpeg was not limited: {error}");
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map(drop)
}

/// Writes what comes, until nothing more does or the child does not read any more.
fn write(mut stdin: ChildStdin, backlog: &Backlog) {
    while let Some(chunk) = backlog.pop() {
        if stdin.write_all(&chunk).is_err() {
            backlog.abandon();
            return;
        }
        backlog.note_read();
    }
}

fn read(mut stdout: impl Read, mut on_output: impl FnMut(&[u8])) {
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
    fn what_is_said_shortly_after_the_end_of_a_child_is_quoted() {
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
        // It ends with the test, or after a minute, which it notes.
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
    fn a_child_that_reads_what_strangers_sent_has_a_limit_of_memory_before_it_reads() {
        let (sender, output) = channel();
        let on_output = Box::new(move |bytes: &[u8]| drop(sender.send(bytes.to_vec())));
        let mut command = Command::new("sh");
        command.args(["-c", "read line; ulimit -v; ulimit -H -v"]);
        let process = Process::start_within(command, Some(1 << 30), 4, Some(on_output)).unwrap();
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
        assert!(process.ended().is_none());
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
