//! The log on stderr, at the level of `RUST_LOG`.

use env_logger::Env;
use log::{Level, Log, Metadata, Record};

/// Default of `RUST_LOG`. Omits start and stop messages of libraries.
const DEFAULT_LOG: &str = "info,ractor=warn,actix_server=warn";

/// The part of actix-http that speaks HTTP/1.1 with clients. It reports as errors what clients do wrong: malformed requests,
/// connections that break off.
const CLIENT_PROTOCOL: &str = "actix_http::h1";

/// Starts logging. Called once, first.
pub(super) fn start() {
    let logger = env_logger::Builder::from_env(Env::default().default_filter_or(DEFAULT_LOG)).build();
    log::set_max_level(logger.filter());
    // Only a second call could fail.
    let _ = log::set_boxed_logger(Box::new(ClientMistakesAsDebug(logger)));
}

/// Logs what a client does wrong for debugging only, since clients could fill the log otherwise.
struct ClientMistakesAsDebug<L>(L);

impl<L: Log> Log for ClientMistakesAsDebug<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(&lowered(metadata))
    }

    fn log(&self, record: &Record<'_>) {
        self.0.log(&record.to_builder().metadata(lowered(record.metadata())).build());
    }

    fn flush(&self) {
        self.0.flush();
    }
}

fn lowered<'a>(metadata: &Metadata<'a>) -> Metadata<'a> {
    let is_mistake = metadata.level() == Level::Error && metadata.target().starts_with(CLIENT_PROTOCOL);
    let level = if is_mistake { Level::Debug } else { metadata.level() };
    Metadata::builder().level(level).target(metadata.target()).build()
}
