//! The log on stderr, at the level of `RUST_LOG`. Characters that control a terminal, or the direction of text, are escaped.
//!
//! A server's log lines go through a bounded queue ([`LogQueue`]) to a thread that writes them. So a request that logs never waits, even if
//! nothing reads the pipe behind stderr. Lines that do not fit are counted, and the count is logged when there is room again.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use conclave_model::Throttle;
use conclave_model::visible::Visible;
use env_logger::{Env, Target, WriteStyle};
use log::kv::{self, Key, Value, VisitSource};
use log::{Level, Log, Metadata, Record};
use parking_lot::{Condvar, Mutex};

/// `RUST_LOG` default. Omits the libraries' start and stop messages.
const DEFAULT_LOG: &str = "info,ractor=warn,actix_server=warn";

/// The HTTP/1.1 part of actix-http. It reports clients' mistakes as errors: malformed requests, connections that break off.
const CLIENT_PROTOCOL: &str = "actix_http::h1";

/// Crates that parse media clients' packets. They report each unusable packet and description, without the client's name.
const MEDIA_PROTOCOLS: [&str; 7] = [
    "str0m",
    "sctp_proto",
    "dimpl",
    "is",
    "stun_types",
    "stun_proto",
    "turn_types",
];

/// Interval in which each module of these crates may report once.
const MEDIA_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of modules that may report in that time.
const MOST_PARTS: usize = 1_000;

/// A server's log queue.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Starts logging. Must be called once, before anything logs.
pub(super) fn start(is_server: bool) {
    let mut logger = env_logger::Builder::from_env(Env::default().default_filter_or(DEFAULT_LOG));
    // If the thread cannot be started, lines are written by the threads that log.
    if is_server && let Ok(queue) = start_queue() {
        let is_plain = ["RUST_LOG_STYLE", "NO_COLOR"]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
        // env_logger cannot see that a pipe target ends at a terminal, so it would drop the colours.
        if io::stderr().is_terminal() && !is_plain {
            logger.write_style(WriteStyle::Always);
        }
        logger.target(Target::Pipe(Box::new(queue.clone())));
    }
    let logger = logger.build();
    // Without this, the `log` macros drop everything.
    log::set_max_level(logger.filter());
    // Only a second call could fail.
    let _ = log::set_boxed_logger(Box::new(ClientMistakes::new(logger)));
}

fn start_queue() -> io::Result<&'static LogQueue> {
    // A separate file: while a write to it blocks, `std::io::stderr` must stay unlocked.
    let queue = LogQueue::start(File::from(io::stderr().as_fd().try_clone_to_owned()?))?;
    let queue = QUEUE.get_or_init(|| queue);
    // The default hook writes to stderr directly, where it would block, or mix with the thread's lines.
    std::panic::set_hook(Box::new(move |panic| {
        let (current, backtrace) = (thread::current(), Backtrace::capture());
        let name = current.name().unwrap_or("<unnamed>");
        queue.push(format!("\nthread '{name}' {panic}\n").as_bytes());
        if backtrace.status() == BacktraceStatus::Captured {
            queue.push(format!("stack backtrace:\n{backtrace}\n").as_bytes());
        }
    }));
    Ok(queue)
}

/// Writes the last line, if any, and waits briefly until the whole log is written.
pub(super) fn finish(last: Option<&str>) {
    let line = last
        .map(|last| format!("conclave: {last}\n"))
        .unwrap_or_default();
    match QUEUE.get() {
        Some(queue) => {
            queue.push(line.as_bytes());
            queue.flush();
        }
        None => eprint!("{line}"),
    }
}

/// Reduces reports about clients' mistakes, which could otherwise fill the log: HTTP ones to debug level, media ones to one per minute.
struct ClientMistakes<L> {
    log: L,
    /// The media modules' last report times.
    reports: Throttle<String>,
}

impl<L: Log> ClientMistakes<L> {
    fn new(log: L) -> Self {
        Self {
            log,
            reports: Throttle::by_key(MEDIA_INTERVAL, MOST_PARTS),
        }
    }

    /// Returns the level at which a record is logged.
    fn level(&self, metadata: &Metadata<'_>, now: Instant) -> Level {
        let is_mistake =
            metadata.level() == Level::Error && metadata.target().starts_with(CLIENT_PROTOCOL);
        if is_mistake
            || (is_from_media_protocol(metadata)
                && !self.reports.allow_key(metadata.target().to_owned(), now))
        {
            // Still available with `RUST_LOG=debug`.
            return Level::Debug;
        }
        metadata.level()
    }

    fn log_at(&self, record: &Record<'_>, now: Instant) {
        // By the original level: excluded records are not formatted.
        if self.log.enabled(record.metadata()) {
            let level = self.level(record.metadata(), now);
            let mut pairs = VisiblePairs::default();
            // The visitor never fails.
            let _ = record.key_values().visit(&mut pairs);
            let args = format_args!("{}", Visible(record.args()));
            self.log.log(
                &record
                    .to_builder()
                    .level(level)
                    .args(args)
                    .key_values(&pairs.0)
                    .build(),
            );
        }
    }
}

/// A record's values with escaped characters.
#[derive(Default)]
struct VisiblePairs(Vec<(String, String)>);

impl<'a> VisitSource<'a> for VisiblePairs {
    fn visit_pair(&mut self, key: Key<'a>, value: Value<'a>) -> Result<(), kv::Error> {
        self.0.push((key.to_string(), Visible(value).to_string()));
        Ok(())
    }
}

impl<L: Log> Log for ClientMistakes<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.log.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        self.log_at(record, Instant::now());
    }

    fn flush(&self) {
        self.log.flush();
    }
}

