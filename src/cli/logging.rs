//! The log on stderr, at the level of `RUST_LOG`.

use std::time::{Duration, Instant};

use conclave_model::Throttle;
use env_logger::Env;
use log::{Level, Log, Metadata, Record};

/// Default of `RUST_LOG`. Omits start and stop messages of libraries.
const DEFAULT_LOG: &str = "info,ractor=warn,actix_server=warn";

/// The part of actix-http that speaks HTTP/1.1 with clients. It reports as errors what clients do wrong: malformed requests,
/// connections that break off.
const CLIENT_PROTOCOL: &str = "actix_http::h1";

/// The crates that read what clients of media send. They report each packet and description that they cannot use, without the
/// client's name.
const MEDIA_PROTOCOLS: [&str; 7] = ["str0m", "sctp_proto", "dimpl", "is", "stun_types", "stun_proto", "turn_types"];

/// How often a part of them may report something.
const MEDIA_INTERVAL: Duration = Duration::from_secs(60);
/// How many parts may report something in that time.
const MOST_PARTS: usize = 1_000;

/// Starts logging. Called once, first.
pub(super) fn start() {
    let logger = env_logger::Builder::from_env(Env::default().default_filter_or(DEFAULT_LOG)).build();
    log::set_max_level(logger.filter());
    // Only a second call could fail.
    let _ = log::set_boxed_logger(Box::new(ClientMistakes::new(logger)));
}

/// Logs what a client does wrong for debugging only, or once a minute, since clients could fill the log otherwise.
struct ClientMistakes<L> {
    log: L,
    /// The lines of each part of the media protocols.
    reports: Throttle<String>,
}

impl<L: Log> ClientMistakes<L> {
    fn new(log: L) -> Self {
        Self { log, reports: Throttle::by_key(MEDIA_INTERVAL, MOST_PARTS) }
    }

    /// Returns the level at which a record is logged.
    fn level(&self, metadata: &Metadata<'_>, now: Instant) -> Level {
        let is_mistake = metadata.level() == Level::Error && metadata.target().starts_with(CLIENT_PROTOCOL);
        if is_mistake || (is_of_media_protocol(metadata) && !self.reports.allow_key(metadata.target().to_owned(), now))
        {
            return Level::Debug;
        }
        metadata.level()
    }

    fn log_at(&self, record: &Record<'_>, now: Instant) {
        if self.log.enabled(record.metadata()) {
            let level = self.level(record.metadata(), now);
            self.log.log(&record.to_builder().level(level).build());
        }
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

    impl Log for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.level() <= Level::Info
        }

        fn log(&self, record: &Record<'_>) {
            if self.enabled(record.metadata()) {
                self.0.lock().unwrap().push((record.level(), record.target().to_owned()));
            }
        }

        fn flush(&self) {}
    }

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
        let once = [(Level::Error, "sctp_proto::association"), (Level::Warn, "str0m::sdp::parser")];
        let expected: Vec<_> = once.into_iter().chain(once).map(|(level, target)| (level, target.to_owned())).collect();
        assert_eq!(*log.log.0.lock().unwrap(), expected);
    }

    #[test]
    fn other_records_are_logged_as_they_are() {
        let log = ClientMistakes::new(Kept::default());
        for target in ["str0mx", "isolated::part", "conclave_rtc::worker", "actix_server"] {
            for _ in 0..2 {
                log.log_at(&Record::builder().level(Level::Warn).target(target).build(), Instant::now());
            }
        }
        assert_eq!(log.log.0.lock().unwrap().len(), 8);
    }
}
