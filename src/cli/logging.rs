//! The log on stderr, at the level of `RUST_LOG`. That of a server goes through a queue, so that it waits for nobody who reads it
//! ([`LogQueue`]). What would control a terminal, or the direction of the text, is escaped.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use conclave_model::Throttle;
use conclave_model::visible::Visible;
use env_logger::{Env, Target, WriteStyle};
use log::kv::{self, Key, Value, VisitSource};
use log::{Level, Log, Metadata, Record};

use super::log_queue::LogQueue;

/// Default of `RUST_LOG`. Omits start and stop messages of libraries.
const DEFAULT_LOG: &str = "info,ractor=warn,actix_server=warn";

/// The part of actix-http that speaks HTTP/1.1 with clients. It reports as errors what clients do wrong: malformed requests,
/// connections that break off.
const CLIENT_PROTOCOL: &str = "actix_http::h1";

/// The crates that read what clients of media send. They report each packet and description that they cannot use, without the
/// client's name.
const MEDIA_PROTOCOLS: [&str; 7] = [
    "str0m",
    "sctp_proto",
    "dimpl",
    "is",
    "stun_types",
    "stun_proto",
    "turn_types",
];

/// How often a part of them may report something.
const MEDIA_INTERVAL: Duration = Duration::from_secs(60);
/// How many parts may report something in that time.
const MOST_PARTS: usize = 1_000;

/// The queue of a server's log.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Starts logging. Called once, first.
pub(super) fn start(is_server: bool) {
    let mut logger = env_logger::Builder::from_env(Env::default().default_filter_or(DEFAULT_LOG));
    // Without the thread, the log is written by those who log.
    if is_server && let Ok(queue) = start_queue() {
        let is_plain = ["RUST_LOG_STYLE", "NO_COLOR"]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
        if io::stderr().is_terminal() && !is_plain {
            logger.write_style(WriteStyle::Always);
        }
        logger.target(Target::Pipe(Box::new(queue.clone())));
    }
    let logger = logger.build();
    log::set_max_level(logger.filter());
    // Only a second call could fail.
    let _ = log::set_boxed_logger(Box::new(ClientMistakes::new(logger)));
}

fn start_queue() -> io::Result<&'static LogQueue> {
    // A file of its own: while a write to it waits, the lock of `std::io::stderr` is free.
    let queue = LogQueue::start(File::from(io::stderr().as_fd().try_clone_to_owned()?))?;
    let queue = QUEUE.get_or_init(|| queue);
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

/// Writes the last line, if there is one, and waits a moment for all of the log to be written.
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

/// Logs what a client does wrong for debugging only, or once a minute, since clients could fill the log otherwise.
struct ClientMistakes<L> {
    log: L,
    /// The lines of each part of the media protocols.
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
            || (is_of_media_protocol(metadata)
                && !self.reports.allow_key(metadata.target().to_owned(), now))
        {
            return Level::Debug;
        }
        metadata.level()
    }

    fn log_at(&self, record: &Record<'_>, now: Instant) {
        if self.log.enabled(record.metadata()) {
            let level = self.level(record.metadata(), now);
            let mut pairs = VisiblePairs::default();
            // It fails for no pair.
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

/// The values of a record, as they are shown.
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

/// Returns whether a record is a warning or an error of a library that reads what clients of media send.
fn is_of_media_protocol(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    metadata.level() <= Level::Warn && MEDIA_PROTOCOLS.contains(&library)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Keeps the levels and targets of the records that are logged at the level INFO.
    #[derive(Default)]
    struct Kept(Mutex<Vec<(Level, String)>>);

    /// Keeps what is shown of records.
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
}