/// Returns whether a record is a warning or an error from a crate that parses media clients' packets.
fn is_from_media_protocol(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    metadata.level() <= Level::Warn && MEDIA_PROTOCOLS.contains(&library)
}

/// Maximum size for queued lines, in bytes.
const CAPACITY: usize = 1024 * 1024;
/// Time limit at the end of the process for writing the queued lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Log line queue. Clones share it.
#[derive(Clone)]
struct LogQueue(Arc<QueueState>);

#[derive(Default)]
struct QueueState {
    lines: Mutex<LogLines>,
    /// Signalled when a line was added.
    added: Condvar,
    /// Signalled when all lines were written.
    written: Condvar,
}

#[derive(Default)]
struct LogLines {
    waiting: VecDeque<Box<[u8]>>,
    /// Total size in bytes.
    size: usize,
    /// Number of lines lost since the last line was added.
    lost: u64,
    is_writing: bool,
}

impl LogLines {
    fn push(&mut self, line: Box<[u8]>) {
        self.size += line.len();
        self.waiting.push_back(line);
    }

    /// Adds a line with the number of lost lines, if any were lost.
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
        // Reported even without a new line: a log that falls silent must not hide the loss.
        if self.waiting.is_empty() {
            self.report_lost();
        }
        let next = self.waiting.pop_front();
        self.size -= next.as_ref().map_or(0, |line| line.len());
        // The thread writes the line after it has released the lock.
        self.is_writing = next.is_some();
        next
    }
}

impl LogQueue {
    /// Starts the thread that writes the lines.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(mut to: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Self(Arc::default());
        let Self(shared) = queue.clone();
        thread::Builder::new().name("log".into()).spawn(move || {
            loop {
                let line = shared.next();
                // An error means that stderr is closed, so it cannot be reported.
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
        // In front of the new line, where the gap is.
        lines.report_lost();
        lines.push(line.into());
        self.0.added.notify_one();
    }

    /// Waits until all lines are written, for at most [`FLUSH_TIMEOUT`].
    pub(super) fn flush(&self) {
        let mut lines = self.0.lines.lock();
        let is_busy = |lines: &mut LogLines| lines.is_writing || !lines.waiting.is_empty();
        self.0
            .written
            .wait_while_for(&mut lines, is_busy, FLUSH_TIMEOUT);
    }
}

impl QueueState {
    /// Waits for the next line.
    fn next(&self) -> Box<[u8]> {
        let mut lines = self.lines.lock();
        loop {
            if let Some(line) = lines.next() {
                return line;
            }
            // The queue is empty, and the last line was written before this call.
            self.written.notify_all();
            self.added.wait(&mut lines);
        }
    }
}

/// Each write is one line, which env_logger has formatted completely.
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
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Records the level and target of each record that is logged at level INFO.
    #[derive(Default)]
    struct Kept(Mutex<Vec<(Level, String)>>);

    /// Records the text of each record.
    #[derive(Default)]
    struct Shown(Mutex<Vec<String>>);

    impl Log for Shown {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &Record<'_>) {
            let mut pairs = VisiblePairs::default();
            record.key_values().visit(&mut pairs).unwrap();
            self.0
                .lock()
                .unwrap()
                .push(format!("{} {:?}", record.args(), pairs.0));
        }

        fn flush(&self) {}
    }

    /// Proves S-10.
    #[test]
    fn what_controls_a_terminal_is_escaped_in_lines_and_their_values() {
        let log = ClientMistakes::new(Shown::default());
        let pairs = [("name", "a\u{202e}b")];
        let line = "joined\n[fake] \u{1b}[31m";
        log.log_at(
            &Record::builder()
                .args(format_args!("{line}"))
                .key_values(&pairs)
                .build(),
            Instant::now(),
        );
        let shown = log.log.0.lock().unwrap();
        assert!(
            shown[0].starts_with("joined\\n[fake] \\u{1b}[31m ") && !shown[0].contains('\u{202e}'),
            "{shown:?}"
        );
    }

    impl Log for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.level() <= Level::Info
        }

        fn log(&self, record: &Record<'_>) {
            if self.enabled(record.metadata()) {
                self.0
                    .lock()
                    .unwrap()
                    .push((record.level(), record.target().to_owned()));
            }
        }

        fn flush(&self) {}
    }

    /// Proves S-40.
    #[test]
    fn libraries_report_what_clients_of_media_do_wrong_once_a_minute() {
        let (log, begin) = (ClientMistakes::new(Kept::default()), Instant::now());
        for second in 0..120 {
            for (level, target) in [
                (Level::Error, "sctp_proto::association"),
                (Level::Warn, "str0m::sdp::parser"),
                (Level::Error, "actix_http::h1::dispatcher"),
            ] {
                let record = Record::builder().level(level).target(target).build();
                log.log_at(&record, begin + Duration::from_secs(second));
            }
        }
        let once = [
            (Level::Error, "sctp_proto::association"),
            (Level::Warn, "str0m::sdp::parser"),
        ];
        let expected: Vec<_> = once
            .into_iter()
            .chain(once)
            .map(|(level, target)| (level, target.to_owned()))
            .collect();
        assert_eq!(*log.log.0.lock().unwrap(), expected);
    }

    #[test]
    fn other_records_are_logged_as_they_are() {
        let log = ClientMistakes::new(Kept::default());
        for target in [
            "str0mx",
            "isolated::part",
            "conclave_sfu::worker",
            "actix_server",
        ] {
            for _ in 0..2 {
                log.log_at(
                    &Record::builder().level(Level::Warn).target(target).build(),
                    Instant::now(),
                );
            }
        }
        assert_eq!(log.log.0.lock().unwrap().len(), 8);
    }

    /// Writes each line only on request.
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
        // The thread may have taken one already.
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
